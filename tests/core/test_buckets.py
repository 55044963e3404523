"""Buckets: slices by a hash of an entity."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retcon.core.intervals import Interval, midnight
from retcon.core.models import Model, OnChange, Slicing
from retcon.core.planning import not_made_here, spread
from retcon.core.schemas import require_aligned, require_same_hashes
from retcon.core.slices import WHOLE, Buckets, SliceSet, cut_of
from retcon.errors import ProjectInvalid, Refused
from tests.core.examples import DAY, a_graph, a_model, an_input, days, facts

NUMBERS = st.integers(1, 10_000)


@st.composite
def bucket_sets(draw: st.DrawFn) -> SliceSet:
    cut = Buckets(draw(NUMBERS))
    return SliceSet.of(cut, draw(st.lists(st.integers(0, cut.number - 1), max_size=40)))


@given(bucket_sets())
def test_labels_and_names_of_cuts_are_read_back(slices: SliceSet) -> None:
    assert cut_of(str(slices.grain)) == slices.grain
    assert SliceSet.parse(slices.grain, slices.text) == slices
    assert sorted(slice.label for slice in slices) == [slice.label for slice in slices]


@given(NUMBERS)
def test_a_range_of_time_means_every_bucket_and_every_bucket_means_the_whole_table(number: int) -> None:
    every = SliceSet.every(Buckets(number))
    assert len(every) == number
    range = Interval(midnight(days("2026-01-01").hull().start.date()), midnight(days("2026-01-03").hull().start.date()))
    assert SliceSet.covering(Buckets(number), range) == every
    assert days("2026-01-01").recut(Buckets(number)) == every
    assert every.recut(WHOLE) == SliceSet.every(WHOLE)


@pytest.mark.parametrize("label", ["b4", "b-1", "4", "b04", "bx", "2026-01-01"])
def test_a_label_of_no_bucket_is_refused(label: str) -> None:
    with pytest.raises(ValueError, match="isn't one of 4 buckets, b0 to b3"):
        Buckets(4).parse(label)


def bucketed(name: str, source: str, *, number: int = 4, by: str = "id", key: str | None = "id") -> Model:
    i = an_input(source, None, key=key, on_change=OnChange.RESTATE)
    return replace(a_model(name, i), slicing=Slicing(by=by, every=Buckets(number)))


def test_a_bucket_is_restated_by_the_same_bucket_alone_and_by_every_one_where_they_are_cut_otherwise() -> None:
    graph = a_graph(
        bucketed("m.a", "raw.s"),
        bucketed("m.same", "m.a"),
        bucketed("m.other_number", "m.a", number=8),
        bucketed("m.other_column", "m.a", key="other", by="other"),
        a_model("m.daily", an_input("m.a", None, on_change=OnChange.RESTATE)),
    )
    published = {
        name: SliceSet.every(model.grain) if isinstance(model.grain, Buckets) else days("2026-01-01..2026-01-05")
        for name, model in graph.models.items()
    }
    scope = spread(graph, {"m.a": SliceSet.parse(Buckets(4), "b1")}, published, downstream=True)
    assert {name: slices.text for name, slices in scope.slices.items()} == {
        "m.a": "b1",
        "m.same": "b1",
        "m.other_number": "b0..b7",
        "m.other_column": "b0..b3",
        "m.daily": "2026-01-01..2026-01-05",
    }


def test_what_is_cut_otherwise_may_hold_anything_of_what_a_plan_makes() -> None:
    buckets = SliceSet.parse(Buckets(4), "b1..b2")
    assert not_made_here(buckets, SliceSet.parse(Buckets(4), "b2")).text == "b1"
    assert not_made_here(buckets, days("2026-01-01")) == buckets
    assert not_made_here(days("2026-01-01"), buckets) == days("2026-01-01")


def test_buckets_are_not_read_by_a_time() -> None:
    with pytest.raises(ProjectInvalid, match=r"reads the model m\.a by id, but its slices are 4 buckets of id"):
        a_graph(bucketed("m.a", "raw.s"), a_model("m.b", an_input("m.a", "id")))


def test_a_table_must_be_partitioned_by_its_buckets_alone() -> None:
    model = bucketed("m.a", "raw.s")
    columns = (("id", "bigint"), ("d", "date"))
    require_aligned(model, facts("m.a", columns, by=(("ID", "bucket[4]"),)))
    for by in ((("id", "bucket[8]"),), (("d", "bucket[4]"),), (), (("id", "bucket[4]"), ("d", "day"))):
        with pytest.raises(Refused, match="the model is sliced by id into 4 buckets"):
            require_aligned(model, facts("m.a", columns, by=by))


@pytest.mark.parametrize(
    ("kind", "fits"), [("bigint", True), ("int", True), ("string", False), ("decimal(10,0)", False)]
)
def test_the_same_buckets_of_another_type_are_refused(kind: str, fits: bool) -> None:
    model = bucketed("m.a", "raw.s")
    tables = {
        "m.a": facts("m.a", (("id", "bigint"),), by=(("id", "bucket[4]"),)),
        "raw.s": facts("raw.s", (("id", kind),), by=(("id", "bucket[4]"),)),
    }
    if fits:
        require_same_hashes(model, tables)
    else:
        with pytest.raises(Refused, match="the same key isn't in the same bucket of both"):
            require_same_hashes(model, tables)
    require_same_hashes(model, {**tables, "raw.s": facts("raw.s", (("id", kind),), by=(("id", "bucket[8]"),))})


def test_keys_that_a_join_finds_equal_are_in_one_bucket_or_refused() -> None:
    model = bucketed("m.a", "raw.s")
    own = facts("m.a", (("id", "string"),), by=(("id", "bucket[4]"),))
    require_same_hashes(model, {"m.a": own, "raw.s": facts("raw.s", (("id", "string"),))})
    with pytest.raises(Refused, match=r"its id is string, and raw\.s\.id is bigint"):
        require_same_hashes(model, {"m.a": own, "raw.s": facts("raw.s", (("id", "bigint"),))})


def test_days_stay_days() -> None:
    assert cut_of("day") is DAY
