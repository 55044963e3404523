"""Freshness: how far a model is complete, and what of it isn't what its inputs and its code would make now."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from datetime import datetime, timedelta

from retcon.core.loads import Found, troubles_of
from retcon.core.slices import Grain, Slice, SliceSet
from retcon.values import dataclass


@dataclass(frozen=True, kw_only=True)
class Freshness:
    """Of one model, at a moment."""

    model: str
    unknown: str = ""
    """Why it can't be told; all else is empty then."""
    complete: Slice | None = None
    """The last slice up to which, from the first one on, every slice is over, published, and made of what its inputs
    hold; None: not even the first one is. Of a model that isn't cut by time, any slice where all are.
    """
    lag: timedelta | None = None
    """Since the end of the newest slice that is complete, with holes before it or not."""
    missing: SliceSet | None = None
    """Never built, though the inputs hold it."""
    by_input: Mapping[str, SliceSet] = field(default_factory=dict)
    """Published, and computed from other content of an input than it has now."""
    by_code: SliceSet | None = None
    """Computed by other code, or with other settings."""
    held: SliceSet | None = None
    waiting: Mapping[str, SliceSet] = field(default_factory=dict)
    """By table that lacks something: slices that can't be computed yet."""
    unseen: tuple[str, ...] = ()
    """Tables whose changes can't be seen: whether a slice is stale by them nobody knows."""


def freshness_of(found: Found, published: SliceSet, by_code: SliceSet, held: SliceSet, now: datetime) -> Freshness:
    """From what a load would find. Other code doesn't make a slice incomplete: loads follow inputs."""
    if found.is_left_alone:
        return Freshness(model=found.model, unknown=troubles_of([found])[found.model])
    differs = _union(found.why, published)
    complete = published - differs
    lacking = differs | _union(found.waiting, published)
    until, lag = None, None
    if isinstance(published.grain, Grain):
        running = published.grain.ordinal(now)
        over = SliceSet(published.grain, tuple(o for o in complete.ordinals if o < running))
        until = _unbroken(over, min((published | lacking).ordinals, default=None))
        lag = now - over.hull().end if over else None
    elif complete and not lacking:
        until = Slice(complete.grain, complete.ordinals[-1])
    stale = {name: slices & published for name, slices in found.why.items() if slices & published}
    return Freshness(
        model=found.model,
        complete=until,
        lag=lag,
        missing=differs - published,
        by_input=stale,
        by_code=by_code,
        held=held,
        waiting=found.waiting,
        unseen=found.unseen,
    )


def _unbroken(slices: SliceSet, first: int | None) -> Slice | None:
    """The last slice that no hole is before, from the first one on."""
    ranges = slices.ranges()
    if first is None or not ranges or ranges[0][0] != first:
        return None
    return Slice(slices.grain, ranges[0][1])


def _union(parts: Mapping[str, SliceSet], like: SliceSet) -> SliceSet:
    found = SliceSet(like.grain)
    for slices in parts.values():
        found |= slices
    return found
