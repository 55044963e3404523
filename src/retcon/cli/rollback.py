"""`retcon rollback`: take a publish back."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

import typer

from retcon.cli.arguments import Environment, Json, ProjectFolder, RunId
from retcon.cli.hooks import deliver
from retcon.cli.json_output import undone_result
from retcon.cli.progress import watching
from retcon.cli.terminals import terminal_of
from retcon.cli.views.endings import undone_view, way_text
from retcon.core.runs import Run
from retcon.errors import BadArguments
from retcon.flow.rollback import is_left_open, require_possible, require_reason, roll_back
from retcon.flow.unrecorded import require_recorded
from retcon.wiring import Workspace


def rollback(
    context: typer.Context,
    run: RunId,
    reason: Annotated[str, typer.Option("--reason", metavar="TEXT", help="Why it is undone.")],
    env: Environment = None,
    project: ProjectFolder = None,
    as_json: Json = False,
) -> None:
    """Undo a publish, for all of its tables in one step.

    The slices of every table of the run become what they were before. What others wrote to other slices since stays:
    the old slices are then copied as new files; refused where the same slices were written since. What other runs
    computed from it meanwhile is listed as stale.

    \b
    Example:
      retcon rollback 20260122_fct_daily_revenue_k3f9 --reason "finance disagrees"
    """
    terminal = terminal_of(context, as_json=as_json)
    require_reason(reason)
    workspace = terminal.workspace(project, env, writes=True)
    found = run_named(run, workspace)
    if not is_left_open(found, workspace.ledger):
        ways = require_possible(found, reason, workspace.outline, workspace.tables, workspace.clock())
        require_recorded(found.plan, workspace.ledger, workspace.tables)
        for undo in ways.values():
            terminal.say(f"{undo.table}: {way_text(undo)}")
    terminal.say("starting Spark…")
    # While the JVM starts, stderr is its log: the live line begins after.
    parts = workspace.context(lambda _: None, project=workspace.outline)
    with watching(terminal.err) as watch:
        undone = roll_back(found, reason, replace(parts, watch=watch))
    deliver(workspace, terminal)
    terminal.report(lambda: undone_result(undone), lambda: undone_view(undone))


def run_named(name: str, workspace: Workspace) -> Run:
    """The run of this id; a model is too vague for what can't be taken back."""
    found = workspace.teller.run(name)
    if found.id != name:
        raise BadArguments(f"{name} is a model, and a run is needed", next=f"its newest run is {found.id}")
    workspace.enter(found.plan.environment, f"run {found.id}")
    return found
