"""Shares of NULLs, listed values, keys and queries: each gate names exactly what it objects to."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retcon.core.gates import Evidence, Gate, Looks, Verdict, judge, listed_values, not_null_columns
from retcon.core.measures import Listed, SliceMeasure, TableMeasures, Value, ValueKind
from retcon.core.queries import Query
from retcon.core.slices import Slice
from retcon.core.suites import Expectation, GreatExpectations, Unmet
from retcon.core.table_gates import Counted, ForeignKey, NoRows
from retcon.core.value_gates import Accepted, NullRate
from tests.core.examples import DAY, day

FIRST = day("2026-01-01")
CURRENCIES = Listed(column="currency", values=(Value(kind=ValueKind.TEXT, text="USD"),))
CODES = Listed(column="code", values=(Value(kind=ValueKind.NUMBER, text="1"),))
COUNTS = st.integers(0, 30).flatmap(lambda rows: st.tuples(st.just(rows), st.integers(0, rows)))


def slice_of(number: int) -> Slice:
    return Slice(DAY, FIRST + number)


def verdict_of(gate: Gate, staged: TableMeasures | None = None, looks: Looks | None = None) -> Verdict:
    nothing = TableMeasures()
    return judge(
        gate,
        Evidence(model="mart.m", staged=staged or nothing, production=nothing, duplicates={}, looks=looks or Looks()),
    )


@given(st.lists(COUNTS, max_size=6), st.integers(0, 100))
def test_a_null_rate_names_exactly_the_slices_above_it(counts: list[tuple[int, int]], most: int) -> None:
    staged = TableMeasures(
        slices={
            slice_of(n): SliceMeasure(rows=rows, checksum="x", nulls={"a": nulls})
            for n, (rows, nulls) in enumerate(counts)
        }
    )
    verdict = verdict_of(NullRate(name="null_rate", most=(("a", Decimal(most) / 100),)), staged)
    above = [
        slice_of(n).label
        for n, (rows, nulls) in enumerate(counts)
        if rows and Fraction(nulls, rows) > Fraction(most, 100)
    ]
    assert [finding.slice for finding in verdict.findings] == above


def test_a_null_rate_says_the_share_and_the_bound_and_the_highest_of_each_column() -> None:
    nulls = [{"a": 3, "b": 0}, {"a": 0, "b": 1}]
    staged = TableMeasures(
        slices={slice_of(n): SliceMeasure(rows=40, checksum="x", nulls=each) for n, each in enumerate(nulls)}
    )
    gate = NullRate(name="null_rate", most=(("a", Decimal("0.05")), ("b", Decimal("0.05"))))
    verdict = verdict_of(gate, staged)
    assert [f.text for f in verdict.findings] == ["3 of 40 rows (7.50%) NULL in a, at most 5.00% expected"]
    assert verdict.summary == "a up to 7.50%, b up to 2.50%"


def test_a_slice_without_rows_has_no_nulls_and_no_other_values() -> None:
    staged = TableMeasures(slices={slice_of(0): SliceMeasure(rows=0, checksum="x")})
    assert verdict_of(NullRate(name="n", most=(("a", Decimal(0)),)), staged).passed
    assert verdict_of(Accepted(name="n", listed=(CURRENCIES,)), staged).passed


def test_other_values_are_counted_by_column_and_shown_only_where_they_are_handed_in() -> None:
    staged = TableMeasures(
        slices={
            slice_of(0): SliceMeasure(rows=9, checksum="x", unlisted={CURRENCIES: 2, CODES: 1}),
            slice_of(1): SliceMeasure(rows=9, checksum="x", unlisted={CURRENCIES: 0, CODES: 0}),
            slice_of(2): SliceMeasure(rows=9, checksum="x", unlisted={CURRENCIES: 0, CODES: 1200}),
        }
    )
    gate = Accepted(name="accepted", listed=(CURRENCIES, CODES))
    verdict = verdict_of(gate, staged)
    assert [(f.slice, f.text) for f in verdict.findings] == [
        ("2026-01-01", "2 rows with another currency, 1 rows with another code"),
        ("2026-01-03", "1,200 rows with another code"),
    ]
    assert verdict.summary == "currency, code: 1,203 rows with another value than those listed"
    shown = verdict_of(gate, staged, Looks(examples={"accepted": ("currency=GBP (2 rows)", "code=7 (1 rows)")}))
    assert shown.findings[0].text == "e.g. currency=GBP (2 rows); code=7 (1 rows)"
    assert shown.findings[1:] == verdict.findings


def test_true_and_one_are_listed_apart_and_what_gates_share_is_counted_once() -> None:
    truth = Listed(column="code", values=(Value(kind=ValueKind.TRUTH, text="true"),))
    gates = [Accepted(name="a", listed=(CODES, truth)), Accepted(name="b", listed=(truth, CURRENCIES))]
    assert listed_values(gates) == (CODES, truth, CURRENCIES)
    assert not_null_columns([NullRate(name="n", most=(("x", Decimal(0)),)), *gates]) == ("x",)


@pytest.mark.parametrize(
    ("gate", "text", "summary"),
    [
        (
            ForeignKey(name="g", columns=("a", "b"), to="raw.t", on=("a", "b")),
            "3 rows whose a, b isn't in raw.t",
            "a, b in raw.t: 4 rows without a match (raw.t at snapshot 7)",
        ),
        (
            ForeignKey(name="g", columns=("a",), to="raw.t", on=("id",)),
            "3 rows whose a isn't in raw.t",
            "a in raw.t (id): 4 rows without a match (raw.t at snapshot 7)",
        ),
        (
            NoRows(name="g", query=Query(text="", references=()), tables=()),
            "3 rows found",
            "4 rows found (raw.t at snapshot 7)",
        ),
    ],
)
def test_rows_of_no_planned_slice_come_first_and_the_snapshot_is_told(gate: Gate, text: str, summary: str) -> None:
    found = Counted(rows={slice_of(1): 1, None: 3}, seen=("raw.t at snapshot 7",), examples=("a=1 (4 rows)",))
    verdict = verdict_of(gate, looks=Looks(counted={"g": found}))
    assert [f.slice for f in verdict.findings] == [None, None, "2026-01-02"]
    assert verdict.findings[0].text == "e.g. a=1 (4 rows)"
    assert verdict.findings[1].text == text
    assert verdict.summary == summary
    nothing = verdict_of(gate, looks=Looks(counted={"g": Counted(examples=("a=1",))}))
    assert nothing.passed
    assert nothing.findings == ()


def test_expectations_that_arent_met_are_told_with_counts_and_as_much_as_may_be_shown() -> None:
    suite = tuple(Expectation(type=f"expect_{n}", arguments={}) for n in range(4))
    gate = GreatExpectations(name="g", suite="orders.json", expectations=suite)
    unmet = (
        Unmet(type="expect_row_count", observed="50"),
        Unmet(type="expect_in_set", columns=("k",), unexpected=1200, rows=5000, examples=("GBP", "CHF")),
        Unmet(type="expect_column_to_exist", columns=("zz",)),
    )
    verdict = verdict_of(gate, looks=Looks(unmet={"g": unmet}))
    assert [f.text for f in verdict.findings] == [
        "expect_column_to_exist of zz",
        "expect_in_set of k: 1,200 of 5,000 rows unexpected, e.g. GBP, CHF",
        "expect_row_count: observed 50",
    ]
    assert verdict.summary == "orders.json: 1 of 4 met"
    assert verdict_of(gate, looks=Looks(unmet={"g": ()})).passed
