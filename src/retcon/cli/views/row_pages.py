"""Rows that differ, as one HTML file with charts that opens without a network."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

from retcon.cli.figures import count, counted
from retcon.cli.views.pages import Bar, cell, page, quiet_list, stacked_bars, tiles
from retcon.core.row_diffs import RowCounts, RowDiff, RowKind, RowPair
from retcon.core.runs import Run


def row_diffs_page(run: Run, diffs: Sequence[RowDiff]) -> str:
    """What `diff --rows` found."""
    return page(f"Rows of {run.id}", _body(run, diffs))


def heading(run: Run, what: str) -> Iterator[str]:
    """The run, its reason, and which sides are compared."""
    sides = "before → published" if run.published is not None else "production → staged"
    yield f"<h1>{escape(run.id)}</h1>"
    yield f'<p class="quiet">{escape(what)}: {sides}; run {escape(run.state.value.replace("_", " "))}</p>'
    yield f"<p>{escape(run.plan.reason)}</p>"


def _body(run: Run, diffs: Sequence[RowDiff]) -> Iterator[str]:
    yield from heading(run, "rows")
    for diff in diffs:
        yield from _model(diff)
    yield "<footer>made by <code>retcon diff --rows</code></footer>"


def _model(diff: RowDiff) -> Iterator[str]:
    total = diff.total
    yield f"<h2>{escape(diff.model)}</h2>"
    yield tiles(
        [
            ("changed", total.changed, "changed"),
            ("added", total.added, "added"),
            ("removed", total.removed, "removed"),
            ("slices compared", len(diff.slices), ""),
            ("of them with rows that differ", len(diff.counts), ""),
        ]
    )
    yield quiet_list(page_notes(diff))
    if not total.differing:
        yield "<p>No row differs.</p>"
        return
    yield '<h3>By slice <span class="quiet">(<span class="changed">■</span> changed <span class="added">■</span> '
    yield 'added <span class="removed">■</span> removed)</span></h3>'
    yield stacked_bars([_bar(slice.label, diff.counts.get(slice, RowCounts())) for slice in diff.slices])
    yield from _columns(diff)
    shown = f"{count(sum(pair.times for pair in diff.sample))} of {count(total.differing)}, drawn by the run's id"
    yield f'<h3>Rows <span class="quiet">({shown})</span></h3>'
    yield from (pair_card(pair) for pair in diff.sample)


def page_notes(diff: RowDiff) -> list[str]:
    """What else should be known about a comparison."""
    told = [f"found again by {', '.join(diff.key)}"] if diff.key else []
    if diff.why_no_key:
        told.append(f"compared as a multiset, with how often a row is there: {diff.why_no_key}")
    if diff.without_key:
        told.append(f"{counted(diff.without_key, 'row')} as a multiset: their key is NULL, or not theirs alone")
    told += [f"column {each.name}: {each.note}" for each in diff.columns if each.note]
    if diff.left_out:
        told.append(f"left out, as volatile: {', '.join(diff.left_out)}")
    return [*told, f"floating-point values are the same within a relative {diff.tolerance:g}"]


def _bar(label: str, counts: RowCounts) -> Bar:
    return Bar(label=label, values=(counts.changed, counts.added, counts.removed))


def _columns(diff: RowDiff) -> Iterator[str]:
    changed = sorted((each for each in diff.columns if each.changed), key=lambda each: (-each.changed, each.name))
    if not changed:
        return
    yield '<h3>By column <span class="quiet">(of the changed rows)</span></h3><div class="wide"><table>'
    for each in changed:
        share = 100 * each.changed / diff.total.changed
        yield f'<tr>{cell(each.name)}<td class="number">{count(each.changed)}</td>'
        yield f'<td class="bar"><i style="width: {share:.1f}%"></i></td></tr>'
    yield "</table></div>"


def pair_card(pair: RowPair, more: str = "") -> str:
    """One row, old beside new; `more` stands below it."""
    kind = pair.kind.value
    times = f", {count(pair.times)} times" if pair.times > 1 else ""
    key = ", ".join(f"{column} = {'NULL' if value is None else value}" for column, value in pair.key.items())
    title = f'<h4><span class="{kind}">{kind}{times}</span> {escape(pair.slice)} {escape(key)}</h4>'
    return f'<div class="row">{title}<div class="wide"><table>{"".join(_lines(pair))}</table></div>{more}</div>'


def _lines(pair: RowPair) -> Iterator[str]:
    names = list((pair.new if pair.new is not None else pair.old or {}).keys())
    yield f"<tr><th></th>{''.join(f'<th>{escape(name)}</th>' for name in names)}</tr>"
    for side, values in (("old", pair.old), ("new", pair.new)):
        if values is not None:
            marked = pair.differs if pair.kind is RowKind.CHANGED else names
            cells = (cell(values[name], side if name in marked else "") for name in names)
            yield f"<tr><th>{side}</th>{''.join(cells)}</tr>"
