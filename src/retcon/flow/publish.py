"""Publish: every table of the run in one atomic step, metadata only."""

from __future__ import annotations

from collections.abc import Mapping

from retcon.core.events import PublishBegan, Published, PublishRefused
from retcon.core.jobs import PublishRequest
from retcon.core.plans import PlannedModel, tag_before
from retcon.core.runs import Consumed, Run
from retcon.errors import Conflict, Refused
from retcon.flow.commit import publish_group
from retcon.flow.consume import consumed_by
from retcon.flow.context import Context
from retcon.flow.cut_off import same_slices
from retcon.flow.ports import Progress
from retcon.flow.rebase import Seen, conflict_of, look, rebase
from retcon.flow.still_fits import require_same_files
from retcon.flow.unrecorded import require_recorded

_TRIES = 5


def publish(run: Run, context: Context, *, may_rebase: bool = True) -> Run:
    """Make the run visible. Commits to other slices meanwhile stay; those to what it uses send it back to staging."""
    consumed = consumed_by(run, context)
    try:
        require_recorded(run.plan, context.ledger, context.tables)
        # After the last look at them: what is recorded as consumed is what was there all along.
        require_same_files(run.plan, context.project, context.tables)
        for tries_left in reversed(range(_TRIES)):
            seen = look(run, context)
            conflict = conflict_of(run, seen)
            if conflict is not None and not may_rebase:
                raise conflict
            if conflict is not None:
                return rebase(run, seen, context)
            try:
                return _swapped(run, seen, consumed, context)
            except Conflict:
                # Somebody committed while it was prepared, or before the swap: look again at what it was.
                if not tries_left:
                    raise
    except Refused as refusal:
        context.record(run, PublishRefused(why=refusal.message))
        raise
    return run


def _swapped(run: Run, seen: Mapping[str, Seen], consumed: tuple[Consumed, ...], context: Context) -> Run:
    same = {p.name: left for p in run.plan.models if (left := same_slices(run, p, context))}
    changed = [each for p in run.plan.models if (each := p.without(same.get(p.name, ()))).slices]
    context.watch(Progress(step="publish", done=0, total=len(changed)))
    swaps = [context.warehouse.prepare_publish(_request(run, p, since=seen[p.name].since)) for p in changed]
    # What others read of it inside the run isn't for Iceberg to check; what lands after this look fails the swap.
    conflict = conflict_of(run, look(run, context))
    if conflict is not None:
        raise conflict
    run = context.record(run, PublishBegan(locations={swap.table: swap.new_location for swap in swaps}))
    event = Published(snapshots={swap.table: swap.snapshot_id for swap in swaps}, consumed=consumed, same=same)
    run = publish_group(run, event, swaps, context)
    context.watch(Progress(step="publish", done=len(swaps), total=len(swaps)))
    return run


def _request(run: Run, planned: PlannedModel, *, since: int | None) -> PublishRequest:
    """One table's share."""
    return PublishRequest(
        run=run.id,
        table=run.tables[planned.name],
        slices=planned.slices,
        branch=run.plan.branch,
        tag=tag_before(run.id),
        since=since,
    )
