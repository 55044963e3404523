"""Measure: what of a model is staged, against what production has, each once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field
from decimal import Decimal

from retcon.core.expectations import slice_metrics
from retcon.core.gates import (
    Metric,
    key_name,
    keys_in_slices,
    listed_values,
    metrics_of,
    not_null_columns,
    staged_metrics,
)
from retcon.core.jobs import MeasureRequest
from retcon.core.measures import SliceMeasure, TableMeasures
from retcon.core.models import Model
from retcon.core.plans import PlannedModel
from retcon.core.runs import RecordedSlice, Run, RunTable, SliceState
from retcon.core.schemas import is_comparable
from retcon.core.slices import Slice, SliceSet
from retcon.flow.branches import require_own_branch
from retcon.flow.context import Context
from retcon.flow.standing import standing_at
from retcon.values import dataclass

Keys = tuple[tuple[str, ...], ...]
ProvenKeys = Mapping[Slice, Mapping[str, str]]

_FEW_ROWS = 1_000_000
"""Up to here, counting distinct keys beside the rest costs less than a job of its own."""


@dataclass(frozen=True, kw_only=True)
class Measured:
    """The measures of a model's computed slices, staged and in production."""

    request: MeasureRequest
    staged: TableMeasures
    production: TableMeasures
    proven_keys: ProvenKeys = field(default_factory=dict)
    """What was found to be a key in earlier runs, whatever became of their rows."""

    def doubtful(self, columns: tuple[str, ...]) -> SliceSet:
        """Staged slices of whose rows nobody found yet that these columns are a key: those with other values in them
        than any before. The same values as those of a key, as often as they were there, are one again.
        """
        name = key_name(columns)

        def is_proven(slice: Slice) -> bool:
            measure = self.staged.slices.get(slice)
            checksum = None if measure is None else measure.keys.get(name)
            return checksum is not None and checksum == self.proven_keys.get(slice, {}).get(name)

        return SliceSet.of(self.request.slices.grain, (s.ordinal for s in self.request.slices if not is_proven(s)))


def measured(run: Run, planned: PlannedModel, context: Context) -> Measured:
    """As the branch stands now. What was measured by this command of the same snapshots isn't read again."""
    model = context.model(planned)
    keys = keys_in_slices(model.gates, model.slicing.by, model.name)
    proven = _proven_keys(planned, keys, context)
    request = _request(run, planned, keys, proven, context)
    if not request.slices:
        return Measured(request=request, staged=TableMeasures(), production=TableMeasures())
    key = (request.table, request.staged, request.production, request.slices)
    if key not in context.measures:
        context.measures[key] = context.warehouse.measure(request)
    staged, production = context.measures[key]
    return Measured(request=request, staged=staged, production=production, proven_keys=proven)


def _proven_keys(planned: PlannedModel, keys: Keys, context: Context) -> ProvenKeys:
    if not keys:
        return {}
    held = context.ledger.published_slices(planned.name, planned.slices.labels)
    return {slice: held[slice.label].keys for slice in planned.slices if slice.label in held}


def kept_slices(run: Run, planned: PlannedModel, context: Context) -> SliceSet:
    """Slices that weren't computed, since nothing that they read came out otherwise."""
    return _kept(planned, context.ledger.slices(run.id, planned.name))


def _kept(planned: PlannedModel, recorded: Iterable[RecordedSlice]) -> SliceSet:
    return SliceSet.labelled(planned.slices.grain, (s.slice for s in recorded if s.state is SliceState.SAME))


def _request(run: Run, planned: PlannedModel, keys: Keys, proven: ProvenKeys, context: Context) -> MeasureRequest:
    model = context.model(planned)
    table = run.tables[planned.name]
    recorded = context.ledger.slices(run.id, planned.name)
    has_few = sum(each.rows or 0 for each in recorded) <= _FEW_ROWS
    metrics = tuple(dict.fromkeys((*metrics_of(model.gates), *slice_metrics(run.plan.expect, model.name))))
    slices = planned.slices - _kept(planned, recorded)
    is_new = not all(key_name(columns) in proven.get(slice, {}) for slice in slices for columns in keys)
    return MeasureRequest(
        model=model,
        table=table.written,
        slices=slices,
        metrics=metrics,
        not_null=not_null_columns(model.gates),
        staged=require_own_branch(run, planned, context),
        production=_compared_with(model, table, context),
        production_table=table.table,
        known=_known(planned.name, slices, table.base_snapshot, metrics, context),
        listed=listed_values(model.gates),
        staged_only=staged_metrics(model.gates),
        unique=keys if has_few and is_new else (),
        keys=keys,
        bytes=sum(each.bytes or 0 for each in recorded),
    )


def _compared_with(model: Model, table: RunTable, context: Context) -> int | None:
    """Production's snapshot, unless another table takes its place and their slices can't be told by one column."""
    if table.replaces is None:
        return table.base_snapshot
    old, new = (context.tables.facts(name) for name in (table.table, table.written))
    is_told = old is not None and new is not None and is_comparable(model, old, new)
    return table.snapshot_before if is_told else None


def _known(
    model: str, slices: SliceSet, base: int | None, metrics: tuple[Metric, ...], context: Context
) -> dict[Slice, SliceMeasure]:
    """Production's measures that the ledger has and that are still true: nobody wrote to the slice since."""
    if not all(metric.is_additive for metric in metrics):
        return {}  # the total of an average must be taken over the rows themselves
    found: dict[Slice, SliceMeasure] = {}
    for slice, held in standing_at(context, model, base, slices).items():
        is_told = all(metric.expression in held.metrics for metric in metrics)
        if is_told and held.rows:
            values = {name: None if text is None else Decimal(text) for name, text in held.metrics.items()}
            found[slice] = SliceMeasure(rows=held.rows, checksum=held.checksum, metrics=values)
    return found
