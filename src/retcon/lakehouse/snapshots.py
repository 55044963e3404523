"""What landed on a table since, its refs, and letting go of them."""

from __future__ import annotations

import re
from collections.abc import Collection
from datetime import timedelta

from pyiceberg.exceptions import CommitFailedException
from pyiceberg.table import Table
from pyiceberg.table.refs import SnapshotRefType
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.table.update import (
    AssertRefSnapshotId,
    AssertTableUUID,
    RemoveSnapshotRefUpdate,
    RemoveSnapshotsUpdate,
    TableRequirement,
    TableUpdate,
)

from retcon.core.conflicts import changed_by
from retcon.core.sweeping import Ref, TableRefs
from retcon.core.tables import Landing
from retcon.core.troubles import Mark, TableMarks
from retcon.errors import Conflict
from retcon.fault_points import FaultPoint
from retcon.lakehouse.histories import back_to, commit_of, is_left
from retcon.lakehouse.metadata_documents import EPOCH, ROUND
from retcon.lakehouse.spans import Spans

_REFS_DROPPED = FaultPoint("refs dropped")
_RUN_ID = re.compile(r"[a-z0-9_]+")


def landing_of(table: Table, snapshot: Snapshot, spans: Spans) -> Landing:
    """A commit as people, and rollbacks, want to know it."""
    commit, summary = commit_of(table, snapshot, spans), snapshot.summary
    return Landing(
        snapshot_id=commit.snapshot_id,
        operation=commit.operation,
        changed=changed_by((commit,), spans.key[1]),
        run=commit.run,
        undoes=summary.additional_properties.get("retcon.rollback") if summary is not None else None,
    )


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


def marks_of(table: Table, name: str) -> TableMarks:
    """What the summaries of a table's snapshots tell of publishes and rollbacks."""
    metadata = table.metadata
    current = metadata.current_snapshot_id
    line = list(back_to(table, current, None)) if current is not None else []
    main = frozenset(snapshot.snapshot_id for snapshot in line if snapshot is not None)
    # Main may have been moved back; what was never on it isn't published.
    shown = main | {entry.snapshot_id for entry in metadata.snapshot_log}
    marks = [mark for each in metadata.snapshots if each.snapshot_id in shown and (mark := _mark(each)) is not None]
    return TableMarks(
        table=name,
        uuid=str(metadata.table_uuid),
        schema_id=metadata.current_schema_id,
        spec_id=metadata.default_spec_id,
        marks=tuple(sorted(marks, key=lambda mark: mark.at)),
        snapshots=frozenset(snapshot.snapshot_id for snapshot in metadata.snapshots),
        left=frozenset(mark.snapshot_id for mark in marks if is_left(table, mark.snapshot_id, main)),
        is_whole=None not in line and (not line or is_root(line[-1])),
    )


def is_root(snapshot: Snapshot | None) -> bool:
    """Is it a table's first? Pyiceberg makes a snapshot without a parent of one whose parent expired."""
    told = snapshot.summary.additional_properties if snapshot is not None and snapshot.summary is not None else {}
    return int(told.get("total-data-files") or 0) <= int(told.get("added-data-files") or 0)


def _mark(snapshot: Snapshot) -> Mark | None:
    told = snapshot.summary.additional_properties if snapshot.summary is not None else {}
    undone = told.get("retcon.rollback")
    # Waves, and what carries them over onto a new base, were staged; where main was moved to one, others did it.
    published = None if "retcon.wave" in told or ROUND in told else told.get("retcon.run")
    run = undone or published
    if run is None or _RUN_ID.fullmatch(run) is None:
        return None
    return Mark(
        snapshot_id=snapshot.snapshot_id,
        parent=snapshot.parent_snapshot_id,
        at=EPOCH + timedelta(milliseconds=snapshot.timestamp_ms),
        run=run,
        slices=told.get("retcon.slices", ""),
        undoes=undone is not None,
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
        with _REFS_DROPPED:
            table.catalog.commit_table(table, requirements, updates)
    except (CommitFailedException, ValueError) as error:  # the second, where a snapshot expired meanwhile
        raise Conflict(
            f"{seen.table} was written by somebody else meanwhile: {error}",
            state="what was swept before stays swept; this table is as it was",
            next="`retcon sweep` again goes on",
        ) from error
