"""`retcon apply`: run a plan; called again, it goes on from wherever things stand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from enum import StrEnum
from functools import partial
from time import monotonic
from typing import Annotated

import typer

from retcon.cli.arguments import Environment, Json, ProjectFolder
from retcon.cli.certificate_results import followed_up_result
from retcon.cli.hooks import deliver
from retcon.cli.json_output import run_result, verdict_results
from retcon.cli.progress import watching
from retcon.cli.terminals import Terminal, terminal_of, zone_of
from retcon.cli.views.certificates import followed_up_section
from retcon.cli.views.runs import applied_view, failed_view
from retcon.core.budgets import Budget, parse_budget
from retcon.core.plans import Plan
from retcon.core.runs import Run, RunState
from retcon.core.waves import MAX_ACTIVE
from retcon.errors import BadArguments, GatesFailed, ProductionFailed, Refused
from retcon.flow.apply import Override, Until, open_run
from retcon.flow.apply import apply as drive
from retcon.flow.context import Context
from retcon.flow.follow_up import is_followed_up
from retcon.flow.meters import require_budget
from retcon.flow.tell import DiffReport
from retcon.wiring import Workspace


class Stop(StrEnum):
    """Where to stop for review."""

    STAGED = "staged"
    PROVEN = "proven"


def apply(
    context: typer.Context,
    plan: Annotated[str, typer.Argument(metavar="PLAN", hidden=True)],
    until: Annotated[
        Stop | None,
        typer.Option("--until", metavar="staged|proven", help="Stop there, for review; `apply` again goes on."),
    ] = None,
    max_active: Annotated[
        int, typer.Option("--max-active", min=1, metavar="N", help="Waves that run at the same time.")
    ] = MAX_ACTIVE,
    override: Annotated[
        list[str] | None,
        typer.Option("--override", metavar="GATE", help="Answer for a failed gate, `model:gate`; may be repeated."),
    ] = None,
    no_rebase: Annotated[
        bool,
        typer.Option("--no-rebase", help="Refuse where others wrote meanwhile, instead of staging those slices anew."),
    ] = False,
    reason: Annotated[str | None, typer.Option("--reason", metavar="TEXT", help="Why the override is right.")] = None,
    budget: Annotated[
        str | None,
        typer.Option("--budget", metavar="AMOUNT|TIME", help="Pause between waves where the run takes more in all."),
    ] = None,
    env: Environment = None,
    project: ProjectFolder = None,
    as_json: Json = False,
) -> None:
    """Run a plan: stage, prove, publish.

    PLAN is the plan's file or id. Everything is computed beside production, judged by the gates, and published in
    one step, or not at all. Slices that others added rows to meanwhile are staged and proven anew. Ctrl-C pauses;
    applying again goes on with what is missing, and does nothing where all is done. After the publish, manifests show
    that nothing else changed, and the gates are judged on production. With --budget the run pauses where it has taken
    more, to go on with a higher one. Exit code 4: a gate failed, and nothing was
    published; or production doesn't pass, and the error says so.

    \b
    Example:
      retcon apply 20260122_fct_daily_revenue_k3f9 --until proven
    """
    terminal = terminal_of(context, as_json=as_json)
    answer = Override(gates=tuple(override or ()), reason=reason or "")
    if answer.gates and not answer.reason.strip():
        raise BadArguments("an override needs a reason", next='pass --reason "why this is right all the same"')
    if reason is not None and not answer.gates:
        raise BadArguments(
            "--reason says why an override is right, and none was given",
            next="pass --override model:gate with it, or leave it out: the plan has a reason of its own",
        )
    if answer.gates and until is Stop.STAGED:
        raise BadArguments(
            "--until staged stops before any gate is judged, and --override answers for one",
            next="leave one of them out, or pass --until proven",
        )
    workspace = terminal.workspace(project, env, writes=True)
    reviewed = workspace.read_plan(plan)
    workspace.enter(reviewed.environment, f"plan {reviewed.id}")
    limit = None if budget is None else parse_budget(budget, workspace.project.settings.cost)
    _require_budget(reviewed, limit, workspace)
    run = opened(reviewed, workspace)
    if run.state is RunState.PUBLISHED:
        follow_up(run, workspace, terminal)
    else:
        as_far_as = Until(until.value) if until else Until.PUBLISHED
        steps = partial(
            drive, until=as_far_as, override=answer, rebase=not no_rebase, expect=reviewed.expect, budget=limit
        )
        workspace.expect(run.plan)
        run = go_on(run, workspace, terminal, max_active, steps)
    report = workspace.teller.show_run(run)
    diff = _measured(workspace, run)
    settings = workspace.project.settings
    terminal.report(
        lambda: run_result(report, diff), lambda: applied_view(report, diff, settings.consumers, zone_of(workspace))
    )


def _require_budget(plan: Plan, given: Budget | None, workspace: Workspace) -> None:
    """Before the run is opened, and Spark started."""
    run = workspace.ledger.run(plan.id)
    # What is proven is published, and what may be published already is found out, whatever it has cost.
    is_settled = run is not None and (run.state.is_over or run.state in (RunState.PROVEN, RunState.PUBLISHING))
    if not is_settled:
        require_budget(run, plan, given, workspace.ledger, workspace.project.settings, workspace.cores)


def opened(plan: Plan, workspace: Workspace) -> Run:
    """The plan's run. Before Spark is started, so that a refusal comes at once."""
    w, models = workspace, workspace.project.graph.models
    w.require_expectable(plan)
    w.import_code(models[planned.name] for planned in plan.models if planned.name in models)
    return open_run(plan, w.project, w.ledger, w.tables, w.clock, w.who)


def go_on(
    run: Run, workspace: Workspace, terminal: Terminal, max_active: int, steps: Callable[[Run, Context], Run]
) -> Run:
    """Start Spark, and take these steps before the eyes of whoever waits."""
    terminal.say("starting Spark…")
    # While the JVM starts, stderr is its log: the live line begins after.
    context = workspace.context(lambda _: None, max_active=max_active)
    try:
        with watching(terminal.err) as watch:
            done = steps(run, replace(context, watch=watch))
    except ProductionFailed:
        # It is published all the same, and its watermarks have moved.
        deliver(workspace, terminal)
        _tell_production(run, workspace, terminal)
        raise
    except GatesFailed:
        verdicts = tuple(workspace.ledger.verdicts(run.id))
        terminal.evidence = {"run": run.id, "verdicts": verdict_results(verdicts)}
        if not terminal.as_json:
            terminal.show(failed_view(verdicts))
        raise
    finally:
        workspace.since = monotonic()  # for what this process does next
    deliver(workspace, terminal)
    return done


def follow_up(run: Run, workspace: Workspace, terminal: Terminal) -> None:
    """Of a run that is published, make up for what a crash left out; Spark is started only if that needs it."""
    if is_followed_up(run, workspace.ledger):
        terminal.say(f"run {run.id} is already published; nothing was done")
    else:
        terminal.say(f"run {run.id} is published; looking at it as it is published")
    context = workspace.context(lambda _: None, on_start=lambda: terminal.say("starting Spark…"))
    try:
        drive(run, context)
    except ProductionFailed:
        _tell_production(run, workspace, terminal)
        raise


def _tell_production(run: Run, workspace: Workspace, terminal: Terminal) -> None:
    report = workspace.teller.show_run(workspace.ledger.run(run.id) or run)
    terminal.evidence = {"run": run.id, **followed_up_result(report)}
    view = followed_up_section(report)
    if not terminal.as_json and view is not None:
        terminal.show(view)


def _measured(workspace: Workspace, run: Run) -> DiffReport | None:
    try:
        return workspace.teller.diff(run)
    except Refused:
        return None  # stopped before anything was measured
