"""Expecting: what a correction did to the rows that its plan speaks of, on both sides, in one job."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal, InvalidOperation
from functools import reduce

from pyspark.errors import AnalysisException
from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F
from pyspark.sql.types import StructField

from retcon.core.expectations import Expectation, Expected
from retcon.core.jobs import MeasureRequest
from retcon.core.measures import SliceMeasure, TableMeasures
from retcon.core.slices import Slice, SliceSet
from retcon.errors import Refused
from retcon.lakehouse.checksums import checksum_sums, row_hash
from retcon.lakehouse.differences import differing_rows
from retcon.lakehouse.nested_values import has_floating
from retcon.lakehouse.predicates import slice_at
from retcon.lakehouse.scoped_reads import ScopedReads
from retcon.lakehouse.sessions import first_line
from retcon.lakehouse.two_sides import PRODUCTION, STAGED, fitted_to, production_rows, slice_column, staged_rows

_SIDE, _SLICE, _HASH, _PART, _WHOLE = (f"__retcon_{name}" for name in ("side", "slice", "hash", "part", "whole"))


class Expecting:
    """Compares rows that satisfy conditions."""

    def __init__(self, reads: ScopedReads) -> None:
        self._reads = reads

    def expected(self, request: MeasureRequest, expectations: Sequence[Expectation]) -> tuple[Expected, ...]:
        """What was measured for each of the expectations."""
        staged, old = staged_rows(self._reads, request), production_rows(self._reads, request)
        try:
            rows = compared(staged, old, request, expectations).collect()
        except AnalysisException as error:
            raise Refused(
                f"what is expected of {request.model.name} can't be computed: {first_line(error)}",
                state="everything is staged, nothing is proven; production is untouched",
                next="mend `expect` in the plan's file, then `retcon apply` again",
            ) from error
        found = (_expected(rows, at, each, request) for at, each in enumerate(expectations))
        return tuple(self._seen_again(told, each, request) for told, each in zip(found, expectations, strict=True))

    def _seen_again(self, told: Expected, expectation: Expectation, request: MeasureRequest) -> Expected:
        """Where checksums differ the rows decide: sums of doubles come out otherwise in another order."""
        if not told.unlike or expectation.unchanged is None:
            return told
        asked = replace(request, slices=SliceSet.of(request.slices.grain, (slice.ordinal for slice in told.unlike)))
        staged, old = staged_rows(self._reads, asked), production_rows(self._reads, asked)
        if old is None:
            return told
        fitted, fields = fitted_to(old, staged)
        hashed = _hashed(fields, request)
        if not any(has_floating(field.dataType) for field in hashed):
            return told
        sides = [frame.filter(F.expr(expectation.unchanged)) for frame in (staged, fitted)]
        apart = differing_rows(sides[0], sides[1], hashed, lambda frame: slice_column(frame, asked))
        differing = {slice_at(asked.slices.grain, at) for at in apart}
        return replace(told, unlike={slice: each for slice, each in told.unlike.items() if slice in differing})


def compared(
    staged: DataFrame, old: DataFrame | None, request: MeasureRequest, expectations: Sequence[Expectation]
) -> DataFrame:
    """By side, slice and part of the rows: how many there are, their checksum, and every metric. A row is in a part
    for each condition that it satisfies.
    """
    sides = [(staged, STAGED)]
    fields = staged.schema.fields
    if old is not None:
        fitted, fields = fitted_to(old, staged)
        sides.append((fitted, PRODUCTION))
    hashed = _hashed(fields, request)
    tags = F.array_compact(F.array(*(tag for at, each in enumerate(expectations) for tag in _tags(at, each))))
    tagged = [
        frame.select(
            F.lit(side).alias(_SIDE),
            slice_column(frame, request).alias(_SLICE),
            F.expr(row_hash(hashed)).alias(_HASH),
            F.explode(tags).alias(_PART),
            "*",
        )
        for frame, side in sides
    ]
    low, high = checksum_sums(_HASH)
    metrics = (
        F.expr(each.metric.expression).cast("string").alias(f"metric_{at}")
        for at, each in enumerate(expectations)
        if each.metric is not None
    )
    measures = [F.count(F.lit(1)).alias("n"), F.expr(low).alias("low"), F.expr(high).alias("high"), *metrics]
    union = reduce(lambda a, b: a.unionByName(b), tagged)
    if all(each.metric is None or each.metric.is_additive for each in expectations):
        return union.groupBy(_PART, _SIDE, _SLICE).agg(*measures).withColumn(_WHOLE, F.lit(0))
    part, side, slice = F.col(_PART), F.col(_SIDE), F.col(_SLICE)
    sets = [[part, side, slice], [part, side]]
    return union.groupingSets(sets, _PART, _SIDE, _SLICE).agg(*measures, F.grouping(_SLICE).alias(_WHOLE))


def _hashed(fields: Sequence[StructField], request: MeasureRequest) -> list[StructField]:
    left_out = {name.lower() for name in request.model.volatile}
    return sorted((f for f in fields if f.name.lower() not in left_out), key=lambda field: field.name.lower())


def _tags(at: int, expectation: Expectation) -> list[SparkColumn]:
    """The parts that a row is in: 2n of the rows that a metric is taken over, 2n + 1 of those that stay as they are."""
    found = []
    if expectation.metric is not None:
        tag = F.lit(2 * at)
        found.append(tag if expectation.where is None else F.when(F.expr(expectation.where), tag))
    if expectation.unchanged is not None:
        found.append(F.when(F.expr(expectation.unchanged), F.lit(2 * at + 1)))
    return found


def _expected(rows: Sequence[Row], at: int, expectation: Expectation, request: MeasureRequest) -> Expected:
    taken = [row for row in rows if row[_PART] == 2 * at]
    staged, production = (_measures(taken, side, at, expectation, request) for side in (STAGED, PRODUCTION))
    # A slice without such rows on one side is compared as one where the metric is absent.
    nothing = SliceMeasure(rows=0, checksum="", metrics={expectation.measure: None})
    both = {slice: staged.slices.get(slice, nothing) for slice in {**staged.slices, **production.slices}}
    return Expected(
        staged=TableMeasures(slices=both, totals=staged.totals),
        production=production,
        unlike=_unlike([row for row in rows if row[_PART] == 2 * at + 1 and not row[_WHOLE]], request),
    )


def _measures(
    rows: Sequence[Row], side: int, at: int, expectation: Expectation, request: MeasureRequest
) -> TableMeasures:
    slices: dict[Slice, SliceMeasure] = {}
    totals: dict[str, Decimal | None] = {}
    for row in rows:
        if row[_SIDE] != side:
            continue
        value = {expectation.measure: _number(row[f"metric_{at}"], expectation)}
        if row[_WHOLE]:
            totals = value
        else:
            slice = slice_at(request.slices.grain, row[_SLICE])
            slices[slice] = SliceMeasure(rows=row["n"], checksum="", metrics=value)
    return TableMeasures(slices=slices, totals=totals)


def _unlike(rows: Sequence[Row], request: MeasureRequest) -> dict[Slice, tuple[int, int]]:
    sums: dict[Slice, dict[int, tuple[int, int, int]]] = {}
    for row in rows:
        slice = slice_at(request.slices.grain, row[_SLICE])
        sums.setdefault(slice, {})[row[_SIDE]] = (row["n"], row["low"], row["high"])
    none = (0, 0, 0)
    pairs = {slice: (found.get(PRODUCTION, none), found.get(STAGED, none)) for slice, found in sums.items()}
    return {slice: (before[0], now[0]) for slice, (before, now) in pairs.items() if before != now}


def _number(text: str | None, expectation: Expectation) -> Decimal | None:
    try:
        return None if text is None else Decimal(text)
    except InvalidOperation:
        raise Refused(
            f"the expected metric {expectation.measure} gives {text!r}, which is no number",
            state="everything is staged, nothing is proven; production is untouched",
            next="let the metric aggregate numbers, then `retcon apply` again",
        ) from None
