"""Retries: which failures are worth another try, and how long to wait before it."""

from __future__ import annotations

from retcon.errors import Fault

TRIES = 3
"""Of one wave, in one call of `apply`."""
_FIRST = 5.0
_FACTOR = 3.0


def is_worth_another_try(error: Exception, tries: int) -> bool:
    """Could it go otherwise next time? What the project or its code got wrong would fail again."""
    return isinstance(error, Fault) and error.retryable and tries < TRIES


def seconds_before_next(tries: int, draw: float) -> float:
    """Longer after each failure, and drawn (from 0 to 1): waves that fail together needn't come back together."""
    return _FIRST * _FACTOR ** (tries - 1) * (0.5 + draw)
