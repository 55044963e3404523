"""How slices are shared out among jobs."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from retcon.core.slices import SliceSet
from retcon.core.waves import WAVE_BYTES, cut_waves
from tests.core.examples import DAY, NEAR_SETS, of

MOST = st.none() | st.integers(1, 7)
WEIGHTS = st.lists(st.integers(0, 12), min_size=41, max_size=41)


def cut(slices: SliceSet, weights: list[int], most: int | None, contiguous: bool) -> tuple[SliceSet, ...]:
    return cut_waves(slices, most=most, contiguous=contiguous, bytes_of=weights.__getitem__, limit=20)


@given(NEAR_SETS, WEIGHTS, MOST, st.booleans())
def test_every_slice_is_in_exactly_one_wave_and_in_order(
    slices: SliceSet, weights: list[int], most: int | None, contiguous: bool
) -> None:
    waves = cut(slices, weights, most, contiguous)
    assert [o for wave in waves for o in wave.ordinals] == list(slices.ordinals)
    assert all(waves)


@given(NEAR_SETS, WEIGHTS, MOST, st.booleans())
def test_no_wave_is_over_its_limits_unless_one_slice_alone_is(
    slices: SliceSet, weights: list[int], most: int | None, contiguous: bool
) -> None:
    for wave in cut(slices, weights, most, contiguous):
        assert most is None or len(wave) <= most
        assert len(wave) == 1 or sum(weights[o] for o in wave.ordinals) <= 20
        assert not contiguous or len(wave.ranges()) == 1


@given(NEAR_SETS, WEIGHTS, MOST, st.booleans())
def test_a_wave_ends_only_where_the_next_slice_does_not_fit(
    slices: SliceSet, weights: list[int], most: int | None, contiguous: bool
) -> None:
    for wave, following in pairwise(cut(slices, weights, most, contiguous)):
        extra = following.ordinals[0]
        assert (
            len(wave) == most
            or sum(weights[o] for o in wave.ordinals) + weights[extra] > 20
            or (contiguous and extra != wave.ordinals[-1] + 1)
        )


@given(NEAR_SETS, WEIGHTS, MOST, st.booleans())
def test_the_same_slices_give_the_same_waves(
    slices: SliceSet, weights: list[int], most: int | None, contiguous: bool
) -> None:
    assert cut(slices, weights, most, contiguous) == cut(slices, list(weights), most, contiguous)


def test_without_limits_given_a_wave_holds_four_gigabytes() -> None:
    def a_gigabyte(_: int) -> int:
        return WAVE_BYTES // 4

    waves = cut_waves(SliceSet.span(DAY, 0, 8), most=None, contiguous=False, bytes_of=a_gigabyte)
    assert [len(wave) for wave in waves] == [4, 4, 1]


def test_a_slice_above_the_limit_has_a_wave_of_its_own() -> None:
    waves = cut_waves(of(1, 2, 3), most=None, contiguous=False, bytes_of={1: 1, 2: 99, 3: 1}.__getitem__, limit=10)
    assert waves == (of(1), of(2), of(3))


def test_no_slices_make_no_waves() -> None:
    assert cut_waves(of(), most=None, contiguous=True, bytes_of=lambda _: 1) == ()
