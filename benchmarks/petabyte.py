"""What a petabyte would take, from what was measured: every figure is a measured rate times a stated number."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pages import table

PARTS = ("slices", "files", "steps")
"""Whose figures it is derived from."""
FILE_MB = 512
DAYS = 3_650
RESTATED = 90
PETABYTE_MB = 1_000_000_000
FILES = PETABYTE_MB // FILE_MB
FILES_RESTATED = FILES * RESTATED // DAYS
FILES_A_DAY = FILES // DAYS
BYTES_A_DAY = PETABYTE_MB * 1_000_000 / DAYS
ROW_BYTES = 100
"""Of a row of the assumed table, compressed."""


@dataclass(frozen=True, kw_only=True)
class Line:
    """A cost as a straight line through the two largest sizes."""

    start: float
    rate: float

    def at(self, count: float) -> float:
        return self.start + self.rate * count


def line_through(one: tuple[float, float], other: tuple[float, float]) -> Line:
    """Never falling, never below zero at nothing: noise isn't a gain."""
    rate = max((other[1] - one[1]) / (other[0] - one[0]), 0.0)
    return Line(start=max(other[1] - rate * other[0], 0.0), rate=rate)


def derived(kept: Mapping[str, Any]) -> str:
    """The tables of the page; blocks that weren't measured yet are left out of them."""
    steps = kept.get("steps", {})
    parts = [_driver(kept), _executors(steps.get("figures", {}), steps.get("size", ""))]
    return "\n\n".join(part for part in parts if part) or "Nothing was measured yet."


def _driver(kept: Mapping[str, Any]) -> str:
    """What the driver does: of each step the time, and the memory for what it holds at once."""
    whole, some, wave = (FILES, "files of the input"), FILES_RESTATED, FILES_A_DAY
    wanted = (
        ("files", "plan", *whole, FILES),
        ("files", "load finds nothing, first look", *whole, FILES),
        ("files", "load finds what changed", *whole, FILES),
        ("files", "`plan --changed` finds it", *whole, FILES),
        ("slices", "stage", some, f"files staged for {RESTATED} days", wave),
        ("slices", "prove", some, f"files of {RESTATED} days", wave),
        ("slices", "publish", some, f"files staged for {RESTATED} days", some),
        ("slices", "roll back", some, f"files published for {RESTATED} days", some),
        ("slices", "sweep", some, f"files of {RESTATED} days", some),
    )
    rows: list[list[str]] = []
    for block, step, count, of_what, at_once in wanted:
        figures = kept.get(block, {}).get("figures", {})
        sizes = sorted(int(size) for size in figures)[-2:]
        if len(sizes) < 2 or any(step not in figures[str(size)] for size in sizes):
            continue
        least, most = ((size, figures[str(size)][step]) for size in sizes)
        wall = line_through((least[0], least[1]["wall"]), (most[0], most[1]["wall"]))
        row = [step, f"{most[1]['wall']:.2f} s at {most[0]:,}", f"{1000 * wall.rate:.3f} ms", f"{count:,} {of_what}"]
        row += [_time(wall.at(count)), *(_memory(least, most, what, at_once) for what in ("python", "heap"))]
        rows.append(row)
    head = ["step", "measured", "each more", "times", "derived: time", "derived: Python", "derived: heap"]
    return table(head, rows) if rows else ""


def _executors(figures: Mapping[str, Any], size: str) -> str:
    """What the rows cost, whoever computes them: by the bytes of the files that are read, and by their rows."""
    if not figures:
        return ""
    restated = BYTES_A_DAY * RESTATED
    rows: list[list[str]] = []
    for step, each in sorted(figures.items(), key=lambda item: item[0] != "stage"):
        by_byte, by_row = each["cpu"] / each["bytes"], each["cpu"] / each["rows"]
        read = restated * each["sides"]
        row = [step, f"{each['cpu']:.2f} CPU s, {each['bytes'] / 1e6:,.0f} MB, {each['rows'] / 1e6:.1f} M rows"]
        row += [f"{by_byte * 1e9:.0f} CPU s", f"{by_row * 1e6:.2f} CPU s", f"{read / 1e12:.1f} TB"]
        rows.append([*row, *(f"{seconds / 3600:,.0f}" for seconds in (by_byte * read, by_row * read / ROW_BYTES))])
    width = figures["stage"]["bytes"] / figures["stage"]["rows"]
    head = ["rows", "measured", "a GB", "a million rows", "times", "derived by GB: core hours"]
    head.append(f"derived by rows of {ROW_BYTES} bytes: core hours")
    text = f"Measured with {size}. What staging read there has {width:.1f} bytes a row: at that, a day of "
    text += f"{BYTES_A_DAY / 1e9:.0f} GB would be {BYTES_A_DAY / width / 1e9:.1f} billion rows; at {ROW_BYTES} bytes "
    text += f"it is {BYTES_A_DAY / ROW_BYTES / 1e9:.1f} billion."
    return f"{table(head, rows)}\n\n{text}"


def _memory(least: tuple[int, Any], most: tuple[int, Any], what: str, count: int) -> str:
    if least[1][what] is None or most[1][what] is None:
        return "–"
    return f"{line_through((least[0], least[1][what]), (most[0], most[1][what])).at(count) / 1024:.1f} GiB"


def _time(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 300 else f"{seconds / 60:.0f} min"
