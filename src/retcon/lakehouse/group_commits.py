"""Committing through a REST catalog: each table's step in the words of its protocol, and all of them in one request."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from retcon.core.pointers import PointerSwap, TableCommit
from retcon.errors import Conflict, Fault, Refused
from retcon.fault_points import FaultPoint

_COMMITTED = FaultPoint("group committed by the catalog")
_NOT_TAKEN = "no table was changed by this step"
_AGAIN = "run the same command again: it looks at what changed"
_REFUSALS = {
    "CommitFailedException": "somebody else wrote meanwhile",
    # A commit to another branch of a table, too, takes the number that this one had.
    "BadRequestException": "the catalog doesn't take it",
    "ValidationException": "the catalog doesn't take it",
}
_FINAL = {
    "NoSuchTableException": "a table is gone",
    "NotAuthorizedException": "the catalog doesn't know who asks",
    "ForbiddenException": "the catalog doesn't allow it",
    "UnsupportedOperationException": "this catalog commits no groups of tables",
}


def requested(spark: SparkSession, transaction: Any, name: str) -> PointerSwap:
    """A prepared transaction as a request to the catalog; nothing is sent."""
    jvm = _java(spark)
    iceberg = jvm.org.apache.iceberg
    before, after = transaction.startMetadata(), transaction.currentMetadata()
    changes = after.changes()
    # The table's identity, and of each branch and tag that is moved, where it was.
    requirements = jvm.java.util.ArrayList(iceberg.UpdateRequirements.forUpdateTable(before, changes))
    requirements.add(iceberg.UpdateRequirement.AssertCurrentSchemaID(before.currentSchemaId()))
    requirements.add(iceberg.UpdateRequirement.AssertDefaultSpecID(before.defaultSpecId()))
    identifier = iceberg.catalog.TableIdentifier.of(_strings(spark, name.split(".")))
    requests = iceberg.rest.requests
    text = requests.UpdateTableRequestParser.toJson(
        requests.UpdateTableRequest.create(identifier, requirements, changes)
    )
    base, snapshot = before.currentSnapshot(), after.currentSnapshot()
    is_new = before.snapshot(snapshot.snapshotId()) is None
    return PointerSwap(
        table=name,
        old_location=str(before.metadataFileLocation()),
        new_location=str(snapshot.manifestListLocation()),
        snapshot_id=int(snapshot.snapshotId()),
        commit=TableCommit(
            table=name,
            uuid=str(before.uuid()),
            schema_id=int(before.currentSchemaId()),
            spec_id=int(before.defaultSpecId()),
            base=None if base is None else int(base.snapshotId()),
            snapshot_id=int(snapshot.snapshotId()),
            is_new=is_new,
            # Tables of format version 1 have none.
            sequence=int(snapshot.sequenceNumber()) or None if is_new else None,
            request=str(text),
        ),
    )


class RestCommits:
    """The catalog's own commit of several tables."""

    def __init__(self, spark: SparkSession, catalog: str) -> None:
        self._spark = spark
        self._catalog = catalog

    def commit(self, requests: Sequence[str]) -> None:
        """Ask for all of them in one request, which carries what must hold; it is sent once."""
        jvm = _java(self._spark)
        iceberg = jvm.org.apache.iceberg
        commits = jvm.java.util.ArrayList()
        for text in requests:
            request = iceberg.rest.requests.UpdateTableRequestParser.fromJson(text)
            commits.add(
                iceberg.catalog.ImmutableTableCommit.builder()
                .identifier(request.identifier())
                .requirements(request.requirements())
                .updates(request.updates())
                .build()
            )
        try:
            catalog = iceberg.spark.Spark3Util.loadIcebergCatalog(self._spark._jsparkSession, self._catalog)
            with _COMMITTED:
                catalog.commitTransaction(commits)
        except Py4JJavaError as error:
            raise _problem(error) from error


def _problem(error: Py4JJavaError) -> Refused | Fault:
    kind = str(error.java_exception.getClass().getSimpleName())
    message = (str(error.java_exception.getMessage()).splitlines() or [kind])[0][:300]
    if kind in _REFUSALS:
        return Conflict(f"{_REFUSALS[kind]}: {message}", state=_NOT_TAKEN, next=_AGAIN)
    if kind in _FINAL:
        return Refused(f"{_FINAL[kind]}: {message}", state=_NOT_TAKEN, next="look at the catalog's own log")
    # An answer that got lost, too: it may have been taken.
    return Fault(f"the catalog gave no answer that says so: {message}", retryable=True)


def _strings(spark: SparkSession, parts: Sequence[str]) -> Any:
    """A Java array."""
    gateway = spark.sparkContext._gateway
    assert gateway is not None
    array = gateway.new_array(gateway.jvm.java.lang.String, len(parts))
    for place, part in enumerate(parts):
        array[place] = part
    return array


def _java(spark: SparkSession) -> Any:
    return spark._jvm
