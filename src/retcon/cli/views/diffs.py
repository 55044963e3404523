"""Old against new, as charts and tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from decimal import Decimal

from rich.console import RenderableType
from rich.text import Text

from retcon.cli.charts import bounds, diverging_bar, sparkline
from retcon.cli.figures import amount, change, counted, slices
from retcon.cli.views.parts import (
    QUIET,
    STRONG,
    WARN,
    Cell,
    facts,
    indented,
    more,
    name,
    number,
    section,
    stack,
    table,
    title,
)
from retcon.cli.views.states import state_text
from retcon.core.gates import percent
from retcon.core.runs import RunState
from retcon.flow.tell import Change, DiffReport, EnvironmentDiff, ModelDiff

_MANY = 31
"""Up to a month, every slice is listed."""

_MOST_CHANGED = 12
_LABELS = 24
"""Columns that stand before and around a chart."""

Series = Sequence[tuple[str, Change]]
"""Slices with what one measure did there."""


def diff_view(report: DiffReport, *, model: str | None, all_slices: bool, width: int) -> RenderableType:
    """Per model the totals, a chart of every slice, and the slices that moved most (or all of them)."""
    models = [each for each in report.models if model in (None, each.model)]
    return stack([_head(report), *(_model(each, all_slices, width) for each in models)])


def _head(report: DiffReport) -> RenderableType:
    run = report.run
    sides = "before → published" if report.is_published else "production → staged"
    undone = " (undone since)" if run.state is RunState.ROLLED_BACK else ""
    line = title("Diff", Text(run.id, style=STRONG), state_text(run.state), Text(sides + undone, style=QUIET))
    return stack([line, facts([("why", run.plan.reason)])])


def environment_diff_view(report: EnvironmentDiff, *, all_slices: bool, width: int) -> RenderableType:
    """Production against an environment: the slices that both have, and those that only one has."""
    sides = Text(f"production → {report.environment}", style=QUIET)
    told: list[tuple[str, RenderableType]] = [
        ("code", "the same" if report.same_code else Text("not the same in both", style=WARN))
    ]
    for place, only in (("production", report.only_production), (report.environment, report.only_environment)):
        if only:
            told.append(("only there", f"{counted(len(only), 'slice')} in {place}: {slices(only)}"))
    line = title("Diff", Text(report.model.model, style=STRONG), sides)
    return stack([line, facts(told), _model(report.model, all_slices, width)])


def _model(diff: ModelDiff, all_slices: bool, width: int) -> RenderableType:
    same = len(diff.slices) - diff.changed
    moved = f"{counted(diff.changed, 'slice')} changed" + (f", {same:,} the same" if same else "")
    measures: dict[str, tuple[Change | None, Series]] = {
        "rows": (diff.rows, [(each.slice, each.rows) for each in diff.slices])
    }
    for metric in dict.fromkeys([*diff.totals, *(metric for each in diff.slices for metric in each.metrics)]):
        nothing = Change(old=None, new=None)
        per_slice = [(each.slice, each.metrics.get(metric, nothing)) for each in diff.slices]
        measures[metric] = (diff.totals.get(metric), per_slice)
    parts: list[RenderableType] = []
    for measure, (total, series) in measures.items():
        parts.append(_total(measure, total, series))
        if any(pair.old != pair.new for _, pair in series):
            parts += [indented(_chart(series, width - _LABELS)), indented(_slice_table(series, all_slices))]
    return section(f"{diff.model}: {moved}", *parts)


def _total(measure: str, total: Change | None, series: Series) -> Text:
    line = Text(measure, style=STRONG)
    if total is not None:
        moved = (change(total), _colour(total))
        line = Text.assemble(line, f"  {amount(total.old)} → {amount(total.new)}  ", moved)
    if len(series) > 1 and all(pair.old == pair.new for _, pair in series):
        line.append("  in every slice", style=QUIET)
    return line


def _chart(series: Series, width: int) -> RenderableType:
    """Old and new on one scale, and below them the relative change."""
    old, new = [pair.old for _, pair in series], [pair.new for _, pair in series]
    relative = [pair.relative for _, pair in series]
    both, moves = bounds(old, new), bounds(relative)
    rows: list[tuple[str, RenderableType]] = []
    if both is not None and len(series) > 1:
        if any(value is not None for value in old):
            rows.append(("old", Text(sparkline(old, low=both[0], high=both[1], width=width), style=QUIET)))
        rows.append(("new", Text(sparkline(new, low=both[0], high=both[1], width=width))))
    if moves is not None and len(series) > 1:
        low, high = min(moves[0], Decimal(0)), max(moves[1], Decimal(0))
        rows.append(("change", Text(sparkline(relative, low=low, high=high, width=width))))
        rows.append(("", Text(_extremes(series), style=QUIET)))
    return facts(rows)


def _extremes(series: Series) -> str:
    known = [(relative, label) for label, pair in series if (relative := pair.relative) is not None]
    (least, at), (most, till) = min(known), max(known)
    span = f"{series[0][0]} to {series[-1][0]}"
    if least == most:
        return f"{span}: {percent(least)} in every slice"
    return f"{span}: from {percent(least)} ({at}) to {percent(most)} ({till})"


def _slice_table(series: Series, all_slices: bool) -> RenderableType:
    if not all_slices and len(series) > _MANY and all(pair.old is None for _, pair in series):
        return Text("every slice is new; --all lists them", style=QUIET)
    shown = series if all_slices or len(series) <= _MANY else _most_changed(series)
    known = [abs(relative) for _, pair in series if (relative := pair.relative) is not None and relative.is_finite()]
    heads = (name("slice"), number("old"), number("new"), number("change"), name())
    rows = table(heads, _slice_rows(shown, max(known, default=Decimal(0))))
    return stack([rows, *more(len(series) - len(shown), "slice", "those that moved less; --all lists them")])


def _slice_rows(series: Series, largest: Decimal) -> Iterator[tuple[Cell, ...]]:
    for label, pair in series:
        bar = diverging_bar(pair.relative, largest=largest) if largest else Text()
        yield label, amount(pair.old), amount(pair.new), Text(change(pair), style=_colour(pair)), bar


def _most_changed(series: Series) -> Series:
    """The slices that moved most, in their own order; what is new counts as most."""

    def distance(at: int) -> Decimal:
        pair = series[at][1]
        if pair.old == pair.new:
            return Decimal(0)
        return abs(pair.relative) if pair.relative is not None else Decimal("Infinity")

    largest = sorted(range(len(series)), key=lambda at: (-distance(at), at))[:_MOST_CHANGED]
    return [series[at] for at in sorted(largest)]


def _colour(pair: Change) -> str:
    if pair.old == pair.new:
        return QUIET
    if pair.relative is None:
        return ""
    return "green" if pair.relative >= 0 else "red"
