"""Attribute: on some slices, old code on new inputs, new code on old inputs, and the same once more. Writes nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from decimal import Decimal

from retcon.core.attributions import ROWS, AttributedSlice, Attribution, Numbers, Trials, drawn
from retcon.core.gates import metrics_of
from retcon.core.jobs import Job, MeasureRequest
from retcon.core.measures import SliceMeasure
from retcon.core.models import Input, Model, Strategy
from retcon.core.plans import PlannedModel, code_of
from retcon.core.reads import Read, read_of
from retcon.core.runs import Consumed, RecordedSlice, Run, SliceState
from retcon.core.slices import SliceSet
from retcon.errors import Refused
from retcon.flow.compare_rows import made_by
from retcon.flow.contents import is_comparable
from retcon.flow.context import Context, bucketed_as, in_parts, parameters_of, read_as_planned, run_ts_of
from retcon.flow.ports import Progress

ReadBy = Callable[[Input, SliceSet], Read]
"""What some slices read of an input."""
Reread = Callable[[Model, str], Model]
"""A model with another text as its code; refused where that can't be read as the model is declared now."""

_NEVER = "retcon hasn't published it before: what was there is known, what it was computed from isn't"
_SAME_CODE, _SAME_INPUTS = "code and settings are as they were", "its inputs are as they were"


@dataclass(frozen=True, kw_only=True)
class _Code:
    """A model as a run computed it."""

    model: Model
    params: Mapping[str, object]
    run_ts: datetime


@dataclass(frozen=True, kw_only=True)
class _Past:
    """How a slice was made before."""

    run: Run | None
    consumed: Mapping[str, Consumed]
    """By input."""


@dataclass(frozen=True, kw_only=True)
class _Tried:
    """What one slice came out as, computed now."""

    measure: SliceMeasure | None = None
    why_not: str = ""

    @property
    def numbers(self) -> Numbers | None:
        return None if self.measure is None else {ROWS: Decimal(self.measure.rows), **self.measure.metrics}


@dataclass(kw_only=True)
class Attributor:
    """Tries the slices of one run."""

    run: Run
    context: Context
    reread: Reread
    slices: int
    """How many are tried of each model."""
    _runs: dict[str, Run | None] = field(default_factory=dict)

    def attribute(self, planned: PlannedModel) -> Attribution:
        """How much of a model's change comes from what, on some of the slices that moved."""
        model = self.context.model(planned)
        recorded = {s.slice: s for s in self.context.ledger.slices(self.run.id, model.name)}
        moved = [label for label, s in recorded.items() if _has_moved(s)]
        metrics = metrics_of(model.gates)
        additive = frozenset({ROWS, *(metric.expression for metric in metrics if metric.is_additive)})
        told = Attribution(model=model.name, moved=len(moved), slices=(), additive=additive)
        why_not = _why_not(model, planned)
        if why_not or not moved:
            return replace(told, why_not=why_not)
        labels = drawn(moved, self.slices, f"{self.run.id} {model.name}")
        ledger = self.context.ledger
        makers = ledger.runs_before(self.run.id, model.name)
        consumed = ledger.consumption_before(self.run.id, model.name)
        progress = Progress(step="attribute", model=model.name, total=len(labels))
        found: list[AttributedSlice] = []
        for label in labels:
            self.context.watch(replace(progress, done=len(found), note=label))
            past = _Past(run=self._found(makers.get(label)), consumed=consumed.get(label, {}))
            try:
                found.append(self._slice(model, planned, recorded[label], past))
            except KeyboardInterrupt:
                self.context.warehouse.interrupt()
                raise
        self.context.watch(replace(progress, done=progress.total))
        return replace(told, slices=tuple(found))

    def _slice(self, model: Model, planned: PlannedModel, recorded: RecordedSlice, past: _Past) -> AttributedSlice:
        slices = SliceSet.parse(planned.slices.grain, recorded.slice)
        same_code = past.run is not None and self._is_same_code(past.run, planned)
        same_inputs = self._is_same_input(model, planned, recorded.slice, past.consumed)

        def new(i: Input, part: SliceSet) -> Read:
            return self._new_read(i, planned, part)

        def old(i: Input, part: SliceSet) -> Read:
            return self._old_read(i, planned, part, past.consumed)

        code = self._code(self.run, model)
        again = with_old_code = with_old_inputs = self._try("again", code, slices, new)
        if past.run is None:
            with_old_code = with_old_inputs = _Tried(why_not=_NEVER)
        else:
            if not same_code:
                with_old_code = self._try("old_code", self._code(past.run, model), slices, new)
            if not same_inputs:
                with_old_inputs = self._try("old_inputs", code, slices, old)
        # A gate that came or went since: what was measured then isn't measured now, or the reverse.
        told = {metric.expression for metric in metrics_of(model.gates)}
        metrics = {name: pair for name, pair in recorded.metrics.items() if name in told}
        trials = Trials(
            old=_numbers(recorded.old_rows, {name: before for name, (before, _) in metrics.items()}),
            new=_numbers(recorded.rows, {name: after for name, (_, after) in metrics.items()}),
            again=again.numbers,
            old_code=with_old_code.numbers,
            old_inputs=with_old_inputs.numbers,
            made=self._made(past.run, model, recorded.slice),
            same_code=same_code,
            same_inputs=same_inputs,
        )
        untried = {
            "the same once more": again,
            "old code on new inputs": with_old_code,
            "new code on old inputs": with_old_inputs,
        }
        notes = [f"{what}: {tried.why_not}" for what, tried in untried.items() if tried.why_not]
        return AttributedSlice(
            slice=recorded.slice,
            before=None if past.run is None else past.run.id,
            parts={measure: trials.parts(measure) for measure in (ROWS, *metrics)},
            unlike=self._unlike(recorded, again, code, slices, new),
            notes=(*notes, *([_SAME_CODE] if same_code else []), *([_SAME_INPUTS] if same_inputs else [])),
        )

    def _made(self, run: Run | None, model: Model, label: str) -> Numbers | None:
        """What the run before recorded of a slice."""
        found = () if run is None else self.context.ledger.slices(run.id, model.name)
        made = next((each for each in found if each.slice == label and each.rows is not None), None)
        return None if made is None else _numbers(made.rows, {name: after for name, (_, after) in made.metrics.items()})

    # ── code ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def _code(self, run: Run, model: Model) -> _Code | str:
        """The model as this run computed it; else why it can't be run again."""
        planned = run.plan.model(model.name)
        text = self.context.ledger.code(run.id).get(model.name)
        is_as_now = planned is not None and planned.fingerprint == model.fingerprint
        params = self._params(run)
        if is_as_now:
            return _Code(model=model, params=params, run_ts=run_ts_of(run))
        if text is None:
            return f"the code of run {run.id} isn't on record"
        if model.is_python:
            return f"the code of run {run.id} is Python, of which the text is kept, and not all that it imported"
        if text == model.query.text:
            return f"since run {run.id} other keys of the model's file changed than its SQL"
        try:
            return _Code(model=self.reread(model, text), params=params, run_ts=run_ts_of(run))
        except Refused as refused:
            return f"the code of run {run.id} doesn't fit the model's file any more: {refused.message}"

    def _params(self, run: Run) -> Mapping[str, object]:
        events = self.context.ledger.events(run.id)
        recorded = events[0].body.get("parameters") if events else None
        return recorded if recorded is not None else self.context.project.settings.params

    def _is_same_code(self, before: Run, planned: PlannedModel) -> bool:
        then = before.plan.model(planned.name)
        if then is None:
            return False
        old, new = (code_of(p.fingerprint, r.plan.settings) for p, r in ((then, before), (planned, self.run)))
        return old == new

    def _found(self, run_id: str | None) -> Run | None:
        if run_id is not None and run_id not in self._runs:
            self._runs[run_id] = self.context.ledger.run(run_id)
        return None if run_id is None else self._runs[run_id]

    # ── inputs ────────────────────────────────────────────────────────────────────────────────────────────────────

    def _place(self, i: Input) -> tuple[str, int | None]:
        run = self.run
        return made_by(run, i.table, self.context) if i.table in run.tables else (i.table, run.pins.get(i.table))

    def _new_read(self, i: Input, planned: PlannedModel, part: SliceSet) -> Read:
        table, snapshot = self._place(i)
        hashed = bucketed_as(self.run, self.context.model(planned), self.context)
        read = read_as_planned(i, planned.input(i.name), part, {i.table: snapshot}, bucketed_as=hashed)
        return replace(read, table=table)

    def _old_read(self, i: Input, planned: PlannedModel, part: SliceSet, consumed: Mapping[str, Consumed]) -> Read:
        then, slices = consumed.get(i.name), planned.input(i.name).slices
        if then is None:
            raise Refused(f"what it consumed of {i.table} isn't on record")
        is_pinned = then.snapshot_id is not None and then.snapshot_id == self.run.pins.get(i.table)
        if i.table in self.context.project.settings.foreign and not is_pinned:
            raise Refused(f"{i.table} isn't an Iceberg table: what it held before can't be read")
        hashed = bucketed_as(self.run, self.context.model(planned), self.context)
        return read_of(i, part, None if slices is None else slices.grain, then.snapshot_id, bucketed_as=hashed)

    def _is_same_input(self, model: Model, planned: PlannedModel, label: str, consumed: Mapping[str, Consumed]) -> bool:
        """Was it computed from the same content before? By the record, or where it isn't published, by snapshots."""
        if any(i.name not in consumed for i in model.inputs):
            return False
        now = {
            each.input: each.content
            for each in self.context.ledger.consumption(self.run.id)
            if (each.model, each.slice) == (planned.name, label)
        }
        if now:
            return all(is_comparable(now.get(i.name)) and consumed[i.name].content == now[i.name] for i in model.inputs)
        return all(self._is_same_snapshot(i, consumed[i.name]) for i in model.inputs)

    def _is_same_snapshot(self, i: Input, then: Consumed) -> bool:
        now = self._place(i)[1]
        # An Iceberg table without a snapshot is empty; of another source that tells nothing.
        is_told = now is not None or i.table not in self.context.project.settings.foreign
        return is_told and then.snapshot_id == now

    # ── trials ────────────────────────────────────────────────────────────────────────────────────────────────────

    def _try(self, name: str, code: _Code | str, slices: SliceSet, read: ReadBy) -> _Tried:
        if isinstance(code, str):
            return _Tried(why_not=code)
        try:
            measured = self.context.warehouse.outcome(self._job(name, code, slices, read), metrics_of(code.model.gates))
        except Refused as refused:
            return _Tried(why_not=refused.message)
        return _Tried(measure=next(iter(measured.values())))

    def _job(self, name: str, code: _Code, slices: SliceSet, read: ReadBy) -> Job:
        model = code.model

        def computing(part: SliceSet, name: str) -> Job:
            return Job(
                name=name,
                model=model,
                slices=part,
                reads={i.name: read(i, part) for i in model.inputs},
                parameters=parameters_of(part, code.params, run_ts=code.run_ts),
            )

        return in_parts(f"{self.run.id}_why_{model.name.replace('.', '__')}_{name}", model, slices, computing)

    def _unlike(
        self,
        recorded: RecordedSlice,
        again: _Tried,
        code: _Code | str,
        slices: SliceSet,
        read: ReadBy,
    ) -> int | None:
        """Rows that aren't what the run made of the slice, by the same code on the same inputs."""
        if again.measure is None or isinstance(code, str):
            return None
        if again.measure.checksum == recorded.checksum:
            return 0
        table, snapshot = made_by(self.run, code.model.name, self.context)
        request = MeasureRequest(
            model=code.model,
            table=table,
            slices=slices,
            metrics=(),
            not_null=(),
            staged=snapshot or 0,
            production=None,
            production_table=table,
            known={},
        )
        job = self._job("differing", code, slices, read)
        try:
            return sum(self.context.warehouse.differing(job, request).values())
        except Refused:
            return None


def _has_moved(recorded: RecordedSlice) -> bool:
    return recorded.checksum is not None and recorded.state is not SliceState.SAME and not recorded.is_same


def _why_not(model: Model, planned: PlannedModel) -> str:
    if model.reads_itself:
        return "it reads its own earlier slices, so that one slice can't be tried alone"
    if model.strategy is Strategy.MERGE or planned.is_keyed:
        return "rows that were there stay in its slices, so that they can't be computed anew from inputs alone"
    changed = {i.name for i in model.inputs} ^ {i.name for i in planned.inputs}
    return f"it declares other inputs now than when it was planned: {', '.join(sorted(changed))}" if changed else ""


def _numbers(rows: int | None, metrics: Mapping[str, str | None]) -> Numbers:
    values = {name: None if text is None else Decimal(text) for name, text in metrics.items()}
    return {ROWS: None if rows is None else Decimal(rows), **values}
