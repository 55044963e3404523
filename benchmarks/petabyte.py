"""What a petabyte would take, from what was measured: every figure is a measured rate times a stated number."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pages import table

FILE_MB = 512
DAYS = 3_650
RESTATED = 90
PETABYTE_MB = 1_000_000_000


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
    """The table of the page; blocks that weren't measured yet are left out of it."""
    files = PETABYTE_MB // FILE_MB
    restated = files * RESTATED // DAYS
    wanted = (
        ("files", "plan", files, "files of the input"),
        ("files", "load finds nothing, first look", files, "files of the input"),
        ("files", "load finds what changed", files, "files of the input"),
        ("files", "`plan --changed` finds it", files, "files of the input"),
        ("slices", "publish", restated, f"files staged for {RESTATED} days"),
        ("slices", "roll back", restated, f"files published for {RESTATED} days"),
        ("slices", "sweep", restated, f"files of {RESTATED} days"),
    )
    rows: list[list[str]] = []
    for block, step, count, of_what in wanted:
        figures = kept.get(block, {}).get("figures", {})
        sizes = sorted(int(size) for size in figures)[-2:]
        if len(sizes) < 2:
            continue
        least, most = ((size, figures[str(size)][step]) for size in sizes)
        wall = line_through((least[0], least[1]["wall"]), (most[0], most[1]["wall"]))
        row = [step, f"{most[1]['wall']:.2f} s at {most[0]:,}", f"{1000 * wall.rate:.3f} ms", f"{count:,} {of_what}"]
        row += [_time(wall.at(count)), _memory(least, most, "python", count), _memory(least, most, "heap", count)]
        rows.append(row)
    if not rows:
        return "Nothing was measured yet."
    head = ["step", "measured", "each more", "times", "derived: time", "derived: Python", "derived: heap"]
    return table(head, rows)


def _memory(least: tuple[int, Any], most: tuple[int, Any], what: str, count: int) -> str:
    if least[1][what] is None or most[1][what] is None:
        return "–"
    return f"{line_through((least[0], least[1][what]), (most[0], most[1][what])).at(count) / 1024:.1f} GiB"


def _time(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 300 else f"{seconds / 60:.0f} min"
