"""Row diffs: the rows of one table before and after, by key or as a multiset."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from enum import StrEnum

from retcon.core.models import Model
from retcon.core.reads import Read
from retcon.core.slices import Slice, SliceSet
from retcon.values import dataclass

TOLERANCE = 1e-9
"""Relative difference of floating-point values below which they count as the same."""


class RowKind(StrEnum):
    """What became of a row."""

    CHANGED = "changed"
    ADDED = "added"
    REMOVED = "removed"


@dataclass(frozen=True, kw_only=True)
class Sides:
    """Where a table's rows before and after are read, and the slices in which they may differ."""

    old: Read
    new: Read
    slices: SliceSet


@dataclass(frozen=True, kw_only=True)
class RowDiffRequest:
    """What is compared, how, and how much of it is shown."""

    model: Model
    sides: Sides
    seed: str
    """By which rows are drawn: the same one draws the same rows."""
    limit: int
    tolerance: float = TOLERANCE
    out: str | None = None
    """A .parquet or .csv file for every row that differs."""


@dataclass(frozen=True, kw_only=True)
class RowCounts:
    """How many rows of a slice differ."""

    changed: int = 0
    added: int = 0
    removed: int = 0

    @property
    def differing(self) -> int:
        return self.changed + self.added + self.removed

    def __add__(self, other: RowCounts) -> RowCounts:
        return RowCounts(
            changed=self.changed + other.changed, added=self.added + other.added, removed=self.removed + other.removed
        )


@dataclass(frozen=True, kw_only=True)
class ComparedColumn:
    """A column, and in how many of the changed rows it differs."""

    name: str
    changed: int
    note: str = ""
    """Where it isn't the same column on both sides: `added`, `removed`, `was int`."""


@dataclass(frozen=True, kw_only=True)
class RowPair:
    """A row that differs, as text: old beside new."""

    slice: str
    kind: RowKind
    times: int
    """As a multiset: how many more, or fewer, there are of it."""
    key: Mapping[str, str | None]
    old: Mapping[str, str | None] | None
    new: Mapping[str, str | None] | None
    differs: tuple[str, ...]
    """The columns that differ, of a changed row."""


@dataclass(frozen=True, kw_only=True)
class RowDiff:
    """The rows of a model before and after, compared."""

    model: str
    slices: SliceSet
    """Those that were compared."""
    key: tuple[str, ...]
    """The columns by which rows were found again; empty: as a multiset."""
    why_no_key: str
    tolerance: float
    without_key: int = 0
    """Rows that differ and were compared as a multiset, though there is a key: it is NULL in them, or not theirs
    alone."""
    counts: Mapping[Slice, RowCounts] = field(default_factory=dict)
    """By slice, where any row differs."""
    columns: tuple[ComparedColumn, ...] = ()
    left_out: tuple[str, ...] = ()
    """Columns that weren't compared: the model calls them volatile."""
    sample: tuple[RowPair, ...] = ()
    """The same on every call."""
    written: int | None = None
    """Rows in the file that was asked for."""

    @property
    def total(self) -> RowCounts:
        return sum(self.counts.values(), RowCounts())


def nothing_differs(model: Model, slices: SliceSet, tolerance: float) -> RowDiff:
    """The diff of slices that weren't written."""
    return RowDiff(model=model.name, slices=slices, key=model.key, why_no_key="", tolerance=tolerance)
