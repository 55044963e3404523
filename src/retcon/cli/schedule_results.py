"""Schedules as plain data, for JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from retcon.cli.figures import moment
from retcon.core.schedules import Standing

Json = dict[str, Any]


def turns_result(turns: Sequence[Standing] | None) -> Json:
    """The schedules that a load was called for; nothing where it wasn't called for any."""
    if turns is None:
        return {}
    return {"due": [{"model": each.model, "kind": each.kind.value, "due": moment(each.due)} for each in turns]}


def schedule_result(standing: Sequence[Standing], timezone: str) -> Json:
    """How schedules stand."""
    return {"timezone": timezone, "schedules": [_standing(each) for each in standing]}


def _standing(standing: Standing) -> Json:
    turn = standing.turn
    return {
        "model": standing.model,
        "kind": standing.kind.value,
        "cron": standing.schedule.cron,
        "next": [moment(each) for each in standing.coming],
        "last_due": moment(standing.due),
        "last_done": moment(turn.done),
        "last_ended": moment(turn.ended),
        "overdue": standing.is_due,
        "trouble": turn.trouble or None,
        "claimed_by": None if turn.claim is None else str(turn.claim.driver),
    }
