"""Turns of schedules: which of their times are done, and which one a process is at."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, or_, text, update

from retcon.core.leases import Driver
from retcon.core.schedules import Claim, Kind, Turn
from retcon.ledger.leases import now_of
from retcon.ledger.schema import SCHEDULES
from retcon.ledger.statements import Transaction, ask
from retcon.ledger.texts import moment_if_any

_C = SCHEDULES.c
_NEW_ROW = text(
    f"INSERT INTO {SCHEDULES.name} (model, kind, trouble) VALUES (:model, :kind, '') ON CONFLICT DO NOTHING"
)
"""As both databases spell it."""


def turns(connection: Transaction) -> dict[tuple[str, Kind], Turn]:
    """By model and kind; claims that have run out count for nothing."""
    now = now_of(connection)
    found = ask(connection, "SELECT * FROM retcon_schedules")
    return {(row.model, Kind(row.kind)): _turn(row, now) for row in found}


def take(
    connection: Connection,
    due: Mapping[tuple[str, Kind], datetime],
    driver: Driver,
    *,
    claim: str,
    over: Sequence[str],
    seconds: float,
) -> list[tuple[str, Kind]]:
    """Each time that isn't done yet and that nobody is at: one statement looks and takes. Always in the same order,
    so that two who take several don't wait for each other.
    """
    now = now_of(connection)
    values = {"who": driver.who, "host": driver.host, "pid": driver.pid, "began": driver.began}
    taken: list[tuple[str, Kind]] = []
    for (model, kind), moment in sorted(due.items()):
        _make_row(connection, model, kind)
        is_free = or_(_C.claim.is_(None), _C.until <= now, _C.claim.in_(over))
        is_open = or_(_C.done.is_(None), _C.done < moment)
        free = update(SCHEDULES).where(_C.model == model, _C.kind == kind, is_open, is_free)
        if connection.execute(free.values(due=moment, claim=claim, until=now + seconds, **values)).rowcount == 1:
            taken.append((model, kind))
    return taken


def extend(connection: Connection, claim: str, *, seconds: float) -> bool:
    """Let a claim end so many seconds from now; False where nothing of it is left."""
    held = update(SCHEDULES).where(_C.claim == claim)
    return connection.execute(held.values(until=now_of(connection) + seconds)).rowcount > 0


def end(connection: Connection, claim: str, *, at: datetime, trouble: str, model: str | None = None) -> None:
    """Let go of what a claim holds, all or a model's; without trouble it is done."""
    values = {"claim": None, "until": None, "ended": at, "trouble": trouble}
    held = update(SCHEDULES).where(_C.claim == claim)
    if model is not None:
        held = held.where(_C.model == model)
    connection.execute(held.values(values) if trouble else held.values(done=_C.due, **values))


def _make_row(connection: Connection, model: str, kind: Kind) -> None:
    connection.execute(_NEW_ROW, {"model": model, "kind": kind.value})


def _turn(row: Any, now: float) -> Turn:
    claim: Claim | None = None
    if row.claim is not None and row.until > now:
        driver = Driver(who=row.who, host=row.host, pid=row.pid, began=row.began)
        claim = Claim(id=row.claim, driver=driver, seconds_left=row.until - now)
    return Turn(
        model=row.model,
        kind=Kind(row.kind),
        done=moment_if_any(row.done),
        ended=moment_if_any(row.ended),
        trouble=row.trouble,
        claim=claim,
    )
