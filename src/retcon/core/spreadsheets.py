"""Cells of CSV files, so that no spreadsheet computes what is a text."""

from __future__ import annotations

from collections.abc import Iterable

_FORMULAS = ("=", "+", "-", "@", "\t", "\r")
"""With these, spreadsheets take a text for a formula."""


def text_cell(text: str | None) -> str:
    """A text in quotes, so that an empty one isn't NULL; one that would be computed begins with `'`."""
    if text is None:
        return ""
    safe = f"'{text}" if text.startswith(_FORMULAS) else text
    return '"' + safe.replace('"', '""') + '"'


def csv_line(cells: Iterable[str]) -> str:
    """One line of cells that are written already."""
    return ",".join(cells) + "\r\n"
