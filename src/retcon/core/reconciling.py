"""Reconciling: a number of the source against the same number of what was made of it, slice by slice."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from decimal import Decimal

from retcon.core.findings import Finding, percent
from retcon.core.measures import Metric, TableMeasures
from retcon.core.slices import Slice
from retcon.core.sums import difference, sum_of
from retcon.values import dataclass


@dataclass(frozen=True, kw_only=True)
class Tolerance:
    """How far two numbers may be apart: a share of the source's, or a number."""

    share: Decimal = Decimal(0)
    absolute: Decimal | None = None

    def holds(self, source: Decimal, mart: Decimal) -> bool:
        """Are these near enough? What isn't a finite number is near nothing."""
        if not (source.is_finite() and mart.is_finite()):
            return False
        return abs(mart - source) <= (self.share * abs(source) if self.absolute is None else self.absolute)

    @property
    def text(self) -> str:
        if self.absolute is not None:
            return f"at most ±{number(self.absolute)} expected"
        return f"at most ±{percent(self.share, signed=False)} expected" if self.share else "the same expected"


@dataclass(frozen=True, kw_only=True)
class Reconcile:
    """A metric of a source, cut as the model is, agrees with one of the model."""

    name: str
    source: str
    by: str | None
    """The source's column that says in which slice a row counts; None: the model isn't cut."""
    metric: Metric
    mart: Metric
    tolerance: Tolerance = field(default_factory=Tolerance)
    where: str | None = None
    """Which rows of the source count."""
    warns: bool = False
    kind: str = "reconcile"


@dataclass(frozen=True, kw_only=True)
class SourceMeasure:
    """What a slice of the source comes to."""

    rows: int
    value: Decimal | None


@dataclass(frozen=True, kw_only=True)
class SourceMeasures:
    """What the planned slices of a source come to; those without rows aren't there."""

    slices: Mapping[Slice, SourceMeasure] = field(default_factory=dict)
    seen: tuple[str, ...] = ()
    """The source at a snapshot, where nothing else records it."""


def judge_reconcile(gate: Reconcile, staged: TableMeasures, source: SourceMeasures) -> tuple[list[Finding], str]:
    """Slices in which both don't agree, or which only one of them has; in total, how far they are apart."""
    findings: list[Finding] = []
    values: list[tuple[Decimal, Decimal]] = []
    for slice, measure in sorted(staged.slices.items()):
        there = source.slices.get(slice, SourceMeasure(rows=0, value=None))
        here = SourceMeasure(rows=measure.rows, value=measure.value_of(gate.mart.expression))
        values.append((there.value or Decimal(0), here.value or Decimal(0)))
        text = _text(gate, there, here)
        if text:
            findings.append(Finding(slice=slice.label, text=text))
    sums = sum_of(there for there, _ in values), sum_of(here for _, here in values)
    has_totals = len(staged.slices) == 1 or (gate.metric.is_additive and gate.mart.is_additive)
    pair = f"{gate.metric.expression} of {gate.source}"
    seen = f" ({', '.join(source.seen)})" if source.seen else ""
    if has_totals:
        return findings, f"{pair} {number(sums[0])}, {gate.mart.expression} {number(sums[1])}: {_apart(*sums)}{seen}"
    # An average over slices isn't the average of theirs.
    return findings, f"{pair} against {gate.mart.expression} in {len(staged.slices):,} slices{seen}"


def _text(gate: Reconcile, source: SourceMeasure, mart: SourceMeasure) -> str:
    """What is wrong with a slice; empty where nothing is."""
    of_source = f"{gate.source} has {gate.metric.expression} {number(source.value)}"
    of_mart = f"{gate.mart.expression} is {number(mart.value)}"
    if not source.rows and not mart.rows:
        return ""
    if not mart.rows:
        return f"missing here: {of_source}, in {source.rows:,} rows"
    if not source.rows:
        return f"missing in {gate.source}: {of_mart}, in {mart.rows:,} rows"
    if source.value is None or mart.value is None:
        return "" if source.value is mart.value else f"{of_source}, {of_mart}"
    if gate.tolerance.holds(source.value, mart.value):
        return ""
    return f"{of_source}, {of_mart}: {_apart(source.value, mart.value)}, {gate.tolerance.text}"


def _apart(source: Decimal, mart: Decimal) -> str:
    if not (source.is_finite() and mart.is_finite()):
        return "no number to compare"
    apart = difference(mart, source)
    share = f" ({percent(apart / abs(source))})" if source else ""
    return f"difference {number(apart)}{share}" if apart else "no difference"


def number(value: Decimal | None) -> str:
    """A number as people read it, exactly."""
    if value is None:
        return "NULL"
    return f"{value:,f}" if value.is_finite() else str(value)
