"""Rows for a person to check: old beside new, with the input rows that they came from; and who has checked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from rich.console import RenderableType
from rich.text import Text

from retcon.cli.figures import Zone, count, counted
from retcon.cli.views.parts import GOOD, QUIET, STRONG, WARN, bullets, command, facts, indented, section, stack, title
from retcon.cli.views.row_diffs import counts_text, notes, pair_title, pair_values, shown
from retcon.cli.views.states import state_text
from retcon.core.events import SampleChecked
from retcon.core.hand_checks import HandCheck, TracedInput
from retcon.core.runs import Run
from retcon.flow.tell import RunReport


def hand_checks_view(run: Run, checks: Sequence[HandCheck], options: str) -> RenderableType:
    """The rows that were drawn, by these options."""
    line = title("Sample", Text(run.id, style=STRONG), state_text(run.state))
    again = ["retcon sample", run.id, *([options] if options else []), "--confirm --by …"]
    has_rows = any(check.rows for check in checks)
    ending = facts([("checked?", command(*again))]) if has_rows else None
    return stack([line, facts([("why", run.plan.reason)]), *map(_model, checks), Text(), ending])


def _model(check: HandCheck) -> RenderableType:
    diff = check.diff
    if not check.rows:
        return section(f"{diff.model}: no row differs")
    told = f"{counted(len(check.rows), 'row')} of {counts_text(diff.total)}"
    return section(
        f"{diff.model}: {told}",
        Text(f"drawn by the seed {check.seed}", style=QUIET),
        *notes(diff),
        *_inputs(check.inputs),
        Text(),
        *(_row(check, at) for at in range(len(check.rows))),
    )


def _inputs(inputs: Sequence[TracedInput]) -> Iterator[RenderableType]:
    lines = [
        Text(f"{each.table}: not traced: {each.why_not}", style=WARN)
        if each.why_not
        else Text(f"{each.table}: found by {each.found_by}, at snapshot {each.snapshot_id}")
        for each in inputs
    ]
    if lines:
        yield bullets(lines)


def _row(check: HandCheck, at: int) -> RenderableType:
    pair = check.rows[at]
    parts: list[RenderableType] = [pair_title(pair), indented(pair_values(pair))]
    for each in check.inputs:
        if not each.why_not:
            found = each.rows[at]
            left = f" ({count(len(found.rows))} of {count(found.total)} rows)" if found.total != len(found.rows) else ""
            parts.append(indented(Text(f"from {each.table}{left}" + ("" if found.total else ": none"), style=QUIET)))
            parts += [
                indented(Text("  ".join(f"{name} = {shown(value)}" for name, value in row.items())), by=4)
                for row in found.rows
            ]
    return stack(parts)


def confirmed_view(run: Run, recorded: Sequence[SampleChecked]) -> RenderableType:
    """What was put on record."""
    lines = [Text(f"{each.model}: {counted(each.rows, 'row')} checked by {each.by}", style=GOOD) for each in recorded]
    return stack([title("Checked", Text(run.id, style=STRONG)), bullets(lines), command("retcon show", run.id)])


def checked_facts(report: RunReport, zone: Zone) -> Iterator[tuple[str, RenderableType]]:
    """Who has looked at which rows, for the header of a run."""
    for position, event in enumerate(report.checked):
        said = event.body
        when = zone.named(datetime.fromisoformat(event.at))
        text = f"{counted(said['rows'], 'row')} of {said['model']} by {said['by']}, {when}"
        lines = [Text(text), Text(f"seed {said['seed']}" + (f": {said['note']}" if said["note"] else ""), style=QUIET)]
        if _is_of_another(report.run, said):
            lines.append(Text("what was checked was staged anew since", style=WARN))
        yield "checked" if position == 0 else "", stack(lines)


def _is_of_another(run: Run, said: Mapping[str, Any]) -> bool:
    table = run.tables.get(said["model"])
    now = () if table is None else (table.head, table.published_snapshot)
    return said["snapshots"][1] not in now and any(each is not None for each in now)
