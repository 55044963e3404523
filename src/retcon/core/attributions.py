"""Attributions: how much of a change comes from code, from inputs, and from chance."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from decimal import Decimal

from retcon.core.sums import difference, sum_of
from retcon.values import dataclass

ROWS = "rows"
"""The measure that every slice has, beside its metrics."""

Numbers = Mapping[str, Decimal | None]
"""By measure."""


@dataclass(frozen=True, kw_only=True)
class Parts:
    """One measure of a slice, and what its change is made of; None: it can't be told."""

    old: Decimal
    new: Decimal
    code: Decimal | None
    inputs: Decimal | None
    chance: Decimal | None

    @property
    def change(self) -> Decimal:
        return difference(self.new, self.old)

    @property
    def rest(self) -> Decimal | None:
        """What neither does alone: both together, or rows that others wrote to the table."""
        if self.code is None or self.inputs is None or self.chance is None:
            return None
        return difference(self.change, sum_of((self.code, self.inputs, self.chance)))

    def __add__(self, other: Parts) -> Parts:
        return Parts(
            old=sum_of((self.old, other.old)),
            new=sum_of((self.new, other.new)),
            code=_sum(self.code, other.code),
            inputs=_sum(self.inputs, other.inputs),
            chance=_sum(self.chance, other.chance),
        )


@dataclass(frozen=True, kw_only=True)
class Trials:
    """What one slice came out as, by which code on which inputs; None where that couldn't be computed."""

    old: Numbers
    """As it was there."""
    new: Numbers
    """As the run made it."""
    again: Numbers | None
    """New code on new inputs, once more."""
    old_code: Numbers | None
    """Old code on new inputs."""
    old_inputs: Numbers | None
    """New code on old inputs."""
    made: Numbers | None = None
    """As the run before made it; None where that isn't on record. Others may have written to it since."""
    same_code: bool = False
    same_inputs: bool = False

    def parts(self, measure: str) -> Parts:
        """What the change of a measure is made of.

        Each of code and inputs is changed alone, from what the run before made. Where only one of the two could be
        tried, the other one is what is left on the way to the new state.
        """
        old, new = _of(self.old, measure), _of(self.new, measure)
        made = old if self.made is None or measure not in self.made else _of(self.made, measure)
        again = None if self.again is None else _of(self.again, measure)
        by_inputs = None if self.old_code is None else difference(_of(self.old_code, measure), made)
        by_code = None if self.old_inputs is None else difference(_of(self.old_inputs, measure), made)
        if self.same_code and self.same_inputs:
            by_code = by_inputs = Decimal(0)
        elif self.same_code:
            by_code = Decimal(0)
        elif self.same_inputs:
            by_inputs = Decimal(0)
        elif again is not None and by_inputs is not None and by_code is None:
            by_code = difference(difference(again, made), by_inputs)
        elif again is not None and by_code is not None and by_inputs is None:
            by_inputs = difference(difference(again, made), by_code)
        by_chance = None if again is None else difference(new, again)
        return Parts(old=old, new=new, code=by_code, inputs=by_inputs, chance=by_chance)


@dataclass(frozen=True, kw_only=True)
class AttributedSlice:
    """One slice, tried with old and new code on old and new inputs."""

    slice: str
    before: str | None
    """The run that published it before; None: none did."""
    parts: Mapping[str, Parts]
    unlike: int | None
    """Rows that come out otherwise when the same code computes the same inputs again; None: it wasn't computed."""
    notes: tuple[str, ...] = ()
    """What couldn't be tried, and why."""


@dataclass(frozen=True, kw_only=True)
class Attribution:
    """A model's slices that were tried, among those that moved."""

    model: str
    moved: int
    slices: tuple[AttributedSlice, ...]
    additive: frozenset[str]
    """Measures that may be summed up over slices."""
    why_not: str = ""
    """Why nothing of the model can be tried."""

    @property
    def totals(self) -> Mapping[str, Parts]:
        """Over the slices that were tried."""
        sums: dict[str, Parts] = {}
        for each in self.slices:
            for measure, parts in each.parts.items():
                if measure in self.additive:
                    sums[measure] = sums[measure] + parts if measure in sums else parts
        return sums


def drawn(labels: Iterable[str], number: int, seed: str) -> tuple[str, ...]:
    """Some of these slices, the same for the same seed, in their order."""
    by_chance = sorted(labels, key=lambda label: hashlib.sha256(f"{seed} {label}".encode()).digest())
    return tuple(sorted(by_chance[:number]))


def _of(numbers: Numbers, measure: str) -> Decimal:
    value = numbers.get(measure)
    return Decimal(0) if value is None else value


def _sum(one: Decimal | None, other: Decimal | None) -> Decimal | None:
    return None if one is None or other is None else sum_of((one, other))
