"""Differences: how many rows of two frames aren't the same, slice by slice."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructField

from retcon.core.queries import quoted
from retcon.lakehouse.checksums import as_json, row_hash
from retcon.lakehouse.nested_values import ENDLESS, finite, has_floating, is_floating, numbers_in, rewritten

TOLERANCE = 1e-9
"""Relative difference of floating-point results that a different order of summing explains."""


def differing_rows(
    one: DataFrame, other: DataFrame, fields: Sequence[StructField], slice: Callable[[DataFrame], SparkColumn]
) -> dict[Any, int]:
    """By slice, the rows of one that the other doesn't have, or the reverse, whichever are more.

    Rows are grouped by everything that is exact, counts are compared, and sums of what is floating with a tolerance.
    """
    floating = [field for field in fields if has_floating(field.dataType)]
    exact = [field for field in fields if not has_floating(field.dataType)]
    group = F.expr(row_hash(exact)) if exact else F.lit(0)

    def told(frame: DataFrame, side: int) -> DataFrame:
        columns = [
            F.expr(text).alias(f"{name}{at}")
            for at, field in enumerate(floating)
            for name, text in (("k", _kind(field)), ("f", _number(field)), ("a", _size(field)))
        ]
        return frame.select(slice(frame).alias("at"), group.alias("g"), F.lit(side).alias("side"), *columns)

    both = told(one, 1).unionByName(told(other, -1))
    sums = [F.sum(F.col(f"f{at}") * F.col("side")).alias(f"d{at}") for at in range(len(floating))]
    sizes = [F.sum(f"a{at}").alias(f"s{at}") for at in range(len(floating))]
    groups = both.groupBy("at", "g", *(f"k{at}" for at in range(len(floating))))
    compared = groups.agg(F.sum("side").alias("n"), *sums, *sizes)
    apart = [F.abs(F.col(f"d{at}")) > F.lit(TOLERANCE) * F.col(f"s{at}") for at in range(len(floating))]
    differs = reduce(lambda a, b: a | b, apart, F.col("n") != 0)
    # As many rows on both sides, with other values: one of them at least.
    sides = [F.sum(F.when(F.col("n") == 0, 1).otherwise(F.greatest(F.col("n") * sign, F.lit(0)))) for sign in (1, -1)]
    rows = compared.filter(differs).groupBy("at").agg(F.greatest(*sides).alias("rows")).collect()
    return {row["at"]: int(row["rows"]) for row in rows}


_WEIGHT = "(1D + pmod(i * 0.6180339887498949D, 1D))"
"""Of a number by its place in a nested value: [1, 2] isn't [2, 1]."""


def _kind(field: StructField) -> str:
    """What can't be summed is told apart as it is: NULL isn't 0, and an infinite sum hides everything."""
    name, kind = quoted(field.name), field.dataType
    if is_floating(kind):
        return _kind_of(f"CAST({name} AS DOUBLE)")
    return f"xxhash64({as_json(rewritten(name, kind, _kind_of))})"


def _kind_of(double: str) -> str:
    endless = f"WHEN {double} = {ENDLESS} THEN 2 WHEN {double} = -{ENDLESS} THEN 3"
    return f"CASE WHEN {double} IS NULL THEN 0 WHEN isnan({double}) THEN 1 {endless} ELSE 4 END"


def _number(field: StructField) -> str:
    """One number for all that are in a value."""
    return _summed(field, "x") if not is_floating(field.dataType) else finite(quoted(field.name))


def _size(field: StructField) -> str:
    return _summed(field, "abs(x)") if not is_floating(field.dataType) else f"abs({finite(quoted(field.name))})"


def _summed(field: StructField, number: str) -> str:
    numbers = numbers_in(quoted(field.name), field.dataType)
    return f"aggregate(transform({numbers}, (x, i) -> {number} * {_WEIGHT}), 0D, (s, x) -> s + x)"
