"""A table's snapshots as pyiceberg has them: what each changed, and by whom."""

from __future__ import annotations

from collections.abc import Iterator

from pyiceberg.manifest import ManifestEntry, ManifestEntryStatus
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Operation, Snapshot

from retcon.core.slices import SliceSet
from retcon.core.tables import Changed, Landing
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


def own_entries(table: Table, snapshot: Snapshot) -> Iterator[ManifestEntry]:
    """The files that this snapshot added or deleted."""
    for manifest in snapshot.manifests(table.io):
        if manifest.added_snapshot_id != snapshot.snapshot_id:
            continue
        for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=False):
            if entry.snapshot_id == snapshot.snapshot_id and entry.status != ManifestEntryStatus.EXISTING:
                yield entry


def run_of(snapshot: Snapshot) -> str | None:
    return snapshot.summary.additional_properties.get("retcon.run") if snapshot.summary is not None else None


def landing_of(table: Table, snapshot: Snapshot, spans: Spans) -> Landing:
    """A commit as people, and rollbacks, want to know it."""
    summary = snapshot.summary
    return Landing(
        snapshot_id=snapshot.snapshot_id,
        operation=summary.operation.value if summary is not None else "commit",
        changed=changed_by(table, snapshot, spans),
        run=run_of(snapshot),
        undoes=summary.additional_properties.get("retcon.rollback") if summary is not None else None,
    )


def changed_by(table: Table, snapshot: Snapshot, spans: Spans) -> Changed:
    """The slices that a commit changed: none, where it only wrote the same rows into other files."""
    grain = spans.key[1]
    ordinals: set[int] = set()
    everything = False
    if snapshot.summary is not None and snapshot.summary.operation == Operation.REPLACE:
        return Changed(slices=SliceSet(grain))
    for entry in own_entries(table, snapshot):
        file = spans.file(entry.data_file)
        if file.first is None or file.last is None:
            everything = True
        else:
            ordinals.update(range(file.first, file.last + 1))
    return Changed(slices=SliceSet.of(grain, ordinals), everything=everything)
