"""A run's events, each tied to all before it by its hash."""

from __future__ import annotations

import json
from datetime import datetime

from sqlalchemy import Connection, insert, select

from retcon.core.chains import GENESIS, event_body, link_hash
from retcon.core.events import Event
from retcon.core.plans import canonical
from retcon.ledger.schema import EVENTS
from retcon.ledger.texts import stamp, storable
from retcon.values import dataclass


@dataclass(frozen=True, kw_only=True)
class Link:
    """One event's place in its run's chain, and among the entries of the whole ledger."""

    run: str
    number: int
    hash: str
    entry: int


def append(connection: Connection, run: str, event: Event, *, at: datetime, who: str) -> Link:
    """Write an event at the end of its run's chain, whose run must be locked."""
    last = connection.execute(
        select(EVENTS.c.number, EVENTS.c.hash).where(EVENTS.c.run_id == run).order_by(EVENTS.c.number.desc()).limit(1)
    ).one_or_none()
    number, previous = (last.number + 1, last.hash) if last else (1, GENESIS)
    signed = {
        "number": number,
        "at": stamp(at),
        "who": storable(who),
        "kind": type(event).__name__,
        # As it will be read back: the hash must hold for what is stored.
        "body": json.loads(storable(canonical(event_body(event)))),
        "previous": previous,
    }
    digest = link_hash(run=run, **signed)
    written = connection.execute(insert(EVENTS).values(run_id=run, hash=digest, **signed))
    key = written.inserted_primary_key
    assert key is not None
    return Link(run=run, number=number, hash=digest, entry=key.entry)


def stands(connection: Connection, link: Link) -> bool:
    """Is this very event on record?"""
    found = connection.scalar(select(EVENTS.c.hash).where(EVENTS.c.run_id == link.run, EVENTS.c.number == link.number))
    return bool(found == link.hash)
