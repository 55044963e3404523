"""Columns of two frames side by side: in which type they are compared, when two values are the same, and as text."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from math import floor, log2

from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    MapType,
    NullType,
    StringType,
    StructField,
    StructType,
    VariantType,
)

from retcon.core.evolution import may_widen
from retcon.core.queries import quoted
from retcon.lakehouse.checksums import JSON_TIMES, row_hash
from retcon.lakehouse.nested_values import is_floating
from retcon.values import dataclass

_BITS_OF_A_HASH = 40
"""To so many, checksums round doubles."""
_CELL = 1024
"""Cells of floating-point values are so many times as wide as the tolerance: few values lie across an edge."""


@dataclass(frozen=True, kw_only=True)
class Pair:
    """One column of both sides."""

    name: str
    kind: DataType
    """In which both are compared."""
    old: SparkColumn
    new: SparkColumn
    note: str = ""


def paired(old: DataFrame, new: DataFrame, volatile: Sequence[str]) -> list[Pair]:
    """The columns of both, in the order of the new side; those that only the old one has are the last."""
    left_out = {name.lower() for name in volatile}
    before = {field.name.lower(): field for field in old.schema.fields}
    now = {field.name.lower(): field for field in new.schema.fields}
    pairs = [_pair(before.get(name), field) for name, field in now.items() if name not in left_out]
    gone = [field for name, field in before.items() if name not in now and name not in left_out]
    return [*pairs, *(_gone(field) for field in gone)]


def _pair(before: StructField | None, field: StructField) -> Pair:
    kind, column = field.dataType, F.col(quoted(field.name))
    if before is None:
        return Pair(name=field.name, kind=kind, old=F.lit(None).cast(kind), new=column, note="added")
    same = F.col(quoted(before.name))
    if before.dataType == kind:
        return Pair(name=field.name, kind=kind, old=same, new=column)
    was, now = before.dataType.simpleString(), kind.simpleString()
    if was == now or may_widen(was, now):
        # A struct may say otherwise which of its fields are never NULL; its type is the same.
        return Pair(
            name=field.name, kind=kind, old=same.cast(kind), new=column, note="" if was == now else f"was {was}"
        )
    # Fields of structs that one side lacks are as those that are NULL.
    texts = (as_text(value, each, nulls=False) for value, each in ((same, before.dataType), (column, kind)))
    one, other = texts
    return Pair(name=field.name, kind=StringType(), old=one, new=other, note=f"was {was}")


def _gone(field: StructField) -> Pair:
    kind = field.dataType
    return Pair(name=field.name, kind=kind, old=F.col(quoted(field.name)), new=F.lit(None).cast(kind), note="removed")


def may_be_key(kind: DataType) -> bool:
    """Can rows be grouped by it?"""
    return not isinstance(kind, MapType | VariantType)


def is_nested(kind: DataType) -> bool:
    return isinstance(kind, StructType | ArrayType | MapType | VariantType)


def as_text(value: SparkColumn, kind: DataType, *, nulls: bool = True) -> SparkColumn:
    """A value as people read it; what is nested as JSON, in which a map's entries are in order."""
    keep = {"ignoreNullFields": "false" if nulls else "true", **JSON_TIMES}
    match kind:
        case StringType():
            return value.cast("string")
        case BinaryType():
            return F.hex(value)
        case NullType():
            return F.lit(None).cast("string")
        case MapType():
            entries = F.to_json(F.array_sort(F.map_entries(value), _by_key), keep)
            return F.when(value.isNotNull(), entries)
        case VariantType():
            return value.cast("string")
        case StructType() | ArrayType():
            return F.when(value.isNotNull(), F.to_json(value, keep))
        case _:
            return value.cast("string")


def _by_key(one: SparkColumn, other: SparkColumn) -> SparkColumn:
    is_less, is_more = one["key"] < other["key"], one["key"] > other["key"]
    return F.when(is_less, F.lit(-1)).when(is_more, F.lit(1)).otherwise(F.lit(0))


def differs(old: SparkColumn, new: SparkColumn, kind: DataType, tolerance: float) -> SparkColumn:
    """Aren't they the same? NULL is the same as NULL, NaN as NaN, and floating-point values with a tolerance."""
    if is_floating(kind):
        return ~near(old.cast("double"), new.cast("double"), tolerance)
    if is_nested(kind):
        return ~as_text(old, kind).eqNullSafe(as_text(new, kind))
    return ~old.eqNullSafe(new)


def near(old: SparkColumn, new: SparkColumn, tolerance: float) -> SparkColumn:
    """Equal, or finite and relatively no further apart than this. Never NULL."""
    endless = F.lit(float("inf"))
    are_finite = (F.abs(old) < endless) & (F.abs(new) < endless)
    is_close = F.abs(old - new) <= F.lit(tolerance) * F.greatest(F.abs(old), F.abs(new))
    return old.eqNullSafe(new) | F.coalesce(are_finite & is_close, F.lit(False))


def same_rows_hash(fields: Sequence[StructField], tolerance: float) -> SparkColumn:
    """A hash that rows have in common only if no value differs by more than the tolerance."""
    if tolerance > 2.0 ** (1 - _BITS_OF_A_HASH):
        return F.expr(row_hash(fields))
    floating = [field for field in fields if is_floating(field.dataType)]
    exact = [field for field in fields if not is_floating(field.dataType)]
    values = [F.col(quoted(field.name)).cast("double") for field in floating]
    return F.xxhash64(exact_hash(exact), *(value.isNull() for value in values), *(value + 0.0 for value in values))


def exact_hash(fields: Sequence[StructField]) -> SparkColumn:
    """A hash of what isn't floating; doubles inside other values count to the last bit."""
    exact = [field for field in fields if not is_floating(field.dataType)]
    return F.expr(row_hash(exact, nested=str)) if exact else F.lit(0).cast("long")


def cell(value: SparkColumn, tolerance: float) -> SparkColumn:
    """Where a floating-point value lies, so coarsely that those within the tolerance mostly lie in one place."""
    bits = min(max(floor(-log2(tolerance * _CELL)), 1), 50)
    split = F.lit(float(2 ** (53 - bits) + 1))
    double = value.cast("double")
    return F.when(F.abs(double) < 1e290, double * split + (double - double * split)).otherwise(double)


def any_of(conditions: Sequence[SparkColumn]) -> SparkColumn:
    return reduce(lambda a, b: a | b, conditions, F.lit(False))
