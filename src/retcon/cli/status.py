"""`retcon status`: what is published, and what is under way."""

from __future__ import annotations

import typer

from retcon.cli.arguments import Environment, Json, ProjectFolder, Select
from retcon.cli.json_output import status_result
from retcon.cli.terminals import terminal_of, zone_of
from retcon.cli.views.runs_listed import status_view


def status(
    context: typer.Context,
    select: Select = None,
    env: Environment = None,
    project: ProjectFolder = None,
    as_json: Json = False,
) -> None:
    """Tell what is published and what is under way.

    SELECT narrows the list: models by name, glob (`mart.*`) or tag (`tag:finance`).

    \b
    Example:
      retcon status 'mart.*'
    """
    terminal = terminal_of(context, as_json=as_json)
    workspace = terminal.workspace(project, env)
    report = workspace.teller.status(tuple(select or ()))
    terminal.report(lambda: status_result(report), lambda: status_view(report, zone_of(workspace)))
