"""Quantities as people write them: time spans, sizes, shares."""

from __future__ import annotations

import re
from datetime import timedelta
from decimal import Decimal

_DAYS = {"day": 1, "week": 7, "month": 30, "year": 365}
_SPAN = re.compile(r"([+-]?\d+)\s*(day|week|month|year)s?", re.IGNORECASE)
_REACH = re.compile(r"([+-]?\d+)\s*(hour|day|week|month|year)s?", re.IGNORECASE)
_HOURS = {"hour": 1, "day": 24, "week": 7 * 24}
_MOST_DAYS = 100 * 365

_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*(?:([kmgtp])(i?))?b", re.IGNORECASE)
_MOST_BYTES = 2**63 - 1

_PERCENT = re.compile(r"([+-]?\d+(?:\.\d+)?)\s*%")


def days_of(value: object) -> int:
    """A time span such as `14 days` or `3 months`, in days; a month has 30, a year 365."""
    match = _SPAN.fullmatch(value.strip()) if isinstance(value, str) else None
    if match is None:
        raise ValueError(f"must be a time span such as `14 days` or `3 months`{_instead_of(value)}")
    return _bounded(int(match[1]) * _DAYS[match[2].lower()])


def reach_of(value: object) -> int | timedelta:
    """How far a read goes around its slice: a whole number of slices, or a time such as `7 days`."""
    if isinstance(value, int) and not isinstance(value, bool):
        return _bounded(value)
    match = _REACH.fullmatch(value.strip()) if isinstance(value, str) else None
    if match is None:
        raise ValueError(f"must be a number of slices or a time such as `7 days`{_instead_of(value)}")
    number, unit = int(match[1]), match[2].lower()
    if unit not in _HOURS:
        raise ValueError(f"can't be `{value}`: {unit}s differ in length; give days, or a number of slices")
    hours = number * _HOURS[unit]
    _bounded(hours // 24)
    return timedelta(hours=hours)


def _bounded(days: int) -> int:
    if days < 0:
        raise ValueError("can't be negative")
    if days > _MOST_DAYS:
        raise ValueError("can't be more than 100 years")
    return days


def bytes_of(value: object) -> int:
    """A size such as `1 TB`, `10 GiB`, or a plain number of bytes."""
    if isinstance(value, int) and not isinstance(value, bool):
        size = value
    else:
        match = _SIZE.fullmatch(value.strip()) if isinstance(value, str) else None
        if match is None:
            raise ValueError(f"must be a size such as `500 GB` or `10 GiB`{_instead_of(value)}")
        power = " kmgtp".index((match[2] or " ").lower())
        size = int(Decimal(match[1]) * (1024 if match[3] else 1000) ** power)
    if not 0 < size <= _MOST_BYTES:
        raise ValueError("must be at least 1 byte and less than 9 EB")
    return size


def share_of(value: object) -> Decimal:
    """A share such as `20%` or 0.2, exactly."""
    if isinstance(value, str) and (match := _PERCENT.fullmatch(value.strip())):
        return Decimal(match[1]) / 100
    if isinstance(value, int | float) and not isinstance(value, bool) and -1 <= value <= 1:
        # the shortest text of a float is what the author wrote; Decimal(0.2) itself would be 0.2000000000000000111
        return Decimal(str(value))
    raise ValueError(f"must be a share such as `20%` or `0.2`{_instead_of(value)}")


def unsigned_share_of(value: object) -> Decimal:
    """A share that says how far something may move, in either direction."""
    share = share_of(value)
    if share < 0:
        raise ValueError("can't be negative")
    return share


def _instead_of(value: object) -> str:
    return f", not `{value}`" if isinstance(value, str | int | float) and len(str(value)) <= 40 else ""
