"""`retcon history`: the runs so far."""

from __future__ import annotations

from typing import Annotated

import typer

from retcon.cli.arguments import Environment, Json, ProjectFolder
from retcon.cli.status_results import history_result
from retcon.cli.terminals import terminal_of, zone_of
from retcon.cli.views.runs_listed import history_view


def history(
    context: typer.Context,
    model: Annotated[str | None, typer.Argument(metavar="MODEL", hidden=True)] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, metavar="N", help="How many runs, at most.")] = 20,
    env: Environment = None,
    project: ProjectFolder = None,
    as_json: Json = False,
) -> None:
    """List the runs, newest first.

    With MODEL, only its runs.

    \b
    Example:
      retcon history mart.fct_daily_revenue --limit 5
    """
    terminal = terminal_of(context, as_json=as_json)
    workspace = terminal.workspace(project, env)
    with workspace.questions.look():
        runs = workspace.statuses.history(model, limit)
    terminal.report(lambda: history_result(runs), lambda: history_view(runs, zone_of(workspace)))
