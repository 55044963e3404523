"""Freshness as plain data, for JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from retcon.cli.status_results import status_result
from retcon.core.freshness import Freshness
from retcon.core.slices import SliceSet
from retcon.flow.statuses import ModelStatus

Json = dict[str, Any]


def fresh_status_result(report: Sequence[ModelStatus], freshness: Mapping[str, Freshness]) -> Json:
    """What is published and under way, and how fresh it is."""
    models = status_result(report)["models"]
    return {"models": [{**model, "freshness": _freshness(freshness[model["model"]])} for model in models]}


def _freshness(fresh: Freshness) -> Json:
    if fresh.unknown:
        return {"known": False, "why": fresh.unknown}
    return {
        "known": True,
        "complete_up_to": None if fresh.complete is None else fresh.complete.label,
        "lag_seconds": None if fresh.lag is None else int(fresh.lag.total_seconds()),
        "stale_by_input": {name: _slices(slices) for name, slices in fresh.by_input.items()},
        "stale_by_code": _slices(fresh.by_code),
        "missing": _slices(fresh.missing),
        "held": _slices(fresh.held),
        "waiting": {table: _slices(slices) for table, slices in fresh.waiting.items()},
        "unseen": list(fresh.unseen),
    }


def _slices(slices: SliceSet | None) -> Json:
    return {"slices": "", "count": 0} if slices is None else {"slices": slices.text, "count": len(slices)}
