"""`retcon sample`: some rows that differ, for a person to check, and the record that it was done."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from retcon.cli.arguments import Environment, Json, ProjectFolder, RunId
from retcon.cli.progress import watching
from retcon.cli.rollback import run_named
from retcon.cli.row_diffs import require_writable, write_text
from retcon.cli.row_results import hand_checks_result
from retcon.cli.terminals import terminal_of
from retcon.cli.views.hand_check_pages import hand_checks_csv, hand_checks_page
from retcon.cli.views.hand_checks import confirmed_view, hand_checks_view
from retcon.core.events import SampleChecked
from retcon.errors import BadArguments
from retcon.flow.compare_rows import Asking, compared_models, sides_of
from retcon.flow.hand_check import confirm as record_check
from retcon.flow.hand_check import draw
from retcon.flow.records import Records

ROWS = 20
_FORMATS = (".html", ".csv")


def sample(
    context: typer.Context,
    run: RunId,
    model: Annotated[str | None, typer.Option("--model", metavar="MODEL", help="Only this model of the run.")] = None,
    rows: Annotated[
        int, typer.Option("--rows", min=1, max=1000, metavar="N", help="Draw N rows of each model.")
    ] = ROWS,
    seed: Annotated[
        str | None, typer.Option("--seed", metavar="TEXT", help="Draw other rows. [default: the run's id]")
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="Write them to this .html or .csv file, too.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="With --out: replace a file that is there.")] = False,
    confirm: Annotated[bool, typer.Option("--confirm", help="Record that these rows were checked.")] = False,
    by: Annotated[str | None, typer.Option("--by", metavar="NAME", help="With --confirm: who checked them.")] = None,
    note: Annotated[
        str | None, typer.Option("--note", metavar="TEXT", help="With --confirm: what there is to say of it.")
    ] = None,
    env: Environment = None,
    project: ProjectFolder = None,
    as_json: Json = False,
) -> None:
    """Draw rows that differ, for a person to check against what they came from.

    Old beside new, with the rows of each input that they came from, as far as the model's key leads there, at the
    snapshots that the run read. The same seed draws the same rows. --confirm records who has checked them: the seed,
    how many, and hashes of their keys, none of their values; `retcon show RUN` tells it. Starts Spark.

    \b
    Example:
      retcon sample 20260122_fct_daily_revenue_k3f9 --rows 10
    """
    terminal = terminal_of(context, as_json=as_json)
    if confirm and not (by or "").strip():
        raise BadArguments("a check has somebody who answers for it", next="pass --by NAME with --confirm")
    if not confirm and (by is not None or note is not None):
        raise BadArguments("--by and --note are recorded with --confirm, which wasn't given", next="pass it with them")
    if force and out is None:
        raise BadArguments("--force replaces a file, and none was named", next="pass --out FILE with it")
    if out is not None:
        require_writable(out, _FORMATS, force=force)
    workspace = terminal.workspace(project, env, writes=True)
    found = run_named(run, workspace)
    records = Records(project=workspace.outline, ledger=workspace.ledger, tables=workspace.tables)
    meant = None if model is None else workspace.outline.graph.model(model).name
    models = compared_models(found, meant, records)
    sides = {each.name: sides_of(found, each, planned, records) for each, planned in models}
    asking = Asking(limit=rows, seed=seed)
    terminal.say("starting Spark…")
    parts = workspace.context(lambda _: None, project=workspace.outline)
    with watching(terminal.err) as watch:
        told = replace(parts, watch=watch)
        checks = [draw(found, each, planned, sides[each.name], told, asking) for each, planned in models]
    options = _options(meant, rows, seed)
    recorded: tuple[SampleChecked, ...] = ()
    if confirm:
        recorded = record_check(
            found, checks, workspace.ledger, by=by or "", note=note or "", at=workspace.clock(), who=workspace.who
        )
    if out is not None:
        write_text(out, hand_checks_page(found, checks) if out.suffix == ".html" else hand_checks_csv(checks))
        terminal.say(f"written to {out}")
    terminal.report(
        lambda: hand_checks_result(found, checks, recorded, out),
        lambda: confirmed_view(found, recorded) if recorded else hand_checks_view(found, checks, options),
    )


def _options(model: str | None, rows: int, seed: str | None) -> str:
    """What draws the same rows again."""
    told = {"--model": model, "--rows": None if rows == ROWS else str(rows), "--seed": seed}
    return " ".join(f"{name} {shlex.quote(value)}" for name, value in told.items() if value is not None)
