"""`retcon load`: find what changed in the inputs, and bring models up to date with it."""

from __future__ import annotations

from typing import Annotated

import typer

from retcon.cli.apply import go_on, opened
from retcon.cli.arguments import Environment, Json, ProjectFolder, Select
from retcon.cli.json_output import load_result
from retcon.cli.terminals import Terminal, terminal_of, zone_of
from retcon.cli.views.loads import found_view, load_view
from retcon.core.loads import total
from retcon.core.runs import Run
from retcon.errors import Refused
from retcon.flow.apply import apply
from retcon.flow.cancel import stop_and_cancel
from retcon.flow.load import Due
from retcon.flow.plan import Ask
from retcon.wiring import Workspace, new_suffix

_REASON = "load: what changed in the inputs"


def load(
    context: typer.Context,
    select: Select = None,
    exclude: Annotated[
        list[str] | None, typer.Option("--exclude", metavar="SELECT", help="Leave these out; may be repeated.")
    ] = None,
    max_active: Annotated[
        int, typer.Option("--max-active", min=1, metavar="N", help="Waves that run at the same time.")
    ] = 2,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be loaded, and write nothing.")] = False,
    env: Environment = None,
    project: ProjectFolder = None,
    as_json: Json = False,
) -> None:
    """Load what changed: find it, stage it, prove it, publish it.

    SELECT narrows the models, all by default. What changed in their inputs since they were computed is found from
    metadata; those slices are staged beside production, judged by the gates and published in one step together with
    the watermarks. A backlog that is over the project's limits is worked off in several publishes, oldest first. A
    load that was interrupted is gone on with. Where nothing changed, nothing is started.

    \b
    Example:
      retcon load 'mart.*'
    """
    terminal = terminal_of(context, as_json=as_json)
    workspace = terminal.workspace(project, env)
    names = workspace.project.graph.select(tuple(select or ()), tuple(exclude or ()))
    if not names:
        raise Refused("no model is left to load", next="`retcon check` lists the models of this project")
    if dry_run:
        due = _due(names, workspace)
        terminal.report(lambda: load_result(due, ()), lambda: found_view(due))
        return
    workspace.ledger.bring_up_to_date()
    runs: list[Run] = []
    unfinished = workspace.loader.unfinished(names)
    if unfinished is not None and not unfinished.tables:
        # Nothing of it is staged: what changed since is found along with it.
        stop_and_cancel(unfinished, "found anew", workspace.caller(terminal.say), workspace.tables)
    elif unfinished is not None:
        terminal.say(f"going on with {unfinished.id}, which isn't over")
        runs.append(_run(opened(unfinished.plan, workspace), workspace, terminal, max_active))
    due = _due(names, workspace)
    while due.plan is not None:
        runs.append(_run(opened(due.plan, workspace), workspace, terminal, max_active))
        if not due.left:
            break
        before, due = due, _due(names, workspace)
        if total(due.found) >= total(before.found):
            break  # as many as before: they aren't fewer the next time
        terminal.say(f"{total(due.found):,} more slices to be loaded")
    else:
        workspace.loader.advance(due, workspace.clock(), workspace.who)
    reports = [workspace.teller.show_run(run) for run in runs]
    diffs = [workspace.teller.diff(run) for run in runs]
    terminal.report(lambda: load_result(due, runs), lambda: load_view(due, reports, diffs, zone_of(workspace)))


def _due(names: tuple[str, ...], workspace: Workspace) -> Due:
    ask = Ask(
        select=(),
        reason=_REASON,
        command="retcon load",
        by=workspace.who,
        now=workspace.clock(),
        suffix=new_suffix(),
    )
    return workspace.loader.due(names, ask)


def _run(run: Run, workspace: Workspace, terminal: Terminal, max_active: int) -> Run:
    return go_on(run, workspace, terminal, max_active, apply)
