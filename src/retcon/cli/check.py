"""`retcon check`: does the project hold together? For people and for CI."""

from __future__ import annotations

import typer

from retcon.cli.arguments import Environment, Json, ProjectFolder, Select
from retcon.cli.json_output import check_result
from retcon.cli.terminals import terminal_of
from retcon.cli.views.projects import CheckReport, check_view
from retcon.core.promises import notes_on_updated


def check(
    context: typer.Context,
    select: Select = None,
    env: Environment = None,
    project: ProjectFolder = None,
    as_json: Json = False,
) -> None:
    """Check the project and list its models in running order.

    All problems are listed at once, each with file, line and remedy; the exit code is then 1. Starts no Spark and
    asks no catalog, so it can run in CI. Python models are imported, not called.

    SELECT narrows the list: models by name, glob (`mart.*`) or tag (`tag:finance`); `+m` adds what m reads, `m+` what
    reads m.

    \b
    Example:
      retcon check
    """
    terminal = terminal_of(context, as_json=as_json)
    workspace = terminal.workspace(project, env)
    found = workspace.project
    chosen = found.graph.select(tuple(select or ()))
    workspace.import_code(found.graph.models[name] for name in chosen)
    report = CheckReport(
        project=found,
        models=tuple(found.graph.models[name] for name in chosen),
        notes=tuple(notes_on_updated([found.graph.models[name] for name in chosen], found.settings)),
    )
    terminal.report(lambda: check_result(report), lambda: check_view(report))
