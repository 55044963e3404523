"""Models that read their own previous slice."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from retcon.core.runs import RunState, WaveState
from retcon.errors import Fault
from tests.shops import FIRST, Meddling, Shop

pytestmark = pytest.mark.spark

BALANCE = """\
/* retcon
slices: {by: day, every: day}
key: [day, customer]
columns: {day: date, customer: string, balance: "decimal(38,2)"}
inputs:
  raw.orders: {time: order_date}
  mart.balance: {time: day, lookback: 1}
replay: {order: sequential}
gates:
  - unique: key
*/
SELECT :start_date AS day, customer, CAST(sum(amount) AS DECIMAL(38, 2)) AS balance
FROM (
  SELECT customer, amount FROM raw.orders
  UNION ALL
  SELECT customer, balance FROM mart.balance
)
GROUP BY customer
"""
RECOMPUTED = f"""
SELECT d.day, o.customer, CAST(sum(o.amount) AS DECIMAL(38, 2)) AS balance
FROM (SELECT explode(sequence(DATE '{FIRST}', DATE '2026-01-08')) AS day) d
JOIN raw.orders o ON o.order_date <= d.day
GROUP BY d.day, o.customer
"""


def a_chain(shop: Shop) -> Shop:
    shop.open_doors()
    shop.write("mart.balance", BALANCE)
    return shop


def balance(shop: Shop) -> Counter[tuple[Any, ...]]:
    return shop.rows("SELECT day, customer, balance FROM mart.balance")


def test_each_slice_goes_on_from_the_one_before_and_restating_one_restates_the_later_ones(any_shop: Shop) -> None:
    shop = a_chain(any_shop)
    first = shop.backfill("mart.balance", start="2026-01-01", end="2026-01-05")
    shop.backfill("mart.balance", start="2026-01-06", end="2026-01-08")
    assert balance(shop) == shop.rows(RECOMPUTED)

    shop.sql("INSERT INTO raw.orders VALUES (7777, DATE '2026-01-03', 'USD', 'c1', 100)")
    before = shop.rows("SELECT * FROM mart.balance WHERE day < DATE '2026-01-03'")
    run = shop.backfill("mart.balance", start="2026-01-03", end="2026-01-03", downstream=False)
    assert run.plan.models[0].slices.text == "2026-01-03..2026-01-08"
    assert balance(shop) == shop.rows(RECOMPUTED)
    assert shop.rows("SELECT * FROM mart.balance WHERE day < DATE '2026-01-03'") == before

    ledger = shop.workspace.ledger
    then, now = (
        {c.slice: c.content for c in ledger.consumption(r.id) if c.table == "mart.balance"} for r in (first, run)
    )
    assert then["2026-01-03"] == now["2026-01-03"], "the second of January was and is the same"
    assert then["2026-01-04"] != now["2026-01-04"], "the third isn't"
    assert all(scan.scanned_files == scan.scope_files for wave in ledger.waves(run.id) for scan in wave.scans), (
        "exactly the previous slice is read"
    )
    shop.rollback(run)
    assert balance(shop) != shop.rows(RECOMPUTED)


def test_a_chain_that_broke_goes_on_at_the_slice_that_failed(shop: Shop) -> None:
    a_chain(shop)
    plan = shop.plan("mart.balance")
    for dies_after_writing in (False, True):
        left = iter(range(2))

        def fails(stage: Any, *args: Any, left: Any = left, after: bool = dies_after_writing) -> Any:
            is_done = next(left, None) is None
            if is_done and not after:
                raise Fault("the cluster is gone")
            found = stage(*args)
            if is_done:
                raise Fault("the cluster is gone, its commit isn't")
            return found

        with pytest.raises(Fault, match="the cluster is gone"):
            shop.apply(plan, warehouse=Meddling(shop.context().warehouse, "stage", fails))
        shop.close()
    done = [w for w in shop.workspace.ledger.waves(plan.id) if w.state is WaveState.DONE]
    assert [w.slices for w in done] == [f"2026-01-0{day}" for day in (1, 2, 3, 4)]
    assert shop.apply(plan).state is RunState.PUBLISHED
    assert balance(shop) == shop.rows(RECOMPUTED)
