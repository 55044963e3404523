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

_METHODS = ("__repr__", "__eq__", "__hash__", "__init__")
"""What Python makes of a dataclass for its objects; the last one stands for all."""
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
        _make(cls, written)
        return getattr(cls, name)(self, *args, **given)

    return method


class _Fields:
    """Stands for the fields of a class: `fields()` and classes that inherit from it ask for them."""

    def __init__(self, cls: type, written: dict[str, Any]) -> None:
        self._cls = cls
        self._written = written

    def __get__(self, instance: object, owner: Any) -> Any:
        _make(self._cls, self._written)
        return owner.__dataclass_fields__


def _make(cls: type, written: dict[str, Any]) -> None:
    """Of a class with the same body, since what is made of it now must find nothing there. Threads that do this at
    once make the same.
    """
    made: Any = dataclasses.dataclass(frozen=True, kw_only=True)(type(cls.__name__, cls.__bases__, written))
    for name, item in written.items():
        if isinstance(item, Field):
            setattr(cls, name, vars(made).get(name))
    for name in (*_ABOUT_IT, *_METHODS):
        setattr(cls, name, getattr(made, name))


def _refuse(self: object, name: str, *_: object) -> NoReturn:
    raise FrozenInstanceError(f"{type(self).__qualname__} can't be changed: {name!r}")
