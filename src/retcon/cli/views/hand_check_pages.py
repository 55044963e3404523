"""Rows for a person to check, as one HTML page, and as CSV."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from html import escape

from retcon.cli.figures import count
from retcon.cli.views.pages import cell, page, quiet_list
from retcon.cli.views.row_pages import heading, page_notes, pair_card
from retcon.core.hand_checks import HandCheck, TracedInput
from retcon.core.row_diffs import RowPair
from retcon.core.runs import Run
from retcon.core.spreadsheets import csv_line, text_cell


def hand_checks_page(run: Run, checks: Sequence[HandCheck]) -> str:
    """The rows that were drawn."""
    return page(f"Sample of {run.id}", _body(run, checks))


def _body(run: Run, checks: Sequence[HandCheck]) -> Iterator[str]:
    yield from heading(run, "sample for checking by hand")
    for check in checks:
        yield f"<h2>{escape(check.diff.model)}</h2>"
        if not check.rows:
            yield "<p>No row differs.</p>"
            continue
        total = check.diff.total.differing
        yield f"<p>{count(len(check.rows))} of {count(total)} rows, drawn by the seed {escape(check.seed)}</p>"
        yield quiet_list([*page_notes(check.diff), *(_told(each) for each in check.inputs)])
        for at, pair in enumerate(check.rows):
            yield pair_card(pair, "".join(_origin(each, at) for each in check.inputs if not each.why_not))
    yield "<footer>made by <code>retcon sample</code></footer>"


def _told(each: TracedInput) -> str:
    if each.why_not:
        return f"{each.table}: not traced: {each.why_not}"
    return f"{each.table}: found by {each.found_by}, at snapshot {each.snapshot_id}"


def _origin(each: TracedInput, at: int) -> str:
    found = each.rows[at]
    if not found.rows:
        return f'<h4 class="quiet">from {escape(each.table)}: none</h4>'
    left = f" ({count(len(found.rows))} of {count(found.total)} rows)" if found.total != len(found.rows) else ""
    names = list(found.rows[0])
    head = "".join(f"<th>{escape(name)}</th>" for name in names)
    lines = "".join(f"<tr>{''.join(cell(row[name]) for name in names)}</tr>" for row in found.rows)
    title = f'<h4 class="quiet">from {escape(each.table)}{left}</h4>'
    return f'{title}<div class="wide"><table><tr>{head}</tr>{lines}</table></div>'


def hand_checks_csv(checks: Sequence[HandCheck]) -> str:
    """A line for each row and column: what differs, or all of a row that only one side has; then what it came from."""
    heads = ("model", "slice", "kind", "key", "column", "old", "new", "inputs")
    lines = [csv_line(map(text_cell, heads))]
    for check in checks:
        for at, pair in enumerate(check.rows):
            key = json.dumps(dict(pair.key), ensure_ascii=False) if pair.key else ""
            origins = {each.table: [dict(row) for row in each.rows[at].rows] for each in check.inputs if each.rows}
            first = (check.diff.model, pair.slice, pair.kind.value, key)
            for column, old, new in _columns(pair):
                cells = (*first, column, old, new, json.dumps(origins, ensure_ascii=False))
                lines.append(csv_line(map(text_cell, cells)))
    return "".join(lines)


def _columns(pair: RowPair) -> Iterator[tuple[str, str | None, str | None]]:
    shown = pair.new if pair.new is not None else pair.old or {}
    for column in pair.differs or [name for name in shown if name not in pair.key]:
        yield column, (pair.old or {}).get(column), (pair.new or {}).get(column)
