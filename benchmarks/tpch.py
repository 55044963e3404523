"""Data of other people: TPC-H's orders × lineitem, 2,406 days, two tables; a hand-written job against retcon.

Each line of an order with its revenue, by the order's date, and revenue by day, priority and segment of lines. A line
ships at most 121 days after its order: that is how far a slice of orders looks ahead. The daily loop takes 90 of the
days. Results are compared row by row.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta
from functools import partial
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql.functions import partitioning

from measuring import Cost, against, measured
from orders import HAND_WRITTEN, require_same_rows
from pages import Bar
from parts import options_of, say
from peers.environments import Unavailable, environment
from projects import GATES, Driver, folder_of_its_own, write_project
from results import Found, cost_table, tell

FIRST, LAST = date(1992, 1, 1), date(1998, 8, 2)
LAST_DAYS = 90
WARM_UPS_OF_SOME = 2
"""Of the last days, which are short: the whole history went before them."""
ROUNDS_OF_SOME = 3
LINES_SQL = """\
SELECT o.o_orderdate, l.l_orderkey, l.l_linenumber, l.l_shipdate, o.o_custkey, o.o_orderpriority,
  CAST(l.l_extendedprice * (1 - l.l_discount) AS DECIMAL(14, 2)) AS revenue
FROM {orders} o JOIN {lineitem} l ON l.l_orderkey = o.o_orderkey
  AND l.l_shipdate BETWEEN o.o_orderdate AND date_add(o.o_orderdate, 121)"""
REVENUE_SQL = """\
SELECT f.o_orderdate, f.o_orderpriority, f.o_custkey % 10 AS segment, count(*) AS line_count, sum(f.revenue) AS revenue
FROM {lines} f GROUP BY f.o_orderdate, f.o_orderpriority, f.o_custkey % 10"""
MODELS = {
    "mart.fct_lines": (
        "slices: {by: o_orderdate, every: day}\nkey: [o_orderdate, l_orderkey, l_linenumber]\ninputs:\n"
        "  tpch.orders: {time: o_orderdate}\n  tpch.lineitem: {time: l_shipdate, lookahead: 121}\n"
        + GATES.format(metric="revenue"),
        LINES_SQL.format(orders="tpch.orders", lineitem="tpch.lineitem"),
    ),
    "mart.fct_revenue": (
        "slices: {by: o_orderdate, every: day}\nkey: [o_orderdate, o_orderpriority, segment]\ninputs:\n"
        "  mart.fct_lines: {time: o_orderdate}\n" + GATES.format(metric="revenue"),
        REVENUE_SQL.format(lines="mart.fct_lines"),
    ),
}
RETCON = "retcon, waves by size"
SOME, SOME_LOOPED, SOME_RETCON = (
    "hand-written, these days",
    "a statement a day (INSERT OVERWRITE)",
    "retcon, these days",
)


def generate(folder: Path, scale: float) -> None:
    """Parquet files of the two tables, by the generator from PyPI."""
    folder.mkdir()
    for name in ("orders", "lineitem"):
        command = [str(environment("tpch") / "bin" / "tpchgen-cli"), "parquet", "--scale-factor", f"{scale:g}"]
        command += ["--tables", name, "--output-dir", str(folder)]
        answer = subprocess.run(command, capture_output=True, text=True, check=False)
        if answer.returncode != 0:
            raise SystemExit(f"tpchgen-cli: {answer.stderr[-2000:]}")


def write_sources(spark: SparkSession, folder: Path) -> int:
    """The tables as Iceberg, by month of their dates; how many lines there are."""
    for namespace in ("tpch", "reference"):
        spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {namespace}")
    for name, by in (("orders", "o_orderdate"), ("lineitem", "l_shipdate")):
        [place] = folder.glob(f"**/{name}*.parquet")
        rows = spark.read.parquet(str(place))
        rows.sort(by).writeTo(f"tpch.{name}").using("iceberg").partitionedBy(partitioning.months(by)).create()
    queries = (
        ("fct_lines", LINES_SQL.format(orders="tpch.orders", lineitem="tpch.lineitem")),
        ("fct_revenue", REVENUE_SQL.format(lines="reference.fct_lines")),
    )
    for name, query in queries:
        columns = spark.sql(query)._jdf.schema().toDDL()  # type: ignore[operator]
        spark.sql(f"CREATE TABLE reference.{name} ({columns}) USING iceberg PARTITIONED BY (o_orderdate)")
    return spark.table("tpch.lineitem").count()


def hand_written(spark: SparkSession, days: Sequence[date] = ()) -> None:
    """One job a table over the whole history, or over some days in a row, as a person would cut both inputs to them."""
    orders, lineitem, cut = "tpch.orders", "tpch.lineitem", ""
    if days:
        first, last = min(days), max(days)
        cut = f" WHERE o_orderdate BETWEEN DATE '{first}' AND DATE '{last}'"
        orders = f"(SELECT * FROM tpch.orders{cut})"
        ahead = last + timedelta(days=121)
        lineitem = f"(SELECT * FROM tpch.lineitem WHERE l_shipdate BETWEEN DATE '{first}' AND DATE '{ahead}')"
    lines = spark.sql(LINES_SQL.format(orders=orders, lineitem=lineitem))
    lines.writeTo("reference.fct_lines").option("fanout-enabled", "false").overwritePartitions()
    revenue = spark.sql(REVENUE_SQL.format(lines=f"(SELECT * FROM reference.fct_lines{cut})"))
    revenue.writeTo("reference.fct_revenue").option("fanout-enabled", "false").overwritePartitions()


def day_by_day(spark: SparkSession, days: Sequence[date]) -> None:
    for day in days:
        hand_written(spark, [day])


def require_same(spark: SparkSession) -> None:
    for name in ("fct_lines", "fct_revenue"):
        require_same_rows(spark, f"SELECT * FROM reference.{name}", f"SELECT * FROM mart.{name}", name)


@dataclass(frozen=True, kw_only=True)
class Lab:
    """One session with its data, and what was run in it."""

    root: Path
    spark: SparkSession
    whole: Sequence[date]
    is_quick: bool
    runs: list[tuple[str, Cost]] = field(default_factory=list)

    def run(self, name: str, work: Callable[[], object]) -> None:
        self.runs.append((name, measured(work)))
        say(f"  {name}: {self.runs[-1][1].cpu:.1f} CPU s, {self.runs[-1][1].wall:.1f} s")

    def driver(self, days: Sequence[date]) -> Driver:
        return Driver(self.root, ["+mart.fct_revenue"], days[0], days[-1])


def compare_all(lab: Lab, rounds: int) -> None:
    """Every day; only where the history is cut short is the hand-written job told the days."""
    by_hand = partial(hand_written, lab.spark, lab.whole if lab.is_quick else ())
    driver = lab.driver(lab.whole)
    by_hand()
    driver.backfill()
    lab.run(HAND_WRITTEN, by_hand)
    for _ in range(rounds):
        lab.run(RETCON, driver.backfill)
        lab.run(HAND_WRITTEN, by_hand)
    require_same(lab.spark)


def compare_some(lab: Lab, some: Sequence[date]) -> None:
    """The last of the days; the daily loop, which takes long, once."""
    by_hand = partial(hand_written, lab.spark, some)
    driver = lab.driver(some)
    for _ in range(WARM_UPS_OF_SOME):
        by_hand()
        driver.backfill()
    lab.run(SOME, by_hand)
    for _ in range(1 if lab.is_quick else ROUNDS_OF_SOME):
        lab.run(SOME_RETCON, driver.backfill)
        lab.run(SOME, by_hand)
    require_same(lab.spark)
    lab.run(SOME_LOOPED, partial(day_by_day, lab.spark, some))
    lab.run(SOME, by_hand)
    require_same(lab.spark)


def main() -> None:
    options = options_of(__doc__)
    options.add_argument("--scale", type=float, help="TPC-H's scale factor; 1 is 1.5 million orders, 6 million lines")
    given = options.parse_args()
    scale = given.scale or (0.01 if given.quick else 0.5)
    last = date(1992, 3, 31) if given.quick else LAST
    began = time.monotonic()
    with folder_of_its_own() as root:
        write_project(root, MODELS)
        spark = Driver(root).workspace.spark
        say(f"TPC-H, scale factor {scale:g}: making sources …")
        try:
            generate(root / "generated", scale)
        except Unavailable as error:
            raise SystemExit(f"{error}. Without the generator there is no second data set.") from error
        lines = write_sources(spark, root / "generated")
        whole = [FIRST + timedelta(days=number) for number in range((last - FIRST).days + 1)]
        say(f"  {lines:,} lines, {len(whole):,} days; warming up …")
        lab = Lab(root=root, spark=spark, whole=whole, is_quick=given.quick)
        some = whole[-(6 if given.quick else LAST_DAYS) :]
        compare_all(lab, given.rounds or (1 if given.quick else 2))
        compare_some(lab, some)
        spark.stop()
    ratio = against(lab.runs, RETCON, HAND_WRITTEN).median
    text = cost_table(lab.runs, HAND_WRITTEN, [HAND_WRITTEN, RETCON])
    text += f"\n\nThe last {len(some)} of the days:\n\n{cost_table(lab.runs, SOME, [SOME, SOME_RETCON, SOME_LOOPED])}"
    found = Found(
        part="tpch",
        size=f"TPC-H, scale factor {scale:g}: {lines:,} lines of orders, {len(whole):,} days, two tables",
        began=began,
        text=text,
        chart=[Bar(name="retcon, TPC-H, 2,406 days", value=ratio, is_ours=True)],
    )
    tell(found, write=not given.quick)


if __name__ == "__main__":
    main()
