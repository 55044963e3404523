"""Moving watermarks: with a publish, back with its rollback, or because somebody says so."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, insert

from retcon.core.hooks import rollback_reason
from retcon.core.runs import Run
from retcon.core.watermarks import NOTHING_LOADED, Advance, Mark
from retcon.ledger.schema import WATERMARKS
from retcon.ledger.statements import ask
from retcon.ledger.watermarks import mark_of, movements, newest


def advance(connection: Connection, advances: Iterable[Advance], run: Run, *, at: datetime, who: str) -> None:
    """What a load moves when it is published; where something moved since it was planned, that stays."""
    last = movements(newest(connection))
    for step in advances:
        if last.get((step.mark.model, step.mark.input), 0) == step.after:
            _put(connection, step.mark, run.id, at=at, who=who, why=run.plan.reason)


def put_back(connection: Connection, run: Run, *, at: datetime, who: str) -> None:
    """Each watermark that a load moved as it was before: before loads that were undone, too. One that somebody has set
    since stays unset, or becomes so: all is compared then.
    """
    moved = ask(connection, "SELECT * FROM retcon_watermarks WHERE run_id = :run_id ORDER BY entry", run_id=run.id)
    for row in {(row.model, row.input): row for row in reversed(moved)}.values():
        ours = "SELECT * FROM retcon_watermarks WHERE model = :model AND input = :input ORDER BY entry"
        every = ask(connection, ours, model=row.model, input=row.input)
        since = [each for each in every if each.entry > row.entry]
        was_reset = any(each.run_id is None and each.why != NOTHING_LOADED for each in since)
        if was_reset and not since[-1].is_set:
            continue
        earlier = _before(row.entry, every, _undone(connection) - {run.id})
        is_set = earlier is not None and bool(earlier.is_set) and not was_reset
        mark = mark_of(row if earlier is None else earlier)
        _put(connection, mark, run.id, at=at, who=who, why=rollback_reason(run.id), is_set=is_set)


def _before(entry: int, every: Sequence[Any], undone: Collection[str]) -> Any | None:
    """The newest movement before this one that rests on no load that was undone: from where such a load moved the
    watermark to where its rollback put it back, all do.
    """
    own: dict[str, list[int]] = {}
    for each in every:
        if each.run_id in undone:
            own.setdefault(each.run_id, []).append(each.entry)
    spans = [(first, back[-1] if back else math.inf) for first, *back in own.values()]
    stand = (each for each in every if each.entry < entry and not any(a <= each.entry < z for a, z in spans))
    return max(stand, key=lambda each: each.entry, default=None)


def _undone(connection: Connection) -> set[str]:
    return {row.id for row in ask(connection, "SELECT id FROM retcon_runs WHERE rolled_back IS NOT NULL")}


def move(
    connection: Connection, advances: Iterable[Advance], *, at: datetime, who: str, why: str, is_set: bool
) -> list[int]:
    """Because somebody says so, or since there was nothing to publish; where something moved meanwhile, that stays.
    Gives the movements that were made.
    """
    last = movements(newest(connection))
    return [
        _put(connection, step.mark, None, at=at, who=who, why=why, is_set=is_set)
        for step in advances
        if last.get((step.mark.model, step.mark.input), 0) == step.after
    ]


def _put(
    connection: Connection, mark: Mark, run: str | None, *, at: datetime, who: str, why: str, is_set: bool = True
) -> int:
    made = connection.execute(
        insert(WATERMARKS).values(
            model=mark.model,
            input=mark.input,
            input_table=mark.table,
            is_set=int(is_set),
            uuid=mark.uuid if is_set else "",
            snapshot_id=mark.snapshot_id if is_set else None,
            value=mark.value if is_set else None,
            looked=mark.looked if is_set else None,
            run_id=run,
            who=who,
            at=at,
            why=why,
        )
    )
    return int(made.inserted_primary_key[0])  # type: ignore[index]  # an INSERT of one row always has it
