"""Rows that differ: counts by slice and column, and some of them old beside new."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from decimal import Decimal

from rich.console import RenderableType
from rich.text import Text

from retcon.cli.charts import bounds, sparkline
from retcon.cli.figures import count, counted
from retcon.cli.figures import slices as ranges
from retcon.cli.views.parts import (
    BAD,
    GOOD,
    QUIET,
    STRONG,
    WARN,
    Cell,
    bullets,
    facts,
    indented,
    more,
    name,
    number,
    section,
    stack,
    table,
    title,
)
from retcon.cli.views.states import state_text
from retcon.core.row_diffs import RowCounts, RowDiff, RowKind, RowPair
from retcon.core.runs import Run

_SLICES = 12
_COLUMNS = 20
_CHARACTERS = 48
"""Of a value, on a terminal."""
_COLOURS = {RowKind.CHANGED: WARN, RowKind.ADDED: GOOD, RowKind.REMOVED: BAD}
_SIGNS = {RowKind.CHANGED: "~", RowKind.ADDED: "+", RowKind.REMOVED: "-"}
_INVISIBLE = str.maketrans({"\n": "⏎", "\r": "⏎", "\t": "→", "\x1b": "␛"})


def row_diffs_view(run: Run, diffs: Sequence[RowDiff], width: int) -> RenderableType:
    """What `diff --rows` found."""
    sides = "before → published" if run.published is not None else "production → staged"
    line = title("Rows", Text(run.id, style=STRONG), state_text(run.state), Text(sides, style=QUIET))
    return stack([line, facts([("why", run.plan.reason)]), *(_model(diff, width) for diff in diffs)])


def _model(diff: RowDiff, width: int) -> RenderableType:
    if not diff.total.differing:
        compared = f"{counted(len(diff.slices), 'slice')} compared" if diff.slices else "nothing of it was written"
        return section(f"{diff.model}: no row differs", Text(compared, style=QUIET), *notes(diff))
    return section(
        f"{diff.model}: {counts_text(diff.total)}",
        *notes(diff),
        _slices(diff, width),
        *_columns(diff),
        pairs_view(diff.sample),
        *more(diff.total.differing - sum(pair.times for pair in diff.sample), "row", "--limit, or --out x.parquet"),
    )


def notes(diff: RowDiff) -> Iterator[RenderableType]:
    """What else should be known about a comparison."""
    told: list[Cell] = []
    if diff.why_no_key:
        told.append(f"compared as a multiset, with how often a row is there: {diff.why_no_key}")
    if diff.without_key:
        told.append(
            f"{counted(diff.without_key, 'row')} compared as a multiset: their key is NULL, or not theirs alone"
        )
    for column in diff.columns:
        if column.note:
            told.append(f"column {column.name}: {_noted(column.note)}")
    if diff.left_out:
        told.append(f"left out, as volatile: {', '.join(diff.left_out)}")
    if told:
        yield bullets(told)


def _noted(note: str) -> str:
    return {"added": "only the new side has it", "removed": "only the old side has it"}.get(note, f"it {note}")


def counts_text(counts: RowCounts) -> str:
    """`3 changed, 1 added`."""
    told = ((counts.changed, "changed"), (counts.added, "added"), (counts.removed, "removed"))
    return ", ".join(f"{count(rows)} {what}" for rows, what in told if rows) + (
        " row" if counts.differing == 1 else " rows"
    )


def _slices(diff: RowDiff, width: int) -> RenderableType:
    rows = [(slice.label, counts) for slice, counts in diff.counts.items()]
    shown = rows
    if len(rows) > _SLICES:
        largest = sorted(range(len(rows)), key=lambda at: (-rows[at][1].differing, at))[:_SLICES]
        shown = [rows[at] for at in sorted(largest)]
    heads = (name("slice"), number("changed"), number("added"), number("removed"))
    listed = table(heads, ((at, count(c.changed), count(c.added), count(c.removed)) for at, c in shown))
    parts: list[RenderableType] = []
    series = [Decimal(diff.counts[slice].differing) if slice in diff.counts else Decimal(0) for slice in diff.slices]
    edges = bounds(series)
    if len(series) > 2 and edges is not None:
        drawn = sparkline(series, low=Decimal(0), high=edges[1], width=max(width - 20, 20))
        parts.append(Text.assemble(drawn, (f"  {ranges(diff.slices)}", QUIET)))
    return stack([*parts, listed, *more(len(rows) - len(shown), "slice", "those with fewer; --json has them all")])


def _columns(diff: RowDiff) -> Iterator[RenderableType]:
    changed = sorted((each for each in diff.columns if each.changed), key=lambda each: (-each.changed, each.name))
    if changed:
        heads = (name("column"), number("changed"))
        yield Text()
        yield table(heads, ((each.name, count(each.changed)) for each in changed[:_COLUMNS]))
        yield from more(len(changed) - _COLUMNS, "column", "--json has them all")


def pairs_view(pairs: Sequence[RowPair]) -> RenderableType:
    """Rows, each with its columns: what differs of changed ones, all of the others."""
    return stack([Text(), *(_pair(pair) for pair in pairs)])


def _pair(pair: RowPair) -> RenderableType:
    return stack([pair_title(pair), indented(pair_values(pair))])


def pair_values(pair: RowPair) -> RenderableType:
    """The columns that differ, old and new; of a row that only one side has, all."""
    return table((name(), name(), name(), name()), _values(pair))


def pair_title(pair: RowPair) -> Text:
    """`~ 2026-01-03  order_id = 17`."""
    times = f"  {count(pair.times)} times" if pair.times > 1 else ""
    key = "".join(f"  {column} = {shown(value)}" for column, value in pair.key.items())
    colour = _COLOURS[pair.kind]
    return Text.assemble((f"{_SIGNS[pair.kind]} {pair.kind.value}", colour), f"  {pair.slice}", (key, STRONG), times)


def _values(pair: RowPair) -> Iterator[tuple[Cell, ...]]:
    if pair.kind is RowKind.CHANGED and pair.old is not None and pair.new is not None:
        for column in pair.differs:
            yield column, Text(shown(pair.old[column]), style=BAD), "→", Text(shown(pair.new[column]), style=GOOD)
        return
    for column, value in (pair.new if pair.new is not None else pair.old or {}).items():
        if column not in pair.key:
            yield column, shown(value), "", ""


def shown(value: str | None) -> str:
    """A value in one line, and no longer than a line can bear."""
    if value is None:
        return "NULL"
    plain = value.translate(_INVISIBLE)
    return plain if len(plain) <= _CHARACTERS else f"{plain[: _CHARACTERS - 1]}…"
