"""What was measured on the slices of a table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal

from retcon.core.slices import Slice


@dataclass(frozen=True, kw_only=True)
class SliceMeasure:
    """Counts, checksum and metrics of one slice's rows."""

    rows: int
    checksum: str
    nulls: Mapping[str, int] = field(default_factory=dict)
    metrics: Mapping[str, Decimal | None] = field(default_factory=dict)


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
