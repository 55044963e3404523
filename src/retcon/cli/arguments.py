"""Arguments and options that several commands share.

Arguments are hidden from the help's list, where typer would show their Python types; each command's text explains them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Select = Annotated[
    list[str] | None,
    typer.Argument(metavar="SELECT", hidden=True),
]
ProjectFolder = Annotated[
    Path | None,
    typer.Option("--project", metavar="DIR", help="The project's folder. [default: the nearest retcon.yaml upwards]"),
]
Json = Annotated[
    bool, typer.Option("--json", help="Write one JSON document to stdout; everything else goes to stderr.")
]
Start = Annotated[
    str | None, typer.Option("-s", "--start", metavar="DATE", help="First day (or hour, YYYY-MM-DDTHH), included.")
]
End = Annotated[
    str | None, typer.Option("-e", "--end", metavar="DATE", help="Last day (or hour, YYYY-MM-DDTHH), included.")
]
RunId = Annotated[str, typer.Argument(metavar="RUN", hidden=True)]
RunOrModel = Annotated[str, typer.Argument(metavar="RUN|MODEL", hidden=True)]
