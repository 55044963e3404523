"""`retcon init`: a small working project."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from retcon.cli.arguments import Json
from retcon.cli.json_output import new_project_result
from retcon.cli.terminals import terminal_of
from retcon.cli.views.projects import new_project_view
from retcon.wiring import write_project, write_samples

_DAYS = 30
_ORDERS_A_DAY = 200


def init(
    context: typer.Context,
    folder: Annotated[Path, typer.Argument(metavar="DIR", hidden=True)],
    as_json: Json = False,
) -> None:
    """Write a small working project into a folder that is new or empty.

    It has two models and sample tables. The tables are kept in a SQLite catalog below .retcon/, so nothing else is
    needed to try plan and apply.

    \b
    Example:
      retcon init shop
    """
    terminal = terminal_of(context, as_json=as_json)
    files = write_project(folder, "shop")
    terminal.root = folder.absolute()
    terminal.say("making sample tables…")
    samples = write_samples(terminal.root, days=_DAYS, orders_a_day=_ORDERS_A_DAY)
    terminal.report(
        lambda: new_project_result(folder, files, samples),
        lambda: new_project_view(folder, files, samples),
    )
