"""Overlaps: runs that are to write the same slices of the same table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from retcon.core.leases import Driver
from retcon.core.planning import abridged
from retcon.core.plans import Plan, PlannedModel
from retcon.core.runs import Run
from retcon.core.slices import Grain, SliceSet
from retcon.errors import Conflict
from retcon.values import dataclass


@dataclass(frozen=True, kw_only=True)
class InTheWay:
    """A run under way that writes what a plan is about, too."""

    run: Run
    shared: Mapping[str, SliceSet]
    """By table, in slices of the plan."""
    staged: int
    driver: Driver | None
    """None: nobody runs it now."""

    @property
    def told(self) -> str:
        """How far it is, and who runs it."""
        by = "nobody runs it now" if self.driver is None else f"run by {self.driver}"
        return f"{self.run.state.value}, {self.staged:,} of {self.run.plan.slices:,} slices staged, {by}"

    @property
    def tables(self) -> str:
        return "; ".join(f"{table} {abridged(slices)}" for table, slices in self.shared.items())


def shared_slices(plan: Plan, other: Plan) -> dict[str, SliceSet]:
    """By table, the slices of a plan that another one writes, too."""
    pairs = ((model, other.model(model.name)) for model in plan.models)
    found = {model.name: _shared(model, theirs) for model, theirs in pairs if theirs is not None}
    return {table: slices for table, slices in found.items() if slices}


def _shared(mine: PlannedModel, theirs: PlannedModel) -> SliceSet:
    """All slices, where either builds a table anew, or the table was cut by something else since."""
    is_by_time = isinstance(mine.slices.grain, Grain) and isinstance(theirs.slices.grain, Grain)
    is_told = is_by_time or mine.slices.grain == theirs.slices.grain
    if mine.beside is not None or theirs.beside is not None or not is_told:
        return mine.slices
    return mine.slices & theirs.slices.recut(mine.slices.grain)


def require_nobody_in_the_way(others: Sequence[InTheWay], *, state: str, force: str) -> None:
    """Refuse a second run over the same slices, with the first one and what can be done about it."""
    if not others:
        return
    first, more = others[0], len(others) - 1
    run = first.run.id
    go_on = (
        f"`retcon apply {run}` goes on with it"
        if first.driver is None
        else "let its `apply` finish (`retcon status` tells how far it is)"
    )
    raise Conflict(
        f"run {run} is under way over the same slices, {first.tables}: {first.told}"
        + (f" (and {more} more {'run' if more == 1 else 'runs'})" if more else ""),
        state=state,
        next=f"{go_on}, `retcon cancel {run}` gives it up; {force} lets both stage, and the publish decides",
    )


def overlap_notes(others: Sequence[InTheWay]) -> tuple[str, ...]:
    """What a reviewer should know of runs under way over the same slices."""
    return tuple(
        f"run {other.run.id} ({other.told}) writes {other.tables}, too: whichever publishes first decides, the other "
        "meets its rows as a conflict"
        for other in others
    )
