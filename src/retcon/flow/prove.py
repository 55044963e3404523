"""Prove: measure what was staged, compare it with production, and let every gate speak."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import replace
from decimal import Decimal

from retcon.core.events import Judged, ProvenSlice, ProvingBegan
from retcon.core.gates import (
    EMPTY,
    ONE_ROW,
    OTHER_KEYS,
    OUTSIDE_SCOPE,
    PARITY,
    SCHEMA,
    VALID,
    Evidence,
    Finding,
    Gate,
    Profile,
    Rows,
    Unique,
    Verdict,
    judge,
    key_name,
)
from retcon.core.jobs import Job, KeyedRows, MeasureRequest
from retcon.core.measures import TableMeasures
from retcon.core.models import Model
from retcon.core.plans import PlannedModel
from retcon.core.profiles import Profiled, ProfileEntry, entries_of, entry_document
from retcon.core.reads import Read
from retcon.core.runs import Run, RunTable
from retcon.core.sharing import with_kept
from retcon.core.slices import Buckets, Slice, SliceSet
from retcon.core.waves import parts_of
from retcon.flow.context import Context, job_of, keyed_rows, sized
from retcon.flow.expect import expected
from retcon.flow.looks import Sees, looks_of, seen_by
from retcon.flow.measure import Measured, kept_slices, measured
from retcon.flow.pause import AT_THE_KEYBOARD
from retcon.flow.ports import Progress
from retcon.flow.profile import profiled
from retcon.flow.standing import standing_at
from retcon.values import dataclass

Pair = tuple[str | None, str | None]
Duplicates = Mapping[str, Mapping[Slice, int]]


@dataclass(frozen=True, kw_only=True)
class _Proof:
    """What proving one model gave."""

    head: int
    slices: tuple[ProvenSlice, ...]
    totals: Mapping[str, Pair]
    verdicts: tuple[Verdict, ...]
    profiles: tuple[ProfileEntry, ...] = ()


def prove(run: Run, context: Context) -> Run:
    """All verdicts on exactly what stands on the branches now; the run is proven or failed."""
    run = context.record(run, ProvingBegan())
    models = run.plan.models
    proofs: dict[str, _Proof] = {}
    context.watch(Progress(step="prove", done=0, total=len(models)))
    pool = ThreadPoolExecutor(max_workers=context.max_active, thread_name_prefix="prove")
    try:
        under_way = {pool.submit(_prove_model, run, planned, context): planned for planned in models}
        for future in as_completed(under_way):
            name = under_way[future].name
            proofs[name] = future.result()
            context.watch(Progress(step="prove", model=name, done=len(proofs), total=len(models)))
    except KeyboardInterrupt:
        context.brake.pull(AT_THE_KEYBOARD, context.warehouse.interrupt)
        raise
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
    of_inputs = [v.verdict for v in context.ledger.verdicts(run.id) if v.verdict.kind == VALID]
    in_order = [(planned.name, proofs[planned.name]) for planned in models]
    return context.record(
        run,
        Judged(
            heads={name: proof.head for name, proof in in_order},
            slices=tuple(slice for _, proof in in_order for slice in proof.slices),
            verdicts=(*of_inputs, *(verdict for _, proof in in_order for verdict in proof.verdicts)),
            totals={name: proof.totals for name, proof in in_order},
            profiles=tuple(entry_document(entry) for _, proof in in_order for entry in proof.profiles),
        ),
    )


def _prove_model(run: Run, planned: PlannedModel, context: Context) -> _Proof:
    found = measured(run, planned, context)
    request, staged, production = found.request, found.staged, found.production
    kept = tuple(_kept(run, planned, context))
    as_expected = expected(run, planned, found, context)
    if not request.slices:
        return _Proof(head=request.staged, slices=kept, totals={}, verdicts=tuple(as_expected))
    looks = profiled(found, context)
    duplicates = duplicates_of(found, context)
    judged = (*declared(planned, found, duplicates, seen_by(run, context), looks, context), *as_expected)
    return _Proof(
        head=request.staged,
        slices=(*_proven_slices(found, duplicates), *kept),
        totals=_pairs(production.totals, staged.totals),
        profiles=tuple(entries_of(planned.name, looks)),
        verdicts=(*judged, *_always_on(run, planned, request, (staged, production), context)),
    )


def _kept(run: Run, planned: PlannedModel, context: Context) -> Iterator[ProvenSlice]:
    """Of slices that weren't computed, what was measured when they were."""
    kept = kept_slices(run, planned, context)
    for slice, held in standing_at(context, planned.name, run.tables[planned.name].base_snapshot, kept).items():
        yield ProvenSlice(
            model=planned.name,
            slice=slice.label,
            rows=held.rows,
            checksum=held.checksum,
            old_rows=held.rows,
            old_checksum=held.checksum,
            metrics={name: (value, value) for name, value in held.metrics.items()},
            keys=held.keys,
        )


def declared(
    planned: PlannedModel, found: Measured, duplicates: Duplicates, sees: Sees, profiles: Profiled, context: Context
) -> list[Verdict]:
    """The verdicts of the model's gates on what is measured, staged and in production."""
    request, staged = found.request, found.staged
    gates = request.model.gates
    evidence = Evidence(
        model=request.model.name,
        staged=staged,
        production=found.production,
        duplicates=duplicates,
        published=_published_rows(request.model, context),
        open=frozenset(planned.open),
        looks=looks_of(request, staged, sees, context),
        profiled=profiles,
    )
    return [judge(gate, evidence) for gate in gates]


def duplicates_of(found: Measured, context: Context) -> Duplicates:
    """By gate on keys, the rows too many in each slice."""
    gates = (gate for gate in found.request.model.gates if isinstance(gate, Unique))
    return {gate.name: _duplicates(gate, found, context) for gate in gates}


def _duplicates(gate: Unique, found: Measured, context: Context) -> Mapping[Slice, int]:
    """Counted with the rest, or by a job of its own: of slices whose keys aren't those of an earlier run."""
    request, staged = found.request, found.staged
    measures = [measure for measure in staged.slices.values() if measure.rows]
    if gate.columns in request.unique and all(gate.columns in measure.surplus for measure in measures):
        return {s: many for s, measure in staged.slices.items() if (many := measure.surplus.get(gate.columns, 0))}
    if gate.columns not in request.keys:
        return context.warehouse.duplicates(request, gate, staged)
    doubtful = found.doubtful(gate.columns)
    rows = TableMeasures(slices={slice: staged.slices[slice] for slice in doubtful})
    return context.warehouse.duplicates(replace(request, slices=doubtful), gate, rows) if rows.rows else {}


def _published_rows(model: Model, context: Context) -> dict[int, int]:
    """The rows of every published slice, where a gate compares with them."""
    if not any(map(_compares_with_earlier, model.gates)):
        return {}
    held = context.ledger.published_slices(model.name)
    return {slice.ordinal: held[slice.label].rows for slice in SliceSet.labelled(model.grain, held)}


def _compares_with_earlier(gate: Gate) -> bool:
    by_rows = isinstance(gate, Rows) and gate.history is not None
    return by_rows or (isinstance(gate, Profile) and gate.bounds.outliers is not None)


def _always_on(
    run: Run,
    planned: PlannedModel,
    request: MeasureRequest,
    measured: tuple[TableMeasures, TableMeasures],
    context: Context,
) -> list[Verdict]:
    staged, production = measured
    table = run.tables[planned.name]
    verdicts = [_schema(table, context), _outside_scope(planned, request, table, context)]
    verdicts.append(_empty(request.model, planned, staged, production))
    if request.model.moves_rows:
        verdicts.append(_one_row(request, staged, context))
    keyed = keyed_rows(run, planned, context)
    if keyed is not None:
        verdicts.append(_other_keys(request, keyed, context))
    if not request.model.nondeterministic:
        verdicts.append(_parity(run, planned, request, staged, context))
    return verdicts


def _schema(table: RunTable, context: Context) -> Verdict:
    """The table still is what it was when staging began."""
    facts = context.tables.facts(table.written)
    then = (table.uuid, table.schema_id, table.spec_id)
    now = (facts.uuid, facts.schema_id, facts.spec_id) if facts is not None else None
    findings = []
    if now != then:
        findings.append(Finding(slice=None, text="the table's schema, partitioning or identity changed since staging"))
    columns = len(facts.columns) if facts is not None else 0
    return _verdict(table.table, SCHEMA, f"{columns} columns as the table has them", findings)


def _outside_scope(planned: PlannedModel, request: MeasureRequest, table: RunTable, context: Context) -> Verdict:
    """The branch differs from production's base in planned slices only: told by its manifests, no data read."""
    changed = context.tables.changed(
        table.written,
        time=request.model.slicing.by,
        grain=planned.slices.grain,
        since=table.base_snapshot,
        until=request.staged,
    )
    findings = []
    if changed is None or changed.everything:
        findings.append(Finding(slice=None, text="the branch's history doesn't tell what changed"))
    else:
        findings += [
            Finding(slice=s.label, text="changed on the branch, not planned") for s in changed.slices - planned.slices
        ]
    return _verdict(planned.name, OUTSIDE_SCOPE, "no row outside the planned slices", findings)


def _empty(model: Model, planned: PlannedModel, staged: TableMeasures, production: TableMeasures) -> Verdict:
    """A slice without rows is never taken for done; but nobody can say that a bucket should have had some."""
    empty = [slice for slice, measure in sorted(staged.slices.items()) if measure.rows == 0]
    summary = f"{len(empty):,} slices without rows" if empty else "every slice has rows"
    had_rows = {slice for slice, measure in production.slices.items() if measure.rows}
    computed = SliceSet(model.grain) if isinstance(model.grain, Buckets) else planned.computed
    expected = [slice for slice in empty if slice in had_rows or slice in computed]
    refused = [] if model.allow_empty else expected
    findings = [
        Finding(slice=slice.label, text="no rows; `allow_empty: true` would let it be emptied") for slice in refused
    ]
    return _verdict(model.name, EMPTY, summary, findings)


def _one_row(request: MeasureRequest, staged: TableMeasures, context: Context) -> Verdict:
    """No key of these slices is anywhere else in the table: it may have come there since the plan was made."""
    gate = Unique(name=ONE_ROW, kind=ONE_ROW, columns=request.model.key)
    duplicates = {ONE_ROW: context.warehouse.duplicates(request, gate, staged)}
    measured = TableMeasures()
    return judge(gate, Evidence(model=request.model.name, staged=measured, production=measured, duplicates=duplicates))


def _other_keys(request: MeasureRequest, keyed: KeyedRows, context: Context) -> Verdict:
    """What isn't about the plan's keys is, row for row, what it was when the run began."""
    findings = [
        Finding(slice=slice.label, text="rows of other keys changed")
        for slice in context.warehouse.others_changed(request, keyed)
    ]
    return _verdict(request.model.name, OTHER_KEYS, "the rows of all other keys are as they were", findings)


def _parity(
    run: Run, planned: PlannedModel, request: MeasureRequest, staged: TableMeasures, context: Context
) -> Verdict:
    """One slice, drawn by the run's id, recomputed alone must equal its share of the wave."""
    computed = planned.computed & request.slices
    waves = (part for wave in planned.waves for part in parts_of(request.model, wave & computed))
    shared = [slice for wave in waves if len(wave) > 1 for slice in wave]
    if not shared:
        return _verdict(planned.name, PARITY, "every slice was computed alone", [])
    drawn = _drawn(f"{run.id}/{planned.name}", shared)
    alone = SliceSet(planned.slices.grain, (drawn.ordinal,))
    job = with_kept(job_of(run, planned, alone, context.snapshots(run), context, "parity"), planned, context.kept)
    job = sized(_without_moved(job, planned, request), context)
    difference = context.warehouse.differs_alone(job, request, staged.slices[drawn])
    findings = [Finding(slice=drawn.label, text=f"computed alone, {difference}")] if difference else []
    return _verdict(planned.name, PARITY, f"{drawn.label} computed alone gives the same", findings)


def _without_moved(job: Job, planned: PlannedModel, request: MeasureRequest) -> Job:
    """Of a slice that is computed alone, rows don't stay whose keys are now in others of the run."""
    if not job.parts:
        return job
    others = planned.slices - job.slices
    by = request.model.slicing.by
    return replace(job, moved_to=Read(table=request.table, snapshot_id=request.staged, by=by, slices=others))


def _drawn(seed: str, slices: list[Slice]) -> Slice:
    return slices[int.from_bytes(hashlib.sha256(seed.encode()).digest()[:8]) % len(slices)]


def _verdict(model: str, kind: str, summary: str, findings: list[Finding]) -> Verdict:
    return Verdict(model=model, gate=kind, kind=kind, summary=summary, findings=tuple(findings))


def _proven_slices(found: Measured, duplicates: Duplicates) -> list[ProvenSlice]:
    model = found.request.model
    unique = {key_name(gate.columns): gate.name for gate in model.gates if isinstance(gate, Unique)}
    proven: list[ProvenSlice] = []
    for slice in found.request.slices:
        new, old = found.staged.slices[slice], found.production.slices.get(slice)
        proven.append(
            ProvenSlice(
                model=model.name,
                slice=slice.label,
                rows=new.rows,
                checksum=new.checksum,
                old_rows=old.rows if old else None,
                old_checksum=old.checksum if old else None,
                metrics=_pairs(old.metrics if old else {}, new.metrics),
                keys={name: text for name, text in new.keys.items() if not duplicates[unique[name]].get(slice)},
            )
        )
    return proven


def _pairs(old: Mapping[str, Decimal | None], new: Mapping[str, Decimal | None]) -> dict[str, Pair]:
    return {name: (_text(old.get(name)), _text(value)) for name, value in new.items()}


def _text(value: Decimal | None) -> str | None:
    return None if value is None else str(value)
