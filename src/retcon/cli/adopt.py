"""`retcon adopt`: take over a table that others made."""

from __future__ import annotations

from typing import Annotated

import typer

from retcon.cli.arguments import Environment, Json, ProjectFolder
from retcon.cli.json_output import adopted_result
from retcon.cli.terminals import terminal_of
from retcon.cli.views.adoptions import adopted_view


def adopt(
    context: typer.Context,
    model: Annotated[str, typer.Argument(metavar="MODEL", hidden=True)],
    reason: Annotated[str, typer.Option("--reason", metavar="TEXT", help="Why retcon takes it over.")],
    env: Environment = None,
    project: ProjectFolder = None,
    as_json: Json = False,
) -> None:
    """Take over a table that exists, for the model of its name.

    Checks that whole slices of it can be replaced: partitioning, also of old files, columns, delete files, format.
    What fits is taken over as it is and recorded; its slices count as unknown until they are restated. What doesn't
    is refused with the remedy. Nothing of the table is changed.

    \b
    Example:
      retcon adopt mart.fct_daily_revenue --reason "written by the nightly job until now"
    """
    terminal = terminal_of(context, as_json=as_json)
    workspace = terminal.workspace(project, env, writes=True)
    adopted = workspace.adopter.adopt(model, reason, clock=workspace.clock, who=workspace.who)
    terminal.report(lambda: adopted_result(adopted), lambda: adopted_view(adopted, workspace.project.env_option))
