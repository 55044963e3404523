"""Runs: the execution of a plan, its states, and what is known of its tables, waves and slices."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace
from datetime import datetime
from enum import StrEnum

from retcon.core.evolution import AddColumn
from retcon.core.gates import Verdict
from retcon.core.plans import Plan
from retcon.errors import Refused
from retcon.values import dataclass


class RunState(StrEnum):
    """Where a run stands."""

    PLANNED = "planned"
    STAGING = "staging"
    STAGED = "staged"
    PROVING = "proving"
    PROVEN = "proven"
    FAILED = "failed"
    PUBLISHING = "publishing"
    PUBLISHED = "published"
    ROLLED_BACK = "rolled_back"
    PAUSED = "paused"
    CANCELLED = "cancelled"

    @property
    def is_final(self) -> bool:
        return self in (RunState.ROLLED_BACK, RunState.CANCELLED)

    @property
    def is_over(self) -> bool:
        """Nothing is left to be done for it."""
        return self is RunState.PUBLISHED or self.is_final


_S = RunState
_NEXT: Mapping[RunState, frozenset[RunState]] = {
    _S.PLANNED: frozenset({_S.STAGING, _S.PAUSED, _S.CANCELLED}),
    _S.STAGING: frozenset({_S.STAGED, _S.PAUSED, _S.CANCELLED}),
    _S.STAGED: frozenset({_S.PROVING, _S.STAGING, _S.PAUSED, _S.CANCELLED}),
    _S.PROVING: frozenset({_S.PROVEN, _S.FAILED, _S.PAUSED, _S.CANCELLED}),
    _S.PROVEN: frozenset({_S.PUBLISHING, _S.PROVING, _S.STAGING, _S.PAUSED, _S.CANCELLED}),
    _S.FAILED: frozenset({_S.PROVEN, _S.PROVING, _S.STAGING, _S.PAUSED, _S.CANCELLED}),
    # Back to proven when the publish was refused and nothing became visible.
    _S.PUBLISHING: frozenset({_S.PUBLISHED, _S.PROVEN, _S.STAGING}),
    _S.PUBLISHED: frozenset({_S.ROLLED_BACK}),
    _S.PAUSED: frozenset({_S.STAGING, _S.PROVING, _S.CANCELLED}),
    _S.ROLLED_BACK: frozenset(),
    _S.CANCELLED: frozenset(),
}


def may_become(state: RunState, to: RunState) -> bool:
    """Does the state machine allow this step? Staying where one is always is: every step may run twice."""
    return to is state or to in _NEXT[state]


def require_step(run: str, state: RunState, to: RunState) -> None:
    """Refuse a step that the state machine doesn't have."""
    if not may_become(state, to):
        raise Refused(f"run {run} is {state.value}: it can't become {to.value}", next=f"`retcon show {run}` tells more")


class WaveState(StrEnum):
    PENDING = "pending"
    DONE = "done"
    FAILED = "failed"


class SliceState(StrEnum):
    """`done` has rows; a slice without rows is `empty`, never `done`."""

    PENDING = "pending"
    DONE = "done"
    EMPTY = "empty"
    SAME = "same"
    """As production has it already: it wasn't computed, or came out so and is left out of the publish."""
    LAPSED = "lapsed"
    """It was the same as what was rolled back since."""

    @property
    def is_written(self) -> bool:
        return self in (SliceState.DONE, SliceState.EMPTY)


@dataclass(frozen=True, kw_only=True)
class Replaced:
    """A table whose place is taken by one that is built beside it, as it was when the run began."""

    beside: str
    """The name of the one that is built; from the publish on, of this one."""
    uuid: str
    schema_id: int
    spec_id: int
    snapshot_id: int | None


@dataclass(frozen=True, kw_only=True)
class Rebase:
    """How a run's branch of a table begins anew, on what others made of production."""

    round: int
    head: int
    """The branch's snapshot, proven before, whose files are carried over."""
    restaged: tuple[str, ...]
    """The slices that aren't: they are staged anew."""


@dataclass(frozen=True, kw_only=True)
class RunTable:
    """One table that a run writes, as it was when the run began, and what became of it."""

    table: str
    """As the model is called."""
    uuid: str
    schema_id: int
    spec_id: int
    base_snapshot: int | None
    made: bool
    """retcon made this table for this run."""
    head: int | None = None
    """The branch's snapshot that was proven."""
    published_snapshot: int | None = None
    replaces: Replaced | None = None
    """None: it is written in its own place, as most are."""
    content: str = ""
    """Hash of the files that the run replaces or reads of it at the base: tells of changes when history is gone."""
    rebase: Rebase | None = None
    """None: its branch still begins where the run did."""
    same: tuple[str, ...] = ()
    """Slices that the publish left alone: production had them as they came out."""

    @property
    def written(self) -> str:
        """The name under which it is written before the publish."""
        return self.table if self.replaces is None else self.replaces.beside

    @property
    def snapshot_before(self) -> int | None:
        """What readers saw when the run began."""
        return self.base_snapshot if self.replaces is None else self.replaces.snapshot_id


@dataclass(frozen=True, kw_only=True)
class ScanEvidence:
    """What Spark read of one input, against what was in scope and what there is."""

    input: str
    scanned_files: int
    scope_files: int
    table_files: int
    scanned_bytes: int | None = None
    """Of the files that were scanned; None in runs of before this was asked for."""
    scope_bytes: int | None = None


@dataclass(frozen=True, kw_only=True)
class Consumed:
    """The content of one input that one published slice was really computed from."""

    model: str
    slice: str
    input: str
    table: str
    snapshot_id: int | None
    content: str


# ── events ────────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, kw_only=True)
class RecordedVerdict:
    verdict: Verdict
    override: str | None = None
    """Why it was overridden."""

    @property
    def holds(self) -> bool:
        return self.verdict.passed or self.override is not None


@dataclass(frozen=True, kw_only=True)
class RecordedWave:
    model: str
    wave: int
    slices: str
    state: WaveState
    attempts: int
    snapshot_id: int | None
    seconds: float | None
    scans: tuple[ScanEvidence, ...]
    error: str | None


@dataclass(frozen=True, kw_only=True)
class RecordedSlice:
    model: str
    slice: str
    wave: int
    state: SliceState
    rows: int | None
    bytes: int | None
    files: int | None
    checksum: str | None
    old_rows: int | None
    old_checksum: str | None
    metrics: Mapping[str, tuple[str | None, str | None]]

    @property
    def is_same(self) -> bool:
        """Does production hold the very rows that came out?"""
        if self.state is SliceState.SAME:
            return True
        return self.checksum is not None and (self.rows, self.checksum) == (self.old_rows, self.old_checksum)


@dataclass(frozen=True, kw_only=True)
class Run:
    """A run as the ledger knows it."""

    id: str
    kind: str
    state: RunState
    plan: Plan
    by: str
    created: datetime
    updated: datetime
    tables: Mapping[str, RunTable] = field(default_factory=dict)
    """By model."""
    pins: Mapping[str, int | None] = field(default_factory=dict)
    """By table: the snapshot that is read; None for a table without one."""
    run_ts: str | None = None
    totals: Mapping[str, Mapping[str, tuple[str | None, str | None]]] = field(default_factory=dict)
    published: datetime | None = None
    rolled_back: datetime | None = None
    why_ended: str | None = None

    @property
    def as_published(self) -> Run:
        """The same with what its publish replaced, and no more: what came out as it was is left out."""
        same = {model: table.same for model, table in self.tables.items()}
        models = (planned.without(same.get(planned.name, ())) for planned in self.plan.models)
        return replace(self, plan=replace(self.plan, models=tuple(each for each in models if each.slices)))

    @property
    def added_columns(self) -> tuple[str, ...]:
        """Columns that tables got for this run. They stay: dropping one could take somebody else's rows with it."""
        return tuple(
            f"{model.name}.{change.column}"
            for model in self.plan.models
            for change in model.changes
            if isinstance(change, AddColumn) and model.name in self.tables and model.beside is None
        )


@dataclass(frozen=True, kw_only=True)
class Tally:
    """How many of a run's slices are staged, how many of them are empty, and their rows."""

    staged: int = 0
    empty: int = 0
    rows: int = 0


@dataclass(frozen=True, kw_only=True)
class PublishedSlice:
    """The newest publish of one slice that still stands, and what was measured of it then."""

    slice: str
    run: str
    rows: int
    checksum: str
    metrics: Mapping[str, str | None] = field(default_factory=dict)
    keys: Mapping[str, str] = field(default_factory=dict)
    """By the names of columns that were found to be a key of it: the checksum of their values."""
