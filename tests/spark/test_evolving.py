"""Columns that change: added, widened and commented before the first wave, proven and published with the rest."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from typing import Any

import pytest

from retcon.core.events import TablesOpened
from retcon.core.evolution import AddColumn, CommentColumn, WidenColumn
from retcon.core.runs import RunState
from retcon.errors import Refused
from retcon.flow.apply import Until
from tests.shops import Meddling, Shop

pytestmark = pytest.mark.spark

LINES = """\
/* retcon
slices: {by: d, every: day}
inputs: {raw.orders: {time: order_date}}
columns:
  d: date
  n: int
  most: {type: "decimal(12,2)"}
  who: struct<name:string>
*/
SELECT order_date AS d, CAST(count(*) AS INT) AS n, max(amount) AS most, named_struct('name', max(customer)) AS who
FROM raw.orders GROUP BY order_date
"""


def test_columns_are_added_widened_and_commented_and_old_slices_read_on(shop: Shop) -> None:
    shop.open_doors()
    shop.write("mart.lines", LINES)
    shop.backfill("mart.lines")
    before = shop.rows("SELECT d, n FROM mart.lines")

    shop.edit("mart.lines", "n: int", "n: bigint")
    shop.edit("mart.lines", 'most: {type: "decimal(12,2)"}', 'most: {type: "decimal(18,2)", comment: largest order}')
    shop.edit("mart.lines", "struct<name:string>", "struct<name:string,country:string>\n  least: decimal(12,2)")
    shop.edit("mart.lines", "CAST(count(*) AS INT)", "count(*)")
    shop.edit("mart.lines", "max(amount) AS most", "CAST(max(amount) AS DECIMAL(18,2)) AS most, min(amount) AS least")
    shop.edit("mart.lines", "max(customer))", "max(customer), 'country', max(currency))")
    plan = shop.plan("mart.lines", start="2026-01-05")
    assert plan.models[0].changes == (
        WidenColumn(column="n", type="int", to="bigint"),
        WidenColumn(column="most", type="decimal(12,2)", to="decimal(18,2)"),
        AddColumn(column="who.country", type="string"),
        AddColumn(column="least", type="decimal(12,2)"),
        CommentColumn(column="most", comment="largest order"),
    )

    run = shop.apply(plan, until=Until.PROVEN)
    assert shop.sql("SELECT count(*), count(least), count(who.country) FROM mart.lines") == [(8, 0, 0)]
    assert shop.rows("SELECT d, n FROM mart.lines") == before
    assert shop.workspace.teller.diff(run).models[0].changed == 4

    shop.apply(plan)
    assert shop.sql("SELECT count(*), count(least), count(who.country), sum(n) FROM mart.lines") == [(8, 4, 4, 96)]
    described = {row[0]: row[1:] for row in shop.sql("DESCRIBE TABLE mart.lines")}
    assert described["n"][0] == "bigint"
    assert described["most"] == ("decimal(18,2)", "largest order")

    shop.rollback(run)
    assert shop.sql("SELECT count(*), count(least) FROM mart.lines") == [(8, 0)]
    shop.backfill("mart.lines")
    assert shop.sql("SELECT count(*), count(least) FROM mart.lines") == [(8, 8)]


def test_a_column_added_upstream_can_be_read_in_the_same_run_and_its_type_is_sparks(shop: Shop) -> None:
    shop.open_for_business()
    shop.edit("mart.orders_usd", "AS amount_usd", "AS amount_usd, o.amount")
    shop.edit("mart.revenue", "sum(amount_usd) AS revenue_usd", "sum(amount_usd) AS revenue_usd, max(amount) AS most")
    plan = shop.plan()
    assert [m.changes for m in plan.models] == [
        (AddColumn(column="amount", type=None),),
        (AddColumn(column="most", type=None),),
    ]
    shop.apply(plan)
    assert shop.sql("SELECT max(most) FROM mart.revenue") == shop.sql("SELECT max(amount) FROM raw.orders")


def test_a_crash_after_the_columns_changed_goes_on_and_cancel_leaves_them(shop: Shop) -> None:
    shop.open_doors()
    shop.backfill("mart.orders_usd")
    shop.edit("mart.orders_usd", "AS amount_usd", "AS amount_usd, o.amount")
    plan = shop.plan("mart.orders_usd")

    def crash(real: Any, run: str, event: Any, **more: Any) -> Any:
        if isinstance(event, TablesOpened):
            raise ConnectionError("the database went away")
        return real(run, event, **more)

    with pytest.raises(ConnectionError):
        shop.apply(plan, ledger=Meddling(shop.workspace.ledger, "record", crash))
    assert shop.sql("SELECT count(amount) FROM mart.orders_usd") == [(0,)]
    run = shop.apply(plan, until=Until.PROVEN)
    assert run.state is RunState.PROVEN

    shop.cancel(run)
    assert shop.sql("SELECT count(*), count(amount) FROM mart.orders_usd") == [(96, 0)]
    shop.backfill("mart.orders_usd")
    assert shop.sql("SELECT sum(amount) FROM mart.orders_usd") == shop.sql("SELECT sum(amount) FROM raw.orders")


def test_what_the_plan_could_not_show_or_iceberg_cannot_do_is_refused_and_the_table_stays(shop: Shop) -> None:
    shop.open_doors()
    shop.write("mart.lines", LINES[: LINES.index("columns:")] + "*/\n" + LINES[LINES.index("SELECT") :])
    first = shop.backfill("mart.lines")
    snapshot = first.tables["mart.lines"].published_snapshot
    described = shop.sql("DESCRIBE TABLE mart.lines")
    shop.edit("mart.lines", "CAST(count(*) AS INT)", "count(*)")
    with pytest.raises(Refused, match=r"n widened from int to bigint: .*the plan doesn't say so"):
        shop.backfill("mart.lines")
    shop.edit("mart.lines", "count(*)", "'many'")
    with pytest.raises(Refused) as refused:
        shop.backfill("mart.lines")
    assert refused.value.message == (
        f"mart.lines.n: the query yields string, the table has int, since snapshot {snapshot} of run {first.id}"
    )
    assert shop.sql("DESCRIBE TABLE mart.lines") == described
    assert shop.sql("SELECT max(most) FROM mart.lines") == [(Decimal("128.75"),)]


def test_an_adopted_table_with_old_partitions_and_delete_files_is_restated_slice_by_slice(shop: Shop) -> None:
    shop = shop.open_doors()
    shop.write("mart.lines", LINES[: LINES.index("columns:")] + "*/\n" + LINES[LINES.index("SELECT") :])
    shop.sql("CREATE NAMESPACE IF NOT EXISTS mart")
    shop.sql(
        "CREATE TABLE mart.lines (d DATE, n INT, most DECIMAL(12,2), who STRUCT<name: STRING>) USING iceberg "
        "PARTITIONED BY (months(d)) TBLPROPERTIES ('write.delete.mode' = 'merge-on-read')"
    )
    shop.sql("INSERT INTO mart.lines VALUES (DATE '2026-01-01', 1, 1, NULL), (DATE '2026-01-01', 2, 1, NULL)")
    shop.sql("ALTER TABLE mart.lines REPLACE PARTITION FIELD months(d) WITH d")
    shop.sql("INSERT INTO mart.lines VALUES (DATE '2026-01-02', 1, 1, NULL), (DATE '2026-01-02', 2, 1, NULL)")
    shop.sql("INSERT INTO mart.lines VALUES (DATE '2026-01-03', 7, 1, NULL)")
    shop.sql("DELETE FROM mart.lines WHERE n = 2 AND d = DATE '2026-01-02'")
    with pytest.raises(Refused, match="neither made nor published"):
        shop.plan("mart.lines", end="2026-01-02")
    w = shop.workspace
    adopted = w.adopter.adopt("mart.lines", "the nightly job's", clock=w.clock, who=w.who)
    assert adopted.survey.delete_files == 1
    run = shop.backfill("mart.lines", end="2026-01-02")
    assert shop.rows("SELECT d, n FROM mart.lines") == {
        (date(2026, 1, 1), 12): 1,
        (date(2026, 1, 2), 12): 1,
        (date(2026, 1, 3), 7): 1,
    }
    [status] = shop.workspace.statuses.status(("mart.lines",))
    assert (status.slices.text, status.unknown.text) == ("2026-01-01..2026-01-02", "2026-01-03")
    shop.rollback(run)
    assert shop.sql("SELECT count(*), sum(n) FROM mart.lines") == [(4, 11)]
