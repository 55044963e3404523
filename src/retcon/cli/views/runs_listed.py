"""Many runs or models at a glance."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import RenderableType
from rich.text import Text

from retcon.cli.figures import NONE, Zone, count, counted, slices
from retcon.cli.views.parts import QUIET, Cell, bullets, name, number, prose, section, stack, table
from retcon.cli.views.states import state_text
from retcon.flow.tell import ModelStatus, RunProgress


def status_view(report: Sequence[ModelStatus], zone: Zone) -> RenderableType:
    """Per model what readers see; below, what is under way."""
    if not report:
        return Text("no models", style=QUIET)
    heads = (
        name("model"),
        number("slices"),
        prose("published"),
        number("rows"),
        name(f"last publish ({zone.name})"),
        name("by run"),
    )
    flying = {progress.run.id: progress for status in report for progress in status.in_flight}
    return stack([table(heads, (_status_row(each, zone) for each in report)), _under_way(list(flying.values()))])


def _status_row(status: ModelStatus, zone: Zone) -> tuple[Cell, ...]:
    unknown = f"unknown: {slices(status.unknown)}" if status.unknown else ""
    if status.published is None:
        return status.model, NONE, Text(unknown or "never published", style=QUIET), NONE, NONE, NONE
    return (
        status.model,
        count(len(status.slices)),
        "; ".join(filter(None, (slices(status.slices), unknown))),
        count(status.rows),
        zone.moment(status.published.published),
        status.published.id,
    )


def _under_way(flying: Sequence[RunProgress]) -> RenderableType | None:
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
