"""`strategy: full` with columns or partitions that the table can't take: built beside, swapped, undone, given up."""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError

from retcon.core.events import TablesOpened
from retcon.core.evolution import AddColumn, DropColumn, Repartition, RetypeColumn
from retcon.core.runs import RunState
from retcon.errors import Conflict, Refused
from retcon.flow.apply import Until
from tests.shops import Meddling, Shop

pytestmark = pytest.mark.spark

TOTALS = """\
/* retcon
strategy: full
inputs: {raw.orders: {}}
columns: {d: date, currency: string, orders: bigint, size: string}
*/
SELECT order_date AS d, currency, count(*) AS orders, CAST(sum(amount) AS STRING) AS size
FROM raw.orders GROUP BY 1, 2
"""

DAILY = """\
/* retcon
slices: {by: d, every: day}
strategy: full
inputs: {raw.orders: {time: order_date}}
gates:
  - drift: {metric: sum(orders), within: 1%}
  - drift: {name: size, metric: sum(size), within: 1%}
  - drift: {name: monies, metric: count(money), within: 1%}
columns: {d: date, money: string, orders: bigint, size: "decimal(22,2)"}
*/
SELECT order_date AS d, currency AS money, count(*) AS orders, sum(amount) AS size
FROM raw.orders GROUP BY 1, 2
"""

BOARD = """\
/* retcon
slices: {by: d, every: day}
inputs: {mart.totals: {time: d}}
*/
SELECT d, sum(orders) AS orders FROM mart.totals GROUP BY d
"""


def built(shop: Shop) -> Shop:
    """Totals in one piece, and a board that reads them."""
    shop.remove("mart.orders_usd", "mart.revenue")
    shop.write("mart.totals", TOTALS)
    shop.write("mart.board", BOARD)
    gzip = "ALTER TABLE mart.totals SET TBLPROPERTIES ('write.parquet.compression-codec' = 'gzip', 'mine' = 'yes')"

    def build() -> None:
        shop.open_doors().backfill("+mart.board")
        shop.sql(gzip)

    shop.once("totals and a board", build)
    return shop


def opened(shop: Shop, name: str) -> Any:
    """The table as somebody has it who opened it now."""
    spark = shop.workspace.spark
    util = spark._jvm.org.apache.iceberg.spark.Spark3Util  # type: ignore[union-attr]
    return util.loadIcebergTable(spark._jsparkSession, name)


def tables(shop: Shop) -> set[str]:
    return {name for name in shop.workspace.tables.names() if name.startswith("mart.")}


def test_a_table_with_other_columns_and_partitions_takes_the_old_ones_place_and_gives_it_back(any_shop: Shop) -> None:
    shop = built(any_shop)
    before, board = shop.production("mart.totals"), shop.production("mart.board")
    shop.write("mart.totals", DAILY)
    shop.edit("mart.board", "sum(orders) AS orders", "sum(orders) AS orders, count(DISTINCT money) AS monies")
    plan = shop.plan("mart.totals", start="2026-01-03", end="2026-01-03")
    beside = plan.place("mart.totals")
    assert plan.models[0].changes == (
        Repartition(partitioning="not at all", to="day(d)"),
        DropColumn(column="currency", type="string"),
        RetypeColumn(column="size", type="string", to="decimal(22,2)"),
        AddColumn(column="money", type="string"),
    )
    assert [m.name for m in plan.models] == ["mart.totals", "mart.board"]

    run = shop.apply(plan, until=Until.PROVEN)
    assert shop.production("mart.totals") == before
    assert "money" not in {row[0] for row in shop.sql("DESCRIBE TABLE mart.totals")}
    totals, _ = shop.workspace.teller.diff(run).models
    # Sizes were text: there is nothing to compare them with.
    assert (totals.totals["sum(orders)"].old, totals.totals["sum(orders)"].new) == (96, 96)
    assert (totals.totals["sum(size)"].old, totals.totals["count(money)"].old) == (None, None)

    writer = opened(shop, "mart.totals")
    run = shop.apply(plan)
    assert run.state is RunState.PUBLISHED
    with pytest.raises(Py4JJavaError, match="UUID does not match"):
        writer.updateProperties().set("late", "yes").commit()
    assert shop.rows("SELECT d, money, orders FROM mart.totals") == shop.rows(
        "SELECT order_date, currency, count(*) FROM raw.orders GROUP BY 1, 2"
    )
    assert shop.sql("SELECT sum(orders), max(monies) FROM mart.board") == [(96, 2)]
    assert shop.production(beside) == before
    properties = {row[0]: row[1] for row in shop.sql("SHOW TBLPROPERTIES mart.totals")}
    assert properties["mine"] == "yes"
    assert properties["write.parquet.compression-codec"] == "gzip"
    assert properties["retcon.made_by"] == run.id

    shop.rollback(run)
    assert shop.production("mart.totals") == before
    assert shop.rows("SELECT d, orders FROM mart.board") == board
    assert shop.sql(f"SELECT count(DISTINCT d) FROM {beside}") == [(8,)]

    again = shop.backfill("mart.totals")
    shop.sql("DELETE FROM mart.totals WHERE d = DATE '2026-01-01'")
    with pytest.raises(Conflict, match="something landed after"):
        shop.rollback(again)
    third = shop.backfill("mart.totals")  # in its place again: nothing about the table changes any more
    assert third.tables["mart.totals"].replaces is None
    assert shop.sql("SELECT sum(orders) FROM mart.totals") == [(96,)]


def test_a_crash_at_any_step_goes_on_or_is_cancelled_and_a_commit_meanwhile_refuses_the_publish(shop: Shop) -> None:
    built(shop)
    before, known = shop.production("mart.totals"), tables(shop)
    shop.write("mart.totals", DAILY)
    plan = shop.plan("mart.totals", downstream=False)

    def crash(on: type) -> Any:
        def act(real: Any, run: str, event: Any, *more: Any, **named: Any) -> Any:
            if isinstance(event, on):
                raise ConnectionError("the database went away")
            return real(run, event, *more, **named)

        return act

    for method, event in (("record", TablesOpened), ("publish", object)):
        with pytest.raises(ConnectionError):
            shop.apply(plan, ledger=Meddling(shop.workspace.ledger, method, crash(event)))
        assert shop.production("mart.totals") == before
        shop.close()
    run = shop.workspace.ledger.run(plan.id)
    assert run is not None
    assert run.state is RunState.PUBLISHING
    shop.cancel(run)
    assert tables(shop) == known
    assert shop.production("mart.totals") == before

    late = shop.plan("mart.totals", downstream=False)
    shop.apply(late, until=Until.PROVEN)
    shop.sql("INSERT INTO mart.totals VALUES (DATE '2026-01-01', 'GBP', 1, '1')")
    with pytest.raises(Conflict, match="written by others since this run began to build a table in its place"):
        shop.apply(late)
    assert shop.sql("SELECT sum(orders) FROM mart.totals") == [(97,)]
    stale = shop.plan("mart.totals", downstream=False)
    shop.sql("INSERT INTO mart.totals VALUES (DATE '2026-01-01', 'CHF', 1, '1')")
    with pytest.raises(Conflict, match="was written since plan"):
        shop.apply(stale)

    shop.edit("mart.totals", "strategy: full", "strategy: replace")
    with pytest.raises(Refused) as refused:
        shop.plan("mart.totals", downstream=False)
    assert "strategy: full" in refused.value.next


def test_models_that_read_themselves_and_the_whole_table_are_built_beside_too(shop: Shop) -> None:
    shop.open_doors()
    shop.remove("mart.orders_usd", "mart.revenue")
    running = (
        "/* retcon\nslices: {by: d, every: day}\nstrategy: full\nreplay: {order: sequential}\n"
        "inputs: {raw.orders: {time: order_date}, mart.running: {time: d, lookback: 1}}\n"
        "columns: {d: date, n: bigint}\n*/\n"
        "SELECT o.d, o.n + coalesce(p.n, 0) AS n FROM (SELECT order_date AS d, count(*) AS n FROM raw.orders "
        "GROUP BY order_date) o LEFT JOIN mart.running p ON p.d = date_sub(o.d, 1)\n"
    )
    shop.write("mart.running", running)
    whole = (
        "/* retcon\nstrategy: full\ninputs: {mart.running: {on_change: restate}}\n*/\n"
        "SELECT max(n) AS n, 'x' AS note FROM mart.running\n"
    )
    shop.write("mart.top", whole)
    shop.backfill("+mart.top")
    shop.edit("mart.running", "n: bigint", "total: string")
    shop.edit("mart.running", "o.n + coalesce(p.n, 0) AS n", "CAST(o.n + coalesce(p.total, 0) AS STRING) AS total")
    shop.edit("mart.top", "max(n) AS n, 'x' AS note", "max(CAST(total AS INT)) AS most")
    run = shop.backfill("mart.running")
    assert {name: table.replaces is not None for name, table in run.tables.items()} == {
        "mart.running": True,
        "mart.top": True,
    }
    assert shop.sql("SELECT total FROM mart.running WHERE d = DATE '2026-01-08'") == [("96",)]
    assert shop.sql("SELECT * FROM mart.top") == [(96,)]
    assert shop.sql("SELECT min(d) FROM mart.running") == [(date(2026, 1, 1),)]
