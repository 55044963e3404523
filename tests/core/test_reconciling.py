"""A source against what was made of it: near enough, too far apart, or missing on one side."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retcon.core.gates import Drift, Evidence, Looks, Metric, Verdict, judge, metrics_of, staged_metrics
from retcon.core.measures import SliceMeasure, TableMeasures
from retcon.core.reconciling import Reconcile, SourceMeasure, SourceMeasures, Tolerance
from retcon.core.slices import Slice
from tests.core.examples import DAY, day

SUM = Metric(expression="sum(net)", is_additive=True)
AVERAGE = Metric(expression="avg(net)", is_additive=False)
GATE = Reconcile(
    name="reconcile", source="raw.o", by="d", metric=SUM, mart=SUM, tolerance=Tolerance(share=Decimal("0.01"))
)
VALUES = st.none() | st.integers(-2000, 2000).map(Decimal) | st.just(Decimal("NaN"))
Pair = tuple[tuple[int, Decimal | None], tuple[int, Decimal | None]]


def slice_of(number: int) -> Slice:
    return Slice(DAY, day("2026-01-01") + number)


def verdict_of(gate: Reconcile, *pairs: Pair) -> Verdict:
    """Of slices from 1 January: rows and value of the source, rows and value of the model."""
    staged = {
        slice_of(n): SliceMeasure(rows=rows, checksum="x", staged_only={gate.mart.expression: value})
        for n, (_, (rows, value)) in enumerate(pairs)
    }
    source = {slice_of(n): SourceMeasure(rows=rows, value=value) for n, ((rows, value), _) in enumerate(pairs) if rows}
    looks = Looks(sources={gate.name: SourceMeasures(slices=source)})
    nothing = TableMeasures()
    evidence = Evidence(
        model="mart.m", staged=TableMeasures(slices=staged), production=nothing, duplicates={}, looks=looks
    )
    return judge(gate, evidence)


def test_both_values_the_difference_and_the_bound_are_told() -> None:
    verdict = verdict_of(
        GATE,
        ((9, Decimal("1000.00")), (1, Decimal("990.00"))),
        ((9, Decimal("1000.00")), (1, Decimal("1011.50"))),
        ((9, Decimal(5)), (0, None)),
        ((0, None), (3, Decimal(7))),
        ((0, None), (0, None)),
        ((2, None), (1, None)),
        ((2, None), (1, Decimal(1))),
    )
    assert [(f.slice, f.text) for f in verdict.findings] == [
        (
            "2026-01-02",
            "raw.o has sum(net) 1,000.00, sum(net) is 1,011.50: difference 11.50 (+1.15%), at most ±1.00% expected",
        ),
        ("2026-01-03", "missing here: raw.o has sum(net) 5, in 9 rows"),
        ("2026-01-04", "missing in raw.o: sum(net) is 7, in 3 rows"),
        ("2026-01-07", "raw.o has sum(net) NULL, sum(net) is 1"),
    ]
    assert verdict.summary == "sum(net) of raw.o 2,005.00, sum(net) 2,009.50: difference 4.50 (+0.22%)"


@given(VALUES, VALUES, st.integers(0, 20), st.none() | st.integers(0, 50))
def test_what_is_let_pass_is_what_lies_within_the_tolerance(
    source: Decimal | None, mart: Decimal | None, share: int, absolute: int | None
) -> None:
    tolerance = Tolerance(share=Decimal(share) / 100, absolute=None if absolute is None else Decimal(absolute))
    verdict = verdict_of(replace(GATE, tolerance=tolerance), ((1, source), (1, mart)))
    if source is None or mart is None:
        expected = source is mart
    elif source.is_nan() or mart.is_nan():
        expected = False
    else:
        apart = abs(int(mart) - int(source))
        expected = apart * 100 <= share * abs(int(source)) if absolute is None else apart <= absolute
    assert verdict.passed == expected


@pytest.mark.parametrize(
    ("gate", "pairs", "summary"),
    [
        (GATE, 1, "sum(net) of raw.o 2, sum(net) 2: no difference"),
        (replace(GATE, metric=AVERAGE), 2, "avg(net) of raw.o against sum(net) in 2 slices"),
        (replace(GATE, metric=AVERAGE), 1, "avg(net) of raw.o 2, sum(net) 2: no difference"),
    ],
)
def test_a_total_is_told_where_there_is_one(gate: Reconcile, pairs: int, summary: str) -> None:
    assert verdict_of(gate, *[((1, Decimal(2)), (1, Decimal(2)))] * pairs).summary == summary


def test_totals_are_told_to_the_last_digit_and_where_there_is_none() -> None:
    large, endless = Decimal(10**35), Decimal("Infinity")
    pairs = [((1, large), (1, large)), ((1, Decimal("0.01")), (1, Decimal("0.02")))]
    assert verdict_of(replace(GATE, tolerance=Tolerance(absolute=Decimal(1))), *pairs).summary == (
        f"sum(net) of raw.o {10**35:,}.01, sum(net) {10**35:,}.02: difference 0.01 (+0.00%)"
    )
    verdict = verdict_of(GATE, ((1, endless), (1, endless)), ((1, -endless), (1, -endless)))
    assert verdict.summary == "sum(net) of raw.o NaN, sum(net) NaN: no number to compare"
    assert len(verdict.findings) == 2


def test_a_metric_of_the_mart_alone_is_no_metric_of_production() -> None:
    drift = Drift(name="drift", metric=SUM, low=None, high=Decimal(1))
    other = replace(GATE, name="other", mart=AVERAGE)
    assert metrics_of([GATE, other]) == ()
    assert staged_metrics([GATE, other, GATE]) == (SUM, AVERAGE)
    assert staged_metrics([drift, GATE, other]) == (AVERAGE,)
    measured = SliceMeasure(rows=1, checksum="x", metrics={SUM.expression: Decimal(3)})
    assert measured.value_of(SUM.expression) == Decimal(3)
