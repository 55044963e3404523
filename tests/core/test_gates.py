"""Each gate both ways: it passes what it should and names what it shouldn't."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retcon.core.gates import (
    EMPTY,
    OUTSIDE_SCOPE,
    PARITY,
    SCHEMA,
    Drift,
    Evidence,
    Finding,
    Gate,
    Metric,
    NotNull,
    Rows,
    Unique,
    Verdict,
    judge,
    metrics_of,
    not_null_columns,
    overridden,
    percent,
    relative_change,
)
from retcon.core.measures import SliceMeasure, TableMeasures
from retcon.core.slices import Slice
from tests.core.examples import DAY, day

REVENUE = Metric(expression="sum(revenue)", is_additive=True)
FIRST = day("2026-01-01")
VALUES = (
    st.none() | st.decimals(min_value=-1000, max_value=1000, places=2) | st.sampled_from([Decimal(0), Decimal("NaN")])
)


def slice_of(number: int) -> Slice:
    return Slice(DAY, FIRST + number)


def label(number: int) -> str:
    return slice_of(number).label


def rows(*counts: int | None) -> TableMeasures:
    """Slices from 1 January with so many rows each; None where there is no slice."""
    return TableMeasures(
        slices={slice_of(n): SliceMeasure(rows=c, checksum=str(c)) for n, c in enumerate(counts) if c is not None}
    )


def metric(*values: Decimal | None, total: Decimal | None = None) -> TableMeasures:
    return TableMeasures(
        slices={
            slice_of(n): SliceMeasure(rows=1, checksum="x", metrics={REVENUE.expression: value})
            for n, value in enumerate(values)
        },
        totals={REVENUE.expression: total},
    )


def verdict_of(
    gate: Gate,
    staged: TableMeasures,
    production: TableMeasures | None = None,
    duplicates: Mapping[str, Mapping[Slice, int]] | None = None,
) -> Verdict:
    evidence = Evidence(
        model="mart.m", staged=staged, production=production or TableMeasures(), duplicates=duplicates or {}
    )
    verdict = judge(gate, evidence)
    assert (verdict.model, verdict.gate, verdict.kind) == ("mart.m", gate.name, gate.kind)
    assert verdict.passed == (not verdict.findings)
    return verdict


def places(verdict: Verdict) -> list[str | None]:
    return [finding.slice for finding in verdict.findings]


# ── rows ──────────────────────────────────────────────────────────────────────────────────────────────────────────

COUNTS = st.lists(st.integers(0, 30), max_size=6)


@given(COUNTS, st.none() | st.integers(0, 30), st.none() | st.integers(0, 30))
def test_rows_names_exactly_the_slices_out_of_bounds(counts: list[int], least: int | None, most: int | None) -> None:
    verdict = verdict_of(Rows(name="rows", min=least, max=most), rows(*counts))
    few = [label(n) for n, count in enumerate(counts) if least is not None and count < least]
    many = [label(n) for n, count in enumerate(counts) if most is not None and count > most]
    assert sorted(map(str, places(verdict))) == sorted(few + many)
    assert verdict.summary == f"{sum(counts)} rows in {len(counts)} slices"


@given(st.lists(st.tuples(st.none() | st.integers(0, 30), st.integers(0, 30)), max_size=6), st.integers(0, 150))
def test_rows_compares_with_what_production_holds_and_takes_none_for_new(
    pairs: list[tuple[int | None, int]], within: int
) -> None:
    gate = Rows(name="rows", change=Decimal(within) / 100)
    verdict = verdict_of(gate, rows(*(new for _, new in pairs)), rows(*(old for old, _ in pairs)))
    moved = [
        label(n) for n, (old, new) in enumerate(pairs) if old and abs(Fraction(new - old, old)) > Fraction(within, 100)
    ]
    assert places(verdict) == moved


def test_a_rows_finding_says_both_counts_the_change_and_the_bound() -> None:
    verdict = verdict_of(Rows(name="rows", min=5, change=Decimal("0.1")), rows(1200, 4), rows(1000, 4))
    assert [f.text for f in verdict.findings] == [
        "1,000 → 1,200 rows (+20.0%), at most ±10.0% expected",
        "4 rows, at least 5 expected",
    ]


# ── unique and not_null ───────────────────────────────────────────────────────────────────────────────────────────


def test_unique_passes_without_duplicates_and_names_each_slice_with_some() -> None:
    gate = Unique(name="unique-2", columns=("d", "currency"))
    assert verdict_of(gate, rows(5, 5), duplicates={"unique": {slice_of(0): 9}}).passed
    verdict = verdict_of(gate, rows(5, 5), duplicates={"unique-2": {slice_of(1): 1200, slice_of(0): 2}})
    assert verdict.findings == (
        Finding(slice="2026-01-01", text="2 rows with a duplicate or NULL d, currency"),
        Finding(slice="2026-01-02", text="1,200 rows with a duplicate or NULL d, currency"),
    )
    assert verdict.summary == "d, currency: 1,202 duplicate or NULL"


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(0, 3)), max_size=5))
def test_not_null_names_the_slices_with_nulls_in_its_columns_only(nulls: list[tuple[int, int, int]]) -> None:
    staged = TableMeasures(
        slices={
            slice_of(n): SliceMeasure(rows=9, checksum="x", nulls={"a": a, "b": b, "elsewhere": other})
            for n, (a, b, other) in enumerate(nulls)
        }
    )
    verdict = verdict_of(NotNull(name="not_null", columns=("a", "b")), staged)
    assert places(verdict) == [label(n) for n, (a, b, _) in enumerate(nulls) if a or b]
    for finding, (a, b, _) in zip(verdict.findings, (found for found in nulls if found[0] or found[1]), strict=True):
        assert finding.text == ", ".join(f"{count} NULL in {name}" for name, count in (("a", a), ("b", b)) if count)


# ── drift ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def drift(low: str | None, high: str | None) -> Drift:
    return Drift(
        name="drift",
        metric=REVENUE,
        low=None if low is None else Decimal(low),
        high=None if high is None else Decimal(high),
    )


def strays(old: Decimal | None, new: Decimal | None, gate: Drift) -> bool:
    """By exact fractions."""
    if old is None or old.is_nan() or old == 0:
        return False
    if new is not None and new.is_nan():
        return True
    change = (Fraction(new or 0) - Fraction(old)) / abs(Fraction(old))
    return (gate.low is not None and change < Fraction(gate.low)) or (
        gate.high is not None and change > Fraction(gate.high)
    )


@given(
    st.lists(st.tuples(VALUES, VALUES), max_size=6),
    st.sampled_from([("-0.2", "0.2"), (None, "0.5"), ("-0.5", None), ("0", "0"), ("-1", "3"), ("0.1", "0.2")]),
)
def test_drift_names_exactly_the_slices_and_the_total_that_moved_too_far(
    pairs: list[tuple[Decimal | None, Decimal | None]], bounds: tuple[str | None, str | None]
) -> None:
    gate = drift(*bounds)
    verdict = verdict_of(gate, metric(*(new for _, new in pairs)), metric(*(old for old, _ in pairs)))
    both = [(old, new or Decimal(0)) for old, new in pairs if old is not None]
    total = (sum((old for old, _ in both), Decimal(0)), sum((new for _, new in both), Decimal(0)))
    expected: list[str | None] = [None] if strays(*total, gate) else []
    expected += [label(n) for n, (old, new) in enumerate(pairs) if strays(old, new, gate)]
    assert places(verdict) == expected


AVERAGE = Metric(expression="avg(revenue)", is_additive=False)


@pytest.mark.parametrize(("known", "fails"), [(2, True), (1, False)])
def test_the_total_of_an_average_is_judged_only_where_every_slice_has_an_old_value(known: int, fails: bool) -> None:
    def averages(count: int, total: str) -> TableMeasures:
        one = SliceMeasure(rows=1, checksum="x", metrics={AVERAGE.expression: Decimal(1)})
        return TableMeasures(
            slices={slice_of(n): one for n in range(count)}, totals={AVERAGE.expression: Decimal(total)}
        )

    gate = Drift(name="drift", metric=AVERAGE, low=Decimal("-0.1"), high=Decimal("0.1"))
    assert verdict_of(gate, averages(2, "2"), averages(known, "1")).passed is not fails


@pytest.mark.parametrize("old", [None, Decimal(0), Decimal("0.00"), Decimal("NaN"), Decimal("Infinity")])
def test_a_slice_without_an_old_value_to_compare_with_is_new_and_passes(old: Decimal | None) -> None:
    verdict = verdict_of(drift("-0.01", "0.01"), metric(Decimal(5), total=Decimal(5)), metric(old, total=old))
    assert verdict.passed
    assert verdict.summary == "sum(revenue) new, 1 slices new"


def test_a_slice_that_production_does_not_have_is_new() -> None:
    staged = metric(Decimal(110), Decimal(7), total=Decimal(117))
    verdict = verdict_of(drift("-0.2", "0.2"), staged, metric(Decimal(100), total=Decimal(100)))
    assert verdict.passed
    assert verdict.summary == "sum(revenue) +10.0%, per slice +10.0% to +10.0%, 1 slices new"


def test_the_total_may_fail_where_no_slice_does_and_comes_first() -> None:
    staged, production = metric(Decimal(110), Decimal(-90)), metric(Decimal(100), Decimal(-90))
    assert verdict_of(drift("-0.2", "0.2"), staged, production).findings == (
        Finding(slice=None, text="sum(revenue) +100.0% in total, at most ±20.0% expected"),
    )


@pytest.mark.parametrize("new", [Decimal("NaN"), Decimal("Infinity"), Decimal("-Infinity")])
@pytest.mark.parametrize("bounds", [("-0.2", "0.2"), ("-0.2", None), (None, "0.2")])
def test_a_value_that_is_no_number_any_more_is_within_no_bounds(
    new: Decimal, bounds: tuple[str | None, str | None]
) -> None:
    verdict = verdict_of(drift(*bounds), metric(new), metric(Decimal(1)))
    assert places(verdict) == [None, label(0)]


def test_slices_that_are_endless_both_ways_have_no_sum_that_is_within_bounds() -> None:
    endless = (Decimal("Infinity"), Decimal("-Infinity"))
    verdict = verdict_of(drift("-0.2", "0.2"), metric(*endless), metric(Decimal(1), Decimal(1)))
    assert places(verdict) == [None, label(0), label(1)]
    assert (
        verdict_of(drift("-0.2", "0.2"), metric(*endless), metric(*endless)).summary == "sum(revenue) new, 2 slices new"
    )


@pytest.mark.parametrize(
    ("bounds", "said"),
    [(("-0.2", "0.2"), "at most ±20.0% expected"), (("-0.05", "0.5"), "-5.00% to +50.0% expected"),
     (("0.6", None), "at least +60.0% expected"), ((None, "0.3"), "at most +30.0% expected"),
     ((None, "0"), "at most +0.00% expected")],
)  # fmt: skip
def test_a_drift_finding_says_what_was_expected(bounds: tuple[str | None, str | None], said: str) -> None:
    staged, production = metric(Decimal("-0.9"), Decimal(2)), metric(Decimal(-1), Decimal("1.1"))
    texts = [finding.text for finding in verdict_of(drift(*bounds), staged, production).findings]
    assert texts
    assert all(text.endswith(said) for text in texts)


def test_change_goes_by_the_size_of_the_old_value_so_that_a_loss_that_shrinks_is_a_rise() -> None:
    assert relative_change(Decimal(-100), Decimal(-50)) == Decimal("0.5")
    assert relative_change(Decimal(100), None) == Decimal(-1)
    assert relative_change(None, Decimal(1)) is None


# ── texts, names, overrides ───────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("value", "text"),
    [("0.0123", "+1.23%"), ("-0.5", "-50.0%"), ("0", "+0.00%"), ("0.09999", "+10.00%"), ("0.1", "+10.0%"),
     ("12.3456", "+1234.6%"), ("Infinity", "+Infinity%"), ("-0.00001", "-0.00%")],
)  # fmt: skip
def test_percent_shows_the_digits_that_matter(value: str, text: str) -> None:
    assert percent(Decimal(value)) == text
    assert percent(Decimal(value).copy_abs(), signed=False) == text.lstrip("+-")


def test_what_several_gates_need_is_measured_once() -> None:
    other = Metric(expression="count(*)", is_additive=True)
    gates: list[Gate] = [
        drift("0", "1"),
        Drift(name="drift-2", metric=other, low=None, high=Decimal(1)),
        Drift(name="drift-3", metric=REVENUE, low=Decimal(0), high=None),
        NotNull(name="not_null", columns=("b", "a")),
        NotNull(name="not_null-2", columns=("a", "c")),
        Unique(name="unique", columns=("k",)),
        Rows(name="rows", min=1),
    ]
    assert metrics_of(gates) == (REVENUE, other)
    assert not_null_columns(gates) == ("b", "a", "c")


def a_verdict(model: str, gate: str, *, failed: bool = True, kind: str = "drift") -> Verdict:
    findings = (Finding(slice=None, text="too far"),) if failed else ()
    return Verdict(model=model, gate=gate, kind=kind, summary="", findings=findings)


def test_an_override_means_the_failed_gates_of_that_name_in_that_model_or_in_all() -> None:
    a, b = a_verdict("mart.a", "drift"), a_verdict("mart.b", "drift")
    verdicts = [a, b, a_verdict("mart.a", "drift-2"), a_verdict("mart.a", "rows", failed=False)]
    assert overridden(verdicts, "drift") == [a, b]
    assert overridden(verdicts, "mart.b:drift") == [b]
    for nothing in ("rows", "mart.c:drift", "mart.a", ":drift", "", "mart.a:"):
        assert overridden(verdicts, nothing) == []


@pytest.mark.parametrize(
    ("kind", "can"), [(SCHEMA, False), (OUTSIDE_SCOPE, False), (EMPTY, False), (PARITY, True), ("drift", True)]
)
def test_what_would_corrupt_a_table_can_not_be_overridden(kind: str, can: bool) -> None:
    assert a_verdict("mart.a", kind, kind=kind).may_be_overridden is can
