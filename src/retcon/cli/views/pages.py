"""What HTML pages of retcon are made of: one file, which loads nothing and runs nothing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from retcon.cli.figures import count
from retcon.values import dataclass

_STYLE = """
:root { color-scheme: light dark; --ink: #1c2430; --quiet: #5d6b7c; --paper: #fbfbf9; --line: #dfe3e8; --card: #fff;
  --changed: #c58a15; --added: #2c8a57; --removed: #c4473d; --old: #fbe6e3; --new: #e1f3e8; }
@media (prefers-color-scheme: dark) { :root { --ink: #e4e8ee; --quiet: #98a5b5; --paper: #14181e; --line: #2d3540;
  --card: #1b2129; --changed: #e0ac45; --added: #55b984; --removed: #e5766c; --old: #43211e; --new: #17382a; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink);
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; }
main { max-width: 1200px; margin: 0 auto; padding: 2rem 1.5rem 4rem; }
h1 { font-size: 1.5rem; margin: 0; overflow-wrap: anywhere; }
h2 { font-size: 1.2rem; margin: 3rem 0 .5rem; border-top: 1px solid var(--line); padding-top: 1.5rem;
  overflow-wrap: anywhere; }
h3 { font-size: .95rem; margin: 1.8rem 0 .5rem; }
p, ul { margin: .3rem 0; } .quiet { color: var(--quiet); } ul.quiet { padding-left: 1.2rem; }
.tiles { display: flex; flex-wrap: wrap; gap: .8rem; margin: 1rem 0; }
.tile { background: var(--card); border: 1px solid var(--line); border-radius: 8px; padding: .6rem 1rem;
  min-width: 8rem; }
.tile b { display: block; font-size: 1.5rem; font-variant-numeric: tabular-nums; }
.changed { color: var(--changed); } .added { color: var(--added); } .removed { color: var(--removed); }
.chart { background: var(--card); border: 1px solid var(--line); border-radius: 8px; padding: 1rem; overflow-x: auto; }
svg { display: block; width: 100%; height: auto; } svg text { fill: var(--quiet); font-size: 11px; }
rect.changed { fill: var(--changed); } rect.added { fill: var(--added); } rect.removed { fill: var(--removed); }
line.axis { stroke: var(--line); }
.wide { overflow-x: auto; } table { border-collapse: collapse; font-size: .88rem; }
th, td { text-align: left; vertical-align: top; padding: .25rem .7rem; border-bottom: 1px solid var(--line); }
th { color: var(--quiet); font-weight: 500; white-space: nowrap; }
td { font-variant-numeric: tabular-nums; max-width: 26rem; overflow-wrap: anywhere; }
td.number, th.number { text-align: right; } td.old { background: var(--old); } td.new { background: var(--new); }
td.bar { min-width: 12rem; width: 30rem; } td.bar i { display: block; height: .8rem; border-radius: 2px;
  background: var(--changed); margin-top: .25rem; }
.row { background: var(--card); border: 1px solid var(--line); border-radius: 8px; margin: .8rem 0;
  padding: .7rem 1rem; }
.row h4 { margin: 0 0 .4rem; font-size: .92rem; overflow-wrap: anywhere; }
.null { color: var(--quiet); font-style: italic; }
footer { margin-top: 3rem; color: var(--quiet); font-size: .85rem; }
"""

KINDS = ("changed", "added", "removed")
_WIDTH, _HEIGHT, _FOOT, _SIDE = 1100, 220, 22, 60
_BARS = 370
"""More slices than this share a bar."""


@dataclass(frozen=True, kw_only=True)
class Bar:
    """One stacked bar."""

    label: str
    values: tuple[int, ...]
    """Of each of `KINDS`."""


def page(title: str, body: Iterable[str]) -> str:
    """A whole page."""
    policy = "default-src 'none'; style-src 'unsafe-inline'"
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{_STYLE}</style></head>\n<body><main>\n"
        + "\n".join(body)
        + "\n</main></body></html>\n"
    )


def tiles(pairs: Iterable[tuple[str, int, str]]) -> str:
    """Large numbers: what, how many, and of which kind."""
    made = (
        f'<div class="tile"><b class="{escape(kind)}">{count(n)}</b>{escape(what)}</div>' for what, n, kind in pairs
    )
    return f'<div class="tiles">{"".join(made)}</div>'


def quiet_list(lines: Sequence[str]) -> str:
    """Short statements; nothing where there is none."""
    return f'<ul class="quiet">{"".join(f"<li>{escape(line)}</li>" for line in lines)}</ul>' if lines else ""


def cell(value: str | None, kind: str = "") -> str:
    """A value in a table."""
    style = f' class="{kind}"' if kind else ""
    return f'<td{style}><span class="null">NULL</span></td>' if value is None else f"<td{style}>{escape(value)}</td>"


def stacked_bars(bars: Sequence[Bar]) -> str:
    """A bar for each slice; of many, neighbours share one."""
    shown = _joined(bars)
    tallest = max((sum(bar.values) for bar in shown), default=0) or 1
    step = (_WIDTH - _SIDE) / max(len(shown), 1)
    width = max(min(step * 0.8, 60), 1)
    parts = [
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT + _FOOT + 12}" role="img" aria-label="rows that differ, by slice">',
        f'<line class="axis" x1="{_SIDE}" x2="{_WIDTH}" y1="{_HEIGHT + 10}" y2="{_HEIGHT + 10}"/>',
        f'<line class="axis" x1="{_SIDE}" x2="{_WIDTH}" y1="10" y2="10"/>',
        f'<text x="{_SIDE - 6}" y="14" text-anchor="end">{count(tallest)}</text>',
        f'<text x="{_SIDE - 6}" y="{_HEIGHT + 14}" text-anchor="end">0</text>',
    ]
    for at, bar in enumerate(shown):
        left, base = _SIDE + at * step + (step - width) / 2, float(_HEIGHT + 10)
        told = ", ".join(f"{count(n)} {kind}" for n, kind in zip(bar.values, KINDS, strict=True) if n) or "the same"
        parts.append(f"<g><title>{escape(bar.label)}: {told}</title>")
        for n, kind in zip(bar.values, KINDS, strict=True):
            if n:
                height = max(n / tallest * _HEIGHT, 1.0)
                base -= height
                parts.append(
                    f'<rect class="{kind}" x="{left:.1f}" y="{base:.1f}" width="{width:.1f}" height="{height:.1f}"/>'
                )
        parts.append("</g>")
    parts += [_label(shown, at, step) for at in _labelled(len(shown))]
    return f'<div class="chart">{"".join(parts)}</svg></div>'


def _joined(bars: Sequence[Bar]) -> list[Bar]:
    size = -(-len(bars) // _BARS)
    if size <= 1:
        return list(bars)
    groups = [bars[at : at + size] for at in range(0, len(bars), size)]
    return [
        Bar(
            label=f"{group[0].label} to {group[-1].label}",
            values=tuple(sum(values) for values in zip(*(bar.values for bar in group), strict=True)),
        )
        for group in groups
    ]


def _labelled(number: int) -> list[int]:
    """The bars below which a label has room."""
    return list(range(0, number, max(1, -(-number // 10))))


def _label(bars: Sequence[Bar], at: int, step: float) -> str:
    x = _SIDE + at * step + step / 2
    text = escape(bars[at].label.split(" to ")[0])
    return f'<text x="{x:.1f}" y="{_HEIGHT + _FOOT + 6}" text-anchor="middle">{text}</text>'
