"""Which files of a table are there: everything that a branch or a tag leads to."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import ThreadPoolExecutor

from pyiceberg.manifest import DataFile, DataFileContent, ManifestEntryStatus, ManifestFile
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot

from retcon.core.pointers import TableCommit
from retcon.core.slices import SliceSet
from retcon.core.troubles import FileCheck, LostFile
from retcon.errors import Fault
from retcon.lakehouse.histories import own_entries
from retcon.lakehouse.spans import Spans

_AT_ONCE = 16
_BATCH = 256

_Refs = dict[str, tuple[str, ...]]
Told = Callable[[int, int], None]
"""So many of so many were looked for."""


def lost_files(table: Table, spans: Spans, *, most: int | None, watch: Told) -> FileCheck:
    """Look for manifest lists, manifests, data and delete files; of the last two no more than `most`, spread evenly."""
    lists = _manifest_lists(table)
    gone = _missing(table, lists, watch)
    lost = [LostFile(path=path, kind="manifest list", refs=lists[path]) for path in gone]
    manifests = _manifests(table, lists, without=gone)
    paths = {path: refs for path, (_, refs) in manifests.items()}
    gone = _missing(table, paths, watch)
    lost += [LostFile(path=path, kind="manifest", refs=paths[path]) for path in gone]
    files = _files(table, manifests, without=gone)
    chosen = list(files)
    if most is not None and len(chosen) > most:
        chosen = [chosen[at * len(chosen) // most] for at in range(most)]
    lost += [_lost(*files[path], spans) for path in _missing(table, chosen, watch)]
    checked = len(lists) + len(manifests) + len(chosen)
    return FileCheck(checked=checked, left=len(files) - len(chosen), lost=tuple(lost))


def lost_for(table: Table, commit: TableCommit) -> tuple[str, ...]:
    """Look for what a commit's new snapshots lead to: manifest lists, manifests, and the files that they add."""
    for paths in _led_to(table, commit):
        lost = _missing(table, paths, lambda *_: None)
        if lost:
            return tuple(lost)
    return ()


def _led_to(table: Table, commit: TableCommit) -> Iterator[list[str]]:
    """Each kind of file after the one that it is found by."""
    updates = json.loads(commit.request)["updates"]
    added = [Snapshot.model_validate(each["snapshot"]) for each in updates if each["action"] == "add-snapshot"]
    yield [snapshot.manifest_list for snapshot in added]
    yield [manifest.manifest_path for snapshot in added for manifest in snapshot.manifests(table.io)]
    entries = (entry for snapshot in added for entry in own_entries(table, snapshot))
    yield [entry.data_file.file_path for entry in entries if entry.status == ManifestEntryStatus.ADDED]


def _manifest_lists(table: Table) -> _Refs:
    found: _Refs = {}
    for name, ref in sorted(table.metadata.refs.items()):
        snapshot = table.metadata.snapshot_by_id(ref.snapshot_id)
        if snapshot is not None:
            found[snapshot.manifest_list] = (*found.get(snapshot.manifest_list, ()), name)
    return found


def _manifests(
    table: Table, lists: _Refs, *, without: Collection[str]
) -> dict[str, tuple[ManifestFile, tuple[str, ...]]]:
    found: dict[str, tuple[ManifestFile, tuple[str, ...]]] = {}
    for snapshot in table.metadata.snapshots:
        path = snapshot.manifest_list
        if path not in lists or path in without:
            continue
        for manifest in snapshot.manifests(table.io):
            _, refs = found.get(manifest.manifest_path, (manifest, ()))
            found[manifest.manifest_path] = (manifest, tuple(sorted({*refs, *lists[path]})))
    return found


def _files(
    table: Table, manifests: dict[str, tuple[ManifestFile, tuple[str, ...]]], *, without: Collection[str]
) -> dict[str, tuple[DataFile, tuple[str, ...]]]:
    found: dict[str, tuple[DataFile, tuple[str, ...]]] = {}
    for path, (manifest, refs) in manifests.items():
        if path in without:
            continue
        for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=True):
            if entry.status != ManifestEntryStatus.DELETED:
                file = entry.data_file
                _, others = found.get(file.file_path, (file, ()))
                found[file.file_path] = (file, tuple(sorted({*others, *refs})))
    return found


def _missing(table: Table, paths: Collection[str], watch: Told) -> list[str]:
    return list(_looked_for(table, list(paths), watch))


def _looked_for(table: Table, paths: list[str], watch: Told) -> Iterator[str]:
    def is_there(path: str) -> bool:
        return table.io.new_input(path).exists()

    with ThreadPoolExecutor(_AT_ONCE) as pool:
        for at in range(0, len(paths), _BATCH):
            watch(at, len(paths))
            batch = paths[at : at + _BATCH]
            try:
                found = list(pool.map(is_there, batch))
            except OSError as error:
                raise Fault(
                    f"the storage of {'.'.join(table.name())} doesn't say which files are there: {error}",
                    state="nothing was changed",
                    next="check that it can be reached and that you may read it; then try again",
                    retryable=True,
                ) from error
            yield from (path for path, there in zip(batch, found, strict=True) if not there)
    watch(len(paths), len(paths))


def _lost(file: DataFile, refs: tuple[str, ...], spans: Spans) -> LostFile:
    is_delete = file.content != DataFileContent.DATA
    held = spans.file(file)
    slices = None if held.first is None or held.last is None else SliceSet.of(spans.key[1], held.slices)
    kind = "delete file" if is_delete else "data file"
    return LostFile(path=file.file_path, kind=kind, refs=refs, slices=slices)
