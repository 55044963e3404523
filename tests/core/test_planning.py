"""What a request covers, against a model of it by brute force; what it reads; whether it may be run."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from retcon.core.graphs import Graph
from retcon.core.intervals import Interval
from retcon.core.models import Input, Model, OnChange, Replay
from retcon.core.notes import carried_notes, notes_of
from retcon.core.planning import Scope, World, plan_id, plan_model, require_inputs, spread
from retcon.core.plans import Origin, Outside, PlannedInput, PlannedModel, Role
from retcon.core.projects import Source
from retcon.core.queries import Batching, Query
from retcon.core.ranges import asked_interval, asked_or_default, default_end, default_start, since_start
from retcon.core.slices import WHOLE, SliceSet
from retcon.core.tables import TableContents
from retcon.core.waves import WAVE_BYTES
from retcon.errors import BadArguments, ProjectInvalid, Refused
from tests.core.examples import DAY, a_file, a_graph, a_model, an_input, day, days, facts, held, of

NOW = datetime(2026, 1, 22, 12, tzinfo=UTC)


# ── how far a change spreads ──────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Case:
    graph: Graph
    asked: dict[str, SliceSet]
    published: dict[str, SliceSet]
    downstream: bool


NAMES = ["m.a", "m.b", "m.c", "m.d", "m.e"]
FEW = st.integers(0, 2**12 - 1).map(lambda bits: of(*(o for o in range(12) if bits >> o & 1)))


@st.composite
def inputs(draw: st.DrawFn, table: str, number: int) -> Input:
    bits = draw(st.integers(0, 127))
    timed = bits & 3 > 0
    return an_input(
        table,
        "d" if timed else None,
        name=f"i{number}",
        lookback=bits >> 2 & 3 if timed else 0,
        lookahead=bits >> 4 & 1 if timed else 0,
        on_change=OnChange.IGNORE if bits >> 5 == 3 else OnChange.RESTATE,
    )


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Up to five models, mostly published, each reading some of those before it."""
    names = NAMES[: draw(st.integers(2, 5))]
    models: list[Model] = []
    for at, name in enumerate(names):
        tables = draw(st.lists(st.sampled_from(names[:at] or ["raw.s"]), min_size=1, max_size=2))
        models.append(a_model(name, *(draw(inputs(table, number)) for number, table in enumerate(tables))))
    published = {name: draw(FEW) for name in names if draw(st.integers(0, 4))}
    asked = {name: draw(FEW) for name in draw(st.sets(st.sampled_from(names[:2]), min_size=1))}
    return Case(a_graph(*models), {n: s for n, s in asked.items() if s}, published, draw(st.booleans()))


def reads(i: Input, reader: int, read: int) -> bool:
    """Does this slice of a model read that slice of an input?"""
    return i.time is None or reader - i.lookback <= read <= reader + i.lookahead


def covered_by_brute_force(case: Case) -> dict[str, set[int]]:
    """The asked slices and, over and over until nothing is added, what was published and restates what is covered."""
    covered = {name: set(case.asked[name].ordinals) if name in case.asked else set() for name in case.graph.models}
    grown = case.downstream
    while grown:
        grown = False
        for name, model in case.graph.models.items():
            for shown in set(case.published.get(name, of()).ordinals) - covered[name]:
                if any(
                    i.on_change is OnChange.RESTATE and reads(i, shown, read)
                    for i in model.inputs
                    for read in covered.get(i.table, ())
                ):
                    covered[name].add(shown)
                    grown = True
    return covered


def stale_by_brute_force(
    case: Case, covered: dict[str, set[int]], on_change: OnChange
) -> dict[tuple[str, str], set[int]]:
    """Per model and table: published slices that stay as they are though what they read changes."""
    found: dict[tuple[str, str], set[int]] = {}
    for name, model in case.graph.models.items():
        for i in model.inputs:
            for shown in set(case.published.get(name, of()).ordinals) - covered[name]:
                if i.on_change is on_change and any(reads(i, shown, read) for read in covered.get(i.table, ())):
                    found.setdefault((name, i.table), set()).add(shown)
    return found


def scope_of(case: Case) -> Scope:
    return spread(case.graph, case.asked, case.published, downstream=case.downstream)


@settings(max_examples=120)
@given(cases())
def test_a_plan_covers_what_was_asked_and_every_published_slice_that_restates_it(case: Case) -> None:
    scope = scope_of(case)
    covered = covered_by_brute_force(case)
    assert {name: set(s.ordinals) for name, s in scope.slices.items()} == {n: s for n, s in covered.items() if s}
    assert list(scope.slices) == [name for name in case.graph.order if covered[name]]
    assert scope.selected == frozenset(case.asked)


@settings(max_examples=120)
@given(cases())
def test_what_becomes_stale_or_was_never_published_is_listed_once_and_nothing_else(case: Case) -> None:
    covered = covered_by_brute_force(case)
    expected: set[Outside] = set()
    restating: dict[str, set[int]] = {}
    for (name, _), slices in stale_by_brute_force(case, covered, OnChange.RESTATE).items():
        restating.setdefault(name, set()).update(slices)
    for name, slices in restating.items():
        expected.add(Outside(model=name, why=f"becomes stale ({len(slices)} slices): left out by --no-downstream"))
    for name, table in stale_by_brute_force(case, covered, OnChange.IGNORE):
        expected.add(Outside(model=name, why=f"becomes stale: reads {table} with on_change ignore"))
    for name, model in case.graph.models.items():
        reads_some = any(covered.get(i.table) for i in model.inputs)
        if reads_some and name not in case.asked and not case.published.get(name):
            expected.add(Outside(model=name, why="never published; select it to include it"))
    outside = scope_of(case).outside
    assert set(outside) == expected
    assert len(outside) == len(expected)
    if case.downstream:
        assert not restating


def test_a_restated_slice_takes_along_the_days_that_look_back_on_it() -> None:
    graph = a_graph(
        a_model("m.a", "raw.s"),
        a_model("m.b", an_input("m.a", lookback=6)),
        a_model("m.c", an_input("m.b", lookahead=1)),
    )
    published = {name: days("2026-01-01..2026-01-20") for name in graph.models}
    scope = spread(graph, {"m.a": days("2026-01-10")}, published, downstream=True)
    assert {name: slices.text for name, slices in scope.slices.items()} == {
        "m.a": "2026-01-10",
        "m.b": "2026-01-10..2026-01-16",
        "m.c": "2026-01-09..2026-01-16",
    }


def test_a_model_that_is_read_whole_and_restates_takes_every_published_slice_along() -> None:
    graph = a_graph(a_model("m.a", "raw.s"), a_model("m.b", an_input("m.a", None, on_change=OnChange.RESTATE)))
    published = {"m.b": days("2026-01-01..2026-01-03")}
    scope = spread(graph, {"m.a": days("2026-01-10")}, published, downstream=True)
    assert scope.slices["m.b"] == days("2026-01-01..2026-01-03")
    assert scope.outside == ()


def test_a_model_can_not_be_read_by_another_column_than_its_slices() -> None:
    """Else nobody could say which of its readers' slices a restated slice touches."""
    with pytest.raises(ProjectInvalid, match="its slices go by d") as refused:
        a_graph(a_model("m.a", "raw.s"), a_model("m.b", an_input("m.a", "shipped")))
    assert "time: d" in refused.value.next
    a_graph(a_model("m.a", "raw.s"), a_model("m.b", an_input("m.a", "D"), an_input("m.a", None, name="w")))


# ── which range is asked for ──────────────────────────────────────────────────────────────────────────────────────


@given(st.dates(date(2020, 1, 1), date(2026, 1, 22)), st.integers(0, 500))
def test_a_range_up_to_today_is_asked_for_as_written(end: date, length: int) -> None:
    start = end - timedelta(days=length)
    assert asked_interval(start, end, NOW) == Interval.of_edges(start, end)


def test_an_end_before_its_start_is_refused_with_both_swapped() -> None:
    with pytest.raises(BadArguments, match="--end 2026-01-01 is before --start 2026-01-02") as refused:
        asked_interval(date(2026, 1, 2), date(2026, 1, 1), NOW)
    assert "--start 2026-01-01 --end 2026-01-02" in refused.value.next


@pytest.mark.parametrize("end", [date(2026, 1, 23), date(9999, 12, 31)])
def test_a_range_into_the_future_is_refused_with_the_last_day_that_has_begun(end: date) -> None:
    model, seen = a_model("m.m", "raw.a"), world(a=days("2026-01-03..2026-01-09"))
    for start in (date(2026, 1, 1), None):
        with pytest.raises(BadArguments, match="is in the future") as refused:
            asked_or_default(model, start, end, a_graph(model), seen, NOW)
        assert "2026-01-22" in refused.value.next


def test_a_day_begins_at_midnight_utc() -> None:
    midnight = datetime(2026, 1, 22, tzinfo=UTC)
    assert asked_interval(date(2026, 1, 22), date(2026, 1, 22), midnight)
    with pytest.raises(BadArguments, match="future"):
        asked_interval(date(2026, 1, 22), date(2026, 1, 22), midnight - timedelta(microseconds=1))


def world(published: dict[str, SliceSet] | None = None, **contents: SliceSet) -> World:
    """Sources `raw.<name>` with one file a slice."""
    return World(
        facts={f"raw.{name}": facts(f"raw.{name}") for name in contents},
        contents={(f"raw.{name}", "d", DAY): held(slices) for name, slices in contents.items()},
        published=published or {},
    )


SPANS = st.tuples(st.integers(0, 20), st.integers(0, 20)).map(lambda s: SliceSet.span(DAY, s[0], s[0] + s[1]))
FAR = datetime(2030, 1, 1, tzinfo=UTC)


@given(SPANS, SPANS, st.integers(0, 3), st.integers(0, 3))
def test_the_default_range_is_the_widest_whose_reads_all_inputs_hold(
    a: SliceSet, b: SliceSet, back: int, ahead: int
) -> None:
    model = a_model("m.m", an_input("raw.a", lookback=back, lookahead=ahead), "raw.b", an_input("raw.whole", None))
    seen = world(a=a, b=b)
    fits = [o for o in range(-5, 50) if not (model.inputs[0].read_by(of(o), DAY) - a) and not (of(o) - b)]
    start, end = (
        DAY.ordinal(default_start(model, a_graph(model), seen)),
        DAY.ordinal(default_end(model, a_graph(model), seen, FAR)),
    )
    assert list(range(start, end + 1)) == fits


def test_the_default_range_begins_where_the_model_says_and_ends_today() -> None:
    seen = world(a=days("2025-01-01..2027-01-01"))
    model = a_model("m.m", "raw.a", start=date(2020, 5, 1))
    assert default_start(model, a_graph(model), seen) == date(2020, 5, 1)
    assert default_end(model, a_graph(model), seen, NOW) == date(2026, 1, 22)


def test_the_default_range_over_a_model_is_what_was_published_or_is_planned_of_it() -> None:
    model = a_model("m.m", "m.upstream")
    seen = world(published={"m.upstream": days("2026-01-03..2026-01-05")})
    assert default_start(model, a_graph(model), seen) == date(2026, 1, 3)
    assert default_end(model, a_graph(model), seen, NOW) == date(2026, 1, 5)


@pytest.mark.parametrize("model", [a_model("m.m", an_input("raw.a", None)), a_model("m.m", "raw.a"), a_model("m.m")])
def test_where_the_inputs_do_not_tell_the_range_it_is_asked_for(model: Model) -> None:
    with pytest.raises(BadArguments, match="where history begins") as refused:
        default_start(model, a_graph(model), world(a=of()))
    assert "--start" in refused.value.next
    with pytest.raises(BadArguments, match="where history ends") as refused:
        default_end(model, a_graph(model), world(a=of()), NOW)
    assert "--end" in refused.value.next


def test_a_date_that_is_left_out_is_the_models_own_and_one_that_leaves_nothing_is_explained() -> None:
    seen, model = world(a=days("2026-01-03..2026-01-09")), a_model("m.m", "raw.a")
    first, last = date(2026, 1, 4), date(2026, 1, 8)
    for start, end, days_meant in (
        (None, None, (date(2026, 1, 3), date(2026, 1, 9))),
        (first, None, (first, date(2026, 1, 9))),
        (None, last, (date(2026, 1, 3), last)),
        (first, last, (first, last)),
    ):
        assert asked_or_default(model, start, end, a_graph(model), seen, NOW) == Interval.of_edges(*days_meant)
    with pytest.raises(Refused, match="--start is 2026-01-10, and its inputs hold nothing after 2026-01-09"):
        asked_or_default(model, date(2026, 1, 10), None, a_graph(model), seen, NOW)
    with pytest.raises(Refused, match="its history begins on 2026-01-03, and --end is 2026-01-02"):
        asked_or_default(model, None, date(2026, 1, 2), a_graph(model), seen, NOW)
    apart = world(a=days("2026-01-03"), b=days("2026-01-09"))
    with pytest.raises(Refused, match="its history begins on 2026-01-09, and its inputs hold nothing after 2026-01-03"):
        asked_or_default(
            a_model("m.m", "raw.a", "raw.b"), None, None, a_graph(a_model("m.m", "raw.a", "raw.b")), apart, NOW
        )
    with pytest.raises(BadArguments, match="is before --start"):
        asked_or_default(model, last, first, a_graph(model), seen, NOW)


def test_nothing_is_planned_before_a_model_begins() -> None:
    model = a_model("m.m", "raw.a", start=date(2026, 1, 3))
    asked = days("2026-01-01..2026-01-05")
    assert since_start(model, asked) == days("2026-01-03..2026-01-05")
    assert since_start(a_model("m.n", "raw.a"), asked) == asked
    with pytest.raises(Refused, match=r"m\.m begins on 2026-01-03"):
        since_start(model, days("2026-01-01..2026-01-02"))


# ── one model's share ─────────────────────────────────────────────────────────────────────────────────────────────


def planned(
    model: Model, slices: SliceSet, seen: World, *others: Model, also: dict[str, SliceSet] | None = None, **more: int
) -> PlannedModel:
    scope = Scope(slices={model.name: slices, **(also or {})}, selected=frozenset({model.name}))
    return plan_model(
        model, scope, a_graph(model, *others), seen, NOW, more.get("wave"), limit=more.get("limit", WAVE_BYTES)
    )


def test_a_planned_input_says_what_is_read_and_what_is_there() -> None:
    model = a_model("m.m", an_input("raw.a", lookback=1), an_input("raw.whole", None))
    seen = world(a=days("2026-01-01..2026-01-20"))
    seen = replace(
        seen,
        facts={**seen.facts, "raw.whole": facts("raw.whole", snapshot_id=7)},
        contents={**seen.contents, ("raw.whole", None, WHOLE): TableContents(grain=DAY, files=(a_file("w", None),))},
    )
    share = planned(model, days("2026-01-05..2026-01-06"), seen)
    assert share.role is Role.SELECTED
    a, whole = share.inputs
    assert (a.slices, a.files, a.rows, a.bytes) == (days("2026-01-04..2026-01-06"), 3, 30, 300)
    assert (a.origin, a.snapshot_id, a.missing) == (Origin.SOURCE, 1, of())
    assert a.content == seen.contents["raw.a", "d", DAY].of(a.slices).digest
    assert (whole.slices, whole.missing, whole.files, whole.snapshot_id) == (None, None, 1, 7)


@pytest.mark.parametrize(
    ("there", "asked", "missing"),
    [("2026-01-01..2026-01-20", "2026-01-02..2026-01-20", ""), ("2026-01-01..2026-01-20", "2026-01-01", "2025-12-31"),
     ("2026-01-01, 2026-01-03", "2026-01-02..2026-01-04", "2026-01-02, 2026-01-04"),
     ("", "2026-01-02", "2026-01-01..2026-01-02")],
)  # fmt: skip
def test_slices_that_an_input_does_not_hold_are_missing(there: str, asked: str, missing: str) -> None:
    model = a_model("m.m", an_input("raw.a", lookback=1))
    assert planned(model, days(asked), world(a=days(there))).inputs[0].missing == days(missing)


def test_slices_older_than_a_source_keeps_are_missing_though_some_rows_may_be_left() -> None:
    seen = replace(world(a=days("2025-12-01..2026-01-22")), sources={"raw.a": Source(name="raw.a", keeps_days=10)})
    share = planned(a_model("m.m", "raw.a"), days("2026-01-10..2026-01-14"), seen)
    # Ten days before noon on the 22nd is noon on the 12th: what is left of that day still counts.
    assert share.inputs[0].missing == days("2026-01-10..2026-01-11")


def test_slices_that_the_same_plan_makes_are_not_missing_and_not_part_of_the_content() -> None:
    upstream = a_model("m.u", "raw.a")
    model = a_model("m.m", an_input("m.u", lookback=1))
    seen = world(a=days("2026-01-01..2026-01-20"), published={"m.u": days("2026-01-01..2026-01-10")})
    there = held(days("2026-01-01..2026-01-10"))
    seen = replace(
        seen, contents={**seen.contents, ("m.u", "d", DAY): there}, facts={**seen.facts, "m.u": facts("m.u")}
    )
    share = planned(model, days("2026-01-10..2026-01-13"), seen, upstream, also={"m.u": days("2026-01-10..2026-01-12")})
    read = share.inputs[0]
    assert read.origin is Origin.RUN
    assert read.missing == days("2026-01-13")
    assert read.content == there.of(days("2026-01-09")).digest


def test_a_slice_of_a_model_that_was_published_empty_is_there() -> None:
    upstream, model = a_model("m.u", "raw.a"), a_model("m.m", "m.u")
    seen = World(
        facts={"m.u": facts("m.u")},
        contents={("m.u", "d", DAY): held(days("2026-01-01, 2026-01-03"))},
        published={"m.u": days("2026-01-01..2026-01-03")},
    )
    share = planned(model, days("2026-01-01..2026-01-04"), seen, upstream)
    assert share.inputs[0].origin is Origin.MODEL
    assert share.inputs[0].missing == days("2026-01-04")


def test_a_slice_that_is_not_over_yet_is_open() -> None:
    seen = world(a=days("2026-01-01..2026-01-22"))
    assert planned(a_model("m.m", "raw.a"), days("2026-01-20..2026-01-22"), seen).open == days("2026-01-22")
    assert planned(a_model("m.m", "raw.a"), days("2026-01-20..2026-01-21"), seen).open == of()


@pytest.mark.parametrize(
    ("more", "wave", "sizes"),
    [
        ({}, None, [7]),
        ({"replay": Replay(wave=3)}, None, [3, 3, 1]),
        ({"replay": Replay(wave=3)}, 5, [5, 2]),
        ({"batching": Batching(reasons=("LIMIT",))}, 5, [1] * 7),
        ({"batching": Batching(reasons=("LIMIT",), vouched=True)}, 5, [5, 2]),
        ({"query": Query(text="SELECT :start_ts", references=(), parameters=frozenset({"start_ts"}))}, None, [4, 3]),
        ({"query": Query(text="SELECT :run_ts", references=(), parameters=frozenset({"run_ts"}))}, None, [7]),
    ],
)
def test_waves_are_as_long_as_the_model_the_command_and_the_sql_allow(
    more: dict[str, object], wave: int | None, sizes: list[int]
) -> None:
    seen = world(a=days("2026-01-01..2026-01-20"))
    model = a_model("m.m", "raw.a", **more)
    scope = Scope(slices={"m.m": days("2026-01-01..2026-01-04, 2026-01-10..2026-01-12")}, selected=frozenset())
    share = plan_model(model, scope, a_graph(model), seen, NOW, wave)
    assert [len(w) for w in share.waves] == sizes
    assert share.one_by_one == (() if model.batching.is_sliceable else ("LIMIT",))
    assert share.role is Role.DOWNSTREAM


def test_waves_are_cut_by_the_bytes_that_each_slice_reads() -> None:
    contents = {("raw.a", "d", DAY): held(days("2026-01-01..2026-01-08"), bytes=2**30)}
    seen = World(facts={"raw.a": facts("raw.a")}, contents=contents, published={})
    share = planned(a_model("m.m", "raw.a"), days("2026-01-01..2026-01-08"), seen)
    assert [len(wave) for wave in share.waves] == [4, 4]
    whole = planned(a_model("m.m", "raw.a"), days("2026-01-01..2026-01-08"), seen, limit=8 * 2**30)
    assert [len(wave) for wave in whole.waves] == [8]
    # What a slice looks back on is read once for the whole wave; what is read through two inputs is read twice.
    looks_back = a_model("m.m", an_input("raw.a", lookback=1))
    share = planned(looks_back, days("2026-01-02..2026-01-08"), seen)
    assert [len(wave) for wave in share.waves] == [3, 3, 1]
    twice = a_model("m.m", an_input("raw.a", name="a"), an_input("raw.a", name="b"))
    share = planned(twice, days("2026-01-01..2026-01-08"), seen)
    assert [len(wave) for wave in share.waves] == [2, 2, 2, 2]


def test_slices_of_one_big_file_are_not_read_one_by_one() -> None:
    january = days("2026-01-01..2026-01-31")
    wide = TableContents(
        grain=DAY, files=(a_file("all", january.ordinals[0], january.ordinals[-1], bytes=50 * 2**30), a_file("?", None))
    )
    seen = World(facts={"raw.a": facts("raw.a")}, contents={("raw.a", "d", DAY): wide}, published={})
    assert planned(a_model("m.m", "raw.a"), january, seen).waves == (january,)


# ── whether it may be run ─────────────────────────────────────────────────────────────────────────────────────────


def a_share(name: str = "m.m", **i: object) -> PlannedModel:
    read = PlannedInput(
        name="raw.a", table="raw.a", origin=Origin.SOURCE, slices=days("2026-01-01..2026-01-09"), snapshot_id=1,
        files=1, rows=10, bytes=1000, content="c", missing=of(),
    )  # fmt: skip
    return PlannedModel(
        name=name, role=Role.SELECTED, slices=days("2026-01-01..2026-01-09"), waves=(), open=of(), is_new=False,
        fingerprint="f", inputs=(replace(read, **i),), gates=(), consumers=(),
    )  # fmt: skip


def test_holes_are_named_with_who_reads_them_and_refused_unless_allowed() -> None:
    shares = [
        a_share(missing=days("2026-01-02..2026-01-03, 2026-01-05")),
        a_share("m.whole", slices=None, missing=None),
    ]
    require_inputs(shares, allow_missing=True)
    require_inputs(shares[1:], allow_missing=False)
    with pytest.raises(Refused) as refused:
        require_inputs(shares, allow_missing=False)
    assert "raw.a has no data for 2026-01-02..2026-01-03, 2026-01-05 (3 slices) (m.m reads it)" in refused.value.message
    assert "--allow-missing-source" in refused.value.next


def test_many_holes_are_abridged() -> None:
    scattered = SliceSet.of(DAY, (day("2020-01-01") + 2 * n for n in range(1000)))
    with pytest.raises(Refused) as refused:
        require_inputs([a_share(missing=scattered)], allow_missing=False)
    assert "and 995 more ranges (1,000 slices)" in refused.value.message
    assert len(refused.value.message) < 300


# ── what the reviewer should know ─────────────────────────────────────────────────────────────────────────────────


def test_notes_tell_what_the_numbers_do_not() -> None:
    model = a_model("m.m", "raw.a", start=date(2026, 1, 2))
    seen = world(a=days("2026-01-01..2026-01-09"))
    wide = TableContents(grain=DAY, files=(a_file("w", day("2026-01-01"), day("2026-01-09")),))
    seen = replace(seen, contents={("raw.a", "d", DAY): wide})
    share = replace(a_share(null_rows=1234, missing=days("2026-01-03")), is_new=True, open=days("2026-01-22"))
    notes = notes_of([share, share], a_graph(model), Interval.of_edges(date(2026, 1, 1), date(2026, 1, 22)), seen)
    assert notes == (
        "m.m begins on 2026-01-02 (`slices.start`): nothing before is planned for it",
        "m.m doesn't exist yet: it is made, empty, when staging begins",
        "m.m: 2026-01-22 isn't over yet (open)",
        "raw.a has no data for 2026-01-03 (1 slice): allowed by --allow-missing-source",
        "raw.a: 1,234 rows without a time are in no slice",
        "raw.a isn't partitioned by day: rows and bytes are upper bounds",
    )


def test_a_plan_with_nothing_to_say_has_no_notes() -> None:
    interval = Interval.of_edges(date(2026, 1, 1), date(2026, 1, 9))
    seen = world(a=days("2026-01-01..2026-01-09"))
    assert notes_of([a_share()], a_graph(a_model("m.m", "raw.a")), interval, seen) == ()


@pytest.mark.parametrize(
    ("model", "name"),
    [("mart.fct_daily_revenue", "fct_daily_revenue"), ("mart.Größe der Tabelle!", "gr_e_der_tabelle"),
     ("mart.東京", "model"), ("mart." + "x" * 90, "x" * 60)],
)  # fmt: skip
def test_an_id_is_made_of_the_day_the_model_and_the_suffix_in_plain_letters(model: str, name: str) -> None:
    assert plan_id(NOW, a_model(model, "raw.a"), "k3f9") == f"20260122_{name}_k3f9"


def a_chain(lookback: int = 1) -> Graph:
    return a_graph(
        a_model("m.balance", "raw.s", an_input("m.balance", lookback=lookback, is_own=True)),
        a_model("m.report", "m.balance"),
    )


@given(st.sets(st.integers(0, 30), min_size=1), st.sets(st.integers(0, 30)), st.integers(1, 4), st.booleans())
def test_restating_a_slice_of_a_model_that_reads_itself_restates_every_later_one(
    asked: set[int], shown: set[int], lookback: int, downstream: bool
) -> None:
    found = spread(a_chain(lookback), {"m.balance": of(*asked)}, {"m.balance": of(*shown)}, downstream=downstream)
    slices = found.slices["m.balance"]
    assert slices == SliceSet.span(DAY, min(asked), max(asked | shown))
    assert found.carried["m.balance"] == slices - of(*asked)
    assert not any(outside.model == "m.balance" for outside in found.outside)


def test_what_reads_a_chain_is_restated_along_with_it() -> None:
    shown = {"m.balance": days("2026-01-01..2026-01-20"), "m.report": days("2026-01-01..2026-01-20")}
    found = spread(a_chain(), {"m.balance": days("2026-01-05")}, shown, downstream=True)
    assert found.slices["m.report"] == days("2026-01-05..2026-01-20")
    (note,) = carried_notes(found)
    assert note.startswith("m.balance: 2026-01-06..2026-01-20 (15 slices) restated too")


@given(st.integers(-50, 50), st.integers(1, 5))
def test_a_slice_reads_of_its_own_table_what_lies_before_it_and_its_readers_lie_after(
    slice: int, lookback: int
) -> None:
    own = an_input("m.balance", lookback=lookback, is_own=True)
    assert own.read_by(of(slice), DAY) == SliceSet.span(DAY, slice - lookback, slice - 1)
    assert own.readers_of(of(slice), DAY) == SliceSet.span(DAY, slice + 1, slice + lookback)


def test_what_is_read_as_it_was_is_neither_restated_nor_stale() -> None:
    graph = a_graph(a_model("m.a", "raw.s"), a_model("m.b", an_input("m.a", at_slice_end=True)))
    shown = {"m.a": days("2026-01-01..2026-01-20"), "m.b": days("2026-01-01..2026-01-20")}
    found = spread(graph, {"m.a": days("2026-01-05")}, shown, downstream=True)
    assert found.slices == {"m.a": days("2026-01-05")}
    assert found.outside == ()
