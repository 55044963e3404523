"""Publish: every table of the run in one atomic step, metadata only."""

from __future__ import annotations

from collections.abc import Iterator

from retcon.core.jobs import PublishRequest
from retcon.core.planning import reads_its_slices
from retcon.core.plans import PlannedModel, tag_before
from retcon.core.runs import PointerSwap, PublishBegan, Published, PublishRefused, Run
from retcon.core.slices import WHOLE, Grain, SliceSet, Whole
from retcon.errors import Conflict, Refused
from retcon.flow.commit import publish_group
from retcon.flow.consume import consumed_by
from retcon.flow.context import Context
from retcon.flow.ports import Progress
from retcon.flow.still_fits import require_same_files

_TRIES = 5


def publish(run: Run, context: Context) -> Run:
    """Make the run visible. Commits to other slices meanwhile stay; one inside the scope refuses it."""
    consumed = consumed_by(run, context)
    try:
        # After the last look at them: what is recorded as consumed is what was there all along.
        require_same_files(run.plan, context.project, context.tables)
    except Refused as refusal:
        context.record(run, PublishRefused(why=refusal.message))
        raise
    for attempt in range(1, _TRIES + 1):
        context.watch(Progress(step="publish", done=0, total=len(run.plan.models)))
        try:
            swaps = [_prepare(run, planned, context) for planned in run.plan.models]
        except Refused as refusal:
            context.record(run, PublishRefused(why=refusal.message))
            raise
        run = context.record(run, PublishBegan(locations={swap.table: swap.new_location for swap in swaps}))
        try:
            event = Published(snapshots={swap.table: swap.snapshot_id for swap in swaps}, consumed=consumed)
            run = publish_group(run, event, swaps, context)
        except Conflict as conflict:
            # Somebody committed between preparing and swapping: look again at what it was.
            if attempt == _TRIES:
                context.record(run, PublishRefused(why=conflict.message))
                raise
            continue
        context.watch(Progress(step="publish", done=len(swaps), total=len(swaps)))
        break
    return run


def publish_request(run: Run, planned: PlannedModel) -> PublishRequest:
    """One table's share."""
    return PublishRequest(
        run=run.id,
        table=run.tables[planned.name],
        slices=planned.slices,
        branch=run.plan.branch,
        tag=tag_before(run.id),
    )


def _prepare(run: Run, planned: PlannedModel, context: Context) -> PointerSwap:
    _require_unmoved(run, planned, context)
    swap = context.warehouse.prepare_publish(publish_request(run, planned))
    # What others read of it inside the run isn't for Iceberg to check; what lands after this look fails the swap.
    _require_unmoved(run, planned, context)
    return swap


def _require_unmoved(run: Run, planned: PlannedModel, context: Context) -> None:
    """Name the slices of this run that somebody else wrote since it began; Iceberg's own check names files only."""
    base = run.tables[planned.name].snapshot_before
    facts = context.tables.facts(planned.name)
    if facts is None:
        raise Refused(
            f"{planned.name} was dropped since this run began",
            state="nothing was published",
            next=f"`retcon cancel {run.id}`, then plan again",
        )
    if facts.snapshot_id == base:
        return
    if planned.beside is not None:
        commits = ", ".join(context.tables.commits_after(planned.name, base)[:3])
        raise Conflict(
            f"{planned.name}: written by others since this run began to build a table in its place ({commits})",
            state="nothing was published; production is untouched by this run",
            next=f"`retcon plan --refresh backfills/{run.id}.yaml` plans it anew on what is there now",
        )
    by = context.model(planned).slicing.by
    for used in _used(run, planned, context):
        time = None if isinstance(used.grain, Whole) else by
        changed = context.tables.changed(planned.name, time=time, grain=used.grain, since=base, until=facts.snapshot_id)
        hit = changed.within(used) if changed is not None else None
        if hit:
            commits = ", ".join(context.tables.commits_after(planned.name, base)[:3])
            raise Conflict(
                f"{planned.name}: {hit.text} changed by others since this run began ({commits})",
                state="nothing was published; production is untouched by this run",
                next=f"`retcon plan --refresh backfills/{run.id}.yaml` plans it anew on what is there now",
            )


def _used(run: Run, planned: PlannedModel, context: Context) -> Iterator[SliceSet]:
    """The slices of a table that this run writes, and those that its other models read: both must be as they were."""
    yield planned.slices
    made = context.model(planned)
    for reader in run.plan.models:
        for i in (i for i in context.model(reader).inputs if i.table == planned.name):
            slices = reader.input(i.name).slices
            is_by_slice = isinstance(made.grain, Grain) or reads_its_slices(i, reader.slices.grain, made)
            # A table that is read whole, or by another column, may not have changed anywhere.
            is_told = slices is not None and is_by_slice and isinstance(slices.grain, type(made.grain))
            yield slices if slices is not None and is_told else SliceSet.every(WHOLE)
