"""Traces: the input rows from which some rows of a model came, by the columns that they have in common."""

from __future__ import annotations

import json
from functools import reduce

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from retcon.core.hand_checks import InputRows, TraceRequest
from retcon.core.queries import quoted
from retcon.core.row_diffs import RowPair
from retcon.lakehouse.predicates import slice_key
from retcon.lakehouse.row_columns import as_text
from retcon.lakehouse.scoped_reads import ScopedReads, type_of

# Beside the input's own columns, whatever these are called.
_PLACE, _ORDINAL, _SLICE = "__retcon_place", "__retcon_ordinal", "__retcon_slice"


class Traces:
    """Looks rows up; nothing is written."""

    def __init__(self, reads: ScopedReads) -> None:
        self._reads = reads

    def trace(self, request: TraceRequest) -> tuple[InputRows, ...]:
        """For each row, how many rows of the input it came from, and the first few of them."""
        frame = self._reads.frame(request.read)
        wanted = F.broadcast(_wanted(frame, request))
        same = [
            F.expr(f"try_cast({_value_name(at)} AS {type_of(frame, column)})").eqNullSafe(F.col(quoted(column)))
            for at, column in enumerate(request.links.columns.values())
        ]
        if request.links.by_slice and request.grain is not None:
            same.append(F.col(_SLICE).eqNullSafe(F.col(_ORDINAL)))
        joined = _with_slice(frame, request).join(wanted, reduce(lambda a, b: a & b, same))
        texts = [as_text(F.col(quoted(field.name)), field.dataType) for field in frame.schema.fields]
        of_row = Window.partitionBy("place")
        ranked = joined.select(F.col(_PLACE).alias("place"), F.array(*texts).alias("texts")).withColumn(
            "total", F.count(F.lit(1)).over(of_row)
        )
        order = F.row_number().over(of_row.orderBy(F.xxhash64("texts"), F.col("texts")))
        found = ranked.withColumn("at", order).filter(F.col("at") <= request.most).orderBy("place", "at").collect()
        names = frame.columns
        return tuple(
            InputRows(
                total=next((row["total"] for row in found if row["place"] == place), 0),
                rows=tuple(dict(zip(names, row["texts"], strict=True)) for row in found if row["place"] == place),
            )
            for place in range(len(request.rows))
        )


def _with_slice(frame: DataFrame, request: TraceRequest) -> DataFrame:
    if not request.links.by_slice or request.grain is None:
        return frame
    kind = type_of(frame, request.time) or "date"
    key = slice_key(request.time, kind, request.grain)
    # Days of a date are told by the date itself.
    number = F.expr(f"unix_date({key})") if kind == "date" and request.grain.value == "day" else F.expr(key)
    return frame.withColumn(_SLICE, number.cast("long"))


def _wanted(frame: DataFrame, request: TraceRequest) -> DataFrame:
    """The rows whose origins are looked for: their place in the sample, their slice, and the values that they share."""
    values = [_value_name(at) for at in range(len(request.links.columns))]
    shape = ", ".join([f"{_PLACE}: INT", f"{_ORDINAL}: BIGINT", *(f"{name}: STRING" for name in values)])
    rows = [
        {
            _PLACE: place,
            _ORDINAL: None if request.grain is None else request.grain.parse(pair.slice),
            **{name: _value(pair, column) for name, column in zip(values, request.links.columns, strict=True)},
        }
        for place, pair in enumerate(request.rows)
    ]
    text = f"SELECT inline(from_json(:rows, 'ARRAY<STRUCT<{shape}>>'))"
    return frame.sparkSession.sql(text, args={"rows": json.dumps(rows)})


def _value_name(at: int) -> str:
    return f"__retcon_value_{at}"


def _value(pair: RowPair, column: str) -> str | None:
    row = pair.new if pair.new is not None else pair.old or {}
    return next((value for name, value in row.items() if name.lower() == column.lower()), None)
