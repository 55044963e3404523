"""What a change is made of: code, inputs, chance."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal

from rich.console import RenderableType
from rich.text import Text

from retcon.cli.figures import NONE, amount, counted
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
    name,
    number,
    section,
    stack,
    table,
    title,
)
from retcon.cli.views.states import state_text
from retcon.core.attributions import AttributedSlice, Attribution, Parts
from retcon.core.runs import Run

_HEADS = (
    name("measure"),
    number("old"),
    number("new"),
    number("change"),
    number("from code"),
    number("from inputs"),
    number("by chance"),
    number("the rest"),
)


def attributions_view(run: Run, found: Sequence[Attribution]) -> RenderableType:
    """What `diff --why` found."""
    line = title("Why", Text(run.id, style=STRONG), state_text(run.state))
    return stack([line, facts([("why", run.plan.reason)]), *map(_model, found)])


def _model(each: Attribution) -> RenderableType:
    if each.why_not:
        return section(f"{each.model}: can't be told", Text(each.why_not, style=WARN))
    if not each.slices:
        return section(f"{each.model}: no slice moved")
    head = f"{each.model}: {len(each.slices):,} of {counted(each.moved, 'slice')} that moved"
    total = [Text("together", style=STRONG), indented(_table(each.totals))] if len(each.slices) > 1 else []
    return section(head, *(_slice(slice) for slice in each.slices), *total)


def _slice(slice: AttributedSlice) -> RenderableType:
    before = f"  published before by {slice.before}" if slice.before is not None else ""
    parts: list[RenderableType] = [
        Text.assemble((slice.slice, STRONG), (before, QUIET)),
        indented(_table(slice.parts)),
        indented(bullets(_notes(slice))),
    ]
    return stack(parts)


def _notes(slice: AttributedSlice) -> Iterator[Cell]:
    if slice.unlike == 0:
        yield Text("computed once more, every row comes out the same", style=GOOD)
    elif slice.unlike is not None:
        yield Text(f"computed once more, {counted(slice.unlike, 'row')} come out otherwise", style=BAD)
    yield from slice.notes


def _table(parts: Mapping[str, Parts]) -> RenderableType:
    return table(_HEADS, (_line(measure, each) for measure, each in parts.items()))


def _line(measure: str, parts: Parts) -> tuple[Cell, ...]:
    shares = (parts.change, parts.code, parts.inputs, parts.chance, parts.rest)
    return measure, amount(parts.old), amount(parts.new), *(_signed(share) for share in shares)


def _signed(value: Decimal | None) -> Cell:
    if value is None:
        return Text(NONE, style=QUIET)
    if not value:
        return Text("0", style=QUIET)
    return f"{'+' if not value.is_nan() and value > 0 else ''}{amount(value)}"
