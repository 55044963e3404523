"""Load: find what changed, and make the plan that brings models up to date with it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import field, replace
from datetime import datetime

from retcon.core.exceptions import LateChange
from retcon.core.limits import OverLimits
from retcon.core.loads import Found, held_back, older_than_window, oldest_half, total, without
from retcon.core.models import Model
from retcon.core.planning import InputsMissing
from retcon.core.plans import Load, Plan
from retcon.core.projects import Project
from retcon.core.runs import Run
from retcon.core.slices import Grain, SliceSet
from retcon.core.watermarks import NOTHING_LOADED, Advance
from retcon.flow.find import Finder
from retcon.flow.follow_up import is_followed_up
from retcon.flow.late import Impact
from retcon.flow.plan import Ask, Planner
from retcon.flow.ports import Ledger, Tables
from retcon.values import dataclass


@dataclass(frozen=True, kw_only=True)
class Due:
    """What was found, and the plan for as much of it as one publish may hold."""

    found: tuple[Found, ...]
    plan: Plan | None
    """None: nothing is to be computed."""
    left: int = 0
    """Slices that are found and wait for the next publish."""
    advances: tuple[Advance, ...] = field(default=())
    """Watermarks that move though nothing has to be published."""
    late: tuple[LateChange, ...] = field(default=())
    """What is recorded with that as too old to be restated unasked."""


class Loader:
    """Makes plans of what changed."""

    def __init__(self, project: Project, tables: Tables, ledger: Ledger, planner: Planner, impact: Impact) -> None:
        self._project = project
        self._tables = tables
        self._ledger = ledger
        self._planner = planner
        self._impact = impact

    def unfinished(self, names: Sequence[str]) -> Run | None:
        """A load of these models that was begun and isn't over: it comes first."""
        under_way = [run for run in self._ledger.unfinished_runs() if run.plan.load is not None]
        mine = [run for run in under_way if any(planned.name in names for planned in run.plan.models)]
        own = [run for run in mine if run.plan.environment == self._project.environment]
        return own[-1] if own else None

    def unchecked(self, names: Sequence[str]) -> list[Run]:
        """Loads of these models that were published, and not looked at as they are published: a process ended then."""
        last = {run.id: run for run in self._ledger.last_published(names).values() if run.plan.load is not None}
        return [run for run in last.values() if not is_followed_up(run, self._ledger)]

    def due(self, names: Sequence[str], ask: Ask, *, deep: Collection[str] = ()) -> Due:
        """What has to be computed now. `ask` says who, when and how; its scope is found here, of deep models by
        comparing their whole history.
        """
        finder = Finder(self._project, self._tables, self._ledger)
        with finder.look():
            found = finder.find(names, ask.now, deep=deep)
            # Models that weren't asked for are restated along with what they read: not from what isn't there any more.
            found += finder.left_alone(self._readers(found, names, ask), ask.now)
        if not ask.dry_run:
            found = [replace(each, exceptions=self._impact.of(each.exceptions)) for each in found]
        wanted = found
        while total(wanted):
            try:
                plan = self._plan(wanted, ask)
            except InputsMissing as lacking:
                kept = [self._without(each, lacking) for each in wanted]
                if total(kept) == total(wanted):
                    raise  # of a model that only reads what changed
                wanted, found = kept, [self._without(each, lacking) for each in found]
            except OverLimits:
                half = oldest_half(wanted)
                if total(half) == total(wanted):
                    raise  # none of them is older than the others
                wanted = half
            else:
                rest = {each.model: left for each in wanted if (left := _left_out(plan, each))}
                if not rest:
                    return Due(found=tuple(found), plan=plan, left=total(found) - total(wanted))
                # Behind a slice that is held, a chain isn't gone on with: its changes aren't consumed, either.
                wanted = [held_back(each, rest[each.model]) if each.model in rest else each for each in wanted]
                found = [held_back(each, rest[each.model]) if each.model in rest else each for each in found]
        return Due(
            found=tuple(found),
            plan=None,
            advances=tuple(a for each in found for a in each.advances),
            late=_late(found),
        )

    def advance(self, due: Due, now: datetime, who: str) -> None:
        """Move watermarks past changes that make nothing stale, or are too old."""
        if due.advances or due.late:
            self._ledger.prepare()
            self._ledger.move_watermarks(
                due.advances, due.late, is_set=True, why=NOTHING_LOADED, at=now, who=who
            )  # fmt: skip

    def _readers(self, found: Sequence[Found], names: Collection[str], ask: Ask) -> set[str]:
        """Published models, not asked for, that read what has to be computed."""
        graph = self._project.graph
        made = [each.model for each in found if each.stale]
        excluded = graph.select(ask.exclude) if ask.exclude else ()
        readers = set().union(*(graph.descendants(name) for name in made)) - set(names) - set(excluded)
        return {name for name in readers if (facts := self._tables.facts(name)) is not None and facts.snapshot_id}

    def _plan(self, wanted: Sequence[Found], ask: Ask) -> Plan:
        left_alone = {each.model for each in wanted if each.is_left_alone}
        found = {each.model: each.stale for each in wanted if each.stale}
        advances = tuple(advance for each in wanted for advance in each.advances)

        def leave_alone(model: Model, slices: SliceSet) -> SliceSet:
            if not slices or model.name in left_alone:
                return slices
            stays = slices & SliceSet.labelled(model.grain, self._ledger.held_slices(model.name))
            # What was found is within the window, or was never built; what only reads it is published.
            return stays | older_than_window(model, slices - found.get(model.name, SliceSet(model.grain)), ask.now)

        load = Load(advances=advances, late=_late(wanted))
        return self._planner.plan(replace(ask, found=found, leave_alone=leave_alone, load=load))

    def _without(self, found: Found, lacking: InputsMissing) -> Found:
        """The slices that read what isn't there wait."""
        model = self._project.graph.models[found.model]
        missing: dict[str, SliceSet] = {}
        for name, input, slices in lacking.holes:
            if name != model.name:
                continue
            i = next(i for i in model.inputs if i.name == input)
            readers = i.readers_of(slices, model.grain) if isinstance(model.grain, Grain) else None
            missing[i.table] = found.stale if readers is None else found.stale & readers
        return without(found, missing)


def _left_out(plan: Plan, found: Found) -> SliceSet:
    """What was found and isn't in the plan."""
    planned = plan.model(found.model)
    return found.stale if planned is None else found.stale - planned.slices


def _late(found: Sequence[Found]) -> tuple[LateChange, ...]:
    return tuple(late for each in found for late in each.exceptions)
