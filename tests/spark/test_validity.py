"""Validity windows: an effective-dated join as the how-to shows it, and histories that can't be joined by."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from retcon.core.runs import RunState
from retcon.errors import GatesFailed
from tests.shops import Shop

pytestmark = pytest.mark.spark

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "effective-dated-joins.md"
CUSTOMERS = """
  (0, 'new',   TIMESTAMP '2025-01-01 00:00:00 UTC', TIMESTAMP '2026-01-02 12:00:00 UTC'),
  (0, 'loyal', TIMESTAMP '2026-01-02 12:00:00 UTC', NULL),
  (1, 'new',   TIMESTAMP '2025-06-01 00:00:00 UTC', TIMESTAMP '2025-12-01 00:00:00 UTC'),
  (1, 'back',  TIMESTAMP '2025-12-24 00:00:00 UTC', TIMESTAMP '2027-01-01 00:00:00 UTC'),
  (NULL, 'x',  TIMESTAMP '2025-01-01 00:00:00 UTC', NULL), (NULL, 'y', TIMESTAMP '2025-01-01 00:00:00 UTC', NULL)
"""
MODEL = "mart.orders_by_segment"


@pytest.fixture
def history(shop: Shop) -> Shop:
    """Orders at six and at eighteen o'clock, and the segments that customers were in."""
    [example] = re.findall(r"^```sql\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    (shop.root / "models/mart/orders_usd.sql").unlink()
    (shop.root / "models/mart/revenue.sql").unlink()
    shop.write(MODEL, example)
    shop.once("orders and segments", lambda: _orders_and_segments(shop))
    return shop


def _orders_and_segments(shop: Shop) -> None:
    shop.sql("CREATE NAMESPACE raw")
    shop.sql("CREATE TABLE raw.orders (order_id BIGINT, customer_id INT, order_ts TIMESTAMP, order_date DATE, "
             "amount DECIMAL(12,2)) USING iceberg PARTITIONED BY (order_date)")  # fmt: skip
    shop.sql("INSERT INTO raw.orders SELECT id, CAST(id % 2 AS INT), ts, CAST(ts AS DATE), CAST(id AS DECIMAL(12,2)) "
             "FROM (SELECT id, timestampadd(HOUR, 6 + 12 * (id DIV 2), TIMESTAMP '2026-01-01 00:00:00 UTC') AS ts "
             "FROM range(16))")  # fmt: skip
    shop.sql("CREATE TABLE raw.customers (customer_id INT, segment STRING, valid_from TIMESTAMP, valid_to TIMESTAMP) "
             "USING iceberg")  # fmt: skip
    shop.sql(f"INSERT INTO raw.customers VALUES {CUSTOMERS}")


def test_each_order_gets_the_segment_that_held_when_it_was_placed_and_gaps_are_told(history: Shop) -> None:
    plan = history.plan(MODEL, start="2026-01-01", end="2026-01-04")
    assert "valid.raw.customers" in plan.models[0].gates
    assert len(plan.models[0].waves) == 1, "slices don't influence one another"
    run = history.apply(plan)
    found = dict(history.sql(f"SELECT order_id, segment FROM {MODEL}"))
    moved = {0: "new", 2: "new", 4: "new"}  # up to the second of January, at six
    assert found == {n: "back" if n % 2 else moved.get(n, "loyal") for n in range(16)}
    [verdict] = [v.verdict for v in history.workspace.ledger.verdicts(run.id) if v.verdict.kind == "valid"]
    assert verdict.passed
    assert verdict.summary == "4 windows of 2 keys, none overlap, 1 gaps in 1 keys (warning)"


def test_windows_that_overlap_or_hold_at_no_moment_stop_the_run_before_anything_is_staged(history: Shop) -> None:
    history.sql(
        "INSERT INTO raw.customers VALUES "
        "(0, 'twice', TIMESTAMP '2026-01-03 00:00:00 UTC', TIMESTAMP '2026-01-04 00:00:00 UTC'), "
        "(1, 'twice', TIMESTAMP '2025-07-01 00:00:00 UTC', TIMESTAMP '2025-07-02 00:00:00 UTC'), "
        "(1, 'never', TIMESTAMP '2026-01-03 00:00:00 UTC', TIMESTAMP '2026-01-03 00:00:00 UTC')"
    )
    plan = history.plan(MODEL, start="2026-01-01", end="2026-01-04")
    with pytest.raises(GatesFailed) as failed:
        history.apply(plan)
    assert failed.value.exit_code == 4
    assert "2 windows in 2 keys begin before an earlier one ends" in failed.value.message
    assert "1 windows hold at no moment" in failed.value.message
    assert "key #" in failed.value.message
    assert "2026-01-03" not in failed.value.message, "values are shown only where the model allows it"
    run = history.workspace.ledger.run(plan.id)
    assert run is not None
    assert run.state is RunState.PLANNED
    assert history.workspace.tables.facts(MODEL) is None
    assert not history.workspace.ledger.verdicts(plan.id)[0].holds

    history.edit(MODEL, "gates:", "samples: true\ngates:")
    with pytest.raises(GatesFailed, match=r"customer_id=0: \[2026-01-03 .*\) overlaps \(the one before: to open\)"):
        history.apply(plan)


def test_gaps_stop_the_run_where_the_model_says_so(history: Shop) -> None:
    history.edit(MODEL, "key: [customer_id]}", "key: [customer_id], gaps: fail}")
    with pytest.raises(GatesFailed, match="1 gaps in 1 keys"):
        history.backfill(MODEL, start="2026-01-01", end="2026-01-04")


def test_some_keys_are_restated_with_the_windows_that_held_for_them(history: Shop) -> None:
    history.edit(MODEL, "raw.orders: {time: order_date}", "raw.orders: {time: order_date, key: customer_id}")
    history.edit(MODEL, "raw.customers:\n", "raw.customers:\n    key: customer_id\n")
    history.edit(MODEL, "  c.segment,\n", "  o.customer_id,\n  c.segment,\n")
    history.backfill(MODEL, start="2026-01-01", end="2026-01-04")
    history.sql("UPDATE raw.customers SET segment = upper(segment)")
    keys = history.workspace.listed_keys("customer_id=1").keys
    plan = history.plan(MODEL, start="2026-01-02", end="2026-01-03", keys=keys)
    assert plan.models[0].is_keyed
    run = history.apply(plan)
    found = dict(history.sql(f"SELECT order_id, segment FROM {MODEL}"))
    restated = {n for n in range(16) if n % 2 and 4 <= n < 12}
    assert {n for n, segment in found.items() if segment.isupper()} == restated
    [verdict] = [v.verdict for v in history.workspace.ledger.verdicts(run.id) if v.verdict.kind == "valid"]
    assert verdict.summary.startswith("4 windows of 2 keys"), "the whole history is looked at"
