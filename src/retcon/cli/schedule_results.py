"""Schedules as plain data, for JSON."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from retcon.core.schedules import Standing

Json = dict[str, Any]


def turns_result(turns: Sequence[Standing] | None) -> Json:
    """The schedules that a load was called for; nothing where it wasn't called for any."""
    if turns is None:
        return {}
    return {"due": [{"model": each.model, "kind": each.kind.value, "due": _moment(each.due)} for each in turns]}


def schedule_result(standing: Sequence[Standing], timezone: str) -> Json:
    """How schedules stand."""
    return {"timezone": timezone, "schedules": [_standing(each) for each in standing]}


def _standing(standing: Standing) -> Json:
    turn = standing.turn
    return {
        "model": standing.model,
        "kind": standing.kind.value,
        "cron": standing.schedule.cron,
        "next": [_moment(moment) for moment in standing.coming],
        "last_due": _moment(standing.due),
        "last_done": _moment(turn.done),
        "last_ended": _moment(turn.ended),
        "overdue": standing.is_due,
        "trouble": turn.trouble or None,
        "claimed_by": None if turn.claim is None else str(turn.claim.driver),
    }


def _moment(at: datetime | None) -> str | None:
    return None if at is None else at.astimezone(UTC).isoformat().replace("+00:00", "Z")
