"""Reproduce: a run's slices once more, from the code, settings and snapshots on record. Nothing is written.

What comes out is measured as it was when the run was proven, and compared with the record.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial

from retcon.core.events import ApplyBegan, Certified
from retcon.core.jobs import Job, MeasureRequest
from retcon.core.models import Model
from retcon.core.plans import PlannedModel
from retcon.core.reads import Read
from retcon.core.reproductions import (
    Outcome,
    Reproduction,
    TriedSlice,
    drawn,
    expired_text,
    kept_in,
    reproducible,
)
from retcon.core.runs import RecordedSlice, Run, RunState, RunTable
from retcon.core.slices import Slice, SliceSet
from retcon.errors import BadArguments, Refused
from retcon.flow.context import Context, job_of
from retcon.flow.ports import Ledger, Progress
from retcon.values import dataclass


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """Which of a run's slices are tried."""

    model: str | None = None
    slices: Mapping[str, SliceSet] | None = None
    """By model; None: all."""
    most: int | None = None
    """Of each model, drawn by chance."""


@dataclass(frozen=True, kw_only=True)
class _Trial:
    """One job of the run once more, and which of its slices are looked at."""

    planned: PlannedModel
    job: Job
    looked_at: SliceSet
    like: Read | None
    """What was proven, where it is still there."""


@dataclass(frozen=True, kw_only=True)
class Trials:
    """What is to be computed, and what can't be."""

    run: Run
    trials: tuple[_Trial, ...]
    impossible: tuple[TriedSlice, ...]
    tried: Mapping[str, SliceSet]

    @property
    def needs_spark(self) -> bool:
        return bool(self.trials)


def require_reproducible(run: Run) -> None:
    """Refuse runs that never came so far."""
    if run.state not in (RunState.PUBLISHED, RunState.ROLLED_BACK):
        raise Refused(
            f"run {run.id} is {run.state.value}: only what was published can be reproduced",
            next=f"`retcon show {run.id}` tells more",
        )


def wanted_slices(run: Run, wanted: Wanted, ledger: Ledger) -> dict[str, SliceSet]:
    """By model, the slices that the run computed and somebody wants to see again."""
    computed = _computed(run, ledger)
    found: dict[str, SliceSet] = {}
    for planned in run.plan.models:
        if wanted.model not in (None, planned.name):
            continue
        name, slices = planned.name, computed[planned.name]
        if wanted.slices is not None:
            slices &= wanted.slices.get(name, SliceSet(slices.grain))
        found[name] = slices if wanted.most is None else drawn(run.id, name, slices, wanted.most)
    if not any(found.values()):
        raise BadArguments(
            f"run {run.id} computed none of these slices", next=f"`retcon show {run.id} --slices` lists them"
        )
    return {name: slices for name, slices in found.items() if slices}


def _computed(run: Run, ledger: Ledger) -> dict[str, SliceSet]:
    """By model, all slices that the run computed."""
    kept = kept_in(ledger.events(run.id))
    return {
        planned.name: reproducible(
            planned.slices.grain, ledger.slices(run.id, planned.name), kept.get(planned.name, ())
        )
        for planned in run.plan.models
    }


def plan_trials(run: Run, tried: Mapping[str, SliceSet], lacking: Mapping[str, str], context: Context) -> Trials:
    """The jobs of the run that hold these slices, as far as all that they read is there. `lacking` says of which models
    the code isn't known, and why.
    """
    here = _where_it_stands(run)
    world = _World(here, context)
    computed = _computed(run, context.ledger)
    trials: list[_Trial] = []
    impossible: list[TriedSlice] = []
    for planned in here.plan.models:
        slices = tried.get(planned.name, SliceSet(planned.slices.grain))
        recorded = {each.slice: each for each in context.ledger.slices(run.id, planned.name)}
        cant = partial(_impossible, planned.name, recorded)
        if planned.name in lacking:
            impossible += cant(slices, lacking[planned.name])
            continue
        model = context.model(planned) if slices else None
        for number, wave in enumerate(planned.waves, start=1):
            looked_at = wave & slices
            if model is None or not looked_at:
                continue
            # What is told where its wave begins and ends, or moves rows within it, is computed as it was.
            is_whole = model.needs_contiguous_waves or model.moves_rows
            slices_of_job = wave & computed[planned.name] if is_whole else looked_at
            job = job_of(here, planned, slices_of_job, world.snapshots, context, f"again_{number}")
            gone = world.gone(job)
            if gone:
                impossible += cant(looked_at, gone)
            else:
                trials.append(_Trial(planned=planned, job=job, looked_at=looked_at, like=world.proven(planned)))
    return Trials(run=here, trials=tuple(trials), impossible=tuple(impossible), tried=tried)


def reproduce(trials: Trials, context: Context) -> Reproduction:
    """Compute and compare; what came out is recorded on the run."""
    total = sum(len(trial.looked_at) for trial in trials.trials)
    found = list(trials.impossible)
    done = 0
    for trial in trials.trials:
        name = trial.planned.name
        context.watch(Progress(step="reproduce", model=name, done=done, total=total))
        found += _tried(trials.run, trial, context)
        done += len(trial.looked_at)
    context.watch(Progress(step="reproduce", done=done, total=total))
    order = {planned.name: place for place, planned in enumerate(trials.run.plan.models)}
    in_order = sorted(found, key=lambda each: (order[each.model], each.slice))
    notes = tuple(_notes(trials, context))
    made = Reproduction(run=trials.run.id, slices=tuple(in_order), notes=notes, versions=context.versions)
    context.record(trials.run, made.event(trials.tried))
    return made


def _where_it_stands(run: Run) -> Run:
    """The run with its tables where they are now: published, those that were built beside have their own names."""
    if run.state is not RunState.PUBLISHED:
        return run
    models = tuple(replace(planned, beside=None) for planned in run.plan.models)
    return replace(run, plan=replace(run.plan, models=models))


def _impossible(
    model: str, known: Mapping[str, RecordedSlice], slices: SliceSet, why: str, recorded: str = ""
) -> Iterator[TriedSlice]:
    tried = TriedSlice(model=model, slice="", outcome=Outcome.IMPOSSIBLE, rows=None, note=why, recorded=recorded)
    for slice in slices:
        yield replace(tried, slice=slice.label, rows=known[slice.label].rows)


class _World:
    """The snapshots on record, and which of them are still there."""

    def __init__(self, run: Run, context: Context) -> None:
        self._run = run
        self._context = context
        self._alive: dict[str, frozenset[int]] = {}
        self._whole = self._proven_whole()
        own = {table.table: self._of_run(table) for table in run.tables.values()}
        self.snapshots: Mapping[str, int | None] = {**run.pins, **own}

    def proven(self, planned: PlannedModel) -> Read | None:
        """What was proven of a model; None where it is gone."""
        table = self._run.tables[planned.name]
        place = self._run.plan.place(planned.name)
        at = next((s for s in (table.head, table.published_snapshot) if s is not None and self._has(place, s)), None)
        return None if at is None else Read(table=place, snapshot_id=at, by=None, slices=None)

    def gone(self, job: Job) -> str:
        """Why what the job reads can't be read any more; empty where it can."""
        kept = [read for part in (job, *job.parts) for read in (part.carried, part.moved_to) if read is not None]
        foreign = self._context.project.settings.foreign
        for read in (*job.all_reads, *kept):
            if read.table in foreign and read.snapshot_id is None:
                return f"{read.table} ({foreign[read.table].format}) keeps no versions: what it was can't be read"
            if read.table in foreign or read.snapshot_id is None or self._has(read.table, read.snapshot_id):
                continue
            facts = self._context.tables.facts(read.table)
            return expired_text(read.snapshot_id, read.table, None if facts is None else facts.properties)
        return ""

    def _of_run(self, table: RunTable) -> int | None:
        """What the run's models read of one another: its branch; or what was published, where that is all the same."""
        place = self._run.plan.place(table.table)
        is_there = table.head is not None and self._has(place, table.head)
        return table.head if is_there or table.table not in self._whole else table.published_snapshot

    def _has(self, table: str, snapshot: int) -> bool:
        if table not in self._alive:
            refs = self._context.tables.refs(table)
            self._alive[table] = frozenset() if refs is None else frozenset(refs.parents)
        return snapshot in self._alive[table]

    def _proven_whole(self) -> frozenset[str]:
        events = self._context.ledger.events(self._run.id, kind=Certified)
        tables = events[-1].body["tables"] if events else ()
        return frozenset(each["table"] for each in tables if each["is_proven_whole"])


def _tried(run: Run, trial: _Trial, context: Context) -> Iterator[TriedSlice]:
    name = trial.planned.name
    recorded = {each.slice: each for each in context.ledger.slices(run.id, name)}
    try:
        now = context.warehouse.recomputed(trial.job, trial.like)
        doubtful = [slice for slice in trial.looked_at if now[slice].checksum != recorded[slice.label].checksum]
        apart = _apart(trial, doubtful, context)
    except Refused as refusal:
        yield from _impossible(name, recorded, trial.looked_at, refusal.message, refusal.recorded)
        return
    for slice in trial.looked_at:
        is_same = slice not in doubtful or apart.get(slice) == 0
        yield TriedSlice(
            model=name,
            slice=slice.label,
            outcome=Outcome.SAME if is_same else Outcome.DIFFERS,
            rows=recorded[slice.label].rows,
            rows_now=now[slice].rows,
            note="" if slice not in doubtful else _told(apart.get(slice)),
        )


def _told(rows: int | None) -> str:
    if rows is None:
        return "another checksum"
    return f"{rows:,} rows differ" if rows else "the same rows, but for rounding in floating-point columns"


def _apart(trial: _Trial, doubtful: list[Slice], context: Context) -> dict[Slice, int]:
    """Where checksums differ the rows decide, as long as those that were proven are there: sums of floating-point
    numbers come out otherwise in another order.
    """
    job, like = trial.job, trial.like
    if not doubtful or like is None or like.snapshot_id is None:
        return {}
    slices = SliceSet.of(job.slices.grain, (slice.ordinal for slice in doubtful))
    request = MeasureRequest(
        model=job.model,
        table=like.table,
        slices=slices,
        metrics=(),
        not_null=(),
        staged=like.snapshot_id,
        production=None,
        production_table=like.table,
        known={},
    )
    found = context.warehouse.differing(job, request)
    return {slice: found.get(slice, 0) for slice in doubtful}


def _notes(trials: Trials, context: Context) -> Iterator[str]:
    applied = context.ledger.events(trials.run.id, kind=ApplyBegan)
    then = applied[-1].body["versions"] if applied else {}
    for part, version in context.versions.items():
        if part in then and then[part] != version:
            yield f"{part} was {then[part]} and is {version}"
    models: dict[str, Model] = {trial.job.model.name: trial.job.model for trial in trials.trials}
    yield from (f"{m.name} may differ by itself: {m.nondeterministic}" for m in models.values() if m.nondeterministic)
