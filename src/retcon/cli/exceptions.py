"""`retcon exceptions`: changes too old to be restated unasked, and what is decided of them."""

from __future__ import annotations

import shlex
from typing import Annotated

import typer

from retcon.cli.arguments import Environment, Json, ProjectFolder, Select
from retcon.cli.json_output import plan_result
from retcon.cli.plan import shown_file
from retcon.cli.terminals import Terminal, terminal_of, zone_of
from retcon.cli.views.exceptions import decided_view, exceptions_result, exceptions_view
from retcon.cli.views.parts import stack
from retcon.cli.views.plans import plan_view
from retcon.errors import BadArguments
from retcon.flow.plan import Ask
from retcon.wiring import Workspace, new_suffix

APPROVE, REJECT = "approve", "reject"


def exceptions(
    context: typer.Context,
    select: Select = None,
    every: Annotated[bool, typer.Option("--all", help="Also what was decided before.")] = False,
    by: Annotated[str | None, typer.Option("--by", metavar="NAME", help="Who decides; needed for a decision.")] = None,
    reason: Annotated[str | None, typer.Option("--reason", metavar="TEXT", help="Why; needed for a decision.")] = None,
    env: Environment = None,
    project: ProjectFolder = None,
    as_json: Json = False,
) -> None:
    """Show changes that are older than a model's window, or decide what becomes of them.

    Loads restate what is younger than `replay.window`; older changes are recorded here, with what they would change.
    SELECT narrows the models. `retcon exceptions approve MODEL [SLICE…]` writes the plan that restates them, and
    records who signed it off; `retcon exceptions reject MODEL [SLICE…]` records why history stays as it is. Without
    slices, all open ones of the model are meant.

    \b
    Example:
      retcon exceptions approve mart.fct_daily_revenue 2025-10-25 --by cfo --reason "restated by the bank"
    """
    terminal = terminal_of(context, as_json=as_json)
    words = list(select or ())
    is_decision = words[:1] in ([APPROVE], [REJECT])
    workspace = terminal.workspace(project, env, writes=is_decision)
    if is_decision:
        _decide(words, by or "", reason or "", workspace, terminal)
        return
    if by is not None or reason is not None:
        raise BadArguments("--by and --reason are for a decision", next="retcon exceptions approve MODEL …")
    names = workspace.outline.graph.select(tuple(words))
    found = workspace.late_changes.listed(names, everything=every)
    terminal.report(
        lambda: exceptions_result(found),
        lambda: exceptions_view(found, workspace.late_changes.not_begun(names), zone_of(workspace)),
    )


def _decide(words: list[str], by: str, reason: str, workspace: Workspace, terminal: Terminal) -> None:
    decision, *names = words
    if not names:
        raise BadArguments("a decision is about one model", next=f"retcon exceptions {decision} MODEL [SLICE…] …")
    model = workspace.project.graph.model(names[0])
    entries = workspace.late_changes.chosen(model, names[1:])
    if decision == REJECT:
        workspace.late_changes.reject(entries, at=workspace.clock(), by=by, reason=reason)
        now = {each.entry: each for each in workspace.late_changes.listed((model.name,), everything=True)}
        decided = [now[each.entry] for each in entries]
        terminal.report(lambda: exceptions_result(decided), lambda: decided_view(decided))
        return
    env = () if workspace.outline.environment is None else ("--env", workspace.outline.environment)
    ask = Ask(
        select=(),
        reason=reason,
        command=shlex.join(["retcon", "exceptions", *words, "--by", by, *env, "--reason", reason]),
        by=by.strip(),
        now=workspace.clock(),
        suffix=new_suffix(),
    )
    plan = workspace.late_changes.plan(model, entries, ask)
    path = workspace.write_plan(plan)
    workspace.late_changes.approve(entries, plan, at=workspace.clock())
    settings, zone = workspace.project.settings, zone_of(workspace)
    terminal.report(
        lambda: plan_result(plan, path),
        lambda: stack([plan_view(plan, settings, zone, shown_file(path)), decided_view(entries, plan)]),
    )
