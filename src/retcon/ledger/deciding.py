"""Recording late changes, and what is decided of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, and_, insert, update

from retcon.core.exceptions import Decision, LateChange, LateEntry, late_document
from retcon.core.runs import Consumed, Run
from retcon.errors import Conflict
from retcon.ledger import reading
from retcon.ledger.exceptions import newest, waiting_of_run
from retcon.ledger.schema import EXCEPTIONS

_C = EXCEPTIONS.c


def record(connection: Connection, lates: Iterable[LateChange], *, at: datetime) -> None:
    """Note what a load found too old: one that waits is brought up to date, another is opened. What was restated
    since it was found isn't late any more.
    """
    known: dict[str, dict[str, LateEntry]] = {}
    consumed: dict[str, dict[str, dict[str, Consumed]]] = {}
    for late in lates:
        if late.model not in known:
            known[late.model] = newest(connection, late.model)
            consumed[late.model] = reading.standing_consumption(connection, late.model)
        before, made_of = known[late.model].get(late.slice), consumed[late.model].get(late.slice, {})
        now = {name: each.content for name, each in made_of.items()}
        if late.contents and late.contents.items() <= now.items():
            continue
        if before is not None and before.knows(late):
            connection.execute(update(EXCEPTIONS).where(_C.entry == before.entry).values(last_seen=at))
        elif before is not None and before.decision is Decision.OPEN:
            connection.execute(update(EXCEPTIONS).where(_C.entry == before.entry).values(last_seen=at, **_values(late)))
        else:
            values = {"model": late.model, "slice": late.slice, "first_seen": at, "last_seen": at, **_values(late)}
            connection.execute(insert(EXCEPTIONS).values(decision=Decision.OPEN, **values))


def decide(
    connection: Connection,
    entries: Sequence[LateEntry],
    decision: Decision,
    *,
    run: str | None,
    at: datetime,
    by: str,
    reason: str,
) -> None:
    """Record who decided what, and why; refused where one of them isn't as it was shown."""
    for each in entries:
        decided = connection.execute(
            update(EXCEPTIONS)
            .where(_C.entry == each.entry, _C.decision == each.decision, _C.last_seen == each.last_seen)
            .values(decision=decision, run_id=run, decided=at, who=by, reason=reason)
        )
        if decided.rowcount != 1:
            raise Conflict(
                f"{each.late.model} {each.late.slice}: somebody decided meanwhile, or more of it changed",
                state="no decision was recorded",
                next="`retcon exceptions` shows how it stands now",
            )


def restated(connection: Connection, run: Run) -> None:
    """A publish brought in what was late of its slices; not where it had pinned its inputs before that came."""
    late = waiting_of_run(connection, run.id)
    made_of = _by_slice(reading.consumption(connection, run.id) if late else [])
    pinned = None if run.run_ts is None else datetime.fromisoformat(run.run_ts)
    for each in late:
        now = made_of.get((each.late.model, each.late.slice), {})
        if _brings_in(each.late, now, is_newer=pinned is not None and pinned > each.last_seen):
            one = update(EXCEPTIONS).where(_C.entry == each.entry)
            connection.execute(one.values(decision=Decision.RESTATED, run_id=run.id))


def _by_slice(consumed: Iterable[Consumed]) -> dict[tuple[str, str], dict[str, Consumed]]:
    found: dict[tuple[str, str], dict[str, Consumed]] = {}
    for each in consumed:
        found.setdefault((each.model, each.slice), {})[each.input] = each
    return found


def _brings_in(late: LateChange, now: Mapping[str, Consumed], *, is_newer: bool) -> bool:
    """Is a slice made of what came late, by every input that it came by, or of what is newer? Rows of some keys aren't
    all of it.
    """
    contents = [(now[name].content, late.contents.get(name)) for name in late.because_of if name in now]
    is_whole = all(not is_now.startswith("keys:") for is_now, _ in contents)
    return bool(contents) and is_whole and (is_newer or all(is_now == came for is_now, came in contents))


def reopened(connection: Connection, run: str) -> None:
    """That publish was undone, or the plan given up."""
    by_it = and_(_C.decision.in_([Decision.RESTATED, Decision.APPROVED]), _C.run_id == run)
    connection.execute(update(EXCEPTIONS).where(by_it).values(decision=Decision.OPEN, run_id=None))


def _values(late: LateChange) -> dict[str, Any]:
    return {"late": late_document(late)}
