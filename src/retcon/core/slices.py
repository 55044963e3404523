"""Slices of history: the pieces that are planned, staged, proven and published."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from enum import StrEnum
from functools import lru_cache
from itertools import pairwise

from retcon.core.intervals import Interval

_EPOCH = date(1970, 1, 1)
_START = datetime(1970, 1, 1, tzinfo=UTC)
_HOUR = timedelta(hours=1)


class Grain(StrEnum):
    """How long a slice is. Slices are counted as Iceberg's transforms count; weeks from Monday 1969-12-29."""

    HOUR = "hour"
    DAY = "day"
    WEEK = "week"
    MONTH = "month"
    YEAR = "year"

    def ordinal(self, moment: date | datetime) -> int:
        """The slice that holds this moment; of a date, its midnight."""
        if isinstance(moment, datetime):
            return self.holding((moment - _START) // _HOUR)
        return self.holding((moment - _EPOCH).days * 24)

    def start(self, ordinal: int) -> datetime:
        return _START + self.first_hour(ordinal) * _HOUR

    def first_hour(self, ordinal: int) -> int:
        """The slice's first hour, counted from 1970: numbers go on where dates end."""
        match self:
            case Grain.HOUR:
                return ordinal
            case Grain.DAY:
                return ordinal * 24
            case Grain.WEEK:
                return (ordinal * 7 - 3) * 24
            case Grain.MONTH:
                return _first_day(1970 + ordinal // 12, ordinal % 12 + 1) * 24
            case Grain.YEAR:
                return _first_day(1970 + ordinal, 1) * 24

    def holding(self, hour: int) -> int:
        """The slice that holds this hour, counted from 1970."""
        match self:
            case Grain.HOUR:
                return hour
            case Grain.DAY:
                return hour // 24
            case Grain.WEEK:
                return (hour // 24 + 3) // 7
            case Grain.MONTH:
                year, month = _month_of(hour // 24)
                return (year - 1970) * 12 + month - 1
            case Grain.YEAR:
                return _month_of(hour // 24)[0] - 1970

    @lru_cache(maxsize=100_000)  # the five grains are there for good
    def label(self, ordinal: int) -> str:
        """`2026-01-22T05`, `2026-01-22`, `2026-W04`, `2026-01`, `2026`."""
        start = self.start(ordinal)
        if self is Grain.WEEK:
            year, week, _ = start.isocalendar()
            return f"{year:04}-W{week:02}"
        # isoformat, since strftime writes years before 1000 with fewer digits.
        return start.isoformat()[: _LABELS[self][1]]

    def parse(self, label: str) -> int:
        """The inverse of `label`."""
        pattern, _, example = _LABELS[self]
        match = pattern.fullmatch(label)
        if match is None:
            raise ValueError(f"{label!r} isn't {self.noun} such as {example}")
        numbers = [int(part) for part in match.groups()]
        try:
            if self is Grain.WEEK:
                return self.ordinal(date.fromisocalendar(numbers[0], numbers[1], 1))
            year, month, day, hour = (*numbers, *(1, 1, 0)[len(numbers) - 1 :])
            return self.ordinal(datetime(year, month, day, hour, tzinfo=UTC))
        except ValueError:
            raise ValueError(f"there is no {self.value} {label}") from None

    @property
    def noun(self) -> str:
        return f"an {self.value}" if self is Grain.HOUR else f"a {self.value}"

    def is_shorter(self, than: Grain) -> bool:
        return list(Grain).index(self) < list(Grain).index(than)

    def divides(self, other: Grain) -> bool:
        """Is every slice of the other grain made of whole slices of this one?"""
        return other in _MADE_OF[self]

    def common(self, other: Grain) -> Grain:
        """The coarsest grain that divides both."""
        if self.divides(other):
            return self
        return other if other.divides(self) else Grain.DAY


_LABELS = {
    Grain.HOUR: (re.compile(r"(\d{4})-(\d\d)-(\d\d)T(\d\d)"), 13, "2026-01-22T05"),
    Grain.DAY: (re.compile(r"(\d{4})-(\d\d)-(\d\d)"), 10, "2026-01-22"),
    Grain.WEEK: (re.compile(r"(\d{4})-W(\d\d)"), 0, "2026-W04"),
    Grain.MONTH: (re.compile(r"(\d{4})-(\d\d)"), 7, "2026-01"),
    Grain.YEAR: (re.compile(r"(\d{4})"), 4, "2026"),
}
_MADE_OF = {
    Grain.HOUR: frozenset(Grain),
    Grain.DAY: frozenset(Grain) - {Grain.HOUR},
    Grain.WEEK: frozenset({Grain.WEEK}),
    Grain.MONTH: frozenset({Grain.MONTH, Grain.YEAR}),
    Grain.YEAR: frozenset({Grain.YEAR}),
}


def _first_day(year: int, month: int) -> int:
    """Days from 1970 to the first of a month, in any year: dates end with 9999, and what ends then ends later."""
    years = year - (month <= 2)  # years that begin in March, so that a leap day is a year's last
    days = (153 * ((month + 9) % 12) + 2) // 5
    return years * 365 + years // 4 - years // 100 + years // 400 + days - 719_468


def _month_of(day: int) -> tuple[int, int]:
    """The year and month of a day counted from 1970; the inverse of `_first_day`."""
    era, day_of_era = divmod(day + 719_468, 146_097)
    years = (day_of_era - day_of_era // 1_460 + day_of_era // 36_524 - day_of_era // 146_096) // 365
    day_of_year = day_of_era - (365 * years + years // 4 - years // 100)
    month = ((5 * day_of_year + 2) // 153 + 2) % 12 + 1
    return era * 400 + years + (month <= 2), month


@dataclass(frozen=True, order=True)
class Whole:
    """No cut at all: the whole table is one slice."""

    def label(self, ordinal: int) -> str:  # noqa: ARG002 - as every cut has it
        return "all"

    def parse(self, label: str) -> int:
        if label != "all":
            raise ValueError(f"{label!r} isn't `all`, the one slice of a table that isn't cut")
        return 0

    def __str__(self) -> str:
        return "whole"


WHOLE = Whole()


@dataclass(frozen=True, order=True)
class Buckets:
    """A fixed number of pieces, by a hash of the slice column as Iceberg's `bucket` takes it."""

    number: int

    def label(self, ordinal: int) -> str:
        """`b07`, as wide as the last one."""
        return f"b{ordinal:0{len(str(self.number - 1))}}"

    def parse(self, label: str) -> int:
        """The inverse of `label`."""
        ordinal = int(label[1:]) if re.fullmatch(r"b[0-9]+", label) else -1
        if not 0 <= ordinal < self.number or self.label(ordinal) != label:
            raise ValueError(f"{label!r} isn't one of {self}, {self.label(0)} to {self.label(self.number - 1)}")
        return ordinal

    def __str__(self) -> str:
        return f"{self.number} buckets"


Cut = Grain | Whole | Buckets
"""How a table is cut into slices; only grains are cut by time."""

_BUCKETS = re.compile(r"([1-9][0-9]*) buckets")


def cut_of(name: str) -> Cut:
    """The inverse of `str`."""
    buckets = _BUCKETS.fullmatch(name)
    if buckets is not None:
        return Buckets(int(buckets[1]))
    return WHOLE if name == str(WHOLE) else Grain(name)


@dataclass(frozen=True, order=True)
class Slice:
    """One addressable piece of one model's table."""

    grain: Cut
    ordinal: int

    @classmethod
    def of(cls, grain: Grain, moment: date | datetime) -> Slice:
        return cls(grain, grain.ordinal(moment))

    @property
    def label(self) -> str:
        return self.grain.label(self.ordinal)

    @property
    def interval(self) -> Interval:
        grain = _timed(self.grain)
        return Interval(grain.start(self.ordinal), grain.start(self.ordinal + 1))

    def __str__(self) -> str:
        return self.label


_RANGE = re.compile(r"\s*(?P<first>[^,\s]+?)(?:\.\.(?P<last>[^,\s]+))?\s*")


@dataclass(frozen=True)
class SliceSet:
    """Slices of one grain, sorted and without repetition."""

    grain: Cut
    ordinals: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        # Most are of one slice, asked about alone.
        if len(self.ordinals) > 1 and any(a >= b for a, b in pairwise(self.ordinals)):
            raise ValueError("ordinals must be sorted and unique; use SliceSet.of")

    @classmethod
    def of(cls, grain: Cut, ordinals: Iterable[int]) -> SliceSet:
        return cls(grain, tuple(sorted(set(ordinals))))

    @classmethod
    def span(cls, grain: Cut, first: int, last: int) -> SliceSet:
        """Every slice from the first to the last, both included."""
        return cls(grain, tuple(range(first, last + 1)))

    @classmethod
    def every(cls, cut: Whole | Buckets) -> SliceSet:
        """All slices of a table that isn't cut by time."""
        return cls.span(cut, 0, 0 if isinstance(cut, Whole) else cut.number - 1)

    @classmethod
    def covering(cls, cut: Cut, interval: Interval) -> SliceSet:
        """The slices that overlap the interval: a range that cuts a slice is widened outward."""
        if not isinstance(cut, Grain):
            return cls.every(cut)
        last = cut.ordinal(interval.end)
        if cut.start(last) == interval.end:
            last -= 1
        return cls.span(cut, cut.ordinal(interval.start), last)

    @classmethod
    def over(cls, cut: Cut, hours: Iterable[tuple[int, int]]) -> SliceSet:
        """The slices that hold some of these hours, given as ranges (first, last)."""
        if not isinstance(cut, Grain):
            return cls.every(cut) if any(True for _ in hours) else cls(cut)
        spans = (range(cut.holding(first), cut.holding(last) + 1) for first, last in hours)
        return cls.of(cut, (ordinal for span in spans for ordinal in span))

    @classmethod
    def parse(cls, grain: Cut, text: str) -> SliceSet:
        """The inverse of `text`."""
        ordinals: list[int] = []
        for part in filter(str.strip, text.split(",")):
            match = _RANGE.fullmatch(part)
            if match is None:
                raise ValueError(f"not a slice or a range of slices: {part!r}")
            first = grain.parse(match["first"])
            ordinals.extend(range(first, grain.parse(match["last"] or match["first"]) + 1))
        return cls.of(grain, ordinals)

    @classmethod
    def labelled(cls, cut: Cut, labels: Iterable[str]) -> SliceSet:
        """The slices with these labels; those from when the table was cut otherwise name none."""
        ordinals: list[int] = []
        for label in labels:
            try:
                ordinals.append(cut.parse(label))
            except ValueError:
                continue
        return cls.of(cut, ordinals)

    @property
    def labels(self) -> tuple[str, ...]:
        return tuple(self.grain.label(ordinal) for ordinal in self.ordinals)

    @property
    def text(self) -> str:
        """Ranges as people write them: `2025-10-25..2026-01-22, 2026-02-03`."""
        label = self.grain.label
        return ", ".join(
            label(first) if first == last else f"{label(first)}..{label(last)}" for first, last in self.ranges()
        )

    def ranges(self) -> list[tuple[int, int]]:
        """Runs of adjacent slices, as (first, last)."""
        ranges: list[tuple[int, int]] = []
        for ordinal in self.ordinals:
            if ranges and ranges[-1][1] == ordinal - 1:
                ranges[-1] = (ranges[-1][0], ordinal)
            else:
                ranges.append((ordinal, ordinal))
        return ranges

    def hours(self) -> list[tuple[int, int]]:
        """Runs of hours that the slices are made of, as (first, last), counted from 1970."""
        first_hour = _timed(self.grain).first_hour
        return [(first_hour(first), first_hour(last + 1) - 1) for first, last in self.ranges()]

    def intervals(self) -> list[Interval]:
        start = _timed(self.grain).start
        return [Interval(start(first), start(last + 1)) for first, last in self.ranges()]

    def hull(self) -> Interval:
        """From the start of the first slice to the end of the last."""
        start = _timed(self.grain).start
        return Interval(start(self.ordinals[0]), start(self.ordinals[-1] + 1))

    def recut(self, cut: Cut) -> SliceSet:
        """The slices of another grain that cover these."""
        if cut == self.grain:
            return self
        if not isinstance(cut, Grain):
            return SliceSet.every(cut) if self.ordinals else SliceSet(cut)
        return SliceSet.over(cut, self.hours())

    def __iter__(self) -> Iterator[Slice]:
        return (Slice(self.grain, ordinal) for ordinal in self.ordinals)

    def __len__(self) -> int:
        return len(self.ordinals)

    def __contains__(self, item: Slice) -> bool:
        return item.grain == self.grain and self._holds(item.ordinal)

    def _holds(self, ordinal: int) -> bool:
        at = bisect_left(self.ordinals, ordinal)
        return at < len(self.ordinals) and self.ordinals[at] == ordinal

    def __or__(self, other: SliceSet) -> SliceSet:
        return SliceSet.of(self.grain, (*self.ordinals, *self._alike(other)))

    def __and__(self, other: SliceSet) -> SliceSet:
        self._alike(other)
        # One hour among those of a year is looked for once, not all of them for each.
        few, many = (self, other) if len(self) < len(other) else (other, self)
        return SliceSet(self.grain, tuple(o for o in few.ordinals if many._holds(o)))

    def __sub__(self, other: SliceSet) -> SliceSet:
        drop = set(self._alike(other))
        return SliceSet(self.grain, tuple(o for o in self.ordinals if o not in drop))

    def _alike(self, other: SliceSet) -> tuple[int, ...]:
        if other.grain != self.grain:
            raise ValueError(f"slices by {self.grain} and by {other.grain} don't go together; recut one of them")
        return other.ordinals


def _timed(cut: Cut) -> Grain:
    if not isinstance(cut, Grain):
        raise ValueError("a table that isn't cut by time has no intervals")
    return cut
