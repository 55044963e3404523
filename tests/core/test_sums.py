"""Sums of metrics: exact, and no error where there is no number."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retcon.core.sums import difference, of_units, sum_of

LARGEST = 10**38 - 1
NUMBERS = st.builds(of_units, st.integers(-LARGEST, LARGEST).map(Decimal), st.integers(0, 18))
ENDLESS = Decimal("Infinity")


@given(st.lists(NUMBERS, max_size=20))
def test_sums_and_differences_are_exact(numbers: list[Decimal]) -> None:
    found = sum_of(numbers)
    assert Fraction(found) == sum(map(Fraction, numbers))
    assert all(Fraction(difference(found, each)) == Fraction(found) - Fraction(each) for each in numbers)


@given(st.integers(-LARGEST, LARGEST), st.integers(0, 18))
def test_units_of_the_last_digit_are_exact(units: int, scale: int) -> None:
    assert Fraction(of_units(Decimal(units), scale)) == Fraction(units, 10**scale)


@pytest.mark.parametrize("found", [sum_of([ENDLESS, Decimal(1), -ENDLESS]), difference(ENDLESS, ENDLESS)])
def test_what_is_endless_both_ways_is_no_number(found: Decimal) -> None:
    assert found.is_nan()
    assert sum_of([found, Decimal(1)]).is_nan()
    assert sum_of([ENDLESS, Decimal(1)]) == ENDLESS
