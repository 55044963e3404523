"""How slices are shared out among jobs."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from retcon.core.slices import SliceSet
from retcon.core.waves import WAVE_BYTES, cut_waves, wave_bytes
from tests.core.examples import DAY, NEAR_SETS, of

MOST = st.none() | st.integers(1, 7)
Reads = list[dict[Hashable, int]]
"""Per slice: the files it reads, with their bytes."""

# Some files belong to one slice, others are shared by several.
READS = st.tuples(
    st.lists(st.integers(0, 2**8 - 1), min_size=41, max_size=41), st.lists(st.integers(0, 12), min_size=8)
).map(
    lambda drawn: [
        {f: drawn[1][f] for f in range(8) if bits >> f & 1} | {("own", n): n % 5} for n, bits in enumerate(drawn[0])
    ]
)
LIMIT = 20


def cut(slices: SliceSet, reads: Reads, most: int | None, contiguous: bool) -> tuple[SliceSet, ...]:
    return cut_waves(slices, most=most, contiguous=contiguous, files_of=reads.__getitem__, limit=LIMIT)


def bytes_read(ordinals: Iterable[int], reads: Reads) -> int:
    """What one job over these slices reads: every file once."""
    return sum({file: size for o in ordinals for file, size in reads[o].items()}.values())


@given(NEAR_SETS, READS, MOST, st.booleans())
def test_every_slice_is_in_exactly_one_wave_and_in_order(
    slices: SliceSet, reads: Reads, most: int | None, contiguous: bool
) -> None:
    waves = cut(slices, reads, most, contiguous)
    assert [o for wave in waves for o in wave.ordinals] == list(slices.ordinals)
    assert all(waves)


@given(NEAR_SETS, READS, MOST, st.booleans())
def test_no_wave_reads_more_than_the_limit_unless_its_first_slice_alone_does(
    slices: SliceSet, reads: Reads, most: int | None, contiguous: bool
) -> None:
    for wave in cut(slices, reads, most, contiguous):
        assert most is None or len(wave) <= most
        assert bytes_read(wave.ordinals, reads) <= max(LIMIT, bytes_read(wave.ordinals[:1], reads))
        assert not contiguous or len(wave.ranges()) == 1


@given(NEAR_SETS, READS, MOST, st.booleans())
def test_a_wave_ends_only_where_the_next_slice_does_not_fit(
    slices: SliceSet, reads: Reads, most: int | None, contiguous: bool
) -> None:
    for wave, following in pairwise(cut(slices, reads, most, contiguous)):
        extra = following.ordinals[0]
        with_it = bytes_read((*wave.ordinals, extra), reads)
        assert (
            len(wave) == most
            or (with_it > LIMIT and with_it > bytes_read(wave.ordinals, reads))
            or (contiguous and extra != wave.ordinals[-1] + 1)
        )


@given(NEAR_SETS, READS, MOST, st.booleans())
def test_the_same_slices_give_the_same_waves(
    slices: SliceSet, reads: Reads, most: int | None, contiguous: bool
) -> None:
    turned = [dict(reversed(files.items())) for files in reads]
    assert cut(slices, reads, most, contiguous) == cut(slices, turned, most, contiguous)


def test_without_limits_given_a_wave_holds_four_gigabytes() -> None:
    def a_gigabyte(ordinal: int) -> dict[Hashable, int]:
        return {ordinal: WAVE_BYTES // 4}

    waves = cut_waves(SliceSet.span(DAY, 0, 8), most=None, contiguous=False, files_of=a_gigabyte)
    assert [len(wave) for wave in waves] == [4, 4, 1]


def test_a_slice_above_the_limit_has_a_wave_of_its_own() -> None:
    reads: Reads = [{}, {"a": 1}, {"b": 99}, {"c": 1}]
    assert cut(of(1, 2, 3), reads, None, False) == (of(1), of(2), of(3))


def test_slices_that_read_the_same_big_file_share_a_wave() -> None:
    """Each wave would read it anew."""
    reads: Reads = [{"all days": 99} for _ in range(10)]
    assert cut(SliceSet.span(DAY, 0, 9), reads, None, False) == (SliceSet.span(DAY, 0, 9),)


def test_no_slices_make_no_waves() -> None:
    assert cut_waves(of(), most=None, contiguous=True, files_of=lambda _: {}) == ()


@given(NEAR_SETS, st.lists(st.integers(0, 12), min_size=41, max_size=41), MOST, st.booleans())
def test_slices_that_share_nothing_are_cut_by_their_own_bytes(
    slices: SliceSet, sizes: list[int], most: int | None, contiguous: bool
) -> None:
    waves = cut_waves(
        slices, most=most, contiguous=contiguous, files_of=lambda ordinal: {ordinal: sizes[ordinal]}, limit=LIMIT
    )
    assert waves == cut(slices, [{n: size} for n, size in enumerate(sizes)], most, contiguous)


def test_with_many_cores_a_job_reads_more() -> None:
    assert [wave_bytes(cores) // 1024**3 for cores in (None, 1, 4, 5, 500)] == [4, 4, 4, 5, 500]
