"""Every grain against the calendar, and what reads what across grains against brute force over hours."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from retcon.core.graphs import Graph
from retcon.core.intervals import Interval
from retcon.core.models import UNSLICED, Input, Model, OnChange, Reach, Slicing, reach_text
from retcon.core.notes import widened_notes
from retcon.core.planning import World, plan_model, spread
from retcon.core.plans import Plan, PlannedModel, Request, from_document, to_document
from retcon.core.queries import Batching
from retcon.core.ranges import asked_or_default
from retcon.core.readings import Reading, reading_of, require_hours_as_planned, require_hours_told
from retcon.core.slices import WHOLE, Cut, Grain, Slice, SliceSet, cut_of
from retcon.core.tables import TableContents, TableFacts
from retcon.errors import Refused
from tests.core.examples import a_file, a_graph, a_model, an_input, facts

GRAINS = st.sampled_from(Grain)
MOMENTS = st.datetimes(min_value=datetime(2, 1, 1), max_value=datetime(9997, 12, 31)).map(
    lambda m: m.replace(tzinfo=UTC)
)
EDGES = st.sampled_from(
    ["2020-02-29T23", "2020-12-31T23", "2021-01-03T23", "2021-01-04T00", "1969-12-31T23", "2024-02-29T00"]
)
NEAR = st.builds(lambda edge, more: Grain.HOUR.parse(edge) + more, EDGES, st.integers(-50 * 24, 50 * 24))
"""Hours around leap days, week 53, new years and 1970."""
REACHES: st.SearchStrategy[Reach] = st.integers(0, 3) | st.integers(0, 60).map(lambda h: timedelta(hours=h))


# ── one grain ─────────────────────────────────────────────────────────────────────────────────────────────────────


@given(GRAINS, MOMENTS)
def test_a_slice_holds_its_moment_and_meets_its_neighbours(grain: Grain, moment: datetime) -> None:
    slice = Slice.of(grain, moment)
    assert slice.interval.start <= moment < slice.interval.end
    assert Slice(grain, slice.ordinal + 1).interval.start == slice.interval.end
    assert grain.parse(slice.label) == slice.ordinal
    assert grain.ordinal(slice.interval.start) == slice.ordinal
    assert grain.ordinal(slice.interval.end) == slice.ordinal + 1


@given(MOMENTS)
def test_slices_are_those_of_the_calendar(moment: datetime) -> None:
    year, week, _ = moment.isocalendar()
    labels = {grain: Slice.of(grain, moment).label for grain in Grain}
    assert labels == {
        Grain.HOUR: moment.isoformat()[:13],
        Grain.DAY: moment.isoformat()[:10],
        Grain.WEEK: f"{year:04}-W{week:02}",
        Grain.MONTH: moment.isoformat()[:7],
        Grain.YEAR: moment.isoformat()[:4],
    }
    assert Grain.WEEK.start(Grain.WEEK.ordinal(moment)).isoweekday() == 1


def test_slices_are_counted_as_iceberg_counts() -> None:
    moment = datetime(2026, 1, 22, 5, 30, tzinfo=UTC)
    assert Grain.HOUR.ordinal(moment) == int(moment.timestamp()) // 3600
    assert Grain.MONTH.ordinal(moment) == 56 * 12
    assert Grain.YEAR.ordinal(moment) == 56
    assert Grain.WEEK.start(0) == datetime(1969, 12, 29, tzinfo=UTC)
    assert [grain.ordinal(datetime(1969, 12, 28, 23, tzinfo=UTC)) for grain in Grain] == [-73, -4, -1, -1, -1]


@pytest.mark.parametrize(
    ("grain", "label", "said"),
    [("hour", "2026-01-22T24", "there is no hour"), ("hour", "2026-01-22", "isn't an hour such as 2026-01-22T05"),
     ("week", "2025-W53", "there is no week"), ("week", "2026-W00", "there is no week"),
     ("week", "2026-04", "isn't a week such as 2026-W04"), ("month", "2026-13", "there is no month"),
     ("month", "2026", "isn't a month such as 2026-01"), ("year", "26", "isn't a year such as 2026"),
     ("year", "0000", "there is no year"), ("day", "2023-02-29", "there is no day")],
)  # fmt: skip
def test_a_label_that_names_no_slice_is_refused(grain: str, label: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        Grain(grain).parse(label)


def test_some_years_have_a_week_53_and_it_may_reach_into_the_next() -> None:
    assert SliceSet.parse(Grain.WEEK, "2020-W53..2021-W01").hull() == Interval.of_edges(
        date(2020, 12, 28), date(2021, 1, 10)
    )
    assert Slice.of(Grain.WEEK, date(2021, 1, 3)).label == "2020-W53"


@pytest.mark.parametrize(("day", "hours"), [(date(2026, 3, 29), 23), (date(2026, 10, 25), 25), (date(2026, 5, 1), 24)])
def test_a_local_day_of_any_length_is_so_many_utc_hours_without_gap_or_overlap(day: date, hours: int) -> None:
    berlin = ZoneInfo("Europe/Berlin")
    start, end = (
        datetime(d.year, d.month, d.day, tzinfo=berlin).astimezone(UTC) for d in (day, day + timedelta(days=1))
    )
    slices = SliceSet.covering(Grain.HOUR, Interval(start, end))
    assert len(slices) == hours
    assert slices.hull() == Interval(start, end)
    assert all(a.interval.end == b.interval.start for a, b in zip(slices, list(slices)[1:], strict=False))


@given(GRAINS, GRAINS)
def test_the_common_grain_is_the_coarsest_that_divides_both(a: Grain, b: Grain) -> None:
    both = [g for g in Grain if g.divides(a) and g.divides(b)]
    assert a.common(b) == max(both, key=lambda g: g.first_hour(1) - g.first_hour(0))


@given(GRAINS, GRAINS, NEAR)
def test_a_grain_divides_another_exactly_if_no_slice_is_cut(a: Grain, b: Grain, hour: int) -> None:
    start = b.first_hour(b.holding(hour))
    if a.divides(b):
        assert a.first_hour(a.holding(start)) == start


def test_times_that_end_after_the_calendar_does_are_counted_on() -> None:
    for grain in Grain:
        last = grain.ordinal(datetime(9999, 12, 31, 23, tzinfo=UTC))
        assert grain.holding(grain.first_hour(last + 1)) == last + 1
        assert SliceSet(Grain.DAY, (Grain.DAY.ordinal(date(9999, 12, 31)),)).recut(grain).ordinals[-1] == last


def test_a_table_that_is_not_cut_is_one_slice() -> None:
    whole = SliceSet(WHOLE, (0,))
    assert whole.text == "all"
    assert SliceSet.parse(WHOLE, "all") == whole
    assert SliceSet.covering(WHOLE, Interval.of_edges(date(2026, 1, 1), date(2026, 1, 1))) == whole
    assert SliceSet.parse(Grain.DAY, "2026-01-01").recut(WHOLE) == whole
    assert [cut_of(str(cut)) for cut in (*Grain, WHOLE)] == [*Grain, WHOLE]
    with pytest.raises(ValueError, match="isn't cut by time"):
        whole.intervals()
    with pytest.raises(ValueError, match="don't go together"):
        _ = whole | SliceSet.parse(Grain.DAY, "2026-01-01")


def test_labels_from_when_a_table_was_cut_otherwise_name_no_slice() -> None:
    labels = ["2026-01-22", "2026-01", "2026", "2026-W04", "2026-01-22T05", "all"]
    for cut in (*Grain, WHOLE):
        assert len(SliceSet.labelled(cut, labels)) == 1


# ── across grains ─────────────────────────────────────────────────────────────────────────────────────────────────


@given(GRAINS, GRAINS, st.lists(NEAR, max_size=4))
def test_recutting_covers_the_same_hours_and_touches_no_slice_in_vain(a: Grain, b: Grain, hours: list[int]) -> None:
    slices = SliceSet.of(a, (a.holding(hour) for hour in hours))
    held = {hour for first, last in slices.hours() for hour in range(first, last + 1)}
    assert slices.recut(b) == SliceSet.of(b, {b.holding(hour) for hour in held})


def reads_hours(back: Reach, ahead: Reach, grain: Grain, slice: int) -> range:
    """The hours that a slice reads, by the calendar."""
    start = grain.start(slice) - back if isinstance(back, timedelta) else grain.start(slice - back)
    end = grain.start(slice + 1) + ahead if isinstance(ahead, timedelta) else grain.start(slice + 1 + ahead)
    return range(Grain.HOUR.ordinal(start), Grain.HOUR.ordinal(end))


@settings(max_examples=300, deadline=None)
@given(GRAINS, GRAINS, REACHES, REACHES, NEAR, st.integers(-100, 100))
def test_a_slice_reads_another_exactly_if_it_is_among_its_readers(
    reader: Grain, read: Grain, back: Reach, ahead: Reach, hour: int, apart: int
) -> None:
    i = Input(name="i", table="raw.i", time="t", lookback=back, lookahead=ahead)
    s = reader.holding(hour)
    near = reads_hours(back, ahead, reader, s)
    t = read.holding((near[0] if apart < 0 else near[-1]) + apart)
    touched = range(read.first_hour(t), read.first_hour(t + 1))
    reads = bool(range(max(near[0], touched[0]), min(near[-1], touched[-1]) + 1))
    assert (Slice(read, t) in i.read_by(SliceSet(reader, (s,)), read)) == reads
    found = i.readers_of(SliceSet(read, (t,)), reader)
    assert found is not None
    assert (Slice(reader, s) in found) == reads


@settings(max_examples=100, deadline=None)
@given(GRAINS, REACHES, REACHES, st.lists(NEAR, min_size=1, max_size=3), GRAINS)
def test_what_many_slices_read_is_what_each_of_them_reads(
    reader: Grain, back: Reach, ahead: Reach, hours: list[int], read: Grain
) -> None:
    i = Input(name="i", table="raw.i", time="t", lookback=back, lookahead=ahead)
    slices = SliceSet.of(reader, (reader.holding(hour) for hour in hours))
    each = [i.read_by(SliceSet(reader, (o,)), read).ordinals for o in slices.ordinals]
    assert i.read_by(slices, read) == SliceSet.of(read, (o for ordinals in each for o in ordinals))


@settings(max_examples=200, deadline=None)
@given(GRAINS, REACHES, REACHES, NEAR)
def test_the_first_and_last_slice_that_an_input_holds_read_nothing_beyond_it(
    grain: Grain, back: Reach, ahead: Reach, hour: int
) -> None:
    i = Input(name="i", table="raw.i", time="t", lookback=back, lookahead=ahead)
    first, last = i.held_from(grain, hour), i.held_until(grain, hour)
    assert reads_hours(back, ahead, grain, first)[0] >= hour > reads_hours(back, ahead, grain, first - 1)[0]
    assert reads_hours(back, ahead, grain, last)[-1] <= hour < reads_hours(back, ahead, grain, last + 1)[-1]


def test_where_one_side_is_not_cut_every_slice_reads_every_other() -> None:
    i = an_input("raw.i", "t")
    assert i.readers_of(SliceSet(WHOLE, (0,)), Grain.DAY) is None
    assert i.readers_of(SliceSet(Grain.DAY, (0,)), WHOLE) is None


@pytest.mark.parametrize(
    ("reach", "text"),
    [(3, "3"), (timedelta(hours=36), "36 hours"), (timedelta(days=7), "7 days"), (timedelta(hours=1), "1 hour")],
)
def test_a_reach_is_told_as_people_write_it(reach: Reach, text: str) -> None:
    assert reach_text(reach) == text


# ── planning across grains ────────────────────────────────────────────────────────────────────────────────────────

NOW = datetime(2026, 3, 20, 12, tzinfo=UTC)


def cut(name: str, every: Cut, *inputs: Input, **more: object) -> Model:
    slicing = UNSLICED if every == WHOLE else Slicing(by="t", every=every)
    return replace(a_model(name, *inputs, **more), slicing=slicing)


def source(type: str = "timestamp", *cuts: str) -> TableFacts:
    return facts("raw.s", [("t", type)], by=[("t", cut) for cut in cuts])


@pytest.mark.parametrize(
    ("reader", "table", "resolution", "natural"),
    [("day", source("date", "identity"), "day", "day"), ("month", source("date", "identity"), "day", "day"),
     ("day", source("timestamp", "month"), "day", "month"), ("week", source("timestamp", "month"), "day", "month"),
     ("year", source("timestamp", "month"), "month", "month"), ("hour", source("timestamp", "day"), "hour", "day"),
     ("hour", source("date"), "day", "day"), ("hour", source("date", "year"), "day", "year"),
     ("week", source("timestamp"), "week", "week"), ("day", source("timestamp", "year", "hour"), "hour", "hour"),
     ("month", source("timestamp", "bucket[4]"), "month", "month"), ("day", None, "day", "day")],
)  # fmt: skip
def test_a_source_is_read_in_slices_that_divide_its_own_and_the_readers(
    reader: str, table: TableFacts | None, resolution: str, natural: str
) -> None:
    found = reading_of(an_input("raw.s", "t"), Grain(reader), Graph({}), table)
    assert found == Reading(resolution=Grain(resolution), natural=Grain(natural))


def test_a_model_is_read_in_slices_that_divide_its_own_and_what_is_not_cut_is_read_whole() -> None:
    graph = a_graph(cut("m.w", Grain.WEEK, an_input("raw.s", "t")), cut("m.all", WHOLE))
    assert reading_of(an_input("m.w", "t"), Grain.MONTH, graph, None) == Reading(
        resolution=Grain.DAY, natural=Grain.WEEK
    )
    assert reading_of(an_input("m.all", "t"), Grain.MONTH, graph, None) == Reading(
        resolution=Grain.MONTH, natural=Grain.MONTH
    )
    assert reading_of(an_input("m.w", None), Grain.MONTH, graph, None) is None
    assert reading_of(an_input("m.w", "t"), WHOLE, graph, None) is None


@pytest.mark.parametrize(
    ("upstream", "declared", "resolution"),
    [(Grain.DAY, None, "day"), (Grain.MONTH, None, "day"), (WHOLE, None, "day"), (Grain.HOUR, None, "hour"),
     (Grain.DAY, "DATE", "day"), (Grain.DAY, "timestamp", "hour"), (WHOLE, "timestamp_ntz", "hour")],
)  # fmt: skip
def test_by_the_hour_a_model_is_read_alike_before_its_table_is_made_and_after(
    upstream: Cut, declared: str | None, resolution: str
) -> None:
    columns = () if declared is None else (("T", declared),)
    graph = a_graph(cut("m.u", upstream, columns=columns))
    type = "timestamp" if resolution == "hour" else "date"
    for found in (None, facts("m.u", [("t", type)], by=())):
        reading = reading_of(an_input("m.u", "t"), Grain.HOUR, graph, found)
        assert reading is not None
        assert reading.resolution == Grain(resolution)


def test_an_hour_that_is_computed_alone_is_not_given_the_whole_day_of_a_timestamp() -> None:
    days = cut("m.d", Grain.DAY, an_input("raw.s", "t"))
    hours = cut("m.h", Grain.HOUR, an_input("m.d", "t"), batching=Batching(reasons=("LIMIT",)))
    asked = SliceSet.parse(Grain.HOUR, "2026-01-31T22")
    share = planned(hours, asked, World(facts={}, contents={}, published={}), days)
    assert share.inputs[0].slices == SliceSet.parse(Grain.DAY, "2026-01-31")
    require_hours_as_planned("p", hours, share, {"m.d": facts("m.d", [("t", "date")])})
    timestamps = {"m.d": facts("m.d", [("t", "timestamp")])}
    require_hours_as_planned("p", replace(hours, batching=Batching()), share, timestamps)
    with pytest.raises(Refused, match="took for a DATE") as refused:
        require_hours_as_planned("p", hours, share, timestamps)
    assert "retcon plan --refresh backfills/p.yaml" in refused.value.next


@pytest.mark.parametrize("told", ["columns", "the table", "hours themselves", "a source", "together"])
def test_hours_that_are_computed_alone_need_to_know_whether_they_read_a_date(told: str) -> None:
    days = cut("m.d", Grain.DAY, an_input("raw.s", "t"))
    hours = cut("m.h", Grain.HOUR, an_input("m.d", "t"), batching=Batching(reasons=("LIMIT",)))
    with pytest.raises(Refused, match=r"nothing says whether t of m\.d"):
        require_hours_told(hours, a_graph(days, hours), ())
    known = ["m.d"] if told == "the table" else []
    if told == "columns":
        days = replace(days, columns=(("T", "date"),))
    if told == "hours themselves":
        days = cut("m.d", Grain.HOUR, an_input("raw.s", "t"))
    if told == "together":
        hours = replace(hours, batching=Batching())
    require_hours_told(hours, a_graph(*([] if told == "a source" else [days]), hours), known)


def test_a_change_spreads_from_hours_to_days_to_months_to_a_whole_table_and_back_to_days() -> None:
    hours = cut("m.h", Grain.HOUR, an_input("raw.s", "t"))
    days = cut("m.d", Grain.DAY, an_input("m.h", "t", lookback=timedelta(hours=2)))
    months = cut("m.m", Grain.MONTH, an_input("m.d", "t"))
    every = cut("m.z", WHOLE, an_input("m.m", None, on_change=OnChange.RESTATE))
    again = cut("m.zz", Grain.DAY, an_input("m.z", "t"))
    graph = a_graph(hours, days, months, every, again)
    published = {
        "m.d": SliceSet.parse(Grain.DAY, "2026-01-01..2026-03-19"),
        "m.m": SliceSet.parse(Grain.MONTH, "2026-01..2026-03"),
        "m.z": SliceSet(WHOLE, (0,)),
        "m.zz": SliceSet.parse(Grain.DAY, "2026-01-05..2026-01-06"),
    }
    scope = spread(graph, {"m.h": SliceSet.parse(Grain.HOUR, "2026-01-31T22")}, published, downstream=True)
    assert {name: slices.text for name, slices in scope.slices.items()} == {
        "m.h": "2026-01-31T22",
        "m.d": "2026-01-31..2026-02-01",
        "m.m": "2026-01..2026-02",
        "m.z": "all",
        "m.zz": "2026-01-05..2026-01-06",
    }


def planned(model: Model, slices: SliceSet, world: World, *others: Model, **also: SliceSet) -> PlannedModel:
    graph = a_graph(model, *others)
    scope = spread(graph, {model.name: slices, **also}, {}, downstream=False)
    return plan_model(model, scope, graph, world, NOW, None)


def world(table: TableFacts, held: SliceSet) -> World:
    files = tuple(a_file(f"f{o}", o) for o in held.ordinals)
    return World(
        facts={"raw.s": table},
        contents={("raw.s", "t", held.grain): TableContents(grain=held.grain, files=files)},
        published={},
    )


def test_a_monthly_source_is_not_missing_the_days_that_its_files_do_not_show() -> None:
    seen = world(source("date", "month"), SliceSet.parse(Grain.DAY, "2026-01-05..2026-01-06"))
    share = planned(
        cut("m.d", Grain.DAY, an_input("raw.s", "t")), SliceSet.parse(Grain.DAY, "2026-01-30..2026-02-02"), seen
    )
    assert share.inputs[0].missing == SliceSet.parse(Grain.MONTH, "2026-02")
    assert share.inputs[0].slices == share.slices


def test_a_month_is_missing_each_missing_day_but_those_that_are_not_over() -> None:
    seen = world(
        source("date", "identity"), SliceSet.parse(Grain.DAY, "2026-02-01..2026-02-14, 2026-02-16..2026-03-19")
    )
    model = cut("m.m", Grain.MONTH, an_input("raw.s", "t"))
    share = planned(model, SliceSet.parse(Grain.MONTH, "2026-02..2026-03"), seen)
    assert share.inputs[0].missing == SliceSet.parse(Grain.DAY, "2026-02-15")
    assert share.inputs[0].slices == SliceSet.parse(Grain.DAY, "2026-02-01..2026-03-31")
    assert share.open == SliceSet.parse(Grain.MONTH, "2026-03")


def test_a_day_that_is_not_over_excuses_no_month_of_its_source() -> None:
    seen = world(source("date", "month"), SliceSet.parse(Grain.DAY, "2026-02-01..2026-02-28"))
    model = cut("m.d", Grain.DAY, an_input("raw.s", "t"))
    share = planned(model, SliceSet.parse(Grain.DAY, "2026-02-28..2026-03-20"), seen)
    assert share.inputs[0].missing == SliceSet.parse(Grain.MONTH, "2026-03")


def test_without_dates_a_month_is_planned_when_its_days_are_there_up_to_now() -> None:
    model = cut("m.m", Grain.MONTH, an_input("raw.s", "t"))
    for held, first, last in (
        ("2025-12-20..2026-03-19", date(2026, 1, 1), date(2026, 3, 20)),
        ("2026-01-01..2026-03-10", date(2026, 1, 1), date(2026, 2, 28)),
    ):
        seen = world(source("date", "identity"), SliceSet.parse(Grain.DAY, held))
        assert asked_or_default(model, None, None, a_graph(model), seen, NOW) == Interval.of_edges(first, last)


def test_hours_are_asked_for_in_hours_or_days_and_begin_and_end_by_the_hour() -> None:
    model = cut("m.h", Grain.HOUR, an_input("raw.s", "t", lookback=2))
    seen = world(source("timestamp", "hour"), SliceSet.parse(Grain.HOUR, "2026-01-01T05..2026-01-03T07"))
    found = asked_or_default(model, None, None, a_graph(model), seen, NOW)
    assert found == SliceSet.parse(Grain.HOUR, "2026-01-01T07..2026-01-03T07").hull()
    asked = asked_or_default(model, date(2026, 1, 2), datetime(2026, 1, 2, 4, tzinfo=UTC), a_graph(model), seen, NOW)
    assert asked == SliceSet.parse(Grain.HOUR, "2026-01-02T00..2026-01-02T04").hull()


def test_a_range_that_cuts_slices_is_widened_and_said() -> None:
    asked = Interval.of_edges(date(2026, 1, 10), date(2026, 2, 3))
    cuts = {f"m.{c}": (asked, SliceSet.covering(c, asked)) for c in (*Grain, WHOLE)}
    assert widened_notes(cuts) == (
        "m.week: 2026-01-10..2026-02-03 widened to 2026-W02..2026-W06",
        "m.month: 2026-01-10..2026-02-03 widened to 2026-01..2026-02",
        "m.year: 2026-01-10..2026-02-03 widened to 2026",
        "m.whole: 2026-01-10..2026-02-03 widened to all: it isn't cut into slices",
    )


def test_a_plan_of_many_grains_comes_back_from_its_document() -> None:
    seen = world(source("date", "month"), SliceSet.parse(Grain.DAY, "2026-01-05..2026-01-06"))
    days = planned(cut("m.d", Grain.DAY, an_input("raw.s", "t")), SliceSet.parse(Grain.DAY, "2026-02-02"), seen)
    every = planned(cut("m.z", WHOLE, an_input("raw.s", None)), SliceSet(WHOLE, (0,)), seen)
    request = Request(models=("m.d",), start=None, end=None, command="retcon plan")
    plan = Plan(
        id="p", reason="r", created=NOW, by="ada", request=request, interval=None, timezone="UTC",
        models=(days, every), outside=(), settings="s", limits={},
    )  # fmt: skip
    assert from_document(to_document(plan)) == plan
