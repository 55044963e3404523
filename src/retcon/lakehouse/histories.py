"""A table's history: its snapshots one after the other, and what each of them added and took out."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from datetime import timedelta

from pyiceberg.manifest import ManifestEntry, ManifestEntryStatus
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot

from retcon.core.conflicts import REWRITE, Commit, RowsMoved
from retcon.core.events import StagedSlice
from retcon.core.slices import Cut, SliceSet
from retcon.core.tables import Changed, TableFile
from retcon.errors import Fault
from retcon.lakehouse.manifest_entries import entries_of
from retcon.lakehouse.metadata_documents import EPOCH, ROUND, replaced_in
from retcon.lakehouse.spans import Spans


def back_to(table: Table, newest: int, oldest: int | None) -> Iterator[Snapshot | None]:
    """Snapshots from the newest back to (without) the oldest; a final None where the chain breaks before it."""
    at: int | None = newest
    while at is not None and at != oldest:
        snapshot = table.metadata.snapshot_by_id(at)
        if snapshot is None:
            yield None
            return
        yield snapshot
        at = snapshot.parent_snapshot_id
    if at != oldest:
        yield None


def is_left(table: Table, snapshot_id: int, line: Collection[int]) -> bool:
    """Did this line of snapshots go back to before that one? One whose own past is gone tells nothing: pyiceberg makes
    a snapshot without a parent of one whose parent expired.
    """
    behind = (each.snapshot_id for each in back_to(table, snapshot_id, None) if each is not None)
    return snapshot_id not in line and any(each in line for each in behind)


def own_entries(table: Table, snapshot: Snapshot) -> Iterator[ManifestEntry]:
    """The files that this snapshot added or deleted."""
    for manifest in snapshot.manifests(table.io):
        if manifest.added_snapshot_id != snapshot.snapshot_id:
            continue
        for entry in entries_of(manifest, table.io):
            if entry.snapshot_id == snapshot.snapshot_id and entry.status != ManifestEntryStatus.EXISTING:
                yield entry


def run_of(snapshot: Snapshot) -> str | None:
    """The run that made this snapshot, where retcon did."""
    return snapshot.summary.additional_properties.get("retcon.run") if snapshot.summary is not None else None


def round_of(snapshot: Snapshot) -> int:
    """The round of a run whose branch begins with this commit; 0 where it is another commit."""
    return int(snapshot.summary.additional_properties.get(ROUND, 0)) if snapshot.summary is not None else 0


def operation_of(snapshot: Snapshot) -> str:
    return snapshot.summary.operation.value if snapshot.summary is not None else "commit"


def commits_between(
    table: Table, spans: Spans, since: int | None, until: int, *, briefly: bool = False
) -> tuple[Commit, ...] | None:
    """Every commit after one snapshot up to another, oldest first; None where the history between them is gone.

    Briefly: of publishes and rollbacks only the slices that they replaced, as their summaries tell; the table is then
    looked at as it is sliced.
    """
    found: list[Commit] = []
    for snapshot in back_to(table, until, since):
        if snapshot is None:
            return None
        replaced = replaced_slices(snapshot, spans.key[1]) if briefly else None
        found.append(commit_of(table, snapshot, spans) if replaced is None else _brief(snapshot, replaced))
    return tuple(reversed(found))


def replaced_slices(snapshot: Snapshot, cut: Cut) -> SliceSet | None:
    """The slices that a publish or a rollback replaced, as it says itself; None where it is another commit, or was made
    when the table was cut otherwise.
    """
    return None if snapshot.summary is None else replaced_in(snapshot.summary.additional_properties, cut)


def _brief(snapshot: Snapshot, replaced: SliceSet) -> Commit:
    return Commit(
        snapshot_id=snapshot.snapshot_id,
        operation=operation_of(snapshot),
        run=run_of(snapshot),
        added=Changed(slices=replaced),
        removed=Changed(slices=replaced),
        at=EPOCH + timedelta(milliseconds=snapshot.timestamp_ms),
    )


def commit_of(table: Table, snapshot: Snapshot, spans: Spans) -> Commit:
    """One commit, by what it added and took out."""
    added: list[TableFile] = []
    removed: list[TableFile] = []
    for entry in () if operation_of(snapshot) == REWRITE else own_entries(table, snapshot):
        file = spans.file(entry.data_file)
        is_addition = entry.status == ManifestEntryStatus.ADDED and not file.is_delete
        (added if is_addition else removed).append(file)
    cut = spans.key[1]
    return Commit(
        snapshot_id=snapshot.snapshot_id,
        operation=operation_of(snapshot),
        run=run_of(snapshot),
        added=_changed(added, cut),
        removed=_changed(removed, cut),
        at=EPOCH + timedelta(milliseconds=snapshot.timestamp_ms),
        rows=_rows(added, removed),
    )


def _rows(added: list[TableFile], removed: list[TableFile]) -> dict[int, RowsMoved]:
    found: dict[int, RowsMoved] = {}
    for file, is_addition in (*((file, True) for file in added), *((file, False) for file in removed)):
        is_known = len(file.slices) == 1 and not file.is_delete
        for ordinal in file.slices:
            so_far = found.get(ordinal, RowsMoved())
            found[ordinal] = RowsMoved(
                added=so_far.added + file.rows * is_addition,
                removed=so_far.removed + file.rows * (not is_addition),
                is_known=so_far.is_known and is_known,
            )
    return found


def _changed(files: list[TableFile], cut: Cut) -> Changed:
    return Changed(
        slices=SliceSet.of(cut, (ordinal for span in {file.slices for file in files} for ordinal in span)),
        everything=any(file.first is None or file.last is None for file in files),
    )


def is_empty_beginning(snapshot: Snapshot) -> bool:
    """Iceberg makes one where a branch is opened on a table without snapshots."""
    added = None if snapshot.summary is None else snapshot.summary.additional_properties.get("added-data-files")
    return snapshot.parent_snapshot_id is None and not int(added or 0)


def staged_slices(table: Table, snapshot: Snapshot, slices: SliceSet, by: str | None) -> tuple[StagedSlice, ...]:
    """Rows, bytes and files that a snapshot added, for each of the slices: those without any are there too."""
    spans = Spans(table, by, slices.grain)
    files: dict[int, list[TableFile]] = {ordinal: [] for ordinal in slices.ordinals}
    for entry in own_entries(table, snapshot):
        if entry.status == ManifestEntryStatus.ADDED:
            file = spans.file(entry.data_file)
            if len(file.slices) != 1 or file.slices[0] not in files:
                raise Fault(
                    f"snapshot {snapshot.snapshot_id} of {'.'.join(table.name())} says it staged {slices.text}, "
                    f"but {file.path} holds other rows",
                    state="production is untouched",
                    next="cancel the run and plan again: somebody else wrote to its branch",
                )
            files[file.slices[0]].append(file)
    return tuple(
        StagedSlice(
            slice=slices.grain.label(ordinal),
            rows=sum(file.rows for file in held),
            bytes=sum(file.bytes for file in held),
            files=len(held),
        )
        for ordinal, held in files.items()
    )
