"""Movements of watermarks: the newest one of an input holds."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, Select, func, insert, select

from retcon.core.hooks import rollback_reason
from retcon.core.runs import Run
from retcon.core.watermarks import NOTHING_LOADED, Advance, Mark, Watermark
from retcon.ledger.schema import RUNS, WATERMARKS

_C = WATERMARKS.c


def newest(connection: Connection) -> Sequence[Row[Any]]:
    """The last movement of each input of each model."""
    return connection.execute(_newest()).all()


def standing(newest: Iterable[Row[Any]]) -> dict[tuple[str, str], Watermark]:
    """By model and input; those that were unset aren't there."""
    return {(row.model, row.input): _watermark(row) for row in newest if row.is_set}


def moves(connection: Connection, model: str) -> list[Watermark]:
    """Every movement of a model's watermarks to some place, oldest first."""
    rows = connection.execute(select(WATERMARKS).where(_C.model == model, _C.is_set == 1).order_by(_C.entry))
    return [_watermark(row) for row in rows]


def movements(newest: Iterable[Row[Any]]) -> dict[tuple[str, str], int]:
    """By model and input, whatever it was."""
    return {(row.model, row.input): row.entry for row in newest}


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
    moved = connection.execute(select(WATERMARKS).where(_C.run_id == run.id).order_by(_C.entry)).all()
    for row in {(row.model, row.input): row for row in reversed(moved)}.values():
        ours = select(WATERMARKS).where(_C.model == row.model, _C.input == row.input)
        every = connection.execute(ours.order_by(_C.entry)).all()
        since = [each for each in every if each.entry > row.entry]
        was_reset = any(each.run_id is None and each.why != NOTHING_LOADED for each in since)
        if was_reset and not since[-1].is_set:
            continue
        earlier = _before(row.entry, every, _undone(connection) - {run.id})
        is_set = earlier is not None and bool(earlier.is_set) and not was_reset
        mark = mark_of(row if earlier is None else earlier)
        _put(connection, mark, run.id, at=at, who=who, why=rollback_reason(run.id), is_set=is_set)


def _before(entry: int, every: Sequence[Row[Any]], undone: Collection[str]) -> Row[Any] | None:
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
    return set(connection.scalars(select(RUNS.c.id).where(RUNS.c.rolled_back.is_not(None))))


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


def _newest() -> Select[tuple[object, ...]]:
    last = select(func.max(_C.entry)).group_by(_C.model, _C.input).scalar_subquery()
    return select(WATERMARKS).where(_C.entry.in_(last)).order_by(_C.model, _C.input)


def mark_of(row: Row[Any]) -> Mark:
    """The mark of a movement."""
    return Mark(
        model=row.model,
        input=row.input,
        table=row.input_table,
        uuid=row.uuid,
        snapshot_id=row.snapshot_id,
        value=row.value,
        looked=row.looked,
    )


def _watermark(row: Row[tuple[object, ...]]) -> Watermark:
    return Watermark(mark=mark_of(row), entry=row.entry, run=row.run_id, who=row.who, at=row.at, why=row.why)
