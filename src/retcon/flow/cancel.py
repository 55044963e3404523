"""Cancel: give a run up for good."""

from __future__ import annotations

from contextlib import suppress

from retcon.core.events import Cancelled, PublishRefused
from retcon.core.runs import Run, RunState
from retcon.errors import Refused, RetconError
from retcon.flow.commit import require_undecided
from retcon.flow.driving import Caller, stopped, turn_or_busy
from retcon.flow.ports import Clock, Ledger, Tables
from retcon.flow.unrecorded import require_recorded


def stop_and_cancel(run: Run, reason: str, caller: Caller, tables: Tables) -> Run:
    """Cancel a run after whoever drives it has stopped: nobody makes a branch then that would be left behind."""
    _require_cancellable(run)
    with stopped(run, f"to cancel it: {reason}" if reason else "to cancel it", caller) as token:
        return _cancelled(run, reason, caller, tables, token)


def cancel_if_left(run: Run, reason: str, caller: Caller, tables: Tables) -> Run:
    """Cancel a run that nobody drives; refused where somebody does."""
    with turn_or_busy(run, caller) as token:
        return _cancelled(run, reason, caller, tables, token)


def _cancelled(run: Run, reason: str, caller: Caller, tables: Tables, token: int) -> Run:
    standing = caller.ledger.run(run.id) or run
    return cancel(standing, reason, caller.ledger, tables, clock=caller.clock, who=caller.who, fence=token)


def cancel(
    run: Run, reason: str, ledger: Ledger, tables: Tables, *, clock: Clock, who: str, fence: int | None = None
) -> Run:
    """Its branches go, and so do the tables that were made for it and that nobody wrote."""
    _require_cancellable(run)
    # Its branch must not go the plain way if main holds its files.
    require_recorded(run.plan, ledger, tables, of=run.id)
    if run.state is RunState.PUBLISHING:
        # Swap and state move in one transaction: while the ledger says publishing, nothing is visible. But for a REST
        # catalog, which may have been asked.
        require_undecided(run, ledger, tables, clock=clock, who=who)
        run = ledger.record(run.id, PublishRefused(why=f"cancelled: {reason}"), at=clock(), who=who, fence=fence)
    if run.state is not RunState.CANCELLED:
        run = ledger.record(run.id, Cancelled(reason=reason), at=clock(), who=who, fence=fence)
    # After the record, so that a crash in between leaves a cancelled run whose clean-up can be called again.
    _drop_all(run, tables)
    return run


def drop_if_cancelled(run: Run, ledger: Ledger, tables: Tables) -> None:
    """What a process that slept through its turn still made for a run that was cancelled meanwhile."""
    with suppress(RetconError):
        standing = ledger.run(run.id)
        if standing is not None and standing.state is RunState.CANCELLED:
            _drop_all(standing, tables)


def drop_staged(name: str, run: Run, tables: Tables) -> None:
    """The run's branch of a table, and the table too, if it was made for the run and nobody wrote it."""
    tables.drop_branch(name, run.plan.branch)
    facts = tables.facts(name)
    if facts is not None and facts.properties.get("retcon.made_by") == run.id:
        tables.drop_unwritten(name, facts.uuid)


def _drop_all(run: Run, tables: Tables) -> None:
    # By the plan, not by the recorded tables: a run may have died before it could record them.
    for planned in run.plan.models:
        drop_staged(run.plan.place(planned.name), run, tables)


def _require_cancellable(run: Run) -> None:
    if run.state in (RunState.PUBLISHED, RunState.ROLLED_BACK):
        raise Refused(
            f"run {run.id} is {run.state.value.replace('_', ' ')}: only a run that isn't published can be cancelled",
            next=f"`retcon rollback {run.id} --reason …` undoes a publish"
            if run.state is RunState.PUBLISHED
            else f"`retcon show {run.id}` tells more",
        )
