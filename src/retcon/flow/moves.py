"""Moves: the slices that a merged row may leave, since its key is computed in another."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from datetime import datetime

from retcon.core.jobs import Job
from retcon.core.models import Model
from retcon.core.planning import Scope, World, require_inputs
from retcon.core.plans import PlannedModel
from retcon.core.projects import Project
from retcon.core.reads import Read
from retcon.core.slices import Buckets, SliceSet
from retcon.flow.context import in_parts, parameters_of, read_as_planned
from retcon.flow.ports import Homes, Tables
from retcon.values import dataclass


@dataclass(frozen=True, kw_only=True)
class Moves:
    """Looks where computed keys live now: in the rows themselves, so this is what starts Spark for a plan."""

    project: Project
    tables: Tables
    world: World
    homes: Homes
    now: datetime
    allow_missing: bool
    planned: Callable[[Model, Scope], PlannedModel]
    unknown: dict[str, str] = field(default_factory=dict)
    """Why it can't be told of some models, so that rows may leave any slice."""
    _found: dict[tuple[str, SliceSet], SliceSet] = field(default_factory=dict)

    def leave(self, model: Model, slices: SliceSet, made: Mapping[str, SliceSet]) -> SliceSet:
        """The slices, other than these, in which keys live that are computed in these."""
        facts = self.world.facts.get(model.name)
        if facts is None or facts.snapshot_id is None:
            return SliceSet(model.grain)
        by = model.slicing.by
        held = self.tables.contents(model.name, time=by, grain=model.grain, snapshot_id=facts.snapshot_id)
        others = held.present - slices
        made_here = [i.table for i in model.inputs if i.table in made]
        if others and made_here:
            self.unknown[model.name] = f"it reads {made_here[0]}, which this plan makes too, so keys aren't known yet"
        if not others or made_here:
            return others
        if (model.name, slices) not in self._found:
            there = Read(table=model.name, snapshot_id=facts.snapshot_id, by=by, slices=others)
            self._found[model.name, slices] = self.homes(self._job(model, slices), there) & others
        return self._found[model.name, slices]

    def _job(self, model: Model, slices: SliceSet) -> Job:
        """What would be computed for these slices, of inputs as they are now; refused as the plan would be."""
        limits = self.project.settings.limits
        limits.require(slices=len(slices))
        planned = self.planned(model, Scope(slices={model.name: slices}, selected=frozenset()))
        limits.require(bytes=planned.bytes)
        require_inputs((planned,), allow_missing=self.allow_missing)
        return job_now(model, planned, self.world, self.project.settings.params, self.now)


def job_now(model: Model, planned: PlannedModel, world: World, params: Mapping[str, object], run_ts: datetime) -> Job:
    """What would be computed for the planned slices, of inputs as they are now, without a run."""
    snapshots = {table: facts.snapshot_id for table, facts in world.facts.items()}
    hashed = _bucketed_as(model, world)

    def computing(part: SliceSet, name: str) -> Job:
        return Job(
            name=name,
            model=model,
            slices=part,
            reads={
                i.name: read_as_planned(i, planned.input(i.name), part, snapshots, bucketed_as=hashed)
                for i in model.inputs
            },
            parameters=parameters_of(part, params, run_ts=run_ts),
        )

    return in_parts(f"retcon_plan_{model.name.replace('.', '__')}", model, planned.slices, computing)


def _bucketed_as(model: Model, world: World) -> str | None:
    by = model.slicing.by
    facts = world.facts.get(model.name)
    column = facts.column(by) if facts is not None and by is not None else None
    return column.type if column is not None and isinstance(model.grain, Buckets) else None
