"""Metadata files read as JSON tell what pyiceberg tells, and where they can't, it is asked."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from pyiceberg.transforms import BucketTransform, DayTransform, IdentityTransform, MonthTransform
from pyiceberg.types import (
    DateType,
    DecimalType,
    ListType,
    LongType,
    NestedField,
    StringType,
    StructType,
    TimestampType,
)

from retcon.core.slices import WHOLE, Grain
from retcon.errors import LostMetadata, Refused
from retcon.lakehouse.metadata import IcebergMetadata
from retcon.lakehouse.metadata_files import MetadataFiles
from retcon.ledger.store import SqlLedger
from tests.lakehouse.lakes import Lake, days, rows

T = "raw.t"
RUN = {"retcon__run": "r1", "retcon__slices": "2026-01-01..2026-01-02"}


def nobody() -> IcebergMetadata:
    raise AssertionError("pyiceberg was asked")


def no_migration(_: object) -> None:
    raise AssertionError("nothing is made")


def pointer(lake: Lake) -> Callable[[str], str | None]:
    return SqlLedger(lake.settings.uri, "lake", migrate=no_migration).pointer


def files(lake: Lake) -> MetadataFiles:
    return MetadataFiles(pointer(lake), lambda: IcebergMetadata(lake.settings))


def alone(lake: Lake) -> MetadataFiles:
    """Without anybody to ask."""
    return MetadataFiles(pointer(lake), nobody)


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lake:
    monkeypatch.setenv("RETCON_CACHE", str(tmp_path / "cache"))
    return Lake(tmp_path / "lake")


@pytest.mark.parametrize(
    ("time", "by"),
    [
        (DateType(), None),
        (DateType(), IdentityTransform()),
        (DateType(), MonthTransform()),
        (TimestampType(), DayTransform()),
        (LongType(), BucketTransform(16)),
    ],
)
def test_facts_are_those_that_pyiceberg_tells(lake: Lake, time: object, by: object) -> None:
    nested = StructType(NestedField(11, "a", LongType(), doc="of a"), NestedField(12, "b", ListType(13, StringType())))
    lake.make(T, time, by=by, more={"price": DecimalType(12, 2), "s": nested}, properties={"owner": "ann"})
    assert alone(lake).facts(T) == lake.metadata.facts(T)
    with lake.table(T).update_schema() as update:
        update.add_column("note", StringType(), doc="a word")
    found = alone(lake).facts(T)
    assert found == lake.metadata.facts(T)
    assert found is not None
    assert found.column_names[-1] == "note"


def test_a_history_with_columns_that_changed_is_told_alike(lake: Lake) -> None:
    lake.by_day(T, "2026-01-01..2026-01-02")
    lake.append(T, "2026-01-03", **RUN)
    with lake.table(T).update_schema() as update:
        update.add_column("note", StringType())
    facts = alone(lake).facts(T)
    assert facts == lake.metadata.facts(T)
    assert facts is not None
    assert [len(version.columns) for version in facts.versions] == [2, 3]
    lake.rewrite(T, lambda m: m["snapshots"].pop(0))
    assert alone(lake).facts(T) == IcebergMetadata(lake.settings).facts(T)


def test_a_change_is_seen_at_once(lake: Lake) -> None:
    tables = alone(lake)
    assert tables.facts(T) is None, "no database yet"
    lake.by_day(T, "2026-01-01")
    before = tables.facts(T)
    lake.append(T, "2026-01-02")
    after = tables.facts(T)
    assert before is not None
    assert after is not None
    assert (before.snapshot_id != after.snapshot_id, after.snapshot_id) == (True, lake.current(T))
    lake.catalog.drop_table(T)
    assert tables.facts(T) is None


def test_the_oldest_format_is_left_to_pyiceberg(lake: Lake) -> None:
    lake.make(T, properties={"format-version": "1"})
    assert files(lake).facts(T) == lake.metadata.facts(T)
    with pytest.raises(AssertionError, match="was asked"):
        alone(lake).facts(T)


def test_a_lost_file_is_told_as_pyiceberg_tells_it(lake: Lake) -> None:
    lake.make(T)
    shutil.rmtree(lake.settings.warehouse)
    with pytest.raises(LostMetadata, match="isn't there"):
        files(lake).facts(T)


@pytest.mark.parametrize(("time", "grain"), [("d", Grain.DAY), ("d", Grain.MONTH), (None, WHOLE), ("nope", Grain.DAY)])
def test_what_a_snapshot_holds_is_known_once_somebody_looked(lake: Lake, time: str | None, grain: object) -> None:
    lake.by_day(T, "2026-01-01..2026-01-05")
    table = lake.table(T)
    table.append(rows(table, ("2026-02-01", None)))
    at = lake.current(T)
    with pytest.raises(AssertionError, match="was asked"):
        alone(lake).contents(T, time=time, grain=grain, snapshot_id=at)
    found = files(lake).contents(T, time=time, grain=grain, snapshot_id=at)
    assert found == IcebergMetadata(lake.settings).contents(T, time=time, grain=grain, snapshot_id=at)
    assert alone(lake).contents(T, time=time, grain=grain, snapshot_id=at) == found


@pytest.mark.parametrize("text", ["", "[]", '{"looked": "x"}'])
def test_a_kept_list_that_cant_be_read_is_looked_up(lake: Lake, tmp_path: Path, text: str) -> None:
    lake.by_day(T, "2026-01-01..2026-01-05")
    found = files(lake).contents(T, time="d", grain=Grain.DAY, snapshot_id=lake.current(T))
    assert found.present == days("2026-01-01..2026-01-05")
    [kept] = (tmp_path / "cache" / "manifests").glob("*.list")
    kept.write_text(text)
    assert files(lake).contents(T, time="d", grain=Grain.DAY, snapshot_id=lake.current(T)) == found


def test_a_snapshot_that_is_gone_is_refused(lake: Lake) -> None:
    lake.by_day(T, "2026-01-01")
    with pytest.raises(Refused, match=r"snapshot 7 of raw\.t is gone"):
        files(lake).contents(T, time="d", grain=Grain.DAY, snapshot_id=7)


def test_publishes_are_told_by_their_summaries_and_other_commits_by_their_files(lake: Lake) -> None:
    lake.by_day(T, "2026-01-01")
    first = lake.current(T)
    second = lake.append(T, "2026-01-01", **RUN)
    third = lake.append(T, "2026-01-02", **{**RUN, "retcon__run": "r2"})

    def between(tables: MetadataFiles | IcebergMetadata, since: int | None, until: int | None) -> object:
        return tables.commits(T, time="d", grain=Grain.DAY, since=since, until=until, briefly=True)

    for since, until in ((first, third), (second, third), (third, third), (third, first)):
        assert between(files(lake), since, until) == between(lake.metadata, since, until)
    assert len(between(alone(lake), first, third)) == 2
    fourth = lake.append(T, "2026-01-03")
    assert between(files(lake), first, fourth) == between(lake.metadata, first, fourth)
    with pytest.raises(AssertionError, match="was asked"):
        between(alone(lake), first, fourth)


def test_everything_else_is_pyicebergs_to_tell(lake: Lake) -> None:
    lake.by_day(T, "2026-01-01")
    tables = files(lake)
    assert tables.names() == (T,)
    assert tables.head(T, "main") == lake.current(T)
    tables.close()
    assert tables.names() == (T,)
