"""`retcon diff`: old against new, slice by slice."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from retcon.cli.arguments import Environment, Json, ProjectFolder, RunOrModel
from retcon.cli.attributions import SLICES, show_why
from retcon.cli.json_output import diff_result, environment_diff_result
from retcon.cli.profile_results import profile_result
from retcon.cli.row_diffs import RowOptions, show_rows
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
    rows: Annotated[bool, typer.Option("--rows", help="Compare the rows themselves; starts Spark.")] = False,
    model: Annotated[str | None, typer.Option("--model", metavar="MODEL", help="Only this model of the run.")] = None,
    limit: Annotated[
        int | None, typer.Option("--limit", min=0, metavar="N", help="With --rows: show N of them. [default: 20]")
    ] = None,
    tolerance: Annotated[
        float | None,
        typer.Option("--tolerance", metavar="SHARE", help="With --rows: of floating-point values. [default: 1e-9]"),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="FILE", help="With --rows: all of them as .parquet or .csv, or a page as .html."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="With --out: replace a file that is there.")] = False,
    why: Annotated[
        bool,
        typer.Option("--why", help="Tell how much comes from code, from inputs, from chance; starts Spark."),
    ] = False,
    slices: Annotated[
        int | None, typer.Option("--slices", min=1, metavar="N", help="With --why: try N slices. [default: 3]")
    ] = None,
    env: Environment = None,
    project: ProjectFolder = None,
    as_json: Json = False,
) -> None:
    """Show old against new, slice by slice.

    Rows and every declared metric of a run (or of a model's newest run). Before the publish it is what was staged
    against production; afterwards what was published against what was there before. All of it was measured when the
    run was proven, so no Spark is started.

    With --profile: null rates, distinct values, means, quantiles and shapes of columns, in production and staged.

    With --rows the rows themselves are compared, by the model's key: which were changed, added and removed, by slice
    and column, and some of them old beside new. With --why some slices are computed by old code on new inputs, by new
    code on old inputs, and once more, to tell how much of the change comes from which. Nothing is written.

    A model with --env: production against the environment, in the slices that are published in both.

    \b
    Example:
      retcon diff 20260122_fct_daily_revenue_k3f9 --all
    """
    terminal = terminal_of(context, as_json=as_json)
    options = RowOptions(limit=limit, tolerance=tolerance, out=out, force=force)
    if options.given is not None and not rows:
        raise BadArguments(f"{options.given} is about rows, and --rows wasn't given", next="pass --rows with it")
    if force and out is None:
        raise BadArguments("--force replaces a file, and none was named", next="pass --out FILE with it")
    if slices is not None and not why:
        raise BadArguments("--slices says how many --why tries, and that wasn't given", next="pass --why with it")
    asked = [name for name, is_asked in (("--rows", rows), ("--why", why), ("--profile", profile)) if is_asked]
    if len(asked) > 1:
        raise BadArguments(f"{' and '.join(asked)} are different questions", next="ask one after the other")
    if profile and all_slices:
        raise BadArguments("--all lists slices, and --profile is about columns", next="pass one of them")
    workspace = terminal.workspace(project, env)
    if not (rows or why or profile) and env is not None and workspace.outline.graph.find(run) is not None:
        # With its SQL: only the gates know which metrics may be summed up.
        compared = Teller(workspace.project, workspace.ledger).compare(run)
        terminal.report(
            lambda: environment_diff_result(compared),
            lambda: environment_diff_view(compared, all_slices=all_slices, width=terminal.out.width),
        )
        return
    found = workspace.teller.run(run)
    workspace.enter(found.plan.environment, f"run {found.id}")
    meant = workspace.outline.graph.model(model or run).name if model or run != found.id else None
    if meant is not None and found.plan.model(meant) is None:
        listed = ", ".join(planned.name for planned in found.plan.models)
        raise BadArguments(f"run {found.id} has no model {meant}", next=f"it has {listed}")
    if profile:
        kept = kept_profiles(found, workspace.ledger)
        terminal.report(lambda: profile_result(kept, meant), lambda: profile_view(kept, model=meant))
        return
    if rows:
        show_rows(found, meant, workspace, terminal, options)
        return
    if why:
        show_why(found, meant, workspace, terminal, SLICES if slices is None else slices)
        return
    report = workspace.teller.diff(found)
    terminal.report(
        lambda: diff_result(report, meant),
        lambda: diff_view(report, model=meant, all_slices=all_slices, width=terminal.out.width),
    )
