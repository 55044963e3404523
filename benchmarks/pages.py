"""The measured parts of the pages: tables, a chart, and where they stand.

A page's prose is written by people; what a run measured stands between markers, and only that is replaced.
"""

from __future__ import annotations

import html
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def replaced(page: str, block: str, content: str) -> str:
    """The page with what stands in a block replaced, and nothing else."""
    markers = f"<!-- measured: {block} -->", f"<!-- end: {block} -->"
    found = re.findall(rf"{markers[0]}\n.*?{markers[1]}", page, re.DOTALL)
    if len(found) != 1:
        raise ValueError(
            f"the page has {len(found)} blocks between {markers[0]!r} and {markers[1]!r}; it must have one"
        )
    return page.replace(found[0], f"{markers[0]}\n{content.strip()}\n{markers[1]}")


# ── limits ────────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, kw_only=True)
class Limit:
    """What a measurement is held to."""

    name: str
    """Under which a part tells what it measured."""
    says: str
    bound: float
    unit: str = "×"
    is_least: bool = False
    """The measurement must not be below the bound, instead of not above."""

    def is_kept_by(self, value: float) -> bool:
        return value >= self.bound if self.is_least else value <= self.bound

    @property
    def shown(self) -> str:
        return f"{'≥' if self.is_least else '≤'} {self.bound:g} {self.unit}"


LIMITS = (
    Limit(
        name="backfill, ledger",
        says="stage, prove, publish all slices of both tables, against the hand-written job; production's measures "
        "from the ledger",
        bound=1.15,
    ),
    Limit(name="backfill, read", says="the same where production must be read", bound=1.4),
    Limit(name="backfill, waves", says="the same in 6 waves", bound=1.3),
    Limit(
        name="prove, ledger",
        says="proving against staging; production's side from the ledger where it is true",
        bound=0.2,
    ),
    Limit(name="prove, read", says="the same where production must be read", bound=0.35),
    Limit(name="publish", says="publish with its preparation: 2 tables, all slices, warm", bound=1.5, unit="s"),
    Limit(name="roll back", says="rollback where nothing landed since", bound=1.5, unit="s"),
    Limit(name="swap", says="the swap itself: one transaction of the ledger", bound=0.1, unit="s"),
    Limit(
        name="changed",
        says="12 days really changed: `plan --changed` and `apply`, against the hand-written job over all days",
        bound=0.25,
    ),
    Limit(
        name="load",
        says="daily load, a thousandth of the rows of 5 days of a year changed, against a full refresh",
        bound=0.05,
    ),
    Limit(name="dbt by day", says="dbt-spark microbatch by day, against retcon", bound=3, is_least=True),
    Limit(name="SQLMesh by day", says="SQLMesh, batches of a day, against retcon", bound=3, is_least=True),
)


def limits_table(values: Mapping[str, tuple[float, str]], limits: Sequence[Limit] = LIMITS) -> str:
    """Each limit beside what was measured (a value, and when and with what), and whether it is reached."""
    rows: list[list[str]] = []
    for limit in limits:
        if limit.name in values:
            value, when = values[limit.name]
            verdict = "reached" if limit.is_kept_by(value) else "**not reached**"
            # 0.35 that isn't within 0.35 has a digit more.
            digits = 2 if limit.is_kept_by(round(value, 2)) == limit.is_kept_by(value) else 3
            rows.append([limit.says, limit.shown, f"{value:.{digits}f}", verdict, when])
        else:
            rows.append([limit.says, limit.shown, "–", "not measured", "–"])
    return table(["what", "limit", "measured", "", "size, date"], rows)


# ── a chart ───────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, kw_only=True)
class Bar:
    name: str
    value: float
    is_ours: bool = False


def bars(title: str, shown: Sequence[Bar]) -> str:
    """Bars from left to right, each with its number, as SVG that reads on light and dark pages."""
    left, width, step = 290, 340, 30
    height = 54 + step * len(shown)
    most = max(bar.value for bar in shown)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 720 {height}" width="720" height="{height}" '
        f'font-family="system-ui, sans-serif" font-size="13" role="img">',
        f"<title>{html.escape(title)}</title>",
        f'<rect width="720" height="{height}" rx="6" fill="#ffffff" stroke="#d0d7de"/>',
        f'<text x="16" y="28" font-weight="600" fill="#1f2328">{html.escape(title)}</text>',
    ]
    for index, bar in enumerate(shown):
        top = 44 + step * index
        length = max(2.0, width * bar.value / most)
        colour = "#0969da" if bar.is_ours else "#8c959f"
        parts += [
            f'<text x="{left - 10}" y="{top + 15}" text-anchor="end" fill="#1f2328">{html.escape(bar.name)}</text>',
            f'<rect x="{left}" y="{top}" width="{length:.1f}" height="20" rx="2" fill="{colour}"/>',
            f'<text x="{left + length + 8:.1f}" y="{top + 15}" fill="#1f2328">{bar.value:.2f}</text>',
        ]
    return "\n".join([*parts, "</svg>", ""])
