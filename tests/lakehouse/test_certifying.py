"""Snapshots compared by their manifests: those that are shared aren't opened, and what has expired is told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyiceberg.io import FileIO
from pyiceberg.manifest import DataFile, ManifestEntry, ManifestFile
from pyiceberg.typedef import Record

from retcon.core.certificates import CertifyRequest, certificate_of
from retcon.core.slices import Grain, SliceSet
from tests.lakehouse.lakes import Lake, days, entry

SCOPE = days("2026-01-04")
DAY = SCOPE.ordinals[0]
NONE = SliceSet(Grain.DAY)


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """Three days in one manifest, and a fourth in another."""
    lake = Lake(tmp_path)
    lake.by_day("mart.a", "2026-01-01..2026-01-03")
    lake.add("mart.a", a_file())
    return lake


def a_file() -> DataFile:
    return entry(DAY, Record(DAY), rows=7, low=DAY, high=DAY)


def replaced(lake: Lake, new: DataFile, branch: str = "main") -> int:
    """The fourth day by another file, as a publish or a wave does it."""
    table = lake.table("mart.a")
    new.spec_id = table.metadata.default_spec_id
    held = table.snapshot_by_name(branch)
    assert held is not None
    entries = [entry for manifest in held.manifests(table.io) for entry in manifest.fetch_manifest_entry(table.io)]
    old = [each.data_file for each in entries if each.data_file.partition[0] == DAY]
    with table.transaction() as transaction, transaction.update_snapshot(branch=branch).overwrite() as overwrite:
        for file in old:
            overwrite.delete_data_file(file)
        overwrite.append_data_file(new)
    ref = lake.table("mart.a").metadata.refs[branch].snapshot_id
    assert ref is not None
    return ref


def published(lake: Lake) -> CertifyRequest:
    base = lake.current("mart.a")
    assert base is not None
    lake.table("mart.a").manage_snapshots().create_branch(base, "b").commit()
    new = a_file()
    proven = replaced(lake, new, "b")
    return request(replaced(lake, new), proven, base)


def request(published: int, proven: int, base: int | None) -> CertifyRequest:
    return CertifyRequest(published=published, proven=proven, base=base, tag="before", by="d", grain=Grain.DAY)


def test_a_manifest_that_is_shared_is_counted_and_never_opened(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = published(lake)
    table = lake.table("mart.a")
    shared = {m.manifest_path for m in _manifests(lake, asked.base)} & {
        m.manifest_path for m in _manifests(lake, asked.published)
    }
    assert len(shared) == 1
    opened: list[str] = []
    fetch = ManifestFile.fetch_manifest_entry

    def spied(manifest: ManifestFile, io: FileIO, discard_deleted: bool = True) -> list[ManifestEntry]:
        opened.append(manifest.manifest_path)
        return fetch(manifest, io, discard_deleted)

    monkeypatch.setattr(ManifestFile, "fetch_manifest_entry", spied)
    found = certificate_of("mart.a", SCOPE, NONE, asked, lake.metadata.compared("mart.a", asked))
    assert found.holds
    assert (found.files_outside, found.rows_outside) == (3, 3)
    assert (found.files_replaced, found.files_inside, found.rows_inside) == (1, 1, 7)
    assert found.manifests_shared == 1
    assert not shared & set(opened)
    assert table.metadata.current_snapshot_id == found.published


def _manifests(lake: Lake, snapshot: int | None) -> list[ManifestFile]:
    table = lake.table("mart.a")
    assert snapshot is not None
    held = table.snapshot_by_id(snapshot)
    assert held is not None
    return held.manifests(table.io)


def test_others_that_wrote_between_proof_and_publish_are_outside(lake: Lake) -> None:
    asked = published(lake)
    other = days("2026-01-02").ordinals[0]
    lake.add("mart.a", entry(other, Record(other), rows=5, low=other, high=other))
    before = lake.current("mart.a")
    proven = asked.proven
    new = next(
        each.data_file
        for manifest in _manifests(lake, proven)
        for each in manifest.fetch_manifest_entry(lake.table("mart.a").io)
        if each.data_file.partition[0] == DAY
    )
    again = request(replaced(lake, new), proven, asked.base)
    compared = lake.metadata.compared("mart.a", again)
    assert compared.before == before
    found = certificate_of("mart.a", SCOPE, NONE, again, compared)
    assert found.holds
    assert (found.files_outside, found.rows_outside) == (4, 8)
    assert (found.is_proven_inside, found.is_proven_whole) == (True, False)


def test_snapshots_that_have_expired_are_told(lake: Lake) -> None:
    asked = published(lake)
    assert asked.base is not None
    lake.table("mart.a").maintenance.expire_snapshots().by_id(asked.base).commit()
    compared = lake.metadata.compared("mart.a", asked)
    assert compared.base is None
    assert compared.unknown == (f"snapshot {asked.base}, which main showed before the publish, has expired",)
    found = certificate_of("mart.a", SCOPE, NONE, asked, compared)
    assert (found.holds, found.problems, found.is_proven_inside) == (False, (), True)

    gone = request(asked.published, 12, asked.base)
    assert lake.metadata.compared("mart.a", gone).unknown[-1] == (
        "snapshot 12 of the run's branch, which was proven, has expired"
    )
    assert lake.metadata.compared("mart.a", request(13, 12, None)).unknown == (
        "snapshot 13, which was published, has expired",
    )
    assert lake.metadata.compared("mart.b", gone).unknown == ("mart.b isn't there any more",)


def test_a_first_publish_has_nothing_before_it(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    lake.by_day("mart.a", "2026-01-01..2026-01-03")
    only: Any = lake.current("mart.a")
    asked = request(only, only, None)
    compared = lake.metadata.compared("mart.a", asked)
    assert (compared.before, compared.unknown) == (None, ())
    found = certificate_of("mart.a", days("2026-01-01..2026-01-03"), NONE, asked, compared)
    assert found.holds
    assert not certificate_of("mart.a", days("2026-01-01..2026-01-02"), NONE, asked, compared).holds
