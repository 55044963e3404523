"""Notes of a plan: what its reviewer should know besides the numbers."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import timedelta

from retcon.core.evolution import DropColumn, RetypeColumn, change_text
from retcon.core.graphs import Graph
from retcon.core.intervals import Interval, edge_text, midnight
from retcon.core.keys import Keys
from retcon.core.models import Model, Strategy, reach_text
from retcon.core.planning import Scope, World, abridged
from retcon.core.plans import PlannedInput, PlannedModel
from retcon.core.projects import Source
from retcon.core.promises import promises
from retcon.core.sharing import kept_inputs
from retcon.core.slices import Grain, SliceSet, Whole
from retcon.core.tables import Content


def widened_notes(asked: Mapping[str, tuple[Interval, SliceSet]]) -> tuple[str, ...]:
    """Where a range cuts slices, they are taken whole: said for each model that this happens to."""
    notes: list[str] = []
    for name, (interval, slices) in asked.items():
        first, last = (edge_text(edge) for edge in interval.edges)
        if not isinstance(slices.grain, Grain):
            what = "into slices" if isinstance(slices.grain, Whole) else "by time"
            notes.append(f"{name}: {first}..{last} widened to {slices.text}: it isn't cut {what}")
        elif SliceSet.covering(slices.grain, interval).hull() != interval:
            notes.append(f"{name}: {first}..{last} widened to {slices.text}")
    return tuple(notes)


def kept_notes(models: Sequence[PlannedModel], sources: Mapping[str, Source]) -> tuple[str, ...]:
    """Which inputs are kept in memory while the run goes on."""
    return tuple(
        f"{each.table} would be read whole {each.reads} times: it is read once and kept in memory while waves run"
        for each in kept_inputs(models, sources).values()
    )


def carried_notes(scope: Scope) -> tuple[str, ...]:
    """Where restating a slice restates those after it."""
    return tuple(
        f"{name}: {abridged(slices)} restated too, since each slice reads the one before"
        for name, slices in scope.carried.items()
        if slices
    )


def moved_notes(models: Iterable[PlannedModel], graph: Graph, unknown: Mapping[str, str]) -> tuple[str, ...]:
    """Which slices merged rows leave, and why all is written at once."""
    notes: list[str] = []
    for planned in models:
        name, left = planned.name, planned.moved_from
        if left is not None and name in unknown:
            notes.append(f"{name}: rows may leave {abridged(left)}, so these are written too: {unknown[name]}")
        elif left is not None:
            notes.append(f"{name}: rows leave {abridged(left)}, where Spark found keys that are computed elsewhere now")
        if graph.models[name].moves_rows and len(planned.slices) > 1 and len(planned.waves) == 1:
            notes.append(f"{name} is written in one wave: a row may move from any of its slices to another")
    return tuple(notes)


def beside_notes(
    planned: PlannedModel, beside: str, old: Content, graph: Graph, restated: Collection[str]
) -> tuple[str, ...]:
    """What it means that a table is built beside a model's own and takes its place."""
    model = graph.models[planned.name]
    changed = {c.column: c for c in planned.changes if isinstance(c, DropColumn | RetypeColumn)}
    notes = [
        f"{model.name} is built anew as {beside}; with the publish the two change places. It holds these "
        f"{len(planned.slices):,} slices and nothing else",
        f"{model.name} as it is, {old.rows:,} rows in {old.files:,} files ({old.bytes:,} bytes), stays readable as "
        f"{beside} for at least {model.retention_days} days: both take space",
        f"{model.name}: a commit of anybody else before the publish refuses it",
    ]
    for reader in graph.models.values():
        if reader.name in restated or not any(i.table == model.name for i in reader.inputs):
            continue
        told = [change_text(changed[column]) for column in changed if _names(reader, model.name, column)]
        if told:
            notes.append(f"{reader.name} isn't restated, and names what changes in {model.name}: {', '.join(told)}")
    return tuple(notes)


_STAR = re.compile(r"\bselect\s+(distinct\s+)?\*|\.\s*\*", re.IGNORECASE)


def _names(reader: Model, table: str, column: str) -> bool:
    """Does a model name a column of this table, or take all of them? Words tell, so it may be another table's."""
    declared = [
        name
        for i in reader.inputs
        if i.table == table
        for name in (i.time, i.key, *(i.valid.columns if i.valid is not None else ()))
    ]
    text = " ".join([reader.query.text, *(name for name in declared if name)])
    return bool(_STAR.search(text) or re.search(rf"\b{re.escape(column)}\b", text, re.IGNORECASE))


def notes_of(models: Iterable[PlannedModel], graph: Graph, interval: Interval | None, world: World) -> tuple[str, ...]:
    """What the reviewer should know besides the numbers."""
    notes: list[str] = []
    for planned in models:
        model = graph.models[planned.name]
        start = model.slicing.start
        if start is not None and interval is not None and midnight(start) > interval.start:
            notes.append(f"{model.name} begins on {start} (`slices.start`): nothing before is planned for it")
        if planned.is_new and model.name not in world.facts:
            notes.append(f"{model.name} doesn't exist yet: it is made, empty, when staging begins")
        shown = world.published.get(model.name) or planned.slices
        if model.reads_itself and planned.slices.ordinals[0] <= shown.ordinals[0]:
            first = planned.slices.grain.label(planned.slices.ordinals[0])
            notes.append(f"{model.name} begins with {first}, which finds nothing of itself before it")
        if model.strategy is Strategy.FULL:
            notes.append(f"{model.name} is rebuilt in full: every slice that it has or that its inputs hold")
        if planned.open:
            notes.append(f"{model.name}: {planned.open.text} isn't over yet (open)")
        for i in planned.inputs:
            by = next((each.column(model.grain) for each in model.inputs if each.name == i.name), None)
            held = world.contents.get((i.table, by, i.slices.grain)) if i.slices is not None else None
            if i.missing:
                notes.append(f"{i.table} has no data for {abridged(i.missing)}: allowed by --allow-missing-source")
            if i.null_rows:
                what = "time" if isinstance(model.grain, Grain) else by
                notes.append(f"{i.table}: {i.null_rows:,} rows without a {what} are in no slice")
            if i.versions:
                notes.append(f"{i.table} is read as it was at each slice's end: {len(i.versions):,} snapshots")
            if i.format is not None:
                notes += promises(world.sources[i.table], held, by_slices=i.slices is not None)
            elif held is not None and not held.is_exact:
                notes.append(f"{i.table} isn't partitioned by {held.grain}: rows and bytes are upper bounds")
            notes += _widened_reads(model, i)
    return tuple(dict.fromkeys(notes))


def _widened_reads(model: Model, planned: PlannedInput) -> Iterable[str]:
    """A time that cuts slices of the input reads them whole."""
    i = next((each for each in model.inputs if each.name == planned.name), None)
    if i is None or planned.slices is None or not isinstance(planned.slices.grain, Grain):
        return
    grain = planned.slices.grain
    for reach, way in ((i.lookback, "back"), (i.lookahead, "ahead")):
        days = reach / timedelta(days=1) if isinstance(reach, timedelta) else 0
        is_whole = grain is Grain.HOUR or (grain is Grain.DAY and days == int(days)) or not days
        if not is_whole:
            yield f"{model.name} reads {i.table} {reach_text(reach)} {way}: widened to each whole {grain}"


def keys_notes(keys: Keys, scope: Scope, left_out: Mapping[str, SliceSet]) -> tuple[str, ...]:
    """What a plan about some keys does where."""
    notes: list[str] = []
    for name, slices in scope.slices.items():
        if name in scope.keyed:
            whose = f"{keys.count:,} keys of {keys.column}" if keys.count != 1 else f"one key of {keys.column}"
            notes.append(f"{name}: rows of {whose} are recomputed in {slices.text}; all others are carried over")
        else:
            notes.append(f"{name}: whole slices are recomputed: {scope.widened[name]}")
    for name, slices in left_out.items():
        if slices:
            notes.append(f"{name}: {abridged(slices)} left out: never published, so there are no keys to correct")
    return tuple(notes)
