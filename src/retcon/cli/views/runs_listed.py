"""Many runs at a glance."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import RenderableType

from retcon.cli.figures import NONE, Zone, count, counted
from retcon.cli.views.parts import Cell, bullets, name, number, prose, section, table
from retcon.cli.views.states import state_text
from retcon.flow.statuses import RunProgress


def under_way(flying: Sequence[RunProgress]) -> RenderableType | None:
    """Runs that aren't over, and how far they are."""
    if not flying:
        return None
    rows = [
        (
            progress.run.id,
            state_text(progress.run.state),
            f"{count(progress.done)}/{counted(progress.slices, 'slice')}",
            progress.run.plan.reason,
        )
        for progress in flying
    ]
    return section("Under way", table((name("run"), name("state"), number("staged"), prose("why")), rows))


def history_view(runs: Sequence[RunProgress], zone: Zone) -> RenderableType:
    """Runs, newest first."""
    if not runs:
        return bullets(["no runs yet: `retcon plan …` makes a plan, `retcon apply` runs it"])
    heads = (
        name("run"),
        name("state"),
        name(f"begun ({zone.name})"),
        name("by"),
        number("slices"),
        number("rows"),
        prose("why"),
    )
    return table(heads, (_history_row(each, zone) for each in runs))


def _history_row(progress: RunProgress, zone: Zone) -> tuple[Cell, ...]:
    run = progress.run
    staged = count(progress.slices)
    if progress.done != progress.slices:
        staged = f"{count(progress.done)}/{staged}"
    return (
        run.id,
        state_text(run.state),
        zone.moment(run.created),
        run.by,
        staged,
        count(progress.rows) if progress.done else NONE,
        run.plan.reason,
    )
