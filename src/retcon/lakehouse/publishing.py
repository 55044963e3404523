"""Publishing and rolling back: the next metadata file of each table, written but not yet current.

The swap itself is one SQL transaction over all tables of the run, in the ledger. A REST catalog writes that file by
itself: for it, each table's step becomes a request.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any
from uuid import uuid4

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from retcon.core.jobs import PublishRequest, UndoRequest
from retcon.core.pointers import Pointer, PointerSwap
from retcon.core.runs import Replaced, RunTable
from retcon.core.slices import Grain, Whole
from retcon.errors import Conflict, Fault, Refused
from retcon.fault_points import FaultPoint
from retcon.lakehouse.group_commits import requested
from retcon.lakehouse.java_classes import java_class
from retcon.lakehouse.metadata_documents import ROUND
from retcon.lakehouse.predicates import MOST_IN_A_LIST
from retcon.lakehouse.scanned_files import JavaMethods, ScannedFiles
from retcon.lakehouse.staging import Staging

_UNTOUCHED = "nothing was published; production is untouched"
_EXPRESSIONS = "org.apache.iceberg.expressions.Expressions"
_METADATA, _CARRIED_OVER = FaultPoint("metadata written"), FaultPoint("branch carried over")


class Publishing:
    """Prepares the metadata that makes a run visible, or takes it back."""

    def __init__(self, spark: SparkSession, staging: Staging, *, by_catalog: bool) -> None:
        self._spark = spark
        self._staging = staging
        self._by_catalog = by_catalog
        self._java = JavaMethods(spark)

    def prepare_publish(self, request: PublishRequest) -> PointerSwap:
        """Replace the run's slices on main by the proven files of its branch, in a metadata file of its own."""
        table = self._staging.iceberg(request.table.written)
        _require_same_table(table, request.table, request)
        files = self._staged_files(table, request)
        transaction = table.newTransaction()
        # Opening it looks at the table anew: what was checked before may have changed while files were looked for.
        _require_same_table(table, request.table, request)
        overwrite = transaction.newOverwrite()
        # One expression for all slices: a second filter would be removed by but not validated.
        rows = self._expression(table, request)
        overwrite.overwriteByRowFilter(rows)
        if files:
            files.add_to(overwrite)
        if request.since is not None:
            overwrite.validateFromSnapshot(request.since)
        overwrite.conflictDetectionFilter(rows).validateNoConflictingData().validateNoConflictingDeletes()
        if files:
            overwrite.validateAddedFilesMatchOverwriteFilter()
        overwrite.set(request.mark, request.run).set("retcon.slices", request.slices.text)
        try:
            overwrite.commit()
        except Py4JJavaError as error:
            raise _publish_error(error, request) from error
        except PySparkException as error:
            raise Conflict(f"{request.table.table}: {error}", state=_UNTOUCHED) from error
        before = transaction.startMetadata().currentSnapshot()
        if before is not None and request.tag is not None and not table.refs().containsKey(request.tag):
            # In the publish's own metadata: what readers had until now, commits of others meanwhile included.
            transaction.manageSnapshots().createTag(request.tag, before.snapshotId()).commit()
        if request.drops_branch:
            self._drop_branch(transaction, table, request.branch)
        swap = self._written(table, transaction, request.table.written)
        replaced = request.table.replaces
        return swap if replaced is None else self._in_place_of(replaced, swap, request)

    def carry_over(self, request: PublishRequest) -> None:
        """The run's branch anew, from its table's base, with the proven files of these slices: all in one commit."""
        rebase, base = request.table.rebase, request.table.base_snapshot
        assert rebase is not None
        table = self._staging.iceberg(request.table.written)
        _require_same_table(table, request.table, request)
        files = self._staged_files(table, request)
        transaction = table.newTransaction()
        _require_same_table(table, request.table, request)
        if base is None and transaction.startMetadata().currentSnapshot() is not None:
            raise Conflict(
                f"{request.table.written}: its first rows were written by others while this run was staged anew",
                state=_UNTOUCHED,
                next=f"`retcon cancel {request.run}`, then `retcon plan --refresh {request.run}`",
            )
        old = _own_snapshots(table, rebase.head, request.run)
        try:
            transaction.manageSnapshots().removeBranch(request.branch).commit()
            manage = transaction.manageSnapshots()
            manage = manage.createBranch(request.branch) if base is None else manage.createBranch(request.branch, base)
            manage.commit()
            carried = transaction.newOverwrite().toBranch(request.branch)
            if request.slices:
                carried.overwriteByRowFilter(self._expression(table, request))
            if files:
                files.add_to(carried)
            carried.set("retcon.run", request.run).set(ROUND, str(rebase.round)).commit()
            # Left behind, an expiry by an older Iceberg would take their files, which stand on the new branch, for
            # those of commits that were taken back.
            forgotten = transaction.expireSnapshots().expireOlderThan(0).cleanExpiredFiles(False)
            for snapshot_id in old:
                forgotten.expireSnapshotId(snapshot_id)
            forgotten.commit()
            with _CARRIED_OVER:
                transaction.commitTransaction()
        except Py4JJavaError as error:
            reason = str(error.java_exception.getMessage()).splitlines()[0][:300]
            raise Fault(
                f"{request.table.written}: the run's branch can't be brought onto snapshot {base}: {reason}",
                state=_UNTOUCHED,
                next=f"`retcon apply {request.run}` tries it again",
                retryable=True,
            ) from error

    def _in_place_of(self, replaced: Replaced, swap: PointerSwap, request: PublishRequest) -> PointerSwap:
        """The same step for the name of the table that is replaced, which changes places with the one built beside."""
        table = self._staging.iceberg(request.table.table)
        _require_same_table(table, replaced, request)
        if _id_of(table.currentSnapshot()) != replaced.snapshot_id:
            raise Conflict(
                f"{request.table.table}: somebody wrote to the table whose place this run takes",
                state=_UNTOUCHED,
                next=f"`retcon plan --refresh {request.run}` plans it anew",
            )
        return PointerSwap(
            table=request.table.table,
            old_location=_location(table),
            new_location=swap.new_location,
            snapshot_id=swap.snapshot_id,
            beside=Pointer(table=swap.table, location=swap.old_location),
        )

    def prepare_rollback(self, request: UndoRequest) -> PointerSwap:
        """Main back to where it was before the publish; where it had nothing, the slices are emptied."""
        table = self._staging.iceberg(request.table.table)
        transaction = table.newTransaction()
        # Columns that were added since are no hindrance: the old files lack them, and they read as NULL.
        _require_same_table(table, replace(request.table, schema_id=table.schema().schemaId()), request)
        # Of the state that the transaction starts from: opening it looked at the table anew.
        current = transaction.startMetadata().currentSnapshot()
        if _id_of(current) != request.seen:
            raise Conflict(
                f"something landed in {request.table.table} after the publish",
                state="nothing was rolled back",
                next=f"`retcon rollback {request.run} --reason …` again lists what it was",
            )
        if request.table.replaces is not None:
            return self._back_in_place(request.table.replaces, table, request)
        try:
            if request.before is None:
                deletion = transaction.newDelete().deleteFromRowFilter(self._expression(table, request))
                deletion.set("retcon.rollback", request.run).commit()
            else:
                # To the publish's own parent, which holds what others committed while the run was staged. The ref is
                # moved, the old files are never added again: a path that was once deleted must not return.
                transaction.manageSnapshots().rollbackTo(request.before).commit()
        except Py4JJavaError as error:
            reason = str(error.java_exception.getMessage()).splitlines()[0][:300]
            raise Refused(
                f"{request.table.table} can't be rolled back: {reason}",
                state="nothing was rolled back",
                next="if its old snapshot was expired, plan a new correction instead",
            ) from error
        return self._written(table, transaction, request.table.table)

    def _back_in_place(self, replaced: Replaced, table: Any, request: UndoRequest) -> PointerSwap:
        """The table that was replaced back under its name, and the one that took its place beside it again."""
        old = self._staging.iceberg(replaced.beside)
        _require_same_table(old, replaced, request)
        return PointerSwap(
            table=request.table.table,
            old_location=_location(table),
            new_location=_location(old),
            snapshot_id=_id_of(old.currentSnapshot()),
            beside=Pointer(table=replaced.beside, location=_location(old)),
        )

    def _expression(self, table: Any, request: PublishRequest | UndoRequest) -> Any:
        """The run's slices as one Iceberg expression: ranges for neighbours, lists for the rest, as a balanced tree."""
        iceberg = java_class(self._spark, _EXPRESSIONS)
        slices = request.slices
        if isinstance(slices.grain, Whole):
            return iceberg.alwaysTrue()
        # A table that retcon writes is partitioned by its slice column alone.
        field = table.schema().findField(table.spec().fields().get(0).sourceId())
        column = table.schema().findColumnName(field.fieldId())
        if not isinstance(slices.grain, Grain):
            # The partition's own transform: Iceberg projects such a term onto the partition strictly, by equality.
            return self._listed(iceberg.bucket(column, slices.grain.number), slices.ordinals)
        kind = str(field.type())
        terms: list[Any] = []
        singles: list[str] = []
        for first, last in slices.ranges():
            if first == last and kind == "date" and slices.grain is Grain.DAY:
                singles.append(_moment(slices.grain, first, kind))
            else:
                start, end = (_moment(slices.grain, ordinal, kind) for ordinal in (first, last + 1))
                terms.append(
                    getattr(iceberg, "and")(iceberg.greaterThanOrEqual(column, start), iceberg.lessThan(column, end))
                )
        if singles:
            terms.append(self._listed(column, singles))
        return _balanced(getattr(iceberg, "or"), terms)

    def _listed(self, term: Any, among: Sequence[Any]) -> Any:
        iceberg = java_class(self._spark, _EXPRESSIONS)
        lists: list[Any] = []
        for at in range(0, len(among), MOST_IN_A_LIST):
            values = java_class(self._spark, "java.util.ArrayList")()
            for value in among[at : at + MOST_IN_A_LIST]:
                values.add(value)
            lists.append(getattr(iceberg, "in")(term, values))
        return _balanced(getattr(iceberg, "or"), lists)

    def _staged_files(self, table: Any, request: PublishRequest) -> ScannedFiles | None:
        """The proven files, each checked to be there; with their column bounds, or the table would lose its pruning."""
        head = table.refs().get(request.branch)
        if head is None or head.snapshotId() != request.table.head:
            found = "is gone" if head is None else f"points to snapshot {head.snapshotId()}"
            raise Refused(
                f"branch {request.branch} of {request.table.written} {found}, "
                f"but snapshot {request.table.head} was proven",
                state=_UNTOUCHED,
                next=f"somebody changed it: `retcon cancel {request.run}`, then plan again",
            )
        if not request.slices:
            return None
        scan = (
            table.newScan()
            .useSnapshot(request.table.head)
            .filter(self._expression(table, request))
            .includeColumnStats()
        )
        files = ScannedFiles(scan, self._java)
        if files.have_deletes():
            raise Refused(
                f"a staged file of {request.table.written} has delete files",
                state=_UNTOUCHED,
                next=f"somebody wrote to its branch: `retcon cancel {request.run}`, then plan again",
            )
        missing = files.missing(table.io())
        if missing:
            raise Refused(
                f"{len(missing)} staged files of {request.table.written} are gone, e.g. {missing[0]}",
                state=_UNTOUCHED,
                next=f"a clean-up removed them: `retcon cancel {request.run}`; `retcon plan --refresh {request.run}`",
            )
        return files

    def _drop_branch(self, transaction: Any, table: Any, branch: str) -> None:
        """The branch, and the snapshots that no other ref leads to: an expiry by Iceberg 1.6 to 1.9 would take one that
        is left behind for undone, and delete its files, which are main's now.
        """
        history = java_class(self._spark, "org.apache.iceberg.util.SnapshotUtil")
        refs = {str(name): int(ref.snapshotId()) for name, ref in table.refs().items()}
        snapshot = table.snapshot(refs.pop(branch))
        transaction.manageSnapshots().removeBranch(branch).commit()
        expiry = transaction.expireSnapshots().expireOlderThan(0).cleanExpiredFiles(False)
        while snapshot is not None:
            at = snapshot.snapshotId()
            if any(history.isAncestorOf(table, head, at) for head in refs.values()):
                break
            expiry.expireSnapshotId(at)
            parent = snapshot.parentId()
            snapshot = None if parent is None else table.snapshot(parent)
        expiry.commit()

    def _written(self, table: Any, transaction: Any, name: str) -> PointerSwap:
        if self._by_catalog:
            return requested(self._spark, transaction, name)
        operations = table.operations()
        old = transaction.startMetadata().metadataFileLocation()
        metadata = transaction.currentMetadata()
        new = operations.metadataFileLocation(_next_file_name(old))
        parser = java_class(self._spark, "org.apache.iceberg.TableMetadataParser")
        with _METADATA:
            parser.write(metadata, operations.io().newOutputFile(new))
        snapshot = metadata.currentSnapshot()
        return PointerSwap(table=name, old_location=old, new_location=new, snapshot_id=snapshot.snapshotId())


def _own_snapshots(table: Any, head: int, run: str) -> list[int]:
    """A run's commits on its branch, from the head back to where it began."""
    found: list[int] = []
    at = table.snapshot(head)
    while at is not None and at.summary().get("retcon.run") == run:
        found.append(int(at.snapshotId()))
        at = None if at.parentId() is None else table.snapshot(at.parentId())
    return found


def _location(table: Any) -> str:
    return str(table.operations().current().metadataFileLocation())


def _id_of(snapshot: Any) -> int | None:
    return None if snapshot is None else int(snapshot.snapshotId())


def _moment(grain: Grain, ordinal: int, kind: str) -> str:
    """The start of a slice as Iceberg reads it for a column of this type."""
    start = grain.start(ordinal)
    match kind:
        case "date":
            return start.date().isoformat()
        case "timestamptz":
            return start.isoformat()
        case _:
            return start.replace(tzinfo=None).isoformat()


def _balanced(either: Callable[[Any, Any], Any], terms: Sequence[Any]) -> Any:
    """A long chain of ORs would overflow the stack of whoever walks it."""
    if len(terms) == 1:
        return terms[0]
    middle = len(terms) // 2
    return either(_balanced(either, terms[:middle]), _balanced(either, terms[middle:]))


def _require_same_table(table: Any, known: RunTable | Replaced, request: PublishRequest | UndoRequest) -> None:
    """Iceberg checks none of these for us."""
    differences = {
        "uuid (dropped and made again?)": (known.uuid, str(table.uuid())),
        "schema id": (known.schema_id, table.schema().schemaId()),
        "partition spec id": (known.spec_id, table.spec().specId()),
    }
    for what, (then, now) in differences.items():
        if then != now:
            raise Refused(
                f"{request.table.table} changed since it was staged: its {what} was {then} and is {now}",
                state=_UNTOUCHED,
                next=f"`retcon cancel {request.run}`, then plan again",
            )


def _publish_error(error: Py4JJavaError, request: PublishRequest) -> Exception:
    java = error.java_exception
    message = str(java.getMessage()).splitlines()[0]
    if java.getClass().getSimpleName() == "ValidationException":
        return Conflict(
            f"{request.table.table}: somebody wrote to the slices of this run ({message[:300]})",
            state=_UNTOUCHED,
            next=f"`retcon plan --refresh {request.run}` plans it anew",
        )
    return Refused(f"{request.table.table} can't be published: {message[:400]}", state=_UNTOUCHED)


def _next_file_name(location: str) -> str:
    name = location.rpartition("/")[2]
    version = name.split("-", 1)[0]
    number = int(version) + 1 if version.isdigit() else 1
    return f"{number:05d}-{uuid4()}.metadata.json"
