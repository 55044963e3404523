"""Undoing a publish: which way each table goes back, and what stands in the way."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

from retcon.core.evolution import changed_columns
from retcon.core.runs import RunTable
from retcon.core.slices import SliceSet
from retcon.core.tables import Aftermath, Column, Landing
from retcon.values import dataclass

_SLICES_IN_A_COPY = 30


class Way(StrEnum):
    """How a table goes back."""

    MOVED = "moved back"
    """Main points to the snapshot from before again: nothing landed since."""
    EMPTIED = "emptied"
    """There was nothing before: the slices have no rows then."""
    EXCHANGED = "exchanged"
    """It changes places again with the table from before."""
    COPIED = "copied"
    """Others wrote to other slices since: the old slices come back as new files."""


@dataclass(frozen=True, kw_only=True)
class Undo:
    """One table's way back."""

    table: str
    way: Way
    seen: int | None
    """Main's snapshot that was looked at."""
    before: int | None
    later: tuple[Landing, ...] = ()
    """What landed since and stays, newest first."""


@dataclass(frozen=True, kw_only=True)
class Blocked:
    """Why a table can't go back."""

    why: str
    is_conflict: bool = True
    """Others wrote what would be lost; else the old version can't be had any more."""


def way_back(
    table: RunTable, slices: SliceSet, after: Aftermath, now: Sequence[Column], *, unmoved: bool
) -> Undo | Blocked:
    """How a table goes back to what its slices were before the publish.

    `unmoved`: where the history since is gone, the slices still hold the files that were published.
    """
    is_last = after.current == table.published_snapshot
    if table.replaces is not None:
        if not is_last:
            return Blocked(
                why=f"it took the place of another table, and was written since ({_listed(after.landings or ())}): "
                "changing places again would take that away"
            )
        return Undo(table=table.table, way=Way.EXCHANGED, seen=after.current, before=after.before)
    if after.landings is None and not unmoved:
        return Blocked(why="its history since the publish is gone, and the slices hold other files than were published")
    hits = [(landing, hit) for landing in standing(after.landings or ()) if (hit := landing.changed.within(slices))]
    if hits:
        return Blocked(why="; ".join(f"{landing}: {hit.text}" for landing, hit in hits[:5]) + _more(len(hits) - 5))
    is_first = after.before is None and table.base_snapshot is None
    if after.columns_before is None or (after.before is None and not is_first):
        return Blocked(why="the version from before has expired", is_conflict=False)
    way = Way.EMPTIED if is_first else Way.MOVED if is_last else Way.COPIED
    unlike = list(changed_columns(after.columns_before, now)) if way is Way.COPIED else []
    if unlike:
        return Blocked(
            why=f"others wrote to it since, and old rows don't fit its columns any more: {', '.join(unlike)}",
            is_conflict=False,
        )
    return Undo(table=table.table, way=way, seen=after.current, before=after.before, later=after.landings or ())


def standing(landings: Sequence[Landing]) -> tuple[Landing, ...]:
    """Without publishes that were undone since, and without what undid them: together they changed no row."""
    undone = {landing.run for landing in landings if landing.run} & {landing.undoes for landing in landings}
    return tuple(each for each in landings if each.run not in undone and each.undoes not in undone)


def copies(slices: SliceSet) -> tuple[SliceSet, ...]:
    """The slices in portions, each copied in one commit."""
    starts = range(0, len(slices), _SLICES_IN_A_COPY)
    return tuple(SliceSet(slices.grain, slices.ordinals[at : at + _SLICES_IN_A_COPY]) for at in starts)


def _listed(landings: Sequence[Landing]) -> str:
    return ", ".join(str(landing) for landing in landings[:3]) + _more(len(landings) - 3) or "its history is gone"


def _more(number: int) -> str:
    return f" and {number} more" if number > 0 else ""
