"""Consumption: which content of each input every slice was really computed from."""

from __future__ import annotations

from collections.abc import Mapping

from retcon.core.graphs import Graph
from retcon.core.jobs import Read
from retcon.core.models import Input
from retcon.core.planning import reads_its_slices
from retcon.core.runs import Consumed, Run
from retcon.core.slices import WHOLE, Cut, Grain, Slice, SliceSet, Whole
from retcon.core.tables import digest_of
from retcon.errors import Refused
from retcon.flow.context import Context, placed, read_as_planned
from retcon.flow.records import Records
from retcon.flow.standing import standing_at

_ALL = Slice(WHOLE, 0)
UNKNOWN = "unknown"
"""The content of an input whose changes can't be seen: whether a slice is stale by it can't be told."""


def is_comparable(content: str | None) -> bool:
    """Does this tell what a slice was computed from?"""
    return content is not None and content != UNKNOWN and not content.startswith(("keys:", "expired:"))


def consumed_by(run: Run, context: Context) -> tuple[Consumed, ...]:
    """One entry per planned slice and input."""
    snapshots = context.snapshots(run)
    read = {i.table for planned in run.plan.models for i in planned.inputs}
    graph = context.project.graph
    recorded = {
        name: _recorded(run, name, _read_of(run, name, graph), context) for name in read if name in graph.models
    }
    grains = {name: graph.models[name].grain for name in recorded}
    found: list[Consumed] = []
    for planned in run.plan.models:
        grain = planned.slices.grain
        known = {i.name: recorded[i.table] for i in context.model(planned).inputs if is_told(i, grain, graph)}
        computed = planned.computed
        for i in context.model(planned).inputs:
            for slice in planned.slices:
                job = SliceSet(slice.grain, (slice.ordinal,))
                read_now = placed(run, read_as_planned(i, planned.input(i.name), job, snapshots))
                # What the ledger has of a model tells nothing about what it was back then.
                rows = None if i.at_slice_end else known.get(i.name)
                # Rows of other keys were made of what their own runs read: no one content tells what the slice holds.
                is_mix = planned.is_keyed or slice not in computed
                content = f"keys:{run.id}" if is_mix else content_of_read(read_now, rows, context, grains.get(i.table))
                found.append(
                    Consumed(
                        model=planned.name,
                        slice=slice.label,
                        input=i.name,
                        table=i.table,
                        snapshot_id=read_now.snapshot_id,
                        content=content,
                    )
                )
    return tuple(found)


def is_told(i: Input, reader: Cut, graph: Graph) -> bool:
    """Do a model's recorded slices tell what is read of it? Not where it is read by another column."""
    upstream = graph.models.get(i.table)
    if upstream is None or isinstance(upstream.grain, Grain | Whole):
        return upstream is not None
    return reads_its_slices(i, reader, upstream)


def _read_of(run: Run, model: str, graph: Graph) -> SliceSet | None:
    """The slices of a model that a run reads; None: all of them, or nobody knows which."""
    grain = graph.models[model].grain
    reads = [i.slices for planned in run.plan.models for i in planned.inputs if i.table == model]
    found = SliceSet(grain)
    for slices in reads:
        is_by_time = slices is not None and isinstance(slices.grain, Grain) and isinstance(grain, Grain)
        if slices is None or not (is_by_time or slices.grain == grain):
            return None
        found |= slices.recut(grain)
    return found


def _recorded(run: Run, model: str, wanted: SliceSet | None, context: Context) -> Mapping[Slice, str]:
    """The checksum of each slice of a model as this run read it: its own slices, else published ones that it saw."""
    table = run.tables.get(model)
    at = table.base_snapshot if table is not None else run.pins.get(model)
    published = {slice: held.checksum for slice, held in standing_at(context, model, at, wanted).items()}
    cut = context.project.graph.models[model].grain
    own = {
        Slice(cut, cut.parse(s.slice)): s.checksum
        for s in context.ledger.slices(run.id, model)
        if s.checksum is not None
    }
    return {**published, **own}


def content_of_read(
    read: Read, recorded: Mapping[Slice, str] | None, records: Records, recorded_cut: Cut | None = None
) -> str:
    """What is read, by its rows where a model's own slices tell them, else by its files."""
    try:
        held = records.contents_of(read)
    except Refused:
        # Expired while the run was under way. What was read is staged and proven; what it was can't be named any
        # more, so the slice will count as stale.
        return f"expired:{read.snapshot_id}"
    if not held.tells_changes:
        return UNKNOWN
    known = recorded or {}
    if _ALL in known:
        return f"rows:{known[_ALL]}"
    if read.slices is None:
        return f"files:{held.of(None).digest}"
    cut = read.slices.grain if recorded is None or recorded_cut is None else recorded_cut
    if cut != read.slices.grain and not (isinstance(cut, Grain) and isinstance(read.slices.grain, Grain)):
        return f"files:{held.of(read.slices).digest}"
    parts: list[str] = []
    for slice in read.slices.recut(cut):
        files = read.slices & SliceSet(cut, (slice.ordinal,)).recut(read.slices.grain)
        parts.append(
            f"{slice.label}=" + (f"rows:{known[slice]}" if slice in known else f"files:{held.of(files).digest}")
        )
    return digest_of(parts)
