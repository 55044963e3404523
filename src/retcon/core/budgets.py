"""Budgets: what a run may take, in time or in money."""

from __future__ import annotations

import re
from collections.abc import Mapping

from retcon.core.durations import seconds_text
from retcon.core.estimates import Estimate, Price
from retcon.errors import BadArguments, Refused
from retcon.values import dataclass

_BUDGET = re.compile(r"(\d+(?:\.\d+)?)\s*([^\W\d_]*)")
_UNITS = {"s": 1, "sec": 1, "second": 1, "min": 60, "minute": 60, "h": 3600, "hour": 3600, "day": 86400}
_NO_PRICE = 'write `cost: {core_hour: 0.12}` into retcon.yaml, or give a time: --budget "2 h"'


@dataclass(frozen=True, kw_only=True)
class Budget:
    """One of the two."""

    seconds: float | None = None
    """For which Spark may be there."""
    cost: float | None = None
    """In units of `cost`."""

    def document(self) -> dict[str, float]:
        return {"seconds": self.seconds} if self.seconds is not None else {"cost": self.cost or 0.0}

    def text(self, price: Price | None) -> str:
        return amount_text(self.seconds, self.cost, price)

    @property
    def words(self) -> str:
        """As it is typed."""
        return f"{self.seconds:g} s" if self.seconds is not None else f"{self.cost or 0.0:g}"

    def allows(self, seconds: float, cores: int | None, price: Price | None) -> bool:
        """Is so much within it? What can't be told is."""
        if self.seconds is not None:
            return seconds <= self.seconds
        cost = cost_of(seconds, cores, price)
        return cost is None or self.cost is None or cost <= self.cost

    def spent_text(self, seconds: float, cores: int | None, price: Price | None) -> str:
        """So much, in the budget's own unit."""
        return amount_text(seconds if self.seconds is not None else None, cost_of(seconds, cores, price), price)


def budget_from(document: Mapping[str, float] | None) -> Budget | None:
    """As a plan's file or an event has it."""
    return None if document is None else Budget(**document)


def parse_budget(text: str, price: Price | None) -> Budget:
    """`5` in units of `cost`, or a time such as `2 h`."""
    match = _BUDGET.fullmatch(text.strip())
    unit = match[2].casefold() if match is not None else ""
    if match is not None and unit and (unit in _UNITS or unit.removesuffix("s") in _UNITS):
        seconds = float(match[1]) * (_UNITS.get(unit) or _UNITS[unit.removesuffix("s")])
        return _positive(Budget(seconds=seconds), text)
    is_amount = match is not None and (not unit or (price is not None and unit == price.currency.casefold()))
    if match is None or not is_amount:
        raise BadArguments(
            f"--budget {text}: neither an amount nor a time", next='write `--budget 5`, or `--budget "2 h"`'
        )
    if price is None:
        raise BadArguments(f"--budget {text} is an amount of money, and the project has no `cost`", next=_NO_PRICE)
    return _positive(Budget(cost=float(match[1])), text)


def _positive(budget: Budget, text: str) -> Budget:
    if not (budget.seconds or budget.cost):
        raise BadArguments(f"--budget {text}: nothing can be done for nothing", next="give more")
    return budget


def require_within(budget: Budget, estimate: Estimate | None, price: Price | None, *, state: str) -> None:
    """Refuse what will take more, even if all goes well; where that isn't known, it is found out while it runs."""
    if estimate is None or estimate.seconds is None:
        return
    low, high = estimate.seconds.low, estimate.seconds.high
    if budget.allows(low, estimate.cores, price):
        return
    told = [budget.spent_text(seconds, estimate.cores, price) for seconds in (low, high)]
    raise Refused(
        f"the plan is over its budget of {budget.text(price)}: it will take {told[0]} to {told[1]}",
        state=state,
        next="ask for less at a time, or give a higher --budget",
    )


def require_countable(budget: Budget, cores: int | None, price: Price | None, master: str) -> None:
    """Refuse an amount of money where nobody can say what an hour costs."""
    if budget.cost is None:
        return
    if price is None:
        raise Refused("the budget is an amount of money, and the project has no `cost`", next=_NO_PRICE)
    if cores is None:
        raise Refused(
            f"how many cores {master} gives isn't known, and so not what an hour costs", next='--budget "2 h"'
        )


def cost_of(seconds: float, cores: int | None, price: Price | None) -> float | None:
    """What so long a time with all cores costs."""
    return None if cores is None or price is None else seconds * cores / 3600 * price.core_hour


def amount_text(seconds: float | None, cost: float | None, price: Price | None) -> str:
    if seconds is not None:
        return seconds_text(seconds)
    return (price or Price(core_hour=0.0)).text(cost or 0.0)
