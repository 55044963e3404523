"""What manifests list is kept on disk, and never trusted further than it can be read."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyiceberg.transforms import IdentityTransform

from retcon.core.slices import WHOLE, Buckets, Grain
from retcon.core.tables import TableContents, TableFile
from retcon.lakehouse.manifest_cache import Looked, ManifestCache
from retcon.lakehouse.metadata import IcebergMetadata
from tests.lakehouse.lakes import Lake, days, rows

LOOKED: Looked = ("file:///lake/m0.avro", 1234, 1, Grain.DAY)
FILES = TableContents(
    grain=Grain.DAY, files=(TableFile(path="a.parquet", rows=3, bytes=100, first=20000, last=20000),), null_rows=2
)


@pytest.fixture
def cache(tmp_path: Path) -> ManifestCache:
    return ManifestCache({"RETCON_CACHE": str(tmp_path / "cache")})


def kept(tmp_path: Path) -> list[Path]:
    return sorted((tmp_path / "cache" / "manifests").glob("*.json"))


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lake:
    monkeypatch.setenv("RETCON_CACHE", str(tmp_path / "cache"))
    lake = Lake(tmp_path / "lake")
    table = lake.make("raw.orders", by=IdentityTransform())
    table.append(rows(table, ("2026-01-01", "2026-01-02", None)))
    return lake


def contents(lake: Lake) -> TableContents:
    """As a process finds them that remembers nothing."""
    metadata = IcebergMetadata(lake.settings)
    facts = metadata.facts("raw.orders")
    assert facts is not None
    return metadata.contents("raw.orders", time="d", grain=Grain.DAY, snapshot_id=facts.snapshot_id)


def manifests(lake: Lake) -> list[Path]:
    table = lake.catalog.load_table("raw.orders")
    snapshot = table.current_snapshot()
    assert snapshot is not None
    return [Path(each.manifest_path.removeprefix("file://")) for each in snapshot.manifests(table.io)]


def test_a_manifest_is_read_once_and_not_by_the_next_process(lake: Lake, tmp_path: Path) -> None:
    found = contents(lake)
    assert (found.present, found.null_rows, len(found.files)) == (days("2026-01-01..2026-01-02"), 1, 3)
    assert len(kept(tmp_path)) == 1
    for manifest in manifests(lake):
        manifest.unlink()
    assert contents(lake) == found


def test_what_is_added_later_is_seen(lake: Lake, tmp_path: Path) -> None:
    contents(lake)
    table = lake.catalog.load_table("raw.orders")
    table.append(rows(table, ("2026-01-03",)))
    assert contents(lake).present == days("2026-01-01..2026-01-03")
    assert len(kept(tmp_path)) == 2


@pytest.mark.parametrize("text", ["", "{", "[]", '{"looked": "another", "files": [], "null_rows": 0}', "\x00\xff"])
def test_what_cant_be_read_is_looked_up_in_the_table(lake: Lake, tmp_path: Path, text: str) -> None:
    found = contents(lake)
    kept(tmp_path)[0].write_bytes(text.encode("latin-1"))
    assert contents(lake) == found


def test_without_a_place_for_it_everything_is_read_from_the_table(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RETCON_CACHE", "/dev/null/cache")
    assert contents(lake).present == days("2026-01-01..2026-01-02")


def test_what_nobody_asked_for_in_a_month_is_let_go(cache: ManifestCache, tmp_path: Path) -> None:
    other: Looked = ("file:///lake/m1.avro", 1, 1, Grain.DAY)
    cache.keep(LOOKED, FILES)
    cache.keep(other, FILES)
    long_ago = time.time() - 40 * 86_400
    for path in (*kept(tmp_path), tmp_path / "cache" / "manifests" / "swept"):
        os.utime(path, (long_ago, long_ago))
    assert cache.get(LOOKED) == FILES  # which counts as being asked for
    cache.keep(("file:///lake/m2.avro", 1, 1, Grain.DAY), FILES)
    assert cache.get(LOOKED) == FILES
    assert cache.get(other) is None


_ORDINALS = st.none() | st.integers(-(10**6), 10**6)
_FILES = st.builds(
    TableFile,
    path=st.text(),
    rows=st.integers(0, 2**63),
    bytes=st.integers(0, 2**63),
    first=_ORDINALS,
    last=_ORDINALS,
    is_delete=st.booleans(),
)


@given(
    files=st.lists(_FILES, max_size=5),
    null_rows=st.integers(0, 2**63),
    field=st.none() | st.integers(1, 9),
    cut=st.sampled_from((*Grain, WHOLE, Buckets(16))),
    path=st.text(min_size=1),
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50)
def test_what_is_kept_comes_back_as_it_was(
    cache: ManifestCache, files: list[TableFile], null_rows: int, field: int | None, cut: Grain, path: str
) -> None:
    looked: Looked = (path, 7, field, cut)
    contents = TableContents(grain=cut, files=tuple(files), null_rows=null_rows)
    cache.keep(looked, contents)
    assert cache.get(looked) == contents
    assert cache.get((path, 8, field, cut)) is None
