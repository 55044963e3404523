"""What Iceberg's metadata tells, on real tables made by pyiceberg."""

from __future__ import annotations

import json
import shutil
import sqlite3
import sys
from collections import Counter
from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyiceberg.manifest import DataFileContent
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Operation
from pyiceberg.table.update.snapshot import _OverwriteFiles
from pyiceberg.transforms import (
    DayTransform,
    HourTransform,
    IdentityTransform,
    MonthTransform,
    Transform,
    YearTransform,
)
from pyiceberg.typedef import Record
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
    UUIDType,
)

from retcon.core.jobs import WaveTarget
from retcon.core.pointers import TableCommit
from retcon.core.projects import Catalog
from retcon.core.slices import WHOLE, Grain, SliceSet
from retcon.core.tables import Changed, Column, SchemaVersion
from retcon.core.tables import PartitionField as Cut
from retcon.errors import Conflict, Fault, Refused
from retcon.lakehouse.metadata import IcebergMetadata
from retcon.lakehouse.metadata_documents import spark_type
from tests.lakehouse.lakes import Lake, days, entry, rows, utc


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(tmp_path)


# ── what is there ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_database_that_is_not_there_counts_as_empty_and_is_not_made(lake: Lake) -> None:
    assert lake.metadata.names() == ()
    assert lake.metadata.facts("raw.t") is None
    assert not lake.contents("raw.t").files
    assert lake.changed("raw.t", None, 1) is None
    assert lake.metadata.commits_after("raw.t", None) == []
    assert lake.metadata.head("raw.t", "main") is None
    assert lake.metadata.drop_branch("raw.t", "b") is False
    assert lake.metadata.drop_unwritten("raw.t", "uuid") is False
    assert not lake.file.exists()


def test_a_database_without_icebergs_tables_counts_as_empty_and_gets_none(lake: Lake) -> None:
    with sqlite3.connect(lake.file) as connection:
        connection.execute("CREATE TABLE retcon_runs (id TEXT)")
    assert lake.metadata.names() == ()
    assert lake.metadata.facts("raw.t") is None
    with sqlite3.connect(lake.file) as connection:
        assert connection.execute("SELECT name FROM sqlite_master").fetchall() == [("retcon_runs",)]


def test_tables_made_after_the_first_look_are_seen(lake: Lake) -> None:
    assert lake.metadata.names() == ()
    lake.make("raw.t")
    assert lake.metadata.names() == ("raw.t",)
    lake.make("mart.a")
    lake.make("deep.er.b")
    assert lake.metadata.names() == ("deep.er.b", "mart.a", "raw.t")


def test_a_file_that_is_no_database_is_a_fault_and_no_empty_catalog(lake: Lake) -> None:
    lake.file.write_bytes(b"this is not a database, whatever its name says " * 100)
    for ask in (lake.metadata.names, lambda: lake.metadata.facts("raw.t")):
        with pytest.raises(Fault, match="the catalog's database doesn't answer: file is not a database") as fault:
            ask()
        assert "catalog.uri" in fault.value.next


def test_a_database_that_breaks_later_is_a_fault_too(lake: Lake) -> None:
    lake.make("raw.t")
    assert lake.metadata.facts("raw.t") is not None
    lake.catalog.engine.dispose()
    for file in lake.file.parent.glob("lake.db*"):
        file.write_bytes(b"broken" * 1000)
    with pytest.raises(Fault, match="doesn't answer"):
        lake.metadata.facts("raw.t")


def test_a_lost_metadata_file_is_a_fault_that_names_the_table(lake: Lake) -> None:
    lake.make("raw.t")
    shutil.rmtree(lake.settings.warehouse)
    with pytest.raises(Fault, match=r"points raw\.t at a metadata file that isn't there"):
        lake.metadata.facts("raw.t")


def test_a_table_or_a_namespace_that_is_not_there_has_no_facts(lake: Lake) -> None:
    lake.make("raw.t")
    assert [lake.metadata.facts(name) for name in ("raw.x", "elsewhere.t", "t", "")] == [None] * 4


def test_facts_tell_what_the_newest_metadata_says(lake: Lake) -> None:
    table = lake.by_day("raw.t", more={"Name": StringType()}, properties={"retcon.made_by": "r1"})
    facts = lake.metadata.facts("raw.t")
    assert facts is not None
    assert (facts.name, facts.uuid, facts.snapshot_id) == ("raw.t", str(table.metadata.table_uuid), None)
    assert facts.columns == tuple(
        Column(name=n, type=t, id=id)
        for id, (n, t) in enumerate((("d", "date"), ("x", "bigint"), ("Name", "string")), start=1)
    )
    assert facts.partitioning == (Cut(column="d", transform="identity"),)
    assert facts.properties["retcon.made_by"] == "r1"

    snapshot = lake.append("raw.t", "2026-01-01")
    with lake.table("raw.t").update_schema() as change:
        change.add_column("y", LongType())
    later = lake.metadata.facts("raw.t")
    assert later is not None
    assert (later.snapshot_id, later.uuid) == (snapshot, facts.uuid)
    assert later.schema_id != facts.schema_id
    assert later.column_names == ("d", "x", "Name", "y")


def test_versions_tell_the_columns_along_main_and_who_changed_them(lake: Lake) -> None:
    lake.by_day("raw.t")
    [empty] = versions(lake)
    assert (empty.snapshot_id, empty.run, empty.is_oldest_kept) == (None, None, False)
    first = lake.append("raw.t", "2026-01-01")
    lake.append("raw.t", "2026-01-02")
    with lake.table("raw.t").update_schema() as change:
        change.add_column("y", LongType(), doc="why")
    second = lake.append("raw.t", "2026-01-03", retcon__run="r2")
    with lake.table("raw.t").update_schema() as change:
        change.rename_column("y", "z")
    lake.table("raw.t").manage_snapshots().create_branch(second, "retcon_r3").commit()
    lake.append("raw.t", "2026-01-04", branch="retcon_r3", retcon__run="r3")
    found = versions(lake)
    assert [(v.snapshot_id, v.run) for v in found] == [(first, None), (second, "r2"), (None, "r3")]
    assert [v.columns[-1].name for v in found] == ["x", "y", "z"]
    assert found[1].columns[-1].comment == "why"
    assert found[0].at is not None


def test_the_oldest_version_kept_is_told_as_such(lake: Lake) -> None:
    lake.by_day("raw.t")
    gone = lake.append("raw.t", "2026-01-01")
    kept = lake.append("raw.t", "2026-01-02")

    def expire(metadata: dict[str, Any]) -> None:
        metadata["snapshots"] = [s for s in metadata["snapshots"] if s["snapshot-id"] != gone]

    lake.rewrite("raw.t", expire)
    [version] = versions(lake)
    assert (version.snapshot_id, version.is_oldest_kept) == (kept, True)


def versions(lake: Lake) -> tuple[SchemaVersion, ...]:
    facts = lake.metadata.facts("raw.t")
    assert facts is not None
    return facts.versions


def test_a_table_that_was_made_again_under_its_name_has_another_uuid(lake: Lake) -> None:
    lake.make("raw.t")
    before = lake.metadata.facts("raw.t")
    lake.catalog.drop_table("raw.t")
    assert lake.metadata.facts("raw.t") is None
    lake.make("raw.t")
    after = lake.metadata.facts("raw.t")
    assert before is not None
    assert after is not None
    assert before.uuid != after.uuid


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (IntegerType(), "int"), (LongType(), "bigint"), (FloatType(), "float"), (DoubleType(), "double"),
        (BooleanType(), "boolean"), (StringType(), "string"), (BinaryType(), "binary"), (FixedType(16), "binary"),
        (UUIDType(), "string"), (DateType(), "date"), (TimestamptzType(), "timestamp"),
        (TimestampType(), "timestamp_ntz"), (DecimalType(12, 2), "decimal(12,2)"),
        (ListType(1, LongType()), "array<bigint>"),
        (MapType(1, StringType(), 2, TimestampType()), "map<string,timestamp_ntz>"),
        (StructType(NestedField(1, "a", LongType()), NestedField(2, "b", ListType(3, DecimalType(9, 0)))),
         "struct<a:bigint,b:array<decimal(9,0)>>"),
    ],
)  # fmt: skip
def test_types_are_spelt_as_spark_spells_them(kind: IcebergType, name: str) -> None:
    assert spark_type(json.loads(kind.model_dump_json())) == name


# ── which slices files hold ───────────────────────────────────────────────────────────────────────────────────────


def test_files_of_a_table_cut_by_date_hold_one_slice_each(lake: Lake) -> None:
    lake.by_day("raw.t")
    lake.append("raw.t", "2026-01-02", "2026-01-01", "2026-01-02", "1969-12-31")
    held = lake.contents("raw.t", "D")
    assert held.present == days("1969-12-31, 2026-01-01..2026-01-02")
    assert held.is_exact
    assert Counter((file.first, file.last, file.rows) for file in held.files) == Counter(
        [(-1, -1, 1), (20454, 20454, 1), (20455, 20455, 2)]
    )
    assert held.of(days("2026-01-02")).rows == 2
    assert held.of(days("2026-01-03")).files == 0
    assert all(file.bytes > 0 and not file.is_delete for file in held.files)


def test_files_of_a_table_that_is_not_cut_go_by_the_bounds_of_the_column(lake: Lake) -> None:
    lake.make("raw.t")
    lake.append("raw.t", "2026-01-05", "2026-01-01", "2026-01-03")
    lake.append("raw.t", "2026-02-01")
    held = lake.contents("raw.t")
    assert held.present == days("2026-01-01..2026-01-05, 2026-02-01")
    assert not held.is_exact
    # A file that may hold rows of a slice counts with all it has.
    assert held.of(days("2026-01-02")).rows == 3
    assert held.of(days("2026-02-01")).rows == 1


@pytest.mark.parametrize("cut", [None, IdentityTransform()])
def test_rows_without_a_time_are_counted_and_in_no_slice(lake: Lake, cut: IdentityTransform | None) -> None:
    lake.make("raw.t", by=cut)
    lake.append("raw.t", "2026-01-01", "2026-01-02")
    before = lake.contents("raw.t")
    since = lake.append("raw.t", None, None, None)
    held = lake.contents("raw.t")
    assert (before.null_rows, held.null_rows) == (0, 3)
    assert held.of(None).rows == 5
    assert held.present == before.present
    assert held.is_exact == before.is_exact
    january = days("2026-01-01..2026-01-31")
    assert held.of(january) == before.of(january)
    until = lake.append("raw.t", None)
    assert lake.changed("raw.t", since, until) == Changed(slices=days(""))


def test_rows_without_a_time_beside_others_in_one_file_are_counted(lake: Lake) -> None:
    lake.make("raw.t")
    lake.append("raw.t", "2026-01-01", None, "2026-01-03")
    held = lake.contents("raw.t")
    assert held.null_rows == 1
    assert held.present == days("2026-01-01..2026-01-03")


@pytest.mark.parametrize("kind", [TimestamptzType(), TimestampType()])
def test_timestamps_belong_to_the_utc_day_they_fall_in(lake: Lake, kind: IcebergType) -> None:
    lake.make("raw.t", kind)
    for time in (
        "2026-01-01T23:59:59.999999",
        "2026-01-03T00:00:00",
        "1969-12-31T23:59:59.999999",
        "1970-01-01T00:00:00",
    ):
        lake.append("raw.t", utc(time) if isinstance(kind, TimestamptzType) else time)
    assert lake.contents("raw.t").present == days("1969-12-31..1970-01-01, 2026-01-01, 2026-01-03")
    assert lake.contents("raw.t").is_exact


def test_a_local_time_is_put_into_its_utc_day(lake: Lake) -> None:
    lake.make("raw.t", TimestamptzType())
    lake.append("raw.t", "2026-01-02T01:30:00+05:30")
    assert lake.contents("raw.t").present == days("2026-01-01")


def test_a_table_cut_by_the_day_of_a_timestamp_goes_by_its_partitions(lake: Lake) -> None:
    lake.make("raw.t", TimestamptzType(), by=DayTransform())
    lake.add("raw.t", entry(1, Record(20454)), entry(2, Record(-1)), entry(3, Record(None)))
    held = lake.contents("raw.t")
    assert held.present == days("1969-12-31, 2026-01-01")
    assert held.is_exact
    assert held.null_rows == 5


def test_a_table_cut_by_month_goes_by_bounds_and_without_them_by_the_month(lake: Lake) -> None:
    lake.make("raw.t", by=MonthTransform())
    lake.add("raw.t", entry(1, Record(672), low=20454, high=20460))
    assert lake.contents("raw.t").present == days("2026-01-01..2026-01-07")
    lake.add("raw.t", entry(2, Record(672)), entry(3, Record(672), low=20454))
    held = lake.contents("raw.t")
    assert held.present == days("2026-01-01..2026-01-31")
    assert held.of(days("1999-01-01")).files == 0
    assert held.of(days("2026-01-02")).files == 3
    assert held.of(days("2026-01-31")).files == 2


CUTS = [(HourTransform(), Grain.HOUR), (DayTransform(), Grain.DAY), (MonthTransform(), Grain.MONTH),
        (YearTransform(), Grain.YEAR)]  # fmt: skip


@pytest.mark.parametrize(("by", "own"), CUTS)
@pytest.mark.parametrize("asked", Grain)
def test_partitions_of_every_grain_are_told_in_slices_of_every_grain(
    lake: Lake, by: Transform[Any, Any], own: Grain, asked: Grain
) -> None:
    lake.make("raw.t", TimestamptzType(), by=by)
    ordinals = [own.ordinal(utc(text)) for text in ("2024-02-29T23:00:00", "1969-12-31T23:00:00")]
    lake.add("raw.t", *(entry(at, Record(o)) for at, o in enumerate(ordinals)), entry(9, Record(None)))
    held = lake.contents("raw.t", grain=asked)
    assert held.present == SliceSet.of(own, ordinals).recut(asked)
    assert held.null_rows == 5
    assert held.is_exact == own.divides(asked)


def test_a_partition_by_day_is_told_in_hours_by_the_bounds_of_its_files(lake: Lake) -> None:
    lake.make("raw.t", TimestamptzType(), by=IdentityTransform())
    lake.append("raw.t", "2026-01-01T05:59:59+00:00", "2026-01-01T07:00:00+00:00")
    held = lake.contents("raw.t", grain=Grain.HOUR)
    assert held.present == SliceSet.parse(Grain.HOUR, "2026-01-01T05, 2026-01-01T07")
    assert lake.contents("raw.t", grain=Grain.MONTH).present == SliceSet.parse(Grain.MONTH, "2026-01")


def test_a_date_may_mean_any_hour_of_its_day(lake: Lake) -> None:
    lake.by_day("raw.t", "2026-01-02")
    found = lake.contents("raw.t", grain=Grain.HOUR).present
    assert found == SliceSet.parse(Grain.HOUR, "2026-01-02T00..2026-01-02T23")


def test_files_of_a_table_whose_partitioning_was_refined_go_by_the_partition_they_were_written_to(lake: Lake) -> None:
    lake.make("raw.t", by=YearTransform())
    lake.add("raw.t", entry(1, Record(55)))
    with lake.table("raw.t").update_spec() as change:
        change.remove_field("d_cut")
        change.add_field("d", MonthTransform())
    lake.add("raw.t", entry(2, Record(672)))
    held = lake.contents("raw.t", grain=Grain.MONTH)
    assert held.present == SliceSet.parse(Grain.MONTH, "2025-01..2026-01")
    assert held.of(SliceSet.parse(Grain.MONTH, "2026-01")).files == 1


def test_a_file_with_a_time_at_the_end_of_the_calendar_may_hold_anything_where_it_is_told_in_hours(lake: Lake) -> None:
    lake.make("raw.t")
    lake.append("raw.t", "2026-01-01", "9999-12-31")
    assert not lake.contents("raw.t", grain=Grain.HOUR).present
    assert lake.contents("raw.t", grain=Grain.HOUR).of(SliceSet.parse(Grain.HOUR, "2026-01-01T05")).files == 1
    assert lake.contents("raw.t", grain=Grain.MONTH).present.text == "2026-01..9999-12"


def test_a_table_that_is_not_cut_is_one_slice_that_any_commit_changes(lake: Lake) -> None:
    lake.by_day("raw.t", "2026-01-01..2026-01-03")
    first = lake.current("raw.t")
    held = lake.contents("raw.t", None, grain=WHOLE)
    assert held.present == SliceSet(WHOLE, (0,))
    assert held.of(SliceSet(WHOLE, (0,))).rows == 3
    second = lake.append("raw.t", "2026-01-02")
    assert lake.changed("raw.t", first, second, None, grain=WHOLE) == Changed(slices=SliceSet(WHOLE, (0,)))


def test_a_table_read_whole_or_by_an_unknown_column_has_no_slices(lake: Lake) -> None:
    lake.by_day("raw.t", "2026-01-01..2026-01-03")
    for time in (None, "no_such_column", "x"):
        held = lake.contents("raw.t", time)
        assert held.of(None).rows == 3
        assert not held.present
        assert held.null_rows == 0


def test_a_table_without_snapshots_holds_nothing(lake: Lake) -> None:
    lake.by_day("raw.t")
    assert lake.contents("raw.t").of(None).files == 0


def test_a_snapshot_that_is_gone_is_never_taken_for_an_empty_one(lake: Lake) -> None:
    lake.by_day("raw.t")
    lake.append("raw.t", "2026-01-01")
    with pytest.raises(Refused, match=r"snapshot 4711 of raw\.t is gone"):
        lake.contents("raw.t", at=4711)


def test_contents_are_those_of_the_snapshot_asked_for(lake: Lake) -> None:
    lake.by_day("raw.t")
    first = lake.append("raw.t", "2026-01-01")
    second = lake.append("raw.t", "2026-01-02")
    lake.table("raw.t").delete("d = '2026-01-01'")
    assert lake.contents("raw.t", at=first).present == days("2026-01-01")
    assert lake.contents("raw.t", at=second).present == days("2026-01-01..2026-01-02")
    assert lake.contents("raw.t").present == days("2026-01-02")


def test_files_from_before_the_partitioning_changed_are_read_by_their_own(lake: Lake) -> None:
    lake.make("raw.t")
    lake.append("raw.t", "2026-01-01", "2026-01-04")
    with lake.table("raw.t").update_spec() as change:
        change.add_field("d", IdentityTransform())
    lake.append("raw.t", "2026-01-06", "2026-01-08")
    held = lake.contents("raw.t")
    assert held.present == days("2026-01-01..2026-01-04, 2026-01-06, 2026-01-08")
    assert Counter(len(file.slices) for file in held.files) == Counter({4: 1, 1: 2})


def test_a_renamed_time_column_is_found_under_its_new_name(lake: Lake) -> None:
    lake.by_day("raw.t", "2026-01-01")
    with lake.table("raw.t").update_schema() as change:
        change.rename_column("d", "day")
    assert lake.contents("raw.t", "day").present == days("2026-01-01")
    facts = lake.metadata.facts("raw.t")
    assert facts is not None
    assert facts.partitioning == (Cut(column="day", transform="identity"),)


@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.lists(st.none() | st.integers(-3, 12), min_size=1, max_size=8), min_size=1, max_size=3), st.booleans()
)
def test_what_the_metadata_says_agrees_with_the_rows(lake: Lake, commits: list[list[int | None]], is_cut: bool) -> None:
    name = f"raw.t{len(lake.metadata.names())}"
    lake.make(name, by=IdentityTransform() if is_cut else None)
    for ordinals in commits:
        lake.append(name, *(None if o is None else date(1970, 1, 1) + timedelta(days=o) for o in ordinals))
    times = Counter(lake.table(name).scan().to_arrow()["d"].to_pylist())
    held = lake.contents(name)
    assert held.null_rows == times[None]
    assert held.of(None).rows == sum(times.values())
    for o in range(-4, 14):
        count = times[date(1970, 1, 1) + timedelta(days=o)]
        found = held.of(SliceSet(Grain.DAY, (o,))).rows
        assert found == count if is_cut else found >= count


# ── what changed ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_changes_are_the_slices_that_commits_in_between_added_to_or_removed_from(lake: Lake) -> None:
    lake.by_day("raw.t")
    start = lake.append("raw.t", "2026-01-01", "2026-01-02", "2026-01-03")
    appended = lake.append("raw.t", "2026-01-05")
    lake.table("raw.t").delete("d = '2026-01-02'")
    deleted = lake.current("raw.t")
    table = lake.table("raw.t")
    table.overwrite(rows(table, ["2026-01-03", "2026-01-03"]), overwrite_filter="d = '2026-01-03'")
    overwritten = lake.current("raw.t")

    assert lake.changed("raw.t", start, appended) == Changed(slices=days("2026-01-05"))
    assert lake.changed("raw.t", appended, deleted) == Changed(slices=days("2026-01-02"))
    assert lake.changed("raw.t", deleted, overwritten) == Changed(slices=days("2026-01-03"))
    assert lake.changed("raw.t", start, overwritten) == Changed(slices=days("2026-01-02..2026-01-03, 2026-01-05"))
    assert lake.changed("raw.t", None, start) == Changed(slices=days("2026-01-01..2026-01-03"))
    assert lake.changed("raw.t", start, start) == Changed(slices=days(""))


def test_a_row_deleted_from_a_file_changes_every_slice_of_the_file(lake: Lake) -> None:
    lake.make("raw.t")
    start = lake.append("raw.t", "2026-01-01", "2026-01-04")
    lake.table("raw.t").delete("x = 0")
    assert lake.changed("raw.t", start, lake.current("raw.t")) == Changed(slices=days("2026-01-01..2026-01-04"))


def test_a_change_that_can_not_be_tied_to_slices_is_said_to_be_one(lake: Lake) -> None:
    lake.by_day("raw.t")
    start = lake.append("raw.t", "2026-01-01")
    end = lake.append("raw.t", "2026-01-02")
    assert lake.changed("raw.t", start, end, time=None) == Changed(slices=days(""), everything=True)


def test_a_rewrite_that_changes_no_row_is_no_change(lake: Lake) -> None:
    lake.by_day("raw.t", "2026-01-01..2026-01-02")
    start = lake.current("raw.t")
    table = lake.table("raw.t")
    old = [entry.data_file for entry in table.current_snapshot().manifests(table.io)[0].fetch_manifest_entry(table.io)]
    with table.transaction() as transaction:
        rewrite = _OverwriteFiles(operation=Operation.OVERWRITE, transaction=transaction, io=table.io)
        for file in old:
            rewrite.delete_data_file(file)
            compacted = entry(file.partition[0], file.partition)
            compacted.spec_id = 0
            rewrite.append_data_file(compacted)
        rewrite.commit()

    def say_replace(metadata: dict[str, Any]) -> None:
        metadata["snapshots"][-1]["summary"]["operation"] = "replace"

    assert lake.changed("raw.t", start, lake.current("raw.t")) == Changed(slices=days("2026-01-01..2026-01-02"))
    lake.rewrite("raw.t", say_replace)
    end = lake.current("raw.t")
    assert start != end
    assert (
        lake.contents("raw.t").of(days("2026-01-01")).digest
        != lake.contents("raw.t", at=start).of(days("2026-01-01")).digest
    )
    assert lake.changed("raw.t", start, end) == Changed(slices=days(""))
    later = lake.append("raw.t", "2026-01-02")
    assert lake.changed("raw.t", start, later) == Changed(slices=days("2026-01-02"))


def test_a_snapshot_that_is_no_ancestor_leaves_the_change_unknown(lake: Lake) -> None:
    lake.by_day("raw.t")
    base = lake.append("raw.t", "2026-01-01")
    lake.table("raw.t").manage_snapshots().create_branch(base, "side").commit()
    on_main = lake.append("raw.t", "2026-01-02")
    on_side = lake.append("raw.t", "2026-01-03", branch="side")
    assert lake.changed("raw.t", on_main, on_side) is None
    assert lake.changed("raw.t", on_main, base) is None
    assert lake.changed("raw.t", 4711, on_main) is None
    assert lake.changed("raw.t", base, None) is None
    assert lake.changed("raw.t", base, on_side) == Changed(slices=days("2026-01-03"))


def test_a_table_that_was_dropped_or_made_again_leaves_the_change_unknown(lake: Lake) -> None:
    lake.by_day("raw.t")
    old = lake.append("raw.t", "2026-01-01")
    lake.catalog.drop_table("raw.t")
    assert lake.changed("raw.t", old, 4711) is None
    lake.by_day("raw.t")
    new = lake.append("raw.t", "2026-01-01")
    assert lake.changed("raw.t", old, new) is None


def test_a_table_that_went_back_is_told_from_one_that_lost_its_history_or_was_made_anew(lake: Lake) -> None:
    lake.make("raw.t")
    first, second, third = (lake.append("raw.t", f"2026-01-0{n}") for n in (1, 2, 3))
    was_set_back = lake.metadata.was_set_back
    assert not any(was_set_back("raw.t", each) for each in (first, second, third, None, 7))

    def show(snapshot: int) -> None:
        def change(metadata: dict[str, Any]) -> None:
            metadata["current-snapshot-id"] = metadata["refs"]["main"]["snapshot-id"] = snapshot

        lake.rewrite("raw.t", change)

    show(first)
    assert [was_set_back("raw.t", each) for each in (first, second, third)] == [False, True, True]
    fourth = lake.append("raw.t", "2026-01-04")
    assert [was_set_back("raw.t", each) for each in (first, third, fourth)] == [False, True, False]

    def replace(metadata: dict[str, Any]) -> None:
        """As CREATE OR REPLACE does it: the new snapshot has no parent."""
        newest = next(each for each in metadata["snapshots"] if each["snapshot-id"] == fourth)
        newest.pop("parent-snapshot-id")

    lake.rewrite("raw.t", replace)
    assert not was_set_back("raw.t", third)
    lake.table("raw.t").maintenance.expire_snapshots().by_id(third).commit()
    assert not was_set_back("raw.t", third)
    assert not was_set_back("raw.none", third)


def test_history_that_was_expired_leaves_the_change_unknown(lake: Lake) -> None:
    lake.by_day("raw.t")
    first, second, third = (lake.append("raw.t", f"2026-01-0{n}") for n in (1, 2, 3))
    lake.table("raw.t").maintenance.expire_snapshots().by_id(second).commit()
    assert lake.changed("raw.t", first, third) is None
    assert lake.metadata.commits_after("raw.t", first) == [
        f"snapshot {third} (append)",
        "older commits, already expired",
    ]


def test_what_landed_after_a_snapshot_is_told_newest_first_with_the_run_that_did_it(lake: Lake) -> None:
    lake.by_day("raw.t")
    assert lake.metadata.commits_after("raw.t", None) == []
    first = lake.append("raw.t", "2026-01-01")
    second = lake.append("raw.t", "2026-01-02", retcon__run="20260102_t_k3f9")
    lake.table("raw.t").delete("d = '2026-01-01'")
    third = lake.current("raw.t")
    told = [f"snapshot {third} (delete)", f"snapshot {second} (append by run 20260102_t_k3f9)"]
    assert lake.metadata.commits_after("raw.t", first) == told
    assert lake.metadata.commits_after("raw.t", None) == [*told, f"snapshot {first} (append)"]
    assert lake.metadata.commits_after("raw.t", third) == []


def test_each_commit_tells_what_it_added_and_what_it_took_out(lake: Lake) -> None:
    lake.by_day("raw.t")
    base = lake.append("raw.t", "2026-01-01")
    lake.append("raw.t", "2026-01-02", "2026-01-03", retcon__run="20260102_t_k3f9")
    lake.table("raw.t").delete("d = '2026-01-01'")
    file = entry(0, Record(days("2026-01-02").ordinals[0]), content=DataFileContent.POSITION_DELETES)
    lake.add("raw.t", file)
    asked = {"time": "d", "grain": Grain.DAY, "since": base}
    commits = lake.metadata.commits("raw.t", **asked, until=lake.current("raw.t"))
    assert commits is not None
    assert [(c.run, c.added.slices.text, c.removed.slices.text) for c in commits] == [
        ("20260102_t_k3f9", "2026-01-02..2026-01-03", ""),
        (None, "", "2026-01-01"),
        (None, "", "2026-01-02"),
    ]
    assert lake.metadata.commits("raw.t", **asked, until=base) == ()
    assert lake.metadata.commits("raw.t", **asked, until=None) is None
    assert lake.metadata.commits("raw.nope", **asked, until=4711) is None


# ── branches ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_what_a_publish_replaced_is_briefly_told_by_its_summary(lake: Lake) -> None:
    lake.by_day("raw.t")
    start = lake.append("raw.t", "2026-01-01")
    marks = {"retcon__run": "r", "retcon__slices": "2026-01-02..2026-01-03"}
    published = lake.append("raw.t", "2026-01-02", **marks)
    others = lake.append("raw.t", "2026-01-05")
    staged = lake.append("raw.t", "2026-01-06", **marks, retcon__wave="1")
    end = lake.append("raw.t", "2026-01-07", retcon__run="r", retcon__slices="2026-W03")

    def told(*, briefly: bool) -> dict[int, str]:
        found = lake.metadata.commits("raw.t", time="d", grain=Grain.DAY, since=start, until=end, briefly=briefly)
        return {commit.snapshot_id: commit.added.slices.text for commit in found or ()}

    by_files = {published: "2026-01-02", others: "2026-01-05", staged: "2026-01-06", end: "2026-01-07"}
    assert told(briefly=False) == by_files
    # Only where main itself was published to, and cut as it is now.
    assert told(briefly=True) == {**by_files, published: "2026-01-02..2026-01-03"}


def test_the_head_of_a_branch_moves_with_its_commits_and_main_stays(lake: Lake) -> None:
    lake.by_day("raw.t")
    base = lake.append("raw.t", "2026-01-01")
    assert lake.metadata.head("raw.t", "retcon_r1") is None
    lake.table("raw.t").manage_snapshots().create_branch(base, "retcon_r1").commit()
    assert lake.metadata.head("raw.t", "retcon_r1") == base
    staged = lake.append("raw.t", "2026-01-02", branch="retcon_r1")
    assert lake.metadata.head("raw.t", "retcon_r1") == staged
    assert lake.metadata.head("raw.t", "main") == base
    facts = lake.metadata.facts("raw.t")
    assert facts is not None
    assert facts.snapshot_id == base
    assert lake.contents("raw.t", at=staged).present == days("2026-01-01..2026-01-02")


def test_dropping_a_branch_leaves_main_and_other_branches_alone(lake: Lake) -> None:
    lake.by_day("raw.t")
    base = lake.append("raw.t", "2026-01-01")
    for name in ("retcon_r1", "retcon_r2"):
        lake.table("raw.t").manage_snapshots().create_branch(base, name).commit()
    assert lake.metadata.drop_branch("raw.t", "retcon_r1") is True
    assert lake.metadata.drop_branch("raw.t", "retcon_r1") is False
    assert lake.metadata.drop_branch("raw.t", "retcon_r9") is False
    assert lake.metadata.head("raw.t", "retcon_r2") == lake.metadata.head("raw.t", "main") == base


def wave(number: int = 1, run: str = "r1") -> WaveTarget:
    return WaveTarget(run=run, wave=number, table="mart.m", branch=f"retcon_{run}")


def stage(lake: Lake, number: int, slices: str, *times: str) -> int:
    """A wave's commit on its run's branch, with the marks that retcon writes into the summary."""
    return lake.append(
        "mart.m", *times, branch="retcon_r1", retcon__run="r1", retcon__wave=str(number), retcon__slices=slices
    )


def test_a_wave_is_found_by_its_marks_with_what_it_wrote_for_each_slice(lake: Lake) -> None:
    lake.by_day("mart.m", "2026-01-01..2026-01-09")
    base = lake.current("mart.m")
    assert base is not None
    lake.table("mart.m").manage_snapshots().create_branch(base, "retcon_r1").commit()
    assert lake.metadata.find_wave(wave(), days("2026-01-01..2026-01-03"), "d") is None
    first = stage(lake, 1, "2026-01-01..2026-01-03", "2026-01-01", "2026-01-03", "2026-01-03")
    second = stage(lake, 2, "2026-01-04", "2026-01-04")

    found = lake.metadata.find_wave(wave(), days("2026-01-01..2026-01-03"), "D")
    assert found is not None
    assert found.snapshot_id == first
    assert [(s.slice, s.rows, s.files) for s in found.slices] == [
        ("2026-01-01", 1, 1), ("2026-01-02", 0, 0), ("2026-01-03", 2, 1),
    ]  # fmt: skip
    assert all((s.bytes > 0) == (s.rows > 0) for s in found.slices)
    other = lake.metadata.find_wave(wave(2), days("2026-01-04"), "d")
    assert other is not None
    assert other.snapshot_id == second

    assert lake.metadata.find_wave(wave(3), days("2026-01-04"), "d") is None
    assert lake.metadata.find_wave(wave(2), days("2026-01-04..2026-01-05"), "d") is None
    assert lake.metadata.find_wave(wave(1, "r2"), days("2026-01-01..2026-01-03"), "d") is None


def test_a_wave_is_found_though_another_one_commits_while_it_is_looked_for(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake.by_day("mart.m", "2026-01-01")
    base = lake.current("mart.m")
    assert base is not None
    lake.table("mart.m").manage_snapshots().create_branch(base, "retcon_r1").commit()
    first = stage(lake, 1, "2026-01-01", "2026-01-01")
    staged: list[int] = []
    load = lake.metadata._load

    def load_and_be_overtaken(name: str) -> Table | None:
        table = load(name)
        if not staged:
            staged.append(stage(lake, 2, "2026-01-02", "2026-01-02"))
        return table

    monkeypatch.setattr(lake.metadata, "_load", load_and_be_overtaken)
    found = lake.metadata.find_wave(wave(), days("2026-01-01"), "d")
    assert staged == [lake.metadata.head("mart.m", "retcon_r1")], "the other wave did commit"
    assert found is not None
    assert found.snapshot_id == first


@pytest.mark.parametrize("stray", ["2026-01-05", None])
def test_a_wave_that_holds_rows_outside_its_slices_is_a_fault(lake: Lake, stray: str | None) -> None:
    lake.by_day("mart.m", "2026-01-01")
    base = lake.current("mart.m")
    assert base is not None
    lake.table("mart.m").manage_snapshots().create_branch(base, "retcon_r1").commit()
    lake.append("mart.m", stray, branch="retcon_r1", retcon__run="r1", retcon__wave="1", retcon__slices="1970-01-01")
    with pytest.raises(Fault, match="holds other rows"):
        lake.metadata.find_wave(wave(), days("1970-01-01"), "d")


def test_only_the_very_table_that_was_made_and_that_nobody_wrote_is_dropped(lake: Lake) -> None:
    made = str(lake.by_day("mart.m").metadata.table_uuid)
    assert lake.metadata.drop_unwritten("mart.m", "another uuid") is False
    assert lake.metadata.drop_unwritten("mart.n", made) is False
    lake.append("mart.m", "2026-01-01")
    assert lake.metadata.drop_unwritten("mart.m", made) is False
    assert lake.metadata.names() == ("mart.m",)
    lake.catalog.drop_table("mart.m")
    lake.by_day("mart.m")
    assert lake.metadata.drop_unwritten("mart.m", made) is False, "made again by somebody else"
    facts = lake.metadata.facts("mart.m")
    assert facts is not None
    assert lake.metadata.drop_unwritten("mart.m", facts.uuid) is True
    assert lake.metadata.names() == ()


def make_it_a_branch(metadata: dict[str, Any]) -> None:
    """Main's rows were only staged: Spark can write to a branch of a table without snapshots, pyiceberg can't."""
    metadata["refs"] = {"retcon_r2": metadata["refs"]["main"]}
    metadata["current-snapshot-id"] = -1


def test_a_table_that_holds_another_runs_branch_is_not_dropped(lake: Lake) -> None:
    lake.by_day("mart.m", "2026-01-01")
    lake.rewrite("mart.m", make_it_a_branch)
    facts = lake.metadata.facts("mart.m")
    assert facts is not None
    assert facts.snapshot_id is None
    assert lake.metadata.drop_unwritten("mart.m", facts.uuid) is False
    assert lake.metadata.drop_branch("mart.m", "retcon_r2") is True
    assert lake.metadata.drop_unwritten("mart.m", facts.uuid) is True


def staged_only(lake: Lake, *runs: str | None, **properties: str) -> list[Path]:
    """A table on which rows were staged, none published, and the branch is gone; all of its files."""
    lake.by_day("mart.m", properties={key.replace("__", "."): value for key, value in properties.items()})
    for run in runs:
        lake.append("mart.m", "2026-01-01", **({} if run is None else {"retcon__run": run}))
    lake.rewrite("mart.m", make_it_a_branch)
    lake.metadata.drop_branch("mart.m", "retcon_r2")
    return files_of(lake)


def files_of(lake: Lake) -> list[Path]:
    return sorted(path for path in Path(lake.settings.warehouse).rglob("*") if path.is_file())


def dropped(lake: Lake) -> bool:
    facts = lake.metadata.facts("mart.m")
    assert facts is not None
    return lake.metadata.drop_unwritten("mart.m", facts.uuid)


def test_a_table_that_nobody_wrote_goes_with_what_was_staged_on_it(lake: Lake) -> None:
    assert any(path.suffix == ".parquet" for path in staged_only(lake, "r1", "r1"))
    assert dropped(lake)
    assert lake.metadata.names() == ()
    assert files_of(lake) == []


def test_files_that_the_table_doesnt_own_stay_when_it_goes(lake: Lake) -> None:
    files = staged_only(lake, "r1", gc__enabled="false")
    assert dropped(lake)
    assert files_of(lake) == files


def test_files_that_others_than_runs_wrote_stay_when_the_table_goes(lake: Lake) -> None:
    files = staged_only(lake, "r1", None)
    assert dropped(lake)
    assert files_of(lake) == files


@pytest.mark.parametrize("times", [1, 2, 99])
def test_a_branch_is_dropped_though_others_commit_meanwhile(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, times: int
) -> None:
    lake.by_day("mart.m", "2026-01-01")
    base = lake.current("mart.m")
    assert base is not None
    lake.table("mart.m").manage_snapshots().create_branch(base, "retcon_r1").commit()
    catalog: Any = lake.metadata._catalog()
    write, commits = catalog._write_metadata, iter(range(times))

    def write_and_be_overtaken(*args: Any, **named: Any) -> None:
        write(*args, **named)
        if next(commits, None) is not None:
            lake.append("mart.m", "2026-01-02")

    monkeypatch.setattr(catalog, "_write_metadata", write_and_be_overtaken)
    if times == 99:
        with pytest.raises(Conflict, match=r"mart\.m: branch retcon_r1 can't be dropped while others write"):
            lake.metadata.drop_branch("mart.m", "retcon_r1")
        return
    assert lake.metadata.drop_branch("mart.m", "retcon_r1") is True
    assert set(lake.table("mart.m").metadata.refs) == {"main"}
    assert len(lake.contents("mart.m").files) == 1 + times, "what they wrote is there"


def test_another_catalog_in_the_same_database_is_not_seen(lake: Lake) -> None:
    lake.make("raw.t")
    elsewhere = IcebergMetadata(Catalog(name="other", uri=lake.settings.uri, warehouse=lake.settings.warehouse))
    assert elsewhere.names() == ()
    assert elsewhere.facts("raw.t") is None


def test_a_driver_that_is_not_installed_is_a_fault_with_the_remedy(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    elsewhere = IcebergMetadata(Catalog(name="lake", uri="postgresql://ada@localhost/lake", warehouse="/nowhere"))
    with pytest.raises(Fault, match="driver for the catalog's database is not installed") as fault:
        elsewhere.names()
    assert "retcon[postgres]" in fault.value.next


def test_a_server_that_does_not_answer_is_a_fault_that_may_pass(lake: Lake) -> None:
    elsewhere = IcebergMetadata(Catalog(name="lake", uri="postgresql://ada@127.0.0.1:1/lake", warehouse="/nowhere"))
    with pytest.raises(Fault, match="doesn't answer") as fault:
        elsewhere.facts("raw.t")
    assert fault.value.retryable
    assert "and that the server runs" in fault.value.next


def test_a_catalog_on_postgresql_is_empty_until_somebody_writes_to_it(tmp_path: Path, postgres_url: str) -> None:
    name = f"test_{uuid4().hex}"
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}".encode())
    lake = Lake(tmp_path, postgres_url.rpartition("/")[0] + f"/{name}")
    assert lake.metadata.names() == ()
    assert lake.metadata.facts("raw.t") is None
    lake.by_day("raw.t", "2026-01-01..2026-01-02")
    assert lake.metadata.names() == ("raw.t",)
    assert lake.contents("raw.t").present == days("2026-01-01..2026-01-02")
    lake.close()


@pytest.mark.parametrize("kind", ["data file", "manifest", "manifest list"])
def test_what_a_commit_would_lead_to_is_looked_for_before_it_is_taken(lake: Lake, kind: str) -> None:
    lake.make("raw.t")
    lake.append("raw.t", "2026-01-01")
    lake.append("raw.t", "2026-01-02", "2026-01-03")
    table = lake.table("raw.t")
    snapshot = table.current_snapshot()
    assert snapshot is not None
    updates = [
        {"action": "add-snapshot", "snapshot": json.loads(snapshot.model_dump_json())},
        {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": snapshot.snapshot_id},
    ]
    commit = TableCommit(table="raw.t", uuid="u", schema_id=0, spec_id=0, base=None, snapshot_id=snapshot.snapshot_id,
                         is_new=True, sequence=2, request=json.dumps({"updates": updates}))  # fmt: skip
    assert lake.metadata.lost_for(commit) == ()
    manifest = snapshot.manifests(table.io)[0]
    path = {
        "data file": manifest.fetch_manifest_entry(table.io)[0].data_file.file_path,
        "manifest": manifest.manifest_path,
        "manifest list": snapshot.manifest_list,
    }[kind]
    Path(path.removeprefix("file://")).unlink()
    assert lake.metadata.lost_for(commit) == (path,)
    moved_back = replace(commit, is_new=False, request=json.dumps({"updates": updates[1:]}))
    assert lake.metadata.lost_for(moved_back) == ()
