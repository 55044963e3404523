"""Check production: the gates of a run on what is visible after its publish.

A verdict on the rows of the slices stands where the certificate shows that the published files are the proven ones. One
that rests on more is passed again where something of that isn't what was proven.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from retcon.core.certificates import TableCertificate
from retcon.core.events import CheckedAfter
from retcon.core.expectations import EXPECT
from retcon.core.gates import (
    EMPTY,
    ONE_ROW,
    OTHER_KEYS,
    OUTSIDE_SCOPE,
    PARITY,
    SCHEMA,
    VALID,
    Gate,
    Unique,
    Verdict,
    listed_values,
    looks_beyond,
    metrics_of,
    not_null_columns,
    staged_metrics,
    tables_of,
)
from retcon.core.jobs import MeasureRequest
from retcon.core.measures import TableMeasures
from retcon.core.models import Model
from retcon.core.plans import PlannedModel
from retcon.core.reconciling import Reconcile
from retcon.core.runs import RecordedVerdict, Run
from retcon.core.suites import GreatExpectations
from retcon.core.table_gates import ForeignKey, NoRows
from retcon.flow.context import Context
from retcon.flow.looks import seen_after
from retcon.flow.measure import Measured
from retcon.flow.ports import Progress
from retcon.flow.profile import profiled
from retcon.flow.prove import declared, duplicates_of

_OF_THE_WAY = frozenset({VALID, PARITY, SCHEMA, OUTSIDE_SCOPE})
"""About how it came there; what production shows outside the scope, the certificate says."""

_OF_SLICES = frozenset({EMPTY, OTHER_KEYS, EXPECT})
"""Not declared by the model, and about the rows of the slices."""
_OF_OTHER_TABLES = frozenset({ForeignKey.kind, NoRows.kind, Reconcile.kind})
_BY_LOOKING = Unique | ForeignKey | NoRows | GreatExpectations
"""Judged by a look of their own, whatever the slices' measures are."""
_OTHER_FILES = "it was passed on other files than are published, and can't be judged by these"


def check_production(run: Run, certificates: Sequence[TableCertificate], context: Context) -> CheckedAfter:
    """Every verdict of the run: stands, passed again, or why neither."""
    recorded = context.ledger.verdicts(run.id)
    verdicts: list[Verdict] = []
    held: dict[str, tuple[str, ...]] = {}
    unjudged: dict[str, str] = {}
    by_table = {each.table: each for each in certificates}
    for planned in run.as_published.plan.models:
        certificate = by_table[planned.name]
        model = context.project.graph.models.get(planned.name)
        own = [each for each in recorded if each.verdict.model == planned.name]
        again = [each for each in own if not _stands(each.verdict, model, by_table, run)]
        held[planned.name] = tuple(each.verdict.gate for each in own if each not in again)
        gates = dict(_gates_of(model, again)) if model is not None and certificate.is_there else {}
        left = (each.verdict.gate for each in again if each.verdict.gate not in gates)
        why = _OTHER_FILES if certificate.is_there else certificate.unknown[0]
        unjudged |= dict.fromkeys((f"{planned.name}:{gate}" for gate in left), why)
        if model is not None and gates:
            context.watch(Progress(step="check", model=planned.name, total=len(certificates)))
            judged = _judged_again(run, planned, model, list(gates.values()), certificate, context)
            verdicts += (_answered_for(verdict, again) for verdict in judged)
    return CheckedAfter(verdicts=tuple(verdicts), held=held, unjudged=unjudged)


def _stands(verdict: Verdict, model: Model | None, certificates: Mapping[str, TableCertificate], run: Run) -> bool:
    """Was it passed on exactly what is visible now?"""
    if verdict.kind in _OF_THE_WAY:
        return True
    certificate = certificates[verdict.model]
    gate = None if model is None else _gate_of(model, verdict)
    if gate is None or model is None:
        # Of a gate that the project doesn't have any more, nobody knows how far it looked.
        is_about_own_rows = verdict.kind in _OF_SLICES
        is_own_proven = certificate.is_proven_inside if is_about_own_rows else certificate.is_proven_whole
        return is_own_proven and verdict.kind not in _OF_OTHER_TABLES
    is_about_more = looks_beyond(gate, model.slicing.by, model.name)
    is_own_proven = certificate.is_proven_whole if is_about_more else certificate.is_proven_inside
    others = (name for name in tables_of(gate) if name != model.name)
    return is_own_proven and all(_is_as_seen(name, certificates, run) for name in others)


def _is_as_seen(table: str, certificates: Mapping[str, TableCertificate], run: Run) -> bool:
    """Is another table that a gate looked at what it was then? What was pinned is, whatever was written since."""
    if table in certificates:
        return certificates[table].is_proven_whole
    return table in run.pins and table not in run.tables


def _gates_of(model: Model, recorded: Sequence[RecordedVerdict]) -> Iterator[tuple[str, Gate]]:
    for each in recorded:
        gate = _gate_of(model, each.verdict)
        if gate is not None:
            yield each.verdict.gate, gate


def _gate_of(model: Model, verdict: Verdict) -> Gate | None:
    if verdict.kind == ONE_ROW:
        return Unique(name=ONE_ROW, kind=ONE_ROW, columns=model.key)
    return next((gate for gate in model.gates if (gate.name, gate.kind) == (verdict.gate, verdict.kind)), None)


def _judged_again(
    run: Run,
    planned: PlannedModel,
    model: Model,
    gates: Sequence[Gate],
    certificate: TableCertificate,
    context: Context,
) -> list[Verdict]:
    table = run.tables[planned.name]
    request = MeasureRequest(
        model=replace(model, gates=tuple(gates)),
        table=planned.name,
        slices=planned.slices,
        metrics=metrics_of(gates),
        not_null=not_null_columns(gates),
        staged=certificate.published,
        # What it took the place of is another table, of other columns.
        production=certificate.base if table.replaces is None else None,
        production_table=planned.name,
        known={},
        listed=listed_values(gates),
        staged_only=staged_metrics(gates),
    )
    needs_rows = not all(isinstance(gate, _BY_LOOKING) for gate in gates)
    new, old = context.warehouse.measure(request) if needs_rows else (TableMeasures(), TableMeasures())
    found = Measured(request=request, staged=new, production=old)
    duplicates = duplicates_of(found, context)
    return declared(planned, found, duplicates, seen_after(run, context), profiled(found, context), context)


def _answered_for(verdict: Verdict, recorded: Sequence[RecordedVerdict]) -> Verdict:
    """What somebody answered for before the publish is told, and not held against it."""
    override = next((each.override for each in recorded if each.verdict.gate == verdict.gate), None)
    if override is None or verdict.passed:
        return verdict
    return replace(verdict, warns=True, summary=f"{verdict.summary} (answered for: {override})")
