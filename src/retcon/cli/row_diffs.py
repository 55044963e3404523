"""`retcon diff --rows`: which rows differ, shown and written to a file."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from retcon.cli.progress import watching
from retcon.cli.row_results import row_diffs_result
from retcon.cli.terminals import Terminal
from retcon.cli.views.row_diffs import row_diffs_view
from retcon.cli.views.row_pages import row_diffs_page
from retcon.core.row_diffs import TOLERANCE
from retcon.core.runs import Run
from retcon.errors import BadArguments
from retcon.flow.compare_rows import Asking, compare_rows, compared_models, sides_of
from retcon.flow.records import Records
from retcon.values import dataclass
from retcon.wiring import Workspace

LIMIT = 20
_MOST = 1000
FORMATS = (".parquet", ".csv", ".html")


@dataclass(frozen=True, kw_only=True)
class RowOptions:
    """What was asked for on the command line."""

    limit: int | None = None
    tolerance: float | None = None
    out: Path | None = None
    force: bool = False

    @property
    def given(self) -> str | None:
        """The first option that means nothing without rows."""
        named = {"--limit": self.limit, "--tolerance": self.tolerance, "--out": self.out, "--force": self.force or None}
        return next((name for name, value in named.items() if value is not None), None)


def show_rows(run: Run, model: str | None, workspace: Workspace, terminal: Terminal, options: RowOptions) -> None:
    """Tell how the rows of a run's tables differ. What can't be done is refused before Spark starts."""
    limit = LIMIT if options.limit is None else options.limit
    tolerance = TOLERANCE if options.tolerance is None else options.tolerance
    if not 0 <= tolerance < 1:
        raise BadArguments(f"--tolerance {tolerance:g}: not a share of a value", next="pass one like 1e-9, or 0")
    if limit > _MOST:
        raise BadArguments(
            f"--limit {limit}: at most {_MOST} rows are shown", next="--out x.parquet holds all rows that differ"
        )
    if options.out is not None:
        require_writable(options.out, FORMATS, force=options.force)
    records = Records(project=workspace.outline, ledger=workspace.ledger, tables=workspace.tables)
    models = compared_models(run, model, records)
    is_table = options.out is not None and options.out.suffix != ".html"
    if is_table and len(models) > 1:
        raise BadArguments(
            f"--out {options.out} holds the rows of one model, and run {run.id} has {len(models)}",
            next="pass --model NAME, or --out x.html for all of them",
        )
    sides = {each.name: sides_of(run, each, planned, records) for each, planned in models}
    asking = Asking(limit=limit, tolerance=tolerance, out=str(options.out) if is_table else None)
    terminal.say("starting Spark…")
    context = workspace.context(lambda _: None, project=workspace.outline)
    with watching(terminal.err) as watch:
        parts = replace(context, watch=watch)
        diffs = [compare_rows(run, each, planned, sides[each.name], parts, asking) for each, planned in models]
    if options.out is not None:
        if options.out.suffix == ".html":
            write_text(options.out, row_diffs_page(run, diffs))
        is_written = not is_table or any(diff.written is not None for diff in diffs)
        terminal.say(f"written to {options.out}" if is_written else "the run wrote nothing: no file was written")
    terminal.report(
        lambda: row_diffs_result(run, diffs, options.out), lambda: row_diffs_view(run, diffs, terminal.out.width)
    )


def require_writable(out: Path, formats: tuple[str, ...], *, force: bool) -> None:
    """Refuse, before anything is computed, a file that wouldn't be written."""
    if out.suffix not in formats:
        raise BadArguments(f"--out {out}: how should it be written?", next=f"let it end with {', '.join(formats)}")
    if out.is_dir() or not out.absolute().parent.is_dir():
        raise BadArguments(f"--out {out}: that is no place for a file", next="name a file in a folder that exists")
    if out.exists() and not force:
        raise BadArguments(f"--out {out}: the file exists", next="name another one, or pass --force to replace it")


def write_text(out: Path, text: str) -> None:
    """The whole file, or an error that names it."""
    try:
        out.write_text(text, encoding="utf-8", newline="")
    except OSError as error:
        raise BadArguments(f"--out {out}: {error.strerror}", next="name a file that can be written") from error
