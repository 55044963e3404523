"""Every kind of table, drawn by chance: how it is cut, what it reads, how it is computed, and what it must hold.

Every table has `k` and `v`, and most have a time `t`. Texts hold `{source}` and `{model}` for the tables' names.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from random import Random

from retcon.core.slices import WHOLE, Buckets, Cut, Grain, SliceSet, Whole

FAMILIES = (
    "passed on", "grouped", "slice by slice", "reaching", "reading itself", "python", "not by time", "merged", "moving",
)  # fmt: skip
ANCHORS = (
    date(2020, 2, 28),  # a leap day is next
    date(2020, 12, 26),  # the year's last week is its 53rd
    date(2019, 12, 31),
    date(1969, 12, 31),
    date(2019, 3, 31),  # Berlin leaves out an hour
)
_PARTITIONINGS = {
    "DATE": ("t", "days(t)", "months(t)"),
    "TIMESTAMP": ("hours(t)", "days(t)", "months(t)"),
    "TIMESTAMP_NTZ": ("t", "hours(t)", "days(t)", "years(t)"),
}
_LITERALS = {
    "DATE": "DATE '{:%Y-%m-%d}'",
    "TIMESTAMP": "TIMESTAMP '{:%Y-%m-%d %H:%M:%S.%f} UTC'",
    "TIMESTAMP_NTZ": "TIMESTAMP_NTZ '{:%Y-%m-%d %H:%M:%S.%f}'",
}
_STARTS = {"DATE": ":start_date", "TIMESTAMP": ":start_ts", "TIMESTAMP_NTZ": "CAST(:start_ts AS TIMESTAMP_NTZ)"}
_NEAR = {
    Grain.HOUR: "50 MINUTES",
    Grain.DAY: "1 DAY",
    Grain.WEEK: "6 DAYS",
    Grain.MONTH: "20 DAYS",
    Grain.YEAR: "300 DAYS",
}
"""A time that is no longer than a slice."""
_FINER = {Grain.DAY: Grain.HOUR, Grain.WEEK: Grain.DAY, Grain.MONTH: Grain.WEEK}
_PYTHON = """\
from pyspark.sql import Window
from pyspark.sql import functions as F
from retcon.models import Day, Hour, Input, Month, Week, Year, model


@model("{model}", slices={slices}("t"), inputs={{"s": Input("{source}", time="t")}}, allow_empty=True{keys})
def computed(s):
    return {code}
"""


@dataclass(frozen=True, kw_only=True)
class Layer:
    """One model."""

    cut: Cut
    type: str | None
    """Of the column `t`; None where it has none."""
    inputs: str = ""
    code: str
    expected: str
    """What the table holds in the end, by plain SQL over what the model reads."""
    strategy: str = "replace"
    key: tuple[str, ...] = ()
    keys: str = ""
    """Further keys of the model."""
    is_python: bool = False

    @property
    def suffix(self) -> str:
        return "py" if self.is_python else "sql"

    @property
    def reads_itself(self) -> bool:
        return "{model}" in self.inputs

    def text(self, model: str, source: str) -> str:
        """The model's file."""
        if self.is_python:
            assert isinstance(self.cut, Grain)
            slices = self.cut.capitalize()
            return _PYTHON.format(model=model, source=source, slices=slices, keys=self.keys, code=self.code)
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
        """SQL that holds for the rows of these slices, not written by retcon."""
        if isinstance(self.cut, Buckets):
            return f"system.bucket({self.cut.number}, k) IN ({', '.join(map(str, slices.ordinals))})"
        if self.type is None or not isinstance(self.cut, Grain):
            return "true"
        return within(self.type, slices)

    def partitionings(self) -> list[str]:
        """How a table that was there before may be partitioned, to be adopted."""
        if isinstance(self.cut, Whole):
            return [""]
        if isinstance(self.cut, Buckets):
            return [f"PARTITIONED BY (bucket({self.cut.number}, k))"]
        cuts = {"hours(t)" if self.cut is Grain.HOUR else "days(t)", "t" if self.type == "DATE" else "hours(t)"}
        if self.cut is not Grain.WEEK:
            cuts.add(f"{self.cut}s(t)")
        return [f"PARTITIONED BY ({cut})" for cut in sorted(cuts)]


@dataclass(frozen=True, kw_only=True)
class Kind:
    """A project: one model or two, one over the other, and the source."""

    layers: tuple[Layer, ...]
    type: str
    """Of the source's `t`."""
    partitioning: str
    timezone: str
    slices: SliceSet
    """That the source has rows of, as the first model is cut; days where that isn't cut by time."""
    wave: int
    in_parts: bool
    is_adopted: bool
    in_environment: bool
    with_keys: bool


def literal(type: str, moment: datetime) -> str:
    return _LITERALS[type].format(moment)


def within(type: str, slices: SliceSet) -> str:
    """SQL that holds for the times of these slices."""
    return " OR ".join(f"(t >= {literal(type, i.start)} AND t < {literal(type, i.end)})" for i in slices.intervals())


def a_kind(random: Random, family: str) -> Kind:
    """A project of this family."""
    type, grain = random.choice(list(_LITERALS)), random.choice(list(Grain))
    if type == "DATE" and grain is Grain.HOUR and (family == "python" or random.random() < 0.8):
        grain = Grain.DAY  # hours of a date are refused: seen often enough, and of Python only when it runs
    first = _not_by_time(random, type) if family == "not by time" else _by_time(random, family, type, grain)
    slices = _slices(random, first.cut if isinstance(first.cut, Grain) else Grain.DAY)
    layers = [first]
    if first.reads_itself:
        starts = ", ".join(f"({literal(type, s.interval.start)}, {literal(type, s.interval.end)})" for s in slices)
        layers = [replace(first, expected=first.expected.replace("{slices}", starts))]
    if random.random() < 0.4:
        layers.append(_reader(random, first))
    # Spark's own days are those of the session, so what cuts times down does it in UTC.
    is_uncut = family in ("passed on", "not by time") and len(layers) == 1
    most = max(len(slices.recut(layer.cut)) for layer in layers)
    # A source that is cut by years holds all hours of them: a full rebuild would compute these.
    is_full = any(layer.strategy == "full" and isinstance(layer.cut, Grain) for layer in layers)
    cuts = [] if is_full else [f"PARTITIONED BY ({cut})" for cut in _PARTITIONINGS[type]]
    return Kind(
        layers=tuple(layers),
        type=type,
        partitioning=random.choice(["", *cuts]),
        timezone=random.choice(["UTC", "Europe/Berlin", "Asia/Kolkata"]) if is_uncut else "UTC",
        slices=slices,
        wave=most // 4 if most > 8 else random.choice([1, 1, 2]),
        in_parts=random.random() < 0.3,
        is_adopted=random.random() < 0.3,
        in_environment=random.random() < 0.3,
        with_keys=random.random() < 0.5,
    )


def _slices(random: Random, grain: Grain) -> SliceSet:
    first = grain.ordinal(random.choice(ANCHORS)) + (random.choice([-1, 22]) if grain is Grain.HOUR else 0)
    return SliceSet.span(grain, first, first + random.choice([2, 3]))


def _reader(random: Random, first: Layer) -> Layer:
    """A second model, over the first one's table, cut as it likes."""
    if first.type is None or random.random() < 0.3:
        return _not_by_time(random, first.type)
    family = random.choice(["passed on", "grouped", "slice by slice", "merged", "reaching", "moving"])
    own = first.cut if isinstance(first.cut, Grain) else Grain.DAY
    grain = random.choice([grain for grain in Grain if not grain.is_shorter(own)])
    if own in _FINER and family in ("passed on", "grouped", "merged") and random.random() < 0.3:
        grain = _FINER[own]
    if family == "moving":
        grain = random.choice([grain for grain in Grain if own.divides(grain)])  # a home lies in one of its slices
    return _by_time(random, family, first.type, grain)


def _by_time(random: Random, family: str, type: str, grain: Grain) -> Layer:
    keyed = random.choice(["", ", key: k"])
    layer = Layer(
        cut=grain,
        type=type,
        inputs=f"  {{source}}: {{time: t{keyed}}}",
        code="",
        expected="",
        strategy=random.choice(["replace", "replace", "full"]),
    )
    match family:
        case "passed on":
            return _passed_on(random, layer, keyed)
        case "grouped":
            slice = _beginning(type, grain)
            return _plainly(
                layer, f"SELECT {slice} AS t, k, sum(v) AS v, count(*) AS n FROM {{source}} GROUP BY {slice}, k"
            )
        case "slice by slice":
            return _slice_by_slice(random, layer)
        case "reaching":
            return _reaching(random, layer, keyed)
        case "reading itself":
            return _reading_itself(layer)
        case "python":
            return _python(random, layer)
        case "merged":
            code = "SELECT t, k, sum(v) AS v FROM {source} WHERE k IS NOT NULL GROUP BY t, k"
            return replace(_plainly(layer, code), strategy="merge", key=("t", "k"))
        case "moving":
            return _moving(random, layer)
    raise ValueError(family)


def _beginning(type: str, grain: Grain) -> str:
    """The beginning of a row's slice, in the column's own type; in UTC."""
    if type == "DATE" and grain is Grain.DAY:
        return "t"
    cut = f"date_trunc('{grain.upper()}', t)"
    return cut if type == "TIMESTAMP" else f"CAST({cut} AS {type})"


def _plainly(layer: Layer, code: str) -> Layer:
    """The query gives the same over all rows; those without a time are in no slice."""
    return replace(layer, code=code, expected=f"SELECT * FROM ({code}) AS y WHERE t IS NOT NULL")


def _passed_on(random: Random, layer: Layer, keyed: str) -> Layer:
    match random.choice(["rows", "distinct rows", "joined", "twice"]):
        case "rows":
            return _plainly(layer, "SELECT t, k, v FROM {source}")
        case "distinct rows":
            return _plainly(layer, "SELECT DISTINCT t, k, v FROM {source}")
        case "joined":
            code = "SELECT s.t, s.k, s.v, n.name FROM {source} s LEFT JOIN raw.names n ON n.k = s.k"
            return _plainly(replace(layer, inputs=f"{layer.inputs}\n  raw.names: {{}}"), code)
    inputs = "\n".join(f"  {alias}: {{table: {{source}}, time: t{keyed}}}" for alias in "ab")
    code = (
        "SELECT a.t, a.k, a.v, b.n FROM {source} a JOIN (SELECT b.t, count(b.v) AS n FROM {source} b GROUP BY b.t) b "
        "ON b.t = a.t"
    )
    return _plainly(replace(layer, inputs=inputs), code)


def _slice_by_slice(random: Random, layer: Layer) -> Layer:
    assert isinstance(layer.cut, Grain)
    assert layer.type is not None
    slice = _beginning(layer.type, layer.cut)
    call, own, after = random.choice(
        [("sum(v)", "", ""), ("row_number()", "", " ORDER BY t, k, v"), ("count(v)", "PARTITION BY k", "")]
    )
    code = f"SELECT t, k, v, {call} OVER ({own}{after}) AS w FROM {{source}}"
    alone = own.replace("PARTITION BY ", ", ")
    expected = f"SELECT t, k, v, {call} OVER (PARTITION BY {slice}{alone}{after}) AS w FROM {{source}}"
    return replace(layer, code=code, expected=f"{expected} WHERE t IS NOT NULL")


def _reaching(random: Random, layer: Layer, keyed: str) -> Layer:
    """A window over what lies around: a number of slices, or a time."""
    assert isinstance(layer.cut, Grain)
    near = _NEAR[layer.cut]
    back = random.choice(["1", "2", {Grain.DAY: "36 hours", Grain.WEEK: "3 weeks"}.get(layer.cut, "3")])
    ahead, end = random.choice([("", "CURRENT ROW"), (", lookahead: 1", f"INTERVAL {near} FOLLOWING")])
    each = random.choice(["PARTITION BY k ", ""])
    window = f"{each}ORDER BY t RANGE BETWEEN INTERVAL {near} PRECEDING AND {end}"
    code = f"SELECT t, k, v, sum(v) OVER ({window}) AS near FROM {{source}}"
    inputs = f"  {{source}}: {{time: t, lookback: {back}{ahead}{keyed}}}"
    return replace(layer, inputs=inputs, code=code, expected=f"{code} WHERE t IS NOT NULL")


def _reading_itself(layer: Layer) -> Layer:
    assert layer.type is not None
    both = "SELECT k, v FROM {source} UNION ALL SELECT k, v FROM {model}"
    return replace(
        layer,
        inputs="  {source}: {time: t}\n  {model}: {time: t, lookback: 1}",
        keys=f"columns: {{t: {layer.type.lower()}, k: string, v: bigint}}\nreplay: {{order: sequential}}\n",
        code=f"SELECT {_STARTS[layer.type]} AS t, k, sum(v) AS v FROM ({both}) GROUP BY k",
        expected="SELECT g.t, s.k, sum(s.v) AS v FROM (VALUES {slices}) AS g(t, till) JOIN {source} s "
        "ON s.t < g.till GROUP BY g.t, s.k",
    )


def _python(random: Random, layer: Layer) -> Layer:
    assert isinstance(layer.cut, Grain)
    assert layer.type is not None
    keys = f', strategy="{layer.strategy}"'
    if random.random() < 0.5:
        code = 's.select("t", "k", "v", F.sum("v").over(Window.partitionBy(F.lit(1))).alias("w"))'
        each = f"sum(v) OVER (PARTITION BY {_beginning(layer.type, layer.cut)}) AS w"
        expected = f"SELECT t, k, v, {each} FROM {{source}} WHERE t IS NOT NULL"
    else:
        keys += random.choice(["", ", sliceable=True"])
        code = 's.groupBy("t", "k").agg(F.sum("v").alias("v"))'
        expected = "SELECT t, k, sum(v) AS v FROM {source} WHERE t IS NOT NULL GROUP BY t, k"
    return replace(layer, inputs="", keys=keys, code=code, expected=expected, is_python=True)


def _moving(random: Random, layer: Layer) -> Layer:
    """A row for each key, in the slice that is its home now."""
    assert isinstance(layer.cut, Grain)
    assert layer.type is not None
    whole = _beginning(layer.type, layer.cut)
    slice = "s.t" if whole == "t" else whole.replace(" t)", " s.t)")
    inputs = f"{layer.inputs}\n  raw.homes: {{}}"
    joined = "{source} s JOIN raw.homes h ON h.k = s.k AND s.t >= h.since AND s.t < h.till"
    together = f"SELECT s.k, {slice} AS t, sum(s.v) AS v FROM {joined} GROUP BY s.k, {slice}"
    apart = f"SELECT s.k, min({slice}) AS t, sum(s.v) AS v FROM {joined} GROUP BY s.k"
    return replace(
        _plainly(layer, together), code=random.choice([together, apart]), inputs=inputs, strategy="merge", key=("k",)
    )


def some_homes(random: Random, type: str, slices: SliceSet) -> list[str]:
    """The slice of each key, as rows."""
    found = {key: random.choice(list(slices)).interval for key in "abc"}
    return [f"('{key}', {literal(type, each.start)}, {literal(type, each.end)})" for key, each in found.items()]


def _not_by_time(random: Random, type: str | None) -> Layer:
    """One slice, or buckets; a row for each key, or the rows as they are."""
    cut: Cut = random.choice([WHOLE, Buckets(1), Buckets(3), Buckets(4)])
    strategy = random.choice(["replace", "full", "merge"])
    where = " WHERE k IS NOT NULL" if strategy == "merge" else ""
    code = f"SELECT k, sum(v) AS v, count(*) AS n FROM {{source}}{where} GROUP BY k"
    keeps_rows = type is not None and strategy != "merge" and random.random() < 0.5
    if keeps_rows:
        code = "SELECT t, k, v FROM {source}"
    in_buckets = isinstance(cut, Buckets)
    return Layer(
        cut=cut,
        type=type if keeps_rows else None,
        inputs="  {source}: {key: k}" if in_buckets else "  {source}: {}",
        code=code,
        expected=f"SELECT * FROM ({code}) AS y WHERE k IS NOT NULL" if in_buckets else code,
        strategy=strategy,
        key=("k",) if strategy == "merge" else (),
    )


def some_rows(random: Random, type: str, slices: SliceSet, most: int = 4) -> list[str]:
    """Rows of a source: at the edges of slices, twice, without a key or a value."""
    rows: list[str] = []
    for start, end in ((each.interval.start, each.interval.end) for each in slices):
        moments = (start, start + timedelta(minutes=59, seconds=59), end - timedelta(microseconds=1))
        for _ in range(random.choice([0, *range(1, most + 1), most])):
            key = random.choice(["'a'", "'b'", "'c'", "NULL"])
            value = random.choice(["NULL", *map(str, range(-3, 9))])
            rows += [f"({literal(type, random.choice(moments))}, {key}, {value})"] * random.choice([1, 1, 2])
    return rows


def some_nulls(random: Random) -> Sequence[str]:
    """Rows without a time: in no slice."""
    return ["(NULL, NULL, NULL)", *[f"(NULL, 'a', {random.randrange(9)})"] * random.choice([0, 1, 2])]
