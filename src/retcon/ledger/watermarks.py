"""Movements of watermarks: the newest one of an input holds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from retcon.core.watermarks import Mark, Watermark
from retcon.ledger.statements import Transaction, ask
from retcon.ledger.texts import moment_if_any, moment_in


def newest(connection: Transaction) -> Sequence[Any]:
    """The last movement of each input of each model."""
    return ask(
        connection,
        """SELECT * FROM retcon_watermarks
           WHERE entry IN (SELECT max(entry) FROM retcon_watermarks GROUP BY model, input)
           ORDER BY model, input""",
    )


def standing(newest: Iterable[Any]) -> dict[tuple[str, str], Watermark]:
    """By model and input; those that were unset aren't there."""
    return {(row.model, row.input): _watermark(row) for row in newest if row.is_set}


def moves(connection: Transaction, model: str) -> list[Watermark]:
    """Every movement of a model's watermarks to some place, oldest first."""
    every = "SELECT * FROM retcon_watermarks WHERE model = :model AND is_set = 1 ORDER BY entry"
    return [_watermark(row) for row in ask(connection, every, model=model)]


def movements(newest: Iterable[Any]) -> dict[tuple[str, str], int]:
    """By model and input, whatever it was."""
    return {(row.model, row.input): row.entry for row in newest}


def mark_of(row: Any) -> Mark:
    """The mark of a movement."""
    return Mark(
        model=row.model,
        input=row.input,
        table=row.input_table,
        uuid=row.uuid,
        snapshot_id=row.snapshot_id,
        value=row.value,
        looked=moment_if_any(row.looked),
    )


def _watermark(row: Any) -> Watermark:
    return Watermark(mark=mark_of(row), entry=row.entry, run=row.run_id, who=row.who, at=moment_in(row.at), why=row.why)
