"""`retcon watermarks`: how far loads have consumed each input."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from retcon.cli.arguments import Environment, Json, ProjectFolder, Select
from retcon.cli.hooks import deliver, hooks_result, hooks_section
from retcon.cli.load_results import watermarks_result
from retcon.cli.terminals import Terminal, terminal_of, zone_of
from retcon.cli.views.loads import watermarks_view
from retcon.cli.views.parts import stack
from retcon.core.intervals import parse_edge
from retcon.errors import BadArguments
from retcon.flow.watermarks import Standing
from retcon.wiring import Workspace

RESET = "reset"


def watermarks(
    context: typer.Context,
    select: Select = None,
    to: Annotated[
        str | None,
        typer.Option("--to", metavar="DATE", help="Reset: look again at what changed after this day, or hour."),
    ] = None,
    only: Annotated[
        str | None, typer.Option("--input", metavar="NAME", help="Reset: this input only. [default: all]")
    ] = None,
    reason: Annotated[str | None, typer.Option("--reason", metavar="TEXT", help="Reset: why; needed.")] = None,
    env: Environment = None,
    project: ProjectFolder = None,
    as_json: Json = False,
) -> None:
    """Tell how far loads have consumed each input, or set that back.

    SELECT narrows the models. Per input: the watermark, how many commits came since, and when the oldest of them was
    made. `retcon watermarks reset MODEL` lets the next load look again at what changed after --to, or without it at
    everything: what is restated is what really differs. Hooks of the project are told of it, and shown with what they
    weren't told yet.

    \b
    Example:
      retcon watermarks reset mart.fct_daily_revenue --to 2026-01-15 --reason "the source was restored"
    """
    terminal = terminal_of(context, as_json=as_json)
    words = list(select or ())
    is_reset = words[:1] == [RESET]
    workspace = terminal.workspace(project, env, writes=is_reset)
    graph = workspace.outline.graph
    if not is_reset:
        if to is not None or only is not None or reason is not None:
            raise BadArguments("--to, --input and --reason are for a reset", next="retcon watermarks reset MODEL …")
        found = workspace.watermarks.standing(graph.select(tuple(words)))
        _report(found, workspace, terminal)
        return
    if len(words) != 2:
        raise BadArguments(
            "a reset is about one model", next="retcon watermarks reset mart.fct_daily_revenue --reason …"
        )
    model = graph.model(words[1])
    found = workspace.watermarks.reset(
        model,
        None if to is None else parse_edge(to, "--to"),
        reason or "",
        only=only,
        at=workspace.clock(),
        who=workspace.who,
    )
    deliver(workspace, terminal)
    _report(found, workspace, terminal)


def _report(found: Sequence[Standing], workspace: Workspace, terminal: Terminal) -> None:
    hooks, zone = workspace.deliverer.standing(), zone_of(workspace)
    terminal.report(
        lambda: {**watermarks_result(found), "hooks": hooks_result(hooks)},
        lambda: stack([watermarks_view(found, zone), hooks_section(hooks, zone)]),
    )
