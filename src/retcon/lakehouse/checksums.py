"""Row hashes and order-independent checksums, in SQL."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql.types import ArrayType, DoubleType, FloatType, MapType, StructField, StructType, VariantType

from retcon.core.queries import quoted
from retcon.core.tables import digest_of
from retcon.lakehouse.nested_values import Leaf, holds_moments, in_order, needs_rewriting, rewritten

_BITS_IN_A_MASK = 62
JSON_TIMES = {
    "timestampFormat": "yyyy-MM-dd HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd HH:mm:ss.SSSSSS",
}
"""To the microsecond: as Spark writes times into JSON, they end at milliseconds."""
_OPTIONS = {"ignoreNullFields": "false", "timeZone": "UTC", **JSON_TIMES}
"""The session's time zone is the project's, which may become another; the moments stay."""
_AS_IT_IS = f"map({', '.join(repr(word) for option in _OPTIONS.items() for word in option)})"


def rounded(double: str) -> str:
    """A double rounded to 40 bits: sums taken in another order mostly agree then. Huge ones are left as they are."""
    return f"if(abs({double}) < 1e300D, {double} * 8193D + ({double} - {double} * 8193D), {double})"


def row_hash(fields: Sequence[StructField], nested: Leaf = rounded) -> str:
    """A 64-bit hash of a row: of its values, and of which of them are NULL; of doubles inside others, as given.

    xxhash64 skips NULLs, so without the mask ('a', NULL) and (NULL, 'a') would be the same row.
    """
    masks = [_mask(fields[at : at + _BITS_IN_A_MASK]) for at in range(0, len(fields), _BITS_IN_A_MASK)]
    return f"xxhash64({', '.join([*masks, *(_comparable(field, nested) for field in fields)])})"


def _mask(fields: Sequence[StructField]) -> str:
    bits = (f"if({quoted(field.name)} IS NULL, {1 << at}L, 0L)" for at, field in enumerate(fields))
    return " + ".join(bits)


def is_hashed_as_it_is(field: StructField) -> bool:
    """Is its value hashed as it is, neither rounded nor written out?"""
    return _comparable(field, rounded) == quoted(field.name)


def as_json(value: str) -> str:
    """A nested value as text, to its last digit."""
    return f"to_json(struct({value} AS v), {_AS_IT_IS})"


def _comparable(field: StructField, nested: Leaf) -> str:
    name = quoted(field.name)
    match field.dataType:
        case DoubleType() | FloatType():
            return rounded(f"CAST({name} AS DOUBLE)")
        case kind if needs_rewriting(kind):
            return as_json(rewritten(name, kind, nested))
        case MapType():
            # A map has no order of its own.
            return f"to_json(struct({in_order(name)} AS m), {_AS_IT_IS})"
        case StructType() | ArrayType() | VariantType():
            return as_json(name)
        case _:
            return name


def checksum_sums(hash_column: str) -> tuple[str, str]:
    """Two sums over the halves of the hash: exact, whatever the order, and equal rows don't cancel out."""
    name = quoted(hash_column)
    return f"sum({name} & 4294967295L)", f"sum(shiftrightunsigned({name}, 32))"


def checksum_text(rows: int, low: int, high: int, shape: str) -> str:
    """Count, sums and shape as one word: checksums of differently shaped rows are never equal by chance."""
    return f"{rows:x}-{low:x}-{high:x}-{shape}"


def shape_of(fields: Sequence[StructField]) -> str:
    """A short hash of the columns' names and types: int 0, false and 1970-01-01 hash alike."""
    return digest_of(f"{field.name.lower()}:{field.dataType.simpleString()}{_way(field)}" for field in fields)[:8]


def _way(field: StructField) -> str:
    """Ledgers have checksums in which these values were hashed otherwise, which must not be compared with new ones."""
    rewritten = ":rewritten" if needs_rewriting(field.dataType) else ""
    return f"{rewritten}:utc" if holds_moments(field.dataType) else rewritten


def has_shape(checksum: str, shape: str) -> bool:
    """Was this checksum taken over rows of this shape?"""
    return checksum.rpartition("-")[2] == shape
