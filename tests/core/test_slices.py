"""Slices and sets of them, against plain Python sets."""

from __future__ import annotations

from datetime import date, datetime, timedelta, timezone
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retcon.core.intervals import Interval, midnight
from retcon.core.models import Input
from retcon.core.slices import Grain, Slice, SliceSet
from tests.core.examples import DATES, DAY, NEAR, NEAR_SETS, ORDINALS, REACHES, all_days, day, days, of, slice_sets


def readers(i: Input, slices: SliceSet) -> SliceSet:
    found = i.readers_of(slices, DAY)
    assert found is not None
    return found


@given(DATES)
def test_an_ordinal_is_counted_in_days_from_1970_and_its_label_is_the_date(when: date) -> None:
    ordinal = DAY.ordinal(when)
    assert ordinal == (when - date(1970, 1, 1)).days
    assert DAY.label(ordinal) == when.isoformat()
    assert DAY.parse(when.isoformat()) == ordinal
    assert Slice.of(DAY, when) == Slice(DAY, ordinal)


@given(
    st.datetimes(min_value=datetime(2, 1, 1), max_value=datetime(9998, 12, 31)),
    st.integers(-14 * 60, 14 * 60),
)
def test_a_moment_belongs_to_the_utc_day_it_falls_in_whatever_its_zone(moment: datetime, offset: int) -> None:
    local = moment.replace(tzinfo=timezone(timedelta(minutes=offset)))
    slice = Slice.of(DAY, local)
    assert slice.interval.start <= local < slice.interval.end


@given(ORDINALS)
def test_slices_meet_without_gap_or_overlap(ordinal: int) -> None:
    assert Slice(DAY, ordinal).interval.end == Slice(DAY, ordinal + 1).interval.start


@given(slice_sets())
def test_text_and_parse_are_inverse(slices: SliceSet) -> None:
    assert SliceSet.parse(DAY, slices.text) == slices


def test_text_is_what_people_write() -> None:
    assert days("2026-02-03,2025-12-30..2026-01-01 , ,2026-01-02").text == "2025-12-30..2026-01-02, 2026-02-03"
    assert of().text == ""


@pytest.mark.parametrize("text", ["2026-02-30", "2026-01-01...2026-01-02", "yesterday", "2026-01-01 2026-01-02", "1"])
def test_text_that_names_no_slice_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        SliceSet.parse(DAY, text)


@given(slice_sets())
def test_ranges_are_the_longest_runs_and_hold_each_slice_once(slices: SliceSet) -> None:
    ranges = slices.ranges()
    assert [o for first, last in ranges for o in range(first, last + 1)] == list(slices.ordinals)
    assert all(after[0] > before[1] + 1 for before, after in pairwise(ranges))


@given(slice_sets())
def test_intervals_cover_exactly_the_slices(slices: SliceSet) -> None:
    covered = [SliceSet.covering(DAY, interval) for interval in slices.intervals()]
    assert [o for found in covered for o in found.ordinals] == list(slices.ordinals)


@given(NEAR, NEAR, REACHES, REACHES)
def test_a_slice_reads_another_exactly_if_it_is_among_its_readers(s: int, t: int, back: int, ahead: int) -> None:
    i = Input(name="i", table="raw.i", time="d", lookback=back, lookahead=ahead)
    assert (Slice(DAY, t) in i.read_by(of(s), DAY)) == (Slice(DAY, s) in readers(i, of(t)))
    assert (Slice(DAY, t) in i.read_by(of(s), DAY)) == (s - back <= t <= s + ahead)


@given(NEAR_SETS, NEAR_SETS, REACHES, REACHES)
def test_the_readers_of_what_a_set_reads_include_the_set(a: SliceSet, b: SliceSet, back: int, ahead: int) -> None:
    i = Input(name="i", table="raw.i", time="d", lookback=back, lookahead=ahead)
    assert not a - readers(i, i.read_by(a, DAY))
    # A set reads some slice of another one exactly if one of its own is among the readers of that other set.
    assert bool(i.read_by(a, DAY) & b) == bool(a & readers(i, b))


@given(NEAR_SETS, NEAR_SETS, NEAR)
def test_set_algebra_is_that_of_sets(a: SliceSet, b: SliceSet, item: int) -> None:
    left, right = set(a.ordinals), set(b.ordinals)
    assert a | b == SliceSet.of(DAY, left | right)
    assert a & b == SliceSet.of(DAY, left & right)
    assert a - b == SliceSet.of(DAY, left - right)
    assert (Slice(DAY, item) in a) == (item in left)
    assert (len(a), bool(a)) == (len(left), bool(left))
    assert [slice.ordinal for slice in a] == sorted(left)


@given(DATES, st.integers(0, 400), st.integers(0, 86_399), st.integers(1, 86_400))
def test_covering_is_every_day_that_overlaps_the_interval(first: date, length: int, begin: int, finish: int) -> None:
    last = first + timedelta(days=min(length, (date(9999, 12, 30) - first).days))
    start, end = midnight(first) + timedelta(seconds=begin), midnight(last) + timedelta(seconds=finish)
    if end <= start:
        return
    overlapping = [d for d in all_days(first, last) if midnight(d) < end and midnight(d) + timedelta(days=1) > start]
    assert SliceSet.covering(DAY, Interval(start, end)) == SliceSet.of(DAY, map(DAY.ordinal, overlapping))


@pytest.mark.parametrize(
    ("first", "last", "count"),
    [("2024-02-28", "2024-03-01", 3), ("2025-02-28", "2025-03-01", 2), ("1900-02-28", "1900-03-01", 2),
     ("2000-02-28", "2000-03-01", 3), ("2025-12-31", "2026-01-01", 2), ("2024-01-01", "2024-12-31", 366)],
)  # fmt: skip
def test_leap_days_and_year_ends_are_counted_as_the_calendar_has_them(first: str, last: str, count: int) -> None:
    interval = Interval.of_edges(date.fromisoformat(first), date.fromisoformat(last))
    slices = SliceSet.covering(DAY, interval)
    assert slices == SliceSet.span(DAY, day(first), day(last))
    assert len(slices) == count


@pytest.mark.parametrize("ordinals", [(2, 1), (1, 1), (1, 3, 2)])
def test_a_set_out_of_order_or_with_repetition_is_refused(ordinals: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="sorted and unique"):
        SliceSet(Grain.DAY, ordinals)
    assert SliceSet.of(DAY, ordinals).ordinals == tuple(sorted(set(ordinals)))
