"""Models: what a table contains, how its history is sliced and replayed, what must hold, who reads it."""

from __future__ import annotations

from dataclasses import field
from datetime import date, timedelta
from enum import StrEnum

from retcon.core.gates import EMPTY, ONE_ROW, OUTSIDE_SCOPE, PARITY, SCHEMA, Gate
from retcon.core.queries import Batching, Entity, Query
from retcon.core.slices import WHOLE, Buckets, Cut, Grain, SliceSet
from retcon.core.validity import Validity, gate_name
from retcon.values import dataclass

Reach = int | timedelta
"""How far around its own slice a model reads: a number of its slices, or a time in whole hours."""

_HOUR = timedelta(hours=1)


class Order(StrEnum):
    """How the waves of a model follow one another."""

    PARALLEL = "parallel"
    SEQUENTIAL = "sequential"
    """By time, each after the one before it is staged."""


class OnChange(StrEnum):
    """What a change of an input does to the slices that read it."""

    RESTATE = "restate"
    IGNORE = "ignore"


class Strategy(StrEnum):
    """Which slices a plan covers, and what a computed slice does to the one that is there."""

    REPLACE = "replace"
    FULL = "full"
    """Every slice is replaced, whatever part of history was asked for."""
    MERGE = "merge"
    """A row takes the place of the one with the same key; rows with other keys stay."""


@dataclass(frozen=True, kw_only=True)
class Slicing:
    """How a model's history is cut."""

    by: str | None
    """The column that says where a row belongs; None where nothing is cut."""
    every: Cut = Grain.DAY
    start: date | None = None


UNSLICED = Slicing(by=None, every=WHOLE)
"""One slice, the whole table."""


@dataclass(frozen=True, kw_only=True)
class Input:
    """One table that a model reads, under the name by which the model declares it."""

    name: str
    table: str
    time: str | None = None
    lookback: Reach = 0
    lookahead: Reach = 0
    key: str | None = None
    on_change: OnChange = OnChange.IGNORE
    valid: Validity | None = None
    at_slice_end: bool = False
    """Read as it was when the slice ended; while that isn't over, as it is."""
    is_own: bool = False
    """The model's own table: read before the slice, never in it, since that is being computed."""
    written: str | None = None
    """The table's name in the text, where that isn't what it is called in the environment."""

    @property
    def name_in_text(self) -> str:
        return self.written or self.table

    def column(self, reader: Cut) -> str | None:
        """The column by which a model that is cut like this reads its slices' share; None: all of it is read."""
        if isinstance(reader, Buckets):
            return self.key
        return self.time if isinstance(reader, Grain) else None

    def read_by(self, slices: SliceSet, resolution: Cut) -> SliceSet:
        """The input's slices of this grain that these slices of the model read: all that their reach touches."""
        if slices.grain == resolution and isinstance(resolution, Buckets):
            return slices
        grain = _grain_of(slices.grain)
        return SliceSet.over(
            resolution, ((self._from(grain, first), self._until(grain, last)) for first, last in slices.ranges())
        )

    def readers_of(self, slices: SliceSet, reader: Cut) -> SliceSet | None:
        """The slices of a model cut by time that read these slices of the input; None: every one."""
        if not isinstance(reader, Grain) or not isinstance(slices.grain, Grain):
            return None
        found: set[int] = set()
        for first, last in slices.hours():
            found.update(range(self._first_reader(reader, first), self._last_reader(reader, last) + 1))
        return SliceSet.of(reader, found)

    def held_from(self, grain: Grain, hour: int) -> int:
        """The first slice of a model of this grain that reads nothing before this hour."""
        if isinstance(self.lookback, timedelta):
            return grain.holding(hour + self.lookback // _HOUR - 1) + 1
        return grain.holding(hour - 1) + 1 + self.lookback

    def held_until(self, grain: Grain, hour: int) -> int:
        """The last slice of a model of this grain that reads nothing after this hour."""
        if isinstance(self.lookahead, timedelta):
            return grain.holding(hour + 1 - self.lookahead // _HOUR) - 1
        return grain.holding(hour + 1) - 1 - self.lookahead

    def _from(self, grain: Grain, slice: int) -> int:
        """The first hour that a slice reads."""
        if isinstance(self.lookback, timedelta):
            return grain.first_hour(slice) - self.lookback // _HOUR
        return grain.first_hour(slice - self.lookback)

    def _until(self, grain: Grain, slice: int) -> int:
        """The last hour that a slice reads."""
        if self.is_own:
            return grain.first_hour(slice) - 1
        if isinstance(self.lookahead, timedelta):
            return grain.first_hour(slice + 1) + self.lookahead // _HOUR - 1
        return grain.first_hour(slice + 1 + self.lookahead) - 1

    def _first_reader(self, grain: Grain, hour: int) -> int:
        if self.is_own:
            return grain.holding(hour) + 1
        if isinstance(self.lookahead, timedelta):
            return grain.holding(hour - self.lookahead // _HOUR)
        return grain.holding(hour) - self.lookahead

    def _last_reader(self, grain: Grain, hour: int) -> int:
        if isinstance(self.lookback, timedelta):
            return grain.holding(hour + self.lookback // _HOUR)
        return grain.holding(hour) + self.lookback


def _grain_of(cut: Cut) -> Grain:
    if not isinstance(cut, Grain):
        raise ValueError("a model that isn't cut by time reads no times")
    return cut


def reach_text(reach: Reach) -> str:
    """`3`, `36 hours`, `7 days`."""
    if not isinstance(reach, timedelta):
        return str(reach)
    hours = reach // _HOUR
    number, unit = (hours // 24, "day") if hours % 24 == 0 else (hours, "hour")
    return f"{number} {unit}" + ("" if number == 1 else "s")


@dataclass(frozen=True, kw_only=True)
class Replay:
    """How history is recomputed."""

    order: Order = Order.PARALLEL
    wave: int | None = None
    window_days: int | None = None
    reprocess_days: int = 0
    deep: str | None = None


@dataclass(frozen=True, kw_only=True)
class Model:
    """One file of the project."""

    name: str
    path: str
    query: Query
    batching: Batching
    slicing: Slicing
    inputs: tuple[Input, ...]
    fingerprint: str
    """Of the normalised code and the keys that change results; not of comments, gates or descriptions."""
    strategy: Strategy = Strategy.REPLACE
    entity: Entity = field(default_factory=Entity)
    function: str | None = None
    """The function of the file that computes it; None where the file is SQL."""
    udfs: tuple[str, ...] = ()
    """The project's own functions that its SQL calls by name."""
    key: tuple[str, ...] = ()
    columns: tuple[tuple[str, str], ...] = ()
    comments: tuple[tuple[str, str], ...] = ()
    """Of columns, by name."""
    after: tuple[str, ...] = ()
    replay: Replay = field(default_factory=Replay)
    gates: tuple[Gate, ...] = ()
    consumers: tuple[str, ...] = ()
    description: str = ""
    owner: str = ""
    tags: tuple[str, ...] = ()
    allow_empty: bool = False
    retention_days: int = 14
    schedule: str | None = None
    volatile: tuple[str, ...] = ()
    samples: bool = False
    keys_text: str = ""
    """The keys as a SQL file has them, for the record; those of Python stand in its code."""
    nondeterministic: str = ""
    """Why the results may differ from one computation to the next; empty for most models."""

    @property
    def grain(self) -> Cut:
        return self.slicing.every

    @property
    def is_python(self) -> bool:
        return self.function is not None

    @property
    def short_name(self) -> str:
        return self.name.rpartition(".")[2]

    @property
    def gate_names(self) -> tuple[str, ...]:
        """Every gate that will be judged: the declared ones, and those that always are."""
        declared = (gate.name for gate in self.gates)
        parity = () if self.nondeterministic else (PARITY,)
        one_row = (ONE_ROW,) if self.moves_rows else ()
        valid = (gate_name(i.name) for i in self.inputs if i.valid is not None)
        return (*declared, SCHEMA, OUTSIDE_SCOPE, EMPTY, *one_row, *parity, *valid)

    @property
    def moves_rows(self) -> bool:
        """May a merged row belong to another slice than the one with its key that is there?"""
        by = self.slicing.by
        is_tied = by is None or by.casefold() in {column.casefold() for column in self.key}
        return self.strategy is Strategy.MERGE and not is_tied

    @property
    def reads_itself(self) -> bool:
        return any(i.is_own for i in self.inputs)

    @property
    def one_by_one(self) -> tuple[str, ...]:
        """Why its slices are computed one by one; empty where one job may compute many."""
        if self.reads_itself:
            return ("it reads its previous slice",)
        past = [i.table for i in self.inputs if i.at_slice_end]
        if past:
            return (f"{', '.join(dict.fromkeys(past))} as of each slice's end",)
        return () if self.batching.is_sliceable else self.batching.reasons

    @property
    def needs_contiguous_waves(self) -> bool:
        return bool(self.query.parameters & {"start_date", "end_date", "start_ts", "end_ts"})
