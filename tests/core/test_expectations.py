"""What a plan expects of its correction, held against what came out."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from decimal import Decimal

import pytest

from retcon.core.expectations import (
    Expectation,
    Expected,
    expectation_document,
    expectation_from,
    judge_expectation,
    judge_uncompared,
    judge_untouched,
    named,
    slice_metrics,
)
from retcon.core.gates import Metric
from retcon.core.measures import SliceMeasure, TableMeasures
from retcon.core.slices import Grain, Slice

MART = "mart.revenue"
SUM = Metric(expression="sum(usd)", is_additive=True)
EXPECTED = Expectation(
    model=MART,
    metric=SUM,
    low=Decimal("-0.03"),
    high=Decimal("0.01"),
    where="currency <> 'USD'",
    unchanged="currency = 'USD'",
)


def day(number: int) -> Slice:
    return Slice(Grain.DAY, Grain.DAY.ordinal(date(2026, 1, number)))


def measures(expectation: Expectation = EXPECTED, **values: str | None) -> TableMeasures:
    return TableMeasures(
        slices={
            day(int(label.removeprefix("d"))): SliceMeasure(
                rows=5, checksum="", metrics={expectation.measure: None if value is None else Decimal(value)}
            )
            for label, value in values.items()
        }
    )


def test_a_change_within_its_bounds_holds_per_slice_and_in_total() -> None:
    old = measures(d1="100", d2="200")
    verdict = judge_expectation(
        "expect", EXPECTED, Expected(staged=measures(d1="99", d2="201"), production=old), Expected(production=old)
    )
    assert verdict.passed
    assert (verdict.kind, verdict.gate, verdict.model) == ("expect", "expect", MART)
    assert verdict.may_be_overridden
    assert verdict.summary == (
        "sum(usd) where currency <> 'USD' +0.00%, per slice -1.00% to +0.50%; unchanged where currency = 'USD'"
    )


def test_a_slice_beyond_them_and_rows_that_should_have_stayed_are_both_told() -> None:
    old = measures(d1="100", d2="200")
    expected = Expected(
        staged=measures(d1="95", d2="206", d3="7"), production=old, unlike={day(1): (5, 5), day(2): (5, 6)}
    )
    verdict = judge_expectation("expect-2", EXPECTED, expected, Expected(production=old))
    assert not verdict.passed
    assert [(finding.slice, finding.text) for finding in verdict.findings] == [
        ("2026-01-01", "sum(usd) where currency <> 'USD' -5.00%, -3.00% to +1.00% expected"),
        ("2026-01-02", "sum(usd) where currency <> 'USD' +3.00%, -3.00% to +1.00% expected"),
        ("2026-01-01", "5 rows where currency = 'USD' aren't the rows that were there"),
        ("2026-01-02", "5 → 6 rows where currency = 'USD', unchanged expected"),
    ]
    assert "1 slices new" in verdict.summary
    assert "2 slices changed where currency = 'USD'" in verdict.summary


def test_the_total_is_judged_by_itself() -> None:
    expectation = replace(EXPECTED, low=Decimal("0.01"), high=None, unchanged=None)
    old = measures(expectation, d1="100", d2="100")
    staged = measures(expectation, d1="102", d2="100.5")
    verdict = judge_expectation(
        "expect", expectation, Expected(staged=staged, production=old), Expected(production=old)
    )
    # +1.25% in total is enough, +0.5% on one day isn't.
    assert [finding.slice for finding in verdict.findings] == ["2026-01-02"]
    assert "at least +1.00% expected" in verdict.findings[0].text


def test_a_slice_that_production_doesnt_have_cant_be_unchanged() -> None:
    expectation = replace(EXPECTED, metric=None, where=None, low=None, high=None)
    production = TableMeasures(slices={day(1): SliceMeasure(rows=5, checksum="")})
    expected = Expected(unlike={day(2): (0, 5)})
    assert judge_expectation("expect", expectation, expected, Expected(production=production)).passed
    # But one that it has, without such rows, is another thing.
    known = TableMeasures(slices={day(2): SliceMeasure(rows=1, checksum="")})
    assert not judge_expectation("expect", expectation, expected, Expected(production=known)).passed


@pytest.mark.parametrize("side", ["staged", "production"])
def test_where_no_row_meets_the_condition_it_holds_only_if_nothing_had_to_move(side: str) -> None:
    whole = Expected(**{side: TableMeasures(slices={day(1): SliceMeasure(rows=5, checksum="")})})
    lax = judge_expectation("expect", EXPECTED, Expected(), whole)
    assert (lax.passed, lax.summary) == (
        True, "no row meets currency <> 'USD'; unchanged where currency = 'USD'",
    )  # fmt: skip
    strict = replace(EXPECTED, low=Decimal("0.001"), unchanged=None)
    verdict = judge_expectation("expect", strict, Expected(), whole)
    assert [(finding.slice, finding.text) for finding in verdict.findings] == [
        (None, "no row meets currency <> 'USD', before or after; expected: "
               "sum(usd) +0.10% to +1.00% where currency <> 'USD'"),
    ]  # fmt: skip
    assert not judge_expectation("expect", replace(strict, low=None, high=Decimal("-0.1")), Expected(), whole).passed
    assert judge_expectation("expect", strict, Expected(), Expected()).passed, "there are no rows at all"
    rows = Expected(**{side: measures(strict, d1=None)})
    assert judge_expectation("expect", strict, rows, whole).passed, "rows without an old value are new"


def test_where_nothing_was_computed_it_holds_only_if_nothing_had_to_move() -> None:
    assert judge_untouched("expect", EXPECTED).passed
    assert not judge_untouched("expect", replace(EXPECTED, low=Decimal("0.001"))).passed
    assert not judge_untouched("expect", replace(EXPECTED, high=Decimal("-0.001"))).passed
    assert judge_untouched("expect", replace(EXPECTED, metric=None, low=None, high=None, where=None)).passed


def test_what_cant_be_compared_isnt_taken_for_held() -> None:
    assert not judge_uncompared("expect", EXPECTED).passed


def test_expectations_are_named_by_model_in_their_order() -> None:
    other = replace(EXPECTED, model="mart.other")
    assert named((EXPECTED, other, EXPECTED), MART) == {"expect": EXPECTED, "expect-2": EXPECTED}
    assert named((EXPECTED, other), "mart.other") == {"expect": other}


def test_only_metrics_over_whole_slices_are_measured_with_those_of_the_gates() -> None:
    whole = replace(EXPECTED, where=None, unchanged=None)
    assert slice_metrics((EXPECTED, whole, whole), MART) == (SUM,)
    assert slice_metrics((whole,), "mart.other") == ()


@pytest.mark.parametrize(
    "expectation",
    [
        EXPECTED,
        replace(EXPECTED, low=None, high=Decimal("0.0005"), unchanged=None),
        replace(EXPECTED, metric=Metric(expression="avg(x)", is_additive=False), where=None),
        Expectation(model=MART, unchanged="a IS NULL"),
    ],
)
def test_an_expectation_survives_its_document(expectation: Expectation) -> None:
    assert expectation_from(expectation_document(expectation)) == expectation


def test_it_reads_as_a_sentence() -> None:
    assert EXPECTED.text == "sum(usd) -3.00% to +1.00% where currency <> 'USD'; unchanged where currency = 'USD'"
    assert replace(EXPECTED, low=None, where=None, unchanged=None).text == "sum(usd) at most +1.00%"
