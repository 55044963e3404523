"""Which snapshot a slice reads of a table that is read as it was when the slice ended."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retcon.core.plans import Origin, PlannedInput
from retcon.core.slices import SliceSet
from retcon.core.versions import require_past_alone, versions_of
from retcon.errors import Refused
from tests.core.examples import DAY, a_graph, a_model, an_input, day, days, facts

START = datetime(2026, 1, 1, tzinfo=UTC)
NOW = datetime(2026, 1, 22, 12, tzinfo=UTC)
PRICES = an_input("raw.prices", None, at_slice_end=True)
MODEL = a_model("m.m", PRICES)


@given(st.lists(st.integers(0, 22 * 24), min_size=1, unique=True), st.sets(st.integers(0, 21), min_size=1))
def test_each_slice_reads_the_last_commit_before_its_end(hours: list[int], asked: set[int]) -> None:
    commits = sorted(hours)
    history = tuple((START + timedelta(hours=hour), number) for number, hour in enumerate(commits, start=1))
    table = replace(facts("raw.prices"), history=history, snapshot_id=len(commits))
    slices = SliceSet.of(DAY, (day("2026-01-01") + each for each in asked))
    expected = {}
    for slice in slices:
        seen = (
            [n for moment, n in history if moment < slice.interval.end] if slice.interval.end <= NOW else [len(commits)]
        )
        expected[slice.ordinal] = seen[-1] if seen else None
    if None in expected.values():
        with pytest.raises(Refused, match="which nobody knows"):
            versions_of(MODEL, PRICES, slices, table, NOW)
        return
    versions = versions_of(MODEL, PRICES, slices, table, NOW)
    assert {ordinal: v.snapshot_id for v in versions for ordinal in v.slices.ordinals} == expected
    planned = PlannedInput(
        name="raw.prices", table="raw.prices", origin=Origin.SOURCE, slices=None, snapshot_id=1, files=0, rows=0,
        bytes=0, content="", versions=versions,
    )  # fmt: skip
    assert all(planned.version_for(SliceSet(DAY, (o,))) == snapshot for o, snapshot in expected.items())


def test_what_was_before_the_oldest_snapshot_is_refused_with_the_moment_since_when_it_is_known() -> None:
    table = replace(facts("raw.prices"), history=((START + timedelta(days=3, hours=7), 1),))
    with pytest.raises(Refused, match=r"at the end of 2026-01-02\.\.2026-01-03, .* since 2026-01-04 07:00 UTC"):
        versions_of(MODEL, PRICES, days("2026-01-02..2026-01-05"), table, NOW)
    with pytest.raises(Refused, match="its history is empty"):
        versions_of(MODEL, PRICES, days("2026-01-02"), replace(facts("raw.prices"), history=()), NOW)


def test_a_plan_doesnt_rewrite_a_model_whose_past_it_reads() -> None:
    graph = a_graph(a_model("m.a", "raw.s"), a_model("m.b", an_input("m.a", at_slice_end=True)))
    require_past_alone({"m.b": days("2026-01-02")}, graph)
    with pytest.raises(Refused, match=r"m\.b reads m\.a as it was"):
        require_past_alone({"m.a": days("2026-01-02"), "m.b": days("2026-01-02")}, graph)
