"""Slices of history: the pieces that are planned, staged, proven and published."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from enum import StrEnum

from retcon.core.intervals import Interval

_EPOCH = date(1970, 1, 1)


class Grain(StrEnum):
    """How long a slice is."""

    DAY = "day"

    def ordinal(self, moment: date | datetime) -> int:
        """The slice that holds this moment, counted from 1970 as Iceberg's transforms count."""
        day = moment.astimezone(UTC).date() if isinstance(moment, datetime) else moment
        return (day - _EPOCH).days

    def start(self, ordinal: int) -> datetime:
        day = _EPOCH + timedelta(days=ordinal)
        return datetime(day.year, day.month, day.day, tzinfo=UTC)

    def label(self, ordinal: int) -> str:
        return self.start(ordinal).date().isoformat()

    def parse(self, label: str) -> int:
        return self.ordinal(date.fromisoformat(label))


@dataclass(frozen=True, order=True)
class Slice:
    """One addressable piece of one model's table."""

    grain: Grain
    ordinal: int

    @classmethod
    def of(cls, grain: Grain, moment: date | datetime) -> Slice:
        return cls(grain, grain.ordinal(moment))

    @property
    def label(self) -> str:
        return self.grain.label(self.ordinal)

    @property
    def interval(self) -> Interval:
        return Interval(self.grain.start(self.ordinal), self.grain.start(self.ordinal + 1))

    def __str__(self) -> str:
        return self.label


_RANGE = re.compile(r"\s*(?P<first>[^,\s]+?)(?:\.\.(?P<last>[^,\s]+))?\s*")


@dataclass(frozen=True)
class SliceSet:
    """Slices of one grain, sorted and without repetition."""

    grain: Grain
    ordinals: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if any(a >= b for a, b in zip(self.ordinals, self.ordinals[1:], strict=False)):
            raise ValueError("ordinals must be sorted and unique; use SliceSet.of")

    @classmethod
    def of(cls, grain: Grain, ordinals: Iterable[int]) -> SliceSet:
        return cls(grain, tuple(sorted(set(ordinals))))

    @classmethod
    def span(cls, grain: Grain, first: int, last: int) -> SliceSet:
        """Every slice from the first to the last, both included."""
        return cls(grain, tuple(range(first, last + 1)))

    @classmethod
    def covering(cls, grain: Grain, interval: Interval) -> SliceSet:
        """The slices that overlap the interval: a range that cuts a slice is widened outward."""
        last = grain.ordinal(interval.end)
        if grain.start(last) == interval.end:
            last -= 1
        return cls.span(grain, grain.ordinal(interval.start), last)

    @classmethod
    def parse(cls, grain: Grain, text: str) -> SliceSet:
        """The inverse of `text`."""
        ordinals: list[int] = []
        for part in filter(str.strip, text.split(",")):
            match = _RANGE.fullmatch(part)
            if match is None:
                raise ValueError(f"not a slice or a range of slices: {part!r}")
            first = grain.parse(match["first"])
            ordinals.extend(range(first, grain.parse(match["last"] or match["first"]) + 1))
        return cls.of(grain, ordinals)

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

    def intervals(self) -> list[Interval]:
        start = self.grain.start
        return [Interval(start(first), start(last + 1)) for first, last in self.ranges()]

    def widened(self, *, back: int = 0, ahead: int = 0) -> SliceSet:
        """With the `back` slices before and the `ahead` slices after each of them."""
        if not back and not ahead:
            return self
        spans = (range(first - back, last + ahead + 1) for first, last in self.ranges())
        return SliceSet.of(self.grain, (ordinal for span in spans for ordinal in span))

    def __iter__(self) -> Iterator[Slice]:
        return (Slice(self.grain, ordinal) for ordinal in self.ordinals)

    def __len__(self) -> int:
        return len(self.ordinals)

    def __contains__(self, item: Slice) -> bool:
        at = bisect_left(self.ordinals, item.ordinal)
        return at < len(self.ordinals) and self.ordinals[at] == item.ordinal and item.grain is self.grain

    def __or__(self, other: SliceSet) -> SliceSet:
        return SliceSet.of(self.grain, (*self.ordinals, *other.ordinals))

    def __and__(self, other: SliceSet) -> SliceSet:
        keep = set(other.ordinals)
        return SliceSet(self.grain, tuple(o for o in self.ordinals if o in keep))

    def __sub__(self, other: SliceSet) -> SliceSet:
        drop = set(other.ordinals)
        return SliceSet(self.grain, tuple(o for o in self.ordinals if o not in drop))
