"""What loads found and did, for programs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from retcon.cli.figures import moment
from retcon.cli.json_output import Json, id_text
from retcon.cli.status_results import run_fields
from retcon.core.loads import Reasons, Stale
from retcon.core.runs import Run
from retcon.flow.load import Due
from retcon.flow.watermarks import Standing


def load_result(due: Due, runs: Sequence[Run]) -> Json:
    """What was found, and the runs that loaded it."""
    return {
        "runs": [run_fields(run) for run in runs],
        "models": [
            {
                "model": found.model,
                "stale": found.stale.text,
                "slices": len(found.stale),
                "because_of": {name: slices.text for name, slices in found.why.items()},
                "held": found.held.text,
                "late": found.late.text,
                "waiting": {table: slices.text for table, slices in found.waiting.items()},
                "unseen": list(found.unseen),
                "compared": None if found.compared is None else len(found.compared),
                "differ": {name: slices.text for name, slices in found.differs.items()},
                "set_back": dict(found.set_back),
                "gone": list(found.gone),
                "notes": list(found.notes),
            }
            for found in due.found
        ],
        "left": due.left,
    }


def stale_result(stale: Sequence[Stale]) -> Json:
    """What differs from what would be computed now."""
    return {
        "models": [
            {
                "model": each.model,
                "compared": len(each.compared),
                "differ": each.slices.text,
                "by_input": {name: slices.text for name, slices in each.by_input.items()},
                "by_code": each.by_code.text,
                "missing": each.missing.text,
                "unknown": each.unknown.text,
                "unseen": list(each.unseen),
            }
            for each in stale
        ],
    }


def reasons_result(reasons: Reasons) -> Json:
    """Whether a slice is stale, and why."""
    return {
        "model": reasons.model,
        "slice": reasons.slice,
        "stale": reasons.is_stale,
        "run": reasons.run,
        "code": reasons.code,
        "held": reasons.is_held,
        "inputs": [asdict(each) for each in reasons.inputs],
    }


def watermarks_result(found: Sequence[Standing]) -> Json:
    return {
        "watermarks": [
            {
                "model": each.model,
                "input": each.input,
                "table": each.table,
                "snapshot": None if each.watermark is None else id_text(each.watermark.mark.snapshot_id),
                "value": None if each.watermark is None else each.watermark.mark.value,
                "moved": None if each.watermark is None else moment(each.watermark.at),
                "run": None if each.watermark is None else each.watermark.run,
                "why": None if each.watermark is None else each.watermark.why,
                "behind": each.behind,
                "oldest_unconsumed": moment(each.oldest),
            }
            for each in found
        ]
    }
