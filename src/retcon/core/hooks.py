"""Hooks: other systems that keep watermarks of their own, and are told whenever one of retcon's moved."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import field
from datetime import UTC, datetime
from typing import Any

from retcon.core.watermarks import NOTHING_LOADED, Mark
from retcon.values import dataclass

TRIES = 3
"""Of one delivery, in one command; the next command tries again."""
_FIRST, _FACTOR = 1.0, 3.0


@dataclass(frozen=True, kw_only=True)
class WatermarkHook:
    """A command, or an address, that is told of every movement."""

    name: str
    models: tuple[str, ...] = ()
    """Whose watermarks; none: all."""
    command: tuple[str, ...] = ()
    url: str | None = field(default=None, repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    """As written: variables are filled in when it is called, and never recorded."""
    timeout: int = 30
    """Seconds."""


@dataclass(frozen=True, kw_only=True)
class Delivery:
    """One movement of a watermark, for one hook."""

    hook: str
    movement: int
    """Counts the movements of all watermarks: of two, the one with the higher number is the later."""
    mark: Mark
    is_set: bool
    run: str | None
    who: str
    at: datetime
    why: str
    tries: int = 0
    error: str | None = None
    """What came of the last try; None where there was none."""

    @property
    def id(self) -> str:
        """The same for every try: tells the receiver what it has already."""
        text = f"{self.hook} {self.movement} {self.mark.model} {self.mark.input} {self.at.astimezone(UTC).isoformat()}"
        return hashlib.sha256(text.encode()).hexdigest()[:24]

    @property
    def cause(self) -> str:
        if self.run is None:
            return "load" if self.why == NOTHING_LOADED else "reset"
        return "rollback" if self.why == rollback_reason(self.run) else "load"


def rollback_reason(run: str) -> str:
    """Why a watermark is put back."""
    return f"rollback of {run}"


def hook_document(delivery: Delivery, project: str, committed: datetime | None) -> dict[str, Any]:
    """What the other system gets; `committed`: when the snapshot was made up to which all is consumed."""
    mark = delivery.mark
    return {
        "version": 1,
        "id": delivery.id,
        "hook": delivery.hook,
        "project": project,
        "movement": delivery.movement,
        "cause": delivery.cause,
        "model": mark.model,
        "input": mark.input,
        "table": mark.table,
        "watermark": {
            "uuid": mark.uuid or None,
            "snapshot": None if mark.snapshot_id is None else str(mark.snapshot_id),
            "committed": None if committed is None else committed.astimezone(UTC).isoformat(),
            "value": mark.value,
        }
        if delivery.is_set
        else None,
        "run": delivery.run,
        "at": delivery.at.astimezone(UTC).isoformat(),
        "by": delivery.who,
        "why": delivery.why,
    }


def seconds_before_next(tries: int) -> float:
    """Longer after each failure."""
    return _FIRST * _FACTOR ** (tries - 1)
