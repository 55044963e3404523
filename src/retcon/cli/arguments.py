"""Arguments and options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Select = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="SELECT",
        help="Models by name, glob (`mart.*`) or tag (`tag:finance`); `+m` adds what m reads, `m+` what reads m.",
        show_default=False,
    ),
]
ProjectFolder = Annotated[
    Path | None,
    typer.Option("--project", metavar="DIR", help="The project's folder. [default: the nearest retcon.yaml upwards]"),
]
Json = Annotated[
    bool, typer.Option("--json", help="Write one JSON document to stdout; everything else goes to stderr.")
]
Start = Annotated[str | None, typer.Option("-s", "--start", metavar="DATE", help="First day, YYYY-MM-DD, included.")]
End = Annotated[str | None, typer.Option("-e", "--end", metavar="DATE", help="Last day, YYYY-MM-DD, included.")]
RunId = Annotated[
    str, typer.Argument(metavar="RUN", help="The run's id, as `retcon history` lists it.", show_default=False)
]
RunOrModel = Annotated[
    str,
    typer.Argument(metavar="RUN|MODEL", help="A run's id, or a model, which means its newest run.", show_default=False),
]
