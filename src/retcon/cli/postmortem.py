"""`retcon postmortem`: how drift came in, what it did, what repairs it, as Markdown."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from retcon.cli.arguments import Environment, Json, ProjectFolder
from retcon.cli.drifts import input_result
from retcon.cli.terminals import Result, terminal_of, zone_of
from retcon.cli.views.postmortems import postmortem_text
from retcon.errors import BadArguments
from retcon.flow.postmortem import PostMortem


def postmortem(
    context: typer.Context,
    model: Annotated[str, typer.Argument(metavar="MODEL", hidden=True)],
    run: Annotated[
        str | None, typer.Option("--run", metavar="RUN", help="About what this run corrected, or would.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="Write it there. [default: standard output]")
    ] = None,
    env: Environment = None,
    project: ProjectFolder = None,
    as_json: Json = False,
) -> None:
    """Write down how drift of MODEL came in, what it did to the figures, and what repairs it.

    About what watermarks have passed by and is there now (`retcon doctor --watermarks` finds it), or with --run about
    what a run corrected: commits with their rows and times, which load passed them by, the metrics by slice before and
    after as they were measured, the repairing run or the plan for it, and who reads the model. Where there is no drift
    nothing is written. Spark is started only where rows of a source with `updated` are looked at.

    \b
    Example:
      retcon postmortem mart.fct_daily_revenue --out postmortem.md
    """
    terminal = terminal_of(context, as_json=as_json)
    workspace = terminal.workspace(project, env)
    if run is None:
        of = workspace.project.graph.model(model)
        found = workspace.coroner.of_drift(of, workspace.clock())
    else:
        if "." in run:
            raise BadArguments(f"{run} is no run's id", next="`retcon history` lists the runs")
        named = workspace.teller.run(run)
        workspace.enter(named.plan.environment, f"run {named.id}")
        of = workspace.project.graph.model(model)
        found = workspace.coroner.of_run(of, named, workspace.clock())
    if not found.slices:
        text = None
    else:
        settings = workspace.project.settings
        text = postmortem_text(found, settings.consumers, zone_of(workspace), workspace.project.env_option)
    if text is not None and out is not None:
        try:
            out.write_text(text, encoding="utf-8")
        except OSError as error:
            raise BadArguments(f"--out {out}: {error.strerror}", next="name a file that can be written") from error
        terminal.say(f"written to {out}")
    if text is None:
        said = f"no drift of {of.name}" if run is None else f"run {run} changed no slice of {of.name}"
        terminal.report(lambda: _result(found, None), lambda: Text(f"{said}: nothing was written"))
    elif as_json:
        terminal.report(lambda: _result(found, text), lambda: Text(text))
    elif out is None:
        typer.echo(text, nl=False)


def _result(found: PostMortem, text: str | None) -> Result:
    return {
        "model": found.model,
        "slices": found.slices.text,
        "inputs": [input_result(each) for each in found.inputs],
        "run": None if found.run is None else found.run.id,
        "measured": found.diff is not None and bool(found.diff.slices),
        "readers": list(found.readers),
        "consumers": list(found.consumers),
        "markdown": text,
    }
