"""Versions: which snapshot of an input each slice reads, where it is read as it was when the slice ended."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from retcon.core.graphs import Graph
from retcon.core.models import Input, Model
from retcon.core.plans import Version
from retcon.core.slices import SliceSet
from retcon.core.tables import TableFacts
from retcon.errors import Refused


def versions_of(
    model: Model, i: Input, slices: SliceSet, facts: TableFacts | None, now: datetime
) -> tuple[Version, ...]:
    """The snapshots that these slices read; refused where one of them isn't known any more."""
    found: dict[int, list[int]] = {}
    unknown: list[int] = []
    for slice in slices:
        end = slice.interval.end
        snapshot = None if facts is None else facts.snapshot_id if end > now else facts.snapshot_before(end)
        (unknown if snapshot is None else found.setdefault(snapshot, [])).append(slice.ordinal)
    if unknown:
        since = f"is known since {facts.history[0][0]:%Y-%m-%d %H:%M} UTC" if facts and facts.history else "is empty"
        raise Refused(
            f"{model.name} reads {i.table} as it was at the end of {SliceSet.of(slices.grain, unknown).text}, "
            f"which nobody knows: its history {since}",
            state="no plan was written",
            next="choose later slices, or leave out `as_of`: what has expired doesn't come back",
        )
    return tuple(
        Version(slices=SliceSet.of(slices.grain, ordinals), snapshot_id=snapshot)
        for snapshot, ordinals in sorted(found.items(), key=lambda each: each[1])
    )


def require_past_alone(slices: Mapping[str, SliceSet], graph: Graph) -> None:
    """A model whose past is read isn't rewritten by the same plan: what that stages was never shown."""
    for name in slices:
        for i in graph.models[name].inputs:
            if i.at_slice_end and i.table in slices:
                raise Refused(
                    f"{name} reads {i.table} as it was at each slice's end, and would see nothing of what this plan "
                    "makes of it",
                    state="no plan was written",
                    next=f"plan them apart: --exclude leaves a model out, --no-downstream what reads {i.table}",
                )
