"""Waves: how a model's slices are shared out among Spark jobs."""

from __future__ import annotations

from collections.abc import Callable

from retcon.core.slices import SliceSet

WAVE_BYTES = 4 * 1024**3
"""Input that one job reads at most, unless a single slice has more."""


def cut_waves(
    slices: SliceSet, *, most: int | None, contiguous: bool, bytes_of: Callable[[int], int], limit: int = WAVE_BYTES
) -> tuple[SliceSet, ...]:
    """Slices in order, a wave ending where it is full: the same waves for the same slices."""
    waves: list[list[int]] = []
    weight = 0
    for ordinal in slices.ordinals:
        cost = bytes_of(ordinal)
        current = waves[-1] if waves else None
        fits = (
            current is not None
            and (most is None or len(current) < most)
            and weight + cost <= limit
            and not (contiguous and current[-1] != ordinal - 1)
        )
        if current is not None and fits:
            current.append(ordinal)
            weight += cost
        else:
            waves.append([ordinal])
            weight = cost
    return tuple(SliceSet(slices.grain, tuple(wave)) for wave in waves)
