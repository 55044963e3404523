"""Planning: which slices of which models a request covers, what they read, and whether that may be run."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping
from dataclasses import field, replace
from datetime import datetime, timedelta

from retcon.core.gates import OTHER_KEYS
from retcon.core.graphs import Graph
from retcon.core.keys import Neighbours, is_told_by, why_widened
from retcon.core.models import Input, Model, OnChange, Strategy
from retcon.core.plans import Origin, Outside, PlannedInput, PlannedModel, Role
from retcon.core.projects import Source
from retcon.core.readings import Reading, reading_of
from retcon.core.slices import WHOLE, Buckets, Cut, Grain, SliceSet, Whole
from retcon.core.tables import TableContents, TableFacts, TableFile, Told, content_of, digest_of
from retcon.core.versions import versions_of
from retcon.core.waves import WAVE_BYTES, cut_waves
from retcon.errors import Refused
from retcon.values import dataclass


@dataclass(frozen=True, kw_only=True)
class Scope:
    """The slices of each model in a plan, and the models that stay outside."""

    slices: Mapping[str, SliceSet]
    selected: frozenset[str]
    outside: tuple[Outside, ...] = ()
    carried: Mapping[str, SliceSet] = field(default_factory=dict)
    """Slices that are restated only because their model reads itself, and an earlier one is."""
    keyed: frozenset[str] = frozenset()
    """Models of which only the rows of the plan's keys are recomputed."""
    widened: Mapping[str, str] = field(default_factory=dict)
    """Why whole slices of the others are, though the plan is about some keys."""
    moved_from: Mapping[str, SliceSet] = field(default_factory=dict)
    """Slices that are written only because rows may leave them."""


@dataclass(frozen=True, kw_only=True)
class World:
    """What is there, as far as a plan needs to know it."""

    facts: Mapping[str, TableFacts]
    contents: Mapping[tuple[str, str | None, Cut], TableContents]
    """By table, time column and the slices that its files are counted in."""
    published: Mapping[str, SliceSet]
    """Slices of each model that are visible in production."""
    sources: Mapping[str, Source] = field(default_factory=dict)
    past: Mapping[tuple[str, str | None, Cut, int], TableContents] = field(default_factory=dict)
    """The same at snapshots that were current when slices ended."""


Held = Callable[[Model, Mapping[str, SliceSet]], SliceSet]
"""The slices that a model's inputs hold, once these slices of other models are made."""
LeaveAlone = Callable[[Model, SliceSet], SliceSet]
"""Of these slices of a model, those that must stay as they are."""
Leave = Callable[[Model, SliceSet, Mapping[str, SliceSet]], SliceSet]
"""The other slices of a model in which keys live that are in these, once these slices of other models are made."""


def spread(
    graph: Graph,
    asked: Mapping[str, SliceSet],
    published: Mapping[str, SliceSet],
    *,
    downstream: bool,
    exclude: Collection[str] = (),
    held: Held = lambda model, _: SliceSet(model.grain),
    leave_alone: LeaveAlone = lambda model, _: SliceSet(model.grain),
    leave: Leave = lambda model, *_: SliceSet(model.grain),
) -> Scope:
    """The asked slices, and what reads them: published downstream slices are restated too."""
    slices: dict[str, SliceSet] = {}
    carried: dict[str, SliceSet] = {}
    moved_from: dict[str, SliceSet] = {}
    outside: list[Outside] = []
    for name in graph.order:
        model = graph.models[name]
        empty = SliceSet(model.grain)
        shown = published.get(name, empty)
        covered = asked.get(name, empty)
        if downstream and name not in exclude:
            covered |= _readers(model, slices, shown, OnChange.RESTATE, graph)
        if covered and model.strategy is Strategy.FULL:
            covered |= shown | held(model, slices)
        covered -= leave_alone(model, covered)
        if covered and model.reads_itself:
            later = _and_later(covered, shown) - covered
            if leave_alone(model, later):
                covered = empty  # a chain isn't gone on with behind a slice that must stay
            else:
                carried[name] = later
                covered |= later
        if covered and model.moves_rows:
            moved_from[name] = leave(model, covered, slices) - covered
            covered |= moved_from[name]
        if covered:
            slices[name] = covered
        option = "--exclude" if name in exclude else "--no-downstream"
        outside += _left_outside(model, slices, shown, graph, asked=name in asked, option=option)
    return Scope(
        slices=slices,
        selected=frozenset(asked),
        outside=tuple(outside),
        carried=carried,
        moved_from={name: left for name, left in moved_from.items() if left},
    )


def _and_later(slices: SliceSet, shown: SliceSet) -> SliceSet:
    """Of a model that reads itself, every slice from the first to the last published: each rests on the one before."""
    return SliceSet.span(slices.grain, slices.ordinals[0], max((slices.ordinals[-1], *shown.ordinals[-1:])))


def narrowed_to(column: str, scope: Scope, graph: Graph, facts: Mapping[str, TableFacts]) -> Scope:
    """The scope with the models of which the rows of some keys can be recomputed by themselves."""
    keyed: set[str] = set()
    widened: dict[str, str] = {}
    for name in (name for name in graph.order if name in scope.slices):
        around = Neighbours(keyed=frozenset(keyed), whole=frozenset(widened))
        why = why_widened(graph.models[name], column, around) or _other_types(graph.models[name], column, facts)
        if why:
            widened[name] = why
        else:
            keyed.add(name)
    return replace(scope, keyed=frozenset(keyed), widened=widened)


def _other_types(model: Model, column: str, facts: Mapping[str, TableFacts]) -> str:
    """Why an input's keys can't be told from the table's own: a join may find '007' and 7 equal, their texts aren't."""
    table = facts.get(model.name)
    own = table.column(column) if table is not None else None
    for i in model.inputs:
        read = facts.get(i.table)
        key = read.column(i.key) if read is not None and i.key is not None else None
        if own is not None and key is not None and not is_told_by(key.type, own.type):
            return f"its {own.name} is {own.type}, and {i.table} has it as {key.type}"
    return ""


def _readers(
    model: Model, slices: Mapping[str, SliceSet], shown: SliceSet, on_change: OnChange, graph: Graph
) -> SliceSet:
    """The model's published slices that read something in scope through inputs that answer a change like this."""
    found = SliceSet(model.grain)
    for i in model.inputs:
        # What a table was when a slice ended stays what it was.
        if i.table in slices and i.on_change is on_change and not i.at_slice_end:
            readers = readers_of(i, model, slices[i.table], graph)
            found |= shown if readers is None else shown & readers
    return found


def readers_of(i: Input, model: Model, changed: SliceSet, graph: Graph) -> SliceSet | None:
    """The slices of a model that read these slices of one of its inputs; None: every one, as where it is read whole."""
    upstream = graph.models.get(i.table)
    is_bucket = isinstance(model.grain, Buckets) and changed.grain == model.grain
    if is_bucket and (upstream is None or reads_its_slices(i, model.grain, upstream)):
        return changed
    return None if i.time is None else i.readers_of(changed, model.grain)


def reads_its_slices(i: Input, reader: Cut, upstream: Model) -> bool:
    """Is a bucket made from the same bucket of this model, and from no other?"""
    by = upstream.slicing.by
    is_same_column = by is not None and i.key is not None and by.lower() == i.key.lower()
    return isinstance(reader, Buckets) and upstream.grain == reader and is_same_column


def _left_outside(
    model: Model, slices: Mapping[str, SliceSet], shown: SliceSet, graph: Graph, *, asked: bool, option: str
) -> Iterable[Outside]:
    """Why some of the model is left alone though it reads what changes."""
    reads = {i.table: slices[i.table] for i in model.inputs if i.table in slices and not i.at_slice_end}
    if reads and not shown and not asked:
        yield Outside(model=model.name, why="never published; select it to include it")
    covered = slices.get(model.name, SliceSet(model.grain))
    stale = _readers(model, slices, shown, OnChange.RESTATE, graph) - covered
    if stale:
        yield Outside(model=model.name, why=f"becomes stale ({len(stale):,} slices): left out by {option}")
    for table, changed in reads.items():
        if _readers(model, {table: changed}, shown, OnChange.IGNORE, graph) - covered:
            yield Outside(model=model.name, why=f"becomes stale: reads {table} with on_change ignore")


def plan_model(
    model: Model,
    scope: Scope,
    graph: Graph,
    world: World,
    now: datetime,
    wave: int | None,
    *,
    limit: int = WAVE_BYTES,
) -> PlannedModel:
    """One model's share of the plan. `wave`: slices of a job that were asked for; `limit`: bytes that one reads."""
    slices = scope.slices[model.name]
    readings = {i.name: reading_of(i, model.grain, graph, world.facts.get(i.table)) for i in model.inputs}
    moved_from = scope.moved_from.get(model.name)
    computed = slices if moved_from is None else slices - moved_from
    wanted = Wanted(slices=computed, open=_open(computed, now), now=now)
    return PlannedModel(
        name=model.name,
        role=Role.SELECTED if model.name in scope.selected else Role.DOWNSTREAM,
        slices=slices,
        waves=(slices,)
        if is_merged_at_once(model, slices, world)
        else cut_waves(
            slices,
            most=1 if model.one_by_one else wave or model.replay.wave,
            contiguous=model.needs_contiguous_waves,
            files_of=lambda ordinal: _files_read(model, SliceSet(model.grain, (ordinal,)), readings, world),
            limit=limit,
        ),
        open=wanted.open,
        is_new=not world.published.get(model.name),
        fingerprint=model.fingerprint,
        inputs=tuple(
            _plan_past(i, readings[i.name], wanted, model, graph, world)
            if i.at_slice_end
            else _plan_input(i, readings[i.name], wanted, scope, graph, world)
            for i in model.inputs
        ),
        gates=(*model.gate_names, *((OTHER_KEYS,) if model.name in scope.keyed else ())),
        is_keyed=model.name in scope.keyed,
        moved_from=moved_from,
        consumers=model.consumers,
        order=model.replay.order,
        one_by_one=model.one_by_one,
    )


def is_merged_at_once(model: Model, slices: SliceSet, world: World) -> bool:
    """Where rows may move, a slice is known only when all are computed; not so where none of them holds any."""
    return model.moves_rows and bool(slices & world.published.get(model.name, SliceSet(model.grain)))


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """The slices of a model that are planned."""

    slices: SliceSet
    open: SliceSet
    now: datetime


def _open(slices: SliceSet, now: datetime) -> SliceSet:
    """Those that aren't over yet; what isn't cut by time never is, and nobody waits for it."""
    if not isinstance(slices.grain, Grain):
        return SliceSet(slices.grain)
    last_begun = slices.grain.ordinal(now)
    return SliceSet(slices.grain, tuple(o for o in slices.ordinals if o >= last_begun))


def _files_read(
    model: Model, slices: SliceSet, readings: Mapping[str, Reading | None], world: World
) -> dict[Hashable, int]:
    """The files that these slices read, with their bytes; what is read through two inputs is read twice."""
    found: dict[Hashable, int] = {}
    for i in model.inputs:
        reading = readings[i.name]
        by = i.column(model.grain)
        held = world.contents.get((i.table, by, reading.resolution)) if reading is not None else None
        if reading is not None and held is not None:
            for file in held.overlapping(i.read_by(slices, reading.resolution)):
                found[i.name, file.path] = file.bytes
    return found


def _plan_past(
    i: Input, reading: Reading | None, wanted: Wanted, model: Model, graph: Graph, world: World
) -> PlannedInput:
    """An input that is read as it was: each slice at a snapshot of its own."""
    facts = world.facts.get(i.table)
    cut: Cut = WHOLE if reading is None else reading.resolution
    files: list[TableFile] = []
    parts: list[str] = []
    all_reads = None if reading is None else SliceSet(reading.resolution)
    missing = None if reading is None else SliceSet(reading.natural)
    versions = versions_of(model, i, wanted.slices, facts, wanted.now)
    for version in versions:
        held = world.past[i.table, i.time if reading else None, cut, version.snapshot_id]
        reads = None if reading is None else i.read_by(version.slices, reading.resolution)
        overlapping = list(held.files) if reads is None else held.overlapping(reads)
        files += overlapping
        parts.append(f"{version.slices.text}={content_of(overlapping).digest}")
        if reading is not None and reads is not None and all_reads is not None and missing is not None:
            all_reads |= reads
            missing |= reads.recut(reading.natural) - held.present.recut(reading.natural)
    if reading is not None and missing is not None and isinstance(reading.natural, Grain):
        missing -= _not_due(reading.natural, wanted)
    amount = content_of(files)
    return PlannedInput(
        name=i.name,
        table=i.table,
        origin=Origin.MODEL if i.table in graph.models else Origin.SOURCE,
        slices=all_reads,
        snapshot_id=facts.snapshot_id if facts is not None else None,
        files=amount.files,
        rows=amount.rows,
        bytes=amount.bytes,
        content=digest_of(parts),
        missing=missing,
        versions=versions,
    )


def _plan_input(
    i: Input, reading: Reading | None, wanted: Wanted, scope: Scope, graph: Graph, world: World
) -> PlannedInput:
    origin = Origin.RUN if i.table in scope.slices else Origin.MODEL if i.table in graph.models else Origin.SOURCE
    facts = world.facts.get(i.table)
    cut: Cut = WHOLE if reading is None else reading.resolution
    by = None if reading is None else i.column(wanted.slices.grain)
    held = world.contents.get((i.table, by, cut), TableContents(grain=cut))
    reads = None if reading is None else i.read_by(wanted.slices, reading.resolution)
    amount = held.of(reads)
    content = held.of(None if reads is None else not_made_here(reads, scope.slices.get(i.table)))
    source = world.sources.get(i.table)
    return PlannedInput(
        name=i.name,
        table=i.table,
        origin=origin,
        slices=reads,
        snapshot_id=facts.snapshot_id if facts is not None else None,
        files=amount.files if held.told in (Told.ROWS, Told.FILES) else None,
        rows=amount.rows if held.told in (Told.ROWS, Told.UPDATES) else None,
        bytes=amount.bytes if held.told in (Told.ROWS, Told.FILES) else None,
        content=content.digest if held.tells_changes else "",
        missing=None if reading is None or reads is None else _missing(i, reading, reads, wanted, scope, world),
        null_rows=held.null_rows,
        format=source.format if source is not None else None,
    )


def not_made_here(reads: SliceSet, own: SliceSet | None) -> SliceSet:
    """What is read of a table, without the slices of it that the same plan makes."""
    if own is None or isinstance(own.grain, Whole):
        return reads if not own else SliceSet(reads.grain)
    if own.grain != reads.grain and not (isinstance(own.grain, Grain) and isinstance(reads.grain, Grain)):
        return reads  # cut by other things: each slice may hold some of what isn't made here
    return reads - own.recut(reads.grain)


def _missing(i: Input, reading: Reading, reads: SliceSet, wanted: Wanted, scope: Scope, world: World) -> SliceSet:
    """What is read and isn't there, in slices as the input is cut."""
    natural = reading.natural
    if not isinstance(natural, Grain):
        return SliceSet(natural)  # nobody can say that a bucket should have rows
    held = world.contents.get((i.table, i.time, reading.resolution))
    # Of a model, what was published empty is there too: nothing of it is missing.
    known = [some for some in (world.published.get(i.table), scope.slices.get(i.table)) if some]
    if not all(isinstance(some.grain, Grain) for some in known):
        return SliceSet(natural)
    read = reads.recut(natural)
    expired = _expired(i.table, read, world, wanted.now)
    if held is not None and not held.tells_slices:
        return expired
    there = SliceSet(natural)
    for some in (*known, *([held.present] if held is not None else [])):
        there |= some.recut(natural)
    if i.is_own:
        # Before its first slice there is nothing of it to be read.
        read = SliceSet(natural, tuple(o for o in read.ordinals if o >= there.ordinals[0]))
    return ((read - there) - _not_due(natural, wanted)) | expired


def _not_due(natural: Grain, wanted: Wanted) -> SliceSet:
    """Parts of slices that aren't over which aren't over themselves: nobody can have them yet."""
    cut = wanted.slices.grain
    if not isinstance(cut, Grain) or not natural.is_shorter(cut) or not wanted.open:
        return SliceSet(natural)
    running = natural.ordinal(wanted.now)
    return SliceSet(natural, tuple(o for o in wanted.open.recut(natural).ordinals if o >= running))


def _expired(table: str, reads: SliceSet, world: World, now: datetime) -> SliceSet:
    """Slices older than the source says it keeps: rows of them may be gone already."""
    source = world.sources.get(table)
    if source is None or source.keeps_days is None or not isinstance(reads.grain, Grain):
        return SliceSet(reads.grain)
    oldest = reads.grain.ordinal(now - timedelta(days=source.keeps_days))
    return SliceSet(reads.grain, tuple(o for o in reads.ordinals if o < oldest))


class InputsMissing(Refused):
    """Inputs lack something that is read: by model and input, in slices as the input is cut."""

    def __init__(self, holes: tuple[tuple[str, str, SliceSet], ...], message: str, *, state: str, next: str) -> None:
        super().__init__(message, state=state, next=next)
        self.holes = holes


def require_inputs(models: Iterable[PlannedModel], *, allow_missing: bool) -> None:
    """Does every input hold what will be read? If not, say where the holes are."""
    holes = [(m, i) for m in models for i in m.inputs if i.missing]
    if not holes or allow_missing:
        return
    lines = [f"{i.table} has no data for {abridged(i.missing)} ({m.name} reads it)" for m, i in holes if i.missing]
    raise InputsMissing(
        tuple((m.name, i.name, i.missing) for m, i in holes if i.missing),
        "the inputs don't hold the whole range: " + "; ".join(lines),
        state="no plan was written",
        next="choose a range that they hold, or pass --allow-missing-source if nothing is there to be had",
    )


def abridged(slices: SliceSet, most: int = 5) -> str:
    """The first of its ranges, and how many slices there are."""
    parts = slices.text.split(", ")
    more = f" and {len(parts) - most} more ranges" if len(parts) > most else ""
    return ", ".join(parts[:most]) + f"{more} ({len(slices):,} {'slice' if len(slices) == 1 else 'slices'})"


def plan_id(now: datetime, model: Model, suffix: str) -> str:
    """`20260122_fct_daily_revenue_k3f9`."""
    name = re.sub(r"[^a-z0-9_]+", "_", model.short_name.lower()).strip("_") or "model"
    return f"{now:%Y%m%d}_{name[:60]}_{suffix}"
