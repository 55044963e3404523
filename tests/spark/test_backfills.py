"""A backfill from plan to rollback, on every database that a catalog can live in."""

from __future__ import annotations

from typing import Any

import pytest

from retcon.core.chains import first_broken_link
from retcon.core.runs import RunState, SliceState
from retcon.errors import Conflict, Refused
from retcon.flow.apply import Until
from tests.shops import Meddling, Shop

pytestmark = pytest.mark.spark

RECOMPUTED_ORDERS = """
SELECT o.order_id, o.order_date, o.currency, o.customer, CAST(o.amount * r.rate AS DECIMAL(18,4))
FROM raw.orders o JOIN raw.rates r ON r.rate_date = o.order_date AND r.currency = o.currency
"""
RECOMPUTED_REVENUE = """
SELECT o.order_date, o.currency, count(*), sum(CAST(o.amount * r.rate AS DECIMAL(18,4)))
FROM raw.orders o JOIN raw.rates r ON r.rate_date = o.order_date AND r.currency = o.currency
GROUP BY o.order_date, o.currency
"""
PREVIOUS_DAY = ("r.rate_date = o.order_date", "r.rate_date = date_sub(o.order_date, 1)")
LOOKBACK = ("raw.rates: {time: rate_date}", "raw.rates: {time: rate_date, lookback: 1}")


def publish_with_the_bug(shop: Shop) -> None:
    """History as it was before the correction: each order at the rate of the day before."""
    shop.edit("mart.orders_usd", *PREVIOUS_DAY)
    shop.edit("mart.orders_usd", *LOOKBACK)
    shop.once("with the bug", lambda: shop.open_doors().backfill())
    shop.edit("mart.orders_usd", *reversed(PREVIOUS_DAY))
    shop.edit("mart.orders_usd", *reversed(LOOKBACK))


def test_a_published_correction_equals_an_independent_recomputation_and_leaves_the_rest_alone(any_shop: Shop) -> None:
    publish_with_the_bug(any_shop)
    before = any_shop.production("mart.orders_usd")
    assert before != any_shop.rows(RECOMPUTED_ORDERS)

    run = any_shop.backfill("mart.orders_usd", start="2026-01-03", end="2026-01-06")

    inside = "order_date BETWEEN DATE '2026-01-03' AND DATE '2026-01-06'"
    for table, recomputed in (("mart.orders_usd", RECOMPUTED_ORDERS), ("mart.revenue", RECOMPUTED_REVENUE)):
        assert any_shop.rows(f"SELECT * FROM {table} WHERE {inside}") == any_shop.rows(
            f"SELECT * FROM ({recomputed}) WHERE {inside}"
        )
    outside = any_shop.rows(f"SELECT * FROM mart.orders_usd WHERE NOT {inside}")
    assert outside == any_shop.rows(
        f"SELECT * FROM mart.orders_usd VERSION AS OF 'retcon_before_{run.id}' WHERE NOT {inside}"
    )
    assert any_shop.rows(f"SELECT * FROM mart.orders_usd VERSION AS OF 'retcon_before_{run.id}'") == before
    assert first_broken_link(any_shop.workspace.ledger.events(run.id)) is None


def test_applying_a_published_plan_again_changes_nothing(shop: Shop) -> None:
    shop.open_doors()
    plan = shop.plan()
    shop.apply(plan)
    files, events = shop.files("mart.revenue"), len(shop.workspace.ledger.events(plan.id))
    assert shop.apply(plan).state is RunState.PUBLISHED
    assert shop.files("mart.revenue") == files
    assert len(shop.workspace.ledger.events(plan.id)) == events


def test_nothing_is_visible_before_the_publish_and_every_table_after_it(shop: Shop) -> None:
    shop.open_doors()
    plan = shop.plan()
    assert shop.apply(plan, until=Until.STAGED).state is RunState.STAGED
    assert not shop.production("mart.orders_usd")
    assert shop.apply(plan, until=Until.PROVEN).state is RunState.PROVEN
    assert not shop.production("mart.revenue")
    shop.apply(plan)
    assert shop.production("mart.orders_usd") == shop.rows(RECOMPUTED_ORDERS)
    assert shop.production("mart.revenue") == shop.rows(RECOMPUTED_REVENUE)


def test_an_append_to_another_slice_meanwhile_survives(shop: Shop) -> None:
    shop.open_for_business()
    plan = shop.plan("mart.orders_usd", start="2026-01-03", end="2026-01-04")
    shop.apply(plan, until=Until.PROVEN)
    shop.sql("INSERT INTO mart.orders_usd VALUES (9999, DATE '2026-01-07', 'USD', 'late', 1.0)")
    shop.apply(plan)
    assert shop.sql("SELECT order_id FROM mart.orders_usd WHERE customer = 'late'") == [(9999,)]
    assert shop.production("mart.revenue") == shop.rows(RECOMPUTED_REVENUE)


def test_rolling_back_keeps_what_others_committed_while_the_run_was_staged(shop: Shop) -> None:
    shop.open_for_business()
    plan = shop.plan("mart.orders_usd", start="2026-01-03", end="2026-01-04")
    shop.apply(plan, until=Until.PROVEN)
    shop.sql("INSERT INTO mart.orders_usd VALUES (9999, DATE '2026-01-07', 'USD', 'late', 1.0)")
    before = shop.production("mart.orders_usd")
    run = shop.apply(plan)
    assert shop.rows(f"SELECT * FROM mart.orders_usd VERSION AS OF 'retcon_before_{run.id}'") == before
    shop.rollback(run)
    assert shop.production("mart.orders_usd") == before


def test_what_the_run_read_of_its_own_tables_must_be_as_it_was(shop: Shop) -> None:
    shop.open_doors()
    shop.edit("mart.revenue", "mart.orders_usd: {time: order_date}", "mart.orders_usd: {time: order_date, lookback: 2}")
    shop.edit("mart.revenue", "FROM mart.orders_usd\n", "FROM mart.orders_usd WHERE amount_usd > 0\n")
    shop.backfill("+mart.revenue", allow_missing_source=True)
    plan = shop.plan("mart.orders_usd", start="2026-01-05", end="2026-01-06")
    shop.apply(plan, until=Until.PROVEN)
    shop.sql("INSERT INTO mart.orders_usd VALUES (9999, DATE '2026-01-03', 'USD', 'late', 1.0)")
    with pytest.raises(Conflict, match=r"mart\.orders_usd: 2026-01-03 "):
        shop.apply(plan, rebase=False)


def test_a_commit_into_the_scope_is_named_and_refuses_the_publish(shop: Shop) -> None:
    shop.open_for_business()
    plan = shop.plan("mart.orders_usd", start="2026-01-03", end="2026-01-04")
    shop.apply(plan, until=Until.PROVEN)
    shop.sql("INSERT INTO mart.orders_usd VALUES (9999, DATE '2026-01-04', 'USD', 'late', 1.0)")
    before = shop.files("mart.orders_usd") | shop.files("mart.revenue")
    with pytest.raises(Conflict, match=r"mart\.orders_usd: 2026-01-04 "):
        shop.apply(plan, rebase=False)
    assert shop.files("mart.orders_usd") | shop.files("mart.revenue") == before
    assert shop.workspace.ledger.run(plan.id).state is RunState.PROVEN  # type: ignore[union-attr]


def test_a_commit_between_preparing_and_swapping_is_seen_before_anything_moves(any_shop: Shop) -> None:
    any_shop.open_for_business()
    plan = any_shop.plan("mart.orders_usd", start="2026-01-03", end="2026-01-04")
    any_shop.apply(plan, until=Until.PROVEN)
    days = iter(["2026-01-07", "2026-01-04"])

    def somebody_writes_first(publish: Any, *args: Any, **kwargs: Any) -> Any:
        any_shop.sql(f"INSERT INTO mart.revenue VALUES (DATE '{next(days)}', 'ZZZ', 1, 1.0)")
        return publish(*args, **kwargs)

    before = any_shop.files("mart.orders_usd")
    with pytest.raises(Conflict, match=r"mart\.revenue: 2026-01-04 "):
        any_shop.apply(plan, rebase=False, ledger=Meddling(any_shop.workspace.ledger, "publish", somebody_writes_first))
    assert any_shop.files("mart.orders_usd") == before, "the other table of the group must not have moved"


def test_a_swap_lost_to_a_harmless_commit_is_tried_again(shop: Shop) -> None:
    shop.open_for_business()
    plan = shop.plan("mart.orders_usd", start="2026-01-03", end="2026-01-04")
    shop.apply(plan, until=Until.PROVEN)
    days = iter(["2026-01-07"])

    def somebody_writes_once(publish: Any, *args: Any, **kwargs: Any) -> Any:
        for day in days:
            shop.sql(f"INSERT INTO mart.revenue VALUES (DATE '{day}', 'ZZZ', 1, 1.0)")
        return publish(*args, **kwargs)

    run = shop.apply(plan, ledger=Meddling(shop.workspace.ledger, "publish", somebody_writes_once))
    assert run.state is RunState.PUBLISHED
    assert shop.sql("SELECT orders FROM mart.revenue WHERE currency = 'ZZZ'") == [(1,)]


def test_rolling_back_restores_every_table_and_names_what_read_it(any_shop: Shop) -> None:
    publish_with_the_bug(any_shop)
    before = {name: any_shop.production(name) for name in ("mart.orders_usd", "mart.revenue")}
    run = any_shop.backfill("mart.orders_usd")
    assert any_shop.production("mart.orders_usd") != before["mart.orders_usd"]
    undone = any_shop.rollback(run)
    assert undone.run.state is RunState.ROLLED_BACK
    assert {name: any_shop.production(name) for name in before} == before
    with pytest.raises(Refused, match="rolled back"):
        any_shop.apply(run.plan)
    with pytest.raises(Refused, match="no publish to roll back"):
        any_shop.rollback(run)


def test_rolling_back_a_first_publish_empties_its_slices_and_keeps_the_table(shop: Shop) -> None:
    shop.rollback(shop.open_for_business())
    assert not shop.production("mart.orders_usd")
    shop.backfill()
    assert shop.production("mart.revenue") == shop.rows(RECOMPUTED_REVENUE)


def test_a_rollback_is_refused_with_the_list_of_what_landed_later(shop: Shop) -> None:
    run = shop.open_for_business()
    shop.sql("INSERT INTO mart.revenue VALUES (DATE '2026-01-04', 'ZZZ', 1, 1.0)")
    before = shop.production("mart.orders_usd")
    with pytest.raises(Conflict, match=r"mart\.revenue: snapshot \d+ \(append\): 2026-01-04"):
        shop.rollback(run)
    assert shop.production("mart.orders_usd") == before


def test_the_ledger_keeps_rows_bytes_files_checksums_and_consumption_per_slice(shop: Shop) -> None:
    run = shop.open_for_business()
    ledger = shop.workspace.ledger
    slices = ledger.slices(run.id)
    assert len(slices) == run.plan.slices == 16
    assert all(s.state is SliceState.DONE and s.rows and s.bytes and s.files and s.checksum for s in slices)
    consumed = ledger.consumption(run.id)
    assert {(c.model, c.table) for c in consumed} == {
        ("mart.orders_usd", "raw.orders"),
        ("mart.orders_usd", "raw.rates"),
        ("mart.revenue", "mart.orders_usd"),
    }
    assert len({c.content for c in consumed if c.table == "raw.orders"}) == 8, "each slice its own content"
    for wave in ledger.waves(run.id):
        assert wave.scans, "what Spark scanned is recorded"
        for scan in wave.scans:
            assert 0 < scan.scanned_files == scan.scope_files <= scan.table_files
            assert scan.scanned_bytes == scan.scope_bytes
            assert scan.scope_bytes


def test_consumption_says_what_was_read_not_what_came_later(shop: Shop) -> None:
    shop.open_for_business()
    plan = shop.plan("mart.revenue")
    shop.apply(plan, until=Until.PROVEN)
    shop.edit("mart.orders_usd", "o.amount * r.rate", "o.amount * r.rate * 1.1")
    shop.backfill("mart.orders_usd", downstream=False)
    shop.apply(plan)
    later = shop.backfill("mart.revenue")
    before, after = (
        {(c.slice, c.content) for c in shop.workspace.ledger.consumption(run)} for run in (plan.id, later.id)
    )
    assert len(before) == len(after) == 8
    assert not before & after, "the first one read the orders from before"


def test_a_run_that_died_while_publishing_shows_nothing_and_can_be_given_up(shop: Shop) -> None:
    shop.open_doors()
    plan = shop.plan()

    def dies(publish: Any, *args: Any, **kwargs: Any) -> Any:
        raise SystemExit("killed")

    with pytest.raises(SystemExit):
        shop.apply(plan, ledger=Meddling(shop.workspace.ledger, "publish", dies))
    assert shop.apply(plan, until=Until.PROVEN).state is RunState.PUBLISHING
    assert not shop.production("mart.revenue")
    assert shop.cancel(shop.open(plan)).state is RunState.CANCELLED
    assert not shop.sql("SHOW TABLES IN mart")


def test_a_full_strategy_replaces_every_slice_whatever_part_is_asked_for(shop: Shop) -> None:
    shop.open_doors()
    shop.edit("mart.revenue", "slices:", "strategy: full\nslices:")
    shop.backfill()
    recomputed = (
        "SELECT order_date, currency, count(*), sum(amount_usd) FROM mart.orders_usd GROUP BY order_date, currency"
    )
    before = shop.production("mart.revenue")
    shop.sql("UPDATE raw.orders SET amount = amount + 1 WHERE currency = 'EUR'")
    plan = shop.plan("mart.orders_usd", start="2026-01-04", end="2026-01-05")
    assert [model.slices.text for model in plan.models] == ["2026-01-04..2026-01-05", "2026-01-01..2026-01-08"]
    run = shop.apply(plan)
    assert shop.production("mart.revenue") == shop.rows(recomputed)
    changed = {row[0].day for row in shop.production("mart.revenue") - before}
    assert changed == {4, 5}, "all slices were replaced, those of unchanged inputs by the same rows"
    shop.rollback(run)
    assert shop.production("mart.revenue") == before
    alone = shop.plan("mart.revenue", start="2026-01-02", end="2026-01-02")
    assert alone.models[0].slices.text == "2026-01-01..2026-01-08"
