"""Migrations: whether a model computed slice by slice is what it is computed whole."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta

from retcon.core.measures import FullRefresh, SliceMeasure
from retcon.core.models import Input, Model, OnChange, Strategy, reach_text
from retcon.core.slices import Grain, Slice, SliceSet
from retcon.errors import Refused
from retcon.values import dataclass


@dataclass(frozen=True, kw_only=True)
class ComparedSlice:
    """One slice, computed both ways from the same inputs."""

    slice: Slice
    incremental: SliceMeasure
    full: SliceMeasure
    apart: int
    """Rows that differ by more than another order of summing explains."""

    @property
    def is_same(self) -> bool:
        return not self.apart


@dataclass(frozen=True, kw_only=True)
class Cost:
    """Seconds that each way took; the full refresh wasn't written."""

    incremental: float
    waves: int
    full: float


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """What both ways gave, slice by slice."""

    model: str
    run: str
    slices: tuple[ComparedSlice, ...]
    full_rows: int
    """Of the full refresh, in all of history."""
    unsliced: int
    """Rows of it that are in no slice: nothing that is computed by slices has them."""
    cost: Cost
    additive: tuple[str, ...] = ()
    """Metrics of which the whole is the sum of the slices."""
    readers: tuple[str, ...] = ()
    """Models that the run restates along with it."""
    reasons: tuple[str, ...] = ()
    """Where a difference may come from."""
    notes: tuple[str, ...] = ()
    """What a full refresh does and loads won't, though both give the same now."""

    @property
    def is_same(self) -> bool:
        return not self.unsliced and all(each.is_same for each in self.slices)

    @property
    def differing(self) -> SliceSet:
        """The slices that aren't the same."""
        return SliceSet.of(self.covered.grain, (each.slice.ordinal for each in self.slices if not each.is_same))

    @property
    def covered(self) -> SliceSet:
        return SliceSet.of(self.slices[0].slice.grain, (each.slice.ordinal for each in self.slices))


def require_migratable(model: Model) -> None:
    """Refused where computing a model by slices and computing it whole aren't two ways to the same table."""
    state = "nothing was planned"
    if not isinstance(model.grain, Grain):
        raise Refused(
            f"{model.name} isn't cut by time: there is no day that could be computed by itself",
            state=state,
            next=f"write `slices: {{by: …, every: day}}` into {model.path}",
        )
    if model.strategy is not Strategy.REPLACE:
        why = (
            "each plan of it replaces all slices"
            if model.strategy is Strategy.FULL
            else "what it merges into is part of its result"
        )
        raise Refused(
            f"{model.name} has `strategy: {model.strategy.value}`: {why}",
            state=state,
            next=f"in {model.path}, leave `strategy` out: slices are replaced then",
        )
    if model.reads_itself:
        raise Refused(
            f"{model.name} reads its own earlier slices: it can't be computed whole, only slice after slice",
            state=state,
            next="compare it under another name with a query that doesn't",
        )
    past = [i.table for i in model.inputs if i.at_slice_end]
    if past:
        raise Refused(
            f"{model.name} reads {past[0]} as it was when each slice ended: no full refresh does that",
            state=state,
            next="leave `as_of: slice` out, migrate, and add it after that",
        )


def last_days(held: SliceSet, days: int, now: datetime) -> SliceSet:
    """The slices of the last days that are held and over; longer slices that begin before them are included."""
    over = [slice for slice in held if slice.interval.end <= now]
    if not over:
        return SliceSet(held.grain)
    begins = over[-1].interval.end - timedelta(days=days)
    return SliceSet.of(held.grain, (slice.ordinal for slice in over if slice.interval.end > begins))


def suspects(incremental: Mapping[Slice, SliceMeasure], full: FullRefresh) -> SliceSet:
    """Slices whose checksums differ: mostly they do, too, but for sums of floating-point numbers."""
    grain = next(iter(incremental)).grain
    return SliceSet.of(
        grain, (at.ordinal for at, each in incremental.items() if each.checksum != full.slices[at].checksum)
    )


def likely_reasons(model: Model, *, unsliced: int) -> Iterator[str]:
    """Where a difference between both ways can come from, as far as the model's file tells."""
    if unsliced:
        yield f"{unsliced:,} rows of the full refresh have no {model.slicing.by}: no slice holds them"
    for i in model.inputs:
        if i.time is not None:
            yield f"{i.table} is read {_reach(i)}: rows further away are seen by the full refresh only"
    for reason in model.batching.reasons:
        said = "against `sliceable: true`, which stands" if model.batching.vouched else "so slices may depend on others"
        yield f"{reason}: {said}"
    if model.needs_contiguous_waves:
        yield "`:start_date` and the like mean the slices that are computed, and all of history in the full refresh"
    if model.nondeterministic:
        yield f"its results vary, by its own word: {model.nondeterministic}"


def _reach(i: Input) -> str:
    reaches = [f"{name} {reach_text(reach)}" for name, reach in _reaches(i) if reach]
    return f"with {' and '.join(reaches)}" if reaches else "without lookback or lookahead"


def _reaches(i: Input) -> tuple[tuple[str, int | timedelta], ...]:
    return ("lookback", i.lookback), ("lookahead", i.lookahead)


def lost_notes(model: Model) -> Iterator[str]:
    """What a full refresh took in each time, and loads won't."""
    for i in model.inputs:
        if i.on_change is OnChange.IGNORE:
            yield (
                f"{i.table}: a change of it came into every slice with the next full refresh; loads leave slices that "
                "are there as they are, unless the input says `on_change: restate`"
            )
    if model.replay.window_days is not None:
        yield (
            f"changes of slices older than {model.replay.window_days} days came in, too; loads record them as "
            "exceptions, for somebody to decide"
        )
