"""Every kind of table, drawn by chance: how it is cut, what it reads, how it is computed, and what it must hold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from random import Random

from retcon.core.slices import WHOLE, Buckets, Cut, Grain, SliceSet, Whole

FAMILIES = (
    "passed on", "grouped", "joined", "slice by slice", "reaching", "reading itself", "python", "whole", "buckets",
    "merged",
)  # fmt: skip
TYPES = ("DATE", "TIMESTAMP", "TIMESTAMP_NTZ")
ANCHORS = (
    date(2020, 2, 28),  # a leap day is next
    date(2020, 12, 26),  # the year's last week is its 53rd
    date(2023, 12, 31),
    date(1969, 12, 31),
    date(2024, 3, 31),  # Berlin leaves out an hour
)
_LITERALS = {"DATE": "DATE '{:%Y-%m-%d}'", "TIMESTAMP": "TIMESTAMP '{:%Y-%m-%d %H:%M:%S.%f} UTC'",
             "TIMESTAMP_NTZ": "TIMESTAMP_NTZ '{:%Y-%m-%d %H:%M:%S.%f}'"}  # fmt: skip
_NEAR = {Grain.HOUR: "50 MINUTES", Grain.DAY: "1 DAY", Grain.WEEK: "6 DAYS", Grain.MONTH: "20 DAYS",
         Grain.YEAR: "300 DAYS"}  # fmt: skip
"""A time that is no longer than a slice, in whole days where there are any."""
_PYTHON = """\
from pyspark.sql import Window
from pyspark.sql import functions as F
from retcon.models import Buckets, Day, Hour, Input, Month, Week, Year, model


@model("{model}", inputs={{"s": Input("{source}"{input})}}, allow_empty=True{keys})
def computed(s):
    return {code}
"""


@dataclass(frozen=True, kw_only=True)
class Layer:
    """One model. Texts hold `{source}` and `{model}` for the tables' names."""

    cut: Cut
    type: str | None
    """Of the column `t`; None where it has none."""
    columns: str
    inputs: str
    code: str
    expected: str
    """What the table holds in the end, by plain SQL over what the model reads."""
    strategy: str = "replace"
    key: tuple[str, ...] = ()
    keys: str = ""
    is_python: bool = False

    @property
    def by(self) -> str | None:
        return "t" if isinstance(self.cut, Grain) else "k" if isinstance(self.cut, Buckets) else None

    @property
    def suffix(self) -> str:
        return "py" if self.is_python else "sql"

    @property
    def reads_itself(self) -> bool:
        return "{model}" in self.inputs

    def text(self, model: str, source: str) -> str:
        """The model's file."""
        if self.is_python:
            return _PYTHON.format(model=model, source=source, input=self.inputs, keys=self.keys, code=self.code)
        slices = f"slices: {{by: t, every: {self.cut}}}\n" if isinstance(self.cut, Grain) else ""
        if isinstance(self.cut, Buckets):
            slices = f"slices: {{by: k, buckets: {self.cut.number}}}\n"
        key = f"key: [{', '.join(self.key)}]\n" if self.key else ""
        header = f"{slices}{key}strategy: {self.strategy}\nallow_empty: true\ninputs:\n{self.inputs}\n{self.keys}"
        return f"/* retcon\n{header}*/\n{self.code}\n".replace("{source}", source).replace("{model}", model)

    def recomputed(self, source: str, where: str = "true") -> str:
        """A query for what the table must hold of these rows."""
        return f"SELECT * FROM ({self.expected.replace('{source}', source)}) AS x WHERE {where}"

    def inside(self, slices: SliceSet) -> str:
        """SQL that holds for the rows of these slices, written without retcon's own."""
        if isinstance(self.cut, Buckets):
            return f"system.bucket({self.cut.number}, k) IN ({', '.join(map(str, slices.ordinals))})"
        if self.type is None or not isinstance(self.cut, Grain):
            return "true"
        return " OR ".join(
            f"(t >= {literal(self.type, i.start)} AND t < {literal(self.type, i.end)})" for i in slices.intervals()
        )

    def partitionings(self) -> list[str]:
        """How a table that was there before may be partitioned, to be adopted."""
        if isinstance(self.cut, Whole):
            return [""]
        if isinstance(self.cut, Buckets):
            return [f"PARTITIONED BY (bucket({self.cut.number}, k))"]
        finest = ["days(t)"] if self.cut is not Grain.HOUR else ["hours(t)"]
        own = [f"{self.cut}s(t)"] if self.cut is not Grain.WEEK else []
        return [f"PARTITIONED BY ({each})" for each in sorted({*finest, *own, *(["t"] if self.type == "DATE" else [])})]


@dataclass(frozen=True, kw_only=True)
class Kind:
    """A project: one model or two, one over the other, and the source."""

    layers: tuple[Layer, ...]
    type: str
    partitioning: str
    timezone: str
    slices: SliceSet
    """That the source has rows of, as the first model is cut; days where that isn't cut by time."""
    wave: int
    is_adopted: bool
    in_environment: bool
    with_keys: bool


def literal(type: str, moment: datetime) -> str:
    return _LITERALS[type].format(moment)


def trunc(type: str, grain: Grain, column: str = "t") -> str:
    """The beginning of a slice, in the column's own type; in UTC."""
    if type == "DATE" and grain is Grain.DAY:
        return column
    cut = f"date_trunc('{grain.upper()}', {column})"
    return cut if type == "TIMESTAMP" else f"CAST({cut} AS {type})"


def a_kind(random: Random, family: str) -> Kind:
    """A project of this family."""
    type = random.choice(TYPES)
    grain = random.choice(list(Grain))
    if type == "DATE" and grain is Grain.HOUR and (random.random() < 0.8 or family == "python"):
        type = random.choice(TYPES[1:])  # refused, which needn't be seen often; of Python, when its types are known
    first = a_layer(random, family, type, grain, scope=f"time: {'t'}", source_type=type)
    slices = _slices(random, first.cut if isinstance(first.cut, Grain) else Grain.DAY)
    layers = [first]
    if random.random() < 0.4:
        layers.append(_reader(random, first))
    if first.reads_itself:
        layers[0] = replace(first, expected=first.expected.replace("{slices}", _starts(type, slices)))
    in_utc = family not in ("passed on", "joined", "whole", "buckets") or len(layers) > 1
    parts = {"DATE": ["t", "days(t)", "months(t)"], "TIMESTAMP": ["hours(t)", "days(t)", "months(t)"],
             "TIMESTAMP_NTZ": ["t", "hours(t)", "days(t)", "years(t)"]}[type]  # fmt: skip
    partitioning = random.choice(["", *(f"PARTITIONED BY ({part})" for part in parts)])
    return Kind(
        layers=tuple(layers),
        type=type,
        partitioning=partitioning,
        timezone="UTC" if in_utc else random.choice(["UTC", "Europe/Berlin", "Asia/Kolkata"]),
        slices=slices,
        wave=_wave(random, layers, slices),
        is_adopted=random.random() < 0.3,
        in_environment=random.random() < 0.3,
        with_keys=random.random() < 0.5,
    )


def _wave(random: Random, layers: Sequence[Layer], slices: SliceSet) -> int:
    """Slices a job: one where they are few."""
    most = max(len(slices.recut(layer.cut)) for layer in layers)
    return most // 4 if most > 8 else random.choice([1, 1, 2])


def a_layer(random: Random, family: str, type: str | None, grain: Grain, scope: str, source_type: str) -> Layer:
    """A model over a table of `t`, `k` and `v`; `v` may be an INT or a BIGINT."""
    keyed = random.choice(["", ", key: k"])
    source = f"  {{source}}: {{{scope}{keyed}}}"
    strategy = random.choice(["replace", "replace", "full"])
    t = source_type
    timed = Layer(cut=grain, type=t, columns="t, k, v", inputs=source, code="", expected="", strategy=strategy)
    slice = trunc(t, grain)
    match family:
        case "passed on":
            code = random.choice(
                ["SELECT t, k, v FROM {source}", "SELECT DISTINCT t, k, v FROM {source}",
                 "SELECT t, k, v FROM {source} WHERE v > 0 UNION ALL SELECT t, k, -v FROM (SELECT * FROM {other})"]
            )  # fmt: skip
            if "{other}" in code:
                inputs = f"  a: {{table: {{source}}, {scope}{keyed}}}\n  b: {{table: {{source}}, {scope}{keyed}}}"
                code = code.replace("{source} WHERE", "{source} a WHERE").replace("{other}", "{source} b")
                return replace(timed, inputs=inputs, code=code, expected=f"SELECT * FROM ({code}) WHERE t IS NOT NULL")
            return replace(timed, code=code, expected=f"SELECT * FROM ({code}) WHERE t IS NOT NULL")
        case "grouped":
            code = f"SELECT {slice} AS t, k, sum(v) AS v, count(*) AS n FROM {{source}} GROUP BY {slice}, k"
            return replace(timed, code=code, expected=f"SELECT * FROM ({code}) WHERE t IS NOT NULL")
        case "joined":
            inputs = f"{source}\n  raw.names: {{}}"
            code = "SELECT s.t, s.k, s.v, n.name FROM {source} s LEFT JOIN raw.names n ON n.k = s.k"
            return replace(timed, inputs=inputs, code=code, expected=f"SELECT * FROM ({code}) WHERE t IS NOT NULL")
        case "slice by slice":
            over = random.choice(["sum(v) OVER (%s)", "row_number() OVER (%s ORDER BY t, k, v)",
                                  "count(v) OVER (%s PARTITION BY k)"])  # fmt: skip
            each = (over % f"PARTITION BY {slice}").replace("PARTITION BY k", ", k").replace("  ", " ")
            code = f"SELECT t, k, v, {over % ''} AS w FROM {{source}}"
            return replace(
                timed, code=code, expected=f"SELECT t, k, v, {each} AS w FROM {{source}} WHERE t IS NOT NULL"
            )
        case "reaching":
            return replace(timed, **_reaching(random, grain, scope, keyed))
        case "reading itself":
            return replace(timed, **_reading_itself(t, grain, scope))
        case "python":
            return _python(random, timed, scope)
        case "whole":
            return _not_by_time(random, WHOLE, t)
        case "buckets":
            return _not_by_time(random, Buckets(random.choice([1, 3, 4])), t)
        case "merged":
            code = "SELECT t, k, sum(v) AS v FROM {source} WHERE k IS NOT NULL GROUP BY t, k"
            expected = f"SELECT * FROM ({code}) WHERE t IS NOT NULL"
            return replace(timed, code=code, expected=expected, strategy="merge", key=("t", "k"))
        case _:
            raise ValueError(family)


def _reaching(random: Random, grain: Grain, scope: str, keyed: str) -> dict[str, str]:
    """A window over what lies around; a time, or a number of slices."""
    near = _NEAR[grain]
    back = random.choice(["1", "2", "2 weeks" if grain is Grain.WEEK else None] if grain is not Grain.DAY
                         else ["1", "36 hours", "3 days"]) or "2"  # fmt: skip
    ahead = random.random() < 0.5
    reach = f"lookback: {back}" + (", lookahead: 1" if ahead else "")
    end = f"INTERVAL {near} FOLLOWING" if ahead else "CURRENT ROW"
    partition = random.choice(["PARTITION BY k ", ""])
    window = f"sum(v) OVER ({partition}ORDER BY t RANGE BETWEEN INTERVAL {near} PRECEDING AND {end})"
    code = f"SELECT t, k, v, {window} AS near FROM {{source}}"
    return {
        "inputs": f"  {{source}}: {{{scope}, {reach}{keyed}}}",
        "code": code,
        "expected": f"SELECT * FROM ({code} WHERE t IS NOT NULL)",
    }


def _reading_itself(type: str, grain: Grain, scope: str) -> dict[str, str]:
    start = {"DATE": ":start_date", "TIMESTAMP": ":start_ts", "TIMESTAMP_NTZ": "CAST(:start_ts AS TIMESTAMP_NTZ)"}[type]
    both = "SELECT k, v FROM {source} UNION ALL SELECT k, v FROM {model}"
    return {
        "inputs": f"  {{source}}: {{{scope}}}\n  {{model}}: {{time: t, lookback: 1}}",
        "keys": f"columns: {{t: {type.lower()}, k: string, v: bigint}}\nreplay: {{order: sequential}}\n",
        "code": f"SELECT {start} AS t, k, sum(v) AS v FROM ({both}) GROUP BY k",
        "expected": "SELECT g.t, s.k, sum(s.v) AS v FROM (VALUES {slices}) AS g(t, till) JOIN {source} s "
        "ON s.t < g.till GROUP BY g.t, s.k",
    }


def _starts(type: str, slices: SliceSet) -> str:
    """Each slice with its beginning and end, for a VALUES."""
    return ", ".join(f"({literal(type, s.interval.start)}, {literal(type, s.interval.end)})" for s in slices)


def _python(random: Random, timed: Layer, scope: str) -> Layer:
    assert isinstance(timed.cut, Grain)
    assert timed.type is not None
    column = scope.removeprefix("time: ")
    slices = f', slices={timed.cut.capitalize()}("t"), strategy="{timed.strategy}"'
    alone = random.random() < 0.5
    if alone:
        code = 's.select("t", "k", "v", F.sum("v").over(Window.partitionBy(F.lit(1))).alias("w"))'
        over = f"sum(v) OVER (PARTITION BY {trunc(timed.type, timed.cut)})"
        expected = f"SELECT t, k, v, {over} AS w FROM {{source}} WHERE t IS NOT NULL"
    else:
        code = 's.groupBy("t", "k").agg(F.sum("v").alias("v"))'
        expected = "SELECT t, k, sum(v) AS v FROM {source} WHERE t IS NOT NULL GROUP BY t, k"
    return replace(
        timed,
        inputs=f', time="{column}"',
        keys=slices + ("" if alone else random.choice(["", ", sliceable=True"])),
        code=code,
        expected=expected,
        is_python=True,
    )


def _not_by_time(random: Random, cut: Cut, type: str | None) -> Layer:
    strategy = random.choice(["replace", "full", "merge"])
    in_buckets = isinstance(cut, Buckets)
    where = " WHERE k IS NOT NULL" if strategy == "merge" else ""
    code = f"SELECT k, sum(v) AS v, count(*) AS n FROM {{source}}{where} GROUP BY k"
    columns, kept = "k, v", None
    if type is not None and strategy != "merge" and random.random() < 0.5:
        code, columns, kept = "SELECT t, k, v FROM {source}", "t, k, v", type
    return Layer(
        cut=cut,
        type=kept,
        columns=columns,
        inputs="  {source}: {key: k}" if in_buckets else f"  {{source}}: {random.choice(['{}', '{key: k}'])}",
        code=code,
        expected=f"SELECT * FROM ({code}) WHERE k IS NOT NULL" if in_buckets else code,
        strategy=strategy,
        key=("k",) if strategy == "merge" else (),
    )


def _reader(random: Random, first: Layer) -> Layer:
    """A second model, over the first one's table, cut as it likes."""
    families = ["whole", "buckets"]
    if first.type is not None:
        families += ["passed on", "grouped", "slice by slice", "merged", "reaching"]
    family = random.choice(families)
    grain = random.choice(
        [grain for grain in Grain if not isinstance(first.cut, Grain) or not grain.is_shorter(first.cut)]
    )
    if grain is Grain.HOUR and not isinstance(first.cut, Grain):
        grain = Grain.DAY
    finer = {Grain.DAY: Grain.HOUR, Grain.WEEK: Grain.DAY, Grain.MONTH: Grain.WEEK}.get(first.cut)  # type: ignore[call-overload]
    if finer is not None and family in ("passed on", "grouped", "merged") and random.random() < 0.3:
        grain = finer
    if family in ("whole", "buckets"):
        return _not_by_time(random, WHOLE if family == "whole" else Buckets(random.choice([3, 4])), first.type)
    assert first.type is not None
    return a_layer(random, family, first.type, grain, scope="time: t", source_type=first.type)


def _slices(random: Random, grain: Grain) -> SliceSet:
    anchor = grain.ordinal(random.choice(ANCHORS))
    if grain is Grain.HOUR:
        anchor += random.choice([-1, 0, 22])
    return SliceSet.span(grain, anchor, anchor + random.choice([2, 3]))


def some_rows(random: Random, type: str, slices: SliceSet, most: int = 4) -> list[str]:
    """Rows of a source: at the edges of slices, twice, without a key or a value."""
    rows: list[str] = []
    for each in slices:
        start, end = each.interval.start, each.interval.end
        moments = [
            start,
            start + timedelta(minutes=59, seconds=59),
            end - timedelta(microseconds=1),
            start.replace(minute=30),
        ]
        for _ in range(random.choice([0, *range(1, most + 1), most])):
            moment = random.choice(moments)
            key = random.choice(["'a'", "'b'", "'c'", "NULL"])
            row = f"({literal(type, moment)}, {key}, {random.choice(['NULL', *map(str, range(-3, 9))])})"
            rows += [row] * random.choice([1, 1, 2])
    return rows


def some_nulls(random: Random) -> Sequence[str]:
    """Rows without a time: in no slice."""
    return [f"(NULL, 'a', {random.randrange(9)})"] * random.choice([0, 1, 2])


NOW = datetime(2026, 1, 22, 12, tzinfo=UTC)
