"""Sums and differences of what metrics come to: to the last digit, and without an end where one is infinite."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Context, Decimal
from functools import reduce

# Sums of Spark's decimals have 38 digits and more, Python's own context 28. What has no value is NaN, not an error.
_EXACT = Context(prec=100, traps=[])


def sum_of(values: Iterable[Decimal]) -> Decimal:
    """All of them together; NaN where some are endless in both directions."""
    return reduce(_EXACT.add, values, Decimal(0))


def difference(new: Decimal, old: Decimal) -> Decimal:
    """How far the new one is from the old; NaN where both are endless in the same direction."""
    return _EXACT.subtract(new, old)


def of_units(units: Decimal, scale: int) -> Decimal:
    """So many units of the last of `scale` digits after the point."""
    return _EXACT.scaleb(units, -scale)
