"""Values inside structs, arrays and maps: floating-point ones apart from the rest, maps in order, fields by name."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from pyspark.sql import Column as SparkColumn
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    DataType,
    DoubleType,
    FloatType,
    MapType,
    StructField,
    StructType,
    TimestampType,
    VariantType,
)

from retcon.core.queries import quoted, text_literal
from retcon.errors import Refused

Leaf = Callable[[str], str]
"""What is written in the place of a double."""

ENDLESS = "CAST('Infinity' AS DOUBLE)"
_NESTED = (StructType, ArrayType, MapType, VariantType)
_NO_NUMBERS = "CAST(array() AS ARRAY<DOUBLE>)"


def is_floating(kind: DataType) -> bool:
    """May its last bits depend on the order of a sum?"""
    return isinstance(kind, DoubleType | FloatType)


def has_floating(kind: DataType) -> bool:
    """The same of any value in it."""
    return any(map(is_floating, _parts(kind)))


def needs_rewriting(kind: DataType) -> bool:
    """Is there anything inside it that isn't the same as JSON whenever it is the same? A map of its own is sorted."""
    _, *inside = _parts(kind)
    return any(map(_is_rewritten, inside))


def holds_moments(kind: DataType) -> bool:
    """May there be a moment inside it, which as text depends on the time zone?"""
    return isinstance(kind, _NESTED) and any(isinstance(part, TimestampType | VariantType) for part in _parts(kind))


def rewritten(value: str, kind: DataType, leaf: Leaf, depth: int = 0) -> str:
    """A value with something else for each of its doubles, and with its maps as entries in the order of their keys."""
    each = f"x{depth}"
    match kind:
        case _ if not any(map(_is_rewritten, _parts(kind))):
            return value
        case StructType():
            fields = ((f.name, rewritten(_of(value, f.name), f.dataType, leaf, depth)) for f in kind.fields)
            return f"if({value} IS NULL, NULL, {_struct(*fields)})"
        case ArrayType():
            return f"transform({value}, {each} -> {rewritten(each, kind.elementType, leaf, depth + 1)})"
        case MapType() if not needs_rewriting(kind):
            return in_order(value)
        case MapType():
            kinds = (("key", kind.keyType), ("value", kind.valueType))
            fields = ((name, rewritten(_of(each, name), part, leaf, depth + 1)) for name, part in kinds)
            return f"transform({in_order(value)}, {each} -> {_struct(*fields)})"
        case _:
            return leaf(f"CAST({value} AS DOUBLE)")


def numbers_in(value: str, kind: DataType, depth: int = 0) -> str:
    """Its doubles one after the other, as an array."""
    each = f"x{depth}"
    match kind:
        case StructType():
            parts = (numbers_in(_of(value, f.name), f.dataType, depth) for f in kind.fields if has_floating(f.dataType))
            return f"concat({', '.join(parts)})"
        case ArrayType():
            return _flat(f"transform({value}, {each} -> {numbers_in(each, kind.elementType, depth + 1)})")
        case MapType():
            kinds = (("key", kind.keyType), ("value", kind.valueType))
            parts = (numbers_in(_of(each, name), part, depth + 1) for name, part in kinds if has_floating(part))
            return _flat(f"transform({in_order(value)}, {each} -> concat({', '.join(parts)}))")
        case _:
            return f"array({finite(value)})"


def finite(value: str) -> str:
    """A double that may be summed: 0 where it isn't finite, or NULL."""
    double = f"CAST({value} AS DOUBLE)"
    # NaN is more than anything.
    return f"if(abs({double}) < {ENDLESS}, {double}, 0D)"


def in_order(value: str) -> str:
    """The entries of a map by their keys: of which each is there once, while values may have no order."""
    order = "CASE WHEN l.key < r.key THEN -1 WHEN l.key > r.key THEN 1 ELSE 0 END"
    return f"array_sort(map_entries({value}), (l, r) -> {order})"


def cast_by_name(value: SparkColumn, kind: DataType, to: DataType) -> SparkColumn:
    """A value of one type as one of another, with the fields of structs put where they are by name; Spark's own cast
    goes by their order. What is new is NULL.
    """
    match kind, to:
        case _ if kind == to:
            return value
        case _ if kind.simpleString() == to.simpleString() or not any(isinstance(k, StructType) for k in _parts(kind)):
            return value.cast(to)
        case StructType(), StructType():
            have = {field.name.lower(): field for field in kind.fields}
            if lost := have.keys() - {field.name.lower() for field in to.fields}:
                raise Refused(f"there is no place for {', '.join(sorted(lost))} of {kind.simpleString()}")
            fields = (_field_by_name(value, have.get(field.name.lower()), field) for field in to.fields)
            return F.when(value.isNotNull(), F.struct(*fields))
        case ArrayType(), ArrayType():
            return F.transform(value, lambda each: cast_by_name(each, kind.elementType, to.elementType))
        case MapType(), MapType():
            return F.map_from_arrays(
                F.transform(F.map_keys(value), lambda each: cast_by_name(each, kind.keyType, to.keyType)),
                F.transform(F.map_values(value), lambda each: cast_by_name(each, kind.valueType, to.valueType)),
            )
        case _:
            return value.cast(to)


def _field_by_name(value: SparkColumn, have: StructField | None, field: StructField) -> SparkColumn:
    if have is None:
        return F.lit(None).cast(field.dataType).alias(field.name)
    return cast_by_name(value.getField(have.name), have.dataType, field.dataType).alias(field.name)


def _parts(kind: DataType) -> Iterator[DataType]:
    """The type, and those of all that is in it."""
    yield kind
    match kind:
        case StructType():
            for field in kind.fields:
                yield from _parts(field.dataType)
        case ArrayType():
            yield from _parts(kind.elementType)
        case MapType():
            yield from (*_parts(kind.keyType), *_parts(kind.valueType))


def _is_rewritten(kind: DataType) -> bool:
    return is_floating(kind) or isinstance(kind, MapType)


def _of(value: str, field: str) -> str:
    # In brackets: with a dot, `st`.`p` could be the column p of a table st.
    return f"{value}[{text_literal(field)}]"


def _struct(*fields: tuple[str, str]) -> str:
    return f"struct({', '.join(f'{value} AS {quoted(name)}' for name, value in fields)})"


def _flat(arrays: str) -> str:
    return f"coalesce(flatten({arrays}), {_NO_NUMBERS})"
