"""Jobs of single gates: values that aren't accepted, keys without a match, rows of a query, metrics of a source."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import reduce

from pyspark.errors import (
    AnalysisException,
    ArithmeticException,
    DateTimeException,
    NumberFormatException,
    ParseException,
    SparkRuntimeException,
)
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from retcon.core.jobs import MeasureRequest
from retcon.core.measures import Listed
from retcon.core.queries import patched, quoted
from retcon.core.reads import Read
from retcon.core.reconciling import Reconcile, SourceMeasure
from retcon.core.schemas import TIME_TYPES
from retcon.core.slices import Grain, Slice
from retcon.core.table_gates import Counted, ForeignKey, NoRows
from retcon.errors import Refused
from retcon.lakehouse.foreign_reads import MARK
from retcon.lakehouse.gate_values import STAGED, family_of, is_unlisted, number_of
from retcon.lakehouse.predicates import slice_at, slice_key, slice_predicate
from retcon.lakehouse.scoped_reads import ScopedReads, type_of, unmarked
from retcon.lakehouse.sessions import first_line

_SLICE, _COUNT = "__retcon_slice", "__retcon_count"
_EXAMPLES = 3
_MOST_SIGNS = 60
_OF_THE_AUTHOR = (
    AnalysisException,
    ArithmeticException,
    DateTimeException,
    NumberFormatException,
    ParseException,
    SparkRuntimeException,
)


class GateReads:
    """Looks at slices of a table, as a request names them, beside other tables."""

    def __init__(self, reads: ScopedReads) -> None:
        self._reads = reads

    def unaccepted(self, request: MeasureRequest, listed: Listed) -> tuple[str, ...]:
        """The most frequent values that aren't listed."""
        frame = self._reads.frame(request.staged_read)
        return _examples(frame.filter(is_unlisted(frame, listed, request.model)), [listed.column])

    def orphans(self, request: MeasureRequest, gate: ForeignKey, to: Read) -> Counted:
        """Rows whose key isn't in the other table, by slice."""
        with _told(request, gate.name):
            rows, there = self._reads.frame(request.staged_read), self._reads.frame(to)
            pairs = list(zip(gate.columns, gate.on, strict=True))
            for column, other in pairs:
                _require_comparable(request, gate, (rows, column), (there, other))
            own = [F.col(quoted(column)) for column, _ in pairs]
            keys = there.select(*(F.col(quoted(other)).alias(f"__retcon_key_{at}") for at, other in enumerate(gate.on)))
            is_same = [column == F.col(f"__retcon_key_{at}") for at, column in enumerate(own)]
            without = rows.filter(_all([column.isNotNull() for column in own])).join(keys, _all(is_same), "left_anti")
            counts = without.groupBy(_slice_of(rows, request).alias(_SLICE)).agg(F.count(F.lit(1)).alias(_COUNT))
            found: dict[Slice | None, int] = {
                slice_at(request.slices.grain, row[_SLICE]): row[_COUNT] for row in counts.collect()
            }
            is_shown = bool(found) and request.model.samples
            return Counted(rows=found, examples=_examples(without, list(gate.columns)) if is_shown else ())

    def rows_found(self, request: MeasureRequest, gate: NoRows, tables: Mapping[str, Read]) -> Counted:
        """Rows of the gate's query, by slice where it returns the slice column; `tables` by their name in the text."""
        with _told(request, gate.name):
            found = self._query(request, gate, tables)
            shown = found.columns
            # A query may return several columns of one name.
            frame = found.toDF(*(f"__retcon_column_{at}" for at in range(len(shown))))
            by = request.model.slicing.by
            places = [at for at, name in enumerate(shown) if by is not None and name.lower() == by.lower()]
            column = frame.columns[places[0]] if len(places) == 1 else None
            type = type_of(frame, column) if column is not None else None
            # 17 and '17' are in different buckets.
            own = self._reads.frame(request.staged_read)
            is_told = type in TIME_TYPES if isinstance(request.slices.grain, Grain) else type == type_of(own, by)
            slice: Column = F.lit(None)
            if is_told and type is not None:
                in_scope = F.expr(slice_predicate(column, type, request.slices))
                slice = F.when(in_scope, F.expr(slice_key(column, type, request.slices.grain)))
            counts = frame.groupBy(slice.alias(_SLICE)).agg(F.count(F.lit(1)).alias(_COUNT)).collect()
            rows = {
                None if row[_SLICE] is None else slice_at(request.slices.grain, row[_SLICE]): row[_COUNT]
                for row in counts
            }
            is_shown = bool(rows) and request.model.samples
            return Counted(rows=rows, examples=_examples(frame, frame.columns, shown) if is_shown else ())

    def _query(self, request: MeasureRequest, gate: NoRows, tables: Mapping[str, Read]) -> DataFrame:
        mark = re.sub(r"\W", "_", f"{request.model.name}_{request.staged}_{gate.name}")
        views: dict[str, str] = {}
        spark = self._reads.spark
        try:
            for number, (name, read) in enumerate(tables.items()):
                views[name] = f"{MARK}_gate_{mark}_{number}"
                self._reads.frame(read, mark).createOrReplaceTempView(quoted(views[name]))
            found = spark.sql(patched(gate.query, views))
        finally:
            for view in views.values():
                spark.catalog.dropTempView(view)
        for name in unmarked(found, mark):
            raise Refused(
                f"{request.model.path}: the gate {gate.name} reads {name} past what its text names",
                state=STAGED,
                next="name tables plainly in FROM or JOIN (no views, paths or functions), then `retcon apply` again",
            )
        return found

    def source_metrics(self, request: MeasureRequest, gate: Reconcile, source: Read) -> Mapping[Slice, SourceMeasure]:
        """The metric of a source, by the model's slices, of those in which it has rows."""
        with _told(request, gate.name):
            frame = self._reads.frame(source)
            type = _time_type(request, gate, frame)
            if gate.by is not None:
                frame = frame.filter(slice_predicate(gate.by, type, request.slices))
            if gate.where is not None:
                frame = frame.filter(F.expr(gate.where))
            key = F.expr(slice_key(gate.by, type, request.slices.grain)).alias(_SLICE)
            measures = (
                F.count(F.lit(1)).alias(_COUNT),
                F.expr(gate.metric.expression).cast("string").alias("value"),
            )
            rows = frame.groupBy(key).agg(*measures).collect()
        return {
            slice_at(request.slices.grain, row[_SLICE]): SourceMeasure(
                rows=row[_COUNT], value=number_of(row["value"], gate.metric.expression)
            )
            for row in rows
        }


@contextmanager
def _told(request: MeasureRequest, gate: str) -> Iterator[None]:
    """What Spark says of names and values that the author wrote is for the author."""
    try:
        yield
    except _OF_THE_AUTHOR as error:
        raise Refused(
            f"{request.model.path}: the gate {gate} can't be judged: {first_line(error)}",
            state=STAGED,
            next="correct it under `gates:`, then `retcon apply` again",
        ) from error


def _require_comparable(
    request: MeasureRequest, gate: ForeignKey, own: tuple[DataFrame, str], other: tuple[DataFrame, str]
) -> None:
    """17 and '17' are never the same: Spark would guess."""
    mine, theirs = type_of(*own), type_of(*other)
    if mine is None or theirs is None:
        missing = f"{gate.to} has no column {other[1]}" if mine is not None else f"there is no column {own[1]}"
        raise Refused(
            f"{request.model.path}: the gate {gate.name} can't be judged: {missing}",
            state=STAGED,
            next="correct it under `gates:`, then `retcon apply` again",
        )
    if mine != theirs and (family_of(mine) is None or family_of(mine) is not family_of(theirs)):
        raise Refused(
            f"{request.model.path}: the gate {gate.name} compares {own[1]}, which is {mine}, with {gate.to}.{other[1]},"
            f" which is {theirs}",
            state=STAGED,
            next="give the model's column the type that the other table has",
        )


def _time_type(request: MeasureRequest, gate: Reconcile, source: DataFrame) -> str:
    if gate.by is None:
        return "date"  # nothing is cut
    type = type_of(source, gate.by)
    grain = request.slices.grain
    if type not in TIME_TYPES or (type == "date" and grain is Grain.HOUR):
        why = "is no column of it" if type is None else f"is {type}, which tells no {grain}s"
        raise Refused(
            f"{request.model.path}: the gate {gate.name} cuts {gate.source} by {gate.by}, which {why}",
            state=STAGED,
            next="name a date or a timestamp of the source as `by`, then `retcon apply` again",
        )
    return str(type)


def _slice_of(frame: DataFrame, request: MeasureRequest) -> Column:
    by = request.model.slicing.by
    return F.expr(slice_key(by, type_of(frame, by) or "date", request.slices.grain))


def _all(conditions: list[Column]) -> Column:
    return reduce(lambda a, b: a & b, conditions)


def _examples(frame: DataFrame, columns: list[str], shown: Sequence[str] = ()) -> tuple[str, ...]:
    """The most frequent values of these columns, shown under these names or their own, each cut to a length that a line
    can hold.
    """
    texts = [
        F.left(F.col(quoted(name)).cast("string"), F.lit(_MOST_SIGNS)).alias(f"__retcon_text_{at}")
        for at, name in enumerate(columns)
    ]
    named = [f"__retcon_text_{at}" for at in range(len(columns))]
    counted = frame.select(*texts).groupBy(*named).agg(F.count(F.lit(1)).alias(_COUNT))
    rows = counted.orderBy(F.desc(_COUNT), *named).limit(_EXAMPLES).collect()
    return tuple(
        ", ".join(f"{name}={row[text]}" for name, text in zip(shown or columns, named, strict=True))
        + f" ({row[_COUNT]:,} rows)"
        for row in rows
    )
