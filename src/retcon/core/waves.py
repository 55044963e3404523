"""Waves: how a model's slices are shared out among Spark jobs."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping

from retcon.core.models import Model
from retcon.core.slices import SliceSet

MAX_ACTIVE = 2
"""Waves that run at the same time, unless somebody says otherwise."""
_GIB = 1024**3
WAVE_BYTES = 4 * _GIB
"""Input that one job reads at most, unless a single slice has more."""


def wave_bytes(cores: int | None) -> int:
    """The same where so many cores share a job: with little for each, most of the job would be its planning."""
    return max(WAVE_BYTES, (cores or 0) * _GIB)


def parts_of(model: Model, slices: SliceSet) -> tuple[SliceSet, ...]:
    """Slices that may be computed together, of those that one job writes."""
    most = 1 if model.one_by_one else None
    return cut_waves(slices, most=most, contiguous=model.needs_contiguous_waves, files_of=lambda _: {})


def cut_waves(
    slices: SliceSet,
    *,
    most: int | None,
    contiguous: bool,
    files_of: Callable[[int], Mapping[Hashable, int]],
    limit: int = WAVE_BYTES,
) -> tuple[SliceSet, ...]:
    """Slices in order, a wave ending where it is full: the same waves for the same slices.

    `files_of` gives what a slice reads, with its bytes; a file that several slices of a wave read counts once.
    """
    waves: list[list[int]] = []
    read: dict[Hashable, int] = {}
    weight = 0
    for ordinal in slices.ordinals:
        files = files_of(ordinal)
        current = waves[-1] if waves else None
        extra = sum(size for file, size in files.items() if file not in read)
        fits = (
            current is not None
            and (most is None or len(current) < most)
            and (extra == 0 or weight + extra <= limit)
            and not (contiguous and current[-1] != ordinal - 1)
        )
        if current is not None and fits:
            current.append(ordinal)
            read.update(files)
            weight += extra
        else:
            waves.append([ordinal])
            read = dict(files)
            weight = sum(files.values())
    return tuple(SliceSet(slices.grain, tuple(wave)) for wave in waves)
