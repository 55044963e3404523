"""Reads: what is read of a table, from which snapshot of it, and in which slices."""

from __future__ import annotations

from retcon.core.models import Input
from retcon.core.slices import WHOLE, Cut, Grain, SliceSet
from retcon.values import dataclass


@dataclass(frozen=True, kw_only=True)
class Read:
    """One scoped read: a table at a snapshot, cut to slices of one of its columns."""

    table: str
    snapshot_id: int | None
    by: str | None
    slices: SliceSet | None
    """None: read whole."""
    bucketed_as: str | None = None
    """The type in which buckets are counted, where it may not be the column's own: 17 and '17' hash differently."""
    is_kept: bool = False
    """Other jobs of the run read the same, which is kept in memory for them."""

    @property
    def cut(self) -> Cut:
        return WHOLE if self.slices is None else self.slices.grain

    def goes_beyond(self, slices: SliceSet) -> bool:
        """Does it read rows around these slices too?"""
        if self.slices is None or not isinstance(self.slices.grain, Grain):
            return False
        return self.slices.hours() != slices.hours()


def read_of(
    i: Input, slices: SliceSet, resolution: Cut | None, snapshot_id: int | None, *, bucketed_as: str | None = None
) -> Read:
    """What these slices read of an input; without a resolution, all of it."""
    return Read(
        table=i.table,
        snapshot_id=snapshot_id,
        by=i.column(slices.grain),
        slices=None if resolution is None else i.read_by(slices, resolution),
        bucketed_as=bucketed_as,
    )
