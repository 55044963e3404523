"""`retcon reproduce`: compute a run's slices once more, and compare them with its record."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

import typer

from retcon.cli.arguments import Environment, Json, ProjectFolder
from retcon.cli.progress import watching
from retcon.cli.terminals import terminal_of
from retcon.cli.views.reproductions import reproduction_result, reproduction_view
from retcon.core.intervals import Interval, parse_edge
from retcon.core.runs import Run
from retcon.core.slices import Grain, SliceSet
from retcon.errors import BadArguments, RetconError
from retcon.flow.reproduce import Wanted, plan_trials, require_reproducible, wanted_slices
from retcon.flow.reproduce import reproduce as compute


def reproduce(
    context: typer.Context,
    run: Annotated[str, typer.Argument(metavar="RUN", hidden=True)],
    model: Annotated[str | None, typer.Option("--model", metavar="MODEL", help="Only this model of the run.")] = None,
    slices: Annotated[
        str | None,
        typer.Option("--slices", metavar="A..B", help="Only these slices: dates, or as `show --slices` names them."),
    ] = None,
    limit: Annotated[
        int | None, typer.Option("--limit", min=1, metavar="N", help="Only N slices of each model, drawn by chance.")
    ] = None,
    env: Environment = None,
    project: ProjectFolder = None,
    as_json: Json = False,
) -> None:
    """Compute a run's slices once more, and compare them with its record.

    RUN was published; it may have been rolled back since. The code, parameters, time zone and Spark settings on record
    are run over the snapshots that the run read, and the checksum of every slice is compared with the recorded one.
    Nothing is written but an entry in the run's record. Where a snapshot has expired, it says which. Exit code 4: a
    slice differs. Exit code 1: a slice can't be computed any more.

    \b
    Example:
      retcon reproduce 20260122_fct_daily_revenue_k3f9 --limit 5
    """
    terminal = terminal_of(context, as_json=as_json)
    if slices is not None and limit is not None:
        raise BadArguments("--slices says which, and --limit how many", next="pass one of them")
    workspace = terminal.workspace(project, env, writes=True)
    found = workspace.teller.run(run)
    workspace.enter(found.plan.environment, f"run {found.id}")
    require_reproducible(found)
    wanted = Wanted(
        model=None if model is None else _model_of(found, model, workspace.outline.graph.prefix),
        slices=None if slices is None else _slices_of(found, slices),
        most=limit,
    )
    tried = wanted_slices(found, wanted, workspace.ledger)
    with workspace.recorded(found, lambda _: None) as again:
        trials = plan_trials(found, tried, again.lacking, again.context)
        if trials.needs_spark:
            terminal.say("starting Spark…")
            # While the JVM starts, stderr is its log: the live line begins after.
            again.start()
        try:
            with watching(terminal.err) as watch:
                made = compute(trials, replace(again.context, watch=watch))
        except KeyboardInterrupt:
            again.context.warehouse.interrupt()
            raise
    terminal.report(lambda: reproduction_result(made), lambda: reproduction_view(made))
    if made.exit_code:
        raise typer.Exit(made.exit_code)


def _model_of(run: Run, name: str, prefix: str) -> str:
    names = [planned.name for planned in run.plan.models]
    found = next((each for each in names if each in (name, prefix + name)), None)
    if found is None:
        raise BadArguments(f"run {run.id} has no model {name}", next=f"it has {', '.join(names)}")
    return found


def _slices_of(run: Run, text: str) -> dict[str, SliceSet]:
    """By model: labels of its own slices, else dates, both included."""
    found: dict[str, SliceSet] = {}
    for planned in run.plan.models:
        grain = planned.slices.grain
        try:
            found[planned.name] = SliceSet.parse(grain, text)
        except ValueError:
            if isinstance(grain, Grain):
                found[planned.name] = _between(grain, text)
    if not any(slices & planned.slices for planned in run.plan.models if (slices := found.get(planned.name))):
        raise BadArguments(f"--slices {text} names none of the run's slices", next=f"`retcon show {run.id} --slices`")
    return found


def _between(grain: Grain, text: str) -> SliceSet:
    first, dots, last = text.partition("..")
    try:
        edges = parse_edge(first, "slices"), parse_edge(last if dots else first, "slices")
        return SliceSet.covering(grain, Interval.of_edges(*edges))
    except (RetconError, ValueError):
        return SliceSet(grain)
