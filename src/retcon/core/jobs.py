"""Jobs: what Spark is asked to compute, measure and publish."""

from __future__ import annotations

from collections.abc import Mapping

from retcon.core.events import StagedSlice
from retcon.core.gates import Metric
from retcon.core.keys import Keys
from retcon.core.measures import Listed, SliceMeasure
from retcon.core.models import Model
from retcon.core.reads import Read
from retcon.core.runs import RunTable
from retcon.core.slices import Slice, SliceSet
from retcon.core.tasks import Tasks
from retcon.values import dataclass


@dataclass(frozen=True, kw_only=True)
class KeyedRows:
    """Some keys, in the type of a table's column, by which only their rows are computed."""

    keys: Keys
    type: str
    """Of the column in the table: keys are compared in it."""
    path: str
    """The file that holds them, where they are many."""


@dataclass(frozen=True, kw_only=True)
class Job:
    """The computation of some slices of one model."""

    name: str
    model: Model
    slices: SliceSet
    reads: Mapping[str, Read]
    """By the input's name in the model."""
    parameters: Mapping[str, object]
    bytes: int | None = None
    """What it reads, rows that stay included, where that is known."""
    largest: int | None = None
    """What it reads for the largest of its slices, where that is known."""
    keyed: KeyedRows | None = None
    """Only the rows of these keys are computed."""
    carried: Read | None = None
    """The slices as they were when the run began, where rows that aren't computed stay."""
    parts: tuple[Job, ...] = ()
    """Where rows may move: the jobs that together compute what is written; it reads what they read."""
    moved_to: Read | None = None
    """Rows with the keys that are there don't stay, where only one of the slices is computed."""

    @property
    def all_reads(self) -> tuple[Read, ...]:
        return (*self.reads.values(), *(read for part in self.parts for read in part.reads.values()))

    @property
    def is_plain(self) -> bool:
        """One query computes all rows of its slices: none of what was there stays."""
        return self.carried is None and not self.parts

    @property
    def filters_output(self) -> bool:
        """Where more is read than the slices, the results are cut down to them."""
        return any(read.goes_beyond(self.slices) for read in self.reads.values())


@dataclass(frozen=True, kw_only=True)
class WaveTarget:
    """Where a wave's rows go."""

    run: str
    wave: int
    table: str
    branch: str


@dataclass(frozen=True, kw_only=True)
class StagedWave:
    """What a wave left on its branch."""

    snapshot_id: int
    slices: tuple[StagedSlice, ...]


@dataclass(frozen=True, kw_only=True)
class Scanned:
    """What Spark read of a table, by its own metrics."""

    files: int
    bytes: int


@dataclass(frozen=True, kw_only=True)
class Tried:
    """What it took to compute a job's rows, without writing them."""

    seconds: float
    tasks: Tasks | None


@dataclass(frozen=True, kw_only=True)
class MeasureRequest:
    """What to measure on which slices of a model's table."""

    model: Model
    table: str
    slices: SliceSet
    metrics: tuple[Metric, ...]
    not_null: tuple[str, ...]
    staged: int
    production: int | None
    """None: nothing there can be compared."""
    production_table: str
    """The same as `table`, unless that is built beside it."""
    known: Mapping[Slice, SliceMeasure]
    """What the ledger has of production and is still true: needn't be read again."""
    listed: tuple[Listed, ...] = ()
    staged_only: tuple[Metric, ...] = ()
    """Metrics that nothing in production is compared with: for these it isn't read."""
    unique: tuple[tuple[str, ...], ...] = ()
    """Columns that are to be a key of the staged rows: what is too many for that is counted along."""
    keys: tuple[tuple[str, ...], ...] = ()
    """Columns that are to be a key in each staged slice: the checksum of their values is taken along."""
    bytes: int | None = None
    """What was staged, where that is known."""

    @property
    def staged_read(self) -> Read:
        by = self.model.slicing.by
        return Read(table=self.table, snapshot_id=self.staged, by=by, slices=None if by is None else self.slices)


@dataclass(frozen=True, kw_only=True)
class StagedCommits:
    """What stands on a run's branch beyond what the run began with."""

    head: int
    runs: Mapping[int, str | None]
    """By snapshot: the run that committed it, None where it was somebody else."""
    reaches_base: bool
    """Does the branch still begin where the run did?"""
    round: int = 0
    """Of the commit with which it begins: the round in which others' commits made the run begin it anew."""


@dataclass(frozen=True, kw_only=True)
class PublishRequest:
    """One table's share of a publish."""

    run: str
    table: RunTable
    slices: SliceSet
    branch: str
    tag: str | None
    """By which what main showed until now stays readable."""
    since: int | None
    """Production's snapshot after which a commit to these slices is a conflict; up to it, all was looked at."""
    mark: str = "retcon.run"
    """The property of the snapshot's summary that names the run."""
    drops_branch: bool = False
    """The branch goes in the same step; its files are main's then."""


@dataclass(frozen=True, kw_only=True)
class UndoRequest:
    """One table's share of a rollback that needs no new files."""

    run: str
    table: RunTable
    slices: SliceSet
    seen: int | None
    """The snapshot of main that was looked at: a later one is a conflict."""
    before: int | None
    """What main showed before the publish; None: the slices are emptied."""
