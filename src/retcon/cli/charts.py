"""Small charts of characters."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from itertools import pairwise

from rich.text import Text

_LEVELS = "▁▂▃▄▅▆▇█"

Values = Sequence[Decimal | None]


def sparkline(values: Values, *, low: Decimal, high: Decimal, width: int) -> str:
    """One character a value (or a few neighbours' mean, where there are more values than room); None is a gap."""
    span = high - low
    signs = []
    for value in _fitted(values, width):
        if value is None:
            signs.append(" ")
        else:
            level = (value - low) / span * len(_LEVELS) if span else Decimal(len(_LEVELS)) / 2
            signs.append(_LEVELS[min(max(int(level), 0), len(_LEVELS) - 1)])
    return "".join(signs)


def bounds(*series: Values) -> tuple[Decimal, Decimal] | None:
    """The least and the greatest of all values; None where there is none."""
    known = [value for values in series for value in values if value is not None and value.is_finite()]
    return (min(known), max(known)) if known else None


def _fitted(values: Values, width: int) -> list[Decimal | None]:
    finite = [value if value is None or value.is_finite() else None for value in values]
    if len(finite) <= width:
        return finite
    edges = [len(finite) * number // width for number in range(width + 1)]
    return [_mean(finite[start:end]) for start, end in pairwise(edges)]


def _mean(values: Values) -> Decimal | None:
    known = [value for value in values if value is not None]
    return sum(known, Decimal(0)) / len(known) if known else None


def diverging_bar(value: Decimal | None, *, largest: Decimal, half: int = 12) -> Text:
    """A bar to the left of the axis for less, to the right for more."""
    if value is None or not largest:
        return Text(" " * half + "│" + " " * half, style="dim")
    share = min(abs(value) / largest, Decimal(1)) if value.is_finite() else Decimal(1)
    halves = round(share * half * 2)
    if value and not halves:
        halves = 1
    full, rest = divmod(halves, 2)
    if value < 0:
        bar = ("▐" if rest else "") + "█" * full
        return Text.assemble(" " * (half - len(bar)), (bar, "red"), ("│", "dim"), " " * half)
    bar = "█" * full + ("▌" if rest else "")
    return Text.assemble(" " * half, ("│", "dim"), (bar, "green"), " " * (half - len(bar)))
