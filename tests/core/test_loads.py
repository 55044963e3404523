"""Loads: what of the found slices is done now."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from retcon.core.loads import Found, begun, oldest_half, total, without
from retcon.core.slices import WHOLE, Grain, SliceSet
from retcon.core.watermarks import Advance, Mark

MARK = Mark(model="mart.m", input="raw.s", table="raw.s", uuid="u", snapshot_id=1)
GRAINS = st.sampled_from([Grain.DAY, Grain.MONTH])


def found(grain: Grain, ordinals: set[int], name: str = "mart.m") -> Found:
    none = SliceSet(grain)
    return Found(
        model=name, stale=SliceSet.of(grain, ordinals), held=none, late=none, advances=(Advance(mark=MARK, after=0),)
    )  # fmt: skip


SOME = st.lists(st.builds(found, GRAINS, st.sets(st.integers(0, 700), min_size=1, max_size=20)), min_size=1, max_size=3)


@given(wanted=SOME)
def test_the_older_half_is_older_than_what_is_left_and_a_model_that_loses_some_doesnt_advance(
    wanted: list[Found],
) -> None:
    half = oldest_half(wanted)
    assert 0 < total(half) <= total(wanted)
    kept = [slice.interval.end for each in half for slice in each.stale]
    left = [s.interval.end for old, new in zip(wanted, half, strict=True) for s in old.stale - new.stale]
    assert not left or max(kept) < min(left)
    for old, new in zip(wanted, half, strict=True):
        assert new.advances == (old.advances if new.stale == old.stale else ())


def test_what_is_of_one_moment_isnt_halved() -> None:
    same = [found(Grain.DAY, {3}), found(Grain.DAY, {3}, "mart.n")]
    assert oldest_half(same) == same
    whole = SliceSet.every(WHOLE)
    assert total(oldest_half([replace(same[0], stale=whole)])) == 1


def test_slices_that_lack_something_wait_and_their_model_doesnt_advance() -> None:
    lacking = SliceSet.of(Grain.DAY, {2})
    left = without(found(Grain.DAY, {1, 2}), {"raw.rates": lacking})
    assert (left.stale.ordinals, left.waiting, left.advances) == ((1,), {"raw.rates": lacking}, ())
    untouched = found(Grain.DAY, {1})
    assert without(untouched, {"raw.rates": lacking}) == untouched


def test_what_hasnt_begun_is_left_out() -> None:
    now = datetime(2026, 1, 22, 12, tzinfo=UTC)
    today = Grain.DAY.ordinal(now)
    assert begun(SliceSet.of(Grain.DAY, {today - 1, today, today + 1}), now).ordinals == (today - 1, today)
