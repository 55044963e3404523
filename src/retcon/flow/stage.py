"""Stage: recompute the planned slices on the run's own branches, beside production."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from retcon.core.adoption import require_adopted
from retcon.core.events import Resumed, SlicesKept, StagingDone, TablesOpened
from retcon.core.evolution import SchemaChange, comments_for
from retcon.core.models import Order
from retcon.core.plans import Beside, PlannedModel
from retcon.core.readings import require_hours_as_planned
from retcon.core.runs import Replaced, Run, RunState, RunTable, SliceState, WaveState
from retcon.core.schemas import (
    carried_properties,
    opened_changes,
    require_aligned,
    require_carried_by_name,
    require_same_hashes,
)
from retcon.core.sharing import kept_inputs, with_kept
from retcon.core.slices import SliceSet
from retcon.core.tables import TableFacts
from retcon.errors import Fault, Refused
from retcon.flow.branches import require_own_branch
from retcon.flow.cancel import drop_staged
from retcon.flow.context import Context, job_of, sized
from retcon.flow.cut_off import as_they_are
from retcon.flow.judge_inputs import judge_inputs
from retcon.flow.looks import require_libraries
from retcon.flow.ports import Progress, Tables
from retcon.flow.rebase import carry_over, content_used
from retcon.flow.standing import known_tables
from retcon.flow.still_fits import require_replaceable, require_unchanged_inputs
from retcon.flow.waves import Line, Tally, Wave, run_waves


def stage(run: Run, context: Context) -> Run:
    """Bring every wave of the plan onto the run's branches; what is there already is kept."""
    resuming = bool(run.tables)
    if not resuming:
        run = _open_tables(run, context)
    elif run.state is not RunState.STAGING:
        run = context.record(run, Resumed(to=RunState.STAGING))
    for planned in run.plan.models if resuming else ():
        carry_over(run, planned, context)
        require_own_branch(run, planned, context)
    waves_missing = _missing(run, context)
    unstaged = sum(len(slices) for waves in waves_missing.values() for _, slices in waves)
    tally = Tally(run, context, already=run.plan.slices - unstaged)
    own = {planned.name for planned in run.plan.models}
    context.kept = kept_inputs(run.plan.models, context.project.settings.foreign)
    # What was pinned anew has to be judged anew.
    judged = own | set(run.pins) if any(table.rebase for table in run.tables.values()) else own

    def begun(planned: PlannedModel) -> Line:
        judge_inputs(run, (planned,), judged, context.snapshots(run), context)
        tally.begin(planned.name)
        missing = _without_kept(run, planned, waves_missing[planned.name], context, tally)
        at_once = 1 if planned.order is Order.SEQUENTIAL else context.max_active
        waves = (
            replace(wave, job=with_kept(wave.job, planned, context.kept))
            for wave in _jobs(run, planned, missing, context, resuming)
        )
        return Line(waves=context.meter.within(waves), at_once=at_once)

    run_waves(run, begun, tally, context)
    return context.record(run, StagingDone())


def _without_kept(
    run: Run, planned: PlannedModel, waves: list[tuple[int, SliceSet]], context: Context, tally: Tally
) -> list[tuple[int, SliceSet]]:
    """What is left to compute of the waves of a model, once all that it reads is staged."""
    pending = SliceSet.of(planned.slices.grain, (slice.ordinal for _, slices in waves for slice in slices))
    kept = as_they_are(run, planned, pending, context)
    if not kept:
        return waves
    context.record(run, SlicesKept(model=planned.name, slices={s.label: held.rows for s, held in kept.items()}))
    tally.keep(planned.name, len(kept))
    rest = pending - SliceSet.of(pending.grain, (slice.ordinal for slice in kept))
    return [(number, slices & rest) for number, slices in waves if slices & rest]


def _jobs(
    run: Run, planned: PlannedModel, waves: Sequence[tuple[int, SliceSet]], context: Context, look_first: bool
) -> Iterator[Wave]:
    """The waves, each made when its turn comes: one that reads its own table sees what is staged by then."""
    snapshots = context.snapshots(run)
    for number, slices in waves:
        if context.model(planned).reads_itself:
            head = context.tables.head(run.plan.place(planned.name), run.plan.branch)
            others = {i.table: snapshots[i.table] for i in planned.inputs if i.table in snapshots}
            snapshots = {**others, planned.name: head}
        job = job_of(run, planned, slices, snapshots, context, f"w{number}")
        yield Wave(planned=planned, number=number, slices=slices, job=sized(job, context), look_first=look_first)


def _missing(run: Run, context: Context) -> dict[str, list[tuple[int, SliceSet]]]:
    """By model: the waves that aren't done, with those of their slices that aren't staged."""
    done = {(w.model, w.wave) for w in context.ledger.waves(run.id) if w.state is WaveState.DONE}
    staged = {(s.model, s.slice) for s in context.ledger.slices(run.id) if s.state is not SliceState.PENDING}
    return {
        planned.name: [
            (number, SliceSet.of(wave.grain, (s.ordinal for s in wave if (planned.name, s.label) not in staged)))
            for number, wave in enumerate(planned.waves, start=1)
            if (planned.name, number) not in done
        ]
        for planned in run.plan.models
    }


def _open_tables(run: Run, context: Context) -> Run:
    """Pin the inputs, check the schemas, make missing tables, and open a branch on each table of the run."""
    own = {planned.name for planned in run.plan.models}
    read = {i.table for planned in run.plan.models for i in planned.inputs} - own
    # Before they are looked at: whatever came by this moment is in what is pinned.
    run_ts = context.clock().isoformat()
    pins = {table: facts.snapshot_id for table in sorted(read) if (facts := context.tables.facts(table)) is not None}
    # What was compared when the run was opened may have changed while Spark started; what is pinned is what counts.
    require_unchanged_inputs(run.plan, context.project, context.tables, pins)
    require_libraries((context.model(planned) for planned in run.plan.models), context.warehouse)
    run = judge_inputs(run, run.plan.models, read, pins, context)
    tables: list[RunTable] = []
    bases: dict[str, int | None] = {}
    for planned in run.plan.models:
        context.brake.check()
        context.watch(Progress(step="open", model=planned.name))
        table = _open_table(run, planned, {**pins, **bases}, context)
        tables.append(table)
        # Without a snapshot a table is read empty, with the columns that its branch has: enough for the analysis.
        bases[planned.name] = None
    return context.record(run, TablesOpened(tables=tuple(tables), pins=pins, run_ts=run_ts))


def _open_table(run: Run, planned: PlannedModel, snapshots: Mapping[str, int | None], context: Context) -> RunTable:
    model = context.model(planned)
    first = SliceSet(planned.slices.grain, planned.computed.ordinals[:1])
    job = job_of(run, planned, first, snapshots, context, "schema")
    there = context.tables.facts(planned.name)
    if there is not None:
        # As when it was planned: by now it may be another table, or cut otherwise.
        require_adopted(model, there, known_tables(context.ledger, model.name), context.project.env_option)
        if planned.beside is None:
            require_aligned(model, there)
            require_carried_by_name(model, there, is_keyed=planned.is_keyed)
    output = context.warehouse.output(job)
    changes: tuple[SchemaChange, ...] = opened_changes(model, there, output, planned.changes)
    place, facts, properties, replaces = planned.name, there, dict[str, str](), None
    if planned.beside is not None:
        there = require_replaceable(run.id, model.name, planned.beside, there)
        place, facts = planned.beside.table, None
        properties = carried_properties(there, (column.name for column in output))
        replaces = _replaced(run, model.name, planned.beside, there, context.tables)
    if facts is None:
        context.warehouse.make_table(job, place, run.id, properties)
        facts = context.tables.facts(place)
        changes = () if facts is None else comments_for(model, facts)
    if facts is not None and changes:
        # Once more after a crash, the table has them already and nothing is left to change.
        context.warehouse.change_columns(job, place, changes)
        facts = context.tables.facts(place)
    if facts is None:
        raise Fault(f"{place} was made, but the catalog doesn't show it", state="nothing was staged")
    tables = ((i.table, context.tables.facts(run.plan.place(i.table))) for i in model.inputs)
    read = {table: found for table, found in tables if found is not None}
    require_same_hashes(model, {**read, model.name: facts})
    require_hours_as_planned(run.id, model, planned, read)
    # A branch from before a crash holds nothing yet, and main may have moved since: begin it anew.
    context.tables.drop_branch(place, run.plan.branch)
    context.warehouse.open_branch(place, run.plan.branch, facts.snapshot_id)
    return RunTable(
        table=planned.name,
        uuid=facts.uuid,
        schema_id=facts.schema_id,
        spec_id=facts.spec_id,
        base_snapshot=facts.snapshot_id,
        made=facts.properties.get("retcon.made_by") == run.id,
        replaces=replaces,
        content=content_used(run.plan, planned, facts.snapshot_id, context) if planned.beside is None else "",
    )


def _replaced(run: Run, model: str, beside: Beside, there: TableFacts, tables: Tables) -> Replaced:
    """The table that another will take the place of; what a crash left of that one is gone."""
    # Nothing is staged in it yet, and its inputs may have other columns by now.
    drop_staged(beside.table, run, tables)
    if tables.facts(beside.table) is not None:
        raise Refused(
            f"{model} can't be built beside: there is a table {beside.table} already",
            state="nothing was staged; production is untouched",
            next=f"`retcon plan --refresh {run.id}` plans it under another name",
        )
    return Replaced(
        beside=beside.table,
        uuid=there.uuid,
        schema_id=there.schema_id,
        spec_id=there.spec_id,
        snapshot_id=there.snapshot_id,
    )
