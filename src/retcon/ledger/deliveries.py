"""What hooks are to be told: one row for each movement and hook, written with the movement, kept as a record."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Connection, insert, select, update

from retcon.core.hooks import Delivery
from retcon.ledger.schema import DELIVERIES, WATERMARKS
from retcon.ledger.statements import Transaction, ask
from retcon.ledger.texts import moment_in
from retcon.ledger.watermarks import mark_of

_D, _W = DELIVERIES.c, WATERMARKS.c

Hooks = Mapping[str, frozenset[str]]
"""By name: the models whose watermarks it is told of."""


def put(connection: Connection, hooks: Hooks, moved: ColumnElement[bool]) -> None:
    """What is to be delivered of these movements, in the transaction that makes them."""
    if not hooks:
        return
    # By a clock that stands still, a publish and its rollback are of the same moment.
    news = moved & _W.entry.not_in(select(_D.movement))
    rows = connection.execute(select(_W.entry, _W.model).where(news).order_by(_W.entry)).all()
    due = [
        {"hook": hook, "movement": row.entry, "tries": 0}
        for row in rows
        for hook, models in hooks.items()
        if row.model in models
    ]
    if due:
        connection.execute(insert(DELIVERIES), due)


def put_of_run(connection: Connection, hooks: Hooks, run: str, at: datetime) -> None:
    """Of what a publish, or a rollback, moved just now."""
    put(connection, hooks, (_W.run_id == run) & (_W.at == at))


def put_after(connection: Connection, hooks: Hooks, entries: Iterable[int]) -> None:
    """Of what was moved without a run."""
    put(connection, hooks, _W.entry.in_(list(entries)))


def undelivered(connection: Transaction) -> list[Delivery]:
    """What hooks weren't told yet, oldest first."""
    rows = ask(
        connection,
        """SELECT w.*, d.hook, d.tries, d.error FROM retcon_watermarks w
           JOIN retcon_deliveries d ON d.movement = w.entry
           WHERE d.delivered IS NULL ORDER BY w.entry, d.hook""",
    )
    return [_delivery(row) for row in rows]


def last_delivered(connection: Transaction) -> dict[str, datetime]:
    """By hook: when it was told last."""
    told = "SELECT hook, max(delivered) AS at FROM retcon_deliveries WHERE delivered IS NOT NULL GROUP BY hook"
    return {row.hook: moment_in(row.at) for row in ask(connection, told)}


def record(connection: Connection, delivery: Delivery, *, at: datetime, error: str | None) -> None:
    """One more try, and what came of it; None: it was taken."""
    connection.execute(
        update(DELIVERIES)
        .where(_D.hook == delivery.hook, _D.movement == delivery.movement, _D.delivered.is_(None))
        .values(tries=_D.tries + 1, tried=at, delivered=at if error is None else None, error=error)
    )


def _delivery(row: Any) -> Delivery:
    return Delivery(
        hook=row.hook,
        movement=row.entry,
        mark=mark_of(row),
        is_set=bool(row.is_set),
        run=row.run_id,
        who=row.who,
        at=moment_in(row.at),
        why=row.why,
        tries=row.tries,
        error=row.error,
    )
