"""Loads: what was found, what was done about it, and how far inputs are consumed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime

from rich.console import RenderableType
from rich.text import Text

from retcon.cli.figures import NONE, Zone, counted, slices
from retcon.cli.views.certificates import followed_up_section
from retcon.cli.views.parts import (
    QUIET,
    STRONG,
    WARN,
    bullets,
    facts,
    name,
    number,
    prose,
    section,
    stack,
    table,
    title,
)
from retcon.cli.views.runs import same_view, totals_table
from retcon.cli.views.states import state_text
from retcon.cli.views.verdicts import warnings_section
from retcon.core.loads import Found, Reasons, Stale
from retcon.flow.load import Due
from retcon.flow.tell import DiffReport, RunReport
from retcon.flow.watermarks import Standing


def load_view(due: Due, reports: Sequence[RunReport], diffs: Sequence[DiffReport], zone: Zone) -> RenderableType:
    """What a load did."""
    if not reports:
        return stack([_nothing(due), _compared(due), _notes(due)])
    parts: list[RenderableType | None] = []
    for report, diff in zip(reports, diffs, strict=True):
        parts += [
            title("Load", Text(report.run.id, style=STRONG), state_text(report.run.state)),
            warnings_section(report.verdicts),
            section("Change", totals_table(diff)),
            same_view(report.run),
            followed_up_section(report),
        ]
    published = reports[-1].run.published
    when = Text(f"published {zone.named(published)}", style=QUIET) if published is not None else None
    return stack([*parts, _compared(due), _notes(due), when])


def found_view(due: Due) -> RenderableType:
    """What a load would do."""
    if due.plan is None:
        return stack([_nothing(due), _compared(due), _notes(due)])
    rows = [(each.model, str(len(each.stale)), slices(each.stale), _why(each)) for each in due.found if each.stale]
    heads = (name("model"), name("slices"), prose("which"), prose("because of"))
    more = [f"{due.left:,} more slices in later publishes"] if due.left else []
    return stack(
        [section("To be loaded", table(heads, rows)), bullets(more) if more else None, _compared(due), _notes(due)]
    )


def stale_notes(stale: Sequence[Stale]) -> tuple[str, ...]:
    """How many slices differ, of how many, and because of what."""
    return tuple(
        f"{each.model}: {len(each.slices):,} of {counted(len(each.compared), 'slice')} differ: {slices(each.slices)}"
        f" ({'; '.join(_reasons(each))})"
        for each in stale
        if each.slices
    )


def nothing_differs_view(stale: Sequence[Stale]) -> RenderableType:
    """Nothing has to be planned."""
    compared = counted(sum(len(each.compared) for each in stale), "slice")
    unknown = [
        f"{each.model}: of {slices(each.unknown)} it isn't known what they were made of"
        for each in stale
        if each.unknown
    ]
    unseen = [f"{each.model}: changes of {table_name} can't be seen" for each in stale for table_name in each.unseen]
    lines = [*unknown, *unseen]
    return stack(
        [Text(f"nothing differs: {compared} compared, no plan was written"), bullets(lines) if lines else None]
    )


def reasons_view(reasons: Reasons) -> RenderableType:
    """Whether a slice is stale, and why."""
    verdict = Text("stale", style=WARN) if reasons.is_stale else Text("up to date")
    rows: list[tuple[str, RenderableType]] = [
        ("made by", reasons.run or "nobody: it isn't published"),
        ("code", reasons.code),
    ]
    rows += [(each.table, each.text) for each in reasons.inputs]
    if reasons.is_held:
        rows.append(("held", "undone by a rollback: loads leave it alone until a new plan"))
    return stack([title("Slice", Text(f"{reasons.model} {reasons.slice}", style=STRONG), verdict), facts(rows)])


def _reasons(stale: Stale) -> Iterator[str]:
    for table_name, hit in stale.by_input.items():
        yield f"{table_name} changed for {len(hit):,}"
    if stale.by_code:
        yield f"code or settings changed for {len(stale.by_code):,}"
    if stale.missing:
        yield f"{len(stale.missing):,} never built"


def watermarks_view(found: Sequence[Standing], zone: Zone) -> RenderableType:
    """Per input: how far, since when, and what is behind it."""
    if not found:
        return Text("no model has an input that loads follow")
    rows = [
        (
            each.model,
            each.table,
            _place(each),
            NONE if each.watermark is None else zone.moment(each.watermark.at),
            _behind(each, zone),
        )
        for each in found
    ]
    heads = (name("model"), name("input"), prose("consumed up to"), name(f"moved ({zone.name})"), prose("since then"))
    return section("Watermarks", table(heads, rows))


def _place(standing: Standing) -> str:
    if standing.watermark is None:
        return "not set: the next load compares everything"
    mark = standing.watermark.mark
    if mark.uuid:
        return f"snapshot {mark.snapshot_id}"
    column, sign, moment = (mark.value or "").partition("=")
    return f"{column} {datetime.fromisoformat(moment):%Y-%m-%d %H:%M:%S} UTC" if sign else "its files as they were"


def _behind(standing: Standing, zone: Zone) -> str:
    if standing.behind is None:
        return NONE if standing.watermark is None else "can't be told"
    if not standing.behind:
        return "nothing"
    oldest = f", the oldest of {zone.moment(standing.oldest)}" if standing.oldest is not None else ""
    return f"{counted(standing.behind, 'commit')}{oldest}"


def _nothing(due: Due) -> Text:
    fine = sum(not each.is_left_alone for each in due.found)
    if not fine:
        return Text("nothing was loaded")
    models = counted(fine, "model")
    return Text(f"nothing to load: {models} up to date with what they read")


def _compared(due: Due) -> RenderableType | None:
    """Of models whose whole history was compared: what isn't what was consumed, input by input."""
    deep = [(each, each.compared) for each in due.found if each.compared is not None]
    if not deep:
        return None
    rows: list[tuple[str, str, str, str]] = []
    for each, compared in deep:
        rows += [(each.model, table_name, str(len(hit)), slices(hit)) for table_name, hit in each.differs.items()]
        if not each.differs:
            rows.append((each.model, NONE, "0", f"{counted(len(compared), 'slice')} compared, none differs"))
    heads = (name("model"), name("input"), number("differ"), prose("slices"))
    return section("Compared with what was consumed", table(heads, rows))


def _why(found: Found) -> str:
    return ", ".join(found.why)


def _notes(due: Due) -> RenderableType | None:
    left = [line for each in due.found for line in _told(each)]
    seen = list(dict.fromkeys(note for each in due.found for note in each.notes))
    parts = [
        section(head, bullets(Text(line, style=WARN) for line in lines))
        for head, lines in (("Left alone", left), ("Seen", seen))
        if lines
    ]
    return stack(parts) if parts else None


def _told(found: Found) -> Iterator[str]:
    if found.held:
        yield f"{found.model}: {slices(found.held)} held by a rollback, until a new plan"
    if found.late:
        yield f"{found.model}: {slices(found.late)} changed and older than its window: `retcon exceptions` tells more"
    for table_name, waiting in found.waiting.items():
        yield f"{found.model}: {slices(waiting)} waiting for {table_name}"
    for why in found.set_back.values():
        yield f"{found.model}: {why}"
    for table_name in found.gone:
        yield f"{found.model}: {table_name} isn't there"
    for table_name in (each for each in found.unseen if each not in found.gone):
        yield f"{found.model}: changes of {table_name} can't be seen"
