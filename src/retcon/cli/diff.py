"""`retcon diff`: old against new, slice by slice."""

from __future__ import annotations

from typing import Annotated

import typer

from retcon.cli.arguments import Environment, Json, ProjectFolder, RunOrModel
from retcon.cli.json_output import diff_result, environment_diff_result
from retcon.cli.profile_results import profile_result
from retcon.cli.terminals import terminal_of
from retcon.cli.views.diffs import diff_view, environment_diff_view
from retcon.cli.views.profiles import profile_view
from retcon.errors import BadArguments
from retcon.flow.profile import kept_profiles
from retcon.flow.tell import Teller


def diff(
    context: typer.Context,
    run: RunOrModel,
    all_slices: Annotated[
        bool, typer.Option("--all", help="List every slice, not only those that moved most.")
    ] = False,
    profile: Annotated[
        bool, typer.Option("--profile", help="Show what columns look like, for models with the gate `profile`.")
    ] = False,
    env: Environment = None,
    project: ProjectFolder = None,
    as_json: Json = False,
) -> None:
    """Show old against new, slice by slice.

    Rows and every declared metric of a run (or of a model's newest run). Before the publish it is what was staged
    against production; afterwards what was published against what was there before. All of it was measured when the
    run was proven, so no Spark is started.

    With --profile: null rates, distinct values, means, quantiles and shapes of columns, in production and staged.

    A model with --env: production against the environment, in the slices that are published in both.

    \b
    Example:
      retcon diff 20260122_fct_daily_revenue_k3f9 --all
    """
    terminal = terminal_of(context, as_json=as_json)
    workspace = terminal.workspace(project, env)
    if profile and all_slices:
        raise BadArguments("--all lists slices, and --profile is about columns", next="pass one of them")
    if env is not None and not profile and workspace.outline.graph.find(run) is not None:
        # With its SQL: only the gates know which metrics may be summed up.
        compared = Teller(workspace.project, workspace.ledger).compare(run)
        terminal.report(
            lambda: environment_diff_result(compared),
            lambda: environment_diff_view(compared, all_slices=all_slices, width=terminal.out.width),
        )
        return
    found = workspace.teller.run(run)
    workspace.enter(found.plan.environment, f"run {found.id}")
    model = workspace.outline.graph.model(run).name if run != found.id else None
    if profile:
        kept = kept_profiles(found, workspace.ledger)
        terminal.report(lambda: profile_result(kept, model), lambda: profile_view(kept, model=model))
        return
    report = workspace.teller.diff(found)
    terminal.report(
        lambda: diff_result(report, model),
        lambda: diff_view(report, model=model, all_slices=all_slices, width=terminal.out.width),
    )
