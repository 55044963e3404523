"""Planning: which slices of which models a request covers, what they read, and whether that may be run."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta

from retcon.core.graphs import Graph
from retcon.core.intervals import Interval, midnight
from retcon.core.models import Input, Model, OnChange
from retcon.core.plans import Origin, Outside, PlannedInput, PlannedModel, Role
from retcon.core.projects import Limits, Source
from retcon.core.promises import promises
from retcon.core.slices import SliceSet
from retcon.core.tables import TableContents, TableFacts, Told
from retcon.core.waves import cut_waves
from retcon.errors import BadArguments, Refused


@dataclass(frozen=True, kw_only=True)
class Scope:
    """The slices of each model in a plan, and the models that stay outside."""

    slices: Mapping[str, SliceSet]
    selected: frozenset[str]
    outside: tuple[Outside, ...] = ()


@dataclass(frozen=True, kw_only=True)
class World:
    """What is there, as far as a plan needs to know it."""

    facts: Mapping[str, TableFacts]
    contents: Mapping[tuple[str, str | None], TableContents]
    """By table and time column."""
    published: Mapping[str, SliceSet]
    """Slices of each model that are visible in production."""
    sources: Mapping[str, Source] = field(default_factory=dict)


def asked_interval(start: date, end: date, now: datetime) -> Interval:
    """The interval of two inclusive dates; refused when it is empty or hasn't begun."""
    if end < start:
        raise BadArguments(
            f"--end {end} is before --start {start}", next=f"swap them: --start {end} --end {start} (both included)"
        )
    if midnight(end) > now:
        raise BadArguments(
            f"--end {end} is in the future (now it is {now:%Y-%m-%d %H:%M} UTC)",
            next=f"--end {now:%Y-%m-%d} is the last slice that has begun",
        )
    return Interval.of_days(start, end)


def asked_or_default(model: Model, start: date | None, end: date | None, world: World, now: datetime) -> Interval:
    """The interval of the dates given; where one is left out, the model's own history decides."""
    first = start or default_start(model, world)
    last = end or default_end(model, world, now)
    if last < first and not (start and end):
        begins = f"--start is {first}" if start else f"its history begins on {first}"
        ends = f"--end is {last}" if end else f"its inputs hold nothing after {last}"
        raise Refused(
            f"{model.name}: nothing is left to plan: {begins}, and {ends}",
            next="`retcon plan` with both --start and --end says what is missing",
        )
    return asked_interval(first, last, now)


def since_start(model: Model, slices: SliceSet) -> SliceSet:
    """Those at or after the model's `slices.start`: before it the model has no history."""
    if model.slicing.start is None:
        return slices
    first = model.grain.ordinal(model.slicing.start)
    held = SliceSet(slices.grain, tuple(o for o in slices.ordinals if o >= first))
    if not held:
        raise Refused(
            f"{model.name} begins on {model.slicing.start} (`slices.start`), after the asked range",
            next="ask for a later range, or move `slices.start`",
        )
    return held


def default_start(model: Model, world: World) -> date:
    """Where history begins: the model's `slices.start`, else the first slice whose reads all of its inputs hold."""
    if model.slicing.start is not None:
        return model.slicing.start
    return _edge(model, world, last=False)


def default_end(model: Model, world: World, now: datetime) -> date:
    """The last slice whose reads all inputs hold and that has begun."""
    return min(_edge(model, world, last=True), now.date())


def _edge(model: Model, world: World, *, last: bool) -> date:
    edges: list[int] = []
    for i in model.inputs:
        if i.time is None:
            continue
        held = world.contents.get((i.table, i.time))
        present = held.present if held is not None else world.published.get(i.table)
        if present:
            edges.append(present.ordinals[-1] - i.lookahead if last else present.ordinals[0] + i.lookback)
    if not edges:
        option = "--end" if last else "--start"
        raise BadArguments(f"{model.name}: its inputs don't tell where history {'ends' if last else 'begins'}",
                           next=f"pass {option}")  # fmt: skip
    return model.grain.start(min(edges) if last else max(edges)).date()


def spread(
    graph: Graph, asked: Mapping[str, SliceSet], published: Mapping[str, SliceSet], *, downstream: bool
) -> Scope:
    """The asked slices, and what reads them: published downstream slices are restated too."""
    slices: dict[str, SliceSet] = {}
    outside: list[Outside] = []
    for name in graph.order:
        model = graph.models[name]
        empty = SliceSet(model.grain)
        shown = published.get(name, empty)
        covered = asked.get(name, empty)
        if downstream:
            covered |= _readers(model, slices, shown, OnChange.RESTATE)
        if covered:
            slices[name] = covered
        outside += _left_outside(model, slices, shown, asked=name in asked)
    return Scope(slices=slices, selected=frozenset(asked), outside=tuple(outside))


def _readers(model: Model, slices: Mapping[str, SliceSet], shown: SliceSet, on_change: OnChange) -> SliceSet:
    """The model's published slices that read something in scope through inputs that answer a change like this."""
    found = SliceSet(model.grain)
    for i in model.inputs:
        if i.table in slices and i.on_change is on_change:
            # A table that is read whole is read by every slice.
            found |= shown if i.time is None else shown & i.readers_of(slices[i.table])
    return found


def _left_outside(model: Model, slices: Mapping[str, SliceSet], shown: SliceSet, *, asked: bool) -> Iterable[Outside]:
    """Why some of the model is left alone though it reads what changes."""
    reads = {i.table: slices[i.table] for i in model.inputs if i.table in slices}
    if reads and not shown and not asked:
        yield Outside(model=model.name, why="never published; select it to include it")
    covered = slices.get(model.name, SliceSet(model.grain))
    stale = _readers(model, slices, shown, OnChange.RESTATE) - covered
    if stale:
        yield Outside(model=model.name, why=f"becomes stale ({len(stale):,} slices): left out by --no-downstream")
    for table, changed in reads.items():
        if _readers(model, {table: changed}, shown, OnChange.IGNORE) - covered:
            yield Outside(model=model.name, why=f"becomes stale: reads {table} with on_change ignore")


def plan_model(model: Model, scope: Scope, graph: Graph, world: World, now: datetime, wave: int | None) -> PlannedModel:
    """One model's share of the plan."""
    slices = scope.slices[model.name]
    inputs = tuple(_plan_input(i, slices, scope, graph, world, now) for i in model.inputs)
    one_by_one = () if model.batching.is_sliceable else model.batching.reasons
    last_begun = model.grain.ordinal(now)
    return PlannedModel(
        name=model.name,
        role=Role.SELECTED if model.name in scope.selected else Role.DOWNSTREAM,
        slices=slices,
        waves=cut_waves(
            slices,
            most=1 if one_by_one else wave or model.replay.wave,
            contiguous=model.needs_contiguous_waves,
            files_of=lambda ordinal: _files_read(model, SliceSet(model.grain, (ordinal,)), world),
        ),
        open=SliceSet(model.grain, tuple(o for o in slices.ordinals if o >= last_begun)),
        is_new=not world.published.get(model.name),
        fingerprint=model.fingerprint,
        inputs=inputs,
        gates=model.gate_names,
        consumers=model.consumers,
        one_by_one=one_by_one,
    )


def _files_read(model: Model, slices: SliceSet, world: World) -> dict[Hashable, int]:
    """The files that these slices read, with their bytes; what is read through two inputs is read twice."""
    timed = (i for i in model.inputs if i.time is not None and (i.table, i.time) in world.contents)
    return {
        (i.name, file.path): file.bytes
        for i in timed
        for file in world.contents[i.table, i.time].overlapping(i.read_by(slices))
    }


def _plan_input(i: Input, slices: SliceSet, scope: Scope, graph: Graph, world: World, now: datetime) -> PlannedInput:
    origin = Origin.RUN if i.table in scope.slices else Origin.MODEL if i.table in graph.models else Origin.SOURCE
    facts = world.facts.get(i.table)
    held = world.contents.get((i.table, i.time), TableContents(grain=slices.grain))
    reads = None if i.time is None else i.read_by(slices)
    content = held.of(None if reads is None else reads - scope.slices.get(i.table, SliceSet(slices.grain)))
    amount = held.of(reads)
    missing = None if reads is None else SliceSet(slices.grain)
    if reads is not None and held.tells_slices:
        # Of a model, what was published empty is there too: nothing of it is missing.
        known = (world.published.get(i.table), scope.slices.get(i.table))
        there = SliceSet.of(slices.grain, (o for some in (held.present, *known) if some for o in some.ordinals))
        missing = reads - there
    if reads is not None and missing is not None:
        missing |= _expired(i.table, reads, world, now)
    source = world.sources.get(i.table)
    return PlannedInput(
        name=i.name,
        table=i.table,
        origin=origin,
        slices=reads,
        snapshot_id=facts.snapshot_id if facts is not None else None,
        files=None if held.told is Told.NOTHING else amount.files,
        rows=amount.rows if held.told is Told.ROWS else None,
        bytes=None if held.told is Told.NOTHING else amount.bytes,
        content=content.digest if held.tells_changes else "",
        missing=missing,
        null_rows=held.null_rows,
        format=source.format if source is not None else None,
    )


def _expired(table: str, reads: SliceSet, world: World, now: datetime) -> SliceSet:
    """Slices older than the source says it keeps: rows of them may be gone already."""
    source = world.sources.get(table)
    if source is None or source.keeps_days is None:
        return SliceSet(reads.grain)
    oldest = reads.grain.ordinal(now - timedelta(days=source.keeps_days))
    return SliceSet(reads.grain, tuple(o for o in reads.ordinals if o < oldest))


def require_inputs(models: Iterable[PlannedModel], *, allow_missing: bool) -> None:
    """Does every input hold what will be read? If not, say where the holes are."""
    holes = [(m, i) for m in models for i in m.inputs if i.missing]
    if not holes or allow_missing:
        return
    lines = [f"{i.table} has no data for {_abridged(i.missing)} ({m.name} reads it)" for m, i in holes if i.missing]
    raise Refused(
        "the inputs don't hold the whole range: " + "; ".join(lines),
        state="no plan was written",
        next="choose a range that they hold, or pass --allow-missing-source if nothing is there to be had",
    )


def _abridged(slices: SliceSet, most: int = 5) -> str:
    parts = slices.text.split(", ")
    more = f" and {len(parts) - most} more ranges" if len(parts) > most else ""
    return ", ".join(parts[:most]) + f"{more} ({len(slices):,} slices)"


def require_slices(scope: Scope, limits: Limits) -> None:
    """A scope over the limit is refused before anything is worked out for each of its slices."""
    asked = sum(len(slices) for slices in scope.slices.values())
    if asked > limits.slices:
        raise _over_limits([f"{asked:,} slices, at most {limits.slices:,} allowed"])


def require_limits(models: Iterable[PlannedModel], limits: Limits) -> None:
    """A plan over one of the project's limits is refused."""
    held = list(models)
    asked = {"slices": sum(len(m.slices) for m in held), "bytes": sum(m.bytes for m in held)}
    allowed = {"slices": limits.slices, "bytes": limits.bytes}
    over = [
        f"{asked[what]:,} {what}, at most {allowed[what]:,} allowed" for what in asked if asked[what] > allowed[what]
    ]
    if over:
        raise _over_limits(over)


def _over_limits(over: Iterable[str]) -> Refused:
    return Refused(
        "the plan is over the project's limits: " + "; ".join(over),
        state="no plan was written",
        next="ask for less at a time, or raise `limits` in retcon.yaml",
    )


def notes_of(models: Iterable[PlannedModel], graph: Graph, interval: Interval, world: World) -> tuple[str, ...]:
    """What the reviewer should know besides the numbers."""
    notes: list[str] = []
    for model in models:
        start = graph.models[model.name].slicing.start
        if start is not None and midnight(start) > interval.start:
            notes.append(f"{model.name} begins on {start} (`slices.start`): nothing before is planned for it")
        if model.is_new and model.name not in world.facts:
            notes.append(f"{model.name} doesn't exist yet: it is made, empty, when staging begins")
        if model.open:
            notes.append(f"{model.name}: {model.open.text} isn't over yet (open)")
        for i in model.inputs:
            held = world.contents.get((i.table, None if i.slices is None else _time_of(i, world)))
            if i.missing:
                notes.append(f"{i.table} has no data for {_abridged(i.missing)}: allowed by --allow-missing-source")
            if i.null_rows:
                notes.append(f"{i.table}: {i.null_rows:,} rows without a time are in no slice")
            if i.format is not None:
                notes += promises(world.sources[i.table], held, by_slices=i.slices is not None)
            elif held is not None and i.slices is not None and not held.is_exact:
                notes.append(f"{i.table} isn't partitioned by its time: rows and bytes are upper bounds")
    return tuple(dict.fromkeys(notes))


def _time_of(planned: PlannedInput, world: World) -> str | None:
    return next((time for table, time in world.contents if table == planned.table and time is not None), None)


def plan_id(now: datetime, model: Model, suffix: str) -> str:
    """`20260122_fct_daily_revenue_k3f9`."""
    name = re.sub(r"[^a-z0-9_]+", "_", model.short_name.lower()).strip("_") or "model"
    return f"{now:%Y%m%d}_{name[:60]}_{suffix}"


def merged_limits(limits: Limits) -> dict[str, int]:
    """The limits that a plan is held to, as plain data."""
    return {"slices": limits.slices, "bytes": limits.bytes}
