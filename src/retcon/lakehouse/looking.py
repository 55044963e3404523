"""Looking at rows: what a source that is known by an `updated` column holds, one Spark job a look."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, timedelta

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructField

from retcon.core.projects import Source
from retcon.core.queries import quoted
from retcon.core.schemas import TIME_TYPES
from retcon.core.slices import Grain
from retcon.core.tables import NO_SLICE
from retcon.core.updates import SliceRows, Wanted
from retcon.errors import Refused
from retcon.lakehouse.checksums import checksum_sums, checksum_text, row_hash, shape_of
from retcon.lakehouse.foreign_reads import read_foreign, unreadable
from retcon.lakehouse.metadata_documents import EPOCH
from retcon.lakehouse.predicates import moment_literal, slice_at, slice_key, slice_predicate

_SLICE, _HASH, _UPDATED = "__retcon_slice", "__retcon_hash", "__retcon_updated"


def look_at_rows(spark: SparkSession, source: Source, version: int | None, wanted: Wanted) -> tuple[SliceRows, ...]:
    """Per slice: how many rows, a checksum of their keys and updates, and the newest update."""
    assert source.updated is not None
    try:
        frame = read_foreign(spark, source, version, "look")
        updated = _column(frame, source, source.updated, "updated")
        fields = [*(_column(frame, source, name, "key") for name in source.key), updated]
        kind = _time_type(updated, source)
        frame, key, span = _cut(frame, source, wanted)
        rows = frame.select(
            F.expr(key).alias(_SLICE),
            F.expr(row_hash(fields)).alias(_HASH),
            F.col(quoted(updated.name)).alias(_UPDATED),
        )
        if wanted.since is not None:
            since = moment_literal(wanted.since, kind)
            rows = rows.filter(f"{_UPDATED} >= {since} OR {_UPDATED} IS NULL")
        until = "true" if wanted.until is None else f"{_UPDATED} <= {moment_literal(wanted.until, kind)}"
        low, high = checksum_sums(_HASH)
        found = (
            rows.groupBy(_SLICE)
            .agg(
                F.expr("count(*)").alias("rows"),
                F.expr(low).alias("low"),
                F.expr(high).alias("high"),
                F.expr(f"max(CASE WHEN {until} THEN {_UPDATED} END)").alias("newest"),
                F.expr(f"count_if({_UPDATED} IS NULL)").alias("nulls"),
                F.expr(f"count_if(NOT {until})").alias("ahead"),
            )
            .withColumn("newest", F.expr(_micros("newest", kind)))
            .collect()
        )
    except (PySparkException, Py4JJavaError) as error:
        raise unreadable(error, source) from None
    shape = shape_of(fields)
    return tuple(_slice_rows(row, shape, *span(row[_SLICE])) for row in found)


def _column(frame: DataFrame, source: Source, name: str, key: str) -> StructField:
    found = next((field for field in frame.schema.fields if field.name.lower() == name.lower()), None)
    if found is None:
        raise Refused(
            f"{source.name} has no column {name}",
            state="nothing was loaded",
            next=f"name an existing column as `sources.{source.name}.{key}` in retcon.yaml",
        )
    return found


def _time_type(column: StructField, source: Source, key: str = "updated") -> str:
    kind = str(column.dataType.simpleString())
    if kind not in TIME_TYPES:
        raise Refused(
            f"{source.name}.{column.name} is {kind}, and `{key}` is a date or a timestamp",
            state="nothing was loaded",
            next="name another column, or let `columns` (of a database, `query`) make a timestamp of it",
        )
    return kind


_Key = date | int | None
_Span = Callable[[_Key], tuple[int | None, int | None]]


def _cut(frame: DataFrame, source: Source, wanted: Wanted) -> tuple[DataFrame, str, _Span]:
    """The rows that are wanted, the SQL that tells their slice, and the slices that its result means."""
    cut = wanted.cut
    if wanted.time is None:
        return frame, "0", lambda _: (0, 0)
    if not isinstance(cut, Grain):
        # Which bucket a key is in depends on the type that the reader counts in: it is one, as far as can be told.
        return frame, "0", lambda _: (None, None)
    column = _column(frame, source, wanted.time, "time")
    kind = _time_type(column, source, "time")
    if wanted.within is not None:
        frame = frame.filter(slice_predicate(wanted.time, kind, wanted.within))
    # A date tells no hours: its rows may be any of its day's.
    by = Grain.DAY if kind == "date" and cut is Grain.HOUR else cut

    def span(key: _Key) -> tuple[int, int]:
        if key is None:
            return NO_SLICE
        ordinal = slice_at(by, key).ordinal
        return (ordinal, ordinal) if by == cut else (by.first_hour(ordinal), by.first_hour(ordinal + 1) - 1)

    return frame, slice_key(wanted.time, kind, by), span


def _slice_rows(row: Row, shape: str, first: int | None, last: int | None) -> SliceRows:
    micros = row["newest"]
    return SliceRows(
        first=first,
        last=last,
        rows=row["rows"],
        checksum=checksum_text(row["rows"], row["low"], row["high"], shape),
        newest=None if micros is None else EPOCH + timedelta(microseconds=micros),
        nulls=row["nulls"],
        ahead=row["ahead"],
    )


def _micros(column: str, kind: str) -> str:
    match kind:
        case "date":
            return f"unix_date({column}) * 86400000000L"
        case "timestamp_ntz":
            # Written out and read as UTC: a cast would take it for the session's time zone.
            return f"unix_micros(CAST(concat(CAST({column} AS STRING), ' UTC') AS TIMESTAMP))"
        case _:
            return f"unix_micros({column})"
