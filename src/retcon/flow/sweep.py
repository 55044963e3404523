"""Sweep: branches, tags and old tables that nobody needs any more go; the rest is told, with its date."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime

from retcon.core.projects import Project
from retcon.core.runs import Replaced, Run, RunState, RunTable
from retcon.core.sweeping import Circumstances, Kind, Leftover, kept_until, leftovers
from retcon.errors import Conflict
from retcon.flow.cancel import drop_staged
from retcon.flow.ports import Ledger, Tables
from retcon.flow.rollback import retention_days
from retcon.values import dataclass

_TRIES = 5


@dataclass(frozen=True, kw_only=True)
class Swept:
    """What was found, and what became of it."""

    leftovers: tuple[Leftover, ...]
    is_dry: bool

    @property
    def dropped(self) -> tuple[Leftover, ...]:
        return tuple(each for each in self.leftovers if each.is_dropped)

    @property
    def kept(self) -> tuple[Leftover, ...]:
        return tuple(each for each in self.leftovers if not each.is_dropped)


def sweep(project: Project, ledger: Ledger, tables: Tables, now: datetime, *, dry: bool) -> Swept:
    """Drop what the project's runs left on its tables and nobody needs; dry: only tell."""
    sweeper = _Sweeper(project, ledger, tables, now, dry)
    found = [each for name in sorted(project.graph.models) for each in sweeper.refs_of(name)]
    return Swept(leftovers=(*found, *sweeper.old_tables()), is_dry=dry)


class _Sweeper:
    """One sweep."""

    def __init__(self, project: Project, ledger: Ledger, tables: Tables, now: datetime, dry: bool) -> None:
        self._project = project
        self._ledger = ledger
        self._tables = tables
        self._now = now
        self._dry = dry

    def refs_of(self, table: str) -> list[Leftover]:
        """The branches and tags of a table: those that may go, go together, in one commit."""
        for attempt in range(1, _TRIES + 1):
            refs = self._tables.refs(table)
            if refs is None:
                return []
            # The ledger after the table: a run is recorded before it opens a branch.
            found = leftovers(refs, self._circumstances(table, self._ledger.runs()))
            names = {each.name for each in found if each.is_dropped}
            if self._dry or not names:
                return found
            try:
                self._tables.drop_refs(refs, names)
            except Conflict:
                # Somebody committed meanwhile: what could go may be needed now.
                if attempt == _TRIES:
                    raise
                continue
            break
        return found

    def old_tables(self) -> Iterator[Leftover]:
        """Tables whose place others took, and what was built beside and given up."""
        runs = self._ledger.runs()
        read = {name for run in runs if not run.state.is_over for name in run.pins}
        for run in runs:
            if run.plan.environment != self._project.environment:
                continue
            if run.state is RunState.CANCELLED and not self._dry:
                # Finishes what a crash left of it; what somebody wrote stays.
                for planned in (each for each in run.plan.models if each.beside is not None):
                    drop_staged(run.plan.place(planned.name), run, self._tables)
            for table in run.tables.values():
                if table.replaces is not None and run.state in (RunState.PUBLISHED, RunState.ROLLED_BACK):
                    yield from self._old_table(run, table, table.replaces, is_read=table.replaces.beside in read)

    def _old_table(self, run: Run, table: RunTable, replaced: Replaced, *, is_read: bool) -> Iterator[Leftover]:
        model = table.table
        is_published = run.state is RunState.PUBLISHED
        held = replaced if is_published else table
        snapshot = replaced.snapshot_id if is_published else table.published_snapshot
        facts = self._tables.facts(replaced.beside)
        if facts is None:
            return
        left = Leftover(table=replaced.beside, name=replaced.beside, kind=Kind.TABLE, run=run.id, why="")
        until = kept_until(run, self._days(run, model))
        if (facts.uuid, facts.snapshot_id) != (held.uuid, snapshot):
            yield replace(left, why="somebody wrote to it, or made it anew")
        elif model not in self._project.graph.models:
            yield replace(left, why=f"{model} isn't a model of this project")
        elif is_read:
            yield replace(left, why="an open run reads it")
        elif until > self._now:
            yield replace(left, why=f"its run is {run.state.value.replace('_', ' ')}", until=until)
        elif self._dry or self._tables.drop_version(replaced.beside, facts.uuid, facts.snapshot_id):
            yield replace(left, why=f"its run is {run.state.value.replace('_', ' ')}", is_dropped=True)

    def _circumstances(self, table: str, runs: Sequence[Run]) -> Circumstances:
        under_way = [run for run in runs if not run.state.is_over]
        own = [run for run in runs if table in run.tables]
        published = (run.id for run in own if run.state is RunState.PUBLISHED)
        # A REST catalog may still be asked for what the intent says, which leads to the files of a rollback's branch.
        driven = {r for r in published if self._ledger.lease(r) is not None or self._ledger.intent(r) is not None}
        return Circumstances(
            now=self._now,
            runs={run.id: run for run in runs},
            environment=self._project.environment,
            retention_days={run.id: self._days(run, table) for run in own},
            default_days=self._project.graph.models[table].retention_days,
            driven=driven,
            needed={snapshot for run in under_way for snapshot in _needed(run, table)},
            hold="some run is open" if under_way else "" if runs else "the ledger knows no run at all",
        )

    def _days(self, run: Run, model: str) -> int:
        """As long as the model says, and as long as the run can be rolled back."""
        known = self._project.graph.models.get(model)
        return max(known.retention_days if known is not None else 0, retention_days(run, self._project))


def _needed(run: Run, table: str) -> Iterator[int]:
    """Snapshots of a table that a run reads, or began from."""
    held = [run.pins.get(table)]
    held += [s for t in run.tables.values() if t.table == table for s in (t.base_snapshot, t.head, t.snapshot_before)]
    for i in (i for planned in run.plan.models for i in planned.inputs if i.table == table):
        held += [i.snapshot_id, *(version.snapshot_id for version in i.versions)]
    yield from (snapshot for snapshot in held if snapshot is not None)
