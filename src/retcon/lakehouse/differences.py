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
from retcon.lakehouse.checksums import is_floating, row_hash

TOLERANCE = 1e-9
"""Relative difference of floating-point results that a different order of summing explains."""


def differing_rows(
    one: DataFrame, other: DataFrame, fields: Sequence[StructField], slice: Callable[[DataFrame], SparkColumn]
) -> dict[Any, int]:
    """By slice, the rows of one that the other doesn't have, or the reverse, whichever are more.

    Rows are grouped by everything that is exact, counts are compared, and sums of what is floating with a tolerance.
    """
    floating = [field.name for field in fields if is_floating(field.dataType)]
    exact = [field for field in fields if not is_floating(field.dataType)]
    group = F.expr(row_hash(exact)) if exact else F.lit(0)

    def told(frame: DataFrame, side: int) -> DataFrame:
        kinds = [_kind(name).alias(f"k{at}") for at, name in enumerate(floating)]
        values = [F.when(_kind(name) == _FINITE, _double(name)).alias(f"f{at}") for at, name in enumerate(floating)]
        return frame.select(slice(frame).alias("at"), group.alias("g"), F.lit(side).alias("side"), *kinds, *values)

    both = told(one, 1).unionByName(told(other, -1))
    sums = [F.sum(F.col(f"f{at}") * F.col("side")).alias(f"d{at}") for at in range(len(floating))]
    sizes = [F.sum(F.abs(F.col(f"f{at}"))).alias(f"s{at}") for at in range(len(floating))]
    groups = both.groupBy("at", "g", *(f"k{at}" for at in range(len(floating))))
    compared = groups.agg(F.sum("side").alias("n"), *sums, *sizes)
    apart = [F.abs(F.col(f"d{at}")) > F.lit(TOLERANCE) * F.col(f"s{at}") for at in range(len(floating))]
    differs = reduce(lambda a, b: a | b, apart, F.col("n") != 0)
    # As many rows on both sides, with other values: one of them at least.
    sides = [F.sum(F.when(F.col("n") == 0, 1).otherwise(F.greatest(F.col("n") * sign, F.lit(0)))) for sign in (1, -1)]
    rows = compared.filter(differs).groupBy("at").agg(F.greatest(*sides).alias("rows")).collect()
    return {row["at"]: int(row["rows"]) for row in rows}


_NULL, _NAN, _HIGH, _LOW, _FINITE = range(5)


def _double(name: str) -> SparkColumn:
    return F.col(quoted(name)).cast("double")


def _kind(name: str) -> SparkColumn:
    """What can't be summed is told apart as it is: NULL isn't 0, and an infinite sum hides everything."""
    value = _double(name)
    endless = F.lit(float("inf"))
    return (
        F.when(value.isNull(), _NULL)
        .when(F.isnan(value), _NAN)
        .when(value == endless, _HIGH)
        .when(value == -endless, _LOW)
        .otherwise(_FINITE)
    )
