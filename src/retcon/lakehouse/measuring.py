"""Measuring: counts, checksums and metrics by slice, staged and in production, in one job."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from functools import reduce
from types import MappingProxyType

from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import DecimalType, StructField

from retcon.core.gates import Metric, Unique, key_name
from retcon.core.jobs import Job, KeyedRows, MeasureRequest
from retcon.core.measures import FullRefresh, SliceMeasure, TableMeasures
from retcon.core.queries import quoted
from retcon.core.reads import Read
from retcon.core.slices import Slice, SliceSet
from retcon.core.sums import sum_of
from retcon.errors import Refused
from retcon.lakehouse.checksums import (
    checksum_sums,
    checksum_text,
    has_shape,
    is_hashed_as_it_is,
    row_hash,
    shape_of,
)
from retcon.lakehouse.differences import differing_rows
from retcon.lakehouse.gate_values import is_unlisted, number_of
from retcon.lakehouse.java_classes import java_class
from retcon.lakehouse.predicates import slice_at, slice_key, slice_predicate
from retcon.lakehouse.python_models import unsaid, worker_error
from retcon.lakehouse.scoped_reads import ScopedReads, fitted, type_of
from retcon.lakehouse.sessions import bits_for, first_line, root_cause, without_values
from retcon.lakehouse.staging import computed_by, has_small_slices, slices_of
from retcon.lakehouse.two_sides import fitted_to

_SIDE, _SLICE, _HASH, _WHOLE = "__retcon_side", "__retcon_slice", "__retcon_hash", "__retcon_whole"
_ROWS = "__retcon_rows"
_STAGED, _PRODUCTION = 1, 0
_PLAIN_SUM = re.compile(r"sum\(\s*(\w+)\s*\)", re.IGNORECASE)
_DIGITS_IN_A_LONG = 18
_MANY_ROWS = 1_000_000
"""From here on, grouping without a shuffle is worth a task for each slice."""
_LARGE_SLICE = 10_000_000
"""Rows that one task may group."""
_SMALL_FILES = {"file-open-cost": str(1024**2)}
"""Of small files a task reads 16, where Iceberg gives it 4: a task costs more than to open as many."""


class Measuring:
    """Measures slices of a table, and of a computation that wasn't written anywhere."""

    def __init__(
        self,
        sized: Callable[[int | None], ScopedReads],
        summing: Callable[[], ScopedReads],
        by_partition: Callable[[int | None], ScopedReads],
    ) -> None:
        """`sized`: for what reads so many bytes; `summing`: for jobs that give nothing but sums by slice;
        `by_partition`: for those that read whole partitions, and may group them in maps of so many bits.
        """
        self._sized = sized
        self._reads = sized(None)
        self._summing = summing
        self._by_partition = by_partition

    def measure(self, request: MeasureRequest) -> tuple[TableMeasures, TableMeasures]:
        """The measures of the staged slices, and of the same slices in production."""
        are_sums = not request.unique and all(metric.is_additive for metric in _asked(request))
        reads = self._summing() if are_sums else self._sized(request.bytes)
        staged_rows = reads.frame(_table_read(request, request.staged, request.slices), options=_SMALL_FILES)
        fields = _hashed_fields(staged_rows, request.model.volatile)
        shape = shape_of(fields)
        # Production may lack a new column, or have a narrower one: its checksums are of another shape then.
        old_shape, untold = shape, list[str]()
        known = {slice: measure for slice, measure in request.known.items() if has_shape(measure.checksum, shape)}
        unknown = SliceSet.of(request.slices.grain, (s.ordinal for s in request.slices if s not in known))
        keys = _exact_keys(staged_rows, request)
        new = _side(staged_rows, _STAGED, fields, keys.values())
        scales = [_summed_scale(metric.expression, new) for metric in _asked(request)]
        try:
            sums = _aggregated(new, request, scales, len(keys))
            if request.production is not None and unknown:
                old_rows = reads.frame(_old_read(request, unknown), options=_SMALL_FILES)
                old_fields = _hashed_fields(old_rows, request.model.volatile)
                old_shape = shape_of(old_fields)
                old, comparable = fitted_to(_side(old_rows, _PRODUCTION, old_fields), new)
                told = old.select(*(quoted(field.name) for field in comparable))
                untold = [m.expression for m in request.metrics if not _resolves(m.expression, told)]
                # Each side by itself: Spark generates no code across a union, so that rows had to pass it one by one.
                sums = sums.unionByName(_aggregated(old, request, scales), allowMissingColumns=True)
            rows = sums.collect()
        except AnalysisException as error:
            raise _not_computable(request, error) from error
        staged = _collected([row for row in rows if row[_SIDE] == _STAGED], request, scales, shape, keys)
        read = _collected([row for row in rows if row[_SIDE] == _PRODUCTION], request, scales, old_shape)
        production = _without(read, untold)
        empty = checksum_text(0, 0, 0, shape)
        zero = SliceMeasure(rows=0, checksum=empty, nulls={}, metrics={m.expression: None for m in request.metrics})
        every = {slice: staged.slices.get(slice, zero) for slice in request.slices}
        return (
            TableMeasures(slices=every, totals=staged.totals),
            _with_known(production, known, request) if known else production,
        )

    def recomputed(self, job: Job, like: Read | None) -> Mapping[Slice, SliceMeasure]:
        """The slices of a job as they would be written, rows that stay included, with the columns of what was read so;
        without writing them anywhere.
        """
        return self._told(job, lambda: self._as_written(job, like), ())

    def _as_written(self, job: Job, like: Read | None) -> DataFrame:
        rows = slices_of(self._reads, job)
        return rows if like is None else fitted(rows, self._reads.frame(like))

    def outcome(self, job: Job, metrics: tuple[Metric, ...]) -> Mapping[Slice, SliceMeasure]:
        """What a job would give, by slice, without writing it anywhere."""
        return self._told(job, lambda: computed_by(self._reads, job), metrics)

    def _told(
        self, job: Job, rows: Callable[[], DataFrame], metrics: tuple[Metric, ...]
    ) -> Mapping[Slice, SliceMeasure]:
        try:
            return self._outcome(rows(), job, metrics).slices
        except (PySparkException, Py4JJavaError) as error:
            on_worker = worker_error(self._reads.code, str(error))
            reason, kind = on_worker or root_cause(error), unsaid(on_worker) or without_values(root_cause(error))
            what = f"{job.model.path}: {job.slices.text} can't be computed"
            raise Refused(f"{what}: {reason}", recorded="" if job.model.samples else f"{what}: {kind}") from error

    def full_refresh(self, job: Job, metrics: tuple[Metric, ...]) -> FullRefresh:
        """What a job that reads everything gives, in its slices and in all. All of it is computed, as if written."""
        return self._outcome(self._reads.compute(job), job, metrics)

    def _outcome(self, rows: DataFrame, job: Job, metrics: tuple[Metric, ...]) -> FullRefresh:
        fields = _hashed_fields(rows, job.model.volatile)
        request = MeasureRequest(
            model=job.model,
            table=job.model.name,
            slices=job.slices,
            metrics=metrics,
            not_null=(),
            staged=0,  # of no table: these are the rows themselves
            production=None,
            production_table=job.model.name,
            known={},
        )
        frame = _side(rows, _STAGED, fields)
        scales = [_summed_scale(metric.expression, frame) for metric in metrics]
        groups = [row for row in _aggregated(frame, request, scales).collect() if not row[_WHOLE]]
        found = _collected([row for row in groups if row[_SLICE] is not None], request, scales, shape_of(fields))
        empty = checksum_text(0, 0, 0, shape_of(fields))
        zero = SliceMeasure(rows=0, checksum=empty, metrics={metric.expression: None for metric in metrics})
        return FullRefresh(
            slices={slice: found.slices.get(slice, zero) for slice in job.slices},
            rows=sum(row["rows"] for row in groups),
            unsliced=sum(row["rows"] for row in groups if row[_SLICE] is None),
        )

    def duplicates(self, request: MeasureRequest, gate: Unique, staged: TableMeasures) -> Mapping[Slice, int]:
        """Rows too many for these columns, and rows with a NULL in them, by slice of what is known to be staged."""
        try:
            return self._duplicates(request, gate, staged)
        except AnalysisException as error:
            raise _not_computable(request, error) from error

    def _duplicates(self, request: MeasureRequest, gate: Unique, staged: TableMeasures) -> Mapping[Slice, int]:
        by = request.model.slicing.by
        keys = [F.col(quoted(column)) for column in gate.columns]
        # Without the slice in it, the key may also stand in a slice that this run doesn't touch: look at all of them.
        is_in_key = by is not None and by.lower() in {column.lower() for column in gate.columns}
        largest = max((measure.rows for measure in staged.slices.values()), default=0)
        is_by_partition = is_in_key and staged.rows >= _MANY_ROWS and largest <= _LARGE_SLICE
        reads = self._by_partition(bits_for(largest)) if is_by_partition else self._sized(request.bytes)
        frame = reads.frame(_table_read(request, request.staged, request.slices if is_in_key else None))
        rows = F.count(F.lit(1)).alias(_ROWS)
        if is_in_key:
            counted = frame.groupBy(*keys).agg(rows)
            counted = counted.withColumn(_SLICE, _slice_column(counted, request))
        else:
            in_scope = F.expr(slice_predicate(by, type_of(frame, by) or "date", request.slices))
            first = F.min(F.when(in_scope, _slice_column(frame, request)))
            counted = frame.groupBy(*keys).agg(rows, first.alias(_SLICE))
        has_null = reduce(lambda a, b: a | b, (key.isNull() for key in keys))
        surplus = F.when(has_null, F.col(_ROWS)).otherwise(F.col(_ROWS) - 1)
        found = (
            counted.filter((has_null | (F.col(_ROWS) > 1)) & F.col(_SLICE).isNotNull())
            .groupBy(_SLICE)
            .agg(F.sum(surplus).alias(_ROWS))
            .collect()
        )
        return {slice_at(request.slices.grain, row[_SLICE]): int(row[_ROWS]) for row in found}

    def others_changed(self, request: MeasureRequest, keyed: KeyedRows) -> tuple[Slice, ...]:
        """Slices in which the rows of other keys aren't, as a multiset, what they were when the run began."""
        column = keyed.keys.column
        sides = (_table_read(request, request.staged, request.slices), _old_read(request, request.slices))
        reads = self._sized(request.bytes)
        staged, base = (reads.frame(read) for read in sides)
        others = [reads.of_keys(frame, column, keyed, others=True) for frame in (staged, fitted(base, staged))]
        return _unlike(others[0], others[1], sides[0])

    def unlike(self, copy: Read, original: Read) -> tuple[Slice, ...]:
        """Slices in which a copy doesn't have, as a multiset, the rows that it is a copy of."""
        copied = self._reads.frame(copy)
        return _unlike(copied, fitted(self._reads.frame(original), copied), copy)

    def differs_alone(self, job: Job, request: MeasureRequest, staged: SliceMeasure) -> str:
        """How a slice computed by itself differs from what the wave staged for it, so measured; empty if it doesn't."""
        reads = self._by_partition(None) if has_small_slices(job) else self._sized(job.bytes)
        there = reads.frame(_table_read(request, request.staged, job.slices))
        # A row outside of the slice is a difference like any other, where nothing is cut off.
        rows = reads.compute(job) if job.is_plain and not job.filters_output else slices_of(reads, job)
        alone = fitted(rows, there)
        fields = _hashed_fields(alone, request.model.volatile)
        low, high = checksum_sums(_HASH)
        row = (
            alone.withColumn(_HASH, F.expr(row_hash(fields)))
            .agg(*map(F.expr, ("count(1) AS n", f"{low} AS low", f"{high} AS high")))
            .collect()[0]
        )
        if checksum_text(row["n"], row["low"] or 0, row["high"] or 0, shape_of(fields)) == staged.checksum:
            return ""
        differing = sum(_differing(alone, there, request).values())
        return f"{differing:,} rows differ" if differing else ""

    def differing(self, job: Job, request: MeasureRequest) -> Mapping[Slice, int]:
        """By slice that is asked for, how many rows of what a job gives aren't what was staged; those without any left
        out.
        """
        reads = self._sized(request.bytes)
        staged = reads.frame(_table_read(request, request.staged, request.slices))
        # The full refresh of a table gives all of its slices: what is outside the job's is no error here.
        rows = reads.compute(job) if job.is_plain else slices_of(reads, job)
        by = request.model.slicing.by
        asked = rows.filter(slice_predicate(by, type_of(rows, by) or "date", request.slices))
        return _differing(fitted(asked, staged), staged, request)


def _not_computable(request: MeasureRequest, error: AnalysisException) -> Refused:
    return Refused(
        f"{request.model.path}: a gate can't be computed: {first_line(error)}",
        state="everything is staged, nothing is proven; production is untouched",
        next="mend the metric or the column names under `gates:`, then `retcon apply` again",
    )


def _differing(computed: DataFrame, staged: DataFrame, request: MeasureRequest) -> dict[Slice, int]:
    fields = _hashed_fields(computed, request.model.volatile)
    found = differing_rows(computed, staged, fields, lambda frame: _slice_column(frame, request))
    return {slice_at(request.slices.grain, at): rows for at, rows in found.items()}


def _unlike(staged: DataFrame, base: DataFrame, read: Read) -> tuple[Slice, ...]:
    """Slices of the first frame, read so, and of the second, whose rows have other counts or checksums."""
    fields = _hashed_fields(staged, ())
    low, high = checksum_sums(_HASH)
    union = _side(staged, _STAGED, fields).unionByName(_side(base, _PRODUCTION, fields), allowMissingColumns=True)
    rows = (
        union.select("*", F.expr(slice_key(read.by, type_of(union, read.by) or "date", read.cut)).alias(_SLICE))
        .groupBy(_SLICE, _SIDE)
        .agg(F.count(F.lit(1)).alias("n"), F.expr(low).alias("low"), F.expr(high).alias("high"))
        .collect()
    )
    found: dict[Slice, set[tuple[int, int, int, int]]] = {}
    for row in rows:
        at = slice_at(read.cut, row[_SLICE])
        found.setdefault(at, set()).add((row[_SIDE], row["n"], row["low"], row["high"]))
    return tuple(sorted(at for at, both in found.items() if len(both) != 2 or len({m[1:] for m in both}) != 1))


def _side(
    frame: DataFrame, side: int, fields: list[StructField], keys: Iterable[Sequence[StructField]] = ()
) -> DataFrame:
    hashes = (F.expr(row_hash(key)).alias(_key_hash(at)) for at, key in enumerate(keys))
    return frame.select(F.lit(side).alias(_SIDE), F.expr(row_hash(fields)).alias(_HASH), *hashes, "*")


def _key_hash(at: int) -> str:
    return f"__retcon_key_{at}"


def _exact_keys(frame: DataFrame, request: MeasureRequest) -> dict[str, list[StructField]]:
    """By name, the keys whose values are equal where their hashes are."""
    fields = {field.name.lower(): field for field in frame.schema.fields}
    keys = {columns: [fields.get(column.lower()) for column in columns] for columns in request.keys}
    return {
        key_name(columns): found
        for columns, each in keys.items()
        if len(found := [field for field in each if field is not None and is_hashed_as_it_is(field)]) == len(columns)
    }


def _resolves(metric: str, frame: DataFrame) -> bool:
    """Has the frame every column that the metric is about?"""
    try:
        frame.agg(F.expr(metric))
    except AnalysisException:
        return False
    return True


def _without(measures: TableMeasures, metrics: Collection[str]) -> TableMeasures:
    """The measures without these metrics: counting what isn't there would give 0."""

    def told(values: Mapping[str, Decimal | None]) -> dict[str, Decimal | None]:
        return {name: None if name in metrics else value for name, value in values.items()}

    slices = {slice: replace(each, metrics=told(each.metrics)) for slice, each in measures.slices.items()}
    return TableMeasures(slices=slices, totals=told(measures.totals)) if metrics else measures


def _table_read(request: MeasureRequest, snapshot: int | None, slices: SliceSet | None) -> Read:
    by = request.model.slicing.by
    return Read(table=request.table, snapshot_id=snapshot, by=by, slices=None if by is None else slices)


def _old_read(request: MeasureRequest, slices: SliceSet) -> Read:
    return replace(_table_read(request, request.production, slices), table=request.production_table)


def _slice_column(frame: DataFrame, request: MeasureRequest) -> SparkColumn:
    by = request.model.slicing.by
    return F.expr(slice_key(by, type_of(frame, by) or "date", request.slices.grain))


def _hashed_fields(frame: DataFrame, volatile: tuple[str, ...]) -> list[StructField]:
    left_out = {name.lower() for name in volatile}
    fields = [field for field in frame.schema.fields if field.name.lower() not in left_out]
    return sorted(fields, key=lambda field: field.name.lower())


def _summed_scale(metric: str, frame: DataFrame) -> int | None:
    """The scale of the decimals that the metric sums up, where they fit into a long; None for any other metric."""
    summed = _PLAIN_SUM.fullmatch(metric)
    kinds = {field.name.lower(): field.dataType for field in frame.schema.fields}
    kind = kinds.get(summed[1].lower()) if summed is not None else None
    return kind.scale if isinstance(kind, DecimalType) and kind.precision <= _DIGITS_IN_A_LONG else None


def _asked(request: MeasureRequest) -> tuple[Metric, ...]:
    return (*request.metrics, *request.staged_only)


def _aggregated(frame: DataFrame, request: MeasureRequest, scales: list[int | None], keys: int = 0) -> DataFrame:
    low, high = checksum_sums(_HASH)
    of_keys = [checksum_sums(_key_hash(at)) for at in range(keys)]
    measures: list[SparkColumn] = [
        F.expr("count(1) AS rows"),
        F.expr(f"{low} AS low"),
        F.expr(f"{high} AS high"),
        *(F.expr(f"{low} AS key_low_{at}") for at, (low, _) in enumerate(of_keys)),
        *(F.expr(f"{high} AS key_high_{at}") for at, (_, high) in enumerate(of_keys)),
        # Not as text: an error would name a line and a place in it.
        *(F.count_if(F.col(quoted(c)).isNull()).alias(f"null_{at}") for at, c in enumerate(request.not_null)),
        *(
            F.count_if(is_unlisted(frame, each, request.model)).alias(f"unlisted_{at}")
            for at, each in enumerate(request.listed)
        ),
        *(_surplus(columns).alias(f"surplus_{at}") for at, columns in enumerate(request.unique)),
        *(
            _metric(frame.sparkSession, metric.expression, scale).cast("string").alias(f"metric_{at}")
            for at, (metric, scale) in enumerate(zip(_asked(request), scales, strict=True))
        ),
    ]
    keyed = frame.select("*", _slice_column(frame, request).alias(_SLICE))
    if all(metric.is_additive for metric in request.metrics):
        return keyed.groupBy(_SIDE, _SLICE).agg(*measures).withColumn(_WHOLE, F.lit(0))
    # An average or a count of distinct values over all slices isn't the sum of theirs.
    sets = [[F.col(_SIDE), F.col(_SLICE)], [F.col(_SIDE)]]
    return keyed.groupingSets(sets, _SIDE, _SLICE).agg(*measures, F.grouping(_SLICE).alias(_WHOLE))


def _surplus(columns: tuple[str, ...]) -> SparkColumn:
    """Staged rows that aren't the only one with their key, or have no whole one. NULLs count as no distinct value."""
    is_staged = F.col(_SIDE) == _STAGED
    distinct = F.count_distinct(*(F.when(is_staged, F.col(quoted(column))) for column in columns))
    return F.count_if(is_staged) - distinct


def _metric(spark: SparkSession, expression: str, scale: int | None) -> SparkColumn:
    """The metric; a sum of decimals in units of their last digit, which is exact and costs a third."""
    if scale is None:
        return F.expr(expression)
    column = F.expr(expression[expression.index("(") + 1 : -1])
    unscaled = _unscaled(spark, column)
    high, low = F.sum(F.shiftright(unscaled, 32)), F.sum(unscaled.bitwiseAND(F.lit(0xFFFFFFFF)))
    return high.cast("decimal(20,0)") * F.lit(1 << 32).cast("decimal(10,0)") + low.cast("decimal(20,0)")


def _unscaled(spark: SparkSession, decimal: SparkColumn) -> SparkColumn:
    """A decimal of at most 18 digits as the long that it is stored as. Spark has this expression, but no name for it;
    its own `sum` of more than 8 digits goes through BigDecimal, row by row.
    """
    columns = java_class(spark, "org.apache.spark.sql.classic.ExpressionUtils")
    unscaled = java_class(spark, "org.apache.spark.sql.catalyst.expressions.UnscaledValue")
    return SparkColumn(columns.column(unscaled(columns.expression(decimal._jc))))


def _with_known(read: TableMeasures, known: Mapping[Slice, SliceMeasure], request: MeasureRequest) -> TableMeasures:
    """What was read and what the ledger knows, together."""
    slices = {**known, **read.slices}
    return TableMeasures(slices=slices, totals={m.expression: _sum(slices, m.expression) for m in request.metrics})


def _collected(
    rows: list[Row],
    request: MeasureRequest,
    scales: list[int | None],
    shape: str,
    keys: Mapping[str, Sequence[StructField]] = MappingProxyType({}),
) -> TableMeasures:
    shapes = {name: shape_of(fields) for name, fields in keys.items()}
    slices: dict[Slice, SliceMeasure] = {}
    totals: dict[str, Decimal | None] = {}
    for row in rows:
        values = {
            metric.expression: number_of(row[f"metric_{at}"], metric.expression, scale or 0)
            for at, (metric, scale) in enumerate(zip(_asked(request), scales, strict=True))
        }
        metrics = {metric.expression: values[metric.expression] for metric in request.metrics}
        if row[_WHOLE]:
            totals = metrics
            continue
        slices[slice_at(request.slices.grain, row[_SLICE])] = SliceMeasure(
            rows=row["rows"],
            checksum=checksum_text(row["rows"], row["low"] or 0, row["high"] or 0, shape),
            nulls={column: row[f"null_{at}"] for at, column in enumerate(request.not_null)},
            metrics=metrics,
            unlisted={each: row[f"unlisted_{at}"] for at, each in enumerate(request.listed)},
            staged_only={metric.expression: values[metric.expression] for metric in request.staged_only},
            surplus={columns: row[f"surplus_{at}"] for at, columns in enumerate(request.unique)},
            keys={
                name: checksum_text(row["rows"], row[f"key_low_{at}"], row[f"key_high_{at}"], of_key)
                for at, (name, of_key) in enumerate(shapes.items())
            },
        )
    if not totals and slices:
        totals = {m.expression: _sum(slices, m.expression) for m in request.metrics}
    return TableMeasures(slices=slices, totals=totals)


def _sum(slices: Mapping[Slice, SliceMeasure], expression: str) -> Decimal | None:
    values = [value for measure in slices.values() if (value := measure.metrics[expression]) is not None]
    return sum_of(values) if values else None
