"""Loads: what was found, what was done about it, and how far inputs are consumed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import RenderableType
from rich.text import Text

from retcon.cli.figures import Zone, counted, slices
from retcon.cli.views.parts import QUIET, STRONG, WARN, bullets, name, prose, section, stack, table, title
from retcon.cli.views.runs import totals_table
from retcon.cli.views.states import state_text
from retcon.core.loads import Found
from retcon.flow.load import Due
from retcon.flow.tell import DiffReport, RunReport


def load_view(due: Due, reports: Sequence[RunReport], diffs: Sequence[DiffReport], zone: Zone) -> RenderableType:
    """What a load did."""
    if not reports:
        return stack([_nothing(due), _notes(due)])
    parts: list[RenderableType | None] = []
    for report, diff in zip(reports, diffs, strict=True):
        parts += [
            title("Load", Text(report.run.id, style=STRONG), state_text(report.run.state)),
            section("Change", totals_table(diff)),
        ]
    published = reports[-1].run.published
    when = Text(f"published {zone.named(published)}", style=QUIET) if published is not None else None
    return stack([*parts, _notes(due), when])


def found_view(due: Due) -> RenderableType:
    """What a load would do."""
    if due.plan is None:
        return stack([_nothing(due), _notes(due)])
    rows = [(each.model, str(len(each.stale)), slices(each.stale), _why(each)) for each in due.found if each.stale]
    heads = (name("model"), name("slices"), prose("which"), prose("because of"))
    more = [f"{due.left:,} more slices in later publishes"] if due.left else []
    return stack([section("To be loaded", table(heads, rows)), bullets(more) if more else None, _notes(due)])


def _nothing(due: Due) -> Text:
    models = counted(len(due.found), "model")
    return Text(f"nothing to load: {models} up to date with what they read")


def _why(found: Found) -> str:
    return ", ".join(found.why)


def _notes(due: Due) -> RenderableType | None:
    lines = [line for each in due.found for line in _told(each)]
    return section("Left alone", bullets(Text(line, style=WARN) for line in lines)) if lines else None


def _told(found: Found) -> Iterator[str]:
    if found.held:
        yield f"{found.model}: {slices(found.held)} held by a rollback, until a new plan"
    if found.late:
        yield f"{found.model}: {slices(found.late)} changed and older than its window: `retcon plan` restates them"
    for table_name, waiting in found.waiting.items():
        yield f"{found.model}: {slices(waiting)} waiting for {table_name}"
    for table_name in found.unseen:
        yield f"{found.model}: changes of {table_name} can't be seen"
