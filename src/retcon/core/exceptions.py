"""Exceptions: changes too old for a model's window, on record until somebody decides what becomes of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from datetime import datetime
from enum import StrEnum
from typing import Any

from retcon.values import dataclass

Pair = tuple[str | None, str | None]


class Decision(StrEnum):
    """What became of a late change."""

    OPEN = "open"
    """Waits for somebody to decide."""
    APPROVED = "approved"
    """To be restated, by a plan."""
    REJECTED = "rejected"
    """History stays as it is."""
    RESTATED = "restated"
    """A publish brought it in."""


@dataclass(frozen=True, kw_only=True)
class LateChange:
    """A slice, older than its model's window, whose inputs aren't what it was computed from."""

    model: str
    slice: str
    contents: Mapping[str, str]
    """By input that is followed: what it holds now of what the slice reads."""
    because_of: tuple[str, ...]
    """The inputs that changed."""
    snapshots: Mapping[str, int] = field(default_factory=dict)
    """By input of Iceberg that is followed: the snapshot at which it holds that."""
    rows: tuple[int | None, int | None] = (None, None)
    """As published, and as it would come out; None: not known."""
    metrics: Mapping[str, Pair] = field(default_factory=dict)
    """The same of each metric of the model's gates, as exact decimal text."""


@dataclass(frozen=True, kw_only=True)
class LateEntry:
    """A late change on record."""

    entry: int
    late: LateChange
    first_seen: datetime
    last_seen: datetime
    decision: Decision
    run: str | None = None
    """The plan by which it is restated, or was."""
    by: str | None = None
    """Who decided."""
    decided: datetime | None = None
    reason: str | None = None

    def knows(self, late: LateChange) -> bool:
        """Is this nothing but what is on record?"""
        is_told = self.decision is not Decision.RESTATED
        return is_told and dict(self.late.contents) == dict(late.contents)


def late_document(late: LateChange) -> dict[str, Any]:
    """As plain data."""
    return {
        "model": late.model,
        "slice": late.slice,
        "contents": dict(late.contents),
        "because_of": list(late.because_of),
        "snapshots": dict(late.snapshots),
        "rows": list(late.rows),
        "metrics": {name: list(pair) for name, pair in late.metrics.items()},
    }


def late_from(document: Mapping[str, Any]) -> LateChange:
    """From plain data."""
    old, new = document["rows"]
    return LateChange(
        model=document["model"],
        slice=document["slice"],
        contents=document["contents"],
        because_of=tuple(document["because_of"]),
        snapshots=document.get("snapshots", {}),
        rows=(old, new),
        metrics={name: (before, after) for name, (before, after) in document["metrics"].items()},
    )
