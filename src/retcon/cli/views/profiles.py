"""What columns look like, in production and staged, side by side."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from decimal import Decimal, InvalidOperation

from rich.console import RenderableType
from rich.text import Text

from retcon.cli.charts import sparkline
from retcon.cli.figures import NONE, amount, count, counted
from retcon.cli.views.parts import QUIET, STRONG, Cell, bullets, facts, name, number, section, stack, table, title
from retcon.cli.views.states import state_text
from retcon.core.profiles import ColumnProfile, stability_of
from retcon.flow.profile import ModelProfile, ProfileReport

_LONGEST = 18
_VALUES = 5
_MIDDLE = 2
"""The median's place among the quantiles."""


def profile_view(report: ProfileReport, *, model: str | None) -> RenderableType:
    """Per model a table with two lines for each column, and the most frequent values where they may be shown."""
    run = report.run
    models = [each for each in report.models if model in (None, each.model)]
    sides = "before → published" if run.published is not None else "production → staged"
    head = title("Profile", Text(run.id, style=STRONG), state_text(run.state), Text(sides, style=QUIET))
    return stack([head, facts([("why", run.plan.reason)]), *(_model(each) for each in models)])


def _model(profile: ModelProfile) -> RenderableType:
    heads = (
        name("column"),
        name("side"),
        number("rows"),
        number("NULL"),
        number("distinct"),
        number("min"),
        number("median"),
        number("mean"),
        number("max"),
        number("index"),
        name("by bin"),
    )
    rows = [row for column in profile.columns for row in _rows(profile, column)]
    frequent = [line for old, new in profile.columns.values() if (line := _frequent(old, new))]
    parts: list[RenderableType] = [table(heads, rows)]
    if frequent:
        parts.append(bullets(frequent))
    return section(f"{profile.model}: {counted(len(profile.columns), 'column')}", *parts)


def _rows(profile: ModelProfile, column: str) -> Iterator[tuple[Cell, ...]]:
    old, new = profile.columns[column]
    index = stability_of(column, profile.profiled)
    compared = new.against or new.bins.counts
    both = _shares(old.bins.counts if old is not None else ()), _shares(compared)
    highest = max((share for shares in both for share in shares), default=Decimal(0))
    if old is not None:
        yield column, "production", *_numbers(old), "", Text(_bars(both[0], highest), style=QUIET)
    told = NONE if index is None else f"{index:.2f}"
    yield column if old is None else "", "staged", *_numbers(new), told, _bars(both[1], highest)


def _numbers(profile: ColumnProfile) -> tuple[str, ...]:
    middle = profile.quantiles[_MIDDLE] if len(profile.quantiles) > _MIDDLE else None
    return (
        count(profile.rows),
        f"{profile.null_rate:.1%}",
        NONE if profile.distinct is None else f"≈{count(profile.distinct)}",
        *(_value(text) for text in (profile.low, middle, profile.mean, profile.high)),
    )


def _value(text: str | None) -> str:
    if text is None:
        return NONE
    try:
        return amount(Decimal(text))
    except InvalidOperation:
        return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def _shares(counts: Sequence[int]) -> list[Decimal]:
    total = sum(counts)
    return [Decimal(each) / total for each in counts] if total else []


def _bars(shares: Sequence[Decimal], highest: Decimal) -> str:
    return sparkline(shares, low=Decimal(0), high=highest, width=len(shares)) if shares and highest else ""


def _frequent(old: ColumnProfile | None, new: ColumnProfile) -> str:
    """The most frequent values with their shares, where they may be kept."""
    base = old if old is not None else new
    if not base.bins.values:
        return ""
    before, after = _shares(base.bins.counts), _shares(new.against or new.bins.counts)
    shown = [
        f"{_value(value)} {share:.1%}" + (f" → {after[at]:.1%}" if old is not None and after else "")
        for at, (value, share) in enumerate(zip(base.bins.values[:_VALUES], before, strict=False))
    ]
    return f"{base.column}: {', '.join(shown)}"
