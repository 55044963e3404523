"""Findings: what gates object to, and the numbers in their words."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

from retcon.values import dataclass


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One thing a gate objects to: in a slice, or (slice None) in the whole."""

    slice: str | None
    text: str


def with_examples(findings: list[Finding], examples: Sequence[str]) -> list[Finding]:
    """The findings, after a few of the values that they are about: only the first findings are shown at once."""
    told = [Finding(slice=None, text=f"e.g. {'; '.join(examples)}")] if findings and examples else []
    return [*told, *findings]


def percent(value: Decimal, *, signed: bool = True) -> str:
    """0.0123 as `+1.23%`, with the digits that matter."""
    number = value * 100
    digits = 2 if number.is_finite() and abs(number) < 10 else 1
    return f"{number:{'+' if signed else ''}.{digits}f}%"
