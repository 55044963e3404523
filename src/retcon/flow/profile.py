"""Profile: what the columns of a model look like, staged and in production, where a gate asks for that."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from retcon.core.gates import Profile
from retcon.core.jobs import MeasureRequest
from retcon.core.profiles import ColumnProfile, Profiled, Side, as_production, scope_of
from retcon.core.runs import Run
from retcon.core.slices import SliceSet
from retcon.errors import Refused
from retcon.flow.context import Context
from retcon.flow.measure import Measured
from retcon.flow.ports import Ledger
from retcon.flow.standing import standing_at
from retcon.values import dataclass


def profiled(found: Measured, context: Context) -> Profiled:
    """The profile of what was staged, beside production's: that of an earlier run where it is still true."""
    request = found.request
    gates = [gate for gate in request.model.gates if isinstance(gate, Profile)]
    if not gates or not request.slices:
        return Profiled()
    wants_all = any(not gate.columns for gate in gates)
    columns = None if wants_all else tuple(dict.fromkeys(column for gate in gates for column in gate.columns))
    by_slice = any(gate.bounds.outliers is not None for gate in gates)
    # What production doesn't have would pass for a change of what it has.
    held = [slice.ordinal for slice, measure in found.production.slices.items() if measure.rows]
    together = replace(request, slices=SliceSet.of(request.slices.grain, held) if held else request.slices)
    scope = scope_of([slice.label for slice in together.slices])
    measured = context.warehouse.profile(
        together, columns, _known(together, scope, context), slices=request.slices if by_slice else None
    )
    return replace(measured, history=_history(request, context) if by_slice else {}, scope=scope)


def _known(request: MeasureRequest, scope: str, context: Context) -> Mapping[str, ColumnProfile]:
    """What one run kept of exactly these slices, all of which stand as it published them."""
    if request.production is None or request.table != request.production_table:
        return {}
    model = request.model
    standing = standing_at(context, model.name, request.production, request.slices)
    runs = {held.run for held in standing.values()}
    if len(standing) != len(request.slices) or len(runs) != 1:
        return {}
    entries = [entry for entry in context.ledger.profiles(runs.pop()) if entry.model == model.name]
    return as_production(entries, scope, samples=model.samples)


def _history(request: MeasureRequest, context: Context) -> dict[int, Mapping[str, ColumnProfile]]:
    kept = context.ledger.slice_profiles(request.model.name)
    return {slice.ordinal: kept[slice.label] for slice in SliceSet.labelled(request.model.grain, kept)}


@dataclass(frozen=True, kw_only=True)
class ModelProfile:
    """What was kept of one model: by column, staged and in production."""

    model: str
    columns: Mapping[str, tuple[ColumnProfile | None, ColumnProfile]]

    @property
    def profiled(self) -> Profiled:
        return Profiled(
            staged={column: new for column, (_, new) in self.columns.items()},
            production={column: old for column, (old, _) in self.columns.items() if old is not None},
        )


@dataclass(frozen=True, kw_only=True)
class ProfileReport:
    """What the columns of a run's models looked like when it was proven."""

    run: Run
    models: tuple[ModelProfile, ...]


def kept_profiles(run: Run, ledger: Ledger) -> ProfileReport:
    """From the ledger; refused where nothing was profiled."""
    entries = ledger.profiles(run.id)
    models = []
    for planned in run.plan.models:
        own = [entry for entry in entries if entry.model == planned.name]
        old = {entry.profile.column: entry.profile for entry in own if entry.side is Side.PRODUCTION}
        new = {entry.profile.column: entry.profile for entry in own if entry.side is Side.STAGED}
        if new:
            columns = {column: (old.get(column), profile) for column, profile in new.items()}
            models.append(ModelProfile(model=planned.name, columns=columns))
    if not models:
        raise Refused(
            f"nothing was profiled in run {run.id}",
            next="models are profiled where they have a gate `- profile: {columns: all}`, when the run is proven",
        )
    return ProfileReport(run=run, models=tuple(models))
