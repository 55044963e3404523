"""Gates that look at other tables: keys that must be there, and queries that must find nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field

from retcon.core.findings import Finding, with_examples
from retcon.core.queries import Query
from retcon.core.slices import Slice
from retcon.values import dataclass


@dataclass(frozen=True, kw_only=True)
class ForeignKey:
    """What these columns hold is in another table; a row with a NULL in one of them isn't judged, as in SQL."""

    name: str
    columns: tuple[str, ...]
    to: str
    on: tuple[str, ...]
    """The columns there, in the same order."""
    warns: bool = False
    kind: str = "foreign_key"


@dataclass(frozen=True, kw_only=True)
class NoRows:
    """A query of the author's own finds nothing."""

    name: str
    query: Query
    """Its references are called as the text calls the tables."""
    tables: tuple[tuple[str, str], ...]
    """Each by its name in the text, and as it is called in the environment."""
    warns: bool = False
    kind: str = "no_rows"


@dataclass(frozen=True, kw_only=True)
class Counted:
    """Rows that a gate objects to, by slice; None: of no planned slice, or nobody can tell of which."""

    rows: Mapping[Slice | None, int] = field(default_factory=dict)
    examples: tuple[str, ...] = ()
    """Values of a few of them, where the model lets them be shown."""
    seen: tuple[str, ...] = ()
    """Tables that were read at a snapshot that nothing else records."""

    @property
    def total(self) -> int:
        return sum(self.rows.values())


def judge_foreign_key(gate: ForeignKey, found: Counted) -> tuple[list[Finding], str]:
    """Slices with rows whose key isn't there."""
    key = ", ".join(gate.columns)
    there = gate.to if gate.on == gate.columns else f"{gate.to} ({', '.join(gate.on)})"
    findings = _findings(found, lambda count: f"{count:,} rows whose {key} isn't in {gate.to}")
    return findings, f"{key} in {there}: {found.total:,} rows without a match{_seen(found)}"


def judge_no_rows(_: NoRows, found: Counted) -> tuple[list[Finding], str]:
    """Slices of the rows that were found."""
    return _findings(found, lambda count: f"{count:,} rows found"), f"{found.total:,} rows found{_seen(found)}"


def _findings(found: Counted, text_of: Callable[[int], str]) -> list[Finding]:
    whole = [Finding(slice=None, text=text_of(count)) for slice, count in found.rows.items() if slice is None]
    by_slice = sorted((slice, count) for slice, count in found.rows.items() if slice is not None)
    findings = [*whole, *(Finding(slice=slice.label, text=text_of(count)) for slice, count in by_slice)]
    return with_examples(findings, found.examples)


def _seen(found: Counted) -> str:
    return f" ({', '.join(found.seen)})" if found.seen else ""
