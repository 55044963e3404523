"""Iceberg's metadata through pyiceberg: what tables hold, without a JVM."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any

from pyiceberg.catalog import Catalog as IcebergCatalog
from pyiceberg.exceptions import CommitFailedException, NoSuchNamespaceError, NoSuchTableError, RESTError
from pyiceberg.manifest import DataFile, ManifestFile
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.transforms import (
    BucketTransform,
)
from pyiceberg.typedef import Identifier
from pyiceberg.types import (
    IntegerType,
    LongType,
    StringType,
)
from requests.exceptions import RequestException
from sqlalchemy.exc import DBAPIError

from retcon.core.adoption import SpecInUse, Survey
from retcon.core.certificates import CertifyRequest, Compared
from retcon.core.conflicts import Commit, changed_by, commit_text
from retcon.core.intents import MainLine
from retcon.core.jobs import StagedCommits, StagedWave, WaveTarget
from retcon.core.pointers import TableCommit
from retcon.core.projects import Catalog
from retcon.core.slices import Cut, SliceSet
from retcon.core.sweeping import TableRefs
from retcon.core.tables import (
    Aftermath,
    Changed,
    Column,
    TableContents,
    TableFacts,
    TableFile,
)
from retcon.core.troubles import FileCheck, TableMarks
from retcon.errors import Conflict, LostMetadata, Refused
from retcon.fault_points import FaultPoint
from retcon.lakehouse.catalogs import is_new, opened, unreachable
from retcon.lakehouse.certifying import compared
from retcon.lakehouse.files import lost_files, lost_for
from retcon.lakehouse.histories import (
    back_to,
    commits_between,
    is_empty_beginning,
    is_left,
    operation_of,
    round_of,
    run_of,
    staged_slices,
)
from retcon.lakehouse.manifest_cache import Looked, ManifestCache, together
from retcon.lakehouse.manifest_entries import live_entries
from retcon.lakehouse.metadata_documents import columns_in, facts_in
from retcon.lakehouse.snapshots import drop_refs, landing_of, marks_of, refs_of
from retcon.lakehouse.spans import Spans

_BRANCH_DROPPED, _TABLE_DROPPED = FaultPoint("branch dropped"), FaultPoint("table dropped")
_VERSION_DROPPED = FaultPoint("old version dropped")
_TRIES = 5


class IcebergMetadata:
    """The catalog's tables as their metadata files describe them. A database that isn't there yet counts as empty."""

    def __init__(self, catalog: Catalog) -> None:
        self._settings = catalog
        self._opened: IcebergCatalog | None = None
        self._kept = ManifestCache()
        self._manifests: dict[Looked, TableContents] = {}
        """What each manifest lists, as it was looked at: manifests never change, and snapshots share most of them."""
        self._snapshots: dict[tuple[str, int, int | None, Cut], TableContents] = {}
        """What snapshots hold; they never change, either."""

    def names(self) -> tuple[str, ...]:
        """Every table of the catalog."""
        catalog = self._catalog()
        if catalog is None:
            return ()
        return tuple(
            sorted(
                ".".join(identifier)
                for namespace in _namespaces(catalog)
                for identifier in catalog.list_tables(namespace)
            )
        )

    def facts(self, name: str) -> TableFacts | None:
        """The table's newest state, None where there is no such table."""
        table = self._load(name)
        return None if table is None else facts_in(json.loads(table.metadata.model_dump_json()), name)

    def contents(self, name: str, *, time: str | None, grain: Cut, snapshot_id: int | None) -> TableContents:
        """The table's files at a snapshot, each with the slices it may hold rows of."""
        table = self._load(name)
        snapshot = table.metadata.snapshot_by_id(snapshot_id) if table is not None and snapshot_id is not None else None
        if table is None or snapshot_id is None:
            return TableContents(grain=grain)
        if snapshot is None:
            raise Refused(
                f"snapshot {snapshot_id} of {name} is gone",
                state="what it held can't be told any more",
                next="it was expired or the table was made again: `retcon plan --refresh` plans on what is there now",
            )
        spans = Spans(table, time, grain)
        key = (str(table.metadata.table_uuid), snapshot_id, *spans.key)
        if key not in self._snapshots:
            manifests = snapshot.manifests(table.io)
            self._kept.keep_list(snapshot.manifest_list, [(m.manifest_path, m.manifest_length) for m in manifests])
            self._snapshots[key] = together([self._listed(manifest, table, spans) for manifest in manifests], grain)
        return self._snapshots[key]

    def _listed(self, manifest: ManifestFile, table: Table, spans: Spans) -> TableContents:
        """What a manifest lists and doesn't take back."""
        looked = (manifest.manifest_path, manifest.manifest_length, *spans.key)
        listed = self._manifests.get(looked) or self._kept.get(looked)
        if listed is None:
            held = _held(manifest, table)
            listed = TableContents(
                grain=spans.key[1],
                files=tuple(spans.file(file) for file in held),
                null_rows=sum(spans.null_rows(file) for file in held),
            )
            self._kept.keep(looked, listed)
        self._manifests[looked] = listed
        return listed

    def survey(self, name: str, *, by: str | None, grain: Cut) -> Survey:
        """What the table is like, as far as whoever wants to replace its slices must know."""
        table = self._load(name)
        snapshot = table.current_snapshot() if table is not None else None
        if table is None or snapshot is None:
            raise Refused(f"{name} has no rows")
        spans = Spans(table, by, grain)
        deletes: list[TableFile] = []
        data: list[TableFile] = []
        by_spec: dict[int, list[TableFile]] = {}
        unbounded: Counter[int] = Counter()
        null_rows = 0
        for held in (held for manifest in snapshot.manifests(table.io) for held in _held(manifest, table)):
            file = spans.file(held)
            if file.is_delete:
                deletes.append(file)
                continue
            data.append(file)
            by_spec.setdefault(held.spec_id, []).append(file)
            nulls = spans.null_rows(held)
            null_rows += nulls
            unbounded[held.spec_id] += file.first is None or (nulls > 0 and bool(file.slices))
        return Survey(
            format_version=table.metadata.format_version,
            specs=tuple(
                SpecInUse(
                    partitioning=_partitioning_text(table, spec_id),
                    is_current=spec_id == table.metadata.default_spec_id,
                    files=len(files),
                    straddling=_slices_of(grain, (file for file in files if len(file.slices) > 1)),
                    unbounded=unbounded[spec_id],
                )
                for spec_id, files in sorted(by_spec.items())
            ),
            slices=_slices_of(grain, data),
            rows=sum(file.rows for file in data),
            null_rows=null_rows,
            deletes=_slices_of(grain, deletes),
            delete_files=len(deletes),
            sort_order=_sort_text(table),
            takes_branches=table.properties.get("write.wap.enabled", "false") == "true",
        )

    def changed(
        self, name: str, *, time: str | None, grain: Cut, since: int | None, until: int | None
    ) -> Changed | None:
        """What changed after one snapshot up to another; None where the history between them is gone."""
        commits = self.commits(name, time=time, grain=grain, since=since, until=until)
        return None if commits is None else changed_by(commits, grain)

    def commits(
        self, name: str, *, time: str | None, grain: Cut, since: int | None, until: int | None, briefly: bool = False
    ) -> tuple[Commit, ...] | None:
        """The commits after one snapshot up to another, oldest first; None where the history between them is gone."""
        if since == until:
            return ()
        table = self._load(name)
        if table is None or until is None:
            return None
        return commits_between(table, Spans(table, time, grain), since, until, briefly=briefly)

    def buckets_of(self, name: str, column: str, number: int, texts: Sequence[str]) -> frozenset[int] | None:
        """The buckets of these values of a column, as text; None where only Spark could read them."""
        table = self._load(name)
        fields = table.schema().fields if table is not None else ()
        kind = next((field.field_type for field in fields if field.name.lower() == column.lower()), None)
        values: Sequence[Any]
        match kind:
            case IntegerType() | LongType():
                values = [int(text) for text in texts]
            case StringType():
                values = texts
            case _:
                return None
        hashed = BucketTransform[Any](number).transform(kind)
        return frozenset(found for value in values if (found := hashed(value)) is not None)

    def commits_after(self, name: str, snapshot_id: int | None) -> list[str]:
        """What landed on main after this snapshot, newest first, as people can read it."""
        table = self._load(name)
        current = table.metadata.current_snapshot_id if table is not None else None
        if table is None or current is None or current == snapshot_id:
            return []
        found: list[str] = []
        for snapshot in back_to(table, current, snapshot_id):
            if snapshot is None:
                found.append("older commits, already expired")
                break
            found.append(commit_text(snapshot.snapshot_id, operation_of(snapshot), run_of(snapshot)))
        return found

    def was_set_back(self, name: str, snapshot_id: int | None) -> bool:
        """Did main go back to before this snapshot? One that is gone tells nothing; nor does a table made anew."""
        table = self._load(name)
        current = table.metadata.current_snapshot_id if table is not None else None
        if table is None or current is None or snapshot_id is None:
            return False
        return is_left(table, snapshot_id, {each.snapshot_id for each in back_to(table, current, None) if each})

    def main_line(self, name: str) -> MainLine | None:
        """Main's snapshot and those that it stands on."""
        table = self._load(name)
        if table is None:
            return None
        metadata = table.metadata
        current = metadata.current_snapshot_id
        line = () if current is None else back_to(table, current, None)
        return MainLine(
            uuid=str(metadata.table_uuid),
            schema_id=metadata.current_schema_id,
            spec_id=metadata.default_spec_id,
            snapshot_id=current,
            sequence=getattr(metadata, "last_sequence_number", 0),
            line=frozenset(snapshot.snapshot_id for snapshot in line if snapshot is not None),
        )

    def aftermath(self, name: str, *, published: int, tag: str, time: str | None, grain: Cut) -> Aftermath | None:
        """What became of a table since this snapshot of it was published, and what it was before."""
        table = self._load(name)
        if table is None:
            return None
        metadata = table.metadata
        own = metadata.snapshot_by_id(published)
        kept = metadata.refs.get(tag)
        # Once the publish itself has expired, the tag from before it tells.
        before = own.parent_snapshot_id if own is not None else kept.snapshot_id if kept is not None else None
        version = metadata.snapshot_by_id(before) if before is not None else None
        is_nothing = own is not None and before is None
        current = metadata.current_snapshot_id
        line = list(back_to(table, current, published)) if current is not None else [None]
        spans = Spans(table, time, grain)
        return Aftermath(
            current=current,
            before=before,
            columns_before=() if is_nothing else None if version is None else _columns(_schema_of(table, version)),
            landings=None if None in line else tuple(landing_of(table, each, spans) for each in line if each),
        )

    def compared(self, name: str, request: CertifyRequest) -> Compared:
        """What a publish made of a table, file by file, as far as its snapshots are there."""
        table = self._load(name)
        if table is None:
            gone = f"{name} isn't there any more"
            return Compared(before=None, base=None, proven=None, unknown=(gone,), is_there=False)
        return compared(table, request, Spans(table, request.by, request.grain))

    def head(self, name: str, branch: str) -> int | None:
        """The snapshot that a branch points to."""
        table = self._load(name)
        ref = table.metadata.refs.get(branch) if table is not None else None
        return ref.snapshot_id if ref is not None else None

    def staged(self, name: str, branch: str, since: int | None) -> StagedCommits | None:
        """The commits on a branch since it was opened at this snapshot; None where there is no such branch."""
        table = self._load(name)
        ref = table.metadata.refs.get(branch) if table is not None else None
        if table is None or ref is None:
            return None
        found = list(back_to(table, ref.snapshot_id, since))
        commits = [snapshot for snapshot in found if snapshot is not None]
        if since is None and commits and is_empty_beginning(commits[-1]):
            commits.pop()
        runs = {snapshot.snapshot_id: run_of(snapshot) for snapshot in commits}
        return StagedCommits(
            head=ref.snapshot_id,
            runs=runs,
            reaches_base=None not in found,
            round=round_of(commits[-1]) if commits else 0,
        )

    def find_wave(self, target: WaveTarget, slices: SliceSet, by: str | None) -> StagedWave | None:
        """What a wave has committed to its run's branch, found by the marks in the snapshot's summary."""
        table = self._load(target.table)
        # The branch's head of this very load: other waves commit to the branch meanwhile.
        ref = table.metadata.refs.get(target.branch) if table is not None else None
        if table is None or ref is None:
            return None
        marks = {"retcon.run": target.run, "retcon.wave": str(target.wave), "retcon.slices": slices.text}
        for snapshot in back_to(table, ref.snapshot_id, None):
            if snapshot is None or snapshot.summary is None:
                return None
            properties = snapshot.summary.additional_properties
            if all(properties.get(key) == value for key, value in marks.items()):
                return StagedWave(snapshot_id=snapshot.snapshot_id, slices=staged_slices(table, snapshot, slices, by))
        return None

    def drop_branch(self, name: str, branch: str) -> bool:
        """Remove an unpublished run's branch, whatever others commit meanwhile; True if it was there."""
        overtaken: CommitFailedException | None = None
        for _ in range(_TRIES):
            table = self._load(name)
            if table is None or branch not in table.metadata.refs:
                return False
            try:
                with _BRANCH_DROPPED:
                    table.manage_snapshots().remove_branch(branch).commit()
            except CommitFailedException as error:
                overtaken = error
            else:
                return True
        raise Conflict(
            f"{name}: branch {branch} can't be dropped while others write to the table: {overtaken}",
            state="the branch is still there; nothing else of the table was changed",
            next="the same command again tries it anew",
        ) from overtaken

    def drop_unwritten(self, name: str, uuid: str) -> bool:
        """Drop a table that retcon made and nobody wrote: the same table still, without a snapshot on any branch. What
        runs had staged there goes with it.
        """
        table = self._load(name)
        catalog = self._catalog()
        if table is None or catalog is None or str(table.metadata.table_uuid) != uuid:
            return False
        # Main, or the branch of another run which found this table made already.
        if table.metadata.refs:
            return False
        is_only_staged = all(run_of(each) is not None or is_empty_beginning(each) for each in table.metadata.snapshots)
        with _TABLE_DROPPED:
            _drop(table, name, catalog, with_files=is_only_staged)
        return True

    def refs(self, name: str) -> TableRefs | None:
        """The table's branches and tags; None where there is no such table."""
        table = self._load(name)
        return None if table is None else refs_of(table, name)

    def marks(self, name: str) -> TableMarks | None:
        """What the table's snapshots tell of publishes and rollbacks; None where there is no such table."""
        table = self._load(name)
        return None if table is None else marks_of(table, name)

    def lost_files(
        self, name: str, *, by: str | None, grain: Cut, most: int | None, watch: Callable[[int, int], None]
    ) -> FileCheck:
        """Files that the table's branches and tags lead to and that aren't there."""
        table = self._load(name)
        return FileCheck() if table is None else lost_files(table, Spans(table, by, grain), most=most, watch=watch)

    def lost_for(self, commit: TableCommit) -> tuple[str, ...]:
        """Files that a commit, which isn't taken yet, would lead to and that aren't there."""
        table = self._load(commit.table)
        return () if table is None else lost_for(table, commit)

    def drop_refs(self, seen: TableRefs, names: Collection[str]) -> None:
        """Branches and tags of a table, and the snapshots that only they lead to; a conflict where one of its refs
        isn't as it was seen. No file is deleted.
        """
        table = self._load(seen.table)
        if table is not None:
            drop_refs(table, seen, names)

    def drop_version(self, name: str, uuid: str, snapshot_id: int | None) -> bool:
        """Drop an old version of a table that is a table of its own, with its files; the same one still, as it was."""
        table = self._load(name)
        catalog = self._catalog()
        if table is None or catalog is None:
            return False
        if (str(table.metadata.table_uuid), table.metadata.current_snapshot_id) != (uuid, snapshot_id):
            return False
        with _VERSION_DROPPED:
            _drop(table, name, catalog, with_files=True)
        return True

    def close(self) -> None:
        """Let go of the catalog's database."""
        if self._opened is not None:
            self._opened.close()
            self._opened = None
        self._manifests.clear()
        self._snapshots.clear()

    def _load(self, name: str) -> Table | None:
        catalog = self._catalog()
        if catalog is None or "." not in name:
            return None
        try:
            return catalog.load_table(name)
        except (NoSuchTableError, NoSuchNamespaceError):
            return None
        except FileNotFoundError as error:
            raise LostMetadata(
                f"the catalog points {name} at a metadata file that isn't there: {error}",
                next="was the warehouse moved or cleaned? restore that file, or drop the table from the catalog",
            ) from error
        except (DBAPIError, RESTError, RequestException) as error:
            if is_new(error):
                return None
            raise unreachable(error) from error

    def _catalog(self) -> IcebergCatalog | None:
        if self._opened is None:
            self._opened = opened(self._settings)
        return self._opened


def _namespaces(catalog: IcebergCatalog, within: Identifier = ()) -> Iterator[Identifier]:
    for namespace in catalog.list_namespaces(within):
        yield namespace
        yield from _namespaces(catalog, namespace)


def _drop(table: Table, name: str, catalog: IcebergCatalog, *, with_files: bool) -> None:
    # Some tables don't own their files, and say so.
    if not with_files or table.properties.get("gc.enabled", "true").lower() == "false":
        catalog.drop_table(name)
    else:
        # Out of the catalog first: what can't be deleted then is no table's any more.
        with suppress(OSError):
            catalog.purge_table(name)


def _held(manifest: ManifestFile, table: Table) -> list[DataFile]:
    """The files that a manifest lists and doesn't take back."""
    return [entry.data_file for entry in live_entries(manifest, table.io)]


def _slices_of(grain: Cut, files: Iterable[TableFile]) -> SliceSet:
    return SliceSet.of(grain, (ordinal for file in files for ordinal in file.slices))


def _partitioning_text(table: Table, spec_id: int) -> str:
    schema = table.schema()
    fields = table.specs()[spec_id].fields
    return ", ".join(f"{f.transform}({schema.find_column_name(f.source_id) or '?'})" for f in fields) or "nothing"


def _sort_text(table: Table) -> str:
    schema = table.schema()
    return ", ".join(f"{schema.find_column_name(f.source_id) or '?'} {f.direction}" for f in table.sort_order().fields)


def _schema_of(table: Table, snapshot: Snapshot) -> Schema:
    """The schema that a snapshot is read with; those of old tables don't say."""
    return table.schema() if snapshot.schema_id is None else table.schemas()[snapshot.schema_id]


def _columns(schema: Schema) -> tuple[Column, ...]:
    return columns_in(json.loads(schema.model_dump_json()))
