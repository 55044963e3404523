"""What watermarks have passed by, for machines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from retcon.cli.figures import moment
from retcon.core.drifts import Arrival, InputDrift, ModelDrift

Json = dict[str, Any]


def drift_result(found: Sequence[ModelDrift]) -> Json:
    """Per model: what was passed by, and what was told apart from it."""
    return {
        "drifted": any(each.slices for each in found),
        "models": [
            {
                "model": each.model,
                "compared": each.compared,
                "slices": each.slices.text,
                "inputs": [input_result(one) for one in each.inputs],
                "held": each.held.text,
                "late": each.late.text,
                "unknown": each.unknown.text,
                "unseen": list(each.unseen),
            }
            for each in found
        ],
    }


def input_result(drift: InputDrift) -> Json:
    return {
        "input": drift.input,
        "table": drift.table,
        "slices": drift.slices.text,
        "commits": [arrival_result(each) for each in drift.arrivals],
        "history_known": drift.is_history_known,
        "not_loaded_yet": drift.not_loaded_yet.text,
        "not_told": drift.untold.text,
    }


def arrival_result(arrival: Arrival) -> Json:
    commit, move = arrival.commit, arrival.passed_by
    return {
        "snapshot": str(commit.snapshot_id),
        "operation": commit.operation,
        "run": commit.run,
        "at": moment(commit.at),
        "slices": arrival.slices.text,
        "rows_added": arrival.added,
        "rows_removed": arrival.removed,
        "passed_by": None
        if move is None
        else {"run": move.run, "who": move.who, "at": moment(move.at), "why": move.why},
    }
