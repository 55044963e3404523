"""Gates on the values of a column: how many are NULL, and which ones there may be."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

from retcon.core.findings import Finding, percent, with_examples
from retcon.core.measures import Listed, SliceMeasure, TableMeasures
from retcon.values import dataclass


@dataclass(frozen=True, kw_only=True)
class NullRate:
    """Of the rows of each slice, at most this share is NULL in a column (0.05 is 5%)."""

    name: str
    most: tuple[tuple[str, Decimal], ...]
    """By column."""
    warns: bool = False
    kind: str = "null_rate"

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(column for column, _ in self.most)


@dataclass(frozen=True, kw_only=True)
class Accepted:
    """Columns have the listed values and no others; NULL is for `not_null` to judge."""

    name: str
    listed: tuple[Listed, ...]
    warns: bool = False
    kind: str = "accepted"

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(each.column for each in self.listed)


def judge_null_rate(gate: NullRate, staged: TableMeasures) -> tuple[list[Finding], str]:
    """Slices with too many NULLs, and the highest share of each column."""
    findings = [
        Finding(slice=slice.label, text=text)
        for slice, measure in sorted(staged.slices.items())
        if (text := _nulls_text(gate, measure))
    ]
    highest = {
        column: max((_null_share(measure, column) for measure in staged.slices.values()), default=Decimal(0))
        for column in gate.columns
    }
    return findings, ", ".join(f"{column} up to {percent(share, signed=False)}" for column, share in highest.items())


def _nulls_text(gate: NullRate, measure: SliceMeasure) -> str:
    return ", ".join(
        f"{measure.nulls[column]:,} of {measure.rows:,} rows ({percent(_null_share(measure, column), signed=False)}) "
        f"NULL in {column}, at most {percent(most, signed=False)} expected"
        for column, most in gate.most
        if measure.nulls.get(column, 0) > most * measure.rows
    )


def _null_share(measure: SliceMeasure, column: str) -> Decimal:
    return Decimal(measure.nulls.get(column, 0)) / measure.rows if measure.rows else Decimal(0)


def judge_accepted(gate: Accepted, staged: TableMeasures, examples: Sequence[str]) -> tuple[list[Finding], str]:
    """Slices with rows that have another value."""
    findings: list[Finding] = []
    total = 0
    for slice, measure in sorted(staged.slices.items()):
        others = {each.column: n for each in gate.listed if (n := measure.unlisted.get(each, 0))}
        total += sum(others.values())
        if others:
            text = ", ".join(f"{n:,} rows with another {column}" for column, n in others.items())
            findings.append(Finding(slice=slice.label, text=text))
    summary = f"{', '.join(gate.columns)}: {total:,} rows with another value than those listed"
    return with_examples(findings, examples), summary
