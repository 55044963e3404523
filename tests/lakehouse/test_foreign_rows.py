"""Rows of sources that are known by an `updated` column: no more looks than needed, and what they tell."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retcon.core.slices import WHOLE, Grain, SliceSet
from retcon.core.updates import SliceRows, Wanted
from retcon.lakehouse.foreign_rows import LookedAt, SourceRows

NOW = datetime(2026, 1, 15, 12, tzinfo=UTC)
DAY = Grain.DAY.ordinal(NOW)


class Source:
    """Rows by day: their checksum, and when they were updated."""

    def __init__(self, days: dict[int, tuple[str, datetime]]) -> None:
        self.days = days
        self.looks: list[Wanted] = []

    def look(self, wanted: Wanted) -> tuple[SliceRows, ...]:
        self.looks.append(wanted)
        within = self.days if wanted.within is None else set(wanted.within.ordinals)
        return tuple(
            SliceRows(
                first=day,
                last=day,
                rows=1,
                checksum=checksum,
                newest=None if wanted.until is not None and updated > wanted.until else updated,
            )
            for day, (checksum, updated) in self.days.items()
            if day in within and (wanted.since is None or updated >= wanted.since)
        )

    def rows(self) -> SourceRows:
        return SourceRows(self.look, "d", Grain.DAY)


def days(*ordinals: int) -> SliceSet:
    return SliceSet.of(Grain.DAY, ordinals)


OLD = datetime(2026, 1, 1, tzinfo=UTC)


def test_everything_is_looked_at_once() -> None:
    source = Source({DAY: ("a", NOW), DAY - 1: ("b", OLD)})
    held = LookedAt(grain=Grain.DAY, rows=source.rows())
    assert held.tells_slices
    assert held.rows.updates(None, NOW).changed.slices == days(DAY - 1, DAY)
    assert held.present == days(DAY - 1, DAY)
    assert held.of(days(DAY)).rows == 1
    assert held.of(None).rows == 2
    assert held.rows.updates(NOW, NOW).changed.slices == days(DAY)
    assert len(source.looks) == 1


@pytest.mark.parametrize("since", [None, NOW])
def test_what_is_ahead_of_its_time_is_so_whoever_looked_at_everything_before(since: datetime | None) -> None:
    far = datetime(2099, 1, 1, tzinfo=UTC)
    source = Source({DAY: ("a", NOW), DAY - 1: ("b", far)})
    held = LookedAt(grain=Grain.DAY, rows=source.rows())
    assert held.of(None).rows == 2
    assert held.rows.updates(since, NOW).newest == NOW
    assert held.rows.updates(since, far).newest == far


def test_a_load_looks_at_what_was_updated_and_at_the_slices_that_it_asks_for() -> None:
    source = Source({DAY: ("a", NOW), DAY - 1: ("b", OLD), DAY - 2: ("c", OLD)})
    held = LookedAt(grain=Grain.DAY, rows=source.rows())
    seen = held.rows.updates(NOW, NOW)
    assert held.rows.updates(NOW, NOW) == seen
    assert (seen.changed.slices, seen.newest) == (days(DAY), NOW)
    held.of(days(DAY - 1, DAY))
    assert held.of(days(DAY)).digest != held.of(days(DAY - 1)).digest
    assert held.present == days(DAY - 1, DAY)
    assert held.overlapping(days(DAY - 1)) == held.overlapping(days(DAY - 1))
    assert [(each.since, each.within) for each in source.looks] == [(NOW, None), (None, days(DAY - 1, DAY))]
    # A slice that nobody asked for yet: rather everything, once, than one after the other.
    assert [len(held.overlapping(days(day))) for day in (DAY - 3, DAY - 2, DAY - 1)] == [0, 1, 1]
    assert len(source.looks) == 3
    assert held.holding(days(DAY - 3, DAY)) == days(DAY)


@given(
    held=st.dictionaries(
        st.integers(0, 20), st.tuples(st.sampled_from("abc"), st.sampled_from([OLD, NOW])), max_size=9
    ),
    asked=st.lists(st.sets(st.integers(0, 20), min_size=1), max_size=4),
)
def test_what_is_looked_at_bit_by_bit_is_what_a_look_at_everything_tells(
    held: dict[int, tuple[str, datetime]], asked: list[set[int]]
) -> None:
    whole = LookedAt(grain=Grain.DAY, rows=Source(held).rows())
    parts = LookedAt(grain=Grain.DAY, rows=Source(held).rows())
    assert parts.rows.updates(NOW, NOW).changed == whole.rows.updates(NOW, NOW).changed
    for each in asked:
        assert parts.of(days(*each)) == whole.of(days(*each))
        assert parts.holding(days(*each)) == whole.holding(days(*each)) == days(*(each & set(held)))


def test_what_isnt_cut_by_time_is_looked_at_as_a_whole() -> None:
    source = Source({0: ("a", NOW)})
    held = LookedAt(grain=WHOLE, rows=SourceRows(source.look, None, WHOLE))
    assert held.rows.updates(OLD, NOW).changed.slices == SliceSet.every(WHOLE)
    assert held.of(None).rows == 1
    assert [each.since for each in source.looks] == [OLD, None]
