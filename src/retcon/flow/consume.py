"""Consumption: which content of each input every slice was really computed from."""

from __future__ import annotations

from collections.abc import Mapping

from retcon.core.graphs import Graph
from retcon.core.plans import PlannedModel
from retcon.core.runs import Consumed, Run
from retcon.core.slices import Grain, Slice, SliceSet
from retcon.flow.contents import content_of_read, is_told
from retcon.flow.context import Context, placed, read_as_planned
from retcon.flow.measure import kept_slices, measured
from retcon.flow.standing import standing_at


def consumed_by(run: Run, context: Context) -> tuple[Consumed, ...]:
    """One entry per planned slice and input."""
    looks = _Looks(run, context)
    found: list[Consumed] = []
    for planned in run.plan.models:
        kept = kept_slices(run, planned, context)
        if kept:
            # Not computed now: they are made of what they were made of. Where that was rolled back meanwhile, the
            # publish finds out.
            standing = context.ledger.standing_consumption(planned.name, kept.labels)
            found += [entry for slice in kept for entry in standing.get(slice.label, {}).values()]
        found += looks.consumed(planned, planned.slices - kept)
    return tuple(found)


def would_consume(run: Run, planned: PlannedModel, slices: SliceSet, context: Context) -> list[Consumed]:
    """What slices would be computed from, where all that they read is staged: one entry per slice and input."""
    return _Looks(run, context).consumed(planned, slices)


class _Looks:
    """What a run's tables hold for the models that read them."""

    def __init__(self, run: Run, context: Context) -> None:
        self._run = run
        self._context = context
        self._graph = context.project.graph
        self._snapshots = context.snapshots(run)
        self._checksums: dict[str, Mapping[Slice, str]] = {}

    def consumed(self, planned: PlannedModel, slices: SliceSet) -> list[Consumed]:
        found: list[Consumed] = []
        grain, computed = planned.slices.grain, planned.computed
        for i in self._context.model(planned).inputs if slices else ():
            upstream = self._graph.models.get(i.table)
            # What the ledger has of a model tells nothing about what it was back then.
            is_by_rows = is_told(i, grain, self._graph) and not i.at_slice_end
            rows = self._recorded(i.table) if is_by_rows else None
            for slice in slices:
                job = SliceSet(slice.grain, (slice.ordinal,))
                read = placed(self._run, read_as_planned(i, planned.input(i.name), job, self._snapshots))
                # Rows of other keys were made of what their own runs read: no one content tells what the slice holds.
                is_mix = planned.is_keyed or slice not in computed
                cut = upstream.grain if upstream is not None else None
                content = f"keys:{self._run.id}" if is_mix else content_of_read(read, rows, self._context, cut)
                found.append(
                    Consumed(
                        model=planned.name,
                        slice=slice.label,
                        input=i.name,
                        table=i.table,
                        snapshot_id=read.snapshot_id,
                        content=content,
                    )
                )
        return found

    def _recorded(self, model: str) -> Mapping[Slice, str]:
        """The checksum of each slice of a model as this run reads it: its own slices, else published ones it saw."""
        if model not in self._checksums:
            run, context = self._run, self._context
            table, planned = run.tables.get(model), run.plan.model(model)
            at = table.base_snapshot if table is not None else run.pins.get(model)
            standing = standing_at(context, model, at, _read_of(run, model, self._graph))
            own = {} if planned is None else self._own(planned)
            self._checksums[model] = {**{slice: held.checksum for slice, held in standing.items()}, **own}
        return self._checksums[model]

    def _own(self, planned: PlannedModel) -> Mapping[Slice, str]:
        """As they were proven; while the run is staged, as they are measured now."""
        grain = planned.slices.grain
        proven = {s.slice: s.checksum for s in self._context.ledger.slices(self._run.id, planned.name) if s.checksum}
        if proven:
            return {Slice(grain, grain.parse(label)): checksum for label, checksum in proven.items()}
        staged = measured(self._run, planned, self._context).staged
        return {slice: measure.checksum for slice, measure in staged.slices.items()}


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
