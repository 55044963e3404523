"""Numbers, charts and signs as people see them."""

from __future__ import annotations

import io
from datetime import UTC, datetime
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retcon.cli import figures
from retcon.cli.charts import bounds, diverging_bar, sparkline
from retcon.cli.figures import Zone
from retcon.cli.streams import can_show_signs, showable
from retcon.core.slices import Grain, SliceSet
from retcon.flow.tell import Change

values = st.lists(st.none() | st.decimals(allow_nan=False, min_value=-(10**12), max_value=10**12), min_size=1)


@pytest.mark.parametrize(
    ("number", "text"),
    [(0, "0 B"), (999, "999 B"), (1000, "1.0 kB"), (4_200_000_000, "4.2 GB"), (999_960, "1.0 MB"),
     (10**12, "1.0 TB"), (10**16, "10,000.0 TB")],
)  # fmt: skip
def test_sizes(number: int, text: str) -> None:
    assert figures.size(number) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0.0 s"), (9.94, "9.9 s"), (9.96, "10 s"), (59.7, "1 min"), (200, "3 min 20 s"), (7500, "2 h 5 min"),
     (7200, "2 h")],
)  # fmt: skip
def test_durations(seconds: float, text: str) -> None:
    assert figures.duration(seconds) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "–"), ("1234567.50", "1,234,567.50"), ("12", "12"), ("1E+3", "1,000"), ("0.123456789", "0.1235"),
     ("NaN", "NaN")],
)  # fmt: skip
def test_amounts(value: str | None, text: str) -> None:
    assert figures.amount(None if value is None else Decimal(value)) == text


@pytest.mark.parametrize(
    ("old", "new", "text"),
    [(None, None, "–"), (None, "5", "new"), ("0", "5", "new"), ("5", "5", "0%"), ("0", "0", "0%"),
     ("100", "101.25", "+1.25%"), ("100", None, "-100.0%")],
)  # fmt: skip
def test_changes(old: str | None, new: str | None, text: str) -> None:
    pair = Change(old=None if old is None else Decimal(old), new=None if new is None else Decimal(new))
    assert figures.change(pair) == text


def test_many_ranges_are_abridged() -> None:
    assert figures.slices(SliceSet(Grain.DAY)) == "–"
    assert figures.slices(SliceSet.of(Grain.DAY, [1, 2, 4, 6, 8]), 3) == (
        "1970-01-02..1970-01-03, 1970-01-05, 1970-01-07 and 1 more range"
    )


def test_moments_are_shown_in_the_zone() -> None:
    at = datetime(2026, 7, 1, 22, 30, tzinfo=UTC)
    assert Zone("Europe/Berlin").named(at) == "2026-07-02 00:30 Europe/Berlin"
    assert Zone().named(at) == "2026-07-01 22:30 UTC"
    assert Zone().named(None) == "–"


def test_a_sparkline_rises_with_its_values_and_leaves_gaps() -> None:
    rising = [Decimal(n) if n != 3 else None for n in range(8)]
    assert sparkline(rising, low=Decimal(0), high=Decimal(7), width=40) == "▁▂▃ ▅▆▇█"


@given(values, st.integers(1, 30))
def test_a_sparkline_keeps_to_its_width(held: list[Decimal | None], width: int) -> None:
    edges = bounds(held)
    low, high = edges if edges is not None else (Decimal(0), Decimal(0))
    drawn = sparkline(held, low=low, high=high, width=width)
    assert len(drawn) == min(len(held), width)


@given(st.none() | st.decimals(allow_nan=False), st.decimals(min_value=0, max_value=100, allow_nan=False))
def test_a_bar_is_always_as_wide(value: Decimal | None, largest: Decimal) -> None:
    drawn = diverging_bar(value, largest=largest, half=12).plain
    assert len(drawn) == 25
    assert drawn[12] == "│"
    if value is not None and largest:
        assert (drawn[13:].strip() == "") is (value <= 0)
        assert (drawn[:12].strip() == "") is (value >= 0)


def test_an_encoding_without_the_signs_gets_plainer_ones() -> None:
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding="ascii")
    assert not can_show_signs(stream)
    plain = showable(stream)
    plain.write("✓ 1,000 → 2,000 ±5% █▌│ café")
    plain.flush()
    assert raw.getvalue() == b"v 1,000 > 2,000 ~5% ##| caf?"
    assert can_show_signs(io.TextIOWrapper(io.BytesIO(), encoding="utf-8"))
