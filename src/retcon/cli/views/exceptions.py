"""Late changes: what they would change, and what was decided."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from rich.console import RenderableType
from rich.text import Text

from retcon.cli.figures import Zone, amount, change, counted, moment
from retcon.cli.views.parts import BAD, GOOD, QUIET, WARN, Cell, command, name, number, prose, section, stack, table
from retcon.core.exceptions import Decision, LateChange, LateEntry
from retcon.core.plans import Plan
from retcon.flow.tell import Change

_STYLES = {Decision.OPEN: WARN, Decision.APPROVED: GOOD, Decision.RESTATED: GOOD, Decision.REJECTED: BAD}


def exceptions_view(entries: Sequence[LateEntry], not_begun: Sequence[LateEntry], zone: Zone) -> RenderableType:
    """Per slice: since when it is known, and how each measure is and would be; and which plans wait to be applied."""
    plans = {each.run: f"{each.late.model} {each.late.slice}" for each in not_begun if each.run is not None}
    approved = [
        Text.assemble(f"approved, not begun yet ({first}): ", command("retcon apply", plan), ", or decide anew")
        for plan, first in plans.items()
    ]
    if not entries:
        return stack([Text("no exceptions: no change older than a model's window waits for a decision"), *approved])
    rows: list[tuple[Cell, ...]] = []
    for each in entries:
        told = f"{zone.moment(each.first_seen)}" + (
            "" if each.first_seen == each.last_seen else f", last {zone.moment(each.last_seen)}"
        )
        firsts: tuple[Cell, ...] = (each.late.model, each.late.slice, _decision(each), told)
        for position, (measure, pair) in enumerate(_measures(each.late)):
            lead = firsts if position == 0 else ("", "", "", "")
            rows.append((*lead, measure, amount(pair.old), amount(pair.new), change(pair)))
        if each.reason:
            rows.append(("", "", "", Text(f"{each.by}: {each.reason}", style=QUIET), "", "", "", ""))
    heads = (
        name("model"),
        name("slice"),
        name("state"),
        prose(f"seen ({zone.name})"),
        name("measure"),
        number("published"),
        number("would be"),
        number("change"),
    )
    waiting = [each for each in entries if each.decision is Decision.OPEN]
    first = waiting[0].late.model if waiting else ""
    steps = (
        Text.assemble("decide: ", command("retcon exceptions approve", first, "--by … --reason …"), ", or reject")
        if waiting
        else None
    )
    return stack([section("Exceptions", table(heads, rows)), steps, *approved])


def decided_view(entries: Sequence[LateEntry], plan: Plan | None = None) -> RenderableType:
    """What was decided just now."""
    slices = counted(len(entries), "exception")
    if plan is None:
        return Text(f"{slices} of {entries[0].late.model} rejected: history stays as it is")
    return Text(f"{slices} of {entries[0].late.model} approved by {plan.by}: restated when this plan is published")


def exceptions_result(entries: Sequence[LateEntry]) -> dict[str, Any]:
    """The same for programs."""
    return {
        "exceptions": [
            {
                "model": each.late.model,
                "slice": each.late.slice,
                "because_of": list(each.late.because_of),
                "rows": {"published": each.late.rows[0], "would_be": each.late.rows[1]},
                "metrics": {
                    metric: {"published": old, "would_be": new} for metric, (old, new) in each.late.metrics.items()
                },
                "first_seen": moment(each.first_seen),
                "last_seen": moment(each.last_seen),
                "state": each.decision.value,
                "plan": each.run,
                "by": each.by,
                "decided": moment(each.decided),
                "reason": each.reason,
            }
            for each in entries
        ]
    }


def _decision(each: LateEntry) -> Text:
    text = each.decision.value + (f" by {each.run}" if each.run and each.decision is not Decision.OPEN else "")
    return Text(text, style=_STYLES[each.decision])


def _measures(late: LateChange) -> list[tuple[str, Change]]:
    old, new = late.rows
    rows = Change(old=None if old is None else Decimal(old), new=None if new is None else Decimal(new))
    metrics = [(metric, Change(old=_number(a), new=_number(b))) for metric, (a, b) in late.metrics.items()]
    return [("rows", rows), *metrics]


def _number(text: str | None) -> Decimal | None:
    return None if text is None else Decimal(text)
