"""Gates: what must hold before a run is published, and the verdicts that come out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field, replace
from decimal import Decimal
from typing import Any, assert_never

from retcon.core.findings import Finding as Finding
from retcon.core.findings import percent as percent
from retcon.core.measures import Listed, SliceMeasure, TableMeasures
from retcon.core.measures import Metric as Metric
from retcon.core.profiles import ProfileBounds, Profiled, objections
from retcon.core.queries import quoted
from retcon.core.reconciling import Reconcile, SourceMeasures, judge_reconcile
from retcon.core.row_histories import RowHistory, usual_rows
from retcon.core.slices import Slice
from retcon.core.suites import GreatExpectations, Unmet, judge_expectations
from retcon.core.sums import sum_of
from retcon.core.table_gates import Counted, ForeignKey, NoRows, judge_foreign_key, judge_no_rows
from retcon.core.value_gates import Accepted, NullRate, judge_accepted, judge_null_rate
from retcon.values import dataclass

SCHEMA, OUTSIDE_SCOPE, PARITY, EMPTY = "schema", "outside_scope", "parity", "empty"
VALID = "valid"
"""Of validity windows: judged before anything is staged."""
OTHER_KEYS = "other_keys"
"""Only where a plan is about some keys."""
ONE_ROW = "one_row_per_key"
"""Only where rows that are merged may move to another slice."""
NEVER_OVERRIDDEN = frozenset({SCHEMA, OUTSIDE_SCOPE, EMPTY, VALID, OTHER_KEYS, ONE_ROW})


@dataclass(frozen=True, kw_only=True)
class Rows:
    """Bounds on the rows of each slice, on their change against production (0.1 is 10%), and by earlier slices."""

    name: str
    min: int | None = None
    max: int | None = None
    change: Decimal | None = None
    history: RowHistory | None = None
    warns: bool = False
    kind: str = "rows"


@dataclass(frozen=True, kw_only=True)
class Unique:
    """No two rows share these columns."""

    name: str
    columns: tuple[str, ...]
    warns: bool = False
    kind: str = "unique"


@dataclass(frozen=True, kw_only=True)
class NotNull:
    """These columns are never NULL."""

    name: str
    columns: tuple[str, ...]
    warns: bool = False
    kind: str = "not_null"


@dataclass(frozen=True, kw_only=True)
class Drift:
    """A metric moves no further than this against production, per slice and in total (0.2 is 20%)."""

    name: str
    metric: Metric
    low: Decimal | None
    high: Decimal | None
    warns: bool = False
    kind: str = "drift"


@dataclass(frozen=True, kw_only=True)
class Profile:
    """What columns look like is kept, and stays within bounds."""

    name: str
    columns: tuple[str, ...]
    """None of them: all that the table has."""
    bounds: ProfileBounds
    warns: bool = False
    kind: str = "profile"


Gate = (
    Rows
    | Unique
    | NotNull
    | Drift
    | NullRate
    | Accepted
    | ForeignKey
    | NoRows
    | Reconcile
    | Profile
    | GreatExpectations
)


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What came out of one gate."""

    model: str
    gate: str
    kind: str
    summary: str
    findings: tuple[Finding, ...] = ()
    warns: bool = False
    """What it objects to is told, and nothing is held up by it."""

    @property
    def passed(self) -> bool:
        return self.warns or not self.findings

    @property
    def is_warning(self) -> bool:
        return self.warns and bool(self.findings)

    @property
    def may_be_overridden(self) -> bool:
        return self.kind not in NEVER_OVERRIDDEN


def verdict_from(document: Mapping[str, Any]) -> Verdict:
    """A verdict as it was recorded."""
    return Verdict(**{**document, "findings": tuple(Finding(**finding) for finding in document["findings"])})


@dataclass(frozen=True, kw_only=True)
class Looks:
    """What was looked at apart from the measures, by the gate's name."""

    counted: Mapping[str, Counted] = field(default_factory=dict)
    sources: Mapping[str, SourceMeasures] = field(default_factory=dict)
    examples: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Values that aren't accepted, where they may be shown."""
    unmet: Mapping[str, tuple[Unmet, ...]] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """What the gates of one model are judged by."""

    model: str
    staged: TableMeasures
    production: TableMeasures
    duplicates: Mapping[str, Mapping[Slice, int]]
    """Per unique gate: rows too many, by slice."""
    published: Mapping[int, int] = field(default_factory=dict)
    """The rows of every slice that is published, by ordinal."""
    open: frozenset[Slice] = frozenset()
    """Slices that aren't over yet: more rows may come."""
    looks: Looks = field(default_factory=Looks)
    profiled: Profiled = field(default_factory=Profiled)


def metrics_of(gates: Iterable[Gate]) -> tuple[Metric, ...]:
    """The metrics that the gates need, each once."""
    return tuple(dict.fromkeys(gate.metric for gate in gates if isinstance(gate, Drift)))


def not_null_columns(gates: Iterable[Gate]) -> tuple[str, ...]:
    """The columns whose NULLs must be counted."""
    counting = (gate for gate in gates if isinstance(gate, NotNull | NullRate))
    return tuple(dict.fromkeys(column for gate in counting for column in gate.columns))


def keys_in_slices(gates: Iterable[Gate], by: str | None, model: str) -> tuple[tuple[str, ...], ...]:
    """The columns that are to be unique, and are if they are so in each slice of this model by this column."""
    unique = (gate for gate in gates if isinstance(gate, Unique) and not looks_beyond(gate, by, model))
    return tuple(dict.fromkeys(gate.columns for gate in unique))


def key_name(columns: Iterable[str]) -> str:
    """How the ledger calls these columns together."""
    return ", ".join(map(quoted, columns))


def listed_values(gates: Iterable[Gate]) -> tuple[Listed, ...]:
    """The values whose absence must be counted."""
    return tuple(dict.fromkeys(each for gate in gates if isinstance(gate, Accepted) for each in gate.listed))


def staged_metrics(gates: Sequence[Gate]) -> tuple[Metric, ...]:
    """The metrics that only the staged slices are asked for."""
    wanted = dict.fromkeys(gate.mart for gate in gates if isinstance(gate, Reconcile))
    return tuple(metric for metric in wanted if metric not in metrics_of(gates))


def tables_of(gate: Gate) -> tuple[str, ...]:
    """The tables that a gate looks at beside the model's own slices."""
    match gate:
        case ForeignKey():
            return (gate.to,)
        case NoRows():
            return tuple(dict.fromkeys(table for _, table in gate.tables))
        case Reconcile():
            return (gate.source,)
        case _:
            return ()


def renamed(gate: Gate, name_of: Callable[[str], str]) -> Gate:
    """The same gate where tables have other names."""
    match gate:
        case ForeignKey():
            return replace(gate, to=name_of(gate.to))
        case NoRows():
            return replace(gate, tables=tuple((text, name_of(table)) for text, table in gate.tables))
        case Reconcile():
            return replace(gate, source=name_of(gate.source))
        case _:
            return gate


def looks_beyond(gate: Gate, by: str | None, model: str) -> bool:
    """Does the verdict of this gate, on slices of this model by this column, rest on other rows of its table? Then what
    others write may change it. Which other tables it rests on, `tables_of` tells.
    """
    match gate:
        case Unique():
            return by is not None and by.lower() not in {each.lower() for each in gate.columns}
        case ForeignKey():
            return gate.to == model
        case _:
            return False


def judge(gate: Gate, evidence: Evidence) -> Verdict:
    """The verdict of one declared gate."""
    match gate:
        case Rows():
            findings, summary = _rows_findings(gate, evidence)
        case Unique():
            duplicates = evidence.duplicates.get(gate.name, {})
            findings = [
                Finding(slice=slice.label, text=f"{count:,} rows with a duplicate or NULL {', '.join(gate.columns)}")
                for slice, count in sorted(duplicates.items())
            ]
            summary = f"{', '.join(gate.columns)}: {sum(duplicates.values()):,} duplicate or NULL"
        case NotNull():
            findings = _per_slice(evidence, lambda measure: _null_text(gate, measure))
            summary = f"{', '.join(gate.columns)}"
        case Drift():
            findings, summary = _drift_findings(gate, evidence)
        case NullRate():
            findings, summary = judge_null_rate(gate, evidence.staged)
        case Accepted():
            findings, summary = judge_accepted(gate, evidence.staged, evidence.looks.examples.get(gate.name, ()))
        case ForeignKey():
            findings, summary = judge_foreign_key(gate, evidence.looks.counted[gate.name])
        case NoRows():
            findings, summary = judge_no_rows(gate, evidence.looks.counted[gate.name])
        case Reconcile():
            findings, summary = judge_reconcile(gate, evidence.staged, evidence.looks.sources[gate.name])
        case GreatExpectations():
            findings, summary = judge_expectations(gate, evidence.looks.unmet[gate.name])
        case Profile():
            found, summary = objections(gate.bounds, gate.columns, evidence.profiled, evidence.published, evidence.open)
            findings = [Finding(slice=slice, text=text) for slice, text in found]
        case _:
            assert_never(gate)
    return Verdict(
        model=evidence.model,
        gate=gate.name,
        kind=gate.kind,
        summary=summary,
        findings=tuple(findings),
        warns=gate.warns,
    )


def _per_slice(evidence: Evidence, text_of: Callable[[SliceMeasure], str]) -> list[Finding]:
    texts = ((slice, text_of(measure)) for slice, measure in sorted(evidence.staged.slices.items()))
    return [Finding(slice=slice.label, text=text) for slice, text in texts if text]


def _null_text(gate: NotNull, measure: SliceMeasure) -> str:
    return ", ".join(f"{measure.nulls[c]:,} NULL in {c}" for c in gate.columns if measure.nulls.get(c))


def _rows_findings(gate: Rows, evidence: Evidence) -> tuple[list[Finding], str]:
    findings: list[Finding] = []
    unjudged = 0
    for slice, measure in sorted(evidence.staged.slices.items()):
        if gate.min is not None and measure.rows < gate.min:
            findings.append(Finding(slice=slice.label, text=f"{measure.rows:,} rows, at least {gate.min:,} expected"))
        if gate.max is not None and measure.rows > gate.max:
            findings.append(Finding(slice=slice.label, text=f"{measure.rows:,} rows, at most {gate.max:,} expected"))
        old = evidence.production.slices.get(slice)
        if gate.change is not None and old is not None and old.rows:
            change = relative_change(Decimal(old.rows), Decimal(measure.rows))
            if change is not None and abs(change) > gate.change:
                findings.append(
                    Finding(
                        slice=slice.label,
                        text=f"{old.rows:,} → {measure.rows:,} rows ({percent(change)}), "
                        f"at most ±{percent(gate.change, signed=False)} expected",
                    )
                )
        if gate.history is None:
            continue
        usual = usual_rows(slice, evidence.published, gate.history)
        unjudged += usual is None
        is_over = slice not in evidence.open
        if usual is not None and (measure.rows > usual.high or (measure.rows < usual.low and is_over)):
            text = f"{measure.rows:,} rows, {usual.low:,} to {usual.high:,} expected: {usual.text}"
            findings.append(Finding(slice=slice.label, text=text))
    summary = f"{evidence.staged.rows:,} rows in {len(evidence.staged.slices):,} slices"
    return findings, summary + (f", {unjudged:,} with too little history to compare" if unjudged else "")


def _drift_findings(gate: Drift, evidence: Evidence) -> tuple[list[Finding], str]:
    expression = gate.metric.expression
    findings: list[Finding] = []
    changes: list[Decimal] = []
    for slice, measure in sorted(evidence.staged.slices.items()):
        old = evidence.production.slices.get(slice)
        change = relative_change(old.metrics.get(expression) if old else None, measure.metrics.get(expression))
        if change is None:
            continue
        changes.append(change)
        if not _within(gate, change):
            findings.append(
                Finding(slice=slice.label, text=f"{expression} {percent(change)}, {_bounds(gate)} expected")
            )
    total = _total_change(gate.metric, evidence)
    if total is not None and not _within(gate, total):
        findings.insert(
            0, Finding(slice=None, text=f"{expression} {percent(total)} in total, {_bounds(gate)} expected")
        )
    new = len(evidence.staged.slices) - len(changes)
    parts = [f"{expression} {percent(total) if total is not None else 'new'}"]
    if changes:
        parts.append(f"per slice {percent(min(changes))} to {percent(max(changes))}")
    if new:
        parts.append(f"{new:,} slices new")
    return findings, ", ".join(parts)


def _total_change(metric: Metric, evidence: Evidence) -> Decimal | None:
    """Old and new over the slices that have both: a slice that is new would pass for growth."""
    name = metric.expression
    old = {s: v for s, measure in evidence.production.slices.items() if (v := measure.metrics.get(name)) is not None}
    if metric.is_additive:
        new = {s: v for s in old if s in evidence.staged.slices and (v := evidence.staged.slices[s].metrics.get(name))}
        return relative_change(sum_of(old.values()), sum_of(new.values())) if old else None
    if set(old) != set(evidence.staged.slices):
        return None
    return relative_change(evidence.production.totals.get(name), evidence.staged.totals.get(name))


def _within(gate: Drift, change: Decimal) -> bool:
    # A change to NaN or infinity has no direction: it is within no bounds, one-sided ones included.
    return change.is_finite() and not (
        (gate.low is not None and change < gate.low) or (gate.high is not None and change > gate.high)
    )


def _bounds(gate: Drift) -> str:
    if gate.low is not None and gate.high is not None:
        if gate.low == -gate.high:
            return f"at most ±{percent(gate.high, signed=False)}"
        return f"{percent(gate.low)} to {percent(gate.high)}"
    return f"at least {percent(gate.low)}" if gate.low is not None else f"at most {percent(gate.high or Decimal(0))}"


def relative_change(old: Decimal | None, new: Decimal | None) -> Decimal | None:
    """New against old, None where there is no old value to compare with."""
    if old is None or old == 0 or not old.is_finite():
        return None
    after = new if new is not None else Decimal(0)
    return (after - old) / abs(old) if after.is_finite() else Decimal("Infinity")


def overridden(verdicts: Sequence[Verdict], override: str) -> list[Verdict]:
    """The failed verdicts that `model:gate` (or `gate` alone) names."""
    return [v for v in verdicts if not v.passed and override in (v.gate, f"{v.model}:{v.gate}")]
