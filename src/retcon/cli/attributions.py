"""`retcon diff --why`: how much of a change comes from code, from inputs, from chance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any

from retcon.cli.progress import watching
from retcon.cli.terminals import Result, Terminal
from retcon.cli.views.attributions import attributions_view
from retcon.core.attributions import Attribution, Parts
from retcon.core.runs import Run, RunState
from retcon.errors import Refused
from retcon.flow.attribute import Attributor
from retcon.flow.compare_rows import compared_models
from retcon.flow.records import Records
from retcon.wiring import Workspace

SLICES = 3


def show_why(run: Run, model: str | None, workspace: Workspace, terminal: Terminal, slices: int) -> None:
    """Try old and new code on old and new inputs, and tell what the change is made of."""
    workspace.teller.diff(run)  # refused where nothing was measured
    if run.state is RunState.CANCELLED:
        raise Refused(f"run {run.id} was cancelled: nothing is kept of it", state="nothing was computed")
    records = Records(project=workspace.project, ledger=workspace.ledger, tables=workspace.tables)
    models = compared_models(run, model, records)
    workspace.import_code(each for each, _ in models)
    terminal.say("starting Spark…")
    context = workspace.context(lambda _: None)
    with watching(terminal.err) as watch:
        attributor = Attributor(run=run, context=replace(context, watch=watch), reread=workspace.reread, slices=slices)
        found = [attributor.attribute(planned) for _, planned in models]
    terminal.report(lambda: attributions_result(run, found), lambda: attributions_view(run, found))


def attributions_result(run: Run, found: Sequence[Attribution]) -> Result:
    """What `diff --why` found."""
    return {
        "run": run.id,
        "state": run.state.value,
        "models": [
            {
                "model": each.model,
                "moved": each.moved,
                "why_not": each.why_not or None,
                "totals": _all_parts(each.totals),
                "slices": [
                    {
                        "slice": slice.slice,
                        "before": slice.before,
                        "measures": _all_parts(slice.parts),
                        "rows_unlike_again": slice.unlike,
                        "notes": list(slice.notes),
                    }
                    for slice in each.slices
                ],
            }
            for each in found
        ],
    }


def _all_parts(parts: Mapping[str, Parts]) -> dict[str, dict[str, Any]]:
    return {measure: _parts(each) for measure, each in parts.items()}


def _parts(parts: Parts) -> dict[str, str | None]:
    told = {
        "old": parts.old,
        "new": parts.new,
        "change": parts.change,
        "code": parts.code,
        "inputs": parts.inputs,
        "chance": parts.chance,
        "rest": parts.rest,
    }
    return {name: _text(value) for name, value in told.items()}


def _text(value: Decimal | None) -> str | None:
    return None if value is None else format(value, "f")
