"""Validity windows of a history: do they overlap, are there gaps?"""

from __future__ import annotations

from functools import reduce

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, Row, Window
from pyspark.sql import functions as F

from retcon.core.queries import quoted
from retcon.core.reads import Read
from retcon.core.validity import Gaps, Validity, WindowCounts
from retcon.errors import Refused
from retcon.lakehouse.scoped_reads import ScopedReads
from retcon.lakehouse.sessions import first_line

_EXAMPLES = 3


class Windows:
    """Looks at every window of a history once."""

    def __init__(self, reads: ScopedReads) -> None:
        self._reads = reads

    def windows(self, read: Read, valid: Validity, *, samples: bool) -> WindowCounts:
        """What is wrong with the windows of a table; values of rows only where they may be shown."""
        try:
            judged = _judged(self._reads.frame(read), valid)
            counts = judged.agg(*_counts()).collect()[0]
            wrong = F.col("empty") | F.col("overlaps") | (F.col("gap") & F.lit(valid.gaps is Gaps.FAIL))
            found = judged.filter(wrong).limit(_EXAMPLES).collect() if _is_wrong(counts, valid) else []
        except AnalysisException as error:
            raise Refused(
                f"the validity windows of {read.table} can't be compared: {first_line(error)}",
                state="nothing was staged; production is untouched",
                next="correct the columns under `valid`",
            ) from error
        return WindowCounts(
            windows=counts["windows"],
            keys=counts["keys"],
            empty=counts["empty"],
            overlaps=counts["overlaps"],
            overlapping_keys=counts["overlapping_keys"],
            gaps=counts["gaps"],
            gap_keys=counts["gap_keys"],
            examples=tuple(_example(row, valid, samples=samples) for row in found),
        )


def _judged(frame: DataFrame, valid: Validity) -> DataFrame:
    """Every window, with whether it is empty, overlaps an earlier one of its key, or leaves a gap after it."""
    keys = [F.col(quoted(column)) for column in valid.key]
    # A row without its whole key joins nothing.
    known = reduce(lambda a, b: a & b, (key.isNotNull() for key in keys))
    start, end = F.col(quoted(valid.start)), F.col(quoted(valid.end))
    rows = frame.filter(known).select(F.struct(*keys).alias("key"), start.alias("start"), end.alias("end"))
    rows = rows.withColumn("empty", F.expr("start IS NULL OR coalesce(start >= end, false)"))
    # Empty windows come last, so that they hide nothing of the others.
    whole = Window.partitionBy("key").orderBy("empty", F.col("start"), F.col("end").asc_nulls_last())
    before = whole.rowsBetween(Window.unboundedPreceding, -1)
    return rows.select(
        "*",
        F.expr("xxhash64(key) & 9223372036854775807").alias("hash"),
        F.max("end").over(before).alias("ended"),
        F.max(F.col("end").isNull()).over(before).alias("never_ended"),
        (F.row_number().over(whole) == 1).alias("first"),
    ).select(
        "*",
        F.expr("NOT empty AND NOT first AND (never_ended OR start < ended)").alias("overlaps"),
        F.expr("NOT empty AND NOT first AND NOT never_ended AND start > ended").alias("gap"),
    )


def _counts() -> list[Column]:
    def keys_with(flag: str) -> Column:
        return F.count_distinct(F.when(F.col(flag), F.col("key")))

    return [
        F.count(F.lit(1)).alias("windows"),
        F.count_if("first").alias("keys"),
        F.count_if("empty").alias("empty"),
        F.count_if("overlaps").alias("overlaps"),
        keys_with("overlaps").alias("overlapping_keys"),
        F.count_if("gap").alias("gaps"),
        keys_with("gap").alias("gap_keys"),
    ]


def _is_wrong(counts: Row, valid: Validity) -> bool:
    return bool(counts["empty"] or counts["overlaps"] or (counts["gaps"] and valid.gaps is Gaps.FAIL))


def _example(row: Row, valid: Validity, *, samples: bool) -> str:
    """A window in words; without leave to show values, its key as a hash and nothing of the window."""
    what = "holds at no moment" if row["empty"] else "overlaps" if row["overlaps"] else "follows a gap"
    if not samples:
        return f"a window of key #{row['hash']:016x} {what}"
    key = ", ".join(f"{name}={row['key'][at]}" for at, name in enumerate(valid.key))
    end = "open" if row["end"] is None else row["end"]
    then = "" if row["empty"] else f" (the one before: to {'open' if row['never_ended'] else row['ended']})"
    return f"{key}: [{row['start']}, {end}) {what}{then}"
