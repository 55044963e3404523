"""An input that every wave reads whole: kept in memory for the run, or read by each wave; and whether the plan's choice
between the two is the better one.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

from pyspark.sql import SparkSession

from measuring import Cost, spread, told
from orders import FIRST, last_of, require_same_rows
from pages import table
from parts import options_of, say
from projects import Driver, folder_of_its_own, write_project
from results import Found, tell
from retcon.core.sharing import Shared, kept_inputs
from retcon.flow import stage

KEYS = """\
slices: {{by: day, every: day}}
inputs: {{raw.sales: {{time: day}}, {customers}: {{}}}}
replay: {{wave: {wave}}}
"""
QUERY = """\
SELECT s.day, c.country, count(*) AS sales, sum(c.score) AS score
FROM raw.sales s JOIN {customers} c ON c.customer = s.customer
GROUP BY s.day, c.country"""
TEXT, COLUMNS = "raw.customers_text", "raw.customers"
MODELS = {TEXT: "mart.by_text", COLUMNS: "mart.by_columns"}
CSV = """\
sources:
  raw.customers_text:
    format: csv
    path: {path}
    columns: {{customer: bigint, name: string, country: string, born: date, score: bigint}}
"""
WAVES = 6


@dataclass(frozen=True, kw_only=True)
class Staged:
    """What staging all waves took."""

    cost: Cost
    read: int
    """Bytes, by Spark's own count."""
    held: int
    """Bytes in memory and on disk, before they were let go."""


def write_sources(spark: SparkSession, root: Path, days: int, customers: int) -> None:
    spark.sql("CREATE NAMESPACE IF NOT EXISTS raw")
    made = spark.sql(
        f"SELECT id AS customer, concat('customer number ', id) AS name, "
        f"substr('ATBECHDEESFRGBIT', 1 + 2 * CAST(pmod(hash(id), 8) AS INT), 2) AS country, "
        f"date_sub(DATE '2005-01-01', CAST(pmod(xxhash64(id), 20000) AS INT)) AS born, "
        f"pmod(xxhash64(id, 7), 1000000) AS score FROM range({customers})"
    )
    made.write.csv(str(root / "customers"), header=True)
    made.writeTo(COLUMNS).create()
    spark.sql("CREATE TABLE raw.sales (day DATE, customer BIGINT) USING iceberg PARTITIONED BY (day)")
    spark.sql(
        f"INSERT INTO raw.sales SELECT date_add(DATE '{FIRST}', CAST(id % {days} AS INT)), "
        f"pmod(xxhash64(id), {customers}) FROM range({days * 2_000})"
    )


def staged(driver: Driver, kept: Mapping[str, Shared]) -> Staged:
    """A backfill of which what is kept in memory is this, whatever the plan says."""
    context = driver.workspace.spark.sparkContext._jsc.sc()  # type: ignore[union-attr]
    warehouse = driver.workspace.warehouse
    held: list[int] = []
    let_go = warehouse.let_go

    def looked_at() -> None:
        held.append(sum(info.memSize() + info.diskSize() for info in context.getRDDStorageInfo()))
        let_go()

    before = _bytes_read(context)
    with patch.object(stage, "kept_inputs", lambda *_: kept), patch.object(warehouse, "let_go", looked_at):
        _, cost = told(driver.backfill)
    return Staged(cost=cost, read=_bytes_read(context) - before, held=max(held, default=0))


def _bytes_read(context: Any) -> int:
    return sum(int(each.totalInputBytes()) for each in _listed(context.statusStore().executorList(False)))


def _listed(found: Any) -> list[Any]:
    return [found.apply(at) for at in range(found.size())]


def compared(driver: Driver, customers: str, rounds: int) -> list[list[str]]:
    """Both ways, one after the other, with what the plan expects of it and decides."""
    workspace = driver.workspace
    plan = workspace.planner.plan(driver.ask())
    decided = kept_inputs(plan.models, workspace.project.settings.foreign)
    [read] = [i for model in plan.models for i in model.inputs if i.table == customers]
    waves = sum(len(model.waves) for model in plan.models)
    whole = Shared(table=customers, reads=waves, bytes=read.bytes or 0, format=read.format)
    ways: dict[bool, dict[str, Shared]] = {False: {}, True: {customers: whole}}
    found: dict[bool, list[Staged]] = {False: [], True: []}
    for _ in range(rounds + 1):  # the first warms Java up
        for is_kept, kept in ways.items():
            found[is_kept].append(staged(driver, kept))
    rows: list[list[str]] = []
    for is_kept, each in found.items():
        measured, name = each[1:], "kept in memory" if is_kept else "read by each wave"
        is_chosen = is_kept == (customers in decided)
        rows.append(
            [
                f"{'CSV' if whole.format else 'Iceberg'}, {name}" + (", as the plan has it" if is_chosen else ""),
                str(len(measured)),
                spread(one.cost.cpu for one in measured).shown(),
                _megabytes(spread(one.read for one in measured).median),
                _megabytes(spread(one.held for one in measured).median) if is_kept else "–",
                _megabytes(whole.saved) if is_kept else "–",
                _megabytes(whole.stored) if is_kept else "–",
            ]
        )
    return rows


def _megabytes(count: float) -> str:
    return f"{count / 1e6:,.1f}"


def main() -> None:
    given = options_of(__doc__).parse_args()
    days, customers = (WAVES, 20_000) if given.quick else (5 * WAVES, 1_000_000)
    rounds = given.rounds or (1 if given.quick else 3)
    began = time.monotonic()
    rows: list[list[str]] = []
    with folder_of_its_own() as root:
        models = {
            model: (KEYS.format(customers=name, wave=days // WAVES), QUERY.format(customers=name))
            for name, model in MODELS.items()
        }
        write_project(root, models, conf="spark.driver.memory: 4g")
        with (root / "retcon.yaml").open("a") as settings:
            settings.write(CSV.format(path=root / "customers"))
        size = f"{customers:,} customers read whole by {WAVES} waves"
        say(f"shared: {size} …")
        first = Driver(root, list(MODELS.values()), FIRST, last_of(days))
        spark = first.workspace.spark
        write_sources(spark, root, days, customers)
        first.workspace.close()
        for customers_of, model in MODELS.items():
            driver = Driver(root, [model], FIRST, last_of(days))
            rows += compared(driver, customers_of, rounds)
            driver.workspace.close()
        require_same_rows(spark, "SELECT * FROM mart.by_columns", "SELECT * FROM mart.by_text", "what comes of CSV")
        spark.stop()
    head = [
        "how",
        "runs",
        "CPU s of a backfill",
        "MB read in all",
        "MB held",
        "saved, MB by the plan",
        "stored, MB by it",
    ]
    tell(Found(part="shared", size=size, began=began, text=table(head, rows)), write=not given.quick)


if __name__ == "__main__":
    main()
