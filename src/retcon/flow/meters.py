"""Meters: what a run has taken so far, against its budget."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import field
from time import monotonic
from typing import TypeVar

from retcon.core.budgets import Budget, budget_from, require_countable, require_within
from retcon.core.estimates import Price
from retcon.core.events import ApplyBegan
from retcon.core.plans import Plan
from retcon.core.projects import Settings
from retcon.core.runs import Run
from retcon.core.timings import Timing, timing_of
from retcon.errors import Refused
from retcon.flow.ports import Ledger
from retcon.values import dataclass

T = TypeVar("T")


class BudgetPassed(Exception):
    """The run has taken what it may: raised between two waves, while others finish."""


@dataclass(frozen=True, kw_only=True)
class Setup:
    """What it took a process to get to where a run begins."""

    preparing: float | None = None
    """Seconds, Spark's start not included."""
    starting: float | None = None
    """Seconds in which Spark was started."""
    cores: int | None = None
    """That Spark's tasks run on."""


@dataclass(frozen=True, kw_only=True)
class Meter:
    """Runs while a process drives a run. Without a budget it stops nothing."""

    budget: Budget | None = None
    before: float = 0.0
    """Seconds that the run had taken when this turn began, and in which Spark was started for it."""
    cores: int | None = None
    price: Price | None = None
    clock: Callable[[], float] = monotonic
    began: float = field(default_factory=monotonic)

    @property
    def seconds(self) -> float:
        return self.before + self.clock() - self.began

    @property
    def told(self) -> str:
        """`the budget of 5.00 USD is passed: 5.02 USD so far`."""
        if self.budget is None:
            return ""
        spent = self.budget.spent_text(self.seconds, self.cores, self.price)
        return f"the budget of {self.budget.text(self.price)} is passed: {spent} so far"

    def check(self) -> None:
        """Go no further where the budget is passed."""
        if self.budget is not None and not self.budget.allows(self.seconds, self.cores, self.price):
            raise BudgetPassed

    def within(self, work: Iterator[T]) -> Iterator[T]:
        """The same, up to where the budget is passed."""
        while True:
            self.check()
            try:
                yield next(work)
            except StopIteration:
                return


def budget_of(run: Run | None, plan: Plan, given: Budget | None, ledger: Ledger) -> Budget | None:
    """What holds for a run: what is given now, else what was given last, else what its plan says."""
    if given is not None or run is None:
        return given or plan.budget
    begun = [event.body.get("budget") for event in ledger.events(run.id, kind=ApplyBegan)]
    return budget_from(next((each for each in reversed(begun) if each is not None), None)) or plan.budget


def meter_of(run: Run, given: Budget | None, ledger: Ledger, settings: Settings, setup: Setup) -> Meter:
    """A meter for a turn that begins now."""
    budget = budget_of(run, run.plan, given, ledger)
    before = _taken(timing_of(ledger.events(run.id)), budget, setup.cores)
    return Meter(
        budget=budget,
        before=before + (setup.starting or 0.0),
        cores=setup.cores,
        price=settings.cost,
    )


def _taken(timing: Timing, budget: Budget | None, cores: int | None) -> float:
    """Seconds for which Spark was there; of money, as many as would have cost as much with the cores there are now."""
    hours = timing.core_hours
    if budget is None or budget.cost is None or hours is None or not cores:
        return timing.in_spark
    return hours * 3600 / cores


def require_budget(
    run: Run | None, plan: Plan, given: Budget | None, ledger: Ledger, settings: Settings, cores: int | None
) -> None:
    """Refuse what is over its budget before it begins, or was when it stopped."""
    budget = budget_of(run, plan, given, ledger)
    if budget is None:
        return
    require_countable(budget, cores, settings.cost, settings.spark.master)
    spent = _taken(timing_of(ledger.events(run.id)), budget, cores) if run is not None else 0.0
    if not spent:
        require_within(budget, plan.estimate, settings.cost, state="nothing was run")
    if not budget.allows(spent, cores, settings.cost):
        raise Refused(
            f"run {plan.id} has taken {budget.spent_text(spent, cores, settings.cost)} of its budget of "
            f"{budget.text(settings.cost)}",
            state="what is staged is kept; production is untouched",
            next=f"`retcon apply {plan.id} --budget …` with a higher one goes on",
        )
