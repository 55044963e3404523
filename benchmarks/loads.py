"""Loads: what they cost against a full refresh and a hand-written overwrite, with no change, and with a long history.

Three questions, each answered in one run:

* 365 days of orders, a thousandth of the rows of five days changed: `retcon load` against rebuilding both tables, and
  against a hand-written job that is told the five days;
* fifty models, nothing changed: `retcon load` as a process of its own, against one that only starts;
* the same small change in tables of 30, 300 and 3,000 slices.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from datetime import date, timedelta
from functools import partial
from pathlib import Path

from pyspark.sql import SparkSession

from bench import (
    FIRST,
    ORDERS_SQL,
    REVENUE_SQL,
    Bench,
    Cost,
    hand_written,
    measured,
    require_same,
    write_project,
    write_sources,
)
from retcon.flow.apply import apply, open_run
from retcon.flow.plan import Ask
from retcon.wiring import Workspace, new_suffix

SMALL = """\
/* retcon
slices: {{by: d, every: day}}
inputs: {{raw.small: {{time: d}}}}
*/
SELECT d, k % 7 AS part, sum(v) AS v, {number} AS number FROM raw.small GROUP BY d, k % 7
"""


def load(workspace: Workspace) -> int:
    """What `retcon load` does, in this process; the slices that were loaded."""
    w = workspace
    ask = Ask(
        select=(), reason="benchmark", command="-", by="bench", now=w.clock(), suffix=new_suffix()
    )  # fmt: skip
    due = w.loader.due(w.project.graph.select(()), ask)
    if due.plan is None:
        w.loader.advance(due, w.clock(), w.who)
        return 0
    apply(open_run(due.plan, w.project, w.ledger, w.tables, w.clock, w.who), w.context(lambda _: None))
    return due.plan.slices


# ── a few changes in a year ───────────────────────────────────────────────────────────────────────────────────────


def changed_days(days: int) -> list[date]:
    return [FIRST + timedelta(days=round(days * part)) for part in (0.1, 0.35, 0.6, 0.85, 0.99)]


def change(spark: SparkSession, days: list[date]) -> None:
    """One in a thousand orders of these days is corrected."""
    listed = ", ".join(f"DATE '{day}'" for day in days)
    one_in_a_thousand = "pmod(xxhash64(order_id), 1000) = 0"
    spark.sql(f"UPDATE raw.orders SET amount = amount + 1 WHERE order_date IN ({listed}) AND {one_in_a_thousand}")


def overwrite(spark: SparkSession, days: list[date]) -> None:
    """The hand-written job, told which days to rebuild."""
    listed = ", ".join(f"DATE '{day}'" for day in days)
    orders = spark.sql(
        f"{ORDERS_SQL.format(orders='raw.orders', rates='raw.fx_rates')} WHERE o.order_date IN ({listed})"
    )
    orders.writeTo("reference.fct_orders_usd").overwritePartitions()
    filtered = f"(SELECT * FROM reference.fct_orders_usd WHERE order_date IN ({listed}))"
    spark.sql(REVENUE_SQL.format(fct=filtered)).writeTo("reference.fct_revenue").overwritePartitions()


def a_year(days: int, a_day: int, rounds: int) -> None:
    with tempfile.TemporaryDirectory(prefix="retcon-bench-") as folder:
        write_project(Path(folder))
        bench = Bench(Path(folder), days)
        spark = bench.workspace.spark
        print(f"{days} days × {a_day:,} orders; making sources and tables …", flush=True)
        write_sources(spark, days, a_day)
        hand_written(spark)
        bench.backfill(None)
        load(bench.workspace)
        days_hit = changed_days(days)
        costs: dict[str, list[Cost]] = {"full refresh": [], "hand-written, told the days": [], "retcon load": []}

        def row(name: str, work: Callable[[], object]) -> None:
            costs[name].append(measured(spark, work))

        row("full refresh", lambda: hand_written(spark))
        for _ in range(rounds + 1):
            change(spark, days_hit)
            row("retcon load", lambda: load(bench.workspace))
            row("hand-written, told the days", lambda: overwrite(spark, days_hit))
        row("full refresh", lambda: hand_written(spark))
        require_same(spark)
        spark.stop()
    # The first of each warms up.
    means = {name: statistics.mean(cost.cpu for cost in each[1:] or each) for name, each in costs.items()}
    print("\n| how | CPU s | against the full refresh |\n|---|---|---|")
    for name, cpu in means.items():
        print(f"| {name} | {cpu:.1f} | {cpu / means['full refresh']:.3f} |")


# ── nothing changed ───────────────────────────────────────────────────────────────────────────────────────────────


def small_project(root: Path, models: int) -> Workspace:
    (root / "models" / "mart").mkdir(parents=True)
    (root / "retcon.yaml").write_text(
        "name: small\n"
        'catalog: {name: lake, type: jdbc, uri: "sqlite:///.retcon/lake.db", warehouse: .retcon/warehouse}\n'
        'spark: {master: "local[*]", conf: {spark.driver.memory: 2g, spark.sql.shuffle.partitions: 2}}\n'
    )
    for number in range(models):
        (root / "models" / "mart" / f"m{number}.sql").write_text(SMALL.format(number=number))
    return Workspace(root, who="bench")


def make_small(spark: SparkSession, days: int) -> None:
    spark.sql("CREATE NAMESPACE IF NOT EXISTS raw")
    spark.sql("CREATE TABLE raw.small (k BIGINT, d DATE, v BIGINT) USING iceberg PARTITIONED BY (d)")
    last = date.today() - timedelta(days=1)
    # As many files as days are open at once: not thousands of them.
    for first in range(0, days, 300):
        some = min(300, days - first)
        spark.sql(
            f"INSERT INTO raw.small SELECT id, date_sub(DATE '{last}', CAST({first} + id % {some} AS INT)), id % 100 "
            f"FROM range({some * 20})"
        )


def process_cpu(*words: str) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-m", "retcon", *words], check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (after.ru_utime + after.ru_stime) - (before.ru_utime + before.ru_stime)


def nothing_changed(models: int, rounds: int) -> None:
    with tempfile.TemporaryDirectory(prefix="retcon-bench-") as folder:
        workspace = small_project(Path(folder), models)
        make_small(workspace.spark, 30)
        print(f"\nbuilding {models} models of 30 slices …", flush=True)
        load(workspace)
        assert load(workspace) == 0
        workspace.close()
        workspace.spark.stop()
        costs = {
            "retcon load": statistics.median(process_cpu("load", "--project", folder) for _ in range(rounds + 2)),
            "retcon check": statistics.median(process_cpu("check", "--project", folder) for _ in range(rounds + 2)),
            "retcon --version": statistics.median(process_cpu("--version") for _ in range(rounds + 2)),
        }
    print("\n| a process of its own, 50 models, nothing changed | CPU s |\n|---|---|")
    for name, cpu in costs.items():
        print(f"| {name} | {cpu:.2f} |")


# ── a long history ────────────────────────────────────────────────────────────────────────────────────────────────


def one_history(days: int, rounds: int) -> float:
    """CPU seconds of a load of one slice of each of two models, warm."""
    costs: list[Cost] = []
    with tempfile.TemporaryDirectory(prefix="retcon-bench-") as folder:
        workspace = small_project(Path(folder), 2)
        spark = workspace.spark
        make_small(spark, days)
        while load(workspace):
            pass  # a long one takes several publishes
        for number in range(rounds + 4):
            day = date.today() - timedelta(days=2 + number)
            spark.sql(f"INSERT INTO raw.small VALUES ({number}, DATE '{day}', 7)")
            workspace.close()
            costs.append(measured(spark, partial(load, workspace)))
        spark.stop()
    return statistics.mean(cost.cpu for cost in costs[3:])


def long_history(lengths: tuple[int, ...], rounds: int) -> None:
    means: dict[int, float] = {}
    for days in lengths:
        print(f"\nbuilding two models of {days:,} slices …", flush=True)
        # Each in a process of its own: a session keeps its catalog.
        command = [sys.executable, __file__, "--rounds", str(rounds), "--history", str(days)]
        answer = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        means[days] = float(answer.splitlines()[-1])
    print("\n| slices of history | CPU s of a load of one slice, two models | against the shortest |\n|---|---|---|")
    for days, cpu in means.items():
        print(f"| {days:,} | {cpu:.2f} | {cpu / means[lengths[0]]:.2f} |")


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--days", type=int, default=365)
    options.add_argument("--orders", type=int, default=20_000, help="orders a day")
    options.add_argument("--rounds", type=int, default=2, help="how often each is measured, after warming up")
    options.add_argument("--only", choices=("year", "nothing", "history"))
    options.add_argument("--history", type=int, help=argparse.SUPPRESS)
    given = options.parse_args()
    if given.history is not None:
        print(one_history(given.history, given.rounds))
        return
    print(f"{os.cpu_count()} cores")
    if given.only in (None, "year"):
        a_year(given.days, given.orders, given.rounds)
    if given.only in (None, "nothing"):
        nothing_changed(50, given.rounds)
    if given.only in (None, "history"):
        long_history((30, 300, 3_000), given.rounds)


if __name__ == "__main__":
    main()
