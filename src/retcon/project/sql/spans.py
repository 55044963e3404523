"""Days around a slice: for which of them a relation is complete, and how far apart columns lie."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from math import inf

from retcon.values import dataclass


@dataclass(frozen=True, kw_only=True)
class Field:
    """A column of one source in a query; names fold as Spark folds them."""

    source: int
    name: str


@dataclass(frozen=True, kw_only=True)
class Gap:
    """Between how many days one column lies after another."""

    low: float = -inf
    high: float = inf

    @property
    def is_bounded(self) -> bool:
        return self.low > -inf and self.high < inf

    def widened(self, *, back: float, ahead: float) -> Gap:
        return Gap(low=self.low - back, high=self.high + ahead)


@dataclass(frozen=True, kw_only=True)
class Span:
    """The days, counted from a slice's first and from its last, for which a relation holds every row that it would hold
    over all of history.

    The claim is about the rows whose day, in some column, lies within the span. It holds for whatever set of slices is
    read, as long as this slice is among them; so where the span holds the slice itself, a wave and a slice agree.
    """

    first: float
    last: float

    @property
    def is_empty(self) -> bool:
        return self.first > self.last

    @property
    def holds_slice(self) -> bool:
        return self.first <= 0 <= self.last

    def within(self, other: Span) -> Span:
        return Span(first=max(self.first, other.first), last=min(self.last, other.last))

    def seen_from(self, gap: Gap) -> Span:
        """The days from which everything at this gap lies within the span."""
        return Span(first=self.first - gap.low, last=self.last - gap.high)


NOWHERE = Span(first=inf, last=-inf)


@dataclass(frozen=True, kw_only=True)
class Bound:
    """A condition that holds a column within a gap after another one."""

    earlier: Field
    later: Field
    gap: Gap


@dataclass(frozen=True, kw_only=True)
class SliceBound:
    """A condition that holds a column to the first or the last of the slices that are computed."""

    field: Field
    is_start: bool
    gap: Gap

    def clip(self, span: Span) -> Span:
        """The days of the span for which the condition is true, however many slices are computed together."""
        if self.is_start:
            return span.within(Span(first=self.gap.low, last=inf)) if self.gap.high == inf else NOWHERE
        return span.within(Span(first=-inf, last=self.gap.high)) if self.gap.low == -inf else NOWHERE


Condition = Bound | SliceBound


class Gaps:
    """All that a set of conditions says about the days between columns, taken together."""

    def __init__(self, bounds: Iterable[Bound]) -> None:
        self._most: dict[Field, dict[Field, float]] = {}
        for bound in bounds:
            self._tighten(bound.earlier, bound.later, bound.gap.high)
            self._tighten(bound.later, bound.earlier, -bound.gap.low)

    def _tighten(self, start: Field, end: Field, most: float) -> None:
        ahead = self._most.setdefault(start, {})
        ahead[end] = min(most, ahead.get(end, inf))

    def between(self, earlier: Field, later: Field) -> Gap:
        """How many days the later column lies after the earlier one."""
        if earlier == later:
            return Gap(low=0, high=0)
        return Gap(low=-self._furthest(later).get(earlier, inf), high=self._furthest(earlier).get(later, inf))

    def _furthest(self, start: Field) -> Mapping[Field, float]:
        """The most that each column can lie after this one."""
        furthest: dict[Field, float] = {start: 0}
        for _ in range(len(self._most) + 1):  # contradictory conditions would go on for ever; they hold for no row
            for field, ahead in self._most.items():
                for end, most in ahead.items():
                    if furthest.get(field, inf) + most < furthest.get(end, inf):
                        furthest[end] = furthest[field] + most
        return furthest

    def seen_from(self, field: Field, spans: Mapping[Field, Span]) -> Span:
        """For which days of the field a relation with these spans is complete; the best of its columns counts."""
        candidates = (span.seen_from(self.between(field, other)) for other, span in spans.items())
        kept = [span for span in candidates if not span.is_empty]
        return max(kept, key=lambda span: (span.holds_slice, span.last - span.first), default=NOWHERE)

    def columns_of(self, sources: Container[int]) -> list[Field]:
        """The columns of these sources that any condition mentions."""
        return [field for field in self._most if field.source in sources]

    def has_bounded(self, fields: Iterable[Field], others: Iterable[Field]) -> bool:
        """Is any of the fields held near any of the others?"""
        there = list(others)
        return any(self.between(field, other).is_bounded for field in fields for other in there)
