"""Doctor: what is wrong between the ledger and the tables, and, when asked, what can be mended."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from retcon.core.events import Rebuilt
from retcon.core.leases import Lease
from retcon.core.plans import Plan, beside_of, tag_before, to_document
from retcon.core.projects import Project
from retcon.core.runs import Replaced, Run, RunState, RunTable
from retcon.core.slices import WHOLE, Cut
from retcon.core.sweeping import TableRefs
from retcon.core.troubles import (
    FileCheck,
    Mark,
    TableMarks,
    Trouble,
    Unrecorded,
    behind,
    broken_chain,
    fits,
    left_alone,
    lost_branches,
    lost_files,
    lost_old_table,
    lost_plan,
    lost_publish,
    lost_version,
    undriven,
    unowned,
    unreadable,
    unrecorded,
    why_not_rebuilt,
)
from retcon.errors import LostMetadata
from retcon.flow.driving import Caller, turn_if_free
from retcon.flow.ports import Progress, Tables, Watch
from retcon.flow.rollback import retention_days, rollback_until
from retcon.values import dataclass

MOST_FILES = 1_000
"""Data files of one table that are looked for unless all are asked for."""

PlanFile = Callable[[str], Plan | None]
"""The plan of this id, where its file is still there."""


@dataclass(frozen=True, kw_only=True)
class Checkup:
    """What was looked at, what is wrong, and what was mended."""

    troubles: tuple[Trouble, ...]
    repaired: tuple[Trouble, ...] = ()
    runs: int
    tables: int
    files: int
    files_left: int
    """Not looked for."""


class Doctor:
    """Looks at the ledger and at the tables of a project; starts no JVM."""

    def __init__(self, project: Project, tables: Tables, caller: Caller, plan_file: PlanFile) -> None:
        self._project = project
        self._tables = tables
        self._caller = caller
        self._ledger = caller.ledger
        self._plan_file = plan_file

    def examine(self, *, repair: bool, all_files: bool, watch: Watch) -> Checkup:
        """Everything that is wrong; with `repair`, what is left after mending what can be."""
        first = self._look()
        repaired = self._repair(first) if repair else ()
        last = self._look() if repaired else first
        checks = dict(self._check_files(last, all_files, watch))
        lost = (t for name, check in checks.items() for t in lost_files(name, check.lost, env=self._environment))
        return Checkup(
            troubles=(*self._troubles(last), *lost),
            repaired=repaired,
            runs=len(last.runs),
            tables=len(last.marks),
            files=sum(check.checked for check in checks.values()),
            files_left=sum(check.left for check in checks.values()),
        )

    @property
    def _environment(self) -> str | None:
        return self._project.environment

    def _look(self) -> _Found:
        # What stands before the tables, which runs there are after: who publishes meanwhile is no trouble.
        standing = self._ledger.last_published(sorted(self._project.graph.models))
        names = {*self._project.graph.models, *(p.name for run in self._own_runs() for p in run.plan.models)}
        found = _Found(standing=standing)
        for name in sorted(names):
            try:
                marks, refs = self._tables.marks(name), self._tables.refs(name)
            except LostMetadata as lost:
                found.unreadable[name] = lost.message
                continue
            if marks is not None and refs is not None:
                found.marks[name], found.refs[name] = marks, refs
        found.runs.update({run.id: run for run in self._ledger.runs()})
        news = unrecorded(list(found.marks.values()), found.runs)
        # What a REST catalog was asked for is found out by the run's own command.
        found.behind.extend(each for each in news if self._ledger.intent(each.run) is None)
        return found

    def _own_runs(self) -> Iterator[Run]:
        return (run for run in self._ledger.runs() if run.plan.environment == self._environment)

    # ── what is wrong ────────────────────────────────────────────────────────────────────────────────────────────

    def _troubles(self, found: _Found) -> Iterator[Trouble]:
        yield from (unreadable(name, why) for name, why in found.unreadable.items())
        for each in found.behind:
            yield behind(each, self._why_not(each, found), self._driven(each.run))
        for model, run in found.standing.items():
            if model not in found.unreadable and run.state is RunState.PUBLISHED:
                yield from _some(lost_publish(run, run.tables[model], found.marks.get(model)))
        yield from self._of_runs(found)
        known = {*found.runs, *(each.run for each in found.behind)}
        for refs in found.refs.values():
            yield from unowned(refs, known, env=self._environment)

    def _of_runs(self, found: _Found) -> Iterator[Trouble]:
        lost = {each.run for each in found.behind}
        for run in found.runs.values():
            yield from _some(broken_chain(run, self._ledger.events(run.id)))
            if run.plan.environment != self._environment or run.id in lost:
                continue
            if self._driven(run.id) is None:
                yield from _some(undriven(run, self._ledger.intent(run.id)))
            yield from lost_branches(run, self._refs_of(run, found))
            until = rollback_until(run, retention_days(run, self._project))
            if run.state is RunState.PUBLISHED and until is not None and until > self._caller.clock():
                yield from self._ways_back(run, found)

    def _ways_back(self, run: Run, found: _Found) -> Iterator[Trouble]:
        for table in run.tables.values():
            marks, refs = found.marks.get(table.table), found.refs.get(table.table)
            # Another table may have taken its place since.
            if marks is None or refs is None or marks.uuid != table.uuid:
                continue
            if table.replaces is not None:
                is_there = self._tables.marks(table.replaces.beside) is not None
                yield from _some(lost_old_table(run, table, is_there=is_there))
            yield from _some(lost_version(run, table, refs, tag_before(run.id)))

    def _refs_of(self, run: Run, found: _Found) -> Mapping[str, TableRefs]:
        beside = (table.written for table in run.tables.values() if table.replaces is not None)
        return {**found.refs, **{name: refs for name in beside if (refs := self._tables.refs(name)) is not None}}

    def _driven(self, run: str) -> Lease | None:
        """The lease of a process that is still there, as far as this machine can tell."""
        held = self._ledger.lease(run)
        return None if held is None or self._caller.is_gone(held.driver) else held

    def _check_files(self, found: _Found, all_files: bool, watch: Watch) -> Iterator[tuple[str, FileCheck]]:
        for name in found.marks:
            model = self._project.graph.models.get(name)

            def told(done: int, total: int, name: str = name) -> None:
                watch(Progress(step="files", model=name, done=done, total=total))

            yield (
                name,
                self._tables.lost_files(
                    name,
                    by=None if model is None else model.slicing.by,
                    grain=WHOLE if model is None else model.grain,
                    most=None if all_files else MOST_FILES,
                    watch=told,
                ),
            )

    # ── mending ──────────────────────────────────────────────────────────────────────────────────────────────────

    def _repair(self, found: _Found) -> tuple[Trouble, ...]:
        done: list[Trouble] = []
        for each in found.behind:
            trouble = behind(each, self._why_not(each, found), self._driven(each.run))
            if trouble.repair:
                if not done:
                    self._ledger.prepare()
                if self._rebuild(each, found):
                    done.append(trouble)
        return tuple(done)

    def _rebuild(self, lost: Unrecorded, found: _Found) -> bool:
        plan, source = self._plan_of(lost, found)
        left = left_alone(lost, found.marks)
        names = dict.fromkeys([*lost.published, *(p.name for p in plan.models if p.name in found.marks)])
        event = Rebuilt(
            tables=tuple(self._table(lost, name, left.get(name, ()), found) for name in names),
            published=lost.at.isoformat(),
            undone=lost.is_undone,
            source=source,
            plan=to_document(plan) if lost.known is None else None,
        )
        if lost.known is None:
            self._ledger.rebuild(plan, event, at=self._now, who=self._caller.who)
            return True
        with turn_if_free(lost.known, self._caller) as token:
            if token is not None:
                self._ledger.rebuild(plan, event, at=self._now, who=self._caller.who, fence=token)
        return token is not None

    @property
    def _now(self) -> datetime:
        return self._caller.clock()

    def _plan_of(self, lost: Unrecorded, found: _Found) -> tuple[Plan, str]:
        if lost.known is not None:
            return lost.known.plan, "the ledger"
        kept = self._plan_file(lost.run)
        if kept is not None and fits(kept, lost):
            return kept, f"backfills/{lost.run}.yaml"
        timezone = self._project.settings.timezone
        made = lost_plan(lost, self._cuts(found), environment=self._environment, timezone=timezone, by=self._caller.who)
        return made, "the snapshots' summaries"

    def _table(self, lost: Unrecorded, name: str, same: tuple[str, ...], found: _Found) -> RunTable:
        """A table of a lost publish: as the run began with it where that is known, else as it is."""
        mark = lost.published.get(name)
        opened = lost.known.tables.get(name) if lost.known is not None else None
        if opened is not None:
            snapshot = opened.published_snapshot if mark is None else mark.snapshot_id
            return replace(opened, published_snapshot=snapshot, same=same or opened.same)
        marks = found.marks[name]
        return RunTable(
            table=name,
            uuid=marks.uuid,
            schema_id=marks.schema_id,
            spec_id=marks.spec_id,
            base_snapshot=None if mark is None else mark.parent,
            made=False,
            published_snapshot=None if mark is None else mark.snapshot_id,
            replaces=None if mark is None else self._replaced(lost.run, name, mark),
            same=same,
        )

    def _replaced(self, run: str, name: str, mark: Mark) -> Replaced | None:
        """A first snapshot beside an older table: that one had the name before."""
        beside = beside_of(run, name)
        facts = self._tables.facts(beside) if mark.parent is None else None
        if facts is None:
            return None
        return Replaced(
            beside=beside,
            uuid=facts.uuid,
            schema_id=facts.schema_id,
            spec_id=facts.spec_id,
            snapshot_id=facts.snapshot_id,
        )

    def _why_not(self, lost: Unrecorded, found: _Found) -> str:
        return why_not_rebuilt(lost, list(found.marks.values()), self._cuts(found))

    def _cuts(self, found: _Found) -> Mapping[str, Cut]:
        models = self._project.graph.models
        return {name: models[name].grain if name in models else WHOLE for name in found.marks}


class _Found:
    """One look at everything."""

    def __init__(self, *, standing: Mapping[str, Run]) -> None:
        self.standing = standing
        """By model: the newest publish that the ledger says stands."""
        self.runs: dict[str, Run] = {}
        self.marks: dict[str, TableMarks] = {}
        self.refs: dict[str, TableRefs] = {}
        self.unreadable: dict[str, str] = {}
        self.behind: list[Unrecorded] = []


def _some(trouble: Trouble | None) -> Sequence[Trouble]:
    return () if trouble is None else (trouble,)
