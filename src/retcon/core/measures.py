"""What was measured on the slices of a table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from decimal import Decimal
from enum import StrEnum

from retcon.core.slices import Slice
from retcon.values import dataclass


@dataclass(frozen=True, kw_only=True)
class Metric:
    """An aggregate over the rows of a slice, as the author wrote it."""

    expression: str
    is_additive: bool
    """The whole is the sum of its slices: `sum(x)`, `count(x)`, `count(*)`."""


class ValueKind(StrEnum):
    """What a listed value is, in the words of whoever lists it."""

    TEXT = "text"
    NUMBER = "numbers"
    TRUTH = "true or false"
    DATE = "dates"
    TIME = "times"


@dataclass(frozen=True, kw_only=True)
class Value:
    """One value as text: `1`, `1.0` and `true` are told apart."""

    kind: ValueKind
    text: str


@dataclass(frozen=True, kw_only=True)
class Listed:
    """The values that a column may have, beside NULL."""

    column: str
    values: tuple[Value, ...]


@dataclass(frozen=True, kw_only=True)
class SliceMeasure:
    """Counts, checksum and metrics of one slice's rows."""

    rows: int
    checksum: str
    nulls: Mapping[str, int] = field(default_factory=dict)
    metrics: Mapping[str, Decimal | None] = field(default_factory=dict)
    unlisted: Mapping[Listed, int] = field(default_factory=dict)
    """Rows with another value than those listed."""
    staged_only: Mapping[str, Decimal | None] = field(default_factory=dict)
    """Metrics that nothing is compared with in production."""
    surplus: Mapping[tuple[str, ...], int] = field(default_factory=dict)
    """Rows too many for these columns to be a key, and rows with a NULL in them."""
    keys: Mapping[str, str] = field(default_factory=dict)
    """By the names of columns that are to be a key: the checksum of their values."""

    def value_of(self, metric: str) -> Decimal | None:
        return self.metrics[metric] if metric in self.metrics else self.staged_only.get(metric)


@dataclass(frozen=True, kw_only=True)
class TableMeasures:
    """The measures of the slices in scope, and of all of them together."""

    slices: Mapping[Slice, SliceMeasure] = field(default_factory=dict)
    totals: Mapping[str, Decimal | None] = field(default_factory=dict)

    @property
    def rows(self) -> int:
        return sum(measure.rows for measure in self.slices.values())


@dataclass(frozen=True, kw_only=True)
class FullRefresh:
    """What a model's code gives over all of its inputs, measured and not written."""

    slices: Mapping[Slice, SliceMeasure]
    """Those that were asked for."""
    rows: int
    """In all."""
    unsliced: int
    """Of them, those whose slice column is NULL."""
