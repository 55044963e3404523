"""Late changes: what they would change, and what people decide of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import groupby

from retcon.core.exceptions import Decision, LateChange, LateEntry, Pair
from retcon.core.gates import metrics_of
from retcon.core.measures import SliceMeasure
from retcon.core.models import Model, Strategy
from retcon.core.planning import Scope, plan_model, require_inputs
from retcon.core.plans import Plan
from retcon.core.projects import Project
from retcon.core.runs import PublishedSlice
from retcon.core.slices import SliceSet
from retcon.errors import BadArguments, Refused
from retcon.flow.moves import job_now
from retcon.flow.plan import Ask, Planner
from retcon.flow.ports import Clock, Ledger, Outcome, Tables
from retcon.flow.worlds import with_past, world_of
from retcon.values import dataclass


@dataclass(frozen=True, kw_only=True)
class Impact:
    """Computes what late slices would come out as, without writing them: this is what starts Spark for them."""

    project: Project
    tables: Tables
    ledger: Ledger
    outcome: Outcome
    clock: Clock

    def of(self, lates: Sequence[LateChange]) -> tuple[LateChange, ...]:
        """The same with rows and metrics, as published and as they would be; unknown where that can't be told."""
        found: list[LateChange] = []
        for name, some in groupby(lates, key=lambda late: late.model):
            changes = list(some)
            model = self.project.graph.models[name]
            published = self.ledger.published_slices(name)
            would_be = self._would_be(model, SliceSet.labelled(model.grain, (late.slice for late in changes)))
            found += [_told(late, published.get(late.slice), would_be.get(late.slice)) for late in changes]
        return tuple(found)

    def _would_be(self, model: Model, slices: SliceSet) -> Mapping[str, SliceMeasure]:
        if not slices or model.reads_itself or model.strategy is Strategy.MERGE:
            return {}  # it stands on slices before it, or on rows that are there
        world = world_of(self.project, self.tables, self.ledger, (model.name,))
        scope = Scope(slices={model.name: slices}, selected=frozenset({model.name}))
        try:
            world = with_past(world, scope, self.project.graph, self.tables, self.clock())
            planned = plan_model(model, scope, self.project.graph, world, self.clock(), None)
            self.project.settings.limits.require(slices=len(slices), bytes=planned.bytes)
            require_inputs((planned,), allow_missing=False)
            job = job_now(model, planned, world, self.project.settings.params, self.clock())
            measured = self.outcome(job, metrics_of(model.gates))
        except Refused:
            return {}
        return {slice.label: measure for slice, measure in measured.items()}


def _told(late: LateChange, before: PublishedSlice | None, after: SliceMeasure | None) -> LateChange:
    old = before.metrics if before is not None else {}
    new = after.metrics if after is not None else {}
    metrics: dict[str, Pair] = {
        name: (old.get(name), None if (value := new.get(name)) is None else str(value)) for name in {**old, **new}
    }
    rows = None if before is None else before.rows, None if after is None else after.rows
    return replace(late, rows=rows, metrics=metrics)


class LateChanges:
    """What is on record of late changes, and what is decided of them."""

    def __init__(self, ledger: Ledger, planner: Planner) -> None:
        self._ledger = ledger
        self._planner = planner

    def listed(self, names: Sequence[str], *, everything: bool) -> list[LateEntry]:
        """Those of some models that wait for somebody to decide, or all."""
        return [each for each in self._ledger.exceptions(only_open=not everything) if each.late.model in names]

    def not_begun(self, names: Sequence[str]) -> list[LateEntry]:
        """Those that are approved and whose plans weren't applied yet: that may never be."""
        approved = (each for each in self.listed(names, everything=True) if each.decision is Decision.APPROVED)
        return [each for each in approved if each.run is None or self._ledger.run(each.run) is None]

    def chosen(self, model: Model, labels: Sequence[str]) -> list[LateEntry]:
        """Those of a model that are meant, open or approved and not begun: of some slices, or all; refused where there
        is none.
        """
        names = (model.name,)
        waiting = {each.late.slice: each for each in (*self.not_begun(names), *self.listed(names, everything=False))}
        unknown = [label for label in labels if label not in waiting]
        if unknown or not waiting:
            listed = ", ".join(waiting) or "none"
            raise Refused(
                f"{model.name} has no open exception" + (f" of {', '.join(unknown)}" if unknown else ""),
                state="nothing was decided",
                next=f"open: {listed}; `retcon exceptions {model.name} --all` shows what was decided before",
            )
        return [waiting[label] for label in dict.fromkeys(labels)] if labels else list(waiting.values())

    def plan(self, model: Model, entries: Sequence[LateEntry], ask: Ask) -> Plan:
        """The plan that restates them."""
        _require_word(ask.by, ask.reason)
        slices = SliceSet.labelled(model.grain, (each.late.slice for each in entries))
        return self._planner.plan(replace(ask, found={model.name: slices}))

    def approve(self, entries: Sequence[LateEntry], plan: Plan, *, at: datetime) -> None:
        """Record the sign-off, once the plan is written."""
        self._ledger.decide(entries, Decision.APPROVED, run=plan.id, at=at, by=plan.by, reason=plan.reason)

    def reject(self, entries: Sequence[LateEntry], *, at: datetime, by: str, reason: str) -> None:
        """History stays as it is, and it is recorded why."""
        _require_word(by, reason)
        self._ledger.decide(entries, Decision.REJECTED, at=at, by=by.strip(), reason=reason.strip())


def _require_word(by: str, reason: str) -> None:
    if not by.strip() or not reason.strip():
        raise BadArguments(
            "a decision has somebody who answers for it, and a reason", next='pass --by NAME and --reason "why"'
        )
