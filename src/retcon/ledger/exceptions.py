"""Late changes on record: at most one of a slice is open, and what was decided stays."""

from __future__ import annotations

from typing import Any

from retcon.core.exceptions import Decision, LateEntry, late_from
from retcon.ledger.statements import Transaction, ask
from retcon.ledger.texts import document_in, moment_if_any, moment_in


def every(connection: Transaction, *, only_open: bool) -> list[LateEntry]:
    """All of them, or those that wait, by model and slice, oldest first."""
    wanted = [Decision.OPEN.value] if only_open else [each.value for each in Decision]
    found = ask(
        connection,
        "SELECT * FROM retcon_exceptions WHERE decision IN :wanted ORDER BY model, slice, entry",
        wanted=wanted,
    )
    return [entry_of(row) for row in found]


def newest(connection: Transaction, model: str) -> dict[str, LateEntry]:
    """Per slice of a model, the last that was recorded."""
    found = ask(
        connection,
        """SELECT * FROM retcon_exceptions
           WHERE entry IN (SELECT max(entry) FROM retcon_exceptions WHERE model = :model GROUP BY slice)
           ORDER BY slice""",
        model=model,
    )
    return {row.slice: entry_of(row) for row in found}


def waiting_of_run(connection: Transaction, run_id: str) -> list[LateEntry]:
    """Those of a run's slices that aren't restated or rejected."""
    found = ask(
        connection,
        """SELECT * FROM retcon_exceptions e WHERE decision IN :waiting AND EXISTS (
             SELECT 1 FROM retcon_slices s WHERE s.run_id = :run_id AND s.model = e.model AND s.slice = e.slice)""",
        waiting=[Decision.OPEN.value, Decision.APPROVED.value],
        run_id=run_id,
    )
    return [entry_of(row) for row in found]


def entry_of(row: Any) -> LateEntry:
    """A late change, and what became of it."""
    return LateEntry(
        entry=row.entry,
        late=late_from(document_in(row.late)),
        first_seen=moment_in(row.first_seen),
        last_seen=moment_in(row.last_seen),
        decision=Decision(row.decision),
        run=row.run_id,
        by=row.who,
        decided=moment_if_any(row.decided),
        reason=row.reason,
    )
