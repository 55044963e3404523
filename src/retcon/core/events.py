"""Events: what is recorded of a run, in the order in which it happened."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any

from retcon.core.certificates import TableCertificate
from retcon.core.gates import Verdict
from retcon.core.runs import Consumed, RunState, RunTable, ScanEvidence, SliceState
from retcon.core.tasks import Tasks
from retcon.values import dataclass


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
