"""The one builder of slice predicates: its SQL, run by SQLite, must hold for exactly the rows of the slices."""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing
from datetime import date, datetime, timedelta
from math import log2

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from retcon.core.slices import WHOLE, Grain, Slice, SliceSet
from retcon.lakehouse.predicates import balanced, slice_at, slice_predicate

DAY = Grain.DAY
FIRST, LAST = DAY.ordinal(date(1, 1, 2)), DAY.ordinal(date(9999, 12, 30))
BASES = st.sampled_from([FIRST, -20, DAY.ordinal(date(999, 12, 20)), DAY.ordinal(date(2024, 2, 20)), LAST - 90])
SETS = st.builds(
    lambda base, offsets: SliceSet.of(DAY, (base + offset for offset in offsets)),
    BASES,
    st.sets(st.integers(0, 60), max_size=40) | st.integers(0, 60).map(lambda n: set(range(n))),
)


def rows_where(predicate: str, moments: list[str], column: str = "d") -> list[str]:
    """The moments for which the predicate holds, literals taken as text of fixed width."""
    text = re.sub(r"(DATE|TIMESTAMP_NTZ|TIMESTAMP) '([^']*?)( UTC)?'", r"'\2'", predicate)
    with closing(sqlite3.connect(":memory:")) as connection:
        name = "`" + column.replace("`", "``") + "`"
        connection.execute(f"CREATE TABLE t ({name} TEXT)")
        connection.executemany("INSERT INTO t VALUES (?)", [(moment,) for moment in moments])
        return [found for (found,) in connection.execute(f"SELECT {name} FROM t WHERE {text}")]


def around(slices: SliceSet) -> range:
    """Every day of the slices, and some before and after."""
    low, high = (slices.ordinals[0], slices.ordinals[-1]) if slices else (0, 0)
    return range(max(FIRST, low - 5), min(LAST, high + 5) + 1)


@given(SETS)
@settings(deadline=None, max_examples=60)
def test_a_predicate_on_dates_holds_for_exactly_the_days_of_the_slices(slices: SliceSet) -> None:
    found = rows_where(slice_predicate("d", "date", slices), [DAY.label(o) for o in around(slices)])
    assert found == [slice.label for slice in slices]


@pytest.mark.parametrize("kind", ["timestamp", "timestamp_ntz"])
@given(slices=SETS)
@settings(deadline=None, max_examples=40)
def test_a_predicate_on_timestamps_holds_for_exactly_the_moments_of_the_slices(kind: str, slices: SliceSet) -> None:
    moments = {
        f"{DAY.label(o)} {clock}": o
        for o in around(slices)
        for clock in ("00:00:00", "00:00:00.000001", "12:00:00", "23:59:59.999999")
    }
    found = rows_where(slice_predicate("d", kind, slices), list(moments))
    assert found == [moment for moment, o in moments.items() if o in set(slices.ordinals)]


def test_a_moment_without_a_time_is_in_no_slice() -> None:
    with closing(sqlite3.connect(":memory:")) as connection:
        for kind in ("date", "timestamp"):
            predicate = re.sub("DATE|TIMESTAMP", "", slice_predicate("d", kind, SliceSet.of(DAY, (1, 2, 5))))
            assert connection.execute(f"SELECT ({predicate}) IS TRUE FROM (SELECT NULL AS d)").fetchone() == (0,)


@pytest.mark.parametrize(
    ("kind", "text"),
    [("date", "(`d` >= DATE '2026-01-01' AND `d` < DATE '2026-01-03')"),
     ("timestamp", "(`d` >= TIMESTAMP '2026-01-01 00:00:00 UTC' AND `d` < TIMESTAMP '2026-01-03 00:00:00 UTC')"),
     ("timestamp_ntz", "(`d` >= TIMESTAMP_NTZ '2026-01-01 00:00:00' AND `d` < TIMESTAMP_NTZ '2026-01-03 00:00:00')")],
)  # fmt: skip
def test_literals_say_their_type_and_zone(kind: str, text: str) -> None:
    assert slice_predicate("d", kind, SliceSet.parse(DAY, "2026-01-01..2026-01-02")) == text


def test_years_have_four_digits() -> None:
    first = DAY.ordinal(date(33, 4, 3))
    assert "DATE '0033-04-03'" in slice_predicate("d", "date", SliceSet.of(DAY, (first,)))
    for kind in ("date", "timestamp", "timestamp_ntz"):
        assert "'0033-04-03" in slice_predicate("d", kind, SliceSet.of(DAY, (first, first + 1)))


@pytest.mark.parametrize("kind", ["date", "timestamp", "timestamp_ntz"])
@pytest.mark.parametrize("count", [1, 199, 200, 201, 5000])
def test_scattered_slices_give_short_lists_in_a_shallow_tree(kind: str, count: int) -> None:
    slices = SliceSet.of(DAY, (2 * n for n in range(count)))
    predicate = slice_predicate("d", kind, slices)
    lists = [found.count("DATE") for found in re.findall(r"IN \(([^)]*)\)", predicate)]
    terms = len(lists) + predicate.count(" AND ")
    assert all(length <= 200 for length in lists), "Iceberg stops pruning by longer ones"
    assert sum(lists) == (count if kind == "date" else 0)
    assert terms == (-(-count // 200) if kind == "date" else count)
    assert predicate.count(" OR ") == terms - 1
    assert depth(predicate) <= 2 + log2(terms)
    if kind == "date":
        assert rows_where(predicate, [DAY.label(o) for o in range(2 * count)]) == [s.label for s in slices]


def depth(text: str) -> int:
    """How deep the parentheses are nested."""
    deepest = now = 0
    for character in text:
        now += (character == "(") - (character == ")")
        deepest = max(deepest, now)
    return deepest


def test_ranges_and_lists_stand_beside_each_other() -> None:
    slices = SliceSet.of(DAY, [*range(50), *range(100, 2000, 2), *range(3000, 3100)])
    predicate = slice_predicate("d", "date", slices)
    assert rows_where(predicate, [DAY.label(o) for o in range(-5, 3200)]) == [s.label for s in slices]
    assert depth(predicate) <= 6


def test_no_slices_hold_nothing() -> None:
    assert slice_predicate("d", "date", SliceSet(DAY)) == "false"
    assert rows_where("false", ["2026-01-01"]) == []


@pytest.mark.parametrize("column", ["order date", "a`b", "`", "東京", "d) OR (1=1", 'q"q', "d'; --"])
def test_hostile_column_names_are_quoted(column: str) -> None:
    slices = SliceSet.parse(DAY, "2026-01-02, 2026-01-04..2026-01-05")
    found = rows_where(slice_predicate(column, "date", slices), [f"2026-01-0{n}" for n in range(1, 8)], column)
    assert found == ["2026-01-02", "2026-01-04", "2026-01-05"]


@pytest.mark.parametrize("kind", ["string", "int", ""])
def test_a_column_that_is_no_time_is_refused(kind: str) -> None:
    with pytest.raises(ValueError, match="a date or a timestamp"):
        slice_predicate("d", kind, SliceSet.of(DAY, (1,)))


@given(st.lists(st.integers(0, 1), min_size=1, max_size=70), st.sampled_from(["OR", "AND"]))
@settings(deadline=None, max_examples=60)
def test_a_balanced_tree_means_the_same_as_the_chain(terms: list[int], operator: str) -> None:
    text = balanced(operator, [str(term) for term in terms])
    assert re.findall(r"\d", text) == [str(term) for term in terms]
    assert depth(text) <= 1 + log2(len(terms))
    with closing(sqlite3.connect(":memory:")) as connection:
        expected = max(terms) if operator == "OR" else min(terms)
        assert connection.execute(f"SELECT {text}").fetchone() == (expected,)


def test_the_evaluator_of_these_tests_tells_right_from_wrong() -> None:
    day = datetime(2026, 1, 1).date()
    moments = [(day + timedelta(days=n)).isoformat() for n in range(3)]
    assert rows_where("(`d` >= DATE '2026-01-02' AND `d` < DATE '2026-01-03')", moments) == ["2026-01-02"]


@pytest.mark.parametrize("kind", ["date", "timestamp", "timestamp_ntz"])
@given(
    grain=st.sampled_from(Grain),
    hours=st.sets(st.integers(-5000, 5000), min_size=1, max_size=5),
    others=st.sets(st.integers(-6000, 6000), max_size=20),
)
@settings(deadline=None, max_examples=60)
def test_a_predicate_of_any_grain_holds_for_exactly_the_moments_of_the_slices(
    kind: str, grain: Grain, hours: set[int], others: set[int]
) -> None:
    slices = SliceSet.of(grain, map(grain.holding, hours))
    # By the hour, a date is read as a whole.
    held = slices.recut(Grain.DAY) if kind == "date" and grain is Grain.HOUR else slices
    edges = {edge + more for first, last in slices.hours() for edge in (first, last) for more in (-1, 0, 1)}
    moments: dict[str, bool] = {}
    for hour in sorted(edges | others):
        start = Grain.HOUR.start(hour)
        if kind == "date":
            moments[start.date().isoformat()] = Slice.of(held.grain, start.date()) in held  # type: ignore[arg-type]
        else:
            for moment in (start, start + timedelta(minutes=59, seconds=59)):
                moments[f"{moment:%Y-%m-%d %H:%M:%S}"] = Slice.of(grain, moment) in slices
    found = rows_where(slice_predicate("d", kind, slices), list(moments))
    assert found == [text for text, is_in in moments.items() if is_in]


def test_a_table_that_is_not_cut_is_read_as_it_is() -> None:
    assert slice_predicate(None, "date", SliceSet(WHOLE, (0,))) == "true"
    assert slice_predicate(None, "date", SliceSet(WHOLE)) == "false"
    assert slice_at(WHOLE, 0) == Slice(WHOLE, 0)
    assert slice_at(DAY, date(1970, 1, 3)) == Slice(DAY, 2)
