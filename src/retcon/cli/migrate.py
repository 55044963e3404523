"""`retcon migrate`: from full refresh to incremental, after computing both and comparing them."""

from __future__ import annotations

import shlex
from functools import partial
from typing import Annotated

import typer

from retcon.cli.apply import go_on, opened
from retcon.cli.arguments import Environment, Json, ProjectFolder
from retcon.cli.terminals import terminal_of
from retcon.cli.views.migrations import migration_result, migration_view
from retcon.core.migrations import Comparison
from retcon.core.waves import MAX_ACTIVE
from retcon.errors import GatesFailed
from retcon.flow.migrate import run_both
from retcon.flow.plan import Ask
from retcon.wiring import new_suffix

_REASON = "migration: from full refresh to incremental"


def migrate(
    context: typer.Context,
    model: Annotated[str, typer.Argument(metavar="MODEL", hidden=True)],
    days: Annotated[int, typer.Option("--days", min=1, metavar="N", help="Compare the last N days; needed.")],
    max_active: Annotated[
        int, typer.Option("--max-active", min=1, metavar="N", help="Waves that run at the same time.")
    ] = MAX_ACTIVE,
    env: Environment = None,
    project: ProjectFolder = None,
    as_json: Json = False,
) -> None:
    """Compare a model computed slice by slice with its full refresh, before loads take over.

    MODEL is cut by time. The last N days that its inputs hold and that are over are planned, staged and proven as
    always, beside production. Then the same code is computed once over the whole inputs, as a full refresh does, and
    not written; both are compared slice by slice. Where all is the same, `retcon apply` of the run cuts over. Called
    again, it goes on with its run. Exit code 1: slices differ. Exit code 4: a gate failed; the comparison is told.

    \b
    Example:
      retcon migrate mart.fct_daily_revenue --days 30
    """
    terminal = terminal_of(context, as_json=as_json)
    workspace = terminal.workspace(project, env, writes=True)
    migrated = workspace.project.graph.model(model)
    ask = Ask(
        select=(),
        reason=_REASON,
        command=f"retcon migrate {shlex.quote(model)} --days {days}{workspace.project.env_option}",
        by=workspace.who,
        now=workspace.clock(),
        suffix=new_suffix(),
    )
    migrator = workspace.migrator
    slices = migrator.slices(migrated, days, ask.now)
    unfinished = migrator.unfinished(migrated, slices)
    if unfinished is None:
        plan = migrator.plan(migrated, slices, ask)
        workspace.write_plan(plan)
    else:
        plan = unfinished.plan
        terminal.say(f"going on with {plan.id}, which isn't over")
    found: list[Comparison] = []
    steps = partial(run_both, model=migrated, tell=found.append)
    try:
        go_on(opened(plan, workspace), workspace, terminal, max_active, steps)
    except GatesFailed:
        for comparison in found:
            terminal.evidence = {**terminal.evidence, "comparison": migration_result(comparison)}
            if not as_json:
                terminal.show(migration_view(comparison, may_publish=False))
        raise
    (comparison,) = found
    terminal.report(lambda: migration_result(comparison), lambda: migration_view(comparison, may_publish=True))
    if not comparison.is_same:
        raise typer.Exit(1)
