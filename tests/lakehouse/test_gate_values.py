"""Values that gates are about, as far as Spark isn't asked."""

from __future__ import annotations

from decimal import Decimal

import pytest

from retcon.errors import Refused
from retcon.lakehouse.gate_values import number_of

DIGITS = "12345678901234567890123456789012345678"


@pytest.mark.parametrize(
    ("text", "scale", "number"),
    [(DIGITS, 0, DIGITS), (DIGITS, 4, f"{DIGITS[:-4]}.{DIGITS[-4:]}"), (f"-{DIGITS}.25", 0, f"-{DIGITS}.25"),
     ("1.5E300", 0, "1.5E+300"), ("Infinity", 2, "Infinity")],
)  # fmt: skip
def test_a_metric_is_taken_to_its_last_digit(text: str, scale: int, number: str) -> None:
    assert str(number_of(text, "sum(x)", scale)) == number


def test_a_metric_that_is_no_number_is_refused() -> None:
    assert number_of(None, "max(x)") is None
    with pytest.raises(Refused, match=r"the metric max\(x\) gives 'b', which is no number"):
        number_of("b", "max(x)")
    assert number_of("NaN", "avg(x)") != Decimal(0)
