"""Two retcons at once, each with a Spark of its own, on one PostgreSQL: both come through, and nothing is lost."""

from __future__ import annotations

import subprocess
import sys
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

from retcon.core.runs import RunState
from tests.conftest import _new_database
from tests.crashes import Trial, require_sound
from tests.shops import Shop
from tests.spark.test_backfills import RECOMPUTED_ORDERS, RECOMPUTED_REVENUE

MODELS = ("mart.orders_usd", "mart.revenue")
DEADLOCKS = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"


@pytest.mark.soak
def test_two_processes_that_apply_overlapping_runs_at_once_both_publish(postgres_url: str, tmp_path: Path) -> None:
    uri = _new_database(postgres_url)
    with closing(Shop(tmp_path / "a shöp", uri)) as shop:
        shop.open_for_business()
        shop.sql("UPDATE raw.orders SET amount = amount + 1 WHERE order_date <= DATE '2026-01-06'")
        plans = [shop.plan(start=f"2026-01-0{day}", end=f"2026-01-0{day + 3}", wave=1) for day in (1, 3)]
        for plan in plans:
            shop.workspace.write_plan(plan)
        command = [sys.executable, "-m", "retcon", "apply", "--project", str(shop.root), "--max-active", "1"]
        processes = [
            subprocess.Popen([*command, plan.id], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            for plan in plans
        ]
        # A nightly load, right among them.
        for number in (998, 999):
            for table in ("raw.orders", MODELS[0]):
                shop.sql(f"INSERT INTO {table} VALUES ({number}, DATE '2026-01-08', 'USD', 'late', 7.50)")
        told = [process.communicate(timeout=300) for process in processes]
        shop.close()
        for process, plan, (_, err) in zip(processes, plans, told, strict=True):
            assert process.returncode == 0, err
            run = shop.workspace.ledger.run(plan.id)
            assert run is not None
            assert run.state is RunState.PUBLISHED
            require_sound(Trial(shop=shop, run=run.id, tables=MODELS, act=lambda: None, check=lambda: None))
        assert shop.production(MODELS[0]) == shop.rows(RECOMPUTED_ORDERS)
        up_to_date = "order_date <> DATE '2026-01-08'"
        assert shop.rows(f"SELECT * FROM {MODELS[1]} WHERE {up_to_date}") == shop.rows(
            f"SELECT * FROM ({RECOMPUTED_REVENUE}) WHERE {up_to_date}"
        )
    with psycopg.connect(uri) as connection:
        assert connection.execute(DEADLOCKS).fetchone() == (0,)
