"""Row diffs as plain data."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from retcon.cli.terminals import Result
from retcon.core.events import SampleChecked
from retcon.core.hand_checks import HandCheck, TracedInput
from retcon.core.row_diffs import RowCounts, RowDiff, RowPair
from retcon.core.runs import Run


def row_diffs_result(run: Run, diffs: Sequence[RowDiff], out: Path | None) -> Result:
    """What `diff --rows` found."""
    return {
        "run": run.id,
        "state": run.state.value,
        "models": [row_diff_result(diff) for diff in diffs],
        "out": None if out is None else str(out),
    }


def row_diff_result(diff: RowDiff) -> Result:
    return {
        "model": diff.model,
        "compared": diff.slices.text,
        "key": list(diff.key),
        "why_no_key": diff.why_no_key or None,
        "without_key": diff.without_key,
        "tolerance": diff.tolerance,
        "left_out": list(diff.left_out),
        "rows": _counts(diff.total),
        "slices": [{"slice": slice.label, **_counts(counts)} for slice, counts in diff.counts.items()],
        "columns": [{"column": each.name, "changed": each.changed, "note": each.note or None} for each in diff.columns],
        "sample": [pair_result(pair) for pair in diff.sample],
        "written": diff.written,
    }


def pair_result(pair: RowPair) -> dict[str, Any]:
    """One row that differs; values are text, None is NULL."""
    return {
        "slice": pair.slice,
        "kind": pair.kind.value,
        "times": pair.times,
        "key": dict(pair.key),
        "old": None if pair.old is None else dict(pair.old),
        "new": None if pair.new is None else dict(pair.new),
        "differs": list(pair.differs),
    }


def hand_checks_result(
    run: Run, checks: Sequence[HandCheck], recorded: Sequence[SampleChecked], out: Path | None
) -> Result:
    """What `sample` drew, and what was recorded of it."""
    return {
        "run": run.id,
        "state": run.state.value,
        "models": [
            {
                "model": check.diff.model,
                "seed": check.seed,
                "differing": _counts(check.diff.total),
                "rows": [
                    {**pair_result(pair), "hash": hashed, "inputs": _origins(check.inputs, at)}
                    for at, (pair, hashed) in enumerate(zip(check.rows, check.key_hashes, strict=True))
                ],
                "inputs": [
                    {
                        "table": each.table,
                        "snapshot": None if each.snapshot_id is None else str(each.snapshot_id),
                        "found_by": each.found_by or None,
                        "why_not": each.why_not or None,
                    }
                    for each in check.inputs
                ],
            }
            for check in checks
        ],
        "confirmed": [
            {"model": each.model, "rows": each.rows, "seed": each.seed, "by": each.by, "note": each.note}
            for each in recorded
        ],
        "out": None if out is None else str(out),
    }


def _origins(inputs: Sequence[TracedInput], at: int) -> dict[str, Any]:
    found = {each.table: each.rows[at] for each in inputs if each.rows}
    return {table: {"total": rows.total, "rows": [dict(row) for row in rows.rows]} for table, rows in found.items()}


def _counts(counts: RowCounts) -> dict[str, int]:
    return {"changed": counts.changed, "added": counts.added, "removed": counts.removed}
