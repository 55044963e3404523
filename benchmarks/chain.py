"""A running total over many days, each slice read from the one before: seconds per slice, at its start and its end."""

from __future__ import annotations

import argparse
import os
import tempfile
from datetime import date, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from statistics import mean

from retcon.flow.apply import apply, open_run
from retcon.flow.plan import Ask
from retcon.wiring import Workspace, new_suffix

FIRST = date(2025, 10, 25)
SETTINGS = """\
name: chain
catalog: {name: lake, type: jdbc, uri: "sqlite:///.retcon/lake.db", warehouse: .retcon/warehouse}
spark: {master: "local[*]", conf: {spark.driver.memory: 2g}}
"""
BALANCE = """\
/* retcon
slices: {by: day, every: day}
key: [day, account]
columns: {day: date, account: bigint, balance: "decimal(38,2)"}
inputs:
  raw.movements: {time: day}
  mart.balance: {time: day, lookback: 1}
replay: {order: sequential}
*/
SELECT :start_date AS day, account, CAST(sum(amount) AS DECIMAL(38, 2)) AS balance
FROM (SELECT account, amount FROM raw.movements UNION ALL SELECT account, balance FROM mart.balance)
GROUP BY account
"""
EDGE = 10


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--days", type=int, default=60)
    options.add_argument("--accounts", type=int, default=10_000)
    given = options.parse_args()
    with tempfile.TemporaryDirectory(prefix="retcon-chain-") as folder:
        root = Path(folder)
        (root / "models" / "mart").mkdir(parents=True)
        (root / "retcon.yaml").write_text(SETTINGS)
        (root / "models" / "mart" / "balance.sql").write_text(BALANCE)
        workspace = Workspace(root, who="bench")
        print(f"{given.days} days × {given.accounts:,} accounts, {os.cpu_count()} cores", flush=True)
        write_movements(workspace, given.days, given.accounts)
        for name in ("first build", "restated"):
            seconds = backfill(workspace, given.days)
            first, last = mean(seconds[:EDGE]), mean(seconds[-EDGE:])
            print(f"  {name}: {first:.2f} s a slice in the first {EDGE}, {last:.2f} s in the last {EDGE}", flush=True)
        require_right(workspace, given.days)
        workspace.close()


def write_movements(workspace: Workspace, days: int, accounts: int) -> None:
    spark = workspace.spark
    spark.sql("CREATE NAMESPACE IF NOT EXISTS raw")
    spark.sql(
        "CREATE TABLE raw.movements (day DATE, account BIGINT, amount DECIMAL(12,2)) USING iceberg PARTITIONED BY (day)"
    )
    spark.sql(
        f"INSERT INTO raw.movements SELECT date_add(DATE '{FIRST}', CAST(id % {days} AS INT)), id DIV {days}, "
        f"CAST(pmod(xxhash64(id), 20000) / 100 - 100 AS DECIMAL(12,2)) FROM range({days * accounts})"
    )


def backfill(workspace: Workspace, days: int) -> list[float]:
    """From one staged slice to the next, everything in between included."""
    w = workspace
    plan = w.planner.plan(
        Ask(
            select=("mart.balance",), reason="benchmark", command="-", by="bench", now=w.clock(),
            suffix=new_suffix(), start=FIRST, end=FIRST + timedelta(days=days - 1),
        )
    )  # fmt: skip
    apply(open_run(plan, w.project, w.ledger, w.tables, w.clock, w.who), w.context(lambda _: None))
    staged = [
        datetime.fromisoformat(event.at)
        for event in w.ledger.events(plan.id)
        if event.kind in ("TablesOpened", "WaveStaged")
    ]
    return [(after - before).total_seconds() for before, after in pairwise(staged)]


def require_right(workspace: Workspace, days: int) -> None:
    """Speed counts only for the right result."""
    last = FIRST + timedelta(days=days - 1)
    expected = "SELECT account, sum(amount) FROM raw.movements GROUP BY account"
    found = f"SELECT account, balance FROM mart.balance WHERE day = DATE '{last}'"
    assert not workspace.spark.sql(f"{expected} EXCEPT ALL {found}").limit(1).collect(), "the last balances are wrong"


if __name__ == "__main__":
    main()
