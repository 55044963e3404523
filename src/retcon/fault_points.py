"""Fault points: every step that changes something outside this process has a name, at which a test can end it.

    with _BRANCH_COMMIT:
        writer.overwrite(condition)

Nobody listens outside tests, and then nothing happens. All points are listed, so that one without a crash test fails
the suite.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from types import TracebackType

Listener = Callable[["FaultPoint", "Side"], None]

_points: dict[str, FaultPoint] = {}
_listeners: list[Listener] = []


class Side(StrEnum):
    """Where a step is hit: nothing of it happened yet, or all of it did and nobody knows."""

    BEFORE = "before"
    AFTER = "after"


class FaultPoint:
    """One step, to be entered around what it does."""

    def __init__(self, name: str) -> None:
        if name in _points:
            raise ValueError(f"two fault points are called {name}")
        self.name = name
        _points[name] = self

    def __enter__(self) -> None:
        self._tell(Side.BEFORE)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if error is None:
            self._tell(Side.AFTER)

    def __repr__(self) -> str:
        return f"FaultPoint({self.name!r})"

    def _tell(self, side: Side) -> None:
        for listener in tuple(_listeners):
            listener(self, side)


def every_fault_point() -> tuple[FaultPoint, ...]:
    """All points of the modules that are loaded, by name."""
    return tuple(point for _, point in sorted(_points.items()))


@contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Hear of every step, in whichever thread it is taken; what the listener raises ends it there."""
    _listeners.append(listener)
    try:
        yield
    finally:
        _listeners.remove(listener)
