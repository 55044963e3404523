"""The sample tables: what `init` and `demo` promise of them."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from decimal import Decimal
from pathlib import Path

import pytest

from retcon.lakehouse.samples import CURRENCIES, DAYS_OF_RATES, LAST_DAY, write_samples
from tests.lakehouse.lakes import Lake, days


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    lake = Lake(tmp_path_factory.mktemp("samples"))
    made = write_samples(lake.settings, days=10, orders_a_day=30)
    assert (made.first, made.last) == (LAST_DAY - timedelta(days=9), LAST_DAY)
    assert made.tables == ("raw.orders", "raw.fx_rates")
    assert made.orders == lake.contents("raw.orders", "order_date").of(None).rows
    return lake


def test_orders_are_cut_by_their_day_and_hold_every_day(lake: Lake) -> None:
    held = lake.contents("raw.orders", "order_date")
    assert held.is_exact
    assert held.present == days("2026-01-13..2026-01-22")
    assert held.null_rows == 0


def test_rates_are_told_apart_by_bounds_and_hold_two_years(lake: Lake) -> None:
    held = lake.contents("raw.fx_rates", "rate_date")
    assert len(held.files) > 4
    assert len(held.present) == DAYS_OF_RATES
    assert held.present.text.endswith("..2026-01-22")
    assert held.of(days("2026-01-22")).files == 1
    assert held.of(None).rows == DAYS_OF_RATES * len(CURRENCIES)


def test_every_order_has_a_rate_an_amount_and_an_update_on_its_own_day(lake: Lake) -> None:
    orders = lake.table("raw.orders").scan().to_arrow().to_pylist()
    rates = {(r["rate_date"], r["currency"]) for r in lake.table("raw.fx_rates").scan().to_arrow().to_pylist()}
    assert len(rates) == DAYS_OF_RATES * len(CURRENCIES), "one rate a day and currency"
    assert all((order["order_date"], order["currency"]) in rates for order in orders)
    assert all(isinstance(order["amount"], Decimal) and order["amount"] > 0 for order in orders)
    assert all(order["updated_at"].date() == order["order_date"] for order in orders)
    assert max(Counter(order["order_id"] for order in orders).values()) == 1


def test_the_dollar_is_a_dollar_and_one_day_is_a_shock_to_the_real(lake: Lake) -> None:
    rates = lake.table("raw.fx_rates").scan().to_arrow().to_pylist()
    by_day = {r["rate_date"]: r["rate"] for r in rates if r["currency"] == "BRL"}
    assert {r["rate"] for r in rates if r["currency"] == "USD"} == {Decimal(1)}
    drops = [day for day in by_day if by_day[day] < by_day.get(day - timedelta(days=1), Decimal(0)) * Decimal("0.92")]
    assert drops == [LAST_DAY - timedelta(days=4)]


def test_the_same_seed_gives_the_same_rows(lake: Lake, tmp_path: Path) -> None:
    told: list[str] = []
    again = Lake(tmp_path / "deep" / "er")
    write_samples(again.settings, days=10, orders_a_day=30, tell=told.append)
    for name in ("raw.orders", "raw.fx_rates"):
        assert all_rows(again, name) == all_rows(lake, name)
    assert len(told) == 2
    other = Lake(tmp_path / "other")
    write_samples(other.settings, days=10, orders_a_day=30, seed=8)
    assert all_rows(other, "raw.orders") != all_rows(lake, "raw.orders")


def all_rows(lake: Lake, name: str) -> Counter[tuple[object, ...]]:
    return Counter(tuple(row.values()) for row in lake.table(name).scan().to_arrow().to_pylist())
