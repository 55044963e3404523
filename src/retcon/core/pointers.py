"""Pointers: which metadata file of a table is current, and the steps from one to the next."""

from __future__ import annotations

from retcon.values import dataclass


@dataclass(frozen=True, kw_only=True)
class Pointer:
    """Which metadata file of a table is current."""

    table: str
    location: str


@dataclass(frozen=True, kw_only=True)
class TableCommit:
    """One table's step as a catalog is asked for it, with what must hold for it to be taken."""

    table: str
    uuid: str
    schema_id: int
    spec_id: int
    base: int | None
    """Main's snapshot from which the step starts."""
    snapshot_id: int | None
    """Main's snapshot after it."""
    is_new: bool
    """Does the step add that snapshot? Else main goes back to it."""
    sequence: int | None
    """The number that the new snapshot has among all commits of the table, those to other branches included."""
    request: str
    """In the words of the REST protocol: requirements and updates, as JSON."""


@dataclass(frozen=True, kw_only=True)
class PointerSwap:
    """One table's step from one metadata file to the next, valid only if nobody moved it in between."""

    table: str
    old_location: str
    new_location: str
    snapshot_id: int | None
    beside: Pointer | None = None
    """The table that it changes places with: that one takes over the old location."""
    commit: TableCommit | None = None
    """The same step for a catalog that takes it by itself: then no location is swapped, and the new one is that of
    the snapshot's list of manifests."""

    @property
    def steps(self) -> tuple[tuple[str, str, str], ...]:
        """(table, from, to) of each name that moves."""
        own = (self.table, self.old_location, self.new_location)
        return (own,) if self.beside is None else (own, (self.beside.table, self.beside.location, self.old_location))
