"""Migrations: which slices are compared, what is refused, what is told of a difference."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retcon.core.measures import FullRefresh, SliceMeasure
from retcon.core.migrations import (
    ComparedSlice,
    Comparison,
    Cost,
    last_days,
    likely_reasons,
    lost_notes,
    require_migratable,
    suspects,
)
from retcon.core.models import Model, Replay, Slicing, Strategy
from retcon.core.queries import Batching, Query
from retcon.core.slices import WHOLE, Grain, SliceSet
from retcon.errors import Refused
from tests.core.examples import a_model, an_input, days

NOW = datetime(2026, 1, 22, 12, tzinfo=UTC)


@given(
    grain=st.sampled_from(list(Grain)),
    ordinals=st.sets(st.integers(0, 2000), max_size=40),
    number=st.integers(1, 400),
    now=st.datetimes(datetime(1970, 1, 1), datetime(1990, 1, 1)).map(lambda d: d.replace(tzinfo=UTC)),
)
def test_the_last_days_are_held_over_and_reach_back_that_far(
    grain: Grain, ordinals: set[int], number: int, now: datetime
) -> None:
    held = SliceSet.of(grain, ordinals)
    chosen = last_days(held, number, now)
    over = [slice for slice in held if slice.interval.end <= now]
    assert list(chosen) == over[len(over) - len(chosen) :], "the last of those that are over"
    assert bool(chosen) == bool(over)
    if over:
        begins = over[-1].interval.end - timedelta(days=number)
        assert {slice.interval.end > begins for slice in chosen} == {True}
        assert all(slice.interval.end <= begins for slice in over if slice not in chosen)


def test_days_count_from_the_last_one_that_is_over() -> None:
    assert last_days(days("2026-01-01..2026-01-22"), 3, NOW).text == "2026-01-19..2026-01-21"
    assert last_days(days("2026-01-01..2026-01-02"), 30, NOW).text == "2026-01-01..2026-01-02"
    months = SliceSet.parse(Grain.MONTH, "2025-09..2026-01")
    assert last_days(months, 40, NOW).text == "2025-11..2025-12", "a slice is compared as a whole"
    hours = SliceSet.parse(Grain.HOUR, "2026-01-20T00..2026-01-22T12")
    assert last_days(hours, 1, NOW).text == "2026-01-21T12..2026-01-22T11"


@pytest.mark.parametrize(
    ("model", "why"),
    [
        (a_model("mart.m", "raw.s", strategy=Strategy.FULL), "strategy: full"),
        (a_model("mart.m", "raw.s", strategy=Strategy.MERGE, key=("d",)), "strategy: merge"),
        (a_model("mart.m", an_input("mart.m", lookback=1, is_own=True)), "reads its own earlier slices"),
        (a_model("mart.m", an_input("raw.s", at_slice_end=True)), "raw.s as it was when each slice ended"),
    ],
)
def test_what_isnt_the_same_table_by_design_is_refused(model: Model, why: str) -> None:
    with pytest.raises(Refused, match=why):
        require_migratable(model)


def test_a_model_that_isnt_cut_by_time_is_refused_with_what_to_write() -> None:
    whole = Model(
        name="mart.m", path="models/mart/m.sql", query=Query(text="", references=()), batching=Batching(),
        slicing=Slicing(by=None, every=WHOLE), inputs=(an_input("raw.s"),), fingerprint="x",
    )  # fmt: skip
    with pytest.raises(Refused, match="isn't cut by time") as refused:
        require_migratable(whole)
    assert "models/mart/m.sql" in refused.value.next
    require_migratable(a_model("mart.m", "raw.s"))


def measure(checksum: str, rows: int = 1) -> SliceMeasure:
    return SliceMeasure(rows=rows, checksum=checksum)


def compared(*apart: int, unsliced: int = 0) -> Comparison:
    slices = days("2026-01-01..2026-01-03")
    return Comparison(
        model="mart.m",
        run="r",
        slices=tuple(
            ComparedSlice(slice=at, incremental=measure("a"), full=measure("b"), apart=rows)
            for at, rows in zip(slices, apart, strict=True)
        ),
        full_rows=3,
        unsliced=unsliced,
        cost=Cost(incremental=1.0, waves=1, full=1.0),
    )


def test_it_is_the_same_where_no_row_is_apart_and_every_row_is_in_a_slice() -> None:
    assert compared(0, 0, 0).is_same, "checksums of floating sums may differ"
    assert compared(0, 2, 0).differing.text == "2026-01-02"
    assert not compared(0, 2, 0).is_same
    assert not compared(0, 0, 0, unsliced=1).is_same


def test_only_slices_with_other_checksums_are_looked_at_row_by_row() -> None:
    first, second = days("2026-01-01..2026-01-02")
    full = FullRefresh(slices={first: measure("a"), second: measure("b")}, rows=2, unsliced=0)
    assert suspects({first: measure("a"), second: measure("x")}, full).text == "2026-01-02"


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({}, "raw.s is read with lookback 2:"),
        ({"batching": Batching(reasons=("the window sees all days",))}, "the window sees all days: so slices"),
        ({"batching": Batching(reasons=("a join",), vouched=True)}, "a join: against `sliceable: true`"),
        ({"query": Query(text="", references=(), parameters=frozenset({"start_date"}))}, "`:start_date`"),
        ({"nondeterministic": "a sample"}, "by its own word: a sample"),
    ],
)
def test_a_difference_comes_with_where_it_may_come_from(more: dict[str, Any], said: str) -> None:
    model = a_model("mart.m", an_input("raw.s", lookback=2), **more)
    assert any(said in reason for reason in likely_reasons(model, unsliced=0))
    assert "7 rows of the full refresh have no d" in next(likely_reasons(model, unsliced=7))


def test_what_loads_wont_do_is_told() -> None:
    model = a_model("mart.m", "raw.s", an_input("raw.dim", None), replay=Replay(window_days=90))
    ignored, window = lost_notes(model)
    assert ignored.startswith("raw.dim: ")
    assert "90 days" in window
    assert not list(lost_notes(a_model("mart.m", "raw.s")))
