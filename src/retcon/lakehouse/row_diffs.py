"""Row diffs: the rows of two reads of one table, joined by key or counted as a multiset, in one job."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property, reduce
from typing import Any

from pyspark import StorageLevel
from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame, Row, Window
from pyspark.sql import functions as F
from pyspark.sql.types import StructField

from retcon.core.reads import Read
from retcon.core.row_diffs import ComparedColumn, RowCounts, RowDiff, RowDiffRequest, RowKind, RowPair
from retcon.core.slices import Slice
from retcon.lakehouse.nested_values import is_floating
from retcon.lakehouse.predicates import slice_at, slice_key
from retcon.lakehouse.row_columns import (
    Pair,
    any_of,
    as_text,
    cell,
    differs,
    exact_hash,
    may_be_key,
    near,
    paired,
    same_rows_hash,
)
from retcon.lakehouse.row_files import FileColumn, write_rows
from retcon.lakehouse.scoped_reads import ScopedReads, type_of
from retcon.values import dataclass

_OLD, _NEW = 0, 1
_SEVERAL = "several"
"""Not a kind of difference: rows of one key that is NULL, or not of one row on each side."""
_LONGEST = 2000
"""Characters of a value that a sample holds."""


class RowDiffs:
    """Compares rows; nothing is written but the file that is asked for."""

    def __init__(self, reads: ScopedReads) -> None:
        self._reads = reads

    def row_diff(self, request: RowDiffRequest) -> RowDiff:
        """Every row that differs, counted; some of them shown; all of them written where a file is asked for."""
        old, new = (self._reads.frame(read) for read in (request.sides.old, request.sides.new))
        compared = _Compared.of(old, new, request)
        with compared.differences() as (found, several):
            counts, columns = _counted(found, compared, request)
            diff = RowDiff(
                model=request.model.name,
                slices=request.sides.slices,
                key=compared.key_names,
                why_no_key=compared.why_no_key,
                tolerance=request.tolerance,
                without_key=several,
                counts=counts,
                columns=columns,
                left_out=request.model.volatile,
                sample=_sample(found, compared, request),
            )
            if request.out is None:
                return diff
            return replace(diff, written=_write(found, compared, request.out))


@dataclass(frozen=True, kw_only=True)
class _Compared:
    """Two frames with the same columns, called c0, c1, …: no name of the author's can be in the way."""

    pairs: list[Pair]
    key: tuple[int, ...]
    """Places of the key's columns."""
    why_no_key: str
    rows: DataFrame
    """Of both sides: `at`, `side`, `h`, and the columns."""
    request: RowDiffRequest

    @classmethod
    def of(cls, old: DataFrame, new: DataFrame, request: RowDiffRequest) -> _Compared:
        pairs = paired(old, new, request.model.volatile)
        key, why = _key_of(pairs, request)
        fields = [StructField(f"c{at}", pair.kind) for at, pair in enumerate(pairs)]
        told = [
            frame.select(
                _slice_of(frame, read).alias("at"),
                F.lit(side).alias("side"),
                *((pair.old if side == _OLD else pair.new).alias(f"c{at}") for at, pair in enumerate(pairs)),
            )
            for side, frame, read in ((_OLD, old, request.sides.old), (_NEW, new, request.sides.new))
        ]
        rows = told[_OLD].unionByName(told[_NEW])
        hashed = rows.withColumn("h", same_rows_hash(fields, request.tolerance))
        return cls(pairs=pairs, key=key, why_no_key=why, rows=hashed, request=request)

    @property
    def key_names(self) -> tuple[str, ...]:
        return tuple(self.pairs[at].name for at in self.key)

    @cached_property
    def fields(self) -> list[StructField]:
        return [StructField(f"c{at}", pair.kind) for at, pair in enumerate(self.pairs)]

    @contextmanager
    def differences(self) -> Iterator[tuple[DataFrame, int]]:
        """The rows that differ, kept for as long as they are looked at, and how many of them have no key of their own:
        `at`, `kind`, `times`, `old`, `new`, `id`.
        """
        kept: list[DataFrame] = []

        def keep(frame: DataFrame) -> DataFrame:
            kept.append(frame.persist(StorageLevel.MEMORY_AND_DISK))
            return frame

        try:
            if not self.key:
                yield keep(self._as_multiset(self.rows)), 0
                return
            by_key = keep(self._by_key())
            several = by_key.filter(F.col("kind") == _SEVERAL)
            ours = by_key.filter(F.col("kind") != _SEVERAL).drop(*(f"k{at}" for at in self.key))
            if not several.count():  # all of it is computed, and kept, by this
                yield ours, 0
                return
            loose = keep(self._as_multiset(self._rows_of(several)))
            number = loose.agg(F.sum("times")).collect()[0][0] or 0
            yield ours.unionByName(loose), int(number)
        finally:
            for frame in kept:
                frame.unpersist()

    def _by_key(self) -> DataFrame:
        """One row for each key whose rows aren't the same; keys that aren't of one row are only named."""
        row = F.struct(*(f"c{at}" for at in range(len(self.pairs))))
        keys = [F.col(f"c{at}").alias(f"k{at}") for at in self.key]

        def of(side: int, value: SparkColumn) -> SparkColumn:
            return F.first(F.when(F.col("side") == side, value), ignorenulls=True)

        groups = self.rows.groupBy(*keys).agg(
            *(F.count_if(F.col("side") == side).alias(f"n{side}") for side in (_OLD, _NEW)),
            *(of(side, F.col("h")).alias(f"h{side}") for side in (_OLD, _NEW)),
            F.coalesce(of(_NEW, F.col("at")), of(_OLD, F.col("at"))).alias("at"),
            of(_OLD, row).alias("old"),
            of(_NEW, row).alias("new"),
        )
        is_null = any_of([F.col(f"k{at}").isNull() for at in self.key])
        is_several = is_null | (F.col("n0") > 1) | (F.col("n1") > 1)
        is_same = (F.col("n0") == 1) & (F.col("n1") == 1) & (F.col("h0") == F.col("h1"))
        unlike = groups.filter(is_several | ~F.coalesce(is_same, F.lit(False)))
        kind = (
            F.when(is_several, _SEVERAL)
            .when(F.col("n0") == 0, RowKind.ADDED.value)
            .when(F.col("n1") == 0, RowKind.REMOVED.value)
            .otherwise(RowKind.CHANGED.value)
        )
        texts = [as_text(F.col(f"k{at}"), self.pairs[at].kind) for at in self.key]
        told = unlike.select(
            "at", kind.alias("kind"), F.lit(1).cast("long").alias("times"), "old", "new",
            F.xxhash64(*texts).alias("id"), *(f"k{at}" for at in self.key),
        )  # fmt: skip
        # Other hashes, and no value further apart than the tolerance: that is the same row.
        is_changed = any_of([self.differs(at) for at in range(len(self.pairs))])
        return told.filter((F.col("kind") != RowKind.CHANGED.value) | is_changed)

    def _rows_of(self, several: DataFrame) -> DataFrame:
        keys = several.select(*(f"k{at}" for at in self.key))
        same = reduce(lambda a, b: a & b, (F.col(f"c{at}").eqNullSafe(F.col(f"k{at}")) for at in self.key))
        return self.rows.join(keys, same, "left_semi")

    def _as_multiset(self, rows: DataFrame) -> DataFrame:
        """Rows of which one side has more, with how many more."""
        row = F.struct(*(f"c{at}" for at in range(len(self.pairs)))).alias("row")
        sign = F.when(F.col("side") == _NEW, 1).otherwise(-1)
        counted = rows.select("at", "h", sign.alias("sign"), row).groupBy("at", "h")
        left = counted.agg(F.sum("sign").alias("n"), F.first("row").alias("row")).filter("n <> 0")
        kind = F.when(F.col("n") > 0, RowKind.ADDED.value).otherwise(RowKind.REMOVED.value)
        told = left.select("at", "h", kind.alias("kind"), F.abs("n").cast("long").alias("times"), "row")
        floating = [at for at, pair in enumerate(self.pairs) if is_floating(pair.kind)]
        if floating and self.request.tolerance:
            told = self._without_near(told, floating)
        is_old = F.col("kind") == RowKind.REMOVED.value
        old, new = F.when(is_old, F.col("row")), F.when(~is_old, F.col("row"))
        return told.select(
            "at", "kind", "times", old.alias("old"), new.alias("new"), F.xxhash64("h", "kind").alias("id")
        )

    def _without_near(self, told: DataFrame, floating: Sequence[int]) -> DataFrame:
        """Without pairs of an old and a new row that differ in floating-point values, and less than is told."""
        tolerance = self.request.tolerance
        values = [F.col(f"row.c{at}").cast("double") for at in floating]
        exact = told.select("*", F.explode(F.sequence(F.lit(1), F.col("times"))).alias("nth"), F.col("row.*"))
        placed = exact.select(
            "at", "h", "kind", "row", exact_hash(self.fields).alias("exact"),
            *(cell(value, tolerance).alias(f"place{at}") for at, value in enumerate(values)),
        )  # fmt: skip
        group = ["at", "exact", *(f"place{at}" for at in range(len(values)))]
        rank = F.row_number().over(Window.partitionBy(*group, "kind").orderBy(*values, "h"))
        mates = Window.partitionBy(*group, "rank")

        def of(kind: RowKind, value: SparkColumn) -> SparkColumn:
            return F.max(F.when(F.col("kind") == kind.value, value)).over(mates)

        ranked = placed.withColumn("rank", rank)
        together = F.count(F.lit(1)).over(mates) == 2
        alike = [near(of(RowKind.REMOVED, value), of(RowKind.ADDED, value), tolerance) for value in values]
        is_pair = reduce(lambda a, b: a & b, alike, together)
        left = ranked.withColumn("is_pair", is_pair).filter("NOT is_pair").groupBy("at", "h", "kind")
        return left.agg(F.count(F.lit(1)).alias("times"), F.first("row").alias("row"))

    def differs(self, at: int) -> SparkColumn:
        """Does this column differ between the two sides of a changed row?"""
        kind = self.pairs[at].kind
        return differs(F.col(f"old.c{at}"), F.col(f"new.c{at}"), kind, self.request.tolerance)

    def value(self, at: int) -> SparkColumn:
        """Of a column that is the same on both sides, or of the one side that there is."""
        return F.coalesce(F.col(f"new.c{at}"), F.col(f"old.c{at}"))


def _key_of(pairs: Sequence[Pair], request: RowDiffRequest) -> tuple[tuple[int, ...], str]:
    if not request.model.key:
        return (), "the model declares no `key`"
    places = {pair.name.lower(): at for at, pair in enumerate(pairs)}
    for name in request.model.key:
        at = places.get(name.lower())
        if at is None or pairs[at].note in ("added", "removed"):
            return (), f"{name}, of the model's `key`, isn't a column of both sides"
        if not may_be_key(pairs[at].kind):
            return (), f"rows can't be found by {name}, a {pairs[at].kind.simpleString()}"
    return tuple(dict.fromkeys(places[name.lower()] for name in request.model.key)), ""


def _slice_of(frame: DataFrame, read: Read) -> SparkColumn:
    return F.expr(slice_key(read.by, type_of(frame, read.by) or "date", read.cut))


def _counted(
    found: DataFrame, compared: _Compared, request: RowDiffRequest
) -> tuple[dict[Slice, RowCounts], tuple[ComparedColumn, ...]]:
    is_changed = F.col("kind") == RowKind.CHANGED.value
    kinds = [
        F.sum(F.when(F.col("kind") == kind.value, F.col("times")).otherwise(0)).alias(kind.value) for kind in RowKind
    ]
    columns = [F.count_if(is_changed & compared.differs(at)).alias(f"d{at}") for at in range(len(compared.pairs))]
    rows = found.groupBy("at").agg(*kinds, *columns).collect()
    cut = request.sides.slices.grain
    counts = {
        slice_at(cut, row["at"]): RowCounts(**{kind.value: int(row[kind.value]) for kind in RowKind}) for row in rows
    }
    told = tuple(
        ComparedColumn(name=pair.name, changed=sum(int(row[f"d{at}"]) for row in rows), note=pair.note)
        for at, pair in enumerate(compared.pairs)
    )
    return dict(sorted(counts.items())), told


def _sample(found: DataFrame, compared: _Compared, request: RowDiffRequest) -> tuple[RowPair, ...]:
    def texts(side: str) -> SparkColumn:
        values = [
            F.left(as_text(F.col(f"{side}.c{at}"), pair.kind), F.lit(_LONGEST))
            for at, pair in enumerate(compared.pairs)
        ]
        return F.when(F.col(side).isNotNull(), F.array(*values)).alias(side)

    drawn = found.orderBy(F.xxhash64(F.lit(request.seed), F.col("id")), "id", "kind").limit(request.limit)
    are_unlike = F.array(*(compared.differs(at) for at in range(len(compared.pairs))))
    rows = drawn.select("at", "kind", "times", texts("old"), texts("new"), are_unlike.alias("unlike")).collect()
    return tuple(_shown(row, compared, request) for row in rows)


def _shown(row: Row, compared: _Compared, request: RowDiffRequest) -> RowPair:
    names = [pair.name for pair in compared.pairs]
    kind = RowKind(row["kind"])
    old, new = (None if row[side] is None else dict(zip(names, row[side], strict=True)) for side in ("old", "new"))
    shown = new if new is not None else old or {}
    return RowPair(
        slice=slice_at(request.sides.slices.grain, row["at"]).label,
        kind=kind,
        times=row["times"],
        key={names[at]: shown[names[at]] for at in compared.key},
        old=old,
        new=new,
        differs=tuple(name for name, is_unlike in zip(names, row["unlike"], strict=True) if is_unlike)
        if kind is RowKind.CHANGED
        else (),
    )


def _write(found: DataFrame, compared: _Compared, path: str) -> int:
    """All rows that differ in one file, in the order of slices and keys; a partition at a time is held in memory."""
    keys = [_file_column(compared.pairs[at].name, compared.pairs[at], compared.value(at)) for at in compared.key]
    sides = [
        _file_column(f"{side}_{pair.name}", pair, F.col(f"{side}.c{at}"))
        for at, pair in enumerate(compared.pairs)
        if at not in compared.key
        for side in ("old", "new")
    ]
    columns = [column for column, _ in (*keys, *sides)]
    order = [F.col("at"), *(compared.value(at) for at in compared.key), F.col("kind"), F.col("id")]
    values = [value.alias(f"v{at}") for at, (_, value) in enumerate((*keys, *sides))]
    rows = found.orderBy(*order).select("at", "kind", "times", *values)
    grain = compared.request.sides.slices.grain
    return write_rows(path, columns, _listed(rows, lambda at: slice_at(grain, at).label))


def _listed(rows: DataFrame, label: Callable[[Any], str]) -> Iterator[tuple[Any, ...]]:
    for row in rows.toLocalIterator():
        yield (label(row["at"]), *row[1:])


def _file_column(name: str, pair: Pair, value: SparkColumn) -> tuple[FileColumn, SparkColumn]:
    """How a value is written: as what it is, where a file has a type for it, else as text."""
    column = FileColumn.of(name, pair.kind)
    if column.is_moment:
        # As a number: Python would make it a time of this machine's zone.
        return column, F.unix_micros(value)
    return column, value if column.is_native else as_text(value, pair.kind)
