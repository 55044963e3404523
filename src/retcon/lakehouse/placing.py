"""Placing: the partitions that a wave's rows belong to, and whether the tasks that yield them write as they come."""

from __future__ import annotations

import re
from typing import Any

from pyspark.sql import DataFrame

from retcon.core.jobs import Job
from retcon.core.queries import quoted
from retcon.core.slices import Buckets, Grain, Whole
from retcon.lakehouse.java_classes import java_class
from retcon.lakehouse.scoped_reads import type_of

_IDENTITY = "identity"
_EXPRESSIONS = "org.apache.spark.sql.catalyst.expressions"
_SHUFFLE = re.compile(r"\bExchange\b")
"""As Spark's plans name it. A BroadcastExchange moves none of the rows; a ReusedExchange is one of the others again."""
_KEY = re.compile(r"\[([^\]]*)\]")


def partitioned_by(job: Job, frame: DataFrame) -> str:
    """How a table for these rows is made: a slice is one partition, but for weeks, for which Iceberg has none."""
    by, transform = job.model.slicing.by, _transform(job, frame)
    if by is None or transform is None:
        return ""
    if isinstance(job.slices.grain, Buckets):
        return f"PARTITIONED BY (bucket({job.slices.grain.number}, {quoted(by)})) "
    return f"PARTITIONED BY ({quoted(by) if transform == _IDENTITY else f'{transform}({quoted(by)})'}) "


def whole_partitions(plan: Any, job: Job, frame: DataFrame) -> frozenset[str] | None:
    """The partitions of the slice's column of which each task of Spark's plan for these rows yields one, whole; None
    where tasks yield anything.
    """
    partitioning = plan.outputPartitioning()
    if partitioning.getClass().getSimpleName() != "KeyGroupedPartitioning" or partitioning.expressions().size() != 1:
        return None
    expression = partitioning.expressions().apply(0)
    is_column = expression.getClass().getSimpleName() == "AttributeReference"
    column = expression if is_column else expression.references().head()
    transform = _IDENTITY if is_column else expression.function().name()
    is_same = transform == _transform(job, frame)
    if is_same and isinstance(job.slices.grain, Buckets):
        is_same = expression.numBucketsOpt().get() == job.slices.grain.number
    is_same = is_same and column.name().lower() == str(job.model.slicing.by).lower()
    return _keys(frame, partitioning) if is_same else None


def is_shuffled(plan: Any) -> bool:
    """Does some row change its task on the way? As far as Spark's plan tells: in doubt, yes."""
    return _SHUFFLE.search(plan.toString()) is not None


def are_inside(partitions: frozenset[str], job: Job) -> bool:
    """Is each of these partitions in a slice of the job?"""
    slices = job.slices.recut(Grain.DAY) if job.slices.grain is Grain.WEEK else job.slices
    return partitions <= {str(ordinal) for ordinal in slices.ordinals}


def takes_as_it_comes(table: Any, job: Job, frame: DataFrame) -> bool:
    """Has Iceberg's table one partition for each that a task yields, and wants no order in it? Then a task writes one
    file after another, rows as they come, and none of its rows has to be looked up.
    """
    fields = table.spec().fields()
    if fields.size() != 1 or table.sortOrder().isSorted():
        return False
    column = table.schema().findColumnName(fields.get(0).sourceId())
    transform, cut = _transform(job, frame) or "", job.slices.grain
    wanted = f"bucket[{cut.number}]" if isinstance(cut, Buckets) else transform.removesuffix("s")
    is_same = fields.get(0).transform().toString() == wanted
    return bool(is_same and column.lower() == str(job.model.slicing.by).lower())


def _transform(job: Job, frame: DataFrame) -> str | None:
    """Iceberg's name for how the slice's column is made into partitions."""
    by, cut = job.model.slicing.by, job.slices.grain
    if by is None or isinstance(cut, Whole):
        return None
    if isinstance(cut, Buckets):
        return "bucket"
    unit = Grain.DAY if cut is Grain.WEEK else cut
    return _IDENTITY if unit is Grain.DAY and type_of(frame, by) == "date" else f"{unit.value}s"


def _keys(frame: DataFrame, partitioning: Any) -> frozenset[str]:
    """The partitions, as Iceberg counts them, in one question: asked one by one, thousands would take seconds."""
    spark = frame.sparkSession
    kind = partitioning.expressions().apply(0).dataType()
    key = java_class(spark, f"{_EXPRESSIONS}.BoundReference")(0, kind, True)
    keys = java_class(spark, "org.apache.spark.api.python.PythonUtils").toSeq([key])
    readable = java_class(spark, f"{_EXPRESSIONS}.InterpretedProjection")(keys)
    return frozenset(_KEY.findall(partitioning.partitionValues().map(readable).mkString()))
