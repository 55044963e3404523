"""A run's branch: what stands on it is what the run staged, and nothing else."""

from __future__ import annotations

from retcon.core.plans import PlannedModel
from retcon.core.runs import Run, WaveState
from retcon.errors import Refused
from retcon.flow.context import Context


def require_own_branch(run: Run, planned: PlannedModel, context: Context) -> int:
    """The head of a table's branch; refused where it isn't made of this run's commits, every recorded wave included.

    A branch that was dropped, moved or written by somebody shows production's old rows, or others', as if restated.
    """
    table = run.tables[planned.name]
    staged = context.tables.staged(table.written, run.plan.branch, table.base_snapshot)
    if staged is None:
        raise _refused(run, planned, "is gone")
    if not staged.reaches_base:
        raise _refused(run, planned, f"doesn't begin at snapshot {table.base_snapshot} any more")
    if table.rebase is not None and staged.round != table.rebase.round:
        raise _refused(run, planned, f"lacks what was carried over onto snapshot {table.base_snapshot}")
    others = [snapshot for snapshot, by in staged.runs.items() if by != run.id]
    if others:
        raise _refused(run, planned, f"was written by somebody else (snapshot {others[0]})")
    waves = [w for w in context.ledger.waves(run.id) if w.model == planned.name and w.state is WaveState.DONE]
    # Without a snapshot of its own, all that is kept of a wave was carried over.
    lost = [wave for wave in waves if wave.snapshot_id is not None and wave.snapshot_id not in staged.runs]
    if lost:
        raise _refused(run, planned, f"lacks wave {lost[0].wave}, which was staged (snapshot {lost[0].snapshot_id})")
    return staged.head


def _refused(run: Run, planned: PlannedModel, what: str) -> Refused:
    return Refused(
        f"branch {run.plan.branch} of {run.tables[planned.name].written} {what}",
        state="what was staged there can't be relied on; production is untouched",
        next=f"`retcon cancel {run.id}`, then `retcon plan --refresh backfills/{run.id}.yaml`",
    )
