"""Runs: the execution of a plan, its states, and the events that are recorded of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from typing import Any

from retcon.core.certificates import TableCertificate
from retcon.core.evolution import AddColumn
from retcon.core.gates import Verdict
from retcon.core.plans import Plan
from retcon.core.tasks import Tasks
from retcon.errors import Refused


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
class StagedSlice:
    """What a wave wrote for one slice, from Iceberg's metadata."""

    slice: str
    rows: int
    bytes: int
    files: int

    @property
    def state(self) -> SliceState:
        return SliceState.DONE if self.rows else SliceState.EMPTY


@dataclass(frozen=True, kw_only=True)
class ScanEvidence:
    """What Spark read of one input, against what was in scope and what there is."""

    input: str
    scanned_files: int
    scope_files: int
    table_files: int


@dataclass(frozen=True, kw_only=True)
class ProvenSlice:
    """What was measured for one slice: staged and, where there was any, in production."""

    model: str
    slice: str
    rows: int
    checksum: str
    old_rows: int | None
    old_checksum: str | None
    metrics: Mapping[str, tuple[str | None, str | None]]
    """Per metric: (old, new) as exact decimal text."""
    keys: Mapping[str, str] = field(default_factory=dict)
    """By the names of columns that are a key of what was staged: the checksum of their values."""


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
class RunOpened:
    """With everything needed to say later what was run and why."""

    plan: Mapping[str, Any]
    code: Mapping[str, str]
    parameters: Mapping[str, Any]
    keys: Mapping[str, str] = field(default_factory=dict)
    """By SQL model: the keys above its query, as they were written."""


@dataclass(frozen=True, kw_only=True)
class ApplyBegan:
    """How this call of `apply` runs it: what isn't in the plan and may change how the run behaves."""

    until: str
    max_active: int
    overrides: tuple[str, ...]
    versions: Mapping[str, str]
    conf: Mapping[str, str]
    """Spark's, as written, secrets left out."""
    rebase: bool = True
    """May slices be staged anew where others wrote meanwhile?"""
    expect: tuple[Mapping[str, Any], ...] | None = None
    """What is expected from now on, where that isn't what it was: it is judged anew then."""
    preparing: float | None = None
    """Seconds until then, without those in which Spark was started."""
    starting: float | None = None
    """Seconds in which Spark was started."""
    cores: int | None = None
    """That Spark's tasks run on."""
    budget: Mapping[str, float] | None = None
    """What the run may take in all, in seconds or in units of `cost`."""


@dataclass(frozen=True, kw_only=True)
class TablesOpened:
    """Branches made, inputs pinned: staging begins."""

    tables: tuple[RunTable, ...]
    pins: Mapping[str, int | None]
    run_ts: str


@dataclass(frozen=True, kw_only=True)
class InputsJudged:
    """Verdicts on what is read: judged before anything is computed from it."""

    verdicts: tuple[Verdict, ...]


@dataclass(frozen=True, kw_only=True)
class WaveStaged:
    model: str
    wave: int
    snapshot_id: int
    slices: tuple[StagedSlice, ...]
    seconds: float
    scans: tuple[ScanEvidence, ...] = ()
    adopted: bool = False
    """Found on the branch after a crash, not computed again."""
    bytes: int | None = None
    """What it read, by the files in scope, rows that stay included; None where that can't be told."""
    tasks: Tasks | None = None
    """None where Spark's metrics came too late."""


@dataclass(frozen=True, kw_only=True)
class WaveFailed:
    model: str
    wave: int
    error: str


@dataclass(frozen=True, kw_only=True)
class SlicesKept:
    """Not computed: nothing that they read came out otherwise than what they were computed from."""

    model: str
    slices: Mapping[str, int]
    """With the rows that production has."""


@dataclass(frozen=True, kw_only=True)
class StagingDone:
    pass


@dataclass(frozen=True, kw_only=True)
class ProvingBegan:
    pass


@dataclass(frozen=True, kw_only=True)
class Judged:
    """All verdicts on exactly these branch heads."""

    heads: Mapping[str, int | None]
    slices: tuple[ProvenSlice, ...]
    verdicts: tuple[Verdict, ...]
    totals: Mapping[str, Mapping[str, tuple[str | None, str | None]]]
    """Per model and metric: (old, new) over all slices together."""
    profiles: tuple[Mapping[str, Any], ...] = ()
    """What columns look like, where the model asks for that."""

    @property
    def passed(self) -> bool:
        return all(verdict.passed for verdict in self.verdicts)


@dataclass(frozen=True, kw_only=True)
class GateOverridden:
    model: str
    gate: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class SampleChecked:
    """Somebody looked at rows that differ, and at what they came from. Which rows: by hashes of their keys."""

    model: str
    seed: str
    rows: int
    keys: tuple[str, ...]
    snapshots: tuple[int | None, int | None]
    """Of the model's table: old and new."""
    by: str
    note: str = ""


@dataclass(frozen=True, kw_only=True)
class PublishBegan:
    """The intent: which metadata files are about to become current; with a REST catalog, which lists of manifests."""

    locations: Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class PublishRefused:
    why: str


@dataclass(frozen=True, kw_only=True)
class Rebased:
    """Others wrote to what the run uses. From now on it stands on their commits, and on inputs as they are now; the
    branches follow, and these slices are staged anew.
    """

    round: int
    tables: tuple[RunTable, ...]
    pins: Mapping[str, int | None]
    slices: Mapping[str, tuple[str, ...]]
    """By model: staged anew."""
    commits: Mapping[str, tuple[str, ...]]
    """By table: what others committed to the slices that the run uses."""
    replaced: Mapping[str, tuple[str, ...]]
    """By model: slices with rows of others that the publish will replace, though none of its inputs changed."""


@dataclass(frozen=True, kw_only=True)
class Published:
    snapshots: Mapping[str, int | None]
    consumed: tuple[Consumed, ...]
    same: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """By model: slices that were left as they are, since they came out the same."""
    settled: bool = False
    """Recorded by a later process, which found out what the catalog had done."""


@dataclass(frozen=True, kw_only=True)
class Certified:
    """What the publish did to each table that it wrote, as their manifests tell."""

    tables: tuple[TableCertificate, ...]


@dataclass(frozen=True, kw_only=True)
class CheckedAfter:
    """The gates on what production shows after the publish."""

    verdicts: tuple[Verdict, ...]
    """Judged again: they rest on something that isn't what they were proven on."""
    held: Mapping[str, tuple[str, ...]]
    """By model: gates whose verdict stands, since the very files that it was passed on are published."""
    unjudged: Mapping[str, str] = field(default_factory=dict)
    """By `model:gate`: why nothing can be said of it."""
    seconds: float | None = None
    """That all took which follows the publish."""


@dataclass(frozen=True, kw_only=True)
class Paused:
    why: str
    driven: bool = False
    """By the process that drove it until then."""


@dataclass(frozen=True, kw_only=True)
class Resumed:
    """Goes on from where it stood."""

    to: RunState


@dataclass(frozen=True, kw_only=True)
class Cancelled:
    reason: str


@dataclass(frozen=True, kw_only=True)
class RollbackBegan:
    """The intent: which metadata files are about to become current, and which way each table goes back."""

    reason: str
    ways: Mapping[str, str]
    locations: Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class RolledBack:
    reason: str
    snapshots: Mapping[str, int | None]
    """Per table: main's snapshot afterwards."""


@dataclass(frozen=True, kw_only=True)
class Reproduced:
    """The run's slices computed once more, by the code and from the snapshots on record, and not written."""

    tried: Mapping[str, str]
    """By model: slices."""
    same: int
    differing: Mapping[str, tuple[str, ...]]
    """By model: slices that came out otherwise."""
    impossible: int
    why: tuple[str, ...]
    """Why those couldn't be computed."""
    versions: Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class Rebuilt:
    """A publish, or its rollback, that the ledger had lost: found in the tables and recorded long after it happened.
    Which run, tables, slices and snapshots is known from these; what was proven and consumed isn't.
    """

    tables: tuple[RunTable, ...]
    published: str
    """When, as the snapshots say."""
    undone: bool
    """It was taken back since."""
    source: str
    """What the plan is known from."""
    plan: Mapping[str, Any] | None = None
    """Where the ledger had lost the run itself."""


Event = (
    RunOpened
    | ApplyBegan
    | TablesOpened
    | InputsJudged
    | WaveStaged
    | WaveFailed
    | SlicesKept
    | StagingDone
    | ProvingBegan
    | Judged
    | GateOverridden
    | SampleChecked
    | PublishBegan
    | PublishRefused
    | Rebased
    | Published
    | Certified
    | CheckedAfter
    | Paused
    | Resumed
    | Cancelled
    | RollbackBegan
    | RolledBack
    | Reproduced
    | Rebuilt
)


# ── what the ledger tells ─────────────────────────────────────────────────────────────────────────────────────────


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
