"""A running total over many days, each slice read from the one before: seconds per slice, at its start and its end."""

from __future__ import annotations

import time
from datetime import datetime
from itertools import pairwise

from pyspark.sql import SparkSession

from measuring import spread
from orders import FIRST, last_of, require_same_rows
from pages import table
from parts import options_of, say
from projects import Driver, folder_of_its_own, write_project
from results import Found, tell

KEYS = """\
slices: {by: day, every: day}
key: [day, account]
columns: {day: date, account: bigint, balance: "decimal(38,2)"}
inputs:
  raw.movements: {time: day}
  mart.balance: {time: day, lookback: 1}
replay: {order: sequential}
"""
BALANCE = """\
SELECT :start_date AS day, account, CAST(sum(amount) AS DECIMAL(38, 2)) AS balance
FROM (SELECT account, amount FROM raw.movements UNION ALL SELECT account, balance FROM mart.balance)
GROUP BY account"""
EDGE = 10


def write_movements(spark: SparkSession, days: int, accounts: int) -> None:
    spark.sql("CREATE NAMESPACE IF NOT EXISTS raw")
    spark.sql(
        "CREATE TABLE raw.movements (day DATE, account BIGINT, amount DECIMAL(12,2)) USING iceberg PARTITIONED BY (day)"
    )
    spark.sql(
        f"INSERT INTO raw.movements SELECT date_add(DATE '{FIRST}', CAST(id % {days} AS INT)), id DIV {days}, "
        f"CAST(pmod(xxhash64(id), 20000) / 100 - 100 AS DECIMAL(12,2)) FROM range({days * accounts})"
    )


def seconds_a_slice(driver: Driver) -> list[float]:
    """From one staged slice to the next, everything in between included."""
    run = driver.backfill()
    staged = [
        datetime.fromisoformat(event.at)
        for event in driver.workspace.ledger.events(run.id)
        if event.kind in ("TablesOpened", "WaveStaged")
    ]
    return [(after - before).total_seconds() for before, after in pairwise(staged)]


def main() -> None:
    options = options_of(__doc__)
    options.add_argument("--days", type=int)
    options.add_argument("--accounts", type=int)
    given = options.parse_args()
    days, accounts = given.days or (4 if given.quick else 60), given.accounts or (1_000 if given.quick else 10_000)
    began = time.monotonic()
    rows: list[list[str]] = []
    with folder_of_its_own() as root:
        write_project(root, {"mart.balance": (KEYS, BALANCE)}, conf="spark.driver.memory: 2g")
        driver = Driver(root, ["mart.balance"], FIRST, last_of(days))
        spark = driver.workspace.spark
        size = f"{days} days × {accounts:,} accounts"
        say(f"chain: {size} …")
        write_movements(spark, days, accounts)
        edge = min(EDGE, days // 2)
        for name in ("first build", "restated"):
            seconds = seconds_a_slice(driver)
            rows.append([name, spread(seconds[:edge]).shown(), spread(seconds[-edge:]).shown()])
            say(f"  {name}: {sum(seconds):.0f} s")
        require_same_rows(
            spark,
            "SELECT account, sum(amount) AS balance FROM raw.movements GROUP BY account",
            f"SELECT account, balance FROM mart.balance WHERE day = DATE '{last_of(days)}'",
            "the last balance",
        )
        driver.workspace.close()
        spark.stop()
    head = ["a slice from the one before", f"wall s a slice, the first {edge}", f"the last {edge}"]
    tell(Found(part="chain", size=size, began=began, text=table(head, rows)), write=not given.quick)


if __name__ == "__main__":
    main()
