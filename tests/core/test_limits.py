"""What is over a limit is refused, and what reaches it isn't."""

from __future__ import annotations

import pytest

from retcon.core.limits import Limits
from retcon.errors import Refused

LIMITS = Limits(slices=18, bytes=2000, keys=10)


def test_a_plan_within_its_limits_is_let_through_up_to_the_last_slice_byte_and_key() -> None:
    LIMITS.require(slices=18, bytes=2000, keys=10)
    Limits(slices=0, bytes=0, keys=0).require()


@pytest.mark.parametrize(
    ("asked", "said"),
    [({"slices": 19}, "limits: 19 slices, at most 18 allowed"),
     ({"bytes": 2001}, "limits: 2,001 bytes, at most 2,000 allowed"),
     ({"keys": 11}, "limits: 11 keys, at most 10 allowed"),
     ({"slices": 19, "bytes": 1, "keys": 11}, "limits: 19 slices, at most 18 allowed; 11 keys, at most 10 allowed")],
)  # fmt: skip
def test_a_plan_over_a_limit_is_refused_with_what_it_asks_for(asked: dict[str, int], said: str) -> None:
    with pytest.raises(Refused) as refused:
        LIMITS.require(**asked)
    assert refused.value.message == f"the plan is over the project's {said}"
    assert "`limits` in retcon.yaml" in refused.value.next
