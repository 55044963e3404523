"""What a correction is expected to do: stated in its plan, judged when the run is proven."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field, replace
from decimal import Decimal
from typing import Any

from retcon.core.gates import Drift, Evidence, Finding, Metric, Verdict, judge, percent
from retcon.core.measures import TableMeasures
from retcon.core.slices import Slice
from retcon.values import dataclass

EXPECT = "expect"


@dataclass(frozen=True, kw_only=True)
class Expectation:
    """How far a metric moves among some rows of a model, and which rows stay as they are."""

    model: str
    metric: Metric | None = None
    low: Decimal | None = None
    high: Decimal | None = None
    where: str | None = None
    """The rows that the metric is taken over; None: all of them."""
    unchanged: str | None = None
    """The rows that are the same before and after; None: nothing is said about that."""

    @property
    def needs_rows(self) -> bool:
        """Is it about some of the rows, so that measures of whole slices don't tell?"""
        return self.where is not None or self.unchanged is not None

    @property
    def measure(self) -> str:
        """What is measured, in words."""
        name = self.metric.expression if self.metric is not None else ""
        return name if self.where is None else f"{name} where {self.where}"

    @property
    def text(self) -> str:
        """The expectation in one line."""
        parts = []
        if self.metric is not None:
            parts.append(f"{self.metric.expression} {self._bounds}{f' where {self.where}' if self.where else ''}")
        if self.unchanged is not None:
            parts.append(f"unchanged where {self.unchanged}")
        return "; ".join(parts)

    @property
    def _bounds(self) -> str:
        if self.low is not None and self.high is not None:
            return f"{percent(self.low)} to {percent(self.high)}"
        return (
            f"at least {percent(self.low)}" if self.low is not None else f"at most {percent(self.high or Decimal(0))}"
        )

    @property
    def lets_nothing_move(self) -> bool:
        """Does it hold where nothing changes at all?"""
        is_low = self.low is not None and self.low > 0
        return self.metric is None or not (is_low or (self.high is not None and self.high < 0))


@dataclass(frozen=True, kw_only=True)
class Expected:
    """What was measured for one expectation."""

    staged: TableMeasures = field(default_factory=TableMeasures)
    production: TableMeasures = field(default_factory=TableMeasures)
    """Of the rows that its metric is taken over, by its `measure`."""
    unlike: Mapping[Slice, tuple[int, int]] = field(default_factory=dict)
    """Slices in which the rows that should be unchanged aren't the same: how many there were, and are."""


def named(expectations: Iterable[Expectation], model: str) -> dict[str, Expectation]:
    """Those about one model, by the name under which they are judged: `expect`, `expect-2`."""
    own = [each for each in expectations if each.model == model]
    return {EXPECT if number == 1 else f"{EXPECT}-{number}": each for number, each in enumerate(own, start=1)}


def slice_metrics(expectations: Iterable[Expectation], model: str) -> tuple[Metric, ...]:
    """Metrics over whole slices that expectations of a model need: measured with those of the gates."""
    own = (each for each in expectations if each.model == model and not each.needs_rows)
    return tuple(dict.fromkeys(each.metric for each in own if each.metric is not None))


def judge_expectation(name: str, expectation: Expectation, expected: Expected, whole: Expected) -> Verdict:
    """The verdict; `whole` is of whole slices: where production has no rows, there is nothing to compare."""
    verdict = Verdict(model=expectation.model, gate=name, kind=EXPECT, summary="")
    if _meets_no_row(expectation, expected) and (whole.staged.rows or whole.production.rows):
        verdict = _without_rows(verdict, expectation)
    elif expectation.metric is not None:
        metric = replace(expectation.metric, expression=expectation.measure)
        gate = Drift(name=name, metric=metric, low=expectation.low, high=expectation.high, kind=EXPECT)
        evidence = Evidence(
            model=expectation.model, staged=expected.staged, production=expected.production, duplicates={}
        )
        verdict = judge(gate, evidence)
    if expectation.unchanged is None:
        return verdict
    known = {slice for slice, measure in whole.production.slices.items() if measure.rows}
    moved = [(slice, *counts) for slice, counts in sorted(expected.unlike.items()) if slice in known]
    findings = tuple(Finding(slice=slice.label, text=_moved_text(expectation, *counts)) for slice, *counts in moved)
    told = f"{len(moved):,} {'slice' if len(moved) == 1 else 'slices'} changed" if moved else "unchanged"
    summary = f"{told} where {expectation.unchanged}"
    return replace(
        verdict,
        summary=f"{verdict.summary}; {summary}" if verdict.summary else summary,
        findings=(*verdict.findings, *findings),
    )


def _meets_no_row(expectation: Expectation, expected: Expected) -> bool:
    """Is there none that the metric is taken over, neither staged nor in production?"""
    is_about_some = expectation.metric is not None and expectation.where is not None
    return is_about_some and not (expected.staged.rows or expected.production.rows)


def _without_rows(verdict: Verdict, expectation: Expectation) -> Verdict:
    """Nothing moved, since there is nothing: mostly the condition isn't what was meant."""
    summary = f"no row meets {expectation.where}"
    finding = Finding(slice=None, text=f"{summary}, before or after; expected: {expectation.text}")
    return replace(verdict, summary=summary, findings=() if expectation.lets_nothing_move else (finding,))


def judge_untouched(name: str, expectation: Expectation) -> Verdict:
    """The verdict where no slice was computed: production has all of them as they would come out."""
    findings = []
    if not expectation.lets_nothing_move:
        findings.append(Finding(slice=None, text=f"nothing moved; expected: {expectation.text}"))
    return Verdict(
        model=expectation.model,
        gate=name,
        kind=EXPECT,
        summary="every slice is as production has it",
        findings=tuple(findings),
    )


def judge_uncompared(name: str, expectation: Expectation) -> Verdict:
    """The verdict where the table is built anew, and its slices aren't those of the one that is there."""
    finding = Finding(slice=None, text="can't be told: the table that is there is cut into other slices")
    summary = f"expected: {expectation.text}"
    return Verdict(model=expectation.model, gate=name, kind=EXPECT, summary=summary, findings=(finding,))


def _moved_text(expectation: Expectation, before: int, now: int) -> str:
    if before == now:
        return f"{now:,} rows where {expectation.unchanged} aren't the rows that were there"
    return f"{before:,} → {now:,} rows where {expectation.unchanged}, unchanged expected"


def expectation_document(expectation: Expectation) -> dict[str, Any]:
    """An expectation as plain data: what people write, and whether its total is the sum of its slices."""
    document: dict[str, Any] = {"model": expectation.model}
    if expectation.metric is not None:
        bounds = {"from": expectation.low, "to": expectation.high}
        document["metric"] = expectation.metric.expression
        document["additive"] = expectation.metric.is_additive
        document["change"] = {key: _share_text(value) for key, value in bounds.items() if value is not None}
    rest = {"where": expectation.where, "unchanged": expectation.unchanged}
    return {**document, **{key: value for key, value in rest.items() if value is not None}}


def written(expectations: Iterable[Expectation]) -> list[dict[str, Any]]:
    """Expectations as people write them."""
    documents = (expectation_document(each) for each in expectations)
    return [{key: value for key, value in each.items() if key != "additive"} for each in documents]


def expectation_from(document: Mapping[str, Any]) -> Expectation:
    """The expectation of such a document."""
    change = document.get("change", {})
    has_metric = "metric" in document
    return Expectation(
        model=document["model"],
        metric=Metric(expression=document["metric"], is_additive=document["additive"]) if has_metric else None,
        low=_share_of(change.get("from")),
        high=_share_of(change.get("to")),
        where=document.get("where"),
        unchanged=document.get("unchanged"),
    )


def _share_text(share: Decimal) -> str:
    return f"{(share * 100).normalize():f}%"


def _share_of(text: str | None) -> Decimal | None:
    return None if text is None else Decimal(text.removesuffix("%")) / 100
