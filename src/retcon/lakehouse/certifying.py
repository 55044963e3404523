"""Snapshots of a table compared by their manifests: those that two of them share aren't opened."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from pyiceberg.manifest import ManifestContent, ManifestFile
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot

from retcon.core.certificates import Apart, CertifyRequest, Compared
from retcon.core.tables import TableFile
from retcon.lakehouse.manifest_entries import live_entries
from retcon.lakehouse.snapshots import is_root
from retcon.lakehouse.spans import Spans


def compared(table: Table, request: CertifyRequest, spans: Spans) -> Compared:
    """A publish against what main was just before, and against the branch that was proven."""
    by_id = table.metadata.snapshot_by_id
    published = by_id(request.published)
    if published is None:
        gone = f"snapshot {request.published}, which was published, has expired"
        return Compared(before=None, base=None, proven=None, unknown=(gone,), is_there=False)
    tagged = table.metadata.refs.get(request.tag)
    before = published.parent_snapshot_id
    if before is None and tagged is not None:
        before = tagged.snapshot_id
    unknown: list[str] = []
    base = None if before is None else by_id(before)
    # Where a parent has expired, pyiceberg shows a snapshot without one.
    is_first = before is None and request.base is None and is_root(published)
    if base is None and not is_first:
        named = before if before is not None else request.base
        unknown.append(f"{f'snapshot {named}' if named else 'what'}, which main showed before the publish, has expired")
    proven = by_id(request.proven)
    if proven is None:
        unknown.append(f"snapshot {request.proven} of the run's branch, which was proven, has expired")
    looked_at = _Manifests(table, spans)
    return Compared(
        before=before,
        base=looked_at.apart(base, published) if base is not None or is_first else None,
        proven=looked_at.apart(proven, published) if proven is not None else None,
        unknown=tuple(unknown),
    )


class _Manifests:
    """The manifests of a table, each opened once at most."""

    def __init__(self, table: Table, spans: Spans) -> None:
        self._table = table
        self._spans = spans
        self._files: dict[str, list[TableFile]] = {}

    def apart(self, first: Snapshot | None, second: Snapshot) -> Apart:
        """What two snapshots have in common, and what each lists in manifests of its own."""
        opened = len(self._files)
        then, now = self._of(first), self._of(second)
        both = [now[path] for path in sorted(then.keys() & now.keys())]
        counts = [_counted(manifest, self._table) for manifest in both]
        data = (each.min_sequence_number or 0 for each in now.values() if each.content == ManifestContent.DATA)
        oldest = min(data, default=None)
        before = [file for path in sorted(then.keys() - now.keys()) for file in self._listed(then[path])]
        after = [file for path in sorted(now.keys() - then.keys()) for file in self._listed(now[path])]
        left = [file for file in before if not _is_lapsed(file, oldest)]
        return Apart(
            manifests=tuple(each.manifest_path for each in both),
            files=sum(files for files, _ in counts),
            rows=sum(rows for _, rows in counts),
            before=tuple(left),
            after=tuple(after),
            lapsed=len(before) - len(left),
            opened=len(self._files) - opened,
        )

    def _of(self, snapshot: Snapshot | None) -> dict[str, ManifestFile]:
        """By path; without those that only take files back."""
        listed = [] if snapshot is None else snapshot.manifests(self._table.io)
        return {each.manifest_path: each for each in listed if each.has_added_files() or each.has_existing_files()}

    def _listed(self, manifest: ManifestFile) -> list[TableFile]:
        """The live files. Their version is their sequence number: it says which deletes apply to them."""
        path = manifest.manifest_path
        if path not in self._files:
            entries = live_entries(manifest, self._table.io)
            self._files[path] = [
                replace(self._spans.file(entry.data_file), version=str(entry.sequence_number or 0)) for entry in entries
            ]
        return self._files[path]


def _counted(manifest: ManifestFile, table: Table) -> tuple[int, int]:
    """Files, and rows of data files, as the list of manifests has them; old lists may not."""
    files = (manifest.added_files_count, manifest.existing_files_count)
    rows = (manifest.added_rows_count, manifest.existing_rows_count)
    is_data = manifest.content == ManifestContent.DATA
    if None not in (*files, *rows):
        return sum(_known(files)), sum(_known(rows)) if is_data else 0
    held = manifest.fetch_manifest_entry(table.io, discard_deleted=True)
    return len(held), sum(entry.data_file.record_count for entry in held) if is_data else 0


def _known(counts: Iterable[int | None]) -> list[int]:
    return [count for count in counts if count is not None]


def _is_lapsed(file: TableFile, oldest: int | None) -> bool:
    """A delete file older than every data file applies to none. Iceberg leaves it out of the next snapshot."""
    return file.is_delete and (oldest is None or int(file.version) < oldest)
