"""The chain of a run's events: changing or dropping one breaks every later hash."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from retcon.core.plans import canonical
from retcon.values import dataclass

if TYPE_CHECKING:
    from retcon.core.events import Event


@dataclass(frozen=True, kw_only=True)
class RecordedEvent:
    """One link of a run's chain: changing or dropping an earlier one breaks every later hash."""

    run: str
    number: int
    at: str
    who: str
    kind: str
    body: Mapping[str, Any]
    previous: str
    hash: str


GENESIS = "0" * 64


def event_body(event: Event) -> dict[str, Any]:
    """An event as plain data."""
    return asdict(event)


def link_hash(*, run: str, number: int, at: str, who: str, kind: str, body: Mapping[str, Any], previous: str) -> str:
    """The hash that ties an event to everything before it in its run."""
    content = {"run": run, "number": number, "at": at, "who": who, "kind": kind, "body": body}
    return hashlib.sha256((previous + canonical(content)).encode()).hexdigest()


def first_broken_link(events: list[RecordedEvent]) -> int | None:
    """The number of the first event that was changed, moved or follows a missing one; None for a sound chain."""
    previous = GENESIS
    for expected, event in enumerate(events, start=1):
        computed = link_hash(
            run=event.run,
            number=event.number,
            at=event.at,
            who=event.who,
            kind=event.kind,
            body=event.body,
            previous=event.previous,
        )
        if event.number != expected or event.previous != previous or event.hash != computed:
            return expected
        previous = event.hash
    return None
