"""Buckets in Iceberg's metadata, and in the predicates that cut to them."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyiceberg.transforms import BucketTransform
from pyiceberg.typedef import Record
from pyiceberg.types import DateType, IcebergType, LongType, StringType

from retcon.core.slices import Buckets, SliceSet
from retcon.lakehouse.predicates import slice_key, slice_predicate
from tests.lakehouse.lakes import Lake, entry


def test_a_file_lies_in_the_bucket_of_its_partition_and_anywhere_where_it_is_cut_otherwise(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    lake.make("raw.b", LongType(), by=BucketTransform(4))
    lake.add("raw.b", entry(1, Record(2)), entry(2, Record(0)), entry(3, Record(None), rows=7))
    held = lake.contents("raw.b", grain=Buckets(4))
    assert held.present.text == "b0, b2"
    assert (held.null_rows, held.is_exact) == (7, True)
    assert held.of(SliceSet.parse(Buckets(4), "b1..b2")).files == 1
    other = lake.contents("raw.b", grain=Buckets(8))
    assert not other.is_exact
    assert other.of(SliceSet.parse(Buckets(8), "b5")).files == 3


@pytest.mark.parametrize(
    ("kind", "texts", "buckets"),
    [
        (LongType(), ["34"], {2017239379 % 16}),  # hashes from Iceberg's specification
        (StringType(), ["iceberg"], {1210000089 % 16}),
        (DateType(), ["2026-01-01"], None),
    ],
)
def test_the_buckets_of_keys_are_those_of_icebergs_specification(
    tmp_path: Path, kind: IcebergType, texts: list[str], buckets: set[int] | None
) -> None:
    lake = Lake(tmp_path)
    lake.make("raw.b", kind, by=BucketTransform(16))
    assert lake.metadata.buckets_of("raw.b", "D", 16, texts) == buckets


def test_a_predicate_counts_buckets_in_the_type_of_the_table() -> None:
    slices = SliceSet.parse(Buckets(4), "b1, b3")
    assert slice_predicate("k", "bigint", slices) == "system.bucket(4, `k`) IN (1, 3)"
    assert slice_predicate("k", "bigint", slices, bucketed_as="bigint") == "system.bucket(4, `k`) IN (1, 3)"
    assert slice_predicate("k", "string", slices, bucketed_as="bigint") == (
        "system.bucket(4, CAST(`k` AS bigint)) IN (1, 3)"
    )
    assert slice_predicate("k", "string", SliceSet(Buckets(4))) == "false"
    assert slice_predicate("k", "string", SliceSet.every(Buckets(500))).count(" IN (") == 3
    assert slice_key("k", "string", Buckets(4)) == "system.bucket(4, `k`)"
