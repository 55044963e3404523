"""After a publish: manifests show that nothing else changed, and production is judged by what it is made of."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NoReturn

import pytest

from retcon.core.certificates import TableCertificate
from retcon.core.runs import Run, RunState
from retcon.core.slices import SliceSet
from retcon.errors import Fault, ProductionFailed
from retcon.flow.apply import Until
from retcon.flow.follow_up import is_followed_up
from retcon.flow.tell import RunReport
from tests.shops import Meddling, Shop
from tests.spark.test_building_beside import DAILY, built
from tests.spark.test_conflicts import COMPACT, EXPIRE, STATUSES

pytestmark = pytest.mark.spark

ORDERS = "mart.orders_usd"


def report(shop: Shop, run: Run) -> RunReport:
    return shop.workspace.teller.show_run(shop.workspace.ledger.run(run.id) or run)


def certificates(shop: Shop, run: Run) -> dict[str, TableCertificate]:
    return {each.table: each for each in report(shop, run).certificates}


class NoSpark:
    """A warehouse that nobody may ask for anything."""

    def __getattr__(self, name: str) -> NoReturn:
        raise AssertionError(f"Spark was asked for {name}")


def test_a_certificate_tells_what_was_kept_and_what_was_put_in_place(shop: Shop) -> None:
    first = shop.open_for_business()
    made = certificates(shop, first)[ORDERS]
    assert (made.base, made.files_outside, made.rows_outside, made.files_replaced) == (None, 0, 0, 0)
    before = shop.files(ORDERS)

    plan = shop.plan(start="2026-01-03", end="2026-01-05")
    shop.apply(plan, until=Until.PROVEN)
    # Others write to another day: that isn't this run's doing.
    shop.sql("INSERT INTO mart.orders_usd VALUES (999, DATE '2026-01-08', 'USD', 'late', 7.50)")
    between = shop.files(ORDERS)
    run = shop.apply(plan)
    kept, now = before & shop.files(ORDERS), shop.files(ORDERS)
    found = certificates(shop, run)
    assert set(found) == {ORDERS, "mart.revenue"}
    assert all(
        each.holds and each.is_proven_inside and each.digest_before == each.digest_after for each in found.values()
    )
    orders = found[ORDERS]
    assert (orders.base, orders.published) == (
        shop.sql("SELECT parent_id FROM mart.orders_usd.snapshots ORDER BY committed_at DESC LIMIT 1")[0][0],
        run.tables[ORDERS].published_snapshot,
    )
    assert orders.slices == "2026-01-03..2026-01-05"
    assert orders.files_outside == len(between & now) == len(kept) + 1
    assert orders.rows_outside == 5 * 12 + 1
    assert (orders.files_replaced, orders.files_inside, orders.rows_inside) == (3, 3, 36)
    # What others wrote isn't on the branch that was proven; the revenue is all as proven.
    assert not orders.is_proven_whole
    assert found["mart.revenue"].is_proven_whole
    after = report(shop, run).after
    assert after is not None
    # `unique: key` has the day in it, so it looks no further than the slices.
    assert (after.verdicts, after.unjudged) == ((), {})
    assert after.held == len(report(shop, run).verdicts)
    assert report(shop, run).broken_link is None

    # Delete files outside stay as well; one that applies to no file any more is dropped by Iceberg, and isn't missed.
    shop.sql(f"ALTER TABLE {ORDERS} SET TBLPROPERTIES ('write.delete.mode' = 'merge-on-read')")
    shop.sql(f"DELETE FROM {ORDERS} WHERE order_id = 6")
    assert len(shop.sql(f"SELECT * FROM {ORDERS}.delete_files")) == 1
    found = certificates(shop, shop.backfill(ORDERS, start="2026-01-03", end="2026-01-03"))
    assert found[ORDERS].holds
    assert found[ORDERS].files_outside == len(shop.files(ORDERS)) - 1
    shop.sql(
        f"CALL lake.system.rewrite_data_files(table => '{ORDERS}', "
        "options => map('rewrite-all', 'true', 'use-starting-sequence-number', 'false'))"
    )
    found = certificates(shop, shop.backfill(ORDERS, start="2026-01-03", end="2026-01-03"))
    assert found[ORDERS].holds
    assert shop.sql(f"SELECT * FROM {ORDERS}.delete_files") == []


def test_what_a_crash_left_out_is_made_up_for_without_spark(shop: Shop) -> None:
    shop.open_for_business()
    plan = shop.plan(ORDERS, start="2026-01-03", end="2026-01-04")

    def fails(*_: Any, **__: Any) -> NoReturn:
        raise Fault("the storage is away")

    with pytest.raises(Fault, match=r"published, but wasn't looked at.*storage is away"):
        shop.apply(plan, tables=Meddling(shop.workspace.tables, "compared", fails))
    run = shop.workspace.ledger.run(plan.id)
    assert run is not None
    assert run.state is RunState.PUBLISHED
    assert not is_followed_up(run, shop.workspace.ledger)
    shop.sql(COMPACT)
    again = shop.apply(plan, warehouse=NoSpark())
    found = certificates(shop, again)[ORDERS]
    assert found.holds
    assert found.published == run.tables[ORDERS].published_snapshot
    events = [event.kind for event in shop.workspace.ledger.events(run.id)]
    assert events[-3:] == ["Published", "Certified", "CheckedAfter"]
    shop.apply(plan, warehouse=NoSpark())
    assert [event.kind for event in shop.workspace.ledger.events(run.id)] == events

    # Of one whose old version has expired meanwhile, what can't be told is said.
    plan = shop.plan(ORDERS, start="2026-01-03", end="2026-01-04")
    with pytest.raises(Fault):
        shop.apply(plan, tables=Meddling(shop.workspace.tables, "compared", fails))
    shop.sql(f"ALTER TABLE {ORDERS} DROP TAG retcon_before_{plan.id}")
    shop.sql(EXPIRE)
    found = certificates(shop, shop.apply(plan, warehouse=NoSpark()))[ORDERS]
    assert not found.holds
    assert not found.problems
    assert "which main showed before the publish, has expired" in found.unknown[0]
    assert found.is_proven_inside


def test_a_publish_of_something_else_than_was_proven_is_loud_and_can_be_taken_back(shop: Shop) -> None:
    shop.open_for_business()
    before = shop.production(ORDERS)
    plan = shop.plan(ORDERS, start="2026-01-03", end="2026-01-05")

    def less(prepare: Any, request: Any) -> Any:
        return prepare(replace(request, slices=SliceSet(request.slices.grain, request.slices.ordinals[:2])))

    with pytest.raises(ProductionFailed, match="1 file proven, and not published") as failure:
        shop.apply(plan, warehouse=Meddling(shop.workspace.warehouse, "prepare_publish", less))
    assert failure.value.exit_code == 4
    assert f"retcon rollback {plan.id}" in failure.value.next
    run = shop.workspace.ledger.run(plan.id)
    assert run is not None
    found = certificates(shop, run)[ORDERS]
    assert not found.is_proven_inside
    assert [problem.split(", e.g.")[0] for problem in found.problems] == [
        "1 file proven, and not published",
        "1 file inside the scope, and not proven",
    ]
    # So nothing is taken for proven: what production shows was judged by its own rows.
    after = report(shop, run).after
    assert after is not None
    assert {verdict.gate for verdict in after.verdicts} == {"rows", "unique", "not_null", "drift"}
    assert all(verdict.passed for verdict in after.verdicts)
    assert list(after.unjudged) == [f"{ORDERS}:empty", "mart.revenue:empty"]
    with pytest.raises(ProductionFailed):
        shop.apply(plan, warehouse=NoSpark())
    shop.rollback(run)
    assert shop.production(ORDERS) == before


def test_a_key_that_others_wrote_meanwhile_fails_in_production(shop: Shop) -> None:
    shop.open_for_business()
    shop.edit(ORDERS, "  - unique: key\n", "  - unique: [order_id]\n")
    plan = shop.plan(ORDERS, start="2026-01-03", end="2026-01-04")
    shop.apply(plan, until=Until.PROVEN)
    shop.sql("INSERT INTO mart.orders_usd VALUES (999, DATE '2026-01-08', 'USD', 'late', 7.50)")
    run = shop.apply(plan)
    after = report(shop, run).after
    assert after is not None
    assert [(verdict.gate, verdict.passed) for verdict in after.verdicts] == [("unique", True)]

    plan = shop.plan(ORDERS, start="2026-01-03", end="2026-01-04")
    shop.apply(plan, until=Until.PROVEN)
    # The id of an order of 4 January, on another day.
    shop.sql("INSERT INTO mart.orders_usd VALUES (3, DATE '2026-01-07', 'USD', 'twin', 7.50)")
    with pytest.raises(ProductionFailed, match=r"mart\.orders_usd:unique fails in production") as failure:
        shop.apply(plan)
    assert failure.value.state == "published; production shows it"
    found = shop.workspace.ledger.run(plan.id)
    assert found is not None
    assert found.state is RunState.PUBLISHED
    assert certificates(shop, found)[ORDERS].holds
    shop.rollback(found)


def test_every_kind_of_table_has_its_certificate(shop: Shop) -> None:
    built(shop)
    shop.write("mart.totals", DAILY)
    run = shop.backfill("mart.totals")
    beside = certificates(shop, run)["mart.totals"]
    assert beside.holds
    assert beside.is_proven_whole
    assert beside.took_place_of == run.plan.place("mart.totals")
    assert (beside.files_outside, beside.files_inside) == (0, len(shop.files("mart.totals")))

    shop.sql("CREATE TABLE raw.changes (order_id BIGINT, status STRING) USING iceberg")
    shop.sql("INSERT INTO raw.changes SELECT id, 'new' FROM range(40)")
    shop.write("mart.statuses", STATUSES)
    shop.backfill("mart.statuses", dates=False)
    again = shop.backfill("mart.statuses", dates=False)
    bucketed = certificates(shop, again)["mart.statuses"]
    assert bucketed.holds
    assert (bucketed.files_outside, bucketed.files_replaced, bucketed.files_inside) == (0, 4, 4)
