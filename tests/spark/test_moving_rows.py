"""Upserts whose rows may move to another slice: no key is ever in two, and none is lost on the way."""

from __future__ import annotations

import re
from collections import Counter
from datetime import date, timedelta
from typing import Any

import pytest

from retcon.core.plans import from_document, to_document
from retcon.errors import Conflict, GatesFailed, Refused
from retcon.flow.apply import Override, Until
from tests.flow.workshops import scope, share
from tests.shops import Meddling, Shop

pytestmark = pytest.mark.spark

FIRST = date(2025, 12, 1)
ORDERS = """\
/* retcon
slices: {by: order_date, every: day}
strategy: merge
key: [order_id]
inputs:
  raw.orders: {time: order_date}
*/
SELECT order_id, order_date, amount FROM raw.orders
"""
REVENUE = """\
/* retcon
slices: {by: order_date, every: day}
allow_empty: true
inputs:
  mart.orders: {time: order_date}
*/
SELECT order_date, count(*) AS orders, sum(amount) AS amount FROM mart.orders GROUP BY order_date
"""
BY_ID = """\
/* retcon
slices: {by: order_date, every: day}
strategy: merge
key: [order_id]
allow_empty: true
inputs:
  mart.orders: {time: order_date}
*/
SELECT order_id, order_date, amount, row_number() OVER (ORDER BY order_id) AS place FROM mart.orders
"""


def day(number: int) -> str:
    """The first day of the shop is day 1."""
    return (FIRST + timedelta(days=number - 1)).isoformat()


def orders(shop: Shop, days: int, *, are_published: bool = False) -> Shop:
    """Two orders a day: 10 and 11 on day 1, 20 and 21 on day 2. Published, they are in the mart as well."""
    shop.remove("mart.orders_usd", "mart.revenue")
    shop.write("mart.orders", ORDERS)

    def publish() -> None:
        shop.once(f"orders of {days} days", lambda: _make_orders(shop, days))
        shop.backfill("mart.orders", start=day(1), end=day(days))

    if are_published:
        shop.once(f"published orders of {days} days", publish)
    else:
        shop.once(f"orders of {days} days", lambda: _make_orders(shop, days))
    return shop


def _make_orders(shop: Shop, days: int) -> None:
    shop.sql("CREATE NAMESPACE IF NOT EXISTS raw")
    shop.sql(
        "CREATE TABLE raw.orders (order_id BIGINT, order_date DATE, amount INT) USING iceberg "
        "PARTITIONED BY (order_date)"
    )
    shop.sql(
        f"INSERT INTO raw.orders SELECT 10 * (id + 1) + n, date_add(DATE '{FIRST}', CAST(id AS INT)), 1 "
        f"FROM range({days}) LATERAL VIEW explode(array(0, 1)) AS n"
    )


def move(shop: Shop, order: int, to: int) -> None:
    shop.sql(f"UPDATE raw.orders SET order_date = DATE '{day(to)}', amount = 100 WHERE order_id = {order}")


def raw(shop: Shop) -> Counter[tuple[Any, ...]]:
    return shop.rows("SELECT order_id, order_date, amount FROM raw.orders")


def test_an_order_that_moves_to_another_day_leaves_the_old_one(shop: Shop) -> None:
    orders(shop, 41).write("mart.revenue", REVENUE)
    shop.backfill("mart.orders", "mart.revenue", start=day(1), end=day(41))
    before = raw(shop)
    assert shop.production("mart.orders") == before
    move(shop, 31, 40)
    shop.sql(f"INSERT INTO raw.orders VALUES (999, DATE '{day(40)}', 7)")

    plan = shop.plan("mart.orders", start=day(40), end=day(40))
    assert scope(plan) == dict.fromkeys(("mart.orders", "mart.revenue"), f"{day(3)}, {day(40)}")
    planned = share(plan, "mart.orders")
    assert planned.moved_from is not None
    assert (planned.moved_from.text, planned.computed.text) == (day(3), day(40))
    assert [wave.text for wave in planned.waves] == [f"{day(3)}, {day(40)}"]
    assert planned.inputs[0].slices == planned.computed, "nothing is read for a day that only loses rows"
    assert from_document(to_document(plan)) == plan
    assert f"rows leave {day(3)} (1 slice), where Spark found keys" in " ".join(plan.notes)

    run = shop.apply(plan)
    assert shop.production("mart.orders") == raw(shop)
    assert shop.production("mart.revenue") == shop.rows(
        "SELECT order_date, count(*), sum(amount) FROM raw.orders GROUP BY order_date"
    )
    consumed = {(c.model, c.slice): c.content for c in shop.workspace.ledger.consumption(run.id)}
    assert consumed["mart.orders", day(3)] == f"keys:{run.id}", "it was read for another day"
    assert not consumed["mart.orders", day(40)].startswith("keys:")

    again = shop.plan("mart.orders", start=day(40), end=day(40))
    assert share(again, "mart.orders").moved_from is None
    run_again = shop.apply(again)
    assert shop.production("mart.orders") == raw(shop), "publishing it twice changes nothing"
    assert all(s.checksum == s.old_checksum for s in shop.workspace.ledger.slices(run_again.id))

    shop.rollback(run_again)
    shop.rollback(run)
    assert shop.production("mart.orders") == before


def test_orders_move_between_the_days_that_are_computed(shop: Shop) -> None:
    orders(shop, 8)
    shop.backfill("mart.orders", start=day(1), end=day(8), wave=3)
    assert shop.production("mart.orders") == raw(shop)
    for order, to in ((21, 5), (51, 2), (30, 8), (80, 3), (10, 4)):
        move(shop, order, to)
    plan = shop.plan("mart.orders", start=day(2), end=day(6), wave=2)
    planned = share(plan, "mart.orders")
    assert planned.moved_from is not None
    assert planned.moved_from.text == f"{day(1)}, {day(8)}"
    assert [wave.text for wave in planned.waves] == [f"{day(1)}..{day(6)}, {day(8)}"]
    run = shop.apply(plan)
    # Day 8 isn't computed: order 30, which is there now, stays where it was.
    expected = raw(shop) - shop.rows(f"SELECT 30, DATE '{day(8)}', 100") + shop.rows(f"SELECT 30, DATE '{day(3)}', 1")
    assert shop.production("mart.orders") == expected
    verdicts = {v.verdict.kind: v.verdict for v in shop.workspace.ledger.verdicts(run.id)}
    assert verdicts["parity"].summary.endswith("computed alone gives the same")
    assert verdicts["one_row_per_key"].passed


def test_what_is_computed_slice_by_slice_is_still_written_at_once(shop: Shop) -> None:
    orders(shop, 8)
    shop.write("mart.by_id", BY_ID)
    shop.backfill("mart.orders", "mart.by_id", start=day(1), end=day(8))
    move(shop, 21, 5)
    move(shop, 51, 7)
    plan = shop.plan("mart.orders", start=day(5), end=day(6))
    assert scope(plan) == {"mart.orders": f"{day(2)}, {day(5)}..{day(6)}", "mart.by_id": f"{day(1)}..{day(8)}"}
    reader = share(plan, "mart.by_id")
    assert reader.moved_from is not None
    assert reader.computed.text == f"{day(2)}, {day(5)}..{day(6)}"
    assert len(reader.waves) == 1
    assert "it reads mart.orders, which this plan makes too" in " ".join(plan.notes)
    shop.apply(plan)
    placed = "row_number() OVER (PARTITION BY order_date ORDER BY order_id)"
    assert shop.production("mart.by_id") == shop.rows(f"SELECT *, {placed} FROM mart.orders")


PYTHON = """\
from retcon.models import Day, Input, model


@model(
    "mart.by_code",
    slices=Day("order_date"),
    strategy="merge",
    key=["order_id"],
    inputs={"orders": Input("raw.orders", time="order_date")},
)
def by_code(orders):
    return orders.select("order_id", "order_date", "amount")
"""


def test_rows_move_between_buckets_and_in_python_models(shop: Shop) -> None:
    orders(shop, 6)
    buckets = ORDERS.replace("by: order_date, every: day", "by: amount, buckets: 4").replace(
        "time: order_date", "key: amount"
    )
    shop.write("mart.by_amount", buckets)
    (shop.root / "models" / "mart" / "by_code.py").write_text(PYTHON)
    shop.sql("UPDATE raw.orders SET amount = order_id")
    shop.backfill("mart.by_amount", "mart.by_code", start=day(1), end=day(6))
    move(shop, 20, 5)
    move(shop, 40, 6)
    plan = shop.plan("mart.by_amount", "mart.by_code", start=day(5), end=day(6), wave=1)
    assert scope(plan) == {"mart.by_amount": "b0..b3", "mart.by_code": f"{day(2)}, {day(4)}..{day(6)}"}
    assert [len(model.waves) for model in plan.models] == [1, 1]
    shop.apply(plan)
    assert shop.production("mart.by_amount") == raw(shop)
    assert shop.production("mart.by_code") == raw(shop)


def test_a_day_whose_last_order_moves_away_is_emptied_only_where_that_is_allowed(shop: Shop) -> None:
    orders(shop, 4, are_published=True)
    move(shop, 10, 4)
    move(shop, 11, 4)
    plan = shop.plan("mart.orders", start=day(4), end=day(4))
    with pytest.raises(GatesFailed, match=r"mart\.orders:empty"):
        shop.apply(plan)
    shop.edit("mart.orders", "strategy", "allow_empty: true\nstrategy")
    shop.apply(plan)
    assert shop.production("mart.orders") == raw(shop)
    assert day(1) not in {str(d) for (d,) in shop.sql("SELECT order_date FROM mart.orders")}


def test_a_key_that_came_to_another_day_since_the_plan_fails_the_proof(shop: Shop) -> None:
    orders(shop, 4, are_published=True)
    shop.sql(f"INSERT INTO raw.orders VALUES (99, DATE '{day(4)}', 7)")
    plan = shop.plan("mart.orders", start=day(4), end=day(4))
    assert share(plan, "mart.orders").moved_from is None
    shop.sql(f"INSERT INTO mart.orders VALUES (99, DATE '{day(1)}', 7)")
    with pytest.raises(GatesFailed, match=r"mart\.orders:one_row_per_key"):
        shop.apply(plan)
    with pytest.raises(Refused, match="can't be overridden"):
        shop.apply(plan, override=Override(gates=("one_row_per_key",), reason="never mind"))
    renewed = share(shop.plan("mart.orders", start=day(4), end=day(4)), "mart.orders")
    assert renewed.moved_from is not None
    assert renewed.moved_from.text == day(1)


def test_a_key_that_comes_to_another_day_after_the_proof_refuses_the_publish(shop: Shop) -> None:
    orders(shop, 4, are_published=True)
    shop.sql(f"INSERT INTO raw.orders VALUES (99, DATE '{day(4)}', 7)")
    plan = shop.plan("mart.orders", start=day(4), end=day(4))
    shop.apply(plan, until=Until.PROVEN)
    shop.sql(f"INSERT INTO mart.orders VALUES (99, DATE '{day(1)}', 7)")
    with pytest.raises(Conflict, match=r"mart\.orders: written by others since this run began"):
        shop.apply(plan)
    assert shop.rows("SELECT order_id, order_date FROM mart.orders WHERE order_id = 99") == Counter(
        {(99, date.fromisoformat(day(1))): 1}
    )


def test_a_first_publish_looks_at_no_rows_and_takes_as_many_waves_as_it_likes(shop: Shop) -> None:
    orders(shop, 4)
    looks = Meddling(shop.workspace.warehouse, "homes", lambda *_: pytest.fail("nothing is there"))
    shop.workspace.__dict__["warehouse"] = looks
    plan = shop.plan("mart.orders", start=day(1), end=day(4), wave=2)
    assert (share(plan, "mart.orders").moved_from, len(share(plan, "mart.orders").waves)) == (None, 2)
    move(shop, 10, 4)
    shop.sql(f"INSERT INTO raw.orders VALUES (10, DATE '{day(1)}', 1)")
    with pytest.raises(GatesFailed, match=r"mart\.orders:one_row_per_key"):
        shop.apply(shop.plan("mart.orders", start=day(1), end=day(4), wave=2))


def test_a_query_that_fails_is_told_by_the_plan(shop: Shop) -> None:
    orders(shop, 4, are_published=True)
    shop.edit("mart.orders", "order_id, order_date", "CAST(concat('x', order_id) AS BIGINT) AS order_id, order_date")
    with pytest.raises(Refused, match=re.escape(f"the keys of {day(4)} can't be computed")):
        shop.plan("mart.orders", start=day(4), end=day(4))
