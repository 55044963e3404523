"""The brake of a run: pulled from another thread, for somebody at the keyboard or in another terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from threading import Lock
from typing import Any

from retcon.core.leases import StopRequest


class Stopped(Exception):
    """The run was asked to stop: raised where it stands."""


class Brake:
    """Pulled once, it stays pulled. While a publish holds it nobody can: that ends by itself, in moments."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._is_held = False
        self.pulled: Future[Any] = Future()
        """Done when it is pulled, so that one can wait for it along with work."""
        self.request: StopRequest | None = None

    @property
    def is_pulled(self) -> bool:
        return self.pulled.done()

    def pull(self, request: StopRequest, interrupt: Callable[[], None]) -> None:
        """Stop what runs; to be called again as long as something does."""
        with self._lock:
            if self._is_held:
                return
            if not self.is_pulled:
                self.request = request
                self.pulled.set_result(None)
            # A Spark that is gone has nothing to stop.
            with suppress(Exception):
                interrupt()

    def check(self) -> None:
        """Go no further if it is pulled."""
        if self.is_pulled:
            raise Stopped

    @contextmanager
    def held(self) -> Iterator[None]:
        """For what isn't stopped halfway."""
        with self._lock:
            self.check()
            self._is_held = True
        try:
            yield
        finally:
            with self._lock:
                self._is_held = False
