"""Hand check: rows drawn for a person to look at, what they came from, and who has looked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from retcon.core.chains import event_body
from retcon.core.events import SampleChecked
from retcon.core.hand_checks import HandCheck, TracedInput, TraceRequest, links_of
from retcon.core.models import Input, Model
from retcon.core.plans import PlannedInput, PlannedModel, canonical
from retcon.core.reads import Read
from retcon.core.row_diffs import RowPair, Sides
from retcon.core.runs import Run
from retcon.core.slices import Grain, SliceSet
from retcon.errors import BadArguments, Refused
from retcon.flow.compare_rows import Asking, compare_rows, made_by
from retcon.flow.context import Context, read_as_planned
from retcon.flow.ports import Ledger, Progress

_UNCHECKED = "nothing was recorded"


def draw(
    run: Run, model: Model, planned: PlannedModel, sides: Sides | None, context: Context, asking: Asking
) -> HandCheck:
    """Rows among those that differ, the same for the same seed, with the input rows that they came from."""
    diff = compare_rows(run, model, planned, sides, context, asking)
    inputs: list[TracedInput] = []
    progress = Progress(step="trace", total=len(model.inputs))
    for i in model.inputs if diff.sample else ():
        context.watch(replace(progress, done=len(inputs), model=i.table))
        inputs.append(_traced(run, model, planned, i, diff.sample, context))
    if inputs:
        context.watch(replace(progress, done=progress.total))
    return HandCheck(
        diff=diff,
        seed=asking.seed or run.id,
        inputs=tuple(inputs),
        snapshots=(None, None) if sides is None else (sides.old.snapshot_id, sides.new.snapshot_id),
    )


def confirm(
    run: Run, checks: Sequence[HandCheck], ledger: Ledger, *, by: str, note: str, at: datetime, who: str
) -> tuple[SampleChecked, ...]:
    """Record who has looked at which rows, by their hashes; refused where there are none."""
    if not by.strip():
        raise BadArguments("a check has somebody who answers for it", next="pass --by NAME")
    drawn = [check for check in checks if check.rows]
    if not drawn:
        raise Refused(f"no row differs in run {run.id}: there is nothing to check", state=_UNCHECKED)
    events = tuple(
        SampleChecked(
            model=check.diff.model,
            seed=check.seed,
            rows=len(check.rows),
            keys=check.key_hashes,
            snapshots=check.snapshots,
            by=by.strip(),
            note=note.strip(),
        )
        for check in drawn
    )
    # Called again after a crash, or twice, it is one check.
    known = {canonical(each.body) for each in ledger.events(run.id) if each.kind == SampleChecked.__name__}
    for event in events:
        if canonical(event_body(event)) not in known:
            ledger.record(run.id, event, at=at, who=who)
    return events


def _traced(
    run: Run, model: Model, planned: PlannedModel, i: Input, sample: tuple[RowPair, ...], context: Context
) -> TracedInput:
    """The rows of one input, at the snapshot that the run read; else why they can't be told."""
    told = TracedInput(name=i.name, table=i.table, snapshot_id=None, found_by="")
    read_then = next((each for each in planned.inputs if each.name == i.name), None)
    if read_then is None:
        return replace(told, why_not="the model reads it since the run was planned")
    if read_then.versions:
        return replace(told, why_not="it is read as of each slice's end, at as many snapshots")
    try:
        table, snapshot = made_by(run, i.table, context) if i.table in run.tables else (i.table, run.pins.get(i.table))
        facts = context.tables.facts(table)
        links = "it is gone" if facts is None else links_of(model, i, [column.name for column in facts.columns])
        if isinstance(links, str):
            return replace(told, snapshot_id=snapshot, why_not=links)
        request = TraceRequest(
            read=_read(i, read_then, _slices(planned, sample), table, snapshot),
            links=links,
            time=i.time,
            grain=model.grain if isinstance(model.grain, Grain) else None,
            rows=sample,
        )
        rows = context.warehouse.trace(request)
    except Refused as gone:
        return replace(told, why_not=gone.message)
    except KeyboardInterrupt:
        context.warehouse.interrupt()
        raise
    return replace(told, snapshot_id=snapshot, found_by=links.text, rows=rows)


def _slices(planned: PlannedModel, sample: tuple[RowPair, ...]) -> SliceSet:
    return SliceSet.labelled(planned.slices.grain, (pair.slice for pair in sample))


def _read(i: Input, planned: PlannedInput, slices: SliceSet, table: str, snapshot: int | None) -> Read:
    if not isinstance(slices.grain, Grain):
        return Read(table=table, snapshot_id=snapshot, by=None, slices=None)
    return replace(read_as_planned(i, planned, slices, {i.table: snapshot}), table=table)
