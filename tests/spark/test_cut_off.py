"""Early cut-off: what comes out as it was isn't published, and what reads only that isn't computed."""

from __future__ import annotations

import pytest

from retcon.core.runs import Run, SliceState
from retcon.errors import Conflict, Refused
from retcon.flow.apply import Until
from tests.shops import Shop
from tests.spark.test_loads import MODELS, require_as_recomputed

pytestmark = pytest.mark.spark

ORDERS, REVENUE = MODELS
ADDED = """\
SELECT data_file.file_path, snapshot_id FROM mart.revenue.all_entries
WHERE status = 1 AND data_file.partition.order_date = DATE '2026-01-04'
"""


def states(shop: Shop, run: Run, model: str) -> dict[str, SliceState]:
    return {s.slice: s.state for s in shop.workspace.ledger.slices(run.id, model)}


def snapshots(shop: Shop) -> dict[str, int | None]:
    return {name: facts.snapshot_id for name in MODELS if (facts := shop.workspace.tables.facts(name))}


def kinds(shop: Shop, run: Run) -> list[str]:
    return [event.kind for event in shop.workspace.ledger.events(run.id)]


def test_a_change_that_makes_no_difference_ends_where_it_makes_none(shop: Shop) -> None:
    shop.open_for_business()
    shop.load()
    before, files = snapshots(shop), {name: shop.files(name) for name in MODELS}
    # Nobody buys in pounds.
    shop.sql("INSERT INTO raw.rates VALUES (DATE '2026-01-03', 'GBP', 1.2)")
    run = shop.load()
    assert run is not None
    assert {p.name: p.slices.text for p in run.plan.models} == dict.fromkeys(MODELS, "2026-01-03")
    assert states(shop, run, ORDERS) == states(shop, run, REVENUE) == {"2026-01-03": SliceState.SAME}
    waves = shop.workspace.ledger.waves(run.id)
    assert [(w.model, w.attempts) for w in waves] == [(ORDERS, 1), (REVENUE, 0)]
    assert "SlicesKept" in kinds(shop, run)
    assert snapshots(shop) == before
    assert {name: shop.files(name) for name in MODELS} == files
    assert shop.due().plan is None
    with pytest.raises(Refused, match="changed nothing"):
        shop.rollback(run)

    # One day makes a difference, another doesn't; and what a customer is called makes none to the revenue.
    shop.sql("INSERT INTO raw.rates VALUES (DATE '2026-01-04', 'GBP', 1.2)")
    shop.sql("INSERT INTO raw.orders VALUES (900, DATE '2026-01-05', 'EUR', 'late', 7)")
    shop.sql("UPDATE raw.orders SET customer = 'renamed' WHERE order_date = DATE '2026-01-06'")
    production = {name: shop.production(name) for name in MODELS}
    run = shop.load()
    assert run is not None
    same, done = SliceState.SAME, SliceState.DONE
    assert states(shop, run, ORDERS) == {"2026-01-04": same, "2026-01-05": done, "2026-01-06": done}
    assert states(shop, run, REVENUE) == {"2026-01-04": same, "2026-01-05": done, "2026-01-06": same}
    require_as_recomputed(shop)
    assert shop.due().plan is None
    shop.rollback(run)
    assert {name: shop.production(name) for name in MODELS} == production
    assert shop.workspace.ledger.held_slices(ORDERS) == {"2026-01-05", "2026-01-06"}
    assert shop.workspace.ledger.held_slices(REVENUE) == {"2026-01-05"}
    shop.backfill(start="2026-01-04", end="2026-01-06")
    require_as_recomputed(shop)
    assert shop.due().plan is None


def test_a_column_that_was_dropped_and_added_anew_holds_nothing_of_what_was_measured_before(shop: Shop) -> None:
    """Iceberg reads it as NULL in every file from before, under the same name and type."""
    shop.open_for_business()
    shop.load()
    shop.sql("ALTER TABLE mart.orders_usd DROP COLUMN customer")
    shop.sql("ALTER TABLE mart.orders_usd ADD COLUMN customer STRING")
    # Before the table has a snapshot with the new column, and after it has.
    for day in ("2026-01-03", "2026-01-04"):
        shop.sql(f"INSERT INTO raw.rates VALUES (DATE '{day}', 'GBP', 1.2)")
        run = shop.load()
        assert run is not None
        assert states(shop, run, ORDERS) == {day: SliceState.DONE}
        assert shop.sql(f"SELECT count(customer) FROM mart.orders_usd WHERE order_date = DATE '{day}'") == [(12,)]
    shop.sql("INSERT INTO raw.rates VALUES (DATE '2026-01-04', 'SEK', 9)")
    run = shop.load()
    assert run is not None
    assert states(shop, run, ORDERS) == {"2026-01-04": SliceState.SAME}, "measured with the new column, it is known"


def test_others_write_while_slices_are_kept(shop: Shop) -> None:
    """What wasn't computed has no files of its own: carried over, production's would be added a second time."""
    shop.open_for_business()
    shop.load()
    added = set(shop.sql(ADDED))
    shop.sql("INSERT INTO raw.rates VALUES (DATE '2026-01-03', 'GBP', 1.2), (DATE '2026-01-04', 'GBP', 1.2)")
    shop.sql("INSERT INTO raw.orders VALUES (900, DATE '2026-01-05', 'EUR', 'late', 7)")
    due = shop.due()
    assert due.plan is not None
    run = shop.apply(due.plan, until=Until.PROVEN)
    kept = {label for label, state in states(shop, run, REVENUE).items() if state is SliceState.SAME}
    assert kept == {"2026-01-03", "2026-01-04"}
    # Into a slice that was kept, and into one that was computed.
    for day in ("2026-01-03", "2026-01-05"):
        shop.sql(f"INSERT INTO mart.revenue VALUES (DATE '{day}', 'CHF', 1, 1)")
    run = shop.apply(due.plan)
    assert "Rebased" in kinds(shop, run)
    assert set(shop.sql(ADDED)) == added
    require_as_recomputed(shop)
    assert shop.due().plan is None


def test_a_plan_of_what_changed_leaves_the_same_alone_and_one_that_was_asked_for_doesnt(shop: Shop) -> None:
    shop.open_for_business()
    shop.sql("INSERT INTO raw.rates VALUES (DATE '2026-01-03', 'GBP', 1.2)")
    before = snapshots(shop)
    shop.backfill(start="2026-01-03", end="2026-01-03")
    assert all(now != before[name] for name, now in snapshots(shop).items())
    require_as_recomputed(shop)


def test_what_was_kept_is_rolled_back_before_the_publish(shop: Shop) -> None:
    shop.open_doors()
    first = shop.backfill()
    shop.sql("INSERT INTO raw.rates VALUES (DATE '2026-01-03', 'GBP', 1.2)")
    plan = shop.due().plan
    assert plan is not None
    run = shop.apply(plan, until=Until.PROVEN)
    assert states(shop, run, REVENUE) == {"2026-01-03": SliceState.SAME}
    shop.rollback(first)
    with pytest.raises(Conflict):
        shop.apply(plan)
    assert all(not shop.production(name) for name in MODELS)
