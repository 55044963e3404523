"""Dataclasses that are made when they are used.

Python 3.11 compiles six functions when it defines a frozen dataclass, which takes half a millisecond. A command loads
hundreds of them with the modules that it needs, and uses a third.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import Field, FrozenInstanceError
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

T = TypeVar("T")

_METHODS = {
    "__init__": {"repr": False, "eq": False},
    "__repr__": {"init": False, "eq": False},
    "__eq__": {"init": False, "repr": False},
    "__hash__": {"init": False, "repr": False},
}
"""What Python makes of a dataclass for its objects, and how it is told to make no more than that."""
_ABOUT_IT = ("__dataclass_params__", "__match_args__", "__dataclass_fields__")


if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:

    def dataclass(*, frozen: bool, kw_only: bool) -> Callable[[type[T]], type[T]]:
        """The standard library's, of which everything is made when something of it is first asked for."""
        assert frozen
        assert kw_only
        return _late


def _late(cls: type[T]) -> type[T]:
    written = {name: item for name, item in vars(cls).items() if name not in ("__dict__", "__weakref__")}
    for name in _METHODS:
        if name not in written:
            setattr(cls, name, _placeholder(cls, name, written))
    cls.__dataclass_fields__ = _Fields(cls, written)  # type: ignore[attr-defined] # what makes a class a dataclass
    cls.__setattr__ = cls.__delattr__ = _refuse  # type: ignore[method-assign] # of every class the same
    return cls


def _placeholder(cls: type, name: str, written: dict[str, Any]) -> Callable[..., Any]:
    def method(self: object, *args: Any, **given: Any) -> Any:
        _make(cls, name, written)
        return getattr(cls, name)(self, *args, **given)

    return method


class _Fields:
    """Stands for the fields of a class: `fields()` and classes that inherit from it ask for them."""

    def __init__(self, cls: type, written: dict[str, Any]) -> None:
        self._cls = cls
        self._written = written

    def __get__(self, instance: object, owner: Any) -> Any:
        _make(self._cls, "__init__", self._written)
        return owner.__dataclass_fields__


def _make(cls: type, method: str, written: dict[str, Any]) -> None:
    """Of a class with the same body, since what is made of it now must find nothing there. Threads that do this at
    once make the same.
    """
    twin = type(cls.__name__, cls.__bases__, written)
    made: Any = dataclasses.dataclass(frozen=True, kw_only=True, **_METHODS[method])(twin)
    if method == "__init__":
        for name in _ABOUT_IT:
            setattr(cls, name, getattr(made, name))
        for name in (name for name, item in written.items() if isinstance(item, Field)):
            setattr(cls, name, vars(made).get(name))
    setattr(cls, method, getattr(made, method))


def _refuse(self: object, name: str, *_: object) -> NoReturn:
    raise FrozenInstanceError(f"{type(self).__qualname__} can't be changed: {name!r}")
