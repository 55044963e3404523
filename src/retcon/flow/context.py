"""What every step of a run needs at hand."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path
from random import random

from retcon.core.events import Event
from retcon.core.jobs import Job, KeyedRows, WaveTarget
from retcon.core.keys import keys_file
from retcon.core.leases import Driver
from retcon.core.measures import TableMeasures
from retcon.core.models import Input, Model, Strategy
from retcon.core.plans import PlannedInput, PlannedModel
from retcon.core.reads import Read, read_of
from retcon.core.retries import seconds_before_next
from retcon.core.runs import Run
from retcon.core.sharing import Shared
from retcon.core.slices import Buckets, Grain, SliceSet
from retcon.core.tables import Told
from retcon.core.waves import MAX_ACTIVE, parts_of
from retcon.errors import Refused
from retcon.flow.brakes import Brake
from retcon.flow.meters import Meter, Setup
from retcon.flow.ports import Clock, GroupCommits, Ledger, Tables, Warehouse, Watch
from retcon.flow.records import Records


@dataclass(kw_only=True)
class Context(Records):
    """The parts, put together once per command."""

    ledger: Ledger
    warehouse: Warehouse
    clock: Clock
    who: str
    watch: Watch
    driver: Driver
    is_gone: Callable[[Driver], bool]
    """Did a process of this machine end?"""
    catalog: GroupCommits | None = None
    """Moves the tables of a group; None where the ledger's own database does, in the transaction of the record."""
    fence: int | None = None
    """The token of the lease that this process holds."""
    brake: Brake = field(default_factory=Brake)
    """Another one for each turn at driving."""
    backoff: Callable[[int], float] = lambda tries: seconds_before_next(tries, random())
    """Seconds to wait after so many tries of a wave."""
    max_active: int = MAX_ACTIVE
    versions: Mapping[str, str] = field(default_factory=dict)
    """Of what computes: recorded with the run."""
    setup: Setup = field(default_factory=Setup)
    """What it took this command to get here."""
    meter: Meter = field(default_factory=Meter)
    """Another one for each turn at driving."""
    measures: dict[Hashable, tuple[TableMeasures, TableMeasures]] = field(default_factory=dict)
    """What was measured by this command: staged, and in production."""
    kept: Mapping[str, Shared] = field(default_factory=dict)
    """Inputs that waves share and this command holds in memory, until what they made is proven."""

    def record(self, run: Run, event: Event) -> Run:
        """Append an event to the run's record."""
        return self.ledger.record(run.id, event, at=self.clock(), who=self.who, fence=self.fence)

    def model(self, planned: PlannedModel) -> Model:
        return self.project.graph.model(planned.name)

    def snapshots(self, run: Run) -> Mapping[str, int | None]:
        """Which snapshot of each table this run reads: its own branches, and the pins of everything else."""
        return _Snapshots(run, self.tables)


class _Snapshots(Mapping[str, int | None]):
    """By table. A branch is looked up when its table is first asked for: a model reads few of a run's tables."""

    def __init__(self, run: Run, tables: Tables) -> None:
        self._own = {table.table: table.written for table in run.tables.values()}
        self._known = {name: pin for name, pin in run.pins.items() if name not in self._own}
        self._names = frozenset({*self._own, *self._known})
        self._branch = run.plan.branch
        self._tables = tables

    def __getitem__(self, name: str) -> int | None:
        if name not in self._known and name in self._own:
            self._known[name] = self._tables.head(self._own[name], self._branch)
        return self._known[name]

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


def target_of(run: Run, planned: PlannedModel, wave: int) -> WaveTarget:
    """Where a wave of this run goes."""
    return WaveTarget(run=run.id, wave=wave, table=run.plan.place(planned.name), branch=run.plan.branch)


def job_of(
    run: Run, planned: PlannedModel, slices: SliceSet, snapshots: Mapping[str, int | None], context: Context, name: str
) -> Job:
    """The computation of these slices from these snapshots, read as the plan says."""
    model = context.model(planned)
    hashed = bucketed_as(run, model, context)
    place = [each.name for each in run.plan.models].index(model.name)
    # With its place in the plan: a.b__c and a__b.c look the same without their dots.
    full_name = f"{run.id}_{place}_{model.name.replace('.', '__')}_{name}"

    def computing(part: SliceSet, name: str) -> Job:
        reads = (read_as_planned(i, planned.input(i.name), part, snapshots, bucketed_as=hashed) for i in model.inputs)
        return Job(
            name=name,
            model=model,
            slices=part,
            reads={i.name: placed(run, read) for i, read in zip(model.inputs, reads, strict=True)},
            parameters=parameters_of(part, context.project.settings.params, run_ts=run_ts_of(run)),
            keyed=keyed_rows(run, planned, context),
        )

    carried = _carried(run, planned, slices, context)
    if carried is None or not model.moves_rows:
        return replace(computing(slices, full_name), carried=carried)
    return replace(in_parts(full_name, model, slices & planned.computed, computing), slices=slices, carried=carried)


def sized(job: Job, context: Context) -> Job:
    """The same job with what it reads, where the tables tell."""
    total = largest = 0
    kept = (job.carried,) if job.carried is not None and job.carried.snapshot_id is not None else ()
    for read in (*job.all_reads, *kept):
        held = context.contents_of(read)
        if held.told in (Told.NOTHING, Told.UPDATES):
            return job
        total += held.of(read.slices).bytes
        largest += held.largest(read.slices)
    return replace(job, bytes=total, largest=largest)


def in_parts(name: str, model: Model, slices: SliceSet, computing: Callable[[SliceSet, str], Job]) -> Job:
    """One job for slices that may have to be computed apart."""
    parts = (computing(part, f"{name}_{number}") for number, part in enumerate(parts_of(model, slices)))
    return Job(name=name, model=model, slices=slices, reads={}, parameters={}, parts=tuple(parts))


def placed(run: Run, read: Read) -> Read:
    """The same read where the run has that table: its own may be built beside."""
    return replace(read, table=run.plan.place(read.table))


def _carried(run: Run, planned: PlannedModel, slices: SliceSet, context: Context) -> Read | None:
    """What of the slices there may be kept; before the tables are opened, nothing is known of it."""
    model, table = context.model(planned), run.tables.get(planned.name)
    if table is None or not (planned.is_keyed or model.strategy is Strategy.MERGE):
        return None
    by = model.slicing.by
    return Read(table=planned.name, snapshot_id=table.base_snapshot, by=by, slices=None if by is None else slices)


def keyed_rows(run: Run, planned: PlannedModel, context: Context) -> KeyedRows | None:
    """The keys whose rows are computed, where the plan is about some; None: all rows are."""
    keys = run.plan.keys if planned.is_keyed and planned.name in run.tables else None
    facts = context.tables.facts(planned.name) if keys is not None else None
    if keys is None or facts is None:
        return None
    column = facts.column(keys.column)
    if column is None:
        raise Refused(
            f"{planned.name} has no column {keys.column} any more",
            state="nothing was staged; production is untouched",
            next=f"`retcon plan --refresh backfills/{run.id}.yaml` plans it anew",
        )
    path = Path(context.project.settings.root) / keys_file(run.id)
    return KeyedRows(keys=keys, type=column.type, path=str(path))


def bucketed_as(run: Run, model: Model, context: Context) -> str | None:
    """The type of the table's own slice column, where it is cut into buckets and made already."""
    facts = context.tables.facts(run.plan.place(model.name)) if isinstance(model.grain, Buckets) else None
    column = facts.column(model.slicing.by) if facts is not None and model.slicing.by is not None else None
    return None if column is None else column.type


def read_as_planned(
    i: Input,
    planned: PlannedInput,
    slices: SliceSet,
    snapshots: Mapping[str, int | None],
    *,
    bucketed_as: str | None = None,
) -> Read:
    """What these slices read of an input: at the run's snapshot of it, or as it was when they ended."""
    resolution = None if planned.slices is None else planned.slices.grain
    # Of its own table there is nothing before the run opens it.
    pinned = snapshots.get(i.table) if i.is_own or planned.versions else snapshots[i.table]
    return read_of(i, slices, resolution, planned.version_for(slices) or pinned, bucketed_as=bucketed_as)


def run_ts_of(run: Run) -> datetime:
    """The moment that `:run_ts` means, the same for the whole run."""
    return datetime.fromisoformat(run.run_ts) if run.run_ts else run.created


def parameters_of(slices: SliceSet, params: Mapping[str, object], *, run_ts: datetime) -> dict[str, object]:
    """The range tokens and the project's own parameters, to be bound, never pasted."""
    bound: dict[str, object] = {**params, "run_ts": run_ts}
    if not isinstance(slices.grain, Grain):
        return bound
    around = slices.hull()
    return {
        **bound,
        "start_date": around.start.date(),
        "end_date": (around.end - timedelta(microseconds=1)).date(),
        "start_ts": around.start,
        "end_ts": around.end,
    }
