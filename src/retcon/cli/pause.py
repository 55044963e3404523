"""`retcon pause`: stop a run where it is, also from another terminal."""

from __future__ import annotations

from typing import Annotated

import typer

from retcon.cli.arguments import Environment, Json, ProjectFolder, RunId
from retcon.cli.json_output import paused_result
from retcon.cli.rollback import run_named
from retcon.cli.terminals import terminal_of
from retcon.cli.views.endings import paused_view
from retcon.flow.pause import pause as stop_for_now


def pause(
    context: typer.Context,
    run: RunId,
    reason: Annotated[str | None, typer.Option("--reason", metavar="TEXT", help="Why it waits.")] = None,
    env: Environment = None,
    project: ProjectFolder = None,
    as_json: Json = False,
) -> None:
    """Pause a run that isn't published, also one that another process runs.

    That process is asked to stop, as by Ctrl-C, and waited for: what is staged is kept. `retcon apply` goes on with
    what is missing. Refused where the run is being published.

    \b
    Example:
      retcon pause 20260122_fct_daily_revenue_k3f9 --reason "the cluster is needed"
    """
    terminal = terminal_of(context, as_json=as_json)
    workspace = terminal.workspace(project, env, writes=True)
    found = run_named(run, workspace)
    paused = stop_for_now(found, (reason or "").strip(), workspace.caller(terminal.say))
    progress = workspace.teller.show_run(paused).progress
    terminal.report(lambda: paused_result(progress), lambda: paused_view(progress))
