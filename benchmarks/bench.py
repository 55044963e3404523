"""retcon against a hand-written Spark job: the same 90 days × 100,000 orders into the same two tables, in one run.

The reference runs before, between and after what is compared, because the JIT goes on warming up: means count. Then the
steps of a backfill apart: staging, proving with production's side from the ledger and read, publishing, rolling back;
and a backfill of the 12 days that really changed.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import date, timedelta
from functools import partial
from pathlib import Path

from pyspark.sql import SparkSession

from retcon.core.runs import Run
from retcon.flow.apply import Until, apply, open_run
from retcon.flow.plan import Ask
from retcon.flow.rollback import roll_back
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

    def backfill(self, wave: int | None) -> Run:
        return self.go_on(self.opened(wave), Until.PUBLISHED)

    def opened(self, wave: int | None = None) -> Run:
        w = self.workspace
        return open_run(w.planner.plan(self._ask(wave)), w.project, w.ledger, w.tables, w.clock, w.who)

    def go_on(self, run: Run, until: Until) -> Run:
        return apply(run, self.workspace.context(lambda _: None), until=until)

    def backfill_changed(self) -> Run:
        """`plan --changed` and `apply`."""
        w = self.workspace
        ask = self._ask(None)
        stale = w.finder.stale(w.project.graph.select(()), ask.now)
        found = {each.model: each.slices for each in stale if each.slices}
        plan = w.planner.plan(replace(ask, start=None, end=None, changed=True, found=found))
        return self.go_on(open_run(plan, w.project, w.ledger, w.tables, w.clock, w.who), Until.PUBLISHED)

    def roll_back(self, run: Run) -> None:
        roll_back(run, "benchmark", self.workspace.context(lambda _: None))

    def _ask(self, wave: int | None) -> Ask:
        return Ask(
            select=("+mart.fct_revenue",), reason="benchmark", command="-", by="bench", now=self.workspace.clock(),
            suffix=new_suffix(), start=FIRST, end=self.last, wave=wave,
        )  # fmt: skip


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
        steps(bench, spark, given.rounds)
        some_changed(bench, spark, given.days)


MODELS = "mart.fct_orders_usd", "mart.fct_revenue"


def steps(bench: Bench, spark: SparkSession, rounds: int) -> None:
    """The steps of a backfill, each by itself; production's measures as the ledger has them, and read."""
    costs: dict[str, list[Cost]] = {}

    def step(name: str, work: Callable[[], Run]) -> Run:
        done: list[Run] = []
        costs.setdefault(name, []).append(measured(spark, lambda: done.append(work())))
        return done[0]

    for number in range(2 * rounds):
        is_read = number % 2 == 1
        if is_read:
            for model in MODELS:  # somebody else wrote there: what the ledger has isn't true any more
                spark.sql(f"INSERT OVERWRITE {model} SELECT * FROM {model}")
        run = bench.opened()
        run = step("stage", partial(bench.go_on, run, Until.STAGED))
        proving = "prove, production read" if is_read else "prove, production from the ledger"
        run = step(proving, partial(bench.go_on, run, Until.PROVEN))
        run = step("publish", partial(bench.go_on, run, Until.PUBLISHED))
        if is_read:
            costs.setdefault("roll back", []).append(measured(spark, partial(bench.roll_back, run)))
    staging = mean_of(costs["stage"])
    print("\n| step | CPU s | against staging | s |\n|---|---|---|---|")
    for name, each in costs.items():
        cpu, wall = mean_of(each), sum(cost.wall for cost in each) / len(each)
        print(f"| {name} | {cpu:.2f} | {cpu / staging:.2f} | {wall:.2f} |")


def some_changed(bench: Bench, spark: SparkSession, days: int) -> None:
    """12 of the days have other orders now: what differs is found and computed, against everything by hand."""
    bench.backfill(None)  # what was rolled back
    costs: dict[str, list[Cost]] = {HAND_WRITTEN: [], "12 days: plan --changed, apply": []}
    costs[HAND_WRITTEN].append(measured(spark, lambda: hand_written(spark)))
    changed = [FIRST + timedelta(days=number * days // 12) for number in range(12)]
    listed = ", ".join(f"DATE '{day}'" for day in changed)
    for _ in range(2):
        spark.sql(
            f"UPDATE raw.orders SET amount = amount + 1 WHERE order_date IN ({listed}) "
            "AND pmod(xxhash64(order_id), 1000) = 0"
        )
        costs["12 days: plan --changed, apply"].append(measured(spark, bench.backfill_changed))
    costs[HAND_WRITTEN].append(measured(spark, lambda: hand_written(spark)))
    require_same(spark)
    print("\n| how | CPU s | CPU ratio |\n|---|---|---|")
    for name, each in costs.items():
        print(f"| {name} | {mean_of(each):.1f} | {mean_of(each) / mean_of(costs[HAND_WRITTEN]):.2f} |")


def mean_of(costs: list[Cost]) -> float:
    return sum(cost.cpu for cost in costs) / len(costs)


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
