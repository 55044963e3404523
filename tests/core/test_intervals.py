"""Dates as people write them, and the half-open intervals they mean."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retcon.core.intervals import Interval, edge_text, midnight, parse_date, parse_edge
from retcon.errors import BadArguments
from tests.core.examples import DATES


@given(DATES, st.integers(0, 800))
def test_inclusive_dates_and_half_open_intervals_mean_the_same_days(first: date, more: int) -> None:
    last = first + timedelta(days=min(more, (date(9999, 12, 30) - first).days))
    interval = Interval.of_edges(first, last)
    assert interval.edges == (first, last)
    assert interval.end - interval.start == timedelta(days=(last - first).days + 1)
    assert interval.start == midnight(first)
    assert Interval.of_edges(*interval.edges) == interval


@given(DATES, st.integers(0, 86_399_999_999))
def test_every_moment_of_the_last_day_is_inside_and_the_next_midnight_is_not(day: date, microseconds: int) -> None:
    interval = Interval.of_edges(day, day)
    moment = midnight(day) + timedelta(microseconds=microseconds)
    assert interval.start <= moment < interval.end
    assert not midnight(day + timedelta(days=1)) < interval.end


def test_an_interval_that_begins_or_ends_within_a_day_is_told_in_hours() -> None:
    interval = Interval(datetime(2026, 1, 1, 5, tzinfo=UTC), datetime(2026, 1, 3, tzinfo=UTC))
    assert [edge_text(edge) for edge in interval.edges] == ["2026-01-01T05", "2026-01-02T23"]
    assert Interval.of_edges(*interval.edges) == interval
    assert Interval.of_edges(date(2026, 1, 1), datetime(2026, 1, 1, 5, tzinfo=UTC)).end.hour == 6


@given(DATES, st.integers(0, 23))
def test_an_hour_reads_back_as_it_was_written(day: date, hour: int) -> None:
    moment = midnight(day) + timedelta(hours=hour)
    assert parse_edge(f" {edge_text(moment)} ", "--start") == moment
    assert parse_edge(day.isoformat(), "--start") == day


@pytest.mark.parametrize("text", ["2026-01-22T24", "2026-02-30T05", "2026-01-22T5", "2026-01-22T05:30", "T05"])
def test_what_is_no_hour_is_refused(text: str) -> None:
    with pytest.raises(BadArguments, match="--end: "):
        parse_edge(text, "--end")


@pytest.mark.parametrize("zone", [None, timezone(timedelta(hours=1)), timezone(timedelta(0), "elsewhere")])
def test_an_interval_outside_utc_is_refused(zone: timezone | None) -> None:
    good = datetime(2026, 1, 1, tzinfo=UTC)
    with pytest.raises(ValueError, match="UTC"):
        Interval(good, datetime(2026, 1, 2, tzinfo=zone))
    with pytest.raises(ValueError, match="UTC"):
        Interval(datetime(2025, 1, 2, tzinfo=zone), good)


@pytest.mark.parametrize("seconds", [0, -1, -86_400])
def test_an_interval_that_does_not_end_after_its_start_is_refused(seconds: int) -> None:
    start = datetime(2026, 1, 1, tzinfo=UTC)
    with pytest.raises(ValueError, match="ends after it starts"):
        Interval(start, start + timedelta(seconds=seconds))


@given(st.dates())
def test_a_date_reads_back_as_it_was_written(day: date) -> None:
    assert parse_date(f" {day.isoformat()} ", "--start") == day


@pytest.mark.parametrize(
    "text", ["", "yesterday", "2026-1-2", "22.01.2026", "2026-01-22T00:00", "20260122", "2026-W01"]
)
def test_what_is_no_date_is_refused_with_the_option_and_an_example(text: str) -> None:
    with pytest.raises(BadArguments, match=r"--end: .* is not a date") as refused:
        parse_date(text, "--end")
    assert "YYYY-MM-DD" in refused.value.next
    assert refused.value.exit_code == 2


@pytest.mark.parametrize(
    ("text", "last"),
    [("2026-02-30", "2026-02-28"), ("2024-02-30", "2024-02-29"), ("2025-04-31", "2025-04-30"),
     ("2025-12-32", "2025-12-31"), ("1900-02-29", "1900-02-28")],
)  # fmt: skip
def test_a_day_that_its_month_does_not_have_is_answered_with_the_last_one(text: str, last: str) -> None:
    with pytest.raises(BadArguments, match=f"there is no {text}") as refused:
        parse_date(text, "--start")
    assert last in refused.value.next


@pytest.mark.parametrize("text", ["2026-13-01", "2026-00-10", "0000-01-01", "9999-12-32"])
def test_a_month_or_year_that_does_not_exist_is_refused(text: str) -> None:
    with pytest.raises(BadArguments, match=f"there is no {text}") as refused:
        parse_date(text, "--start")
    assert refused.value.next


@given(DATES)
def test_years_are_shown_with_four_digits(day: date) -> None:
    assert str(Interval.of_edges(day, day)).startswith(f"[{day.isoformat()}T00:00:00Z, ")
