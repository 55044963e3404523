"""Loads: what of a model has to be computed because its inputs changed, and what of that is done now."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field, replace
from datetime import UTC, datetime, timedelta

from retcon.core.exceptions import LateChange
from retcon.core.models import Input, Model, OnChange
from retcon.core.slices import Grain, SliceSet
from retcon.core.watermarks import Advance
from retcon.errors import Refused
from retcon.values import dataclass

NEVER_BUILT = "never built"
"""Why a slice is stale of which no input tells."""


@dataclass(frozen=True, kw_only=True)
class Found:
    """What became of a model's inputs since its slices were computed."""

    model: str
    stale: SliceSet
    """To be computed: an input has other content than was consumed, or the slice was never built."""
    why: Mapping[str, SliceSet] = field(default_factory=dict)
    """By input: the slices that are stale because of it."""
    held: SliceSet
    """Undone by a rollback: left alone until a new plan."""
    late: SliceSet
    """Older than the model's window: for somebody to decide."""
    exceptions: tuple[LateChange, ...] = ()
    """Those of them that aren't on record."""
    waiting: Mapping[str, SliceSet] = field(default_factory=dict)
    """By table that lacks something: slices that can't be computed yet."""
    advances: tuple[Advance, ...] = ()
    """How far each input is consumed, once everything stale is published."""
    unseen: tuple[str, ...] = ()
    """Tables whose changes can't be seen."""
    set_back: Mapping[str, str] = field(default_factory=dict)
    """By table: why it looks as if it was restored from a backup. Nothing is loaded until somebody resets its mark."""
    gone: tuple[str, ...] = ()
    """Tables that aren't there. Nothing is loaded until they are."""
    notes: tuple[str, ...] = ()
    """What is to be said of the rows that were looked at."""
    compared: SliceSet | None = None
    """The whole history, where it was compared with what was consumed; None: only what changed was looked at."""

    @property
    def is_left_alone(self) -> bool:
        """Can't it be told what has to be loaded?"""
        return bool(self.set_back or self.gone)

    @property
    def differs(self) -> Mapping[str, SliceSet]:
        """By input: the slices of the history that was compared which were computed from something else."""
        whole = self.compared
        hits = {} if whole is None else {name: slices & whole for name, slices in self.why.items()}
        return {name: slices for name, slices in hits.items() if slices}


@dataclass(frozen=True, kw_only=True)
class Stale:
    """What of a model isn't what would be computed now."""

    model: str
    compared: SliceSet
    """Everything that is published, or could be."""
    by_input: Mapping[str, SliceSet]
    """Computed from other content of an input than it has now."""
    by_code: SliceSet
    """Computed by other code, or with other settings."""
    missing: SliceSet
    """Never built, though the inputs hold it."""
    unknown: SliceSet
    """There before retcon wrote it: nobody knows what it was computed from."""
    unseen: tuple[str, ...] = ()

    def within(self, slices: SliceSet) -> Stale:
        """The same of these slices only."""
        return replace(
            self,
            compared=self.compared & slices,
            by_input={name: some & slices for name, some in self.by_input.items() if some & slices},
            by_code=self.by_code & slices,
            missing=self.missing & slices,
            unknown=self.unknown & slices,
        )

    @property
    def slices(self) -> SliceSet:
        found = self.by_code | self.missing
        for slices in self.by_input.values():
            found |= slices
        return found


@dataclass(frozen=True, kw_only=True)
class InputReason:
    """What became of an input since a slice was computed from it."""

    input: str
    table: str
    is_stale: bool
    text: str


@dataclass(frozen=True, kw_only=True)
class Reasons:
    """Whether a slice is stale, and why."""

    model: str
    slice: str
    run: str | None
    """The publish of it that stands."""
    code: str
    is_stale_by_code: bool
    is_held: bool
    inputs: tuple[InputReason, ...]

    @property
    def is_stale(self) -> bool:
        return self.run is None or self.is_stale_by_code or any(each.is_stale for each in self.inputs)


def is_followed(i: Input) -> bool:
    """Does a change of this input make slices stale, for a load? What a slice's past was stays what it was."""
    return i.on_change is OnChange.RESTATE and not i.is_own and not i.at_slice_end


def begun(slices: SliceSet, now: datetime) -> SliceSet:
    """Without those that haven't begun."""
    if not isinstance(slices.grain, Grain):
        return slices
    running = slices.grain.ordinal(now)
    return SliceSet(slices.grain, tuple(o for o in slices.ordinals if o <= running))


def over(slices: SliceSet, now: datetime) -> SliceSet:
    """Without those that haven't begun, or aren't over."""
    if not isinstance(slices.grain, Grain):
        return slices
    running = slices.grain.ordinal(now)
    return SliceSet(slices.grain, tuple(o for o in slices.ordinals if o < running))


def older_than_window(model: Model, slices: SliceSet, now: datetime) -> SliceSet:
    """Slices that were over before the model's window of automatic restatement began."""
    if model.replay.window_days is None or not isinstance(slices.grain, Grain):
        return SliceSet(slices.grain)
    begins = now - timedelta(days=model.replay.window_days)
    return SliceSet.of(slices.grain, (slice.ordinal for slice in slices if slice.interval.end <= begins))


def oldest_half(found: Sequence[Found]) -> list[Found]:
    """The same with the older half of all stale slices; a model that loses some doesn't advance."""
    moments = sorted(_end(f.stale, ordinal) for f in found for ordinal in f.stale.ordinals)
    until = moments[(len(moments) - 1) // 2]
    return [_up_to(f, until) for f in found]


def _up_to(found: Found, until: datetime) -> Found:
    kept = SliceSet(found.stale.grain, tuple(o for o in found.stale.ordinals if _end(found.stale, o) <= until))
    return found if kept == found.stale else replace(found, stale=kept, advances=())


def _end(slices: SliceSet, ordinal: int) -> datetime:
    if not isinstance(slices.grain, Grain):
        return datetime.max.replace(tzinfo=UTC)  # what isn't cut by time is as old as what it reads last
    return SliceSet(slices.grain, (ordinal,)).hull().end


def without(found: Found, missing: Mapping[str, SliceSet]) -> Found:
    """The same without slices for which a table lacks something: they wait, and what it reads isn't all consumed."""
    lacking = SliceSet(found.stale.grain)
    for slices in missing.values():
        lacking |= slices & found.stale
    if not lacking:
        return found
    waiting = {table: found.waiting.get(table, SliceSet(slices.grain)) | slices for table, slices in missing.items()}
    return replace(found, stale=found.stale - lacking, waiting={**found.waiting, **waiting}, advances=())


def held_back(found: Found, slices: SliceSet) -> Found:
    """The same without slices that a plan can't have: they come behind one that is held."""
    return replace(found, stale=found.stale - slices, held=found.held | slices, advances=())


def total(found: Iterable[Found]) -> int:
    """How many slices are to be computed."""
    return sum(len(each.stale) for each in found)


def troubles_of(found: Sequence[Found]) -> dict[str, str]:
    """By model that was left alone: why."""
    return {
        each.model: "; ".join([*(f"{table} is not there" for table in each.gone), *each.set_back.values()])
        for each in found
        if each.is_left_alone
    }


def refusal_of(found: Sequence[Found]) -> Refused | None:
    """Why models weren't loaded that read what was set back, or is gone; None where nothing is."""
    gone = sorted({table for each in found for table in each.gone})
    if gone:
        readers = ", ".join(each.model for each in found if each.gone)
        return Refused(
            f"{', '.join(gone)} {'is' if len(gone) == 1 else 'are'} not there",
            state=f"left as it is, with its watermarks: {readers}; the others were loaded",
            next="look where it went: its name, its path, the catalog; what models read is named under their `inputs`",
        )
    back = [each for each in found if each.set_back]
    if not back:
        return None
    named = "; ".join(dict.fromkeys(why for each in back for why in each.set_back.values()))
    resets = "`, `".join(
        f'retcon watermarks reset {each.model} --input {table} --reason "…"' for each in back for table in each.set_back
    )
    return Refused(
        named,
        state=f"left as it is, with its watermarks: {', '.join(each.model for each in back)}; the others were loaded",
        next=f"if that is meant, `{resets}`: the next load then compares everything with what there is now",
    )
