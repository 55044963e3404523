"""The entries of manifests. These never change, and one command looks at the same few several times: when it stages,
judges, publishes and certifies.
"""

from __future__ import annotations

from collections import OrderedDict
from threading import Lock

from pyiceberg.io import FileIO
from pyiceberg.manifest import ManifestEntry, ManifestEntryStatus, ManifestFile

_MOST = 20_000
"""Entries that are remembered, some kilobytes each."""


class _Recent:
    """The entries of the manifests that were opened last."""

    def __init__(self) -> None:
        self._held: OrderedDict[tuple[str, int], list[ManifestEntry]] = OrderedDict()
        self._lock = Lock()

    def of(self, manifest: ManifestFile, io: FileIO) -> list[ManifestEntry]:
        key = (manifest.manifest_path, manifest.manifest_length)
        with self._lock:
            if key in self._held:
                self._held.move_to_end(key)
                return self._held[key]
        entries = manifest.fetch_manifest_entry(io, discard_deleted=False)
        with self._lock:
            self._held[key] = entries
            while sum(map(len, self._held.values())) > _MOST:
                self._held.popitem(last=False)
        return entries


_RECENT = _Recent()


def entries_of(manifest: ManifestFile, io: FileIO) -> list[ManifestEntry]:
    """All that it lists, also what it takes back."""
    return _RECENT.of(manifest, io)


def live_entries(manifest: ManifestFile, io: FileIO) -> list[ManifestEntry]:
    """What it lists and doesn't take back."""
    return [entry for entry in entries_of(manifest, io) if entry.status != ManifestEntryStatus.DELETED]
