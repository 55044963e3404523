"""Profiling: null rates, distinct counts, means, quantiles and bins of many columns in few jobs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from functools import reduce
from math import isfinite

from pyspark.errors import AnalysisException
from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F
from pyspark.sql.types import (
    BooleanType,
    DataType,
    DateType,
    NumericType,
    StringType,
    StructField,
    TimestampNTZType,
    TimestampType,
)

from retcon.core.jobs import MeasureRequest
from retcon.core.profiles import BY_MICROSECONDS, Bins, ColumnProfile, Profiled, SliceProfiles
from retcon.core.queries import quoted
from retcon.core.slices import Slice, SliceSet
from retcon.core.suggestions import did_you_mean
from retcon.errors import Refused
from retcon.lakehouse.predicates import slice_at
from retcon.lakehouse.scoped_reads import ScopedReads
from retcon.lakehouse.sessions import first_line
from retcon.lakehouse.two_sides import PRODUCTION, STAGED, fitted_to, production_rows, slice_column, staged_rows
from retcon.values import dataclass

_SIDE, _SLICE = "__retcon_side", "__retcon_slice"
_TOP = 20
"""Values that are counted one by one."""
_DECILES = tuple(number / 10 for number in range(1, 10))
_SHOWN = (0.05, 0.25, 0.5, 0.75, 0.95)
_ACCURACY = 1000
_OWN, _AGAINST = 0, 1
_64_BITS = (1 << 64) - 1
_BY_VALUE = (StringType, BooleanType, DateType, TimestampType, TimestampNTZType)


@dataclass(frozen=True, kw_only=True)
class _Binning:
    """How the values of one column are put into bins."""

    field: StructField
    basis: int
    edges: tuple[str, ...]


class Profiling:
    """Profiles slices of a table."""

    def __init__(self, reads: ScopedReads) -> None:
        self._reads = reads

    def profile(
        self,
        request: MeasureRequest,
        columns: Sequence[str] | None,
        known: Mapping[str, ColumnProfile],
        *,
        slices: SliceSet | None,
    ) -> Profiled:
        """The profile of these columns, or all: staged and in production (unless it is known), of the request's slices
        together, and of what is staged in each of `slices`.
        """
        staged = staged_rows(self._reads, request)
        fields = _fields(staged, columns, request)
        kinds = {field.name: _told_type(field) for field in fields}
        is_known = bool(known) and all(known[n].type == kind if n in known else False for n, kind in kinds.items())
        old, comparable = (None, fields) if is_known else _old(production_rows(self._reads, request), staged, fields)
        try:
            now, before = _both(staged, old, fields, comparable, known if is_known else {}, request.model.samples)
            by_slice = self._by_slice(fields, replace(request, slices=slices)) if slices is not None else {}
        except AnalysisException as error:
            raise Refused(
                f"{request.model.path}: a profile can't be computed: {first_line(error)}",
                state="everything is staged, nothing is proven; production is untouched",
                next="mend the columns under `- profile:`, then `retcon apply` again",
            ) from error

        return Profiled(staged=now, production=before, slices=by_slice)

    def _by_slice(self, fields: Sequence[StructField], request: MeasureRequest) -> dict[Slice, SliceProfiles]:
        return _slice_profiles(staged_rows(self._reads, request), fields, request)


def _both(
    staged: DataFrame,
    old: DataFrame | None,
    fields: Sequence[StructField],
    comparable: Sequence[StructField],
    known: Mapping[str, ColumnProfile],
    samples: bool,
) -> tuple[dict[str, ColumnProfile], dict[str, ColumnProfile]]:
    """By column: what is staged, and what production has."""
    sides = {STAGED: staged} if old is None else {STAGED: staged, PRODUCTION: old}
    found = _summaries(sides, fields, samples=samples)
    before = known or {f.name: found[PRODUCTION, f.name] for f in comparable if (PRODUCTION, f.name) in found}
    now = {field.name: found[STAGED, field.name] for field in fields if (STAGED, field.name) in found}
    before, now = _binned(sides, fields, before, now, samples=samples, is_known=bool(known))
    return now, before


def _fields(frame: DataFrame, columns: Sequence[str] | None, request: MeasureRequest) -> list[StructField]:
    """The columns that are meant; all of them are all but volatile ones."""
    volatile = {name.lower() for name in request.model.volatile}
    if columns is None:
        return [field for field in frame.schema.fields if field.name.lower() not in volatile]
    have = {field.name.lower(): field for field in frame.schema.fields}
    unknown = next((name for name in columns if name.lower() not in have), None)
    if unknown is not None:
        raise Refused(
            f"{request.model.path}: `profile` names {unknown}, a column that {request.model.name} doesn't have",
            state="everything is staged, nothing is proven; production is untouched",
            next=did_you_mean(unknown, [field.name for field in frame.schema.fields]) or "name one that it has",
        )
    return [have[name.lower()] for name in columns]


def _old(
    old: DataFrame | None, staged: DataFrame, fields: Sequence[StructField]
) -> tuple[DataFrame | None, list[StructField]]:
    """Production's rows, and which of the columns can be compared."""
    if old is None:
        return None, []
    fitted, comparable = fitted_to(old, staged)
    names = {field.name for field in comparable}
    return fitted, [field for field in fields if field.name in names]


def _summaries(
    sides: Mapping[int, DataFrame], fields: Sequence[StructField], *, samples: bool
) -> dict[tuple[int, str], ColumnProfile]:
    """Per side and column, all that one pass gives; the edges of its bins included."""
    columns = [F.col(quoted(field.name)) for field in fields]
    union = _union({side: frame.select(*columns) for side, frame in sides.items()})
    measures = [m for at, field in enumerate(fields) for m in _measures(at, field, samples=samples)]
    rows = union.groupBy(_SIDE).agg(F.count(F.lit(1)).alias("n"), *measures).collect()
    return {(row[_SIDE], field.name): _summary(row, at, field) for row in rows for at, field in enumerate(fields)}


def _measures(at: int, field: StructField, *, samples: bool) -> Iterator[SparkColumn]:
    column = F.col(quoted(field.name))
    yield F.count(column).alias(f"known_{at}")
    if isinstance(field.dataType, NumericType):
        double = column.cast("double")
        yield F.approx_count_distinct(column).alias(f"distinct_{at}")
        yield F.min(column).cast("string").alias(f"low_{at}")
        yield F.max(column).cast("string").alias(f"high_{at}")
        yield F.avg(double).alias(f"mean_{at}")
        yield F.percentile_approx(double, [*_SHOWN, *_DECILES], _ACCURACY).alias(f"quantiles_{at}")
    elif _is_by_value(field.dataType):
        yield F.approx_count_distinct(column).alias(f"distinct_{at}")
        # The hash of NULL would be a number like any other.
        hashed = f"if({quoted(field.name)} IS NULL, NULL, {_hash_of(field)})"
        yield F.expr(f"approx_top_k({hashed}, {_TOP})").alias(f"top_{at}")
        if samples:
            yield F.min(column).cast("string").alias(f"low_{at}")
            yield F.max(column).cast("string").alias(f"high_{at}")


def _is_by_value(kind: DataType) -> bool:
    return isinstance(kind, _BY_VALUE)


def _hash_of(field: StructField) -> str:
    """A moment is the same in every time zone; as text it isn't."""
    name = quoted(field.name)
    is_moment = isinstance(field.dataType, TimestampType)
    return f"xxhash64({f'unix_micros({name})' if is_moment else f'CAST({name} AS STRING)'})"


def _told_type(field: StructField) -> str:
    """Its type, and how moments are hashed: ledgers have profiles in which that was otherwise."""
    kind: str = field.dataType.simpleString()
    return f"{kind}{BY_MICROSECONDS}" if isinstance(field.dataType, TimestampType) else kind


def _summary(row: Row, at: int, field: StructField) -> ColumnProfile:
    told = row.asDict()
    quantiles = told.get(f"quantiles_{at}") or []
    edges = [_text(value) for value in sorted({value for value in quantiles[len(_SHOWN) :] if isfinite(value)})]
    found = (item["item"] for item in told.get(f"top_{at}") or [])
    edges += [format(value & _64_BITS, "016x") for value in found if value is not None]
    return ColumnProfile(
        column=field.name,
        type=_told_type(field),
        rows=row["n"],
        nulls=row["n"] - told[f"known_{at}"],
        distinct=told.get(f"distinct_{at}"),
        low=_plain(told.get(f"low_{at}")),
        high=_plain(told.get(f"high_{at}")),
        mean=_text_or_none(told.get(f"mean_{at}")),
        quantiles=tuple(_text(value) for value in quantiles[: len(_SHOWN)]),
        bins=Bins(edges=tuple(dict.fromkeys(edges))),
    )


def _binned(
    sides: Mapping[int, DataFrame],
    fields: Sequence[StructField],
    before: Mapping[str, ColumnProfile],
    now: Mapping[str, ColumnProfile],
    *,
    samples: bool,
    is_known: bool,
) -> tuple[dict[str, ColumnProfile], dict[str, ColumnProfile]]:
    """The same profiles with values counted: by their own bins, and what is staged by production's, too."""
    wanted = {
        STAGED: [*_binnings(fields, now, _OWN), *_binnings(fields, before, _AGAINST)],
        PRODUCTION: [] if is_known else _binnings(fields, before, _OWN),
    }
    frames = {side: _into_bins(frame, wanted[side], samples) for side, frame in sides.items() if wanted[side]}
    if not frames:
        return dict(before), dict(now)
    counts: dict[tuple[int, int, str], dict[int, Row]] = {}
    for row in _union(frames).groupBy(_SIDE, "at", "bin").agg(*_of_bin()).collect():
        binning = wanted[row[_SIDE]][row["at"]]
        counts.setdefault((row[_SIDE], binning.basis, binning.field.name), {})[row["bin"]] = row

    def own(side: int, profile: ColumnProfile) -> ColumnProfile:
        found = counts.get((side, _OWN, profile.column), {})
        edges = profile.bins.edges
        values = tuple(found[at]["value"] or "" if at in found else "" for at in range(len(edges)))
        is_named = samples and not isinstance(_kind(fields, profile.column), NumericType)
        bins = Bins(edges=edges, counts=_counts(found, len(edges)), values=values if is_named else ())
        return replace(profile, bins=bins) if edges else profile

    def against(profile: ColumnProfile) -> ColumnProfile:
        base = before.get(profile.column)
        if base is None or not base.bins.edges:
            return profile
        found = counts.get((STAGED, _AGAINST, profile.column), {})
        return replace(profile, against=_counts(found, len(base.bins.edges)))

    old = dict(before) if is_known else {name: own(PRODUCTION, profile) for name, profile in before.items()}
    return old, {name: against(own(STAGED, profile)) for name, profile in now.items()}


def _of_bin() -> tuple[SparkColumn, ...]:
    return F.count(F.lit(1)).alias("n"), F.min("value").alias("value")


def _kind(fields: Sequence[StructField], name: str) -> DataType:
    return next(field.dataType for field in fields if field.name == name)


def _binnings(fields: Sequence[StructField], profiles: Mapping[str, ColumnProfile], basis: int) -> list[_Binning]:
    edges = {name: profile.bins.edges for name, profile in profiles.items() if profile.bins.edges}
    return [_Binning(field=f, basis=basis, edges=edges[f.name]) for f in fields if f.name in edges]


def _counts(found: Mapping[int, Row], edges: int) -> tuple[int, ...]:
    """By bin: each edge, what is beyond or not among them, NULL."""
    return tuple(found[at]["n"] if at in found else 0 for at in (*range(edges + 1), -1))


def _into_bins(frame: DataFrame, binnings: Sequence[_Binning], samples: bool) -> DataFrame:
    """A row for each value: by which binning, into which bin, and, where samples may be kept, the value."""
    parts = [
        F.struct(
            F.lit(at).alias("at"),
            _bin(each).alias("bin"),
            (_as_text(each) if samples else F.lit(None).cast("string")).alias("value"),
        )
        for at, each in enumerate(binnings)
    ]
    return frame.select(F.explode(F.array(*parts)).alias("part")).select("part.*")


def _as_text(binning: _Binning) -> SparkColumn:
    """The value itself, where it isn't a number: those are known by their edges."""
    if isinstance(binning.field.dataType, NumericType):
        return F.lit(None).cast("string")
    return F.col(quoted(binning.field.name)).cast("string")


def _bin(binning: _Binning) -> SparkColumn:
    column = F.col(quoted(binning.field.name))
    if isinstance(binning.field.dataType, NumericType):
        value, edges = column.cast("double"), [F.lit(float(edge)) for edge in binning.edges]
        chain = F.when(column.isNull(), F.lit(-1))
        for at, edge in enumerate(edges):
            chain = chain.when(value <= edge, F.lit(at))
        return chain.otherwise(F.lit(len(edges)))
    hashes = F.array(*(F.lit(_signed(edge)).cast("bigint") for edge in binning.edges))
    place = F.array_position(hashes, F.expr(_hash_of(binning.field))).cast("int")
    beyond = F.lit(len(binning.edges))
    return F.when(column.isNull(), F.lit(-1)).otherwise(F.when(place == 0, beyond).otherwise(place - 1))


def _signed(text: str) -> int:
    value = int(text, 16)
    return value - (1 << 64) if value >= 1 << 63 else value


def _slice_profiles(
    staged: DataFrame, fields: Sequence[StructField], request: MeasureRequest
) -> dict[Slice, SliceProfiles]:
    """Per slice: rows, NULLs and means."""
    measures: list[SparkColumn] = [F.count(F.lit(1)).alias("n")]
    for at, field in enumerate(fields):
        column = F.col(quoted(field.name))
        measures.append(F.count(column).alias(f"known_{at}"))
        if isinstance(field.dataType, NumericType):
            measures.append(F.avg(column.cast("double")).alias(f"mean_{at}"))
    keyed = staged.select("*", slice_column(staged, request).alias(_SLICE))
    found: dict[Slice, SliceProfiles] = {}
    for row in keyed.groupBy(_SLICE).agg(*measures).collect():
        told = row.asDict()
        columns = {
            field.name: ColumnProfile(
                column=field.name,
                rows=row["n"],
                nulls=row["n"] - told[f"known_{at}"],
                mean=_text_or_none(told.get(f"mean_{at}")),
            )
            for at, field in enumerate(fields)
        }
        found[slice_at(request.slices.grain, row[_SLICE])] = SliceProfiles(rows=row["n"], columns=columns)
    return found


def _union(frames: Mapping[int, DataFrame]) -> DataFrame:
    marked = [frame.select(F.lit(side).alias(_SIDE), "*") for side, frame in frames.items()]
    return reduce(lambda a, b: a.unionByName(b), marked)


def _text(value: float) -> str:
    """With the digits that don't depend on the order in which rows are summed up."""
    return format(value, ".12g")


def _text_or_none(value: float | None) -> str | None:
    return None if value is None else _text(value)


def _plain(text: str | None) -> str | None:
    """A number without an exponent that nobody reads."""
    if text is None:
        return None
    try:
        number = Decimal(text)
    except ArithmeticError:
        return text
    return f"{number:f}" if number.is_finite() else text
