"""What the ledger's columns hold, as text that both databases keep alike, and as the values that it stands for."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

from retcon.core.plans import Plan, from_document


def storable(text: str) -> str:
    """Text without what a database can't hold: PostgreSQL takes no NUL, neither takes half a surrogate pair."""
    return text.replace("\0", "\N{REPLACEMENT CHARACTER}").encode("utf-8", "replace").decode()


def stamp(moment: datetime) -> str:
    """A moment as text of fixed width in UTC, so that text order is time order."""
    if moment.tzinfo is None:
        raise ValueError(f"the ledger needs to know the time zone of {moment!r}")
    return moment.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def moment_in(text: str) -> datetime:
    """The moment that a stamp tells."""
    return datetime.fromisoformat(text).astimezone(UTC)


def moment_if_any(text: str | None) -> datetime | None:
    """The same of what may not have happened."""
    return None if text is None else moment_in(text)


def document_in(text: str | None) -> Any:
    """Plain data, from its JSON."""
    return None if text is None else json.loads(text)


@lru_cache(maxsize=256)
def plan_in(text: str) -> Plan:
    """The plan that a document tells of. The same text gives the same plan, which nobody changes."""
    return from_document(json.loads(text))
