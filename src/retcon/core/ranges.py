"""Ranges: the dates that were asked for, and where they are left out, what the inputs hold."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from retcon.core.graphs import Graph
from retcon.core.intervals import Edge, Interval, after, beginning, edge_text
from retcon.core.models import Input, Model
from retcon.core.planning import World
from retcon.core.readings import reading_of
from retcon.core.slices import Grain, SliceSet
from retcon.errors import BadArguments, Refused


def asked_interval(start: Edge, end: Edge, now: datetime) -> Interval:
    """The interval of two inclusive dates or hours; refused when it is empty or hasn't begun."""
    _require_begun(end, now)
    if after(end) <= beginning(start):
        first, last = edge_text(start), edge_text(end)
        raise BadArguments(
            f"--end {last} is before --start {first}", next=f"swap them: --start {last} --end {first} (both included)"
        )
    return Interval.of_edges(start, end)


def _require_begun(end: Edge, now: datetime) -> None:
    if beginning(end) > now:
        newest = edge_text(now) if isinstance(end, datetime) else f"{now:%Y-%m-%d}"
        raise BadArguments(
            f"--end {edge_text(end)} is in the future (now it is {now:%Y-%m-%d %H:%M} UTC)",
            next=f"--end {newest} is the last slice that has begun",
        )


def asked_or_default(
    model: Model, start: Edge | None, end: Edge | None, graph: Graph, world: World, now: datetime
) -> Interval | None:
    """The interval of the dates given; where one is left out, the model's own history decides, if it has any."""
    if not isinstance(model.grain, Grain):
        return asked_interval(start or end or now.date(), end or start or now.date(), now) if start or end else None
    if end is not None:
        _require_begun(end, now)  # the last day of the calendar has no day after it
    first = start or default_start(model, graph, world)
    last = end or default_end(model, graph, world, now)
    if not (start and end) and after(last) <= beginning(first):
        begins = f"--start is {edge_text(first)}" if start else f"its history begins on {edge_text(first)}"
        ends = f"--end is {edge_text(last)}" if end else f"its inputs hold nothing after {edge_text(last)}"
        raise Refused(
            f"{model.name}: nothing is left to plan: {begins}, and {ends}",
            next="`retcon plan` with both --start and --end says what is missing",
        )
    return asked_interval(first, last, now)


def from_start(model: Model, slices: SliceSet) -> SliceSet:
    """Those at or after the model's `slices.start`, if there are any."""
    if model.slicing.start is None or not isinstance(model.grain, Grain):
        return slices
    first = model.grain.ordinal(model.slicing.start)
    return SliceSet(slices.grain, tuple(o for o in slices.ordinals if o >= first))


def since_start(model: Model, slices: SliceSet) -> SliceSet:
    """Those at or after the model's `slices.start`: before it the model has no history."""
    held = from_start(model, slices)
    if not held and model.slicing.start is not None and isinstance(model.grain, Grain):
        raise Refused(
            f"{model.name} begins on {model.slicing.start} (`slices.start`), after the asked range",
            next="ask for a later range, or move `slices.start`",
        )
    return held


def tells_history(model: Model, graph: Graph, world: World) -> bool:
    """Do the model's inputs tell where its history begins and ends?"""
    return any(True for _ in _held(model, graph, world))


def is_untold(model: Model, graph: Graph, world: World) -> bool:
    """Is there something in its inputs that are cut by time, and none of them tells in which slices?"""
    found = []
    for i in (i for i in model.inputs if not i.is_own):
        reading = reading_of(i, model.grain, graph, world.facts.get(i.table))
        held = None if reading is None else world.contents.get((i.table, i.time, reading.resolution))
        if held is not None and isinstance(model.grain, Grain):
            found.append(not held.tells_slices or bool(held.files and not held.present))
    return bool(found) and all(found)


def default_start(model: Model, graph: Graph, world: World) -> Edge:
    """Where history begins: the model's `slices.start`, else the first slice whose reads all of its inputs hold."""
    if model.slicing.start is not None:
        return model.slicing.start
    grain = _timed(model)
    edges = [i.held_from(grain, hours[0][0]) for i, _, hours in _held(model, graph, world)]
    if not edges:
        raise _untold(model, "begins", "--start")
    return SliceSet(grain, (max(edges),)).hull().edges[0]


def default_end(model: Model, graph: Graph, world: World, now: datetime) -> Edge:
    """The last slice whose reads all inputs hold and that has begun."""
    grain = _timed(model)
    running = grain.ordinal(now)
    edges: list[int] = []
    for i, natural, hours in _held(model, graph, world):
        held = i.held_until(grain, hours[-1][1])
        # A slice that isn't over waits for nothing but what isn't over either.
        is_up_to_date = natural.is_shorter(grain) and natural.holding(hours[-1][1]) >= natural.ordinal(now) - 1
        edges.append(max(held, running) if is_up_to_date and not i.lookahead else held)
    if not edges:
        raise _untold(model, "ends", "--end")
    last = min(*edges, running)
    return min(SliceSet(grain, (last,)).hull().edges[1], _last_begun(grain, now), key=after)


def _last_begun(grain: Grain, now: datetime) -> Edge:
    return grain.start(grain.ordinal(now)) if grain is Grain.HOUR else now.date()


def _held(model: Model, graph: Graph, world: World) -> Iterable[tuple[Input, Grain, list[tuple[int, int]]]]:
    """The inputs whose metadata tells what they hold: as they are cut, and in hours."""
    for i in (i for i in model.inputs if not i.is_own):
        reading = reading_of(i, model.grain, graph, world.facts.get(i.table))
        if reading is None or not isinstance(reading.natural, Grain):
            continue
        held = world.contents.get((i.table, i.time, reading.resolution))
        present = held.present if held is not None else world.published.get(i.table)
        if present and isinstance(present.grain, Grain):
            yield i, reading.natural, present.recut(reading.natural).hours()


def _timed(model: Model) -> Grain:
    if not isinstance(model.grain, Grain):
        raise ValueError(f"{model.name} isn't cut by time")
    return model.grain


def _untold(model: Model, what: str, option: str) -> BadArguments:
    return BadArguments(f"{model.name}: its inputs don't tell where history {what}", next=f"pass {option}")


def held_by_inputs(model: Model, graph: Graph, world: World, now: datetime) -> SliceSet:
    """Every slice that can be computed from what the inputs hold, as far as they tell."""
    if not isinstance(model.grain, Grain):
        return SliceSet.every(model.grain)
    if not tells_history(model, graph, world):
        return SliceSet(model.grain)
    first, last = default_start(model, graph, world), default_end(model, graph, world, now)
    is_any = beginning(first) < after(last)
    return SliceSet.covering(model.grain, Interval.of_edges(first, last)) if is_any else SliceSet(model.grain)
