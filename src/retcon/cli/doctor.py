"""`retcon doctor`: what is wrong between the ledger and the tables, and what can be mended."""

from __future__ import annotations

from dataclasses import replace
from time import monotonic
from typing import Annotated

import typer

from retcon.cli.arguments import Environment, Json, ProjectFolder, Select
from retcon.cli.drifts import drift_result
from retcon.cli.hooks import deliver
from retcon.cli.json_output import checkup_result
from retcon.cli.progress import watching
from retcon.cli.terminals import Terminal, terminal_of, zone_of
from retcon.cli.views.checkups import checkup_view
from retcon.cli.views.drifts import drift_view
from retcon.core.troubles import untold_hook
from retcon.errors import BadArguments
from retcon.flow.doctor import Checkup
from retcon.flow.ports import Progress, Watch
from retcon.wiring import Workspace

_PATIENCE = 2.0
"""Seconds before anybody wants to know how far it is."""


def doctor(
    context: typer.Context,
    select: Select = None,
    watermarks: Annotated[
        bool, typer.Option("--watermarks", help="Look for changes of inputs that watermarks have passed by.")
    ] = False,
    repair: Annotated[bool, typer.Option("--repair", help="Record what the tables know and the ledger lost.")] = False,
    files: Annotated[bool, typer.Option("--files", help="Look for every file, not for a sample.")] = False,
    env: Environment = None,
    project: ProjectFolder = None,
    as_json: Json = False,
) -> None:
    """Compare the ledger with the tables, and explain what doesn't fit.

    Broken records, runs that nobody works on, branches and tags without a run, publishes that the ledger doesn't know
    or that the tables don't, files that are missing: each with what it means and what to do. Nothing is changed
    without --repair, and no table by it. The exit code is 1 as long as something is wrong. Spark is
    started only for --watermarks, where rows of a source with `updated` are looked at.

    With --watermarks it looks for drift instead, in all models or those of SELECT: what inputs hold is compared with
    what each published slice was computed from, wherever the watermarks are. What they have passed by and no load will
    take up is told with the commits that brought it, and with how many rows.

    \b
    Example:
      retcon doctor --repair
    """
    terminal = terminal_of(context, as_json=as_json)
    workspace = terminal.workspace(project, env, writes=repair)
    if watermarks:
        if repair or files:
            raise BadArguments("--watermarks changes nothing and reads no files", next="leave out the other option")
        _look_for_drift(tuple(select or ()), workspace, terminal)
        return
    if select:
        raise BadArguments("models are named with --watermarks only", next=f"retcon doctor --watermarks {select[0]}")
    with watching(terminal.err) as watch:
        found = workspace.doctor(terminal.say).examine(repair=repair, all_files=files, watch=_patient(watch))
    found = _with_hooks(found, workspace, terminal, repair=repair)
    terminal.report(lambda: checkup_result(found), lambda: checkup_view(found, repair=repair))
    if found.troubles:
        raise typer.Exit(1)


def _look_for_drift(select: tuple[str, ...], workspace: Workspace, terminal: Terminal) -> None:
    names = workspace.project.graph.select(select)
    found = workspace.detective.look(names, workspace.clock())
    env = workspace.project.env_option
    terminal.report(lambda: drift_result(found), lambda: drift_view(found, zone_of(workspace), env))
    if any(each.slices for each in found):
        raise typer.Exit(1)


def _with_hooks(found: Checkup, workspace: Workspace, terminal: Terminal, *, repair: bool) -> Checkup:
    """With hooks that weren't told of watermarks; with `repair`, after telling them."""
    if repair:
        deliver(workspace, terminal)
    untold = [untold_hook(h.hook, len(h.waiting), h.error) for h in workspace.deliverer.standing() if h.waiting]
    return replace(found, troubles=(*found.troubles, *untold))


def _patient(watch: Watch) -> Watch:
    began = monotonic()

    def told(progress: Progress) -> None:
        if monotonic() - began >= _PATIENCE:
            watch(progress)

    return told
