"""Crons: what is taken, and when their times come, over the days on which clocks are put forward and back."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from retcon.project.cron_texts import cron_text
from retcon.project.crons import cron_of
from retcon.project.shapes import Objection

ZONES = (
    "UTC",
    "Europe/Berlin",
    "America/New_York",
    "America/Santiago",  # at midnight
    "Africa/Cairo",
    "Australia/Lord_Howe",  # by half an hour
    "Asia/Kolkata",
)
HOUR = timedelta(hours=1)


def utc(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def shifts(zone: str) -> list[datetime]:
    """When clocks are put forward or back within two years."""
    clock = ZoneInfo(zone)
    hours = [utc("2026-01-01") + HOUR * number for number in range(2 * 366 * 24)]
    offsets = [(hour, hour.astimezone(clock).utcoffset()) for hour in hours]
    return [hour for (_, before), (hour, after) in pairwise(offsets) if before != after]


AROUND = {zone: shifts(zone) or [utc("2026-03-29")] for zone in ZONES}


@st.composite
def moments(draw: st.DrawFn) -> tuple[str, datetime]:
    """A zone, and a moment near a shift of its clocks."""
    zone = draw(st.sampled_from(ZONES))
    off = draw(st.integers(-40 * 60, 40 * 60))
    return zone, draw(st.sampled_from(AROUND[zone])) + timedelta(minutes=off)


minutes = st.one_of(st.just("*"), st.sampled_from(["*/5", "*/7", "0,30", "15-20"]), st.integers(0, 59).map(str))
hours = st.one_of(st.just("*"), st.sampled_from(["*/2", "1-3", "0,2,23"]), st.integers(0, 23).map(str))
days = st.sampled_from(["* * *", "* * 0", "1-31/2 * *", "L * *", "* * MON-FRI", "1 1 *"])
crons = st.builds(lambda *parts: " ".join(parts), minutes, hours, days)


@settings(deadline=None)
@given(crons, moments())
def test_the_newest_time_and_the_next_one_leave_nothing_between(text: str, near: tuple[str, datetime]) -> None:
    zone, at = near
    cron = cron_of(text, zone)
    newest, next_time = cron.newest(at), cron.next(at)
    assert newest is not None
    assert next_time is not None
    assert newest <= at < next_time
    assert cron.next(newest) == next_time
    assert cron.newest(next_time) == next_time
    assert cron.newest(next_time - timedelta(microseconds=1)) == newest


@settings(deadline=None)
@given(crons, moments(), st.lists(st.integers(1, 26 * 60), min_size=1, max_size=12))
def test_whoever_looks_now_and_then_sees_each_time_once_or_the_newest_of_those_missed(
    text: str, near: tuple[str, datetime], waits: list[int]
) -> None:
    zone, at = near
    cron = cron_of(text, zone)
    done, loads, ends = cron.newest(at), [], at + timedelta(minutes=sum(waits))
    for wait in waits:
        at += timedelta(minutes=wait)
        due = cron.newest(at)
        if due is not None and done is not None and due > done:
            loads.append(due)
            done = due
    assert loads == sorted(set(loads))
    assert done == cron.newest(ends), "nothing that came is left"


@settings(deadline=None)
@given(st.integers(0, 23), st.integers(0, 59), st.sampled_from(ZONES), st.data())
def test_a_time_of_day_comes_once_every_day(hour: int, minute: int, zone: str, data: st.DataObject) -> None:
    shift = data.draw(st.sampled_from(AROUND[zone]))
    cron, clock = cron_of(f"{minute} {hour} * * *", zone), ZoneInfo(zone)
    times = cron.coming(shift - 72 * HOUR, 6)
    shown = [moment.astimezone(clock) for moment in times]
    days = [moment.date().toordinal() for moment in shown]
    assert days == list(range(days[0], days[0] + 6))
    # As the clock says, or as much later as it was put forward on that day.
    late = [moment for moment in shown if (moment.hour, moment.minute) != (hour, minute)]
    assert len(late) <= 1
    for moment in late:
        meant = moment.replace(hour=hour, minute=minute, fold=0)
        assert timedelta() < moment.replace(tzinfo=None) - meant.replace(tzinfo=None) <= HOUR
        assert moment.utcoffset() != (moment - 4 * HOUR).astimezone(UTC).astimezone(clock).utcoffset()


@settings(deadline=None)
@given(st.sampled_from(["* * * * *", "*/5 * * * *", "*/30 * * * *"]), moments())
def test_what_names_no_hour_comes_at_even_intervals_whatever_clocks_do(text: str, near: tuple[str, datetime]) -> None:
    zone, at = near
    times = cron_of(text, zone).coming(at, 4)
    assert len({b - a for a, b in pairwise(times)}) == 1


def test_berlins_spring_and_autumn() -> None:
    night = cron_of("30 2 * * *", "Europe/Berlin")
    spring = night.coming(utc("2026-03-27T12:00"), 3)
    assert spring == (utc("2026-03-28T01:30"), utc("2026-03-29T01:30"), utc("2026-03-30T00:30"))
    autumn = night.coming(utc("2026-10-24T12:00"), 2)
    assert autumn == (utc("2026-10-25T00:30"), utc("2026-10-26T01:30"))
    # In the hour that comes again, what came in it the first time is still the newest.
    assert night.newest(utc("2026-10-25T01:10")) == utc("2026-10-25T00:30")
    hourly = cron_of("@hourly", "Europe/Berlin").coming(utc("2026-10-24T23:30"), 3)
    assert hourly == (utc("2026-10-25T00:00"), utc("2026-10-25T01:00"), utc("2026-10-25T02:00"))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("61 * * * *", "the minute in `61 * * * *` isn't one"),
        ("0 25 * * *", "the hour in `0 25 * * *` isn't one"),
        ("0 4 * * MON-", "the day of week in `0 4 * * MON-` isn't one"),
        ("0 4 31 2 *", "the day of month in `0 4 31 2 *` isn't one"),
        ("*/0 * * * *", "the minute in `*/0 * * * *` isn't one"),
        ("0 4 * *", "of five fields, and `0 4 * *` has 4"),
        ("0 0 4 * * *", "of five fields, and `0 0 4 * * *` has 6"),
        ("@never", "of five fields, and `@never` has 1"),
        ("9" * 5000 + " * * * *", "must be a cron, and"),
    ],
)
def test_what_isnt_a_cron_is_refused_with_the_field(text: str, told: str) -> None:
    with pytest.raises(Objection) as refused:
        cron_text(text)
    assert told in str(refused.value)
    assert "every day at 4:00" in refused.value.remedy


@pytest.mark.parametrize("text", ["*/5 * * * *", "0 4 * * MON-FRI", "@monthly", " @Daily ", "0 4 L * *", "0 4 29 2 *"])
def test_what_is_a_cron_stays_as_it_was_written(text: str) -> None:
    assert cron_text(text) == text


def test_a_cron_that_never_comes_is_refused() -> None:
    with pytest.raises(Objection, match="comes some day"):
        cron_text("0 0 */30 2 MON#5")
