"""`retcon plan`: what a correction covers, reads and costs, written down for review."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Annotated

import typer

from retcon.cli.arguments import End, Environment, Json, ProjectFolder, Select, Start
from retcon.cli.json_output import plan_result
from retcon.cli.load_results import stale_result
from retcon.cli.progress import watching
from retcon.cli.staleness import explain, found_stale
from retcon.cli.terminals import Terminal, terminal_of, zone_of
from retcon.cli.views.loads import nothing_differs_view, stale_notes
from retcon.cli.views.plans import plan_view
from retcon.core.budgets import Budget, parse_budget, require_countable, require_within
from retcon.core.expectations import written
from retcon.core.intervals import Edge, parse_edge
from retcon.core.keys import Keys
from retcon.core.plans import Plan
from retcon.core.slices import SliceSet
from retcon.errors import BadArguments
from retcon.flow.plan import Ask
from retcon.project.key_files import Gathered
from retcon.values import dataclass
from retcon.wiring import Workspace, new_suffix

if TYPE_CHECKING:
    from retcon.project.plan_files import Asked


@dataclass(frozen=True, kw_only=True)
class _Wish:
    """The options as they were typed."""

    select: tuple[str, ...]
    exclude: tuple[str, ...]
    start: Edge | None
    end: Edge | None
    reason: str | None
    downstream: bool
    allow_missing_source: bool
    wave: int | None
    keys: str | None
    keys_from: str | None
    changed: bool
    expect: tuple[str, ...]
    force: bool
    dry_run: bool
    canary: int | None
    budget: str | None


def plan(
    context: typer.Context,
    select: Select = None,
    start: Start = None,
    end: End = None,
    reason: Annotated[
        str | None, typer.Option("--reason", metavar="TEXT", help="Why history is rewritten; needed.")
    ] = None,
    also: Annotated[
        list[str] | None, typer.Option("--select", metavar="SELECT", help="The same as SELECT; may be repeated.")
    ] = None,
    exclude: Annotated[
        list[str] | None, typer.Option("--exclude", metavar="SELECT", help="Leave these out; may be repeated.")
    ] = None,
    no_downstream: Annotated[
        bool, typer.Option("--no-downstream", help="Leave published readers as they are: they become stale.")
    ] = False,
    allow_missing_source: Annotated[
        bool, typer.Option("--allow-missing-source", help="Plan although inputs don't hold the whole range.")
    ] = False,
    wave: Annotated[
        int | None, typer.Option("--wave", min=1, metavar="N", help="Slices that one Spark job computes, at most.")
    ] = None,
    keys: Annotated[
        str | None,
        typer.Option("--keys", metavar="COLUMN=A,B", help="Recompute only the rows of these keys, where that can be."),
    ] = None,
    keys_from: Annotated[
        str | None,
        typer.Option("--keys-from", metavar="FILE|TABLE|QUERY", help="The same, with the keys in one column of this."),
    ] = None,
    changed: Annotated[
        bool,
        typer.Option("--changed", help="Plan only slices whose inputs or code differ from what they were made of."),
    ] = False,
    expect: Annotated[
        list[str] | None,
        typer.Option(
            "--expect", metavar="YAML", help="What the correction will do, as the plan's file has it; may be repeated."
        ),
    ] = None,
    canary: Annotated[
        int | None,
        typer.Option(
            "--canary", min=1, metavar="N", help="Compute N slices of each model, writing nothing, to tell the time."
        ),
    ] = None,
    budget: Annotated[
        str | None,
        typer.Option(
            "--budget", metavar="AMOUNT|TIME", help="Refuse a plan that takes more; its run pauses where it does."
        ),
    ] = None,
    why: Annotated[
        str | None,
        typer.Option(
            "--why", metavar="SLICE", help="Explain whether this slice is stale, and why; nothing is planned."
        ),
    ] = None,
    refresh: Annotated[
        str | None,
        typer.Option("--refresh", metavar="FILE", help="Plan what this plan asked for again, under a new id."),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Plan although another run is under way over the same slices.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the plan and write nothing at all.")] = False,
    env: Environment = None,
    project: ProjectFolder = None,
    as_json: Json = False,
) -> None:
    """Plan a correction, and write the plan down for review.

    SELECT names the models: by name, glob (`mart.*`) or tag (`tag:finance`); `+m` adds what m reads, `m+` what reads
    m. Dates are inclusive, and so are hours such as 2026-01-22T05, in UTC; without them each model's whole history is
    planned. A range that cuts a slice is widened to whole slices. Published models that read what changes are included.
    With --changed, of all that only slices whose inputs or code aren't what they were computed from.
    Refused where another run is under way over the same slices, unless --force lets both stage: the publish decides.

    The plan is printed and written to backfills/<id>.yaml. Nothing is written to tables: `retcon apply` runs it. Spark
    is started only where --keys-from names a table or a query, where rows that are merged may leave other slices, or
    for --canary. How long it will take is told from earlier runs of the models.

    \b
    Example:
      retcon plan mart.fct_daily_revenue -s 2025-10-25 -e 2026-01-22 --reason "rates of the wrong day"
    """
    terminal = terminal_of(context, as_json=as_json)
    wish = _Wish(
        select=(*(select or ()), *(also or ())),
        exclude=tuple(exclude or ()),
        start=parse_edge(start, "--start") if start is not None else None,
        end=parse_edge(end, "--end") if end is not None else None,
        reason=reason,
        downstream=not no_downstream,
        allow_missing_source=allow_missing_source,
        wave=wave,
        keys=keys,
        keys_from=keys_from,
        changed=changed,
        expect=tuple(expect or ()),
        force=force,
        dry_run=dry_run,
        canary=canary,
        budget=budget,
    )
    if keys is not None and keys_from is not None:
        raise BadArguments("--keys and --keys-from were both given", next="pass one of them")
    if changed and (keys is not None or keys_from is not None):
        raise BadArguments("--changed finds slices, and keys were given", next="leave one of them out")
    workspace = terminal.workspace(project, env, writes=not dry_run and why is None)
    if why is not None:
        explain(workspace, wish.select, why, terminal)
        return
    ask = _new_ask(wish, workspace) if refresh is None else _ask_again(refresh, wish, workspace)
    if ask.changed:
        stale = found_stale(ask, workspace)
        if not any(each.slices for each in stale):
            terminal.report(lambda: stale_result(stale), lambda: nothing_differs_view(stale))
            return
        ask = replace(ask, found={e.model: e.slices for e in stale if e.slices}, notes=stale_notes(stale))
    before = workspace.read_asked(refresh) if refresh is not None else None
    gathered = _gathered(wish, workspace) if before is None else workspace.keys_again(before)
    try:
        planned = workspace.planner.plan(replace(ask, keys=gathered.keys if gathered is not None else None))
        expecting = workspace.expecting(planned, wish.expect, before.expect if before is not None else None)
        limited = replace(expecting, budget=_budget(wish, before, workspace))
        made = _estimated(with_command(limited, keys=keys, keys_from=keys_from), wish, workspace, terminal)
        path = None if dry_run else workspace.write_plan(made, gathered)
    finally:
        if gathered is not None:
            gathered.drop()
    settings = workspace.project.settings
    terminal.report(
        lambda: plan_result(made, path),
        lambda: plan_view(made, settings, zone_of(workspace), shown_file(path)),
    )


def _budget(wish: _Wish, before: Asked | None, workspace: Workspace) -> Budget | None:
    settings = workspace.project.settings
    given = parse_budget(wish.budget, settings.cost) if wish.budget is not None else None
    budget = given or (before.budget if before is not None else None)
    if budget is not None:
        require_countable(budget, workspace.cores, settings.cost, settings.spark.master)
    return budget


def _estimated(made: Plan, wish: _Wish, workspace: Workspace, terminal: Terminal) -> Plan:
    """The plan with how long it will take; refused where that is over its budget."""
    planned_in = round(monotonic() - workspace.since, 3)
    if wish.canary is None:
        estimate = workspace.estimator.estimate(made)
    else:
        terminal.say("starting Spark…")
        with watching(terminal.err) as watch:
            estimate = workspace.try_slices(made, wish.canary, watch)
    if made.budget is not None:
        require_within(made.budget, estimate, workspace.project.settings.cost, state="no plan was written")
    return replace(made, estimate=estimate, planned_in=planned_in)


def _gathered(wish: _Wish, workspace: Workspace) -> Gathered | None:
    if wish.keys is not None:
        return workspace.listed_keys(wish.keys)
    return workspace.keys_from(wish.keys_from) if wish.keys_from is not None else None


def _new_ask(wish: _Wish, workspace: Workspace) -> Ask:
    return Ask(
        select=wish.select,
        exclude=wish.exclude,
        reason=wish.reason or "",
        command="",
        by=workspace.who,
        now=workspace.clock(),
        suffix=new_suffix(),
        start=wish.start,
        end=wish.end,
        downstream=wish.downstream,
        allow_missing_source=wish.allow_missing_source,
        wave=wish.wave,
        force=wish.force,
        dry_run=wish.dry_run,
        changed=wish.changed,
    )


def _ask_again(refresh: str, wish: _Wish, workspace: Workspace) -> Ask:
    """The request of an earlier plan, for things as they are now."""
    if wish.select or wish.exclude or wish.start or wish.end or wish.keys or wish.keys_from or wish.changed:
        raise BadArguments(
            "--refresh asks for what the earlier plan asked for, and other models, dates or keys were given",
            next="leave out the models, dates and keys, or plan without --refresh",
        )
    old = workspace.read_asked(refresh)
    workspace.enter(old.request.environment, f"plan {old.id}")
    return replace(
        _new_ask(wish, workspace),
        select=old.request.models,
        exclude=old.request.exclude,
        reason=old.reason if wish.reason is None else wish.reason,
        start=None if old.request.start is None else parse_edge(old.request.start, "start"),
        end=None if old.request.end is None else parse_edge(old.request.end, "end"),
        downstream=old.request.downstream and wish.downstream,
        allow_missing_source=old.request.allow_missing_source or wish.allow_missing_source,
        wave=wish.wave or old.request.wave,
        refreshes=old.id,
        changed=old.request.changed,
        found=_found_again(old.request.found, workspace),
    )


def _found_again(found: Mapping[str, str], workspace: Workspace) -> dict[str, SliceSet] | None:
    """The slices that a load had found, to be planned as they are."""
    graph = workspace.project.graph
    models = {graph.model(name).name: text for name, text in found.items()}
    return {name: SliceSet.parse(graph.models[name].grain, text) for name, text in models.items()} or None


def with_command(made: Plan, *, keys: str | None = None, keys_from: str | None = None) -> Plan:
    """The plan with the command that asks for it again: models and dates resolved, ready to be pasted."""
    request = made.request
    is_given = keys is not None or keys_from is not None
    if made.keys is not None and not is_given and not _can_be_typed(made.keys):
        words = ["retcon", "plan", "--refresh", f"backfills/{request.refreshes}.yaml"]
        words += ["--force"] if request.force else []
        words += [*_expect_words(made), "--reason", made.reason]
        return replace(made, request=replace(request, command=shlex.join(words)))
    words = ["retcon", "plan", *request.models]
    words += ["--start", request.start] if request.start is not None else []
    words += ["--end", request.end] if request.end is not None else []
    words += [word for name in request.exclude for word in ("--exclude", name)]
    words += ["--changed"] if request.changed else []
    words += ["--no-downstream"] if not request.downstream else []
    words += ["--allow-missing-source"] if request.allow_missing_source else []
    words += ["--wave", str(request.wave)] if request.wave is not None else []
    if keys_from is not None:
        words += ["--keys-from", keys_from]
    elif made.keys is not None:
        words += ["--keys", keys or f"{made.keys.column}={','.join(made.keys.values)}"]
    words += ["--budget", made.budget.words] if made.budget is not None else []
    words += ["--env", request.environment] if request.environment is not None else []
    words += ["--force"] if request.force else []
    words += [*_expect_words(made), "--reason", made.reason]
    return replace(made, request=replace(request, command=shlex.join(words)))


def _expect_words(made: Plan) -> list[str]:
    # JSON is YAML, too.
    texts = (json.dumps(each, ensure_ascii=False) for each in written(made.expect))
    return [word for text in texts for word in ("--expect", text)]


def _can_be_typed(keys: Keys) -> bool:
    """Few enough for a command line, and told apart there by commas and blanks around them."""
    return bool(keys.values) and not any("," in value or value != value.strip() or not value for value in keys.values)


def shown_file(path: Path | None) -> str | None:
    """The file as it is typed from here."""
    if path is None:
        return None
    here = Path.cwd()
    return str(path.relative_to(here)) if path.is_relative_to(here) else str(path)
