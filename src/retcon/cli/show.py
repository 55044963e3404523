"""`retcon show`: everything about one run, or one model."""

from __future__ import annotations

from typing import Annotated

import typer

from retcon.cli.arguments import Environment, Json, ProjectFolder, RunOrModel
from retcon.cli.certificate_results import certificate_results
from retcon.cli.json_output import model_result, run_result, schema_result
from retcon.cli.status_results import run_fields
from retcon.cli.terminals import Terminal, terminal_of, zone_of
from retcon.cli.timing_results import taken_result, timing_result
from retcon.cli.views.certificates import certificate_view
from retcon.cli.views.models import model_view
from retcon.cli.views.runs import code_text, run_view
from retcon.cli.views.schemas import schema_view
from retcon.cli.views.timings import timing_view
from retcon.core.evolution import column_history
from retcon.core.runs import RunState
from retcon.errors import BadArguments, Refused
from retcon.flow.tell import RunReport, Teller
from retcon.wiring import Workspace


def show(
    context: typer.Context,
    subject: RunOrModel,
    code: Annotated[bool, typer.Option("--code", help="Print the code that the run was opened with.")] = False,
    slices: Annotated[bool, typer.Option("--slices", help="List every slice of the run.")] = False,
    certificate: Annotated[
        bool, typer.Option("--certificate", help="Print what the publish left alone and put in place, by manifests.")
    ] = False,
    timing: Annotated[
        bool, typer.Option("--timing", help="Tell where the run's time went: steps, waves, and Spark's own metrics.")
    ] = False,
    schema: Annotated[
        bool, typer.Option("--schema", help="Tell how the model's columns changed, from which snapshot and run on.")
    ] = False,
    env: Environment = None,
    project: ProjectFolder = None,
    as_json: Json = False,
) -> None:
    """Tell everything about one run, or one model.

    Of a run: why, state, tables with their snapshots, how to undo it, verdicts, waves, what it took, and whether its
    record is sound; with --certificate what its publish left alone, with --timing where its time went. Of a model:
    keys, inputs, readers, consumers, last runs; with --schema the history of its table's columns.

    \b
    Example:
      retcon show 20260122_fct_daily_revenue_k3f9 --slices
    """
    terminal = terminal_of(context, as_json=as_json)
    workspace = terminal.workspace(project, env)
    model = workspace.outline.graph.find(subject)
    given = {"--code": code, "--slices": slices, "--certificate": certificate, "--timing": timing}
    about_a_run = next((option for option, is_given in given.items() if is_given), None)
    if about_a_run and schema:
        raise BadArguments(f"{about_a_run} is about a run, and --schema about a model", next="pass one of them")
    if about_a_run and model is not None:
        raise BadArguments(
            f"{about_a_run} is about a run, and {subject} is a model",
            next=f"name a run: `retcon history {model.name}{workspace.outline.env_option}` lists them",
        )
    if schema:
        _show_schema(workspace.outline.graph.model(subject).name, workspace, terminal)
    elif certificate and (code or slices or timing):
        raise BadArguments("--certificate prints the certificate alone", next="pass one of them")
    elif timing and (code or slices):
        raise BadArguments("--timing prints the timing alone", next="pass one of them")
    elif certificate:
        _show_certificate(subject, workspace, terminal)
    elif timing:
        _show_timing(subject, workspace, terminal)
    elif model is not None:
        _show_model(model.name, workspace, terminal)
    else:
        _show_run(subject, workspace, terminal, code=code, slices=slices)


def _show_model(name: str, workspace: Workspace, terminal: Terminal) -> None:
    project = workspace.project  # with its SQL: how slices are batched, which gates there are
    with workspace.ledger.look():
        report = Teller(project, workspace.ledger).show_model(name)
    settings = project.settings
    terminal.report(lambda: model_result(report), lambda: model_view(report, settings.consumers, zone_of(workspace)))


def _show_schema(name: str, workspace: Workspace, terminal: Terminal) -> None:
    facts = workspace.tables.facts(name)
    if facts is None:
        raise Refused(f"{name} has no table yet", next=f"retcon plan {name}{workspace.outline.env_option} --reason …")
    steps = column_history(facts.versions)
    terminal.report(lambda: schema_result(name, steps), lambda: schema_view(name, steps, zone_of(workspace)))


def _show_certificate(name: str, workspace: Workspace, terminal: Terminal) -> None:
    report = _report_on(name, workspace)
    run, found = report.run, report.certificates
    if not found:
        is_published = run.state is RunState.PUBLISHED
        raise Refused(
            f"run {run.id} has no certificate: " + ("none is recorded" if is_published else "it isn't published"),
            next=f"`retcon apply {run.id}` makes it" if is_published else "it is made by the publish",
        )
    terminal.report(
        lambda: {**run_fields(run), "certificate": certificate_results(found)}, lambda: certificate_view(run, found)
    )


def _show_timing(name: str, workspace: Workspace, terminal: Terminal) -> None:
    report = _report_on(name, workspace)
    run = report.run
    if not report.timing.turns:
        raise Refused(
            f"run {run.id} is {run.state.value}: nothing of it was run yet", next=f"`retcon apply {run.id}` runs it"
        )
    terminal.report(
        lambda: {**run_fields(run), "taken": taken_result(report), "timing": timing_result(report.timing)},
        lambda: timing_view(report),
    )


def _report_on(name: str, workspace: Workspace) -> RunReport:
    with workspace.ledger.look():
        run = workspace.teller.run(name)
        workspace.enter(run.plan.environment, f"run {run.id}")
        return workspace.teller.show_run(run)


def _show_run(name: str, workspace: Workspace, terminal: Terminal, *, code: bool, slices: bool) -> None:
    if code and slices and not terminal.as_json:
        raise BadArguments("--code prints the code alone, and --slices was given", next="pass one of them, or --json")
    report = _report_on(name, workspace)
    if code and not terminal.as_json:
        terminal.out.print(code_text(report), soft_wrap=True)
        return
    terminal.report(
        lambda: run_result(report, None, code=code, slices=slices),
        lambda: run_view(report, zone_of(workspace), all_slices=slices),
    )
