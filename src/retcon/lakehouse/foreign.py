"""Sources that aren't Iceberg: what a listing of their files tells, without a JVM, and what their rows do."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

from retcon.core.adoption import Survey
from retcon.core.intervals import midnight
from retcon.core.projects import Source
from retcon.core.promises import DELTA, JDBC
from retcon.core.slices import WHOLE, Cut, Grain, SliceSet
from retcon.core.tables import NO_SLICE, Changed, Column, TableContents, TableFacts, TableFile, Told
from retcon.core.updates import SliceRows, Updates, Wanted
from retcon.errors import Fault, Refused
from retcon.lakehouse.foreign_rows import LookedAt, SourceRows

if TYPE_CHECKING:
    from retcon.lakehouse.metadata import IcebergMetadata

LookAtRows = Callable[[Source, int | None, Wanted], tuple[SliceRows, ...]]
"""Reads a source at a version; starts Spark."""

_NULL_FOLDER = "__HIVE_DEFAULT_PARTITION__"


class SourceTables:
    """The tables of the catalog, and beside them the declared sources that aren't in it."""

    def __init__(self, catalog: IcebergMetadata, sources: Mapping[str, Source], look: LookAtRows) -> None:
        self._catalog = catalog
        self._sources = sources
        self._look = look
        self._rows: dict[tuple[str, str | None, Cut, int | None], SourceRows] = {}
        """What was seen of them in this turn: what a run records as consumed was seen before it read."""
        self.was_set_back = catalog.was_set_back
        self.commits = catalog.commits
        self.commits_after = catalog.commits_after
        self.aftermath = catalog.aftermath
        self.compared = catalog.compared
        self.main_line = catalog.main_line
        self.head = catalog.head
        self.staged = catalog.staged
        self.find_wave = catalog.find_wave
        self.drop_branch = catalog.drop_branch
        self.drop_unwritten = catalog.drop_unwritten
        self.refs = catalog.refs
        self.marks = catalog.marks
        self.lost_files = catalog.lost_files
        self.lost_for = catalog.lost_for
        self.drop_refs = catalog.drop_refs
        self.drop_version = catalog.drop_version
        self.close = catalog.close

    def names(self) -> tuple[str, ...]:
        """Every table of the catalog, and every other source."""
        return tuple(sorted({*self._catalog.names(), *self._sources}))

    def facts(self, name: str) -> TableFacts | None:
        """The table as it is now, None where there is none. A foreign source has no columns where nobody says them."""
        facts = self._catalog.facts(name)
        source = self._sources.get(name)
        if source is None:
            return facts
        if facts is not None:
            raise Refused(
                f"{name} is declared in retcon.yaml with `format: {source.format}`, and the catalog has a table {name}",
                state="nothing was written",
                next="which of them is meant can't be told: rename the source, here and where models read it",
            )
        if source.local_path is not None and not Path(source.local_path).exists():
            return None
        return TableFacts(
            name=name,
            uuid="",
            snapshot_id=_delta_version(source),
            schema_id=0,
            spec_id=0,
            columns=tuple(_columns(source)),
            partitioning=(),
        )

    def contents(self, name: str, *, time: str | None, grain: Cut, snapshot_id: int | None) -> TableContents:
        """The table's files at a snapshot; of a source whose files can't be pinned, those that are there now."""
        source = self._sources.get(name)
        if source is None:
            return self._catalog.contents(name, time=time, grain=grain, snapshot_id=snapshot_id)
        if source.updated is not None:
            return LookedAt(grain=grain, rows=self._rows_of(source, time, grain, snapshot_id))
        if source.local_path is None or source.format == JDBC:
            return TableContents(grain=grain, told=Told.NOTHING)
        if source.format == DELTA:
            version = TableFile(path=f"version {snapshot_id}", rows=0, bytes=0, first=None, last=None)
            return TableContents(grain=grain, files=(version,), told=Told.NOTHING)
        files = tuple(_table_file(path, stat, time, grain) for path, stat in _listed(source))
        return TableContents(grain=grain, files=files, told=Told.FILES)

    def updates(
        self,
        name: str,
        *,
        time: str | None,
        grain: Cut,
        snapshot_id: int | None,
        since: datetime | None,
        until: datetime,
    ) -> Updates:
        """What was updated of a source since a moment; None: everything is looked at."""
        return self._rows_of(self._sources[name], time, grain, snapshot_id).updates(since, until)

    def look_again(self) -> None:
        """Forget what was seen of rows."""
        self._rows.clear()

    def _rows_of(self, source: Source, time: str | None, grain: Cut, version: int | None) -> SourceRows:
        pinned = version if source.format == DELTA else None
        cut = grain if time is not None else WHOLE
        key = (source.name, time, cut, pinned)
        if key not in self._rows:
            self._rows[key] = SourceRows(lambda wanted: self._look(source, pinned, wanted), time, cut)
        return self._rows[key]

    def buckets_of(self, name: str, column: str, number: int, texts: Sequence[str]) -> frozenset[int] | None:
        """The buckets of these values, as text, in a table of the catalog."""
        return self._catalog.buckets_of(name, column, number, texts)

    def survey(self, name: str, *, by: str | None, grain: Cut) -> Survey:
        """What a table of the catalog is like: models are never written anywhere else."""
        return self._catalog.survey(name, by=by, grain=grain)

    def changed(
        self, name: str, *, time: str | None, grain: Cut, since: int | None, until: int | None
    ) -> Changed | None:
        """What changed after one snapshot up to another; of a foreign source, which slices can't be told."""
        if name in self._sources:
            return Changed(slices=SliceSet(grain), everything=since != until)
        return self._catalog.changed(name, time=time, grain=grain, since=since, until=until)


def _listed(source: Source) -> Iterator[tuple[str, os.stat_result]]:
    """Every file that Spark would read, by its path below the source's."""
    assert source.local_path is not None
    try:
        yield from _below(source.local_path, "")
    except OSError as error:
        raise Fault(
            f"the files of {source.name} can't be listed: {error}",
            state="nothing was read",
            next="were they changed this very moment? try again; else let them be readable for you",
            retryable=True,
        ) from error


def _below(folder: str, within: str) -> Iterator[tuple[str, os.stat_result]]:
    if not within and os.path.isfile(folder):
        yield os.path.basename(folder), os.stat(folder)
        return
    with os.scandir(folder) as entries:
        found = sorted(entries, key=lambda entry: entry.name)
    for entry in found:
        if _is_hidden(entry.name):
            continue
        path = f"{within}/{entry.name}" if within else entry.name
        if entry.is_dir():
            yield from _below(entry.path, path)
        else:
            yield path, entry.stat()


def _is_hidden(name: str) -> bool:
    """As Spark has it."""
    return name.startswith(".") or (name.startswith("_") and "=" not in name) or name.endswith("._COPYING_")


def _table_file(path: str, stat: os.stat_result, time: str | None, grain: Cut) -> TableFile:
    first, last = _span(path, time, grain) if time is not None and isinstance(grain, Grain) else (None, None)
    return TableFile(
        path=path,
        rows=0,
        bytes=stat.st_size,
        first=first,
        last=last,
        version=f"{stat.st_size}-{stat.st_mtime_ns}",
    )


def _span(path: str, time: str, grain: Grain) -> tuple[int | None, int | None]:
    """The slices of the day that a folder such as `order_date=2026-01-22` names."""
    value = _folders(path).get(time.lower())
    if value == _NULL_FOLDER:
        return NO_SLICE
    day = _day(value)
    if day is None:
        return None, None
    end = midnight(day) + timedelta(days=1) - timedelta(microseconds=1)
    return grain.ordinal(day), grain.ordinal(end)


def _folders(path: str) -> dict[str, str]:
    """The columns that the folders of a path name, with their values."""
    pairs = (part.partition("=") for part in path.split("/")[:-1])
    return {unquote(name).lower(): unquote(value) for name, sign, value in pairs if sign}


def _day(value: str | None) -> date | None:
    try:
        return date.fromisoformat(value) if value is not None and len(value) == 10 else None
    except ValueError:
        return None


def _columns(source: Source) -> Iterator[Column]:
    """The declared columns, and those that folders add to them."""
    if not source.columns:
        return
    yield from (Column(name=name, type=kind.lower()) for name, kind in source.columns)
    if source.local_path is not None and source.format != JDBC:
        declared = {name.lower() for name, _ in source.columns}
        first = next(iter(_listed(source)), None)
        for name, value in _folders(first[0]).items() if first is not None else ():
            if name not in declared:
                yield Column(name=name, type="date" if _day(value) else "string")


def _delta_version(source: Source) -> int | None:
    """The newest version in a Delta table's log."""
    if source.format != DELTA or source.local_path is None:
        return None
    log = Path(source.local_path, "_delta_log")
    numbers = [int(file.name[:20]) for file in log.glob("*") if file.name[:20].isdigit()] if log.is_dir() else []
    if not numbers:
        raise Refused(
            f"{source.name}: {source.local_path} isn't a Delta table",
            state="nothing was read",
            next="correct `path` in retcon.yaml, or `format`",
        )
    return max(numbers)
