"""Migrate: from full refresh to incremental. A model is computed both ways, and compared slice by slice."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime

from retcon.core.gates import metrics_of
from retcon.core.jobs import Job
from retcon.core.migrations import (
    ComparedSlice,
    Comparison,
    Cost,
    last_days,
    likely_reasons,
    lost_notes,
    require_migratable,
    suspects,
)
from retcon.core.models import Model
from retcon.core.planning import InputsMissing
from retcon.core.plans import Plan, PlannedModel
from retcon.core.projects import Project
from retcon.core.ranges import held_by_inputs
from retcon.core.reads import read_of
from retcon.core.runs import Run, RunState
from retcon.core.slices import SliceSet
from retcon.errors import GatesFailed, Refused
from retcon.flow.apply import Until, apply
from retcon.flow.context import Context, parameters_of, run_ts_of
from retcon.flow.measure import measured
from retcon.flow.plan import Ask, Planner
from retcon.flow.ports import Ledger, Progress, Tables
from retcon.flow.worlds import world_of


class Migrator:
    """Makes the run that computes the last days of a model slice by slice."""

    def __init__(self, project: Project, tables: Tables, ledger: Ledger, planner: Planner) -> None:
        self._project = project
        self._tables = tables
        self._ledger = ledger
        self._planner = planner

    def slices(self, model: Model, days: int, now: datetime) -> SliceSet:
        """The last days that the inputs hold and that are over; refused where the model can't be computed both ways."""
        require_migratable(model)
        world = world_of(self._project, self._tables, self._ledger, (model.name,))
        slices = last_days(held_by_inputs(model, self._project.graph, world, now), days, now)
        if not slices:
            raise Refused(
                f"{model.name}: its inputs hold no slice that is over, as far as they tell",
                state="nothing was planned",
                next=f"`retcon plan {model.name} --reason …` says what is missing",
            )
        held = {table: contents.of(None).bytes for (table, _, _), contents in world.contents.items()}
        whole = sum(held.get(i.table, 0) for i in model.inputs)
        allowed = self._project.settings.limits.bytes
        if whole > allowed:
            raise Refused(
                f"computing {model.name} whole reads {whole:,} bytes, at most {allowed:,} allowed",
                state="nothing was planned",
                next="raise `limits.bytes` in retcon.yaml",
            )
        return slices

    def unfinished(self, model: Model, slices: SliceSet) -> Run | None:
        """A run of these very slices that isn't over, by the same code: there is no need for another."""
        asked = (model.name.removeprefix(self._project.graph.prefix),)
        for run in self._ledger.runs(model=model.name):
            planned = run.plan.model(model.name)
            is_same = planned is not None and (planned.slices, planned.fingerprint) == (slices, model.fingerprint)
            is_alone = run.plan.request.models == asked and run.plan.load is None and run.plan.keys is None
            if is_same and is_alone and not run.state.is_over:
                return run
        return None

    def plan(self, model: Model, slices: SliceSet, ask: Ask) -> Plan:
        """The ordinary plan over these slices."""
        start, end = slices.hull().edges
        try:
            return self._planner.plan(replace(ask, select=(model.name,), start=start, end=end))
        except InputsMissing as lacking:
            raise Refused(
                lacking.message, state=lacking.state, next="ask for fewer --days, so that they begin after the hole"
            ) from lacking


def run_both(run: Run, context: Context, *, model: Model, tell: Callable[[Comparison], None]) -> Run:
    """Stage and prove as always, then compare with the full refresh; a gate that failed is raised after that."""
    try:
        proven = apply(run, context, until=Until.PROVEN)
    except GatesFailed:
        failed = context.ledger.run(run.id)
        if failed is not None and failed.state is RunState.FAILED:  # else not all of it is staged
            tell(compare(failed, model, context))
        raise
    tell(compare(proven, model, context))
    return proven


def compare(run: Run, model: Model, context: Context) -> Comparison:
    """What a run has staged of a model, against the same code over the whole of the inputs that the run pinned."""
    planned = next(each for each in run.plan.models if each.name == model.name)
    staged = measured(run, planned, context)
    incremental = staged.staged.slices
    metrics = metrics_of(model.gates)
    job = _whole(run, planned, model, context)
    progress = Progress(step="compare", model=model.name, total=len(planned.slices))
    context.watch(progress)
    began = context.clock()
    try:
        full = context.warehouse.full_refresh(job, metrics)
        seconds = (context.clock() - began).total_seconds()
        doubtful = suspects(incremental, full)
        asked = replace(staged.request, slices=doubtful)
        differing = context.warehouse.differing(job, asked) if doubtful else {}
    except KeyboardInterrupt:
        context.warehouse.interrupt()
        raise
    context.watch(replace(progress, done=progress.total))
    waves = [wave for wave in context.ledger.waves(run.id) if wave.model == model.name]
    return Comparison(
        model=model.name,
        run=run.id,
        slices=tuple(
            ComparedSlice(slice=at, incremental=each, full=full.slices[at], apart=differing.get(at, 0))
            for at, each in sorted(incremental.items())
        ),
        full_rows=full.rows,
        unsliced=full.unsliced,
        cost=Cost(incremental=sum(wave.seconds or 0 for wave in waves), waves=len(waves), full=seconds),
        additive=tuple(metric.expression for metric in metrics if metric.is_additive),
        readers=tuple(each.name for each in run.plan.models if each is not planned),
        reasons=tuple(likely_reasons(model, unsliced=full.unsliced)) if differing or full.unsliced else (),
        notes=tuple(lost_notes(model)),
    )


def _whole(run: Run, planned: PlannedModel, model: Model, context: Context) -> Job:
    """The computation over all that the inputs hold, to be looked at in the planned slices."""
    world = world_of(context.project, context.tables, context.ledger, (model.name,))
    history = planned.slices | held_by_inputs(model, context.project.graph, world, context.clock())
    return Job(
        name=f"{run.id}_full_refresh",
        model=model,
        slices=planned.slices,
        reads={i.name: read_of(i, planned.slices, None, run.pins[i.table]) for i in model.inputs},
        parameters=parameters_of(history, context.project.settings.params, run_ts=run_ts_of(run)),
    )
