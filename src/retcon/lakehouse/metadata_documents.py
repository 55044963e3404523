"""What a table's metadata file says, read as the JSON that it is: loading pyiceberg would take longer than the rest."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from retcon.core.conflicts import Commit
from retcon.core.slices import Cut, SliceSet
from retcon.core.tables import Changed, Column, PartitionField, SchemaVersion, TableFacts

Document = Mapping[str, Any]
"""As Iceberg's specification has it, of format version 2 or later: the first one wrote schemas in another place."""

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
ROUND = "retcon.round"
"""Marks the commit with which a run's branch began anew: how often it did so by then."""
_SPARK_NAMES = {"long": "bigint", "timestamptz": "timestamp", "timestamp": "timestamp_ntz", "uuid": "string"}


def facts_in(document: Document, name: str) -> TableFacts:
    """The table as its metadata describes it."""
    schemas = _by_id(document["schemas"], "schema-id")
    specs = _by_id(document["partition-specs"], "spec-id")
    schema = schemas[document["current-schema-id"]]
    names = dict(_names(schema))
    return TableFacts(
        name=name,
        uuid=document["table-uuid"],
        snapshot_id=current_snapshot(document),
        schema_id=document["current-schema-id"],
        spec_id=document["default-spec-id"],
        columns=columns_in(schema),
        partitioning=tuple(
            PartitionField(column=names.get(field["source-id"], "?"), transform=field["transform"])
            for field in specs[document["default-spec-id"]]["fields"]
        ),
        properties=dict(document.get("properties") or {}),
        versions=_versions(document, schemas),
        history=history_in(document),
    )


def current_snapshot(document: Document) -> int | None:
    """Main's newest snapshot."""
    found: int | None = document.get("current-snapshot-id")
    return None if found == -1 else found


def snapshots_in(document: Document) -> Mapping[int, Document]:
    """The snapshots by their id."""
    return _by_id(document.get("snapshots") or (), "snapshot-id")


def line_back(snapshots: Mapping[int, Document], newest: int | None) -> Iterator[Document]:
    """A snapshot and those that it stands on, as far as they are there."""
    while newest is not None and newest in snapshots:
        yield snapshots[newest]
        newest = snapshots[newest].get("parent-snapshot-id")


def replaced_in(summary: Mapping[str, str], cut: Cut) -> SliceSet | None:
    """The slices that a publish or a rollback replaced, as its summary says itself; None where it is another commit, or
    was made when the table was cut otherwise.
    """
    # Waves, and what carries them over onto a new base, are staged; where main was moved to one, others did it.
    if "retcon.wave" in summary or ROUND in summary or "retcon.slices" not in summary:
        return None
    try:
        return SliceSet.parse(cut, summary["retcon.slices"])
    except ValueError:
        return None


def brief_commit(snapshot: Document, cut: Cut) -> Commit | None:
    """A publish or a rollback by the slices that it replaced; None where others committed."""
    summary = snapshot.get("summary") or {}
    replaced = replaced_in(summary, cut)
    if replaced is None:
        return None
    return Commit(
        snapshot_id=snapshot["snapshot-id"],
        operation=summary["operation"],
        run=summary.get("retcon.run"),
        added=Changed(slices=replaced),
        removed=Changed(slices=replaced),
        at=_moment(snapshot["timestamp-ms"]),
    )


def _moment(milliseconds: int) -> datetime:
    return EPOCH + timedelta(milliseconds=milliseconds)


def spark_type(kind: str | Document) -> str:
    """An Iceberg type as Spark spells it."""
    if isinstance(kind, str):
        text = kind.replace(", ", ",")
        return _SPARK_NAMES.get(text, "binary" if text.startswith("fixed") else text)
    match kind["type"]:
        case "struct":
            inner = ",".join(f"{field['name']}:{spark_type(field['type'])}" for field in kind["fields"])
            return f"struct<{inner}>"
        case "list":
            return f"array<{spark_type(kind['element'])}>"
        case _:
            return f"map<{spark_type(kind['key'])},{spark_type(kind['value'])}>"


def _by_id(entries: Any, key: str) -> dict[int, Document]:
    return {entry[key]: entry for entry in entries}


def _names(struct: Document, before: str = "") -> Iterator[tuple[int, str]]:
    """The dotted name of every field by its id; a table is partitioned by none within lists or maps."""
    for field in struct["fields"]:
        name = f"{before}{field['name']}"
        yield field["id"], name
        if not isinstance(field["type"], str) and field["type"]["type"] == "struct":
            yield from _names(field["type"], f"{name}.")


def columns_in(schema: Document) -> tuple[Column, ...]:
    """The columns of a schema, typed as Spark spells it."""
    return tuple(
        Column(name=field["name"], type=spark_type(field["type"]), comment=field.get("doc") or "", id=field["id"])
        for field in schema["fields"]
    )


def _run(snapshot: Document) -> str | None:
    found: str | None = (snapshot.get("summary") or {}).get("retcon.run")
    return found


def _versions(document: Document, schemas: Mapping[int, Document]) -> tuple[SchemaVersion, ...]:
    """The columns along main's history, oldest first; last those that no snapshot of main has yet."""
    line = list(line_back(snapshots_in(document), current_snapshot(document)))
    is_cut_off = bool(line) and line[-1].get("parent-snapshot-id") is not None
    found: list[tuple[int | None, SchemaVersion]] = []
    for snapshot in reversed(line):
        schema_id = snapshot.get("schema-id")
        if schema_id is None or schema_id not in schemas or (found and found[-1][0] == schema_id):
            continue
        version = SchemaVersion(
            snapshot_id=snapshot["snapshot-id"],
            at=datetime.fromtimestamp(snapshot["timestamp-ms"] / 1000, UTC),
            run=_run(snapshot),
            columns=columns_in(schemas[schema_id]),
            is_oldest_kept=is_cut_off and not found,
        )
        found.append((schema_id, version))
    current = document["current-schema-id"]
    if not found or found[-1][0] != current:
        writers = (_run(s) for s in document.get("snapshots") or () if s.get("schema-id") == current)
        run = next((run for run in writers if run), None)
        version = SchemaVersion(snapshot_id=None, at=None, run=run, columns=columns_in(schemas[current]))
        found.append((None, version))
    return tuple(version for _, version in found)


def history_in(document: Document) -> tuple[tuple[datetime, int], ...]:
    """Main's snapshots since when, oldest first; where one has expired, nothing before it is known for certain."""
    snapshots = snapshots_in(document)
    known: list[tuple[datetime, int]] = []
    for entry in reversed(document.get("snapshot-log") or ()):
        if entry["snapshot-id"] not in snapshots:
            break
        known.append((_moment(entry["timestamp-ms"]), entry["snapshot-id"]))
    return tuple(reversed(known))
