"""`retcon rollback`: take a publish back."""

from __future__ import annotations

from typing import Annotated

import typer

from retcon.cli.arguments import Json, ProjectFolder, RunId
from retcon.cli.json_output import undone_result
from retcon.cli.terminals import terminal_of
from retcon.cli.views.endings import undone_view
from retcon.core.runs import Run, RunState
from retcon.errors import BadArguments, Refused
from retcon.flow.rollback import roll_back
from retcon.flow.tell import Teller


def rollback(
    context: typer.Context,
    run: RunId,
    reason: Annotated[str, typer.Option("--reason", metavar="TEXT", help="Why it is undone.")],
    project: ProjectFolder = None,
    as_json: Json = False,
) -> None:
    """Undo a publish, for all of its tables in one step.

    Every table of the run goes back to where it was before. Refused where something landed on one of them later.
    What other runs computed from it meanwhile is listed as stale.

    \b
    Example:
      retcon rollback 20260122_fct_daily_revenue_k3f9 --reason "finance disagrees"
    """
    terminal = terminal_of(context, as_json=as_json)
    if not reason.strip():
        raise BadArguments("a rollback needs a reason", next='pass --reason "why it is undone"')
    workspace = terminal.workspace(project)
    found = run_named(run, workspace.teller)
    if found.state is not RunState.PUBLISHED:
        raise Refused(
            f"run {found.id} is {found.state.value.replace('_', ' ')}: there is no publish to roll back",
            next=f"`retcon show {found.id}` tells more",
        )
    terminal.say("starting Spark…")
    undone = roll_back(found, reason, workspace.context(lambda _: None))
    terminal.report(lambda: undone_result(undone), lambda: undone_view(undone))


def run_named(name: str, teller: Teller) -> Run:
    """The run of this id; a model is too vague for what can't be taken back."""
    found = teller.run(name)
    if found.id != name:
        raise BadArguments(f"{name} is a model, and a run is needed", next=f"its newest run is {found.id}")
    return found
