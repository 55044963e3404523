"""What counts as little work."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given

from retcon.core.gates import Gate, NotNull, Unique
from retcon.core.keys import Keys
from retcon.core.little import is_little
from retcon.core.models import Model, Strategy
from retcon.core.plans import Origin, Plan
from retcon.core.table_gates import ForeignKey
from tests.core.examples import a_model
from tests.core.test_plans import plans

some_plans = plans().filter(lambda plan: plan.models != ())


def sized(plan: Plan, bytes: int | None, origin: Origin = Origin.SOURCE) -> Plan:
    """With so many bytes in each input."""
    models = (
        replace(planned, inputs=tuple(replace(i, bytes=bytes, origin=origin) for i in planned.inputs))
        for planned in plan.models
    )
    return replace(plan, models=tuple(models), keys=None)


def made(plan: Plan, **more: object) -> Mapping[str, Model]:
    keys: dict[str, Any] = {"gates": (), **more}
    return {planned.name: replace(a_model(planned.name), **keys) for planned in plan.models}


@given(some_plans)
def test_a_few_bytes_are_little_and_what_isnt_known_never_is(plan: Plan) -> None:
    reads = sum(len(planned.inputs) for planned in plan.models)
    assert is_little(sized(plan, 1), made(plan))
    assert is_little(sized(plan, 8 * 1024**2), made(plan)) == (reads <= 1)
    assert is_little(sized(plan, None), made(plan)) == (reads == 0)
    assert is_little(sized(plan, None, Origin.RUN), made(plan)), "what the run makes of little"
    assert not is_little(sized(plan, 1), {})


@pytest.mark.parametrize(
    "gate",
    [
        Unique(name="unique", columns=("elsewhere",)),
        ForeignKey(name="foreign_key", columns=("a",), to="dim.a", on=("a",)),
    ],
)
@given(plan=some_plans)
def test_gates_that_look_at_more_than_the_slices_may_read_much(gate: Gate, plan: Plan) -> None:
    assert is_little(sized(plan, 1), made(plan, gates=(NotNull(name="not_null", columns=("a",)),)))
    assert not is_little(sized(plan, 1), made(plan, gates=(gate,)))


@given(some_plans)
def test_rows_that_are_carried_over_may_be_many(plan: Plan) -> None:
    assert not is_little(sized(plan, 1), made(plan, strategy=Strategy.MERGE))
    assert not is_little(replace(sized(plan, 1), keys=Keys(column="k", count=1, values=("a",))), made(plan))
