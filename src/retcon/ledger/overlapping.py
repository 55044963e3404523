"""Runs under way over the same slices, found in the transaction that would open one more."""

from __future__ import annotations

from sqlalchemy import Connection, text

from retcon.core.overlaps import InTheWay, shared_slices
from retcon.core.plans import Plan
from retcon.ledger import leases, reading
from retcon.ledger.statements import Transaction, ask

_LOCK = 0x6F70656E
"""The advisory lock that drivers queue for before they open a run: "open" in ASCII."""


def queue(connection: Connection) -> None:
    """One run is opened after the other: of two that overlap, the second must see the first."""
    # SQLite's writing transactions queue by themselves.
    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _LOCK})


def in_the_way(connection: Transaction, plan: Plan) -> list[InTheWay]:
    """Runs that are opened and not over, and write slices of this plan; but for the one that it renews."""
    names = [model.name for model in plan.models]
    rows = ask(
        connection,
        """SELECT id FROM retcon_runs r WHERE state NOT IN :over AND id NOT IN :own
             AND EXISTS (SELECT 1 FROM retcon_waves w WHERE w.run_id = r.id AND w.model IN :names)
           ORDER BY created, id""",
        over=reading.OVER,
        own=[plan.id, plan.request.refreshes or plan.id],
        names=names,
    )
    found = (reading.run(connection, row.id) for row in rows)
    shared = [(run, slices) for run in found if run is not None and (slices := shared_slices(plan, run.plan))]
    tallies = reading.tallies(connection, [run.id for run, _ in shared])
    return [
        InTheWay(
            run=run,
            shared=slices,
            staged=tallies[run.id].staged,
            driver=lease.driver if (lease := leases.standing(connection, run.id)) is not None else None,
        )
        for run, slices in shared
    ]
