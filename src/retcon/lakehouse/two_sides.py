"""The rows of a model's slices on both sides: staged, and in production."""

from __future__ import annotations

from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructField

from retcon.core.evolution import may_widen
from retcon.core.jobs import MeasureRequest
from retcon.core.queries import quoted
from retcon.core.reads import Read
from retcon.core.slices import SliceSet
from retcon.lakehouse.predicates import slice_key
from retcon.lakehouse.scoped_reads import ScopedReads, type_of

STAGED, PRODUCTION = 1, 0


def staged_rows(reads: ScopedReads, request: MeasureRequest) -> DataFrame:
    """The rows of the slices as they were staged."""
    by = request.model.slicing.by
    slices = None if by is None else request.slices
    return reads.frame(Read(table=request.table, snapshot_id=request.staged, by=by, slices=slices))


def production_rows(reads: ScopedReads, request: MeasureRequest, slices: SliceSet | None = None) -> DataFrame | None:
    """The rows that production has in them; None where there is nothing to compare with."""
    if request.production is None:
        return None
    by = request.model.slicing.by
    wanted = None if by is None else slices or request.slices
    return reads.frame(Read(table=request.production_table, snapshot_id=request.production, by=by, slices=wanted))


def slice_column(frame: DataFrame, request: MeasureRequest) -> SparkColumn:
    """The slice that a row is in; see `slice_at`."""
    by = request.model.slicing.by
    return F.expr(slice_key(by, type_of(frame, by) or "date", request.slices.grain))


def fitted_to(old: DataFrame, staged: DataFrame) -> tuple[DataFrame, list[StructField]]:
    """Production's rows with the columns that staged ones have, and those columns that can be compared: what is new,
    or is of a type that the old values can't be read as, is NULL there.
    """
    have = {field.name.lower(): field for field in old.schema.fields}
    columns: list[SparkColumn] = []
    comparable: list[StructField] = []
    for field in staged.schema.fields:
        before = have.get(field.name.lower())
        kinds = (before.dataType.simpleString(), field.dataType.simpleString()) if before else ("", "")
        if before is not None and (kinds[0] == kinds[1] or may_widen(*kinds)):
            columns.append(F.col(quoted(before.name)).cast(field.dataType).alias(field.name))
            comparable.append(field)
        else:
            columns.append(F.lit(None).cast(field.dataType).alias(field.name))
    return old.select(*columns), comparable
