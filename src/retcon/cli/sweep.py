"""`retcon sweep`: let go of what nobody needs any more."""

from __future__ import annotations

from typing import Annotated

import typer

from retcon.cli.arguments import Environment, Json, ProjectFolder
from retcon.cli.json_output import swept_result
from retcon.cli.terminals import terminal_of, zone_of
from retcon.cli.views.sweeps import swept_view
from retcon.flow.sweep import sweep as let_go


def sweep(
    context: typer.Context,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Tell what would go, and change nothing.")] = False,
    env: Environment = None,
    project: ProjectFolder = None,
    as_json: Json = False,
) -> None:
    """Drop branches, tags and old tables of runs whose retention is over.

    What a rollback or an open run may need is kept, and told with its date. No file of a table that stays is deleted:
    they go when the table's snapshots are next expired, and by removing orphan files. Starts no Spark.

    \b
    Example:
      retcon sweep --dry-run
    """
    terminal = terminal_of(context, as_json=as_json)
    workspace = terminal.workspace(project, env, writes=not dry_run)
    swept = let_go(workspace.outline, workspace.ledger, workspace.tables, workspace.clock(), dry=dry_run)
    terminal.report(lambda: swept_result(swept), lambda: swept_view(swept, zone_of(workspace)))
