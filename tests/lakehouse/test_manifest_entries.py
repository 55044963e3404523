"""Manifests that were opened last aren't opened again, and no more is remembered than fits."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.manifest import ManifestEntryStatus, ManifestFile

from retcon.lakehouse import manifest_entries
from retcon.lakehouse.manifest_entries import entries_of, live_entries
from tests.lakehouse.lakes import Lake, days


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(tmp_path)


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often each manifest is opened."""
    seen: Counter[str] = Counter()
    fetch = ManifestFile.fetch_manifest_entry

    def spied(self: ManifestFile, *given: Any, **named: Any) -> Any:
        seen[self.manifest_path] += 1
        return fetch(self, *given, **named)

    monkeypatch.setattr(ManifestFile, "fetch_manifest_entry", spied)
    return seen


def manifests(lake: Lake) -> tuple[Any, list[ManifestFile]]:
    table = lake.table("raw.t")
    snapshot = table.current_snapshot()
    assert snapshot is not None
    return table.io, snapshot.manifests(table.io)


def test_what_was_opened_is_known_with_and_without_what_it_takes_back(lake: Lake, opened: Counter[str]) -> None:
    lake.by_day("raw.t")
    lake.append("raw.t", "2026-01-01", "2026-01-02")
    lake.table("raw.t").delete("d = '2026-01-02'")
    io, held = manifests(lake)
    for _ in range(2):
        statuses = Counter(entry.status for each in held for entry in entries_of(each, io))
        assert statuses[ManifestEntryStatus.DELETED] == 1
        assert sum(len(live_entries(each, io)) for each in held) == 1
    assert set(opened.values()) == {1}
    assert lake.contents("raw.t").present == days("2026-01-01")


def test_the_oldest_are_forgotten_when_there_are_too_many(
    lake: Lake, opened: Counter[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(manifest_entries, "_MOST", 2)
    lake.by_day("raw.t")
    for day in ("2026-01-01", "2026-01-02", "2026-01-03"):
        lake.append("raw.t", day)
    io, held = manifests(lake)
    for each in held:
        assert len(entries_of(each, io)) == 1
    oldest, _, newest = held
    entries_of(newest, io)
    entries_of(oldest, io)
    assert (opened[newest.manifest_path], opened[oldest.manifest_path]) == (1, 2)
