"""Checksums: what they must tell apart, and what they must not."""

from __future__ import annotations

import json
import random
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from retcon.lakehouse.checksums import checksum_sums, checksum_text, row_hash, shape_of
from retcon.lakehouse.gate_values import number_of
from retcon.lakehouse.measuring import _metric, _summed_scale
from tests.shops import Shop

pytestmark = pytest.mark.spark

SCHEMA = (
    "STRUCT<a: STRING, b: STRING, c: BIGINT, x: DOUBLE, arr: ARRAY<STRING>, st: STRUCT<p: STRING, q: STRING>, "
    "m: MAP<STRING, INT>>"
)
NAMES = ("a", "b", "c", "x", "arr", "st", "m")


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> SparkSession:
    folder: Path = tmp_path_factory.mktemp("checksums")
    return Shop(folder / "shop", "sqlite:///.retcon/lake.db").workspace.spark


def named(row: tuple[Any, ...]) -> dict[str, Any]:
    values = dict(zip(NAMES, row, strict=True))
    if values["st"] is not None:
        values["st"] = dict(zip(("p", "q"), values["st"], strict=True))
    return values


def checksum(spark: SparkSession, rows: list[tuple[Any, ...]]) -> str:
    # As JSON, which the JVM reads: createDataFrame would start a Python worker for a handful of rows.
    frame = spark.sql(
        f"SELECT inline(from_json(:rows, 'ARRAY<{SCHEMA}>'))", args={"rows": json.dumps(list(map(named, rows)))}
    )
    hashed = frame.select(F.expr(row_hash(frame.schema.fields)).alias("h"))
    low, high = checksum_sums("h")
    [row] = hashed.agg(F.count(F.lit(1)).alias("n"), F.expr(low).alias("l"), F.expr(high).alias("h")).collect()
    return checksum_text(row["n"], row["l"] or 0, row["h"] or 0, shape_of(frame.schema.fields))


text = st.none() | st.sampled_from(["", "a", "b", "ü"])
row = st.tuples(
    text,
    text,
    st.none() | st.integers(-3, 3),
    st.none() | st.sampled_from([0.0, -0.0, 1.5, float("nan"), float("inf"), 1e305]),
    st.none() | st.lists(text, max_size=2),
    st.none() | st.tuples(text, text),
    st.none() | st.dictionaries(st.sampled_from(["k", "l"]), st.integers(0, 2), max_size=2),
)


def plain(row: tuple[Any, ...]) -> str:
    """A row as what counts as equal: 0.0 is -0.0, NaN is NaN, a map has no order."""
    x = row[3]
    number = "nan" if x != x else repr(x + 0.0 if x is not None else None)
    entries = None if row[6] is None else sorted(row[6].items())
    return repr((row[0], row[1], row[2], number, row[4], row[5], entries))


@given(left=st.lists(row, max_size=4), right=st.lists(row, max_size=4), seed=st.integers())
@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
def test_checksums_are_equal_exactly_for_equal_multisets(
    spark: SparkSession, left: list[Any], right: list[Any], seed: int
) -> None:
    shuffled = list(left)
    random.Random(seed).shuffle(shuffled)
    found = checksum(spark, left)
    assert checksum(spark, shuffled) == found
    same = sorted(map(plain, left)) == sorted(map(plain, right))
    assert (checksum(spark, right) == found) == same


N = None


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ([("a", "b", 1, 1.0, N, N, N)], [("b", "a", 1, 1.0, N, N, N)]),
        ([("a", N, 1, 1.0, N, N, N)], [(N, "a", 1, 1.0, N, N, N)]),
        ([("a", "b", 1, 1.0, N, N, N)] * 2, []),
        ([("a", "b", 1, 1.0, N, N, N)] * 2, [("a", "b", 1, 1.0, N, N, N)] * 4),
        ([("a", "b", N, N, [N, "a"], N, N)], [("a", "b", N, N, ["a", N], N, N)]),
        ([("a", "b", N, N, N, (N, "a"), N)], [("a", "b", N, N, N, ("a", N), N)]),
        ([("a", "b", N, N, [], N, N)], [("a", "b", N, N, N, N, N)]),
        ([(N,) * 7], []),
    ],
)
def test_checksums_tell_apart(spark: SparkSession, left: list[Any], right: list[Any]) -> None:
    assert checksum(spark, left) != checksum(spark, right)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ([(N, N, N, 0.0, N, N, N)], [(N, N, N, -0.0, N, N, N)]),
        ([(N, N, N, 0.1 + 0.2, N, N, N)], [(N, N, N, 0.3, N, N, N)]),
        ([(N, N, N, N, N, N, {"k": 1, "l": 2})], [(N, N, N, N, N, N, {"l": 2, "k": 1})]),
    ],
)
def test_checksums_take_for_the_same(spark: SparkSession, left: list[Any], right: list[Any]) -> None:
    assert checksum(spark, left) == checksum(spark, right)


@pytest.mark.parametrize(
    "value",
    [
        "struct(moment)",
        "array(struct(moment))",
        "map(moment, moment)",
        "map('k', named_struct('at', moment, 'x', 1D))",
        "to_variant_object(struct(moment))",
    ],
)
def test_a_moment_is_the_same_in_every_time_zone_wherever_it_stands(spark: SparkSession, value: str) -> None:
    zone = "spark.sql.session.timeZone"
    before = spark.conf.get(zone)

    def hashed_in(name: str) -> int:
        spark.conf.set(zone, name)
        frame = spark.sql(f"SELECT {value} AS v FROM (SELECT timestamp_micros(1767268800123456) AS moment)")
        return int(frame.select(F.expr(row_hash(frame.schema.fields))).collect()[0][0])

    try:
        assert hashed_in("UTC") == hashed_in("Europe/Berlin") == hashed_in("Asia/Kathmandu")
    finally:
        spark.conf.set(zone, str(before))


@pytest.mark.parametrize("value", ["DATE '2026-01-01'", "TIMESTAMP_NTZ '2026-01-01 12:00:00'", "1.5BD", "'a'"])
def test_what_isnt_a_moment_is_hashed_as_without_a_time_zone(spark: SparkSession, value: str) -> None:
    zone = "spark.sql.session.timeZone"
    before = spark.conf.get(zone)
    spark.conf.set(zone, "Asia/Kathmandu")
    try:
        frame = spark.sql(f"SELECT array({value}) AS v")
        now = row_hash(frame.schema.fields)
        assert "'timeZone', 'UTC', " in now
        [pair] = frame.select(F.expr(now), F.expr(now.replace("'timeZone', 'UTC', ", ""))).collect()
    finally:
        spark.conf.set(zone, str(before))
    assert pair[0] == pair[1]


@pytest.mark.parametrize(
    ("kind", "left", "right"),
    [
        (
            "ARRAY<STRUCT<at: TIMESTAMP>>",
            [{"at": "2026-01-01T12:00:00.123456Z"}],
            [{"at": "2026-01-01T12:00:00.123999Z"}],
        ),
        ("STRUCT<at: TIMESTAMP_NTZ>", {"at": "2026-01-01T12:00:00.000001"}, {"at": "2026-01-01T12:00:00.000002"}),
        ("MAP<STRING, MAP<STRING, INT>>", {"a": {"b": 1}, "c": {}}, {"a": {"b": 2}, "c": {}}),
        ("MAP<STRING, TIMESTAMP>", {"a": "2026-01-01T12:00:00.000001Z"}, {"a": "2026-01-01T12:00:00.000002Z"}),
    ],
)
def test_what_is_nested_is_told_apart_to_its_last_digit(spark: SparkSession, kind: str, left: Any, right: Any) -> None:
    assert hashed(spark, kind, left) != hashed(spark, kind, right)
    assert hashed(spark, kind, left) == hashed(spark, kind, json.loads(json.dumps(left)))


def hashed(spark: SparkSession, kind: str, value: Any) -> int:
    """The hash of a row with this value, which isn't NULL."""
    frame = spark.sql(
        f"SELECT inline(from_json(:rows, 'ARRAY<STRUCT<v: {kind}>>'))", args={"rows": json.dumps([{"v": value}])}
    )
    [[number, is_null]] = frame.select(F.expr(row_hash(frame.schema.fields)), F.col("v").isNull()).collect()
    assert not is_null
    return int(number)


@pytest.mark.parametrize(
    ("kind", "left", "right"),
    [
        ("STRUCT<x: DOUBLE, y: STRING>", {"x": 0.1 + 0.2, "y": "a"}, {"x": 0.3, "y": "a"}),
        ("STRUCT<x: DOUBLE>", {"x": 0.0}, {"x": -0.0}),
        ("ARRAY<DOUBLE>", [0.1 + 0.2, None], [0.3, None]),
        ("MAP<STRING, DOUBLE>", {"a": 0.1 + 0.2, "b": 1.0}, {"b": 1.0, "a": 0.3}),
        ("STRUCT<m: MAP<STRING, INT>>", {"m": {"a": 1, "b": 2}}, {"m": {"b": 2, "a": 1}}),
        ("MAP<STRING, MAP<STRING, INT>>", {"z": {"a": 1, "b": 2}}, {"z": {"b": 2, "a": 1}}),
        (
            "ARRAY<STRUCT<m: MAP<STRING, ARRAY<STRUCT<`p q`: DOUBLE>>>>>",
            [None, {"m": {"a": [{"p q": 0.1 + 0.2}, None], "b": None}}, {"m": None}],
            [None, {"m": {"b": None, "a": [{"p q": 0.3}, None]}}, {"m": None}],
        ),
    ],
)
def test_floating_point_values_and_maps_inside_others_are_taken_for_the_same_as_outside(
    spark: SparkSession, kind: str, left: Any, right: Any
) -> None:
    assert hashed(spark, kind, left) == hashed(spark, kind, right)


@pytest.mark.parametrize(
    ("kind", "left", "right"),
    [
        ("STRUCT<x: DOUBLE>", {"x": 1.0}, {"x": 1.0000001}),
        ("STRUCT<x: DOUBLE>", {"x": 0.0}, {"x": None}),
        ("STRUCT<s: STRUCT<x: DOUBLE>>", {"s": None}, {"s": {"x": None}}),
        ("ARRAY<DOUBLE>", [1.0, 2.0], [2.0, 1.0]),
        ("ARRAY<DOUBLE>", [], [None]),
        ("MAP<STRING, DOUBLE>", {"a": 1.0, "b": 2.0}, {"a": 2.0, "b": 1.0}),
        ("STRUCT<m: MAP<STRING, INT>>", {"m": {}}, {"m": None}),
        ("STRUCT<x: DOUBLE, y: STRING>", {"x": 1.0, "y": "a"}, {"x": 1.0, "y": "b"}),
    ],
)
def test_all_else_inside_others_is_told_apart(spark: SparkSession, kind: str, left: Any, right: Any) -> None:
    assert hashed(spark, kind, left) != hashed(spark, kind, right)


def test_a_field_of_a_struct_isnt_taken_for_a_column_of_a_table_by_the_structs_name(spark: SparkSession) -> None:
    def of(x: str) -> int:
        frame = spark.sql(f"SELECT double(1) AS x, named_struct('x', double({x})) AS st").alias("st")
        [field] = [each for each in frame.schema.fields if each.name == "st"]
        [[number]] = frame.select(F.expr(row_hash([field]))).collect()
        return int(number)

    assert of("1") != of("2")


def test_maps_whose_values_have_no_order_are_the_same_whatever_the_order_of_their_keys(spark: SparkSession) -> None:
    frame = spark.sql(
        "SELECT map('a', map('x', 1), 'b', map('y', 2)) AS m UNION ALL SELECT map('b', map('y', 2), 'a', map('x', 1))"
    )
    assert len({number for [number] in frame.select(F.expr(row_hash(frame.schema.fields))).collect()}) == 1


LARGEST = 10**18 - 1


@given(values=st.lists(st.none() | st.integers(-LARGEST, LARGEST), max_size=6), scale=st.sampled_from([0, 2, 18]))
@settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))
def test_sums_of_decimals_are_exact(spark: SparkSession, values: list[int | None], scale: int) -> None:
    decimals = [None if value is None else Decimal(value).scaleb(-scale) for value in values]
    frame = spark.sql(
        f"SELECT inline(from_json(:rows, 'ARRAY<STRUCT<Amount: DECIMAL(18,{scale})>>'))",
        args={"rows": json.dumps([{"Amount": None if d is None else f"{d:f}"} for d in decimals])},
    )
    assert _summed_scale("SUM( amount )", frame) == scale
    [row] = frame.agg(_metric(spark, "SUM( amount )", scale).cast("string").alias("sum")).collect()
    there = [decimal for decimal in decimals if decimal is not None]
    assert number_of(row["sum"], "SUM( amount )", scale) == (sum(there) if there else None)


@pytest.mark.parametrize("metric", ["sum(x)", "sum(d + 1)", "avg(d)", "sum(wide)", "sum(gone)", "sum(d) / 2"])
def test_other_metrics_are_left_to_spark(spark: SparkSession, metric: str) -> None:
    frame = spark.sql("SELECT 1.5D AS x, CAST(1 AS DECIMAL(14,2)) AS d, CAST(1 AS DECIMAL(38,2)) AS wide")
    assert _summed_scale(metric, frame) is None
