"""The tables of a catalog on a database, as far as files on this machine tell without pyiceberg; it tells the rest."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from retcon.core.conflicts import Commit
from retcon.core.slices import Cut
from retcon.core.tables import TableContents, TableFacts
from retcon.errors import RetconError
from retcon.lakehouse.manifest_cache import ManifestCache
from retcon.lakehouse.metadata_documents import Document, brief_commit, facts_in, snapshots_in
from retcon.lakehouse.paths import local_path

if TYPE_CHECKING:
    from retcon.lakehouse.metadata import IcebergMetadata

_OLDEST_FORMAT = 2


class MetadataFiles:
    """Answers what commands ask that mostly find nothing to do. Whatever it can't tell, pyiceberg is asked."""

    def __init__(self, pointer: Callable[[str], str | None], others: Callable[[], IcebergMetadata]) -> None:
        self._pointer = pointer
        """Where the metadata file of a table is, as the catalog's database says."""
        self._others = others
        self._made: IcebergMetadata | None = None
        self._kept = ManifestCache()
        self._read: dict[str, tuple[tuple[str, int], Document, TableFacts]] = {}
        """By table, its newest metadata file with what it says. Nobody changes such a file, but it may be restored."""
        self._contents: dict[tuple[str, int, int | None, Cut], TableContents] = {}

    def facts(self, name: str) -> TableFacts | None:
        """The table's newest state, None where there is no such table."""
        try:
            location = self._pointer(name)
        except RetconError:
            return self._late.facts(name)  # which says what is wrong with the catalog
        known = None if location is None else self._read_at(name, location)
        return known[1] if known is not None else None if location is None else self._late.facts(name)

    def contents(self, name: str, *, time: str | None, grain: Cut, snapshot_id: int | None) -> TableContents:
        """The table's files at a snapshot, each with the slices it may hold rows of."""
        told = None if snapshot_id is None else self._told(name, time, grain, snapshot_id)
        return told or self._late.contents(name, time=time, grain=grain, snapshot_id=snapshot_id)

    def commits(
        self, name: str, *, time: str | None, grain: Cut, since: int | None, until: int | None, briefly: bool = False
    ) -> tuple[Commit, ...] | None:
        """The commits after one snapshot up to another, oldest first; None where the history between them is gone."""
        if since == until:
            return ()
        brief = self._brief(name, grain, since, until) if briefly else None
        if brief is not None:
            return brief
        return self._late.commits(name, time=time, grain=grain, since=since, until=until, briefly=briefly)

    def close(self) -> None:
        """Let go of the catalog's database."""
        if self._made is not None:
            self._made.close()
        self._read.clear()
        self._contents.clear()

    def __getattr__(self, name: str) -> Any:
        return lambda *words, **named: getattr(self._late, name)(*words, **named)

    @property
    def _late(self) -> IcebergMetadata:
        if self._made is None:
            self._made = self._others()
        return self._made

    def _document(self, name: str) -> tuple[Document, TableFacts] | None:
        """What a table's newest metadata file says; None where pyiceberg has to look, or to say what is wrong."""
        try:
            location = self._pointer(name)
        except RetconError:
            return None
        return None if location is None else self._read_at(name, location)

    def _read_at(self, name: str, location: str) -> tuple[Document, TableFacts] | None:
        path = local_path(location)
        if path is None:
            return None
        try:
            seen = location, os.stat(path).st_mtime_ns
            if name not in self._read or self._read[name][0] != seen:
                document = json.loads(Path(path).read_bytes())
                if document["format-version"] < _OLDEST_FORMAT:
                    return None
                self._read[name] = (seen, document, facts_in(document, name))
        except (OSError, ValueError, LookupError, TypeError):
            return None
        return self._read[name][1:]

    def _told(self, name: str, time: str | None, grain: Cut, snapshot_id: int) -> TableContents | None:
        """What a snapshot holds, where everything that it leads to was looked at before."""
        known = self._document(name)
        snapshot = snapshots_in(known[0]).get(snapshot_id) if known is not None else None
        if known is None or snapshot is None or "manifest-list" not in snapshot:
            return None
        column = known[1].column(time) if time is not None else None
        key = (known[1].uuid, snapshot_id, None if column is None else column.id, grain)
        if key not in self._contents:
            told = self._kept.listed(snapshot["manifest-list"], *key[2:])
            if told is None:
                return None
            self._contents[key] = told
        return self._contents[key]

    def _brief(self, name: str, grain: Cut, since: int | None, until: int | None) -> tuple[Commit, ...] | None:
        """The commits by their summaries; None where others than retcon made one of them, or they aren't all there."""
        known = self._document(name)
        snapshots = snapshots_in(known[0]) if known is not None else {}
        found: list[Commit] = []
        while until != since:
            snapshot = snapshots.get(until) if until is not None else None
            commit = None if snapshot is None else brief_commit(snapshot, grain)
            if snapshot is None or commit is None:
                return None
            found.append(commit)
            until = snapshot.get("parent-snapshot-id")
        return tuple(reversed(found))
