"""Profiles: how far columns moved against production, and against earlier slices."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import date
from decimal import Decimal
from fractions import Fraction
from math import log

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retcon.core.gates import Evidence, Profile, judge
from retcon.core.measures import TableMeasures
from retcon.core.profiles import (
    Bins,
    ColumnProfile,
    ProfileBounds,
    Profiled,
    ProfileEntry,
    Side,
    SliceProfiles,
    as_production,
    entries_of,
    entry_document,
    entry_from,
    scope_of,
    stability,
)
from retcon.core.row_histories import RowHistory
from retcon.core.slices import Grain, Slice

counts = st.lists(st.integers(0, 1000), min_size=1, max_size=22).filter(sum)


@given(counts=counts, times=st.integers(1, 50))
def test_the_same_shares_are_stable(counts: list[int], times: int) -> None:
    index = stability(counts, [count * times for count in counts])
    assert index == pytest.approx(0, abs=1e-12)
    assert stability(counts, counts) == 0


@given(pairs=st.lists(st.tuples(st.integers(0, 1000), st.integers(0, 1000)), min_size=1, max_size=22))
def test_the_index_is_never_below_zero_and_the_same_both_ways(pairs: list[tuple[int, int]]) -> None:
    before, after = [old for old, _ in pairs], [new for _, new in pairs]
    index = stability(before, after)
    if not sum(before) or not sum(after):
        assert index is None
        return
    assert index is not None
    assert index >= 0
    assert index == pytest.approx(stability(after, before))


@given(pairs=st.lists(st.tuples(st.integers(1, 50), st.integers(1, 50)), min_size=2, max_size=12))
def test_the_index_is_what_the_textbook_says_where_no_bin_is_nearly_empty(pairs: list[tuple[int, int]]) -> None:
    before, after = [old for old, _ in pairs], [new for _, new in pairs]
    exact = sum(
        float(Fraction(new, sum(after)) - Fraction(old, sum(before)))
        * log(Fraction(new, sum(after)) / Fraction(old, sum(before)))
        for old, new in pairs
    )
    assert stability(before, after) == pytest.approx(exact, abs=1e-9)


def test_bins_that_arent_the_same_arent_compared() -> None:
    assert stability([1, 2], [1, 2, 3]) is None


MART = "mart.orders"
OLD = ColumnProfile(column="amount", type="int", rows=100, nulls=0, bins=Bins(edges=("1", "2"), counts=(50, 30, 20, 0)))
NEW = replace(OLD, nulls=10, against=(10, 20, 60, 10))


def day(number: int, month: int = 2) -> Slice:
    return Slice(Grain.DAY, Grain.DAY.ordinal(date(2026, month, number)))


def verdict_of(
    bounds: ProfileBounds, profiled: Profiled, **evidence: object
) -> tuple[list[tuple[str | None, str]], str]:
    gate = Profile(name="profile", columns=("AMOUNT",), bounds=bounds)
    measured = TableMeasures()
    judged = judge(
        gate,
        Evidence(
            model=MART, staged=measured, production=measured, duplicates={}, profiled=profiled, **evidence,  # type: ignore[arg-type]
        ),
    )  # fmt: skip
    assert judged.may_be_overridden
    return [(finding.slice, finding.text) for finding in judged.findings], judged.summary


def test_a_shape_and_a_null_rate_that_moved_are_told_where_they_have_bounds() -> None:
    other = {"other": replace(NEW, column="other")}
    profiled = Profiled(staged={"amount": NEW, **other}, production={"amount": OLD, "other": OLD})
    bounds = ProfileBounds(psi=Decimal("0.25"), null_rate=Decimal("0.05"))
    findings, summary = verdict_of(bounds, profiled)
    assert [text.split(",")[0] for _, text in findings] == [
        "amount: stability index 1.81",
        "amount: NULL in 0.0% → 10.0% of the rows",
    ]
    assert findings[1][1].endswith("at most ±5 points expected")
    assert summary == "1 column, stability index up to 1.81 (amount)"
    assert verdict_of(ProfileBounds(), profiled)[0] == []
    assert verdict_of(replace(bounds, psi=Decimal(2), null_rate=Decimal("0.1")), profiled)[0] == []


def test_without_anything_in_production_nothing_is_compared() -> None:
    findings, summary = verdict_of(
        ProfileBounds(psi=Decimal("0.1"), null_rate=Decimal(0)), Profiled(staged={"amount": NEW})
    )
    assert findings == []
    assert summary == "1 column, nothing in production to compare with"


def at(rows: int = 100, nulls: int = 0, mean: str | None = "10") -> ColumnProfile:
    return ColumnProfile(column="amount", rows=rows, nulls=nulls, mean=mean)


def history(*profiles: ColumnProfile) -> dict[int, dict[str, ColumnProfile]]:
    """On the Mondays before 2 February's."""
    return {day(2).ordinal - 7 * number: {"amount": each} for number, each in enumerate(profiles, start=1)}


FAR = ProfileBounds(outliers=RowHistory())


@pytest.mark.parametrize(
    ("now", "rows", "told"),
    [
        (at(), 100, []),
        (at(mean="10.9"), 100, []),
        (at(mean="13"), 100, ["amount: mean 13, 9 to 11 expected: median 10 of 4 earlier Mondays"]),
        (at(mean="nan"), 100, ["amount: mean nan, 9 to 11 expected: median 10 of 4 earlier Mondays"]),
        (at(mean=None), 100, []),
        (at(nulls=1), 100, []),
        (
            at(nulls=30),
            100,
            ["amount: NULL in 30.0% of the rows, 0.0% to 1.0% expected: median 0 of 4 earlier Mondays"],
        ),
        (at(), 300, ["300 rows, 90 to 110 expected: median 100 of 4 earlier Mondays"]),
    ],
)
def test_a_slice_is_held_to_earlier_ones_like_it(now: ColumnProfile, rows: int, told: list[str]) -> None:
    profiled = Profiled(
        staged={"amount": at()},
        slices={day(2): SliceProfiles(rows=rows, columns={"amount": now})},
        history=history(at(), at(), at(), at()),
    )
    published = dict.fromkeys(profiled.history, 100)
    findings, _ = verdict_of(FAR, profiled, published=published)
    assert findings == [("2026-02-02", text) for text in told]


def test_too_little_history_is_counted_and_an_open_slice_may_have_fewer_rows() -> None:
    slices = {day(2): SliceProfiles(rows=1, columns={"amount": at()})}
    profiled = Profiled(staged={"amount": at()}, slices=slices, history=history(at(), at(), at()))
    findings, summary = verdict_of(FAR, profiled, published=dict.fromkeys(profiled.history, 100))
    assert findings == []
    assert "1 slice with too little history" in summary
    profiled = replace(profiled, history=history(*[at()] * 4))
    published = dict.fromkeys(profiled.history, 100)
    assert verdict_of(FAR, profiled, published=published)[0] != []
    assert verdict_of(FAR, profiled, published=published, open=frozenset(slices))[0] == []


def test_what_is_kept_survives_json_and_holds_no_more_than_there_is() -> None:
    named = replace(NEW, distinct=7, low="-1", high="3", mean="1.5", quantiles=("0", "1", "1", "2", "3"))
    profiled = Profiled(
        staged={"amount": replace(named, bins=Bins(edges=("ab",), counts=(1, 2, 3), values=("EUR",)))},
        production={"amount": OLD},
        slices={day(2): SliceProfiles(rows=100, columns={"amount": at()})},
        scope=scope_of(["2026-02-02"]),
    )
    entries = entries_of(MART, profiled)
    documents = [json.loads(json.dumps(entry_document(entry))) for entry in entries]
    assert [entry_from(document) for document in documents] == entries
    assert documents[-1] == {
        "model": MART, "slice": "2026-02-02", "side": "staged", "column": "amount", "rows": 100, "nulls": 0,
        "mean": "10",
    }  # fmt: skip


def test_an_earlier_runs_profile_is_productions_for_the_very_same_slices() -> None:
    entries = [
        ProfileEntry(model=MART, slice=None, side=side, profile=profile, scope=scope_of(["b", "a"]))
        for side, profile in ((Side.STAGED, NEW), (Side.PRODUCTION, OLD))
    ]
    assert as_production(entries, scope_of(["a", "b"]), samples=False) == {"amount": replace(NEW, against=())}
    assert as_production(entries, scope_of(["a"]), samples=False) == {}


def test_values_arent_taken_over_where_samples_arent_allowed_any_more() -> None:
    kept = replace(NEW, low="EUR", high="USD", bins=Bins(edges=("ab",), counts=(1, 2, 3), values=("EUR",)))
    entries = [ProfileEntry(model=MART, slice=None, side=Side.STAGED, profile=kept, scope="x")]
    assert as_production(entries, "x", samples=True)["amount"].bins.values == ("EUR",)
    bare = as_production(entries, "x", samples=False)["amount"]
    assert (bare.low, bare.high, bare.bins.values, bare.bins.counts) == (None, None, (), (1, 2, 3))
