"""How far a model is complete: over, published, made of what its inputs hold, and no hole from the start."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from retcon.core.freshness import Freshness, freshness_of
from retcon.core.loads import Found
from retcon.core.slices import WHOLE, Grain, SliceSet

NOW = datetime(2026, 1, 22, 12, tzinfo=UTC)
TODAY = Grain.DAY.ordinal(NOW)
NOTHING = SliceSet(Grain.DAY)


def days(text: str) -> SliceSet:
    return SliceSet.parse(Grain.DAY, text) if text else NOTHING


def fresh(published: SliceSet, why: dict[str, SliceSet] | None = None, **found: dict[str, SliceSet]) -> Freshness:
    nothing = SliceSet(published.grain)
    seen = Found(model="mart.fct", stale=nothing, held=nothing, late=nothing, why=why or {}, **found)
    return freshness_of(seen, published, nothing, nothing, NOW)


def test_without_a_hole_it_is_complete_up_to_the_last_slice_that_is_over() -> None:
    found = fresh(days("2026-01-10..2026-01-22"))
    assert str(found.complete) == "2026-01-21", "today isn't over"
    assert found.lag == timedelta(hours=12)


def test_a_stale_slice_ends_what_is_complete_and_not_the_newest_that_is() -> None:
    found = fresh(days("2026-01-10..2026-01-20"), {"raw.orders": days("2026-01-14, 2026-01-20..2026-01-21")})
    assert str(found.complete) == "2026-01-13"
    assert found.lag == timedelta(days=2, hours=12), "since the 19th"
    assert {name: slices.text for name, slices in found.by_input.items()} == {"raw.orders": "2026-01-14, 2026-01-20"}
    assert found.missing == days("2026-01-21")


def test_a_slice_that_waits_or_was_never_built_is_a_hole() -> None:
    assert fresh(days("2026-01-10..2026-01-20"), {"raw.orders": days("2026-01-08")}).complete is None
    waits = fresh(days("2026-01-10..2026-01-20"), waiting={"raw.rates": days("2026-01-09")})
    assert waits.complete is None
    assert str(fresh(days("2026-01-10..2026-01-12, 2026-01-14")).complete) == "2026-01-12"


def test_nothing_published_is_complete_up_to_nothing() -> None:
    assert (fresh(NOTHING).complete, fresh(NOTHING).lag) == (None, None)


def test_what_isnt_cut_by_time_is_complete_or_not() -> None:
    whole = SliceSet.every(WHOLE)
    assert fresh(whole).complete is not None
    assert fresh(whole).lag is None
    assert fresh(whole, {"raw.orders": whole}).complete is None


ordinals = st.sets(st.integers(TODAY - 9, TODAY + 1))


@given(ordinals, ordinals, ordinals)
def test_it_is_just_the_slices_before_the_first_that_isnt(
    published: set[int], stale: set[int], waits: set[int]
) -> None:
    shown, differ, waiting = (SliceSet.of(Grain.DAY, some) for some in (published, stale, waits))
    found = fresh(shown, {"raw.orders": differ}, waiting={"raw.rates": waiting - shown})
    good = {day for day in published - stale if day < TODAY}
    expected = None
    for day in range(min(published | stale | waits, default=TODAY), TODAY):
        if day not in good:
            break
        expected = day
    assert (None if found.complete is None else found.complete.ordinal) == expected
    assert found.lag == (NOW - Grain.DAY.start(max(good) + 1) if good else None)


def test_of_a_source_that_went_back_nobody_knows_how_fresh_its_readers_are() -> None:
    seen = Found(model="m", stale=NOTHING, held=NOTHING, late=NOTHING, set_back={"raw.orders": "it went back"})
    found = freshness_of(seen, days("2026-01-10..2026-01-20"), NOTHING, NOTHING, NOW)
    assert (found.unknown, found.complete, found.lag) == ("it went back", None, None)
