"""Schedules: when models are loaded, and whether they were."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import RenderableType
from rich.text import Text

from retcon.cli.figures import Zone
from retcon.cli.views.parts import (
    BAD,
    GOOD,
    QUIET,
    STRONG,
    WARN,
    Cell,
    bullets,
    name,
    prose,
    section,
    stack,
    table,
    title,
)
from retcon.core.schedules import Kind, Standing


def schedule_view(standing: Sequence[Standing], zone: Zone) -> RenderableType:
    """Per model how its schedules stand; below, their next times."""
    if not standing:
        return Text('no model has a schedule: write `schedule: "0 4 * * *"` among its keys', style=QUIET)
    heads = (name("model"), name("cron"), name("last due"), prose("state"))
    coming = [
        (each.model, each.schedule.cron, Text("  ").join(Text(zone.moment(moment)) for moment in each.coming))
        for each in standing
    ]
    return stack(
        [
            title("Schedules", Text(f"times in {zone.name}", style=QUIET)),
            Text(),
            table(heads, (_row(each, zone) for each in standing)),
            section("Next", table((name(), name(), prose()), coming)),
        ]
    )


def not_due_view(standing: Sequence[Standing], zone: Zone) -> RenderableType:
    """Nothing was loaded: who does it instead, or when it is time."""
    if not standing:
        return Text("nothing is due: none of these models has a schedule")
    busy = {each.model: each.turn.claim.driver for each in standing if each.is_due and each.turn.claim is not None}
    if busy:
        lines = bullets(f"{model}: {driver} is at it" for model, driver in busy.items())
        return stack([Text("nothing is left to load"), lines])
    coming = sorted((each.coming[0], each.model) for each in standing if each.coming)
    told = f"; next is {coming[0][1]} at {zone.named(coming[0][0])}" if coming else ""
    return Text(f"nothing is due{told}")


def _row(standing: Standing, zone: Zone) -> tuple[Cell, ...]:
    what = Text("compared as a whole, ", style=QUIET) if standing.kind is Kind.DEEP else Text()
    return standing.model, standing.schedule.cron, zone.moment(standing.due), what + _state(standing, zone)


def _state(standing: Standing, zone: Zone) -> Text:
    turn = standing.turn
    if turn.claim is not None:
        return Text(f"{turn.claim.driver} is at it", style=STRONG)
    if not standing.is_due:
        return Text("done", style=GOOD) if standing.due is not None else Text("not yet due", style=QUIET)
    done = f"last done {zone.moment(turn.done)}" if turn.done is not None else "never done"
    return Text.assemble((f"overdue, {done}", WARN), (f": {turn.trouble}" if turn.trouble else "", BAD))
