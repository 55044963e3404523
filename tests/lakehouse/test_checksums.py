"""The SQL of checksums: what ledgers hold must stay comparable, and what can't be compared must say so."""

from __future__ import annotations

from pyspark.sql.types import (
    ArrayType,
    DataType,
    DateType,
    DoubleType,
    FloatType,
    IntegerType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
    VariantType,
)

from retcon.core.tables import digest_of
from retcon.lakehouse.checksums import row_hash, shape_of

TEXT, WHOLE, DOUBLE = StringType(), IntegerType(), DoubleType()
OPTIONS = (
    "map('ignoreNullFields', 'false', 'timeZone', 'UTC', 'timestampFormat', 'yyyy-MM-dd HH:mm:ss.SSSSSSXXX', "
    "'timestampNTZFormat', 'yyyy-MM-dd HH:mm:ss.SSSSSS')"
)
IN_ORDER = (
    "array_sort(map_entries(`v`), (l, r) -> CASE WHEN l.key < r.key THEN -1 WHEN l.key > r.key THEN 1 ELSE 0 END)"
)


def a_struct(**fields: DataType) -> StructType:
    return StructType([StructField(name, kind) for name, kind in fields.items()])


def hashed(kind: DataType) -> str:
    """What is hashed of a column of this type, beside whether it is NULL."""
    text = row_hash([StructField("v", kind)])
    return text.removeprefix("xxhash64(if(`v` IS NULL, 1L, 0L), ").removesuffix(")")


def shape(kind: DataType) -> str:
    return shape_of([StructField("V", kind)])


AS_JSON = f"to_json(struct(`v` AS v), {OPTIONS})"
AS_ENTRIES = f"to_json(struct({IN_ORDER} AS m), {OPTIONS})"
AS_EVER = {
    TEXT: "`v`",
    DOUBLE: "if(abs(CAST(`v` AS DOUBLE)) < 1e300D, CAST(`v` AS DOUBLE) * 8193D + "
    "(CAST(`v` AS DOUBLE) - CAST(`v` AS DOUBLE) * 8193D), CAST(`v` AS DOUBLE))",
    TimestampType(): "`v`",
    ArrayType(TEXT): AS_JSON,
    a_struct(at=TimestampNTZType(), d=DateType()): AS_JSON,
    a_struct(p=TEXT, q=ArrayType(a_struct(r=WHOLE))): AS_JSON,
    MapType(TEXT, WHOLE): AS_ENTRIES,
    MapType(TEXT, a_struct(p=ArrayType(WHOLE))): AS_ENTRIES,
}
OTHERWISE = [
    a_struct(p=DOUBLE),
    ArrayType(FloatType()),
    MapType(TEXT, DOUBLE),
    MapType(DOUBLE, TEXT),
    ArrayType(a_struct(p=a_struct(q=DOUBLE))),
    a_struct(m=MapType(TEXT, WHOLE)),
    ArrayType(MapType(TEXT, WHOLE)),
    MapType(TEXT, MapType(TEXT, WHOLE)),
]


def test_what_holds_no_floating_point_values_and_no_maps_inside_is_hashed_as_ever() -> None:
    assert {kind: hashed(kind) for kind in AS_EVER} == AS_EVER
    shapes = {kind: shape(kind) for kind in AS_EVER}
    assert shapes == {kind: digest_of([f"v:{kind.simpleString()}"])[:8] for kind in AS_EVER}


def test_what_is_hashed_otherwise_has_another_shape() -> None:
    for kind in OTHERWISE:
        assert hashed(kind) not in (AS_JSON, AS_ENTRIES)
        assert shape(kind) != digest_of([f"v:{kind.simpleString()}"])[:8]


def test_moments_inside_others_give_another_shape() -> None:
    moment = TimestampType()
    for kind in (a_struct(at=moment), ArrayType(moment), MapType(TEXT, a_struct(at=moment)), VariantType()):
        assert shape(kind) == digest_of([f"v:{kind.simpleString()}:utc"])[:8]
    both = a_struct(at=moment, x=DOUBLE)
    assert shape(both) == digest_of([f"v:{both.simpleString()}:rewritten:utc"])[:8]


def test_doubles_are_rounded_wherever_they_are_and_maps_sorted() -> None:
    kind = ArrayType(a_struct(p=MapType(TEXT, DOUBLE), q=TEXT))
    text = hashed(kind)
    assert text.count("8193D") == 2
    assert text.count("array_sort") == 1
    assert "x0['q'] AS `q`" in text, "the rest goes in as it is"
