"""Watermarks: how far loads have consumed an input for a model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from datetime import datetime
from typing import Any

from retcon.values import dataclass

NOTHING_LOADED = "nothing had to be loaded"
"""Why a watermark moves without a publish."""
_AHEAD = "ahead="


@dataclass(frozen=True, kw_only=True)
class Mark:
    """A place in the history of an input. All of its changes up to here are published, or recorded as exceptions."""

    model: str
    input: str
    table: str
    uuid: str
    """Of the table: one made anew under the same name has another history. Empty where it isn't Iceberg's."""
    snapshot_id: int | None
    value: str | None = None
    """Of an input without snapshots: what its files looked like, or how far its `updated` column was read. Of one with
    them: from when on it holds rows of slices that hadn't begun.
    """
    looked: datetime | None = field(default=None, compare=False)
    """When a load looked at the input: what had begun by then is consumed. None: nobody knows, or somebody set it."""


def ahead_value(since: datetime | None) -> str | None:
    """From when on rows were ahead of their time, as a mark holds it."""
    return None if since is None else f"{_AHEAD}{since.isoformat()}"


def ahead_since(mark: Mark) -> datetime | None:
    """The same read back; None where none were."""
    is_told = bool(mark.uuid) and (mark.value or "").startswith(_AHEAD)
    return datetime.fromisoformat((mark.value or "").removeprefix(_AHEAD)) if is_told else None


@dataclass(frozen=True, kw_only=True)
class Watermark:
    """The mark that holds for an input of a model, and how it came to be there."""

    mark: Mark
    entry: int
    """Counts the movements of all watermarks: tells whether one moved since it was looked at."""
    run: str | None
    """The load that moved it; None where somebody did."""
    who: str
    at: datetime
    why: str


@dataclass(frozen=True, kw_only=True)
class Advance:
    """A movement that a load makes when it is published, unless another one came before."""

    mark: Mark
    after: int
    """The movement that it follows; 0: there was none."""


def advance_document(advance: Advance) -> dict[str, Any]:
    """As plain data."""
    mark = advance.mark
    return {
        "model": mark.model,
        "input": mark.input,
        "table": mark.table,
        "uuid": mark.uuid,
        "snapshot": mark.snapshot_id,
        "value": mark.value,
        "looked": None if mark.looked is None else mark.looked.isoformat(),
        "after": advance.after,
    }


def advance_from(document: Mapping[str, Any]) -> Advance:
    """From plain data."""
    return Advance(
        mark=Mark(
            model=document["model"],
            input=document["input"],
            table=document["table"],
            uuid=document["uuid"],
            snapshot_id=document["snapshot"],
            value=document["value"],
            looked=None if (looked := document.get("looked")) is None else datetime.fromisoformat(looked),
        ),
        after=document["after"],
    )
