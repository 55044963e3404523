"""Other systems that keep watermarks: told after whatever moved one, and shown beside them."""

from __future__ import annotations

from collections.abc import Sequence
from time import sleep
from typing import Any

from rich.console import RenderableType
from rich.text import Text

from retcon.cli.figures import NONE, Zone, counted, moment
from retcon.cli.terminals import Terminal
from retcon.cli.views.parts import WARN, name, prose, section, table
from retcon.errors import Fault
from retcon.flow.deliver import HookStanding
from retcon.wiring import Workspace


def deliver(workspace: Workspace, terminal: Terminal) -> None:
    """Tell hooks what they weren't told yet. Whatever comes of it, what moved the watermarks stands."""
    if not workspace.outline.settings.hooks:
        return
    try:
        found = workspace.deliverer.deliver(sleep)
    except Fault as fault:
        terminal.say(Text(f"hooks weren't told: {fault.message}; the next load tells them", style=WARN))
        return
    for each in found:
        if each.told:
            terminal.say(f"told {each.hook} of {counted(each.told, 'movement')} of watermarks")
        if each.waiting:
            terminal.say(Text(f"{each.hook} wasn't told ({each.error}): {_waits(each)} for the next load", style=WARN))


def _waits(standing: HookStanding) -> str:
    number = len(standing.waiting)
    return f"{counted(number, 'movement')} of watermarks {'waits' if number == 1 else 'wait'}"


def hooks_section(found: Sequence[HookStanding], zone: Zone) -> RenderableType | None:
    """Per hook: when it was told last, and what waits."""
    if not found:
        return None
    rows = [
        (
            each.hook,
            NONE if each.last is None else zone.moment(each.last),
            Text(f"{_waits(each)}: {each.error or 'not tried yet'}", style=WARN) if each.waiting else "nothing",
        )
        for each in found
    ]
    return section("Hooks", table((name("hook"), name(f"told ({zone.name})"), prose("not told yet")), rows))


def hooks_result(found: Sequence[HookStanding]) -> list[dict[str, Any]]:
    """The same for machines."""
    return [
        {
            "hook": each.hook,
            "told": moment(each.last),
            "waiting": [
                {"id": d.id, "movement": d.movement, "model": d.mark.model, "input": d.mark.input, "tries": d.tries}
                for d in each.waiting
            ],
            "error": each.error,
        }
        for each in found
    ]
