"""Runs that were undone or given up: what is, and what isn't."""

from __future__ import annotations

from rich.console import RenderableType
from rich.text import Text

from retcon.cli.figures import count, counted
from retcon.cli.views.parts import QUIET, STRONG, bullets, command, facts, name, prose, section, stack, table, title
from retcon.cli.views.states import state_text
from retcon.core.runs import Run
from retcon.core.undoing import Undo, Way
from retcon.flow.rollback import Undone
from retcon.flow.statuses import RunProgress


def undone_view(undone: Undone) -> RenderableType:
    """What a rollback did, and what stands on what it undid."""
    run = undone.run
    held = [run.tables[planned.name] for planned in run.plan.models]
    tables = [each.table for each in held]
    done = [f"{', '.join(tables)}: as before the publish, in one step"]
    done += [f"{undo.table}: {way_text(undo)}" for undo in undone.ways]
    done += _kept_columns(run)
    done += [f"{each.table}: what was undone stays as {each.written}" for each in held if each.replaces is not None]
    return stack(
        [
            title("Run", Text(run.id, style=STRONG), state_text(run.state)),
            bullets(done),
            _stale(undone),
            Text(),
            facts([("again", _replan(run))]),
        ]
    )


def way_text(undo: Undo) -> str:
    """Which way a table goes back, and what stays."""
    later = f" around {counted(len(undo.later), 'later commit')}, which stay" if undo.later else ""
    match undo.way:
        case Way.MOVED:
            return "moved back to the snapshot from before"
        case Way.EXCHANGED:
            return "changes places again with the table from before"
        case Way.EMPTIED:
            return f"its slices are emptied{later}" if later else "had no history before: it is there without rows"
        case Way.COPIED:
            return f"old slices copied as new files{later}"


def _stale(undone: Undone) -> RenderableType:
    if not undone.stale:
        return bullets(["no later publish was computed from it"])
    rows = [(model, slices, Text(run, style=QUIET)) for model, slices, run in undone.stale]
    return section(
        "Stale: computed from what was undone", table((name("model"), prose("slices"), name("published by")), rows)
    )


def paused_view(progress: RunProgress) -> RenderableType:
    """What is there of a run that waits, and how it goes on."""
    run, rest = progress.run, progress.slices - progress.done
    done = [
        f"{count(progress.done)} of {counted(progress.slices, 'slice')} are staged, and kept"
        + (f"; {count(rest)} aren't" if rest else ""),
        "nothing of it is visible; production is untouched",
    ]
    return stack(
        [
            title("Run", Text(run.id, style=STRONG), state_text(run.state)),
            bullets(done),
            Text(),
            facts([("go on", command("retcon apply", run.id)), ("give up", command("retcon cancel", run.id))]),
        ]
    )


def cancelled_view(run: Run) -> RenderableType:
    """What is left of a run that was given up: its record."""
    done = [
        "nothing of it was ever visible; production is untouched",
        "its branches are dropped, and so are tables that were made for it and never written",
        *_kept_columns(run),
        "its record stays in the ledger",
    ]
    return stack(
        [
            title("Run", Text(run.id, style=STRONG), state_text(run.state)),
            bullets(done),
            Text(),
            facts([("again", _replan(run))]),
        ]
    )


def _kept_columns(run: Run) -> list[str]:
    kept = ", ".join(run.added_columns)
    return [f"columns that were added for it stay, as NULL: {kept}"] if kept else []


def _replan(run: Run) -> Text:
    return command("retcon plan --refresh", run.id)
