"""`retcon status`: what is published, how fresh it is, and what is under way."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress

import typer

from retcon.cli.arguments import Environment, Json, ProjectFolder, Select
from retcon.cli.freshness_results import fresh_status_result
from retcon.cli.terminals import terminal_of, zone_of
from retcon.cli.views.freshness import status_view
from retcon.core.freshness import Freshness
from retcon.errors import ProjectInvalid
from retcon.flow.freshness import not_known
from retcon.flow.statuses import ModelStatus
from retcon.wiring import Workspace


def status(
    context: typer.Context,
    select: Select = None,
    env: Environment = None,
    project: ProjectFolder = None,
    as_json: Json = False,
) -> None:
    """Tell what is published, how fresh it is, and what is under way.

    SELECT narrows the list: models by name, glob (`mart.*`) or tag (`tag:finance`). Per model: up to which slice it is
    complete, and how long ago the newest complete slice ended; which slices are stale, by input and by code, and which
    are held by a rollback. What the catalog can't tell is said to be not known.

    \b
    Example:
      retcon status 'mart.*'
    """
    terminal = terminal_of(context, as_json=as_json)
    workspace = terminal.workspace(project, env)
    with suppress(ProjectInvalid):
        _ = workspace.project  # read once: what is asked for its outline gets it, too
    with workspace.questions.look():
        report = workspace.statuses.status(tuple(select or ()))
        fresh = _freshness(report, workspace)
    terminal.report(lambda: fresh_status_result(report, fresh), lambda: status_view(report, fresh, zone_of(workspace)))


def _freshness(report: Sequence[ModelStatus], workspace: Workspace) -> Mapping[str, Freshness]:
    published = {each.model: each.slices | each.unknown for each in report}
    try:
        return workspace.freshener.freshness(published, workspace.clock())
    except ProjectInvalid as error:
        # Its keys can be read; of the SQL something is wrong, so that nobody knows what code there is.
        return not_known(list(published), error.message)
