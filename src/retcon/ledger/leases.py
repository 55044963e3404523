"""Leases in the ledger: the database's own clock tells when one ends, whatever the clocks of the drivers say."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, insert, update

from retcon.core.leases import Driver, Lease, StopRequest
from retcon.errors import Conflict
from retcon.ledger.schema import LEASES
from retcon.ledger.statements import Transaction, ask_one


def standing(connection: Transaction, run_id: str) -> Lease | None:
    """The lease on a run, unless it has run out."""
    row = _row(connection, run_id)
    left = row.until - now_of(connection) if row is not None else 0.0
    if row is None or left <= 0:
        return None
    asked = None if row.asked_by is None else StopRequest(who=row.asked_by, why=row.asked_why or "")
    return Lease(token=row.token, driver=_driver(row), seconds_left=left, asked=asked)


def take(connection: Connection, run_id: str, driver: Driver, *, seconds: float) -> int:
    """A new lease, whoever held one; the token by which all older ones are refused."""
    row = _row(connection, run_id)
    token = 1 if row is None else int(row.token) + 1
    values = {
        "token": token,
        "who": driver.who,
        "host": driver.host,
        "pid": driver.pid,
        "began": driver.began,
        "until": now_of(connection) + seconds,
        "asked_by": None,
        "asked_why": None,
    }
    if row is None:
        connection.execute(insert(LEASES).values(run_id=run_id, **values))
    else:
        connection.execute(update(LEASES).where(LEASES.c.run_id == run_id).values(**values))
    return token


def extend(connection: Connection, run_id: str, token: int, *, seconds: float) -> bool:
    """Let the lease with this token end so many seconds from now; False where another one was taken since."""
    held = update(LEASES).where(LEASES.c.run_id == run_id, LEASES.c.token == token)
    return connection.execute(held.values(until=now_of(connection) + seconds)).rowcount == 1


def ask(connection: Connection, run_id: str, token: int, request: StopRequest) -> bool:
    """Leave a request with the driver of this lease; False where another one was taken since."""
    held = update(LEASES).where(LEASES.c.run_id == run_id, LEASES.c.token == token)
    return connection.execute(held.values(asked_by=request.who, asked_why=request.why)).rowcount == 1


def require_fence(connection: Connection, run_id: str, token: int | None) -> None:
    """Refuse what comes from a driver that another one took over from."""
    row = _row(connection, run_id) if token is not None else None
    if row is not None and row.token != token:
        raise Conflict(
            f"run {run_id} was taken over by {_driver(row)}",
            state="nothing was recorded or published by this process",
            next=f"`retcon status` and `retcon show {run_id}` tell how far it is",
        )


def _row(connection: Transaction, run_id: str) -> Any:
    return ask_one(connection, "SELECT * FROM retcon_leases WHERE run_id = :run_id", run_id=run_id)


def _driver(row: Any) -> Driver:
    return Driver(who=row.who, host=row.host, pid=row.pid, began=row.began)


def now_of(connection: Transaction) -> float:
    """Seconds since 1970, by the database's own clock."""
    is_server = connection.dialect.name == "postgresql"
    now = "extract(epoch FROM clock_timestamp())" if is_server else "(julianday('now') - 2440587.5) * 86400.0"
    return float(ask_one(connection, f"SELECT {now} AS now").now)
