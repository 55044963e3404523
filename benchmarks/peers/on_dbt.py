"""The same two tables by dbt-spark, as microbatches of a day. Run in its own environment."""

from __future__ import annotations

import os
from datetime import timedelta
from pathlib import Path

from dbt.cli.main import dbtRunner

from orders import FIRST, ORDERS_SQL, REVENUE_SQL, last_of
from peers.session import Peer, played

SCHEMA = "dbt_mart"
BY_DAY = "dbt-spark 1.11, microbatch by day"
PROJECT = """\
name: peer
version: 1.0.0
profile: peer
models: {+file_format: iceberg}
flags: {send_anonymous_usage_stats: false}
"""
PROFILE = f"""\
peer:
  target: here
  outputs:
    here: {{type: spark, method: session, schema: {SCHEMA}, host: NA, threads: 1}}
"""
SOURCES = """\
version: 2
sources:
  - name: raw
    tables:
      - {name: orders, config: {event_time: order_date}}
      - {name: fx_rates, config: {event_time: rate_date}}
"""
MODEL = """\
{{{{ config(materialized='incremental', incremental_strategy='microbatch', event_time='order_date', batch_size='day',
     begin='{first}', lookback=0, partition_by=['order_date'], concurrent_batches=false) }}}}
{query}
"""


def write(root: Path) -> None:
    (root / "models").mkdir(parents=True)
    (root / "dbt_project.yml").write_text(PROJECT)
    (root / "profiles.yml").write_text(PROFILE)
    (root / "models" / "sources.yml").write_text(SOURCES)
    queries = {
        "fct_orders_usd": ORDERS_SQL.format(
            orders="{{ source('raw', 'orders') }}", rates="{{ source('raw', 'fx_rates') }}"
        ),
        "fct_revenue": REVENUE_SQL.format(fct="{{ ref('fct_orders_usd') }}"),
    }
    for name, query in queries.items():
        (root / "models" / f"{name}.sql").write_text(MODEL.format(first=FIRST, query=query))


def build(root: Path, days: int) -> None:
    end = last_of(days) + timedelta(days=1)
    answer = dbtRunner().invoke(
        ["run", "--project-dir", str(root), "--profiles-dir", str(root), "--event-time-start", str(FIRST),
         "--event-time-end", str(end), "--quiet"]
    )  # fmt: skip
    if not answer.success:
        raise SystemExit(f"dbt: {answer.exception or answer.result}")


def work(peer: Peer) -> None:
    os.environ["DBT_SEND_ANONYMOUS_USAGE_STATS"] = "false"
    root = peer.root / "dbt"
    write(root)
    peer.warm_up(lambda _: build(root, peer.few))
    peer.by_hand()
    peer.run(BY_DAY, lambda: build(root, peer.days))
    peer.by_hand()
    peer.require_same(SCHEMA)


if __name__ == "__main__":
    played(work)
