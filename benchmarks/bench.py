"""retcon against a hand-written Spark job: the same 90 days × 100,000 orders into the same two tables, in one run.

The reference runs before, between and after what is compared, because the JIT goes on warming up: means count.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path

from pyspark.sql import SparkSession

from retcon.flow.apply import Until, apply, open_run
from retcon.flow.plan import Ask
from retcon.wiring import Workspace, new_suffix

HAND_WRITTEN = "hand-written"
FIRST = date(2025, 10, 25)

SETTINGS = """\
name: bench
catalog: {name: lake, type: jdbc, uri: "sqlite:///.retcon/lake.db", warehouse: .retcon/warehouse}
spark: {master: "local[*]", conf: {spark.driver.memory: 6g}}
"""
ORDERS_SQL = """\
SELECT o.order_id, o.order_date, o.customer_id, o.currency, o.amount,
  CAST(ROUND(o.amount * r.rate, 2) AS DECIMAL(14, 2)) AS amount_usd
FROM {orders} o JOIN {rates} r ON r.rate_date = o.order_date AND r.currency = o.currency"""
REVENUE_SQL = """\
SELECT f.order_date, f.currency, f.customer_id % 100 AS bucket, count(*) AS orders, sum(f.amount_usd) AS revenue_usd
FROM {fct} f GROUP BY f.order_date, f.currency, f.customer_id % 100"""
GATES = """\
gates:
  - rows: {{min: 1}}
  - unique: key
  - not_null: [{metric}]
  - drift: {{metric: sum({metric}), within: 20%}}
"""


@dataclass(frozen=True, kw_only=True)
class Cost:
    cpu: float
    wall: float


def cpu_seconds(pids: list[int]) -> float:
    """Processor time of these processes so far."""
    total = 0.0
    for pid in pids:
        stat = Path(f"/proc/{pid}/stat")
        if stat.exists():
            fields = stat.read_text().rpartition(")")[2].split()
            total += (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
        else:
            shown = subprocess.run(["ps", "-o", "cputime=", "-p", str(pid)], capture_output=True, text=True, check=True)
            parts = [float(part) for part in shown.stdout.strip().replace("-", ":").split(":")]
            total += sum(part * 60**power for power, part in enumerate(reversed(parts)))
    return total


def measured(spark: SparkSession, work: Callable[[], object]) -> Cost:
    java = int(spark._jvm.java.lang.ProcessHandle.current().pid())  # type: ignore[union-attr]
    pids = [os.getpid(), java]
    cpu, wall = cpu_seconds(pids), time.monotonic()
    work()
    return Cost(cpu=cpu_seconds(pids) - cpu, wall=time.monotonic() - wall)


def write_project(root: Path) -> None:
    (root / "models" / "mart").mkdir(parents=True)
    (root / "retcon.yaml").write_text(SETTINGS)
    (root / "models" / "mart" / "fct_orders_usd.sql").write_text(
        "/* retcon\nslices: {by: order_date, every: day}\nkey: [order_date, order_id]\ninputs:\n"
        "  raw.orders: {time: order_date}\n  raw.fx_rates: {time: rate_date}\n"
        + GATES.format(metric="amount_usd")
        + "*/\n"
        + ORDERS_SQL.format(orders="raw.orders", rates="raw.fx_rates")
    )
    (root / "models" / "mart" / "fct_revenue.sql").write_text(
        "/* retcon\nslices: {by: order_date, every: day}\nkey: [order_date, currency, bucket]\ninputs:\n"
        "  mart.fct_orders_usd: {time: order_date}\n"
        + GATES.format(metric="revenue_usd")
        + "*/\n"
        + REVENUE_SQL.format(fct="mart.fct_orders_usd")
    )


def write_sources(spark: SparkSession, days: int, a_day: int) -> None:
    for namespace in ("raw", "reference"):
        spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {namespace}")
    spark.sql(
        "CREATE TABLE raw.orders (order_id BIGINT, order_date DATE, customer_id BIGINT, currency STRING, "
        "amount DECIMAL(12,2), updated_at TIMESTAMP) USING iceberg PARTITIONED BY (order_date)"
    )
    spark.sql("CREATE TABLE raw.fx_rates (rate_date DATE, currency STRING, rate DECIMAL(18,8)) USING iceberg")
    currencies = "array('USD', 'EUR', 'GBP', 'JPY', 'CHF', 'CAD', 'BRL', 'INR')"
    spark.sql(
        f"INSERT INTO raw.orders SELECT id, date_add(DATE '{FIRST}', CAST(id % {days} AS INT)), "
        f"pmod(xxhash64(id), 50000), {currencies}[CAST(pmod(hash(id), 8) AS INT)], "
        f"CAST(pmod(xxhash64(id, 1), 20000) / 100 AS DECIMAL(12,2)), TIMESTAMP '2026-01-23 00:00:00' "
        f"FROM range({days * a_day})"
    )
    spark.sql(
        f"INSERT INTO raw.fx_rates SELECT date_add(DATE '{FIRST}', CAST(id AS INT)), c, "
        f"CAST(1 + pmod(hash(id, c), 1000) / 1000 AS DECIMAL(18,8)) FROM range({days}) "
        f"LATERAL VIEW explode({currencies}) AS c"
    )
    tables = {
        "fct_orders_usd": ORDERS_SQL.format(orders="raw.orders", rates="raw.fx_rates"),
        "fct_revenue": REVENUE_SQL.format(fct="reference.fct_orders_usd"),
    }
    for name, query in tables.items():
        schema = spark.sql(query)._jdf.schema().toDDL()
        spark.sql(f"CREATE TABLE reference.{name} ({schema}) USING iceberg PARTITIONED BY (order_date)")


def hand_written(spark: SparkSession) -> None:
    """What a data engineer writes today: one job per table, straight into production, nothing checked."""
    orders = spark.sql(ORDERS_SQL.format(orders="raw.orders", rates="raw.fx_rates"))
    orders.writeTo("reference.fct_orders_usd").overwritePartitions()
    spark.sql(REVENUE_SQL.format(fct="reference.fct_orders_usd")).writeTo("reference.fct_revenue").overwritePartitions()


class Bench:
    def __init__(self, root: Path, days: int) -> None:
        self.workspace = Workspace(root, who="bench")
        self.last = FIRST + timedelta(days=days - 1)

    def backfill(self, wave: int | None, until: Until = Until.PUBLISHED) -> str:
        w = self.workspace
        plan = w.planner.plan(
            Ask(
                select=("+mart.fct_revenue",), reason="benchmark", command="-", by="bench", now=w.clock(),
                suffix=new_suffix(), start=FIRST, end=self.last, wave=wave,
            )
        )  # fmt: skip
        run = open_run(plan, w.project, w.ledger, w.tables, w.clock, w.who)
        apply(run, w.context(lambda _: None), until=until)
        return plan.id


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--days", type=int, default=90)
    options.add_argument("--orders", type=int, default=100_000, help="orders a day")
    options.add_argument("--rounds", type=int, default=2, help="how often each is measured; the mean counts")
    given = options.parse_args()
    with tempfile.TemporaryDirectory(prefix="retcon-bench-") as folder:
        root = Path(folder)
        write_project(root)
        bench = Bench(root, given.days)
        spark = bench.workspace.spark
        print(f"{given.days} days × {given.orders:,} orders, {os.cpu_count()} cores; making sources …", flush=True)
        write_sources(spark, given.days, given.orders)
        print("warming up …", flush=True)
        for _ in range(2):
            hand_written(spark)
            bench.backfill(None)
        runs: list[tuple[str, Cost]] = []

        def row(name: str, work: Callable[[], object]) -> None:
            runs.append((name, measured(spark, work)))
            print(f"  {name}: {runs[-1][1].cpu:.1f} CPU s, {runs[-1][1].wall:.1f} s", flush=True)

        row(HAND_WRITTEN, lambda: hand_written(spark))
        for _ in range(given.rounds):
            row("retcon, waves by size", lambda: bench.backfill(None))
            row("retcon, 6 waves", lambda: bench.backfill(-(-given.days // 6)))
            row(HAND_WRITTEN, lambda: hand_written(spark))
        require_same(spark)
        report(runs)


def require_same(spark: SparkSession) -> None:
    """Speed counts only for the same result."""
    for table in ("fct_orders_usd", "fct_revenue"):
        for a, b in (("reference", "mart"), ("mart", "reference")):
            left = spark.sql(f"SELECT * FROM {a}.{table} EXCEPT ALL SELECT * FROM {b}.{table}").limit(1).collect()
            assert not left, f"{table} differs: {left}"


def report(runs: list[tuple[str, Cost]]) -> None:
    """Means; how far apart single runs were tells how quiet the machine was."""

    def mean(name: str, what: str) -> float:
        values = [getattr(cost, what) for each, cost in runs if each == name]
        return float(sum(values)) / len(values)

    print("\n| how | CPU s | CPU ratio | wall s | wall ratio | CPU s of each run |\n|---|---|---|---|---|---|")
    for name in dict.fromkeys(name for name, _ in runs):
        cpu, wall = mean(name, "cpu"), mean(name, "wall")
        ratios = cpu / mean(HAND_WRITTEN, "cpu"), wall / mean(HAND_WRITTEN, "wall")
        each = ", ".join(f"{cost.cpu:.1f}" for other, cost in runs if other == name)
        print(f"| {name} | {cpu:.1f} | {ratios[0]:.2f} | {wall:.1f} | {ratios[1]:.2f} | {each} |")


if __name__ == "__main__":
    main()
