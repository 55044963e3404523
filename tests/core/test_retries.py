"""Which failures are tried again, and when."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retcon.core.retries import TRIES, is_worth_another_try, seconds_before_next
from retcon.errors import Conflict, Fault, GatesFailed, Interrupted, Refused


def test_a_fault_that_may_pass_is_tried_three_times_in_all() -> None:
    lost = Fault("executor lost", retryable=True)
    assert [is_worth_another_try(lost, tries) for tries in range(1, TRIES + 2)] == [True, True, False, False]
    assert TRIES == 3


@pytest.mark.parametrize(
    "error",
    [Fault("no space left"), Refused("no"), Conflict("no"), GatesFailed("no"), Interrupted("no"), ZeroDivisionError()],
)
def test_what_would_fail_again_isnt_tried_again(error: Exception) -> None:
    assert not is_worth_another_try(error, 1)


@given(st.integers(1, 5), st.floats(0, 1), st.floats(0, 1))
def test_the_wait_grows_with_every_try_whatever_is_drawn(tries: int, first: float, second: float) -> None:
    assert 0 < seconds_before_next(tries, first) <= seconds_before_next(tries + 1, second)
    assert seconds_before_next(tries, 0) < seconds_before_next(tries, 1)
    assert seconds_before_next(TRIES - 1, 1) < 30
