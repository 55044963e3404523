"""Others write while a run is under way: what they add is taken along, what they delete stays deleted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from retcon.core.plans import Plan
from retcon.core.runs import Run, RunState
from retcon.core.slices import Grain, SliceSet
from retcon.errors import Conflict, Fault, Refused
from retcon.flow.apply import Until
from tests.shops import Meddling, Shop
from tests.spark.test_backfills import RECOMPUTED_ORDERS, RECOMPUTED_REVENUE

pytestmark = pytest.mark.spark

COMPACT = "CALL lake.system.rewrite_data_files(table => 'mart.orders_usd', options => map('rewrite-all', 'true'))"
EXPIRE = (
    "CALL lake.system.expire_snapshots(table => 'mart.orders_usd', retain_last => 1, "
    "older_than => TIMESTAMP '2100-01-01 00:00:00')"
)
LAST_THREE = """\
/* retcon
slices: {by: d, every: day}
inputs:
  mart.orders_usd: {time: order_date, lookback: 2}
replay: {sliceable: true}
*/
SELECT d, sum(n) OVER (ORDER BY d ROWS BETWEEN 2 PRECEDING AND CURRENT ROW) AS n3
FROM (SELECT order_date AS d, count(*) AS n FROM mart.orders_usd GROUP BY order_date)
"""
STATUSES = """\
/* retcon
slices: {by: order_id, buckets: 4}
strategy: merge
key: [order_id]
inputs:
  raw.changes: {key: order_id}
*/
SELECT order_id, status FROM raw.changes
"""


def a_nightly_load(shop: Shop, order: int = 999, day: str = "2026-01-04") -> None:
    """Another job appends an order to the source, and at once to the model's own table."""
    shop.sql(f"INSERT INTO raw.orders VALUES ({order}, DATE '{day}', 'USD', 'late', 7.50)")
    shop.sql(f"INSERT INTO mart.orders_usd VALUES ({order}, DATE '{day}', 'USD', 'late', 7.50)")


def proven(shop: Shop, **ask: str) -> Plan:
    """A run over days 3 to 6 that only waits for its publish."""
    plan = shop.plan("mart.orders_usd", **{"start": "2026-01-03", "end": "2026-01-06", **ask})
    shop.apply(plan, until=Until.PROVEN)
    return plan


def applied(shop: Shop, plan: Plan, **how: Any) -> tuple[Run, list[tuple[str, str]]]:
    """The run, and which slices it staged now."""
    staged: list[tuple[str, str]] = []

    def watched(stage: Any, job: Any, target: Any) -> Any:
        staged.append((target.table, job.slices.text))
        return stage(job, target)

    run = shop.apply(plan, warehouse=Meddling(shop.workspace.warehouse, "stage", watched), **how)
    return run, staged


def kinds(shop: Shop, plan: Plan) -> list[str]:
    return [event.kind for event in shop.workspace.ledger.events(plan.id)]


def test_rows_that_a_load_added_meanwhile_are_there_and_only_their_slices_are_staged_anew(shop: Shop) -> None:
    shop.open_for_business()
    plan = proven(shop)
    tables = shop.workspace.tables
    head = tables.head("mart.orders_usd", plan.branch)
    first = tables.contents("mart.orders_usd", time="order_date", grain=Grain.DAY, snapshot_id=head)
    kept = {file.path for file in first.overlapping(SliceSet.parse(Grain.DAY, "2026-01-03, 2026-01-05..2026-01-06"))}
    a_nightly_load(shop)
    landed = shop.sql("SELECT snapshot_id FROM mart.orders_usd.refs WHERE name = 'main'")[0][0]
    # Compaction of another slice, and a load into one that the run doesn't write, go with it.
    shop.sql(COMPACT)
    a_nightly_load(shop, 1000, "2026-01-08")
    before = shop.production("mart.orders_usd")

    run, staged = applied(shop, plan)

    assert run.state is RunState.PUBLISHED
    assert staged == [("mart.orders_usd", "2026-01-04"), ("mart.revenue", "2026-01-04")]
    assert shop.production("mart.orders_usd") == shop.rows(RECOMPUTED_ORDERS)
    stale = "order_date <> DATE '2026-01-08'"
    assert shop.rows(f"SELECT * FROM mart.revenue WHERE {stale}") == shop.rows(
        f"SELECT * FROM ({RECOMPUTED_REVENUE}) WHERE {stale}"
    )
    assert len(kept) == 3
    assert kept < shop.files("mart.orders_usd"), "the other slices' files are kept"
    (rebased,) = [e.body for e in shop.workspace.ledger.events(plan.id) if e.kind == "Rebased"]
    assert rebased["slices"] == {"mart.orders_usd": ["2026-01-04"], "mart.revenue": ["2026-01-04"]}
    assert rebased["commits"] == {"mart.orders_usd": [f"snapshot {landed} (append)"]}
    assert rebased["replaced"] == {}, "the row comes from its source"
    assert {c.snapshot_id for c in shop.workspace.ledger.consumption(run.id) if c.table == "raw.orders"} == {
        shop.sql("SELECT snapshot_id FROM raw.orders.refs WHERE name = 'main'")[0][0]
    }
    # Every file that some snapshot lists is there, though the first branch is gone.
    shop.sql(EXPIRE)
    assert shop.production("mart.orders_usd") == shop.rows(RECOMPUTED_ORDERS)
    assert before - shop.production("mart.orders_usd") == {}


def test_a_rebase_that_broke_at_any_step_is_gone_on_with(shop: Shop) -> None:
    shop.open_doors()
    shop.write("mart.last_three", LAST_THREE)
    shop.backfill("+mart.revenue", "mart.last_three", allow_missing_source=True)
    plan = proven(shop)
    # The load goes into a slice that is written, and into one that is only read, before the scope.
    a_nightly_load(shop)
    a_nightly_load(shop, 1000, "2026-01-02")

    def die_before(real: Any, *args: Any, **kwargs: Any) -> Any:
        raise Fault("killed")

    def die_after(real: Any, *args: Any, **kwargs: Any) -> Any:
        real(*args, **kwargs)
        raise Fault("killed")

    for method, death in [("carry_over", die_before), ("carry_over", die_after), ("stage", die_before)]:
        with pytest.raises(Fault, match="killed"):
            shop.apply(plan, warehouse=Meddling(shop.workspace.warehouse, method, death))
        assert shop.workspace.ledger.run(plan.id).state is RunState.STAGING  # type: ignore[union-attr]
    with pytest.raises(Fault, match="killed"):
        shop.apply(plan, warehouse=Meddling(shop.workspace.warehouse, "stage", die_after))
    run, staged = applied(shop, plan)

    assert run.state is RunState.PUBLISHED
    assert "mart.orders_usd" not in [table for table, _ in staged], "committed before the crash: found, not computed"
    assert kinds(shop, plan).count("Rebased") == 1
    assert shop.production("mart.orders_usd") == shop.rows(RECOMPUTED_ORDERS)
    counted = shop.rows(
        "SELECT d.day, count(*) FROM (SELECT explode(sequence(DATE '2026-01-03', DATE '2026-01-08')) AS day) d "
        "JOIN raw.orders o ON o.order_date BETWEEN date_sub(d.day, 2) AND d.day GROUP BY d.day"
    )
    assert shop.rows("SELECT * FROM mart.last_three WHERE d >= DATE '2026-01-03'") == counted
    (anew,) = [e.body["slices"] for e in shop.workspace.ledger.events(plan.id) if e.kind == "Rebased"]
    assert anew["mart.orders_usd"] == ["2026-01-04"]
    assert anew["mart.last_three"] == [f"2026-01-0{day}" for day in (3, 4, 5, 6)]


def test_a_row_that_is_in_no_input_is_replaced_by_name_or_kept_where_rows_are_merged(shop: Shop) -> None:
    shop.open_doors()
    shop.sql(
        "CREATE TABLE raw.changes (order_id BIGINT, status STRING) USING iceberg PARTITIONED BY (bucket(4, order_id))"
    )
    shop.sql("INSERT INTO raw.changes SELECT id, 'new' FROM range(12)")
    shop.write("mart.statuses", STATUSES)
    shop.backfill("mart.orders_usd", "mart.statuses")
    plan = proven(shop)
    merged = shop.plan("mart.statuses", dates=False)
    shop.apply(merged, until=Until.PROVEN)
    shop.sql("INSERT INTO mart.orders_usd VALUES (777, DATE '2026-01-05', 'USD', 'by hand', 1.0)")
    shop.sql("INSERT INTO mart.statuses VALUES (777, 'by hand')")

    shop.apply(plan)
    assert not shop.sql("SELECT 1 FROM mart.orders_usd WHERE order_id = 777")
    (rebased,) = [e.body for e in shop.workspace.ledger.events(plan.id) if e.kind == "Rebased"]
    assert rebased["replaced"] == {"mart.orders_usd": ["2026-01-05"]}
    assert shop.sql(
        f"SELECT customer FROM mart.orders_usd VERSION AS OF 'retcon_before_{plan.id}' WHERE order_id = 777"
    )

    _, staged = applied(shop, merged)
    assert len(staged) == 1, "its bucket, and no other"
    assert shop.sql("SELECT status FROM mart.statuses WHERE order_id = 777") == [("by hand",)]
    assert len(shop.production("mart.statuses")) == 13


def delete_a_row(shop: Shop) -> None:
    shop.sql("DELETE FROM mart.orders_usd WHERE order_id = 3")


def delete_a_row_by_a_delete_file(shop: Shop) -> None:
    shop.sql("ALTER TABLE mart.orders_usd SET TBLPROPERTIES ('write.delete.mode' = 'merge-on-read')")
    delete_a_row(shop)


def compact(shop: Shop) -> None:
    shop.sql(COMPACT)


def append_elsewhere_and_expire(shop: Shop, day: str = "2026-01-07") -> None:
    for each in (day, "2026-01-08"):
        shop.sql(f"INSERT INTO mart.orders_usd VALUES (777, DATE '{each}', 'USD', 'by hand', 1.0)")
    # Of the two, only the newest snapshot is left.
    shop.sql(EXPIRE)


def append_here_and_expire(shop: Shop) -> None:
    append_elsewhere_and_expire(shop, "2026-01-04")


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (compact, ""),
        (append_elsewhere_and_expire, ""),
        (append_here_and_expire, r"mart\.orders_usd: the snapshots since this run began have expired, and the files"),
        (delete_a_row, r"mart\.orders_usd: rows of 2026-01-04 were deleted or overwritten by others"),
        (delete_a_row_by_a_delete_file, r"mart\.orders_usd: rows of 2026-01-04 were deleted or overwritten by others"),
    ],
)
def test_what_changes_no_row_is_passed_by_and_what_deletes_one_is_refused(
    shop: Shop, act: Callable[[Shop], None], message: str
) -> None:
    shop.open_doors()
    shop.backfill("mart.orders_usd")
    plan = proven(shop)
    act(shop)
    before = shop.production("mart.orders_usd")
    if message:
        with pytest.raises(Conflict, match=message) as refused:
            shop.apply(plan)
        assert f"plan --refresh backfills/{plan.id}.yaml" in refused.value.next
        assert shop.workspace.ledger.run(plan.id).state is RunState.PROVEN  # type: ignore[union-attr]
    else:
        run, staged = applied(shop, plan)
        assert (run.state, staged) == (RunState.PUBLISHED, [])
    assert shop.production("mart.orders_usd") == before
    assert "Rebased" not in kinds(shop, plan)


def test_a_run_whose_beginning_has_expired_can_not_be_proven_and_says_why(shop: Shop) -> None:
    shop.open_doors()
    shop.backfill("mart.orders_usd")
    # What others wrote isn't measured yet: the proof has to read it.
    shop.sql("INSERT INTO mart.orders_usd VALUES (777, DATE '2026-01-03', 'USD', 'by hand', 1.0)")
    plan = shop.plan("mart.orders_usd", start="2026-01-03", end="2026-01-04")
    shop.apply(plan, until=Until.STAGED)
    append_elsewhere_and_expire(shop)
    with pytest.raises(Refused, match=r"snapshot \d+ of mart\.orders_usd is gone"):
        shop.apply(plan)
    assert shop.cancel(shop.open(plan)).state is RunState.CANCELLED
