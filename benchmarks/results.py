"""What parts of the benchmark found: kept in one file, told on the pages.

Each part replaces what it measured and nothing else, so that one of them can be run again alone.
"""

from __future__ import annotations

import json
import os
import platform
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Any

from measuring import Cost, Runs, against, costs_of, spread
from pages import Bar, bars, limits_table, replaced, table
from petabyte import PARTS, derived

DOCS = Path(__file__).parents[1] / "docs"
KEPT = DOCS / "performance.json"
CHART = DOCS / "images" / "performance.svg"
PERFORMANCE = "performance.md"
SCALING = "scaling.md"


@dataclass(frozen=True, kw_only=True)
class Found:
    """What one part measured."""

    part: str
    size: str
    text: str
    """Tables and lines, in Markdown."""
    ratios: Mapping[str, float] = field(default_factory=dict)
    """By the names that limits have."""
    chart: Sequence[Bar] = ()
    figures: Mapping[str, Any] = field(default_factory=dict)
    """Whatever else is kept of it."""
    page: str = PERFORMANCE
    is_full_size: bool = True
    """Limits are for the sizes that scripts have by default: what other sizes give isn't held against them."""
    began: float | None = None
    """On the monotonic clock."""


def cost_table(runs: Runs, reference: str, names: Iterable[str] | None = None) -> str:
    """Medians and how far apart single runs were, in seconds and against the reference."""
    listed = list(names) if names is not None else list(dict.fromkeys(name for name, _ in runs))
    rows: list[list[str]] = []
    for name in listed:
        costs = costs_of(runs, name)
        row = [name, str(len(costs)), spread(cost.cpu for cost in costs).shown(1)]
        row.append("**1**" if name == reference else f"**{against(runs, name, reference).shown()}**")
        row.append(spread(cost.wall for cost in costs).shown(1))
        row.append("1" if name == reference else against(runs, name, reference, "wall").shown())
        rows.append(row)
    return table(["how", "runs", "CPU s", "CPU ratio", "wall s", "wall ratio"], rows)


def plain_costs(costs: Mapping[str, Sequence[Cost]], head: str) -> str:
    rows = [
        [name, str(len(each)), spread(cost.cpu for cost in each).shown(), spread(cost.wall for cost in each).shown()]
        for name, each in costs.items()
    ]
    return table([head, "runs", "CPU s", "wall s"], rows)


def tell(found: Found, *, write: bool) -> None:
    """Print what was found; write it down as well, in its own block of its page."""
    print(f"\n{found.part}, {found.size}\n{found.text}\n", flush=True)
    if not write:
        return
    minutes = "" if found.began is None else f", {(time.monotonic() - found.began) / 60:.1f} min"
    stamp = f"*{found.size}; {date.today()}, {machine()}{minutes}*"
    write_block(found.page, found.part, f"{stamp}\n\n{found.text}")
    kept = load()
    kept[found.part] = {
        "when": str(date.today()), "size": found.size, "machine": machine(),
        "ratios": dict(found.ratios) if found.is_full_size else {},
        "chart": [[bar.name, bar.value, bar.is_ours] for bar in found.chart], "figures": dict(found.figures),
    }  # fmt: skip
    KEPT.write_text(json.dumps(kept, indent=1, ensure_ascii=False, sort_keys=True) + "\n", encoding="utf-8")
    if found.page == PERFORMANCE:
        write_block(PERFORMANCE, "limits", limits_table(measured_values(kept)))
        write_chart(kept)
    if found.part in PARTS:
        write_block(SCALING, "petabyte", derived(kept))


def write_block(page: str, block: str, content: str) -> None:
    path = DOCS / page
    path.write_text(replaced(path.read_text(encoding="utf-8"), block, content), encoding="utf-8")


def measured_values(kept: Mapping[str, Any]) -> dict[str, tuple[float, str]]:
    return {
        name: (value, f"{part['size']}, {part['when']}")
        for part in kept.values()
        for name, value in part["ratios"].items()
    }


def write_chart(kept: Mapping[str, Any]) -> None:
    shown = [Bar(name=name, value=value, is_ours=ours) for part in kept.values() for name, value, ours in part["chart"]]
    shown.sort(key=lambda bar: bar.value)
    if shown:
        size = kept.get("backfill", {}).get("size", "")
        CHART.write_text(bars(f"Processor time, hand-written Spark job = 1 ({size})", shown), encoding="utf-8")


def load() -> dict[str, Any]:
    return dict(json.loads(KEPT.read_text(encoding="utf-8"))) if KEPT.exists() else {}


def machine() -> str:
    return f"{os.cpu_count()} cores, {platform.system()} {platform.machine()}, Python {platform.python_version()}"
