"""`retcon cancel`: give a run up."""

from __future__ import annotations

from typing import Annotated

import typer

from retcon.cli.arguments import Environment, Json, ProjectFolder, RunId
from retcon.cli.json_output import cancelled_result
from retcon.cli.rollback import run_named
from retcon.cli.terminals import terminal_of
from retcon.cli.views.endings import cancelled_view
from retcon.flow.cancel import stop_and_cancel


def cancel(
    context: typer.Context,
    run: RunId,
    reason: Annotated[str | None, typer.Option("--reason", metavar="TEXT", help="Why it is given up.")] = None,
    env: Environment = None,
    project: ProjectFolder = None,
    as_json: Json = False,
) -> None:
    """Give up a run that isn't published, for good.

    Its branches are dropped, and so are tables that were made for it and never written. Production is untouched.
    A process that runs it is asked to stop first, and waited for.

    \b
    Example:
      retcon cancel 20260122_fct_daily_revenue_k3f9 --reason "planned anew"
    """
    terminal = terminal_of(context, as_json=as_json)
    workspace = terminal.workspace(project, env, writes=True)
    found = run_named(run, workspace)
    ended = stop_and_cancel(found, reason or "", workspace.caller(terminal.say), workspace.tables)
    terminal.report(lambda: cancelled_result(ended), lambda: cancelled_view(ended))
