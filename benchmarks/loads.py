"""Loads: what they cost against a full refresh and a hand-written overwrite, with no change, and with a long history.

Three questions, each a block:

* year: a thousandth of the rows of five days of a year changed: `retcon load` against rebuilding both tables, and
  against a hand-written job that is told the five days;
* nothing: fifty models, nothing changed: `retcon load` as a process of its own, against one that only starts;
* history: the same small change in tables of 30, 300 and 3,000 slices.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import time
from collections.abc import Sequence
from datetime import date, timedelta
from functools import partial
from pathlib import Path

from pyspark.sql import SparkSession

from measuring import Cost, against, exponent, measured, spread
from orders import FIRST, hand_written, last_of, require_same, write_sources
from pages import table
from parts import options_of, say
from projects import SHOP, Driver, child_environ, folder_of_its_own, write_project
from results import Found, cost_table, tell

BLOCKS = ("year", "nothing", "history")
FULL_SIZE = (365, 100_000)
"""Days, and orders a day, that the limit is for: days as those of the backfill."""
WARM_UPS = 10
"""Loads before any is measured: each is short, and Java's compilers are at work in all of them, ever less."""
FULL = "full refresh, hand-written"
TOLD = "hand-written, told the days"
LOAD = "retcon load"
SMALL_KEYS = "slices: {by: d, every: day}\ninputs: {raw.small: {time: d}}\n"
SMALL = "SELECT d, k % 7 AS part, sum(v) AS v, {number} AS number FROM raw.small GROUP BY d, k % 7"
SMALL_CONF = "spark.driver.memory: 2g, spark.sql.shuffle.partitions: 2"


# ── a few changes in a year ───────────────────────────────────────────────────────────────────────────────────────


def changed_days(days: int) -> list[date]:
    return [FIRST + timedelta(days=round(days * part)) for part in (0.1, 0.35, 0.6, 0.85, 0.99)]


def change(spark: SparkSession, days: Sequence[date]) -> None:
    """One in a thousand orders of these days is corrected."""
    listed = ", ".join(f"DATE '{day}'" for day in days)
    one_in_a_thousand = "pmod(xxhash64(order_id), 1000) = 0"
    spark.sql(f"UPDATE raw.orders SET amount = amount + 1 WHERE order_date IN ({listed}) AND {one_in_a_thousand}")


def a_year(days: int, a_day: int, rounds: int, warm_ups: int, *, write: bool) -> None:
    began = time.monotonic()
    runs: list[tuple[str, Cost]] = []
    with folder_of_its_own() as root:
        write_project(root, SHOP)
        driver = Driver(root, ["+mart.fct_revenue"], FIRST, last_of(days))
        spark = driver.workspace.spark
        size = f"{days} days × {a_day:,} orders, two tables"
        say(f"loads: {size}; making sources and tables …")
        write_sources(spark, days, a_day)
        hand_written(spark)
        driver.backfill()
        driver.load()
        days_hit = changed_days(days)

        def load_once() -> list[tuple[str, Cost]]:
            change(spark, days_hit)
            both = [
                (LOAD, measured(driver.load)),
                (TOLD, measured(partial(hand_written, spark, "reference", days_hit))),
            ]
            say(f"  load: {both[0][1].cpu:.1f} CPU s; told the days: {both[1][1].cpu:.1f} CPU s")
            return both

        cold = [load_once() for _ in range(warm_ups)]
        runs.append((FULL, measured(partial(hand_written, spark))))
        for _ in range(rounds):
            runs += load_once()
        runs.append((FULL, measured(partial(hand_written, spark))))
        require_same(spark)
        spark.stop()
    ratio = against(runs, LOAD, FULL).median
    before, told = (", ".join(f"{pair[at][1].cpu:.1f}" for pair in cold) for at in (0, 1))
    warming = f"\n\nThe loads before these, which warmed Java up, took {before} CPU s; told the days, {told}."
    found = Found(
        part="year", size=size, is_full_size=(days, a_day) == FULL_SIZE, began=began,
        text=cost_table(runs, FULL, [FULL, TOLD, LOAD]) + warming, ratios={"load": ratio},
    )  # fmt: skip
    tell(found, write=write)


# ── nothing changed ───────────────────────────────────────────────────────────────────────────────────────────────


def small_project(root: Path, models: int) -> Driver:
    queries = {f"mart.m{number}": (SMALL_KEYS, SMALL.format(number=number)) for number in range(models)}
    write_project(root, queries, conf=SMALL_CONF)
    return Driver(root)


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


def process_cost(*words: str) -> Cost:
    """A command as a process of its own, from its start to its end."""
    before, wall = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    subprocess.run([sys.executable, "-m", "retcon", *words], check=True, capture_output=True, env=child_environ())
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return Cost(
        cpu=(after.ru_utime + after.ru_stime) - (before.ru_utime + before.ru_stime), wall=time.monotonic() - wall
    )


def nothing_changed(models: int, rounds: int, *, write: bool) -> None:
    began = time.monotonic()
    size = f"{models} models of 30 slices"
    with folder_of_its_own() as root:
        driver = small_project(root, models)
        make_small(driver.workspace.spark, 30)
        say(f"loads: building {size} …")
        driver.load()
        if driver.load() != 0:
            raise SystemExit("a second load found something to do, though nothing had changed")
        driver.workspace.close()
        driver.workspace.spark.stop()
        commands = {
            "retcon load": ("load", "--project", str(root)),
            "retcon check": ("check", "--project", str(root)),
            "retcon --version": ("--version",),
        }
        costs = {name: [process_cost(*words) for _ in range(rounds + 2)] for name, words in commands.items()}
    rows = [
        [f"`{name}`", str(len(each)), spread(c.cpu for c in each).shown(), spread(c.wall for c in each).shown()]
        for name, each in costs.items()
    ]
    text = table(["a process of its own, nothing changed", "runs", "CPU s", "wall s"], rows)
    tell(Found(part="nothing", size=size, began=began, text=text), write=write)


# ── a long history ────────────────────────────────────────────────────────────────────────────────────────────────


def one_history(days: int, rounds: int) -> list[Cost]:
    """Of loads of one slice of each of two models, warm."""
    costs: list[Cost] = []
    with folder_of_its_own() as root:
        driver = small_project(root, 2)
        spark = driver.workspace.spark
        make_small(spark, days)
        while driver.load():
            pass  # a long one takes several publishes
        for number in range(rounds + 3):
            day = date.today() - timedelta(days=2 + number)
            spark.sql(f"INSERT INTO raw.small VALUES ({number}, DATE '{day}', 7)")
            driver.workspace.close()
            costs.append(measured(driver.load))
        spark.stop()
    return costs[3:]


def long_history(lengths: Sequence[int], rounds: int, *, write: bool) -> None:
    began = time.monotonic()
    medians: dict[int, float] = {}
    rows: list[list[str]] = []
    for days in lengths:
        say(f"loads: two models of {days:,} slices …")
        # Each in a process of its own: a session keeps its catalog.
        command = [sys.executable, __file__, "--rounds", str(rounds), "--history", str(days)]
        answer = subprocess.run(command, check=True, capture_output=True, text=True, env=child_environ()).stdout
        cpu = spread(float(value) for value in answer.splitlines()[-1].split())
        medians[days] = cpu.median
        rows.append([f"{days:,}", str(cpu.count), cpu.shown(), f"{cpu.median / medians[lengths[0]]:.2f}"])
    text = table(
        ["slices of history", "runs", "CPU s of a load of one slice, two models", "against the shortest"], rows
    )
    power = exponent(list(medians), list(medians.values()))
    text += f"\n\nGrowth: the cost goes with the length of the history to the power of {power:.2f}."
    tell(
        Found(part="history", size=f"{min(lengths):,} to {max(lengths):,} slices", began=began, text=text), write=write
    )


def in_turn(blocks: Sequence[str], words: Sequence[str]) -> None:
    """Each block in a process of its own: a JVM keeps the catalog of the first project that it was started for."""
    plain = [word for word in words if word != "--only" and word not in BLOCKS]
    for block in blocks:
        command = [sys.executable, __file__, *plain, "--only", block]
        if subprocess.run(command, check=False, env=child_environ()).returncode != 0:
            raise SystemExit(f"loads: {block} failed")


def main() -> None:
    options = options_of(__doc__, BLOCKS)
    options.add_argument("--days", type=int)
    options.add_argument("--orders", type=int, help="orders a day")
    options.add_argument("--history", type=int, help=argparse.SUPPRESS)
    given = options.parse_args()
    rounds = given.rounds or (1 if given.quick else 3)
    if given.history is not None:
        print(*(cost.cpu for cost in one_history(given.history, rounds)))
        return
    wanted = given.only or BLOCKS
    write = not given.quick
    if len(wanted) > 1:
        in_turn(wanted, sys.argv[1:])
        return
    if "year" in wanted:
        days, a_day = (
            given.days or (30 if given.quick else FULL_SIZE[0]),
            given.orders or (1_000 if given.quick else FULL_SIZE[1]),
        )
        a_year(days, a_day, rounds, 1 if given.quick else WARM_UPS, write=write)
    if "nothing" in wanted:
        nothing_changed(4 if given.quick else 50, rounds, write=write)
    if "history" in wanted:
        long_history((10, 60) if given.quick else (30, 300, 3_000), rounds, write=write)


if __name__ == "__main__":
    main()
