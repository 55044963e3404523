"""What a change is made of."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retcon.core.attributions import ROWS, AttributedSlice, Attribution, Parts, Trials, drawn

NUMBERS = st.integers(-1000, 1000).map(Decimal)
TRIED = st.none() | NUMBERS.map(lambda number: {ROWS: number})


def trials(old: int, new: int, again: int | None, old_code: int | None, old_inputs: int | None, **more: Any) -> Trials:
    told = [None if n is None else {ROWS: Decimal(n)} for n in (old, new, again, old_code, old_inputs)]
    return Trials(old=told[0], new=told[1], again=told[2], old_code=told[3], old_inputs=told[4], **more)


def test_code_and_inputs_are_each_changed_alone_and_the_rest_is_what_they_do_together() -> None:
    parts = trials(100, 132, 130, 120, 105).parts(ROWS)
    assert (parts.change, parts.inputs, parts.code, parts.chance, parts.rest) == (32, 20, 5, 2, 5)


def test_where_one_of_them_cant_be_tried_it_is_what_the_other_leaves() -> None:
    without_old_inputs = trials(100, 130, 130, 120, None).parts(ROWS)
    assert (without_old_inputs.inputs, without_old_inputs.code, without_old_inputs.rest) == (20, 10, 0)
    without_old_code = trials(100, 130, 130, None, 105).parts(ROWS)
    assert (without_old_code.inputs, without_old_code.code, without_old_code.rest) == (25, 5, 0)
    neither = trials(100, 130, 129, None, None).parts(ROWS)
    assert (neither.inputs, neither.code, neither.chance, neither.rest) == (None, None, 1, None)


def test_what_didnt_change_isnt_to_blame() -> None:
    # Somebody wrote a row to the table by hand: computing it anew takes that away.
    parts = trials(101, 100, 100, 100, 100, same_code=True, same_inputs=True).parts(ROWS)
    assert (parts.code, parts.inputs, parts.chance, parts.rest) == (0, 0, 0, -1)
    assert trials(100, 130, 130, 130, 100, same_code=True).parts(ROWS).code == 0
    assert trials(100, 130, 130, 100, 130, same_inputs=True).parts(ROWS).inputs == 0


@pytest.mark.parametrize(
    ("tried", "told"),
    [
        (trials(107, 125, 125, 120, 105, made={ROWS: Decimal(100)}), (5, 20, 0, -7)),
        (trials(107, 130, 130, 120, None, made={ROWS: Decimal(100)}), (10, 20, 0, -7)),
        (trials(107, 130, 130, None, 105, made={ROWS: Decimal(100)}), (5, 25, 0, -7)),
        (trials(107, 120, 120, 120, 120, made={ROWS: Decimal(100)}, same_code=True), (0, 20, 0, -7)),
        (trials(107, 105, 105, 105, 105, made={ROWS: Decimal(100)}, same_inputs=True), (5, 0, 0, -7)),
        (trials(107, 100, 100, 100, 100, made={ROWS: Decimal(100)}, same_code=True, same_inputs=True), (0, 0, 0, -7)),
    ],
    ids=["both", "both, without old inputs", "both, without old code", "inputs only", "code only", "neither"],
)
def test_rows_that_somebody_else_wrote_are_in_the_rest(tried: Trials, told: tuple[int, ...]) -> None:
    """Seven of them, beside the hundred that the run before made."""
    parts = tried.parts(ROWS)
    assert (parts.code, parts.inputs, parts.chance, parts.rest) == told


def test_a_measure_that_the_run_before_didnt_record_is_told_from_what_was_there() -> None:
    assert trials(107, 130, 130, 120, 105, made={"sum(x)": Decimal(1)}).parts(ROWS).inputs == 13


@given(NUMBERS, NUMBERS, TRIED, TRIED, TRIED, st.booleans(), st.booleans())
def test_the_parts_add_up_to_the_change(
    old: Decimal, new: Decimal, again: object, old_code: object, old_inputs: object, code: bool, inputs: bool
) -> None:
    tried = Trials(
        old={ROWS: old},
        new={ROWS: new},
        again=again,
        old_code=old_code,
        old_inputs=old_inputs,
        same_code=code,
        same_inputs=inputs,
    )
    parts = tried.parts(ROWS)
    assert (parts.rest is None) is (None in (parts.code, parts.inputs, parts.chance))
    if parts.rest is not None:
        assert parts.code + parts.inputs + parts.chance + parts.rest == parts.change == new - old


def test_totals_are_of_what_may_be_summed_and_unknown_where_a_slice_is() -> None:
    known, unknown = trials(1, 2, 2, 2, 1).parts(ROWS), trials(1, 2, 2, None, None).parts(ROWS)

    def tried(*parts: Parts) -> Attribution:
        slices = tuple(
            AttributedSlice(slice=str(at), before="r", parts={ROWS: each, "avg(x)": each}, unlike=0)
            for at, each in enumerate(parts)
        )
        return Attribution(model="m", moved=2, slices=slices, additive=frozenset({ROWS}))

    assert tried(known, known).totals.keys() == {ROWS}
    assert (tried(known, known).totals[ROWS].change, tried(known, known).totals[ROWS].inputs) == (2, 2)
    assert tried(known, unknown).totals[ROWS].inputs is None


def test_the_same_seed_draws_the_same_slices() -> None:
    days = [f"2026-01-{day:02}" for day in range(1, 29)]
    assert drawn(days, 3, "a") == drawn(reversed(days), 3, "a") == tuple(sorted(drawn(days, 3, "a")))
    assert len({drawn(days, 3, seed) for seed in "abcdef"}) > 1
    assert drawn(days[:2], 3, "a") == tuple(days[:2])


def test_what_is_endless_has_parts_that_are_no_numbers() -> None:
    endless = {ROWS: Decimal("Infinity")}
    parts = Trials(old={ROWS: Decimal(1)}, new=endless, again=endless, old_code=endless, old_inputs=None).parts(ROWS)
    assert (parts.change, parts.inputs) == (Decimal("Infinity"), Decimal("Infinity"))
    assert all(each is not None and each.is_nan() for each in (parts.code, parts.chance, parts.rest))


def test_parts_are_summed_up_to_the_last_digit() -> None:
    one, other = (Parts(old=n, new=n, code=n, inputs=n, chance=n) for n in (Decimal(10**35), Decimal("0.01")))
    both = one + other
    assert {both.old, both.new, both.code, both.inputs, both.chance} == {Decimal(f"{10**35}.01")}
