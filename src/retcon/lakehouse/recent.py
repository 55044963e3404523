"""What was found out a moment ago, and needn't be found out again yet."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from threading import Lock
from time import monotonic
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")

_A_WHILE = 60.0
"""Seconds. A catalog that lends keys to a table's files lends them for longer."""


class Recent(Generic[K, T]):
    """Answers by what was asked, for a minute. For what several waves ask, and what stays true for that long."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._found: dict[K, tuple[float, T]] = {}
        self._lock = Lock()

    def get(self, key: K, find: Callable[[], T]) -> T:
        """What was found, or is found now. Two that ask at once may both find it out; both get one answer."""
        now = self._clock()
        with self._lock:
            self._found = {each: held for each, held in self._found.items() if now - held[0] < _A_WHILE}
            if key in self._found:
                return self._found[key][1]
        found = find()
        with self._lock:
            return self._found.setdefault(key, (now, found))[1]

    def forget(self) -> None:
        """All of it."""
        with self._lock:
            self._found.clear()
