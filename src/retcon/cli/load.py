"""`retcon load`: find what changed in the inputs, and bring models up to date with it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from retcon.cli.apply import follow_up, go_on, opened
from retcon.cli.arguments import Environment, Json, ProjectFolder, Select
from retcon.cli.hooks import deliver
from retcon.cli.json_output import verdict_results
from retcon.cli.load_results import load_result
from retcon.cli.schedule_results import turns_result
from retcon.cli.terminals import Terminal, terminal_of, zone_of
from retcon.cli.views.loads import found_view, load_view
from retcon.cli.views.schedules import not_due_view
from retcon.core.loads import refusal_of, total, troubles_of
from retcon.core.runs import Run
from retcon.core.schedules import Kind, Standing
from retcon.core.waves import MAX_ACTIVE
from retcon.errors import BadArguments, Refused
from retcon.flow.apply import apply
from retcon.flow.cancel import cancel_if_left
from retcon.flow.driving import turn_or_busy
from retcon.flow.load import Due
from retcon.flow.plan import Ask
from retcon.flow.schedule import taking
from retcon.flow.still_fits import changed_code
from retcon.values import dataclass
from retcon.wiring import Workspace, new_claim, new_suffix

_REASON = "load: what changed in the inputs"


def load(
    context: typer.Context,
    select: Select = None,
    exclude: Annotated[
        list[str] | None, typer.Option("--exclude", metavar="SELECT", help="Leave these out; may be repeated.")
    ] = None,
    max_active: Annotated[
        int, typer.Option("--max-active", min=1, metavar="N", help="Waves that run at the same time.")
    ] = MAX_ACTIVE,
    due: Annotated[
        bool, typer.Option("--due", help="Only models whose schedule came due since they were looked at last.")
    ] = False,
    deep: Annotated[
        bool, typer.Option("--deep", help="Compare the whole history with what was consumed, wherever watermarks are.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be loaded, and write nothing.")] = False,
    env: Environment = None,
    project: ProjectFolder = None,
    as_json: Json = False,
) -> None:
    """Load what changed: find it, stage it, prove it, publish it.

    SELECT narrows the models, all by default. What changed in their inputs since they were computed is found from
    metadata; those slices are staged beside production, judged by the gates and published in one step together with
    the watermarks. A backlog that is over the project's limits is worked off in several publishes, oldest first. A
    load that was interrupted is gone on with, or found anew where its code changed. Where nothing changed, Spark isn't
    started, but for looking at rows of a source with `updated`.

    With --due, models with neither `schedule` nor `replay.deep` are left out, times that were missed are made up for by
    one load, and of two processes that are called at once one loads a model. On the schedule `replay.deep`, and with
    --deep, all slices are compared, and what differs is told.

    \b
    Example:
      retcon load 'mart.*'
    """
    terminal = terminal_of(context, as_json=as_json)
    if due and deep:
        raise BadArguments("--due compares whole histories on their own schedule", next="pass --due or --deep")
    workspace = terminal.workspace(project, env, writes=not dry_run)
    left_out = tuple(exclude or ())
    names = workspace.project.graph.select(tuple(select or ()), left_out)
    if not names:
        raise Refused("no model is left to load", next="`retcon check` lists the models of this project")
    everything = _Scope(names=names, deep=names if deep else (), exclude=left_out)
    standing = workspace.schedules.standing(names, workspace.clock(), coming=1)
    open_turns = [each for each in standing if each.is_due and (due or deep or each.kind is Kind.LOAD)]
    if dry_run:
        scope = _scope(open_turns, left_out) if due else everything
        found = _due(scope, workspace, dry_run=True) if scope.names else _NOTHING
        terminal.report(
            lambda: load_result(found, ()) | turns_result(open_turns if due else None),
            lambda: found_view(found) if scope.names else not_due_view(standing, zone_of(workspace)),
        )
        return
    with taking(open_turns, workspace.caller(terminal.say), claim=new_claim()) as taken:
        scope = _scope(taken.turns, left_out) if due else everything
        loaded = _loaded(scope, workspace, terminal, max_active) if scope.names else _Loaded()
        taken.troubles.update(troubles_of(loaded.told.found))
    reports = [workspace.teller.show_run(run) for run in loaded.runs]
    diffs = [workspace.teller.diff(run) for run in loaded.runs]
    told, zone = loaded.told, zone_of(workspace)
    warned = [verdict for report in reports for verdict in report.verdicts if verdict.verdict.is_warning]
    result = load_result(told, loaded.runs) | turns_result(taken.turns if due else None)
    result["warnings"] = verdict_results(warned)
    back = refusal_of(told.found)
    if back is not None and terminal.as_json:
        terminal.evidence = result
        raise back
    terminal.report(
        lambda: result,
        lambda: load_view(told, reports, diffs, zone) if scope.names else not_due_view(standing, zone),
    )
    if back is not None:
        raise back


@dataclass(frozen=True, kw_only=True)
class _Scope:
    """Which models are loaded, and which of them are compared as a whole."""

    names: tuple[str, ...]
    deep: tuple[str, ...]
    exclude: tuple[str, ...]
    """Selectors of what isn't restated either where it reads these."""


_NOTHING = Due(found=(), plan=None)


@dataclass(frozen=True, kw_only=True)
class _Loaded:
    """What was found and done."""

    told: Due = _NOTHING
    runs: tuple[Run, ...] = ()


def _scope(turns: Sequence[Standing], exclude: tuple[str, ...]) -> _Scope:
    """A model that is compared as a whole is loaded by that, too."""
    return _Scope(
        names=tuple(dict.fromkeys(each.model for each in turns)),
        deep=tuple(each.model for each in turns if each.kind is Kind.DEEP),
        exclude=exclude,
    )


def _loaded(scope: _Scope, workspace: Workspace, terminal: Terminal, max_active: int) -> _Loaded:
    runs: list[Run] = []
    for run in workspace.loader.unchecked(scope.names):
        follow_up(run, workspace, terminal)
    unfinished = workspace.loader.unfinished(scope.names)
    changed = "" if unfinished is None else _changed(unfinished, workspace)
    if unfinished is not None and (changed or not unfinished.tables):
        # Nothing of it is staged, or not as it would be now: what changed since is found along with it.
        if changed:
            terminal.say(f"{unfinished.id} isn't gone on with: {changed} changed since; what it found is found anew")
        why = f"found anew: {changed} changed" if changed else "found anew"
        cancel_if_left(unfinished, why, workspace.caller(terminal.say), workspace.tables)
    elif unfinished is not None:
        terminal.say(f"going on with {unfinished.id}, which isn't over")
        runs.append(_run(opened(unfinished.plan, workspace), workspace, terminal, max_active))
    first = due = _due(scope, workspace)
    while due.plan is not None:
        runs.append(_run(opened(due.plan, workspace), workspace, terminal, max_active))
        if not due.left:
            break
        before, due = due, _due(scope, workspace)
        if total(due.found) >= total(before.found):
            break  # as many as before: they aren't fewer the next time
        terminal.say(f"{total(due.found):,} more slices to be loaded")
    else:
        workspace.loader.advance(due, workspace.clock(), workspace.who)
        deliver(workspace, terminal)
    # Of a whole history that was compared, all that differs is told, though several publishes brought it in.
    return _Loaded(told=first if scope.deep else due, runs=tuple(runs))


def _changed(run: Run, workspace: Workspace) -> str:
    """Why a load can't be gone on with; empty where it can, or where a catalog may have been asked to publish it."""
    is_undecided = workspace.ledger.intent(run.id) is not None
    return "" if is_undecided else changed_code(run.plan, workspace.project)


def _due(scope: _Scope, workspace: Workspace, *, dry_run: bool = False) -> Due:
    ask = Ask(
        select=(),
        reason=_REASON,
        command="retcon load",
        by=workspace.who,
        now=workspace.clock(),
        suffix=new_suffix(),
        exclude=scope.exclude,
        dry_run=dry_run,
    )
    return workspace.loader.due(scope.names, ask, deep=scope.deep)


def _run(run: Run, workspace: Workspace, terminal: Terminal, max_active: int) -> Run:
    workspace.expect(run.plan)
    with turn_or_busy(run, workspace.caller(terminal.say)):
        return go_on(run, workspace, terminal, max_active, apply)
