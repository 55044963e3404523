"""Schedules: when models are loaded, and whether they were."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import RenderableType
from rich.text import Text

from retcon.cli.figures import NONE, Zone
from retcon.cli.views.parts import BAD, GOOD, QUIET, STRONG, WARN, Cell, bullets, name, prose, section, stack, table
from retcon.core.schedules import Kind, Standing


def schedule_view(standing: Sequence[Standing], zone: Zone) -> RenderableType:
    """Per model how its schedules stand; below, their next times."""
    if not standing:
        return Text('no model has a schedule: write `schedule: "0 4 * * *"` among its keys', style=QUIET)
    heads = (name("model"), name("cron"), name(f"last due ({zone.name})"), name("last done"), prose("state"))
    coming = [
        (_named(each), Text("  ").join(Text(zone.moment(moment)) for moment in each.coming) or Text(NONE))
        for each in standing
    ]
    return stack(
        [
            table(heads, (_row(each, zone) for each in standing)),
            section(f"Next ({zone.name})", table((name(), name()), coming)),
        ]
    )


def not_due_view(standing: Sequence[Standing], zone: Zone) -> RenderableType:
    """Nothing was loaded: who does it instead, or when it is time."""
    if not standing:
        return Text("nothing is due: none of these models has a schedule")
    busy = [f"{each.model}: {each.turn.claim.driver} is at it" for each in standing if each.is_due and each.turn.claim]
    if busy:
        return stack([Text("nothing is left to load"), bullets(busy)])
    coming = sorted((each.coming[0], each.model) for each in standing if each.coming)
    told = f"; next is {coming[0][1]} at {zone.named(coming[0][0])}" if coming else ""
    return Text(f"nothing is due{told}")


def _row(standing: Standing, zone: Zone) -> tuple[Cell, ...]:
    return (
        Text(_named(standing)),
        standing.schedule.cron,
        zone.moment(standing.due),
        zone.moment(standing.turn.done),
        _state(standing),
    )


def _named(standing: Standing) -> str:
    return standing.model + (" (deep)" if standing.kind is Kind.DEEP else "")


def _state(standing: Standing) -> Text:
    turn = standing.turn
    if turn.claim is not None:
        return Text(f"{turn.claim.driver} is at it", style=STRONG)
    if not standing.is_due:
        return Text("done", style=GOOD) if standing.due is not None else Text("not yet due", style=QUIET)
    if turn.trouble:
        return Text(f"overdue: {turn.trouble}", style=BAD)
    return Text("overdue" if turn.done is not None else "overdue: never loaded on schedule", style=WARN)
