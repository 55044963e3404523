"""How many rows a slice usually has: judged by earlier slices like it, so that one odd count doesn't matter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice
from math import ceil, floor
from statistics import median
from typing import TypeVar

from retcon.core.slices import Grain, Slice
from retcon.values import dataclass

N = TypeVar("N", int, float)

LEAST = 4
"""Earlier slices that it takes to say what is usual."""
_LEAST_SHARE, _LEAST_ROWS = 0.1, 2
"""Every slice may be so far from the median, however steady the ones before it were."""
_NORMAL = 1.4826
"""Of normally distributed counts, the standard deviation in median absolute deviations."""
_LIKE = {Grain.HOUR: 24, Grain.DAY: 7}
_DAYS = ("Mondays", "Tuesdays", "Wednesdays", "Thursdays", "Fridays", "Saturdays", "Sundays")


@dataclass(frozen=True, kw_only=True)
class RowHistory:
    """How many earlier slices are looked at, and how far from them a slice may be."""

    slices: int = 8
    deviations: float = 4.0


@dataclass(frozen=True, kw_only=True)
class Usual:
    """The rows that a slice is expected to have."""

    low: int
    high: int
    text: str
    """What it is judged by."""


@dataclass(frozen=True, kw_only=True)
class UsualNumber:
    """What some number of a slice is expected to be."""

    low: float
    high: float
    text: str


def usual_rows(slice: Slice, published: Mapping[int, int], history: RowHistory) -> Usual | None:
    """From the rows of published slices by ordinal; None where too few of them are earlier and like this one."""
    usual = usual_number(slice, published, history, least=_LEAST_ROWS)
    return None if usual is None else Usual(low=max(ceil(usual.low), 0), high=floor(usual.high), text=usual.text)


def usual_number(
    slice: Slice, published: Mapping[int, N], history: RowHistory, *, least: float = 0.0
) -> UsualNumber | None:
    """The same of any number: a tenth of the median, and `least`, are let pass."""
    numbers = _earlier(slice, published, history.slices)
    if len(numbers) < LEAST:
        return None
    middle = median(numbers)
    spread = _NORMAL * median(abs(number - middle) for number in numbers)
    far = max(history.deviations * spread, _LEAST_SHARE * abs(middle), least)
    text = f"median {middle:,g} of {len(numbers)} earlier {_kind(slice)}"
    return UsualNumber(low=middle - far, high=middle + far, text=text)


def _earlier(slice: Slice, published: Mapping[int, N], most: int) -> Sequence[N]:
    """The nearest ones before it: of the same weekday for days, of the same hour for hours."""
    if not isinstance(slice.grain, Grain) or not published:
        return ()
    step = _LIKE.get(slice.grain, 1)
    before = range(slice.ordinal - step, min(published) - 1, -step)
    return tuple(islice((published[ordinal] for ordinal in before if ordinal in published), most))


def _kind(slice: Slice) -> str:
    if slice.grain is Grain.DAY:
        return _DAYS[slice.interval.start.weekday()]
    return "slices of the same hour" if slice.grain is Grain.HOUR else "slices"
