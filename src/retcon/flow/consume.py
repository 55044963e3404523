"""Consumption: which content of each input every slice was really computed from."""

from __future__ import annotations

from collections.abc import Mapping

from retcon.core.models import Input
from retcon.core.runs import Consumed, Run
from retcon.core.slices import SliceSet
from retcon.core.tables import digest_of
from retcon.errors import Refused
from retcon.flow.context import Context
from retcon.flow.standing import standing_at

UNKNOWN = "unknown"
"""The content of an input whose changes can't be seen: whether a slice is stale by it can't be told."""


def consumed_by(run: Run, context: Context) -> tuple[Consumed, ...]:
    """One entry per planned slice and input."""
    snapshots = context.snapshots(run)
    read = {i.table for planned in run.plan.models for i in planned.inputs}
    recorded = {name: _recorded(run, name, context) for name in read if name in context.project.graph.models}
    return tuple(
        Consumed(
            model=planned.name,
            slice=slice.label,
            input=i.name,
            table=i.table,
            snapshot_id=snapshots[i.table],
            content=_content(i, SliceSet(slice.grain, (slice.ordinal,)), snapshots[i.table], recorded, context),
        )
        for planned in run.plan.models
        for i in context.model(planned).inputs
        for slice in planned.slices
    )


def _recorded(run: Run, model: str, context: Context) -> dict[str, str]:
    """The checksum of each slice of a model as this run read it: its own slices, else published ones that it saw."""
    table = run.tables.get(model)
    at = table.base_snapshot if table is not None else run.pins.get(model)
    published = {slice.label: held.checksum for slice, held in standing_at(context, model, at).items()}
    own = {s.slice: s.checksum for s in context.ledger.slices(run.id, model) if s.checksum is not None}
    return {**published, **own}


def _content(
    i: Input, slices: SliceSet, snapshot_id: int | None, recorded: Mapping[str, Mapping[str, str]], context: Context
) -> str:
    try:
        held = context.contents(i.table, i.time, slices.grain, snapshot_id)
    except Refused:
        # Expired while the run was under way. What was read is staged and proven; what it was can't be named any
        # more, so the slice will count as stale.
        return f"expired:{snapshot_id}"
    if not held.tells_changes:
        return UNKNOWN
    if i.time is None:
        return f"files:{held.of(None).digest}"
    reads = i.read_by(slices)
    known = recorded.get(i.table, {})
    parts: list[str] = []
    for slice in reads:
        files = held.of(SliceSet(slice.grain, (slice.ordinal,))).digest
        parts.append(f"{slice.label}=" + (f"rows:{known[slice.label]}" if slice.label in known else f"files:{files}"))
    return digest_of(parts)
