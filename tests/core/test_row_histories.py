"""What is usual is told by earlier slices like this one, and a few odd ones among them don't matter."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from retcon.core.gates import Evidence, Rows, Verdict, judge
from retcon.core.measures import SliceMeasure, TableMeasures
from retcon.core.row_histories import LEAST, RowHistory, usual_rows
from retcon.core.slices import Grain, Slice
from tests.core.examples import day

DAY = Grain.DAY
THURSDAY = day("2026-01-22")
EIGHT = RowHistory(slices=8)


def weekly(*counts: int, grain: Grain = DAY, step: int = 7) -> dict[int, int]:
    """Counts of the slices before, nearest first; those in between have so many rows that nobody can overlook it."""
    noise = dict.fromkeys(range(THURSDAY - step * len(counts), THURSDAY), 10**9) if grain is DAY else {}
    return {**noise, **{THURSDAY - step * (n + 1): count for n, count in enumerate(counts)}}


def verdict_of(rows: int, published: dict[int, int], *, is_open: bool = False, warns: bool = False) -> Verdict:
    slice = Slice(DAY, THURSDAY)
    staged = TableMeasures(slices={slice: SliceMeasure(rows=rows, checksum="x")})
    open_slices = frozenset({slice}) if is_open else frozenset[Slice]()
    evidence = Evidence(
        model="mart.m",
        staged=staged,
        production=TableMeasures(),
        duplicates={},
        published=published,
        open=open_slices,
    )
    return judge(Rows(name="rows", history=EIGHT, warns=warns), evidence)


def test_a_day_is_compared_with_the_same_weekday_only() -> None:
    usual = usual_rows(Slice(DAY, THURSDAY), weekly(100, 104, 96, 100, 102), EIGHT)
    assert usual is not None
    assert (usual.low, usual.high) == (89, 111)  # the spread of 2 counts would be ±11.9: more than 10% of 100
    assert usual.text == "median 100 of 5 earlier Thursdays"


def test_an_hour_is_compared_with_the_same_hour_and_a_month_with_those_before_it() -> None:
    hour = usual_rows(Slice(Grain.HOUR, THURSDAY), weekly(5, 5, 5, 5, grain=Grain.HOUR, step=24), EIGHT)
    month = usual_rows(Slice(Grain.MONTH, THURSDAY), weekly(9, 9, 9, 9, grain=Grain.MONTH, step=1), EIGHT)
    assert hour is not None
    assert month is not None
    assert (hour.low, hour.high, hour.text) == (3, 7, "median 5 of 4 earlier slices of the same hour")
    assert (month.low, month.high, month.text) == (7, 11, "median 9 of 4 earlier slices")


def test_a_steady_history_lets_a_tenth_and_two_rows_pass() -> None:
    assert not verdict_of(111, weekly(*[100] * 8)).passed
    assert verdict_of(110, weekly(*[100] * 8)).passed
    assert verdict_of(5, weekly(*[3] * 8)).passed
    assert verdict_of(1, weekly(*[3] * 8)).passed
    assert not verdict_of(0, weekly(*[3] * 8)).passed


def test_too_little_history_passes_and_says_so() -> None:
    verdict = verdict_of(7, weekly(*[1000] * (LEAST - 1)))
    assert verdict.passed
    assert verdict.summary == "7 rows in 1 slices, 1 with too little history to compare"


def test_later_slices_and_more_than_were_asked_for_dont_count() -> None:
    published = {**weekly(*[100] * 8, *[9000] * 20), THURSDAY + 7: 5, THURSDAY: 5}
    assert verdict_of(100, published).passed


def test_a_finding_says_what_is_expected_and_by_what() -> None:
    verdict = verdict_of(1200, weekly(*[1000] * 8))
    assert [f.text for f in verdict.findings] == [
        "1,200 rows, 900 to 1,100 expected: median 1,000 of 8 earlier Thursdays"
    ]


def test_of_a_slice_that_isnt_over_only_too_many_rows_are_told() -> None:
    assert verdict_of(1, weekly(*[1000] * 8), is_open=True).passed
    assert not verdict_of(5000, weekly(*[1000] * 8), is_open=True).passed


def test_a_gate_that_warns_objects_and_passes() -> None:
    verdict = verdict_of(1, weekly(*[1000] * 8), warns=True)
    assert verdict.findings
    assert verdict.passed
    assert verdict.is_warning


@given(st.lists(st.integers(0, 10_000), min_size=5, max_size=8), st.integers(0, 10**9))
def test_one_odd_count_moves_what_is_usual_no_further_than_the_others_reach(counts: list[int], odd: int) -> None:
    usual = usual_rows(Slice(DAY, THURSDAY), weekly(odd, *counts[1:]), EIGHT)
    assert usual is not None
    others = counts[1:]
    spread = EIGHT.deviations * 1.4826 * (max(others) - min(others))
    assert usual.low <= max(others)
    assert usual.high >= min(others)
    assert usual.high <= max(others) + max(spread, max(others) * 0.1, 2) + 1


@given(st.lists(st.integers(0, 10_000), min_size=LEAST, max_size=8))
def test_the_median_itself_passes(counts: list[int]) -> None:
    assert verdict_of(sorted(counts)[len(counts) // 2], weekly(*counts)).passed or len(counts) % 2 == 0
