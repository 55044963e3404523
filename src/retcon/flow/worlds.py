"""What is there, as far as planning needs to know it: facts, contents and published slices, from metadata alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from retcon.core.graphs import Graph
from retcon.core.models import Model
from retcon.core.planning import Scope, World
from retcon.core.projects import Project
from retcon.core.readings import reading_of
from retcon.core.slices import WHOLE, Cut, SliceSet
from retcon.core.tables import TableContents
from retcon.core.versions import versions_of
from retcon.flow.ports import Questions, Tables

_Contents = Mapping[tuple[str, str | None, Cut], TableContents]


def world_of(project: Project, tables: Tables, ledger: Questions, selected: Sequence[str]) -> World:
    """Of every table that a plan of these models could touch."""
    graph = project.graph
    reach = set(selected).union(*(graph.descendants(name) for name in selected))
    models = [graph.models[name] for name in graph.order if name in reach]
    names = reach | {i.table for model in models for i in model.inputs}
    names |= {name for model in models for name in model.after}
    facts = {name: found for name in sorted(names) if (found := tables.facts(name)) is not None}
    wanted: dict[tuple[str, str | None, Cut], None] = {}
    for model in models:
        for i in model.inputs:
            reading = reading_of(i, model.grain, graph, facts.get(i.table))
            by = i.column(model.grain)
            wanted[(i.table, None, WHOLE) if reading is None else (i.table, by, reading.resolution)] = None
    contents = {
        (table, time, cut): tables.contents(table, time=time, grain=cut, snapshot_id=facts[table].snapshot_id)
        for table, time, cut in wanted
        if table in facts
    }
    published = {
        name: _published(graph.models[name], facts[name].snapshot_id, contents, tables, ledger)
        for name in graph.models
        if name in facts
    }
    return World(facts=facts, contents=contents, published=published, sources=project.settings.sources)


def with_planned(world: World, model: Model, slices: SliceSet) -> World:
    """The world as models further down will find it, this model's slices being planned."""
    known = world.published.get(model.name, SliceSet(model.grain))
    without = {key: value for key, value in world.contents.items() if key[0] != model.name}
    return replace(world, published={**world.published, model.name: known | slices}, contents=without)


def with_past(world: World, scope: Scope, graph: Graph, tables: Tables, now: datetime) -> World:
    """With what tables held when the slices ended that read them so."""
    wanted: dict[tuple[str, str | None, Cut, int], None] = {}
    for name, slices in scope.slices.items():
        model = graph.models[name]
        for i in (i for i in model.inputs if i.at_slice_end):
            facts = world.facts.get(i.table)
            reading = reading_of(i, model.grain, graph, facts)
            time, cut = (None, WHOLE) if reading is None else (i.time, reading.resolution)
            wanted |= {(i.table, time, cut, v.snapshot_id): None for v in versions_of(model, i, slices, facts, now)}
    past = {key: tables.contents(key[0], time=key[1], grain=key[2], snapshot_id=key[3]) for key in wanted}
    return replace(world, past=past)


def _published(
    model: Model, snapshot_id: int | None, contents: _Contents, tables: Tables, ledger: Questions
) -> SliceSet:
    """The slices that production shows: those with rows, and those that were published empty."""
    if snapshot_id is None:
        return SliceSet(model.grain)
    by = model.slicing.by
    held = contents.get((model.name, by, model.grain)) or tables.contents(
        model.name, time=by, grain=model.grain, snapshot_id=snapshot_id
    )
    # What was published with rows and has none now is missing, whatever the ledger says.
    return held.present | SliceSet.labelled(model.grain, ledger.empty_slices(model.name))
