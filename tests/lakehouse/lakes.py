"""Real Iceberg tables in a catalog on SQLite, made by pyiceberg: no JVM."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.transforms import IdentityTransform, Transform
from pyiceberg.typedef import Record
from pyiceberg.types import DateType, IcebergType, LongType, NestedField, StringType, TimestampType, TimestamptzType

from retcon.core.projects import Catalog
from retcon.core.slices import Cut, Grain, SliceSet
from retcon.core.tables import Changed, TableContents
from retcon.lakehouse.metadata import IcebergMetadata

Time = date | datetime | str | None
_ARROW = {
    DateType: pa.date32(),
    TimestampType: pa.timestamp("us"),
    TimestamptzType: pa.timestamp("us", tz="UTC"),
    LongType: pa.int64(),
    StringType: pa.string(),
}


def days(text: str) -> SliceSet:
    return SliceSet.parse(Grain.DAY, text)


class Lake:
    """A catalog, its tables, and what retcon sees of them."""

    def __init__(self, folder: Path, uri: str | None = None) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.file = folder / "lake.db"
        self.settings = Catalog(name="lake", uri=uri or f"sqlite:///{self.file}", warehouse=str(folder / "warehouse"))
        self.metadata = IcebergMetadata(self.settings)
        self._catalog: SqlCatalog | None = None

    @property
    def catalog(self) -> SqlCatalog:
        """Pyiceberg's own view; its database is made when it is first asked for."""
        if self._catalog is None:
            uri = self.settings.uri.replace("postgresql://", "postgresql+psycopg://", 1)
            self._catalog = SqlCatalog("lake", uri=uri, warehouse=self.settings.warehouse)
        return self._catalog

    def close(self) -> None:
        """Hang up: a server's connections don't end with whoever held them."""
        for catalog in (self._catalog, self.metadata._opened):
            if isinstance(catalog, SqlCatalog):
                catalog.engine.dispose()

    # ── writing ───────────────────────────────────────────────────────────────────────────────────────────────────

    def make(
        self,
        name: str,
        time: IcebergType | None = None,
        *,
        by: Transform[Any, Any] | None = None,
        number: str = "x",
        more: Mapping[str, IcebergType] | None = None,
        properties: Mapping[str, str] | None = None,
    ) -> Table:
        """An empty table with a time column `d`, cut by it or not at all, and a number."""
        fields: dict[str, IcebergType] = {"d": time or DateType(), number: LongType(), **(more or {})}
        schema = Schema(*(NestedField(at, n, kind) for at, (n, kind) in enumerate(fields.items(), start=1)))
        spec = PartitionSpec(PartitionField(1, 1000, by, "d_cut")) if by else PartitionSpec()
        self.catalog.create_namespace_if_not_exists(name.rpartition(".")[0])
        return self.catalog.create_table(name, schema, partition_spec=spec, properties=dict(properties or {}))

    def by_day(self, name: str, slices: str = "", **more: Any) -> Table:
        """A table cut by its date, with a file of one row in each of these slices: told of, but not written."""
        self.make(name, DateType(), by=IdentityTransform(), **more)
        if slices:
            self.add(name, *(entry(o, Record(o), rows=1, low=o, high=o) for o in days(slices).ordinals))
        return self.table(name)

    def add(self, name: str, *files: DataFile) -> None:
        """Commit files that somebody else wrote, as Spark would."""
        table = self.table(name)
        with table.transaction() as transaction, transaction.update_snapshot().fast_append() as append:
            for file in files:
                file.spec_id = table.metadata.default_spec_id
                append.append_data_file(file)

    def table(self, name: str) -> Table:
        return self.catalog.load_table(name)

    def append(self, name: str, *times: Time, branch: str = "main", **marks: str) -> int:
        """One commit with one row for each time; the snapshot that it made."""
        table = self.table(name)
        properties = {key.replace("__", "."): value for key, value in marks.items()}
        table.append(rows(table, times), snapshot_properties=properties, branch=branch)
        head = self.table(name).metadata.refs[branch].snapshot_id
        assert head is not None
        return head

    def rewrite(self, name: str, change: Callable[[dict[str, Any]], None]) -> None:
        """Change the table's metadata file in place, for what pyiceberg can read but not write."""
        file = Path(self.table(name).metadata_location)
        metadata = json.loads(file.read_text())
        change(metadata)
        file.write_text(json.dumps(metadata))

    # ── what retcon sees ──────────────────────────────────────────────────────────────────────────────────────────

    def contents(
        self, name: str, time: str | None = "d", at: int | None = None, grain: Cut = Grain.DAY
    ) -> TableContents:
        facts = self.metadata.facts(name)
        snapshot = at if at is not None else facts.snapshot_id if facts is not None else None
        return self.metadata.contents(name, time=time, grain=grain, snapshot_id=snapshot)

    def changed(
        self, name: str, since: int | None, until: int | None, time: str | None = "d", grain: Cut = Grain.DAY
    ) -> Changed | None:
        return self.metadata.changed(name, time=time, grain=grain, since=since, until=until)

    def current(self, name: str) -> int | None:
        return self.table(name).metadata.current_snapshot_id


def rows(table: Table, times: Iterable[Time]) -> pa.Table:
    """A row for each time, all other columns counting up."""
    held = list(times)
    columns = []
    for field in table.schema().fields:
        kind = _ARROW[type(field.field_type)]
        values: list[Any] = [moment(t) for t in held] if field.name == "d" else list(range(len(held)))
        columns.append(pa.array([str(v) for v in values] if kind == pa.string() else values, kind))
    return pa.Table.from_arrays(columns, names=[field.name for field in table.schema().fields])


def moment(time: Time) -> date | datetime | None:
    if not isinstance(time, str):
        return time
    return date.fromisoformat(time) if len(time) == 10 else datetime.fromisoformat(time)


def entry(
    number: int,
    partition: Record,
    *,
    rows: int = 5,
    low: int | None = None,
    high: int | None = None,
    content: DataFileContent = DataFileContent.DATA,
) -> DataFile:
    """A manifest's entry for a file; the file itself doesn't matter to what metadata tells."""
    return DataFile.from_args(
        content=content,
        file_path=f"/nowhere/{uuid4().hex}-{number}.parquet",
        file_format=FileFormat.PARQUET,
        partition=partition,
        record_count=rows,
        file_size_in_bytes=100 * rows,
        column_sizes={},
        value_counts={},
        null_value_counts={},
        nan_value_counts={},
        lower_bounds={} if low is None else {1: low.to_bytes(4, "little", signed=True)},
        upper_bounds={} if high is None else {1: high.to_bytes(4, "little", signed=True)},
        key_metadata=None,
        split_offsets=None,
        equality_ids=None,
        sort_order_id=None,
    )


def utc(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)
