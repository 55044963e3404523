"""Tables that know more than the ledger: nothing more happens to them before it does."""

from __future__ import annotations

from collections.abc import Iterable

from retcon.core.plans import Plan
from retcon.core.projects import env_option
from retcon.core.troubles import TableMarks, unrecorded
from retcon.errors import Refused
from retcon.flow.ports import Ledger, Tables


def require_recorded(plan: Plan, ledger: Ledger, tables: Tables, *, of: str | None = None) -> None:
    """Refuse where a table of the plan holds a publish, or a rollback, that the ledger doesn't know; of this run, or
    of any.
    """
    # The tables first: what is published meanwhile is in the ledger by the time that is asked.
    marks = marks_of((planned.name for planned in plan.models), tables)
    runs = {name: run for name in _named(marks) if (run := ledger.run(name)) is not None}
    found = [
        each
        for each in unrecorded(marks, runs)
        # What a REST catalog was asked for is found out by the run's own command.
        if (of is None or each.run == of) and ledger.intent(each.run) is None
    ]
    if found:
        more = f" (and {len(found) - 1} more)" if found[1:] else ""
        raise Refused(
            f"the tables know more than the ledger: {found[0].what}{more}",
            state="nothing was changed",
            next=f"was the ledger restored from a backup? `retcon doctor{env_option(plan.environment)}` explains it; "
            "with --repair it records what the tables know",
        )


def marks_of(names: Iterable[str], tables: Tables) -> list[TableMarks]:
    """What these tables tell of publishes, those that are there."""
    return [found for name in names if (found := tables.marks(name)) is not None]


def _named(marks: list[TableMarks]) -> set[str]:
    return {mark.run for table in marks for mark in table.marks}
