"""Time spans, sizes and shares, as people write them."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal

import pytest

from retcon.project.quantities import bytes_of, days_of, reach_of, share_of, unsigned_share_of


@pytest.mark.parametrize(
    ("text", "days"),
    [("14 days", 14), ("1 day", 1), ("2 weeks", 14), ("3 months", 90), ("3 years", 1095), ("0 days", 0), (" 7Days", 7)],
)
def test_a_time_span_is_read_in_days(text: str, days: int) -> None:
    assert days_of(text) == days


@pytest.mark.parametrize("value", [14, "14", "14 parsecs", "", "days", "1.5 days", None, ["1 day"], True, "36 hours"])
def test_what_is_no_time_span_is_refused(value: object) -> None:
    with pytest.raises(ValueError, match="must be a time span"):
        days_of(value)


@pytest.mark.parametrize(
    ("value", "reach"),
    [(0, 0), (6, 6), ("7 days", timedelta(days=7)), ("1 week", timedelta(days=7)), ("36 Hours", timedelta(hours=36))],
)
def test_a_reach_is_a_number_of_slices_or_a_time(value: object, reach: object) -> None:
    assert reach_of(value) == reach


@pytest.mark.parametrize("value", ["1 month", "2 years"])
def test_months_are_no_time_since_they_differ_in_length(value: object) -> None:
    with pytest.raises(ValueError, match="differ in length; give days, or a number of slices"):
        reach_of(value)


@pytest.mark.parametrize("value", [-1, "-1 day", "-1 hours"])
def test_nothing_reaches_back_a_negative_time(value: object) -> None:
    with pytest.raises(ValueError, match="can't be negative"):
        reach_of(value)


@pytest.mark.parametrize("value", [10**9, "36501 days", "99999999999999999999 weeks"])
def test_a_span_without_bounds_is_refused(value: object) -> None:
    with pytest.raises(ValueError, match="100 years"):
        reach_of(value)


@pytest.mark.parametrize("value", [True, 1.5, "soon", None, []])
def test_what_is_no_number_of_slices_is_refused(value: object) -> None:
    with pytest.raises(ValueError, match="number of slices"):
        reach_of(value)


@pytest.mark.parametrize(
    ("value", "size"),
    [("1 TB", 10**12), ("500 GB", 5 * 10**11), ("10 GiB", 10 * 2**30), ("1.5kb", 1500), ("7 B", 7), (123, 123)],
)
def test_a_size_is_read_in_bytes(value: object, size: int) -> None:
    assert bytes_of(value) == size


@pytest.mark.parametrize("value", [0, -1, "0 B", "1 XB", "TB", True, 1.5, None, "99999999 PB", [], "iB"])
def test_what_is_no_size_is_refused(value: object) -> None:
    with pytest.raises(ValueError, match="must be"):
        bytes_of(value)


@pytest.mark.parametrize(
    ("value", "share"), [("20%", "0.2"), (0.2, "0.2"), ("0.1%", "0.001"), (1, "1"), ("-5 %", "-0.05"), ("250%", "2.5")]
)
def test_a_share_is_exact(value: object, share: str) -> None:
    assert share_of(value) == Decimal(share)


@pytest.mark.parametrize("value", [20, 1.1, "20", "a lot", True, None, [], float("nan"), float("inf")])
def test_what_may_or_may_not_be_a_share_is_refused(value: object) -> None:
    with pytest.raises(ValueError, match="must be a share such as `20%`"):
        share_of(value)


def test_a_distance_has_no_sign() -> None:
    with pytest.raises(ValueError, match="can't be negative"):
        unsigned_share_of("-20%")
