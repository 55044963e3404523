"""Models: what a table contains, how its history is sliced and replayed, what must hold, who reads it."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import date
from enum import StrEnum

from retcon.core.gates import EMPTY, OUTSIDE_SCOPE, PARITY, SCHEMA, Gate
from retcon.core.queries import Batching, Query
from retcon.core.slices import Grain, SliceSet
from retcon.core.validity import Validity, gate_name


class OnChange(StrEnum):
    """What a change of an input does to the slices that read it."""

    RESTATE = "restate"
    IGNORE = "ignore"


@dataclass(frozen=True, kw_only=True)
class Slicing:
    """How a model's history is cut."""

    by: str
    every: Grain = Grain.DAY
    start: date | None = None


@dataclass(frozen=True, kw_only=True)
class Input:
    """One table that a model reads, under the name by which the model declares it."""

    name: str
    table: str
    time: str | None = None
    lookback: int = 0
    lookahead: int = 0
    key: str | None = None
    on_change: OnChange = OnChange.IGNORE
    valid: Validity | None = None

    def read_by(self, slices: SliceSet) -> SliceSet:
        """The input's slices that these slices of the model read."""
        return slices.widened(back=self.lookback, ahead=self.lookahead)

    def readers_of(self, slices: SliceSet) -> SliceSet:
        """The model's slices that read these slices of the input."""
        return slices.widened(back=self.lookahead, ahead=self.lookback)


@dataclass(frozen=True, kw_only=True)
class Replay:
    """How history is recomputed."""

    wave: int | None = None
    sliceable: bool = False
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
    """Of the normalised SQL and the keys that change results; not of comments, gates or descriptions."""
    key: tuple[str, ...] = ()
    columns: tuple[tuple[str, str], ...] = ()
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
    nondeterministic: str = ""
    """Why the results may differ from one computation to the next; empty for most models."""

    @property
    def grain(self) -> Grain:
        return self.slicing.every

    @property
    def short_name(self) -> str:
        return self.name.rpartition(".")[2]

    @property
    def filters_output(self) -> bool:
        """Where more is read than the wave, its results are cut down to the wave."""
        return any(i.lookback or i.lookahead for i in self.inputs)

    @property
    def gate_names(self) -> tuple[str, ...]:
        """Every gate that will be judged: the declared ones, and those that always are."""
        declared = (gate.name for gate in self.gates)
        parity = () if self.nondeterministic else (PARITY,)
        valid = (gate_name(i.name) for i in self.inputs if i.valid is not None)
        return (*declared, SCHEMA, OUTSIDE_SCOPE, EMPTY, *parity, *valid)

    @property
    def needs_contiguous_waves(self) -> bool:
        return bool(self.query.parameters & {"start_date", "end_date", "start_ts", "end_ts"})
