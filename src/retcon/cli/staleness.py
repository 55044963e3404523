"""What differs from what would be computed now, for `retcon plan`."""

from __future__ import annotations

from retcon.cli.load_results import reasons_result
from retcon.cli.terminals import Terminal
from retcon.cli.views.loads import reasons_view
from retcon.core.intervals import Interval
from retcon.core.loads import Stale
from retcon.core.slices import Grain, Slice, SliceSet
from retcon.errors import BadArguments
from retcon.flow.plan import Ask
from retcon.wiring import Workspace


def found_stale(ask: Ask, workspace: Workspace) -> list[Stale]:
    """What differs of the models that are asked for, within the dates."""
    graph = workspace.project.graph
    stale = workspace.finder.stale(graph.select(ask.select, ask.exclude), ask.now)
    if ask.start is None and ask.end is None:
        return stale
    return [_within(each, ask) for each in stale]


def _within(stale: Stale, ask: Ask) -> Stale:
    cut = stale.compared.grain
    if not isinstance(cut, Grain) or not stale.compared:
        return stale
    first, last = stale.compared.hull().edges
    around = SliceSet.covering(cut, Interval.of_edges(ask.start or first, ask.end or last))
    return stale.within(around)


def explain(workspace: Workspace, select: tuple[str, ...], label: str, terminal: Terminal) -> None:
    """Tell whether a slice is stale, and why."""
    graph = workspace.project.graph
    names = graph.select(select) if select else ()
    if len(names) != 1:
        raise BadArguments("--why is about one model", next="retcon plan mart.fct_daily_revenue --why 2026-01-22")
    model = graph.models[names[0]]
    try:
        slice = Slice(model.grain, model.grain.parse(label))
    except ValueError as error:
        raise BadArguments(
            f"--why {label}: {model.name} has no such slice", next=f"its slices are {model.grain}s"
        ) from error
    reasons = workspace.finder.why(model, slice)
    terminal.report(lambda: reasons_result(reasons), lambda: reasons_view(reasons))
