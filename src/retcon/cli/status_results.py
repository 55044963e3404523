"""Where models and runs stand, as plain data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from retcon.cli.figures import moment
from retcon.core.runs import Run
from retcon.flow.statuses import ModelStatus, RunProgress

Json = dict[str, Any]


def run_fields(run: Run) -> Json:
    return {
        "run": run.id,
        "kind": run.kind,
        "state": run.state.value,
        "environment": run.plan.environment,
        "reason": run.plan.reason,
        "by": run.by,
        "models": [model.name for model in run.plan.models],
        "start": run.plan.request.start,
        "end": run.plan.request.end,
        "created": moment(run.created),
        "updated": moment(run.updated),
        "published": moment(run.published),
        "rolled_back": moment(run.rolled_back),
        "why_ended": run.why_ended,
    }


def progress_result(progress: RunProgress) -> Json:
    staged = {
        "slices": progress.slices,
        "done": progress.done,
        "empty": progress.empty,
        "rows": progress.rows,
    }
    return {**run_fields(progress.run), "staged": staged}


def status_result(report: Sequence[ModelStatus]) -> Json:
    return {"models": [model_status_result(each) for each in report]}


def model_status_result(status: ModelStatus) -> Json:
    return {
        "model": status.model,
        "slices": status.slices.text,
        "slice_count": len(status.slices),
        "unknown": status.unknown.text,
        "rows": status.rows,
        "published": None if status.published is None else run_fields(status.published),
        "in_flight": [progress_result(each) for each in status.in_flight],
    }


def history_result(runs: Sequence[RunProgress]) -> Json:
    return {"runs": [progress_result(each) for each in runs]}
