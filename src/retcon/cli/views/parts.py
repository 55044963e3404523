"""The few shapes that every view is made of."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from rich.cells import cell_len
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from retcon.cli.figures import counted
from retcon.core.projects import Consumer
from retcon.values import dataclass

GOOD, BAD, WARN, QUIET, STRONG = "green", "red", "yellow", "dim", "bold"

Cell = str | Text

_LEAST_PROSE = 16
"""Columns for text that wraps: narrower, it would be a pile of words."""


@dataclass(frozen=True, kw_only=True)
class Head:
    """A column: numbers to the right, prose may wrap, names never do."""

    title: str = ""
    is_number: bool = False
    wraps: bool = False
    style: str = ""


def number(title: str) -> Head:
    return Head(title=title, is_number=True)


def name(title: str = "") -> Head:
    return Head(title=title)


def prose(title: str = "", style: str = "") -> Head:
    return Head(title=title, wraps=True, style=style)


def table(heads: Sequence[Head], rows: Iterable[Sequence[Cell]]) -> RenderableType:
    """Rows without rules; the head is quiet."""
    shape = Table(
        box=None,
        pad_edge=False,
        padding=(0, 2, 0, 0),
        show_header=any(head.title for head in heads),
        header_style=QUIET,
    )
    held = list(rows)
    for at, head in enumerate(heads):
        shape.add_column(
            head.title,
            justify="right" if head.is_number else "left",
            no_wrap=not head.wraps,
            min_width=_least_width(head, [row[at] for row in held]),
            overflow="fold",
            style=head.style,
        )
    for row in held:
        shape.add_row(*row)
    return shape


def _least_width(head: Head, cells: Iterable[Cell]) -> int | None:
    """Rich would make a name as narrow as its longest word, though it never breaks it."""
    if head.wraps:
        return _LEAST_PROSE if head.title else None
    return max(cell_len(str(text)) for text in (head.title, *cells))


def facts(pairs: Iterable[tuple[str, RenderableType]]) -> RenderableType:
    """Labels and what they stand for, one below the other."""
    shape = Table.grid(padding=(0, 2, 0, 0))
    shape.add_column(style=QUIET, no_wrap=True)
    shape.add_column(overflow="fold")
    for label, value in pairs:
        shape.add_row(label, value)
    return shape


def title(text: str, *more: Cell) -> Text:
    """The first line of a report."""
    return Text("  ").join(
        [Text(text, style=STRONG), *(each if isinstance(each, Text) else Text(each) for each in more)]
    )


def section(heading: str, *content: RenderableType) -> RenderableType:
    """A heading with its content indented below, and an empty line before."""
    return Group(Text(), Text(heading, style=STRONG), *(indented(each) for each in content))


def indented(content: RenderableType, by: int = 2) -> RenderableType:
    return Padding(content, (0, 0, 0, by))


def bullets(lines: Iterable[Cell]) -> RenderableType:
    """Short statements, each on a line of its own."""
    shape = Table.grid(padding=(0, 1, 0, 0))
    shape.add_column(style=QUIET, no_wrap=True)
    shape.add_column(overflow="fold")
    for line in lines:
        shape.add_row("·", line)
    return shape


def command(*words: str) -> Text:
    """Something to type."""
    return Text(" ".join(words), style=STRONG)


def stack(parts: Iterable[RenderableType | None]) -> RenderableType:
    """The parts that are there, one below the other."""
    return Group(*(part for part in parts if part is not None))


def more(left: int, noun: str, remedy: str = "") -> list[Text]:
    """`… and 78 more slices`, or nothing."""
    if left <= 0:
        return []
    return [Text(f"… and {counted(left, 'more ' + noun)}" + (f" ({remedy})" if remedy else ""), style=QUIET)]


def consumer(known: Mapping[str, Consumer], named: str) -> str:
    """`exec_dashboard (dashboard of exec-ops)`."""
    found = known.get(named)
    if found is None or not (found.kind or found.owner):
        return named
    kind = found.kind or "kept"
    return f"{named} ({kind} {'by' if not found.kind else 'of'} {found.owner})" if found.owner else f"{named} ({kind})"


def parameters_text(values: Mapping[str, object]) -> str:
    """`fx_source = 'ecb', digits = 2`."""
    return ", ".join(f"{key} = {value!r}" for key, value in values.items())
