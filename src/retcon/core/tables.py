"""What Iceberg's metadata says about a table: columns, partitioning, and the content of its slices."""

from __future__ import annotations

import hashlib
from bisect import bisect_left
from collections.abc import Iterable, Mapping
from dataclasses import field
from datetime import datetime
from enum import StrEnum
from functools import cached_property

from retcon.core.slices import Cut, Grain, SliceSet
from retcon.values import dataclass


@dataclass(frozen=True, kw_only=True)
class Column:
    name: str
    type: str
    comment: str = ""
    id: int = 0
    """Iceberg's own: it stays when the column is renamed, and isn't given again when it is dropped."""


@dataclass(frozen=True, kw_only=True)
class SchemaVersion:
    """The columns that a table had from some snapshot of main on."""

    snapshot_id: int | None
    """None: changed since the newest snapshot."""
    at: datetime | None
    run: str | None
    """The run that wrote that snapshot, where retcon did; or that changed the columns to write it."""
    columns: tuple[Column, ...]
    is_oldest_kept: bool = False
    """Snapshots before it are expired: it may have been so for longer."""


@dataclass(frozen=True, kw_only=True)
class PartitionField:
    column: str
    transform: str

    def grain(self, type: str) -> Grain | None:
        """How long the times of one partition are, for a column of this type; None where it isn't cut by time."""
        if self.transform == "identity" and type == "date":
            return Grain.DAY
        return Grain(self.transform) if self.transform in ("hour", "day", "month", "year") else None


@dataclass(frozen=True, kw_only=True)
class TableFacts:
    """A table as its newest metadata describes it."""

    name: str
    uuid: str
    snapshot_id: int | None
    schema_id: int
    spec_id: int
    columns: tuple[Column, ...]
    partitioning: tuple[PartitionField, ...]
    properties: Mapping[str, str] = field(default_factory=dict)
    versions: tuple[SchemaVersion, ...] = ()
    """How its columns were, oldest first."""
    history: tuple[tuple[datetime, int], ...] = ()
    """When production came to which snapshot, oldest first, as far back as none of them has expired."""

    def snapshot_before(self, moment: datetime) -> int | None:
        """The snapshot that production showed right before this moment; None where that isn't known any more."""
        at = bisect_left(self.history, moment, key=lambda entry: entry[0])
        return self.history[at - 1][1] if at else None

    def buckets_of(self, column: str, number: int) -> bool:
        """Is the table partitioned by this many buckets of this column, among other things?"""
        return any(f.column.lower() == column.lower() and f.transform == f"bucket[{number}]" for f in self.partitioning)

    @property
    def columns_written(self) -> tuple[Column, ...]:
        """The columns of its newest snapshot, with which it is read there: they may have changed since."""
        is_changed = len(self.versions) > 1 and self.versions[-1].snapshot_id is None
        return self.versions[-2].columns if is_changed else self.columns

    @property
    def column_names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)

    def column(self, name: str) -> Column | None:
        """The column of this name, found as Spark finds it: in any case."""
        return next((c for c in self.columns if c.name.lower() == name.lower()), None)

    def grain_of(self, time: str) -> Grain | None:
        """The finest grain by which the table is partitioned on this column."""
        column = self.column(time)
        cuts = [f.grain(column.type) for f in self.partitioning if column and f.column.lower() == time.lower()]
        return min((cut for cut in cuts if cut is not None), key=list(Grain).index, default=None)


@dataclass(frozen=True, kw_only=True)
class Content:
    """How much there is, and a hash of the data and delete files that hold it."""

    files: int = 0
    rows: int = 0
    bytes: int = 0
    digest: str = ""


NO_SLICE = (0, -1)
"""The span of a file whose rows have no time."""


@dataclass(frozen=True, kw_only=True)
class TableFile:
    """One data or delete file, and the slices it may hold rows of."""

    path: str
    rows: int
    bytes: int
    first: int | None
    last: int | None
    """Ordinals of its first and last slice; None where the metadata doesn't bound its times, and the last before
    the first where it has rows without a time only."""
    is_delete: bool = False
    version: str = ""
    """What tells a file that can change under its name from what it was; Iceberg's never change."""

    @property
    def identity(self) -> str:
        return f"{self.path}@{self.version}" if self.version else self.path

    @property
    def slices(self) -> range:
        return range(0) if self.first is None or self.last is None else range(self.first, self.last + 1)


class Told(StrEnum):
    """How much can be told of a table without reading its rows."""

    ROWS = "rows"
    """Iceberg's metadata: files, their rows, and which slices they may hold."""
    FILES = "files"
    """A listing: names, sizes and times of change; slices only where folders name them."""
    UPDATES = "updates"
    """The rows themselves, by key and `updated`: how many, in which slices; no files, no bytes."""
    NOTHING = "nothing"


@dataclass(frozen=True, kw_only=True)
class TableContents:
    """The files of a table at one snapshot, by slice of its time column."""

    grain: Cut
    files: tuple[TableFile, ...] = ()
    null_rows: int = 0
    """Rows whose time, or key, is NULL: they are in no slice."""
    told: Told = Told.ROWS

    @property
    def tells_changes(self) -> bool:
        """A change of the rows shows in the digest."""
        return self.told is not Told.NOTHING or bool(self.files)

    @cached_property
    def tells_slices(self) -> bool:
        """It shows which slices there are; of Iceberg, files without bounds are taken for what they are."""
        return self.told is Told.ROWS or (self.told is not Told.NOTHING and all(map(_is_bounded, self.files)))

    @cached_property
    def is_exact(self) -> bool:
        """Every file lies within one slice; else a file counts in each slice it may overlap."""
        return all(_is_bounded(file) and len(file.slices) <= 1 for file in self.files)

    @cached_property
    def _by_slice(self) -> Mapping[int, list[int]]:
        """Per slice, the positions of the files that may hold its rows."""
        found: dict[int, list[int]] = {}
        for position, file in enumerate(self.files):
            for ordinal in file.slices if _is_narrow(file) else ():
                found.setdefault(ordinal, []).append(position)
        return found

    @cached_property
    def _wide(self) -> tuple[int, ...]:
        return tuple(position for position, file in enumerate(self.files) if not _is_narrow(file))

    @cached_property
    def present(self) -> SliceSet:
        """The slices that some data file may hold rows of (files without bounds tell nothing)."""
        spans = {file.slices for file in self.files if not file.is_delete}
        return SliceSet.of(self.grain, (ordinal for span in spans for ordinal in span))

    def holding(self, slices: SliceSet) -> SliceSet:
        """Those of these slices that it may hold rows of."""
        return slices & self.present

    def of(self, slices: SliceSet | None) -> Content:
        """The content of these slices together (None: of the whole table)."""
        return content_of(self.files if slices is None else self.overlapping(slices))

    def digest(self, slices: SliceSet) -> str:
        """Which files these slices are in. Windows that overlap ask for a slice as often as they are long."""
        if slices.ordinals not in self._digests:
            self._digests[slices.ordinals] = self.of(slices).digest
        return self._digests[slices.ordinals]

    @cached_property
    def _digests(self) -> dict[tuple[int, ...], str]:
        return {}

    def largest(self, slices: SliceSet | None) -> int:
        """The bytes of the largest of these slices (None: of any), as far as files tell slices apart."""
        ordinals = self._by_slice.keys() if slices is None else slices.ordinals
        sums = (sum(self.files[position].bytes for position in self._by_slice.get(each, ())) for each in ordinals)
        return max(sums, default=0)

    def overlapping(self, slices: SliceSet) -> list[TableFile]:
        """The files that may hold rows of these slices, each once."""
        narrow = {position for ordinal in slices.ordinals for position in self._by_slice.get(ordinal, ())}
        wide = {position for position in self._wide if _overlaps(self.files[position], slices.ordinals)}
        return [self.files[position] for position in sorted(narrow | wide)]


_NARROW = 32


def _is_narrow(file: TableFile) -> bool:
    """Listed under each of its slices; a file that spans years, or has no bounds, is looked at one by one."""
    return file.first is not None and file.last is not None and file.last - file.first < _NARROW


def _is_bounded(file: TableFile) -> bool:
    return file.first is not None and file.last is not None


def _overlaps(file: TableFile, ordinals: tuple[int, ...]) -> bool:
    if file.first is None or file.last is None:
        return bool(ordinals)
    at = bisect_left(ordinals, file.first)
    return at < len(ordinals) and ordinals[at] <= file.last


def content_of(files: Iterable[TableFile]) -> Content:
    """How much these files hold, and the hash of which they are."""
    held = list(files)
    data = [file for file in held if not file.is_delete]
    return Content(
        files=len(data),
        rows=sum(file.rows for file in data),
        bytes=sum(file.bytes for file in held),
        digest=digest_of(sorted(file.identity for file in held)),
    )


@dataclass(frozen=True, kw_only=True)
class Changed:
    """What commits between two snapshots changed; rewrites that change no row aren't counted."""

    slices: SliceSet
    everything: bool = False
    """Some change can't be tied to slices."""

    def within(self, slices: SliceSet) -> SliceSet:
        return slices if self.everything else slices & self.slices

    def __bool__(self) -> bool:
        return self.everything or bool(self.slices)


@dataclass(frozen=True, kw_only=True)
class Landing:
    """One commit to main: who made it, and which slices it changed."""

    snapshot_id: int
    operation: str
    changed: Changed
    """Nothing, where files were only rewritten."""
    run: str | None = None
    """The run that published it."""
    undoes: str | None = None
    """The run whose publish it took back."""

    def __str__(self) -> str:
        by = f" by run {self.run}" if self.run else f" by the rollback of {self.undoes}" if self.undoes else ""
        return f"snapshot {self.snapshot_id} ({self.operation}{by})"


@dataclass(frozen=True, kw_only=True)
class Aftermath:
    """What became of a table since a run published to it."""

    current: int | None
    before: int | None
    """What main showed before the publish; None: it had nothing."""
    columns_before: tuple[Column, ...] | None
    """As the version from before has them; None where that version is gone."""
    landings: tuple[Landing, ...] | None
    """Newest first; None where the history since the publish is gone."""


def digest_of(parts: Iterable[str]) -> str:
    """A short hash of some texts, in the order given."""
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:32]
