"""The outbox: what the catalog was asked for, one entry a run, gone in the transaction that records the outcome."""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime

from sqlalchemy import Connection, delete, insert

from retcon.core.chains import event_body
from retcon.core.intents import Intent, event_of
from retcon.core.pointers import TableCommit
from retcon.core.runs import Run, RunState
from retcon.errors import Conflict, Refused
from retcon.ledger.schema import OUTBOX
from retcon.ledger.statements import Transaction, ask_one
from retcon.ledger.texts import document_in


def read(connection: Transaction, run_id: str) -> Intent | None:
    """The entry of a run."""
    row = ask_one(connection, "SELECT * FROM retcon_outbox WHERE run_id = :run_id", run_id=run_id)
    if row is None:
        return None
    commits = tuple(TableCommit(**commit) for commit in document_in(row.commits))
    return Intent(run=run_id, event=event_of(row.kind, document_in(row.event)), commits=commits)


def put(connection: Connection, run: Run, intent: Intent, *, at: datetime, who: str) -> None:
    """The entry of a locked run, before the catalog is asked."""
    from_state = RunState.PUBLISHING if intent.is_publish else RunState.PUBLISHED
    if run.state is not from_state:
        raise Refused(f"run {run.id} is {run.state.value.replace('_', ' ')}", next=f"`retcon show {run.id}`")
    if read(connection, run.id) is not None:
        raise Conflict(
            f"run {run.id}: what the catalog made of an earlier try isn't recorded yet",
            state="nothing was asked of the catalog by this one",
            next="run the same command again: it finds out first",
        )
    connection.execute(
        insert(OUTBOX).values(
            run_id=run.id,
            kind=type(intent.event).__name__,
            event=event_body(intent.event),
            commits=[asdict(commit) for commit in intent.commits],
            who=who,
            at=at,
        )
    )


def take_out(connection: Connection, run_id: str) -> None:
    """Its outcome is known, or it is given up."""
    connection.execute(delete(OUTBOX).where(OUTBOX.c.run_id == run_id))
