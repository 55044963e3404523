"""A table's snapshots as pyiceberg has them: what each changed, and by whom."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from datetime import UTC, datetime, timedelta

from pyiceberg.exceptions import CommitFailedException
from pyiceberg.manifest import ManifestEntry, ManifestEntryStatus
from pyiceberg.table import Table
from pyiceberg.table.refs import SnapshotRefType
from pyiceberg.table.snapshots import Operation, Snapshot
from pyiceberg.table.update import (
    AssertRefSnapshotId,
    AssertTableUUID,
    RemoveSnapshotRefUpdate,
    RemoveSnapshotsUpdate,
    TableRequirement,
    TableUpdate,
)

from retcon.core.slices import SliceSet
from retcon.core.sweeping import Ref, TableRefs
from retcon.core.tables import Changed, Landing
from retcon.errors import Conflict
from retcon.lakehouse.spans import Spans

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


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


def refs_of(table: Table, name: str) -> TableRefs:
    """A table's branches and tags, and how its snapshots stand on one another."""
    metadata = table.metadata
    return TableRefs(
        table=name,
        refs=tuple(
            Ref(name=ref, snapshot_id=held.snapshot_id, is_tag=held.snapshot_ref_type == SnapshotRefType.TAG)
            for ref, held in sorted(metadata.refs.items())
        ),
        parents={snapshot.snapshot_id: snapshot.parent_snapshot_id for snapshot in metadata.snapshots},
        times={s.snapshot_id: EPOCH + timedelta(milliseconds=s.timestamp_ms) for s in metadata.snapshots},
    )


def drop_refs(table: Table, seen: TableRefs, names: Collection[str]) -> None:
    """Refs and the snapshots that only they lead to, in one commit: with the refs alone, an expiry by Iceberg 1.6 to
    1.9 takes the snapshots for undone, and deletes their files, which may be live on main.
    """
    requirements: tuple[TableRequirement, ...] = (
        AssertTableUUID(uuid=table.metadata.table_uuid),
        *(AssertRefSnapshotId.model_validate({"ref": ref.name, "snapshot-id": ref.snapshot_id}) for ref in seen.refs),
    )
    only = sorted(seen.only_of(names))
    updates: tuple[TableUpdate, ...] = tuple(
        RemoveSnapshotRefUpdate.model_validate({"ref-name": name}) for name in sorted(names)
    )
    updates += (RemoveSnapshotsUpdate.model_validate({"snapshot-ids": only}),) if only else ()
    try:
        table.catalog.commit_table(table, requirements, updates)
    except (CommitFailedException, ValueError) as error:  # the second, where a snapshot expired meanwhile
        raise Conflict(
            f"{seen.table} was written by somebody else meanwhile: {error}",
            state="what was swept before stays swept; this table is as it was",
            next="`retcon sweep` again goes on",
        ) from error
