"""retcon, SQLMesh and dbt-spark on the same data, the same two tables, each against the hand-written job in its own
session, warmed up by as many rounds. The tools live in environments of their own, made once from the pins in `peers/`.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

from measuring import WARM_UPS, Cost, Runs, against, costs_of, measured, spread
from orders import FIRST, HAND_WRITTEN, hand_written, last_of, require_same, write_sources
from pages import Bar, table
from parts import options_of, say
from peers.duck import OnDuckDB
from peers.environments import Unavailable, python_of
from projects import SHOP, Driver, child_environ, folder_of_its_own, write_project
from results import Found, tell
from retcon.lakehouse.jars import kept_jars
from retcon.lakehouse.sessions import catalog_conf

FULL_SIZE = (90, 100_000)
"""Days, and orders a day, that the limits are for."""
RETCON = "retcon, waves by size"
BESIDE = "retcon, beside the peers"
"""In the chart, where the bar of the backfills stands, too: of this run, as the peers are."""
DUCKDB = "DuckDB, plain Parquet by day"
PEERS = {"sqlmesh": "peers.on_sqlmesh", "dbt": "peers.on_dbt"}
LIMITED = {"SQLMesh 0.236, batches of a day": "SQLMesh by day", "dbt-spark 1.11, microbatch by day": "dbt by day"}


@dataclass(frozen=True, kw_only=True)
class Size:
    """What is asked for."""

    days: int
    a_day: int
    rounds: int
    warm_ups: int

    @property
    def text(self) -> str:
        return f"{self.days} days × {self.a_day:,} orders, two tables"


def by_retcon(root: Path, size: Size) -> tuple[list[tuple[str, Cost]], dict[str, str]]:
    """What retcon and DuckDB cost here, and the settings by which others find the same tables."""
    write_project(root, SHOP)
    driver = Driver(root, ["+mart.fct_revenue"], FIRST, last_of(size.days))
    spark = driver.workspace.spark
    say("  making sources …")
    write_sources(spark, size.days, size.a_day)
    for _ in range(size.warm_ups):
        hand_written(spark)
        driver.backfill()
    runs = [(HAND_WRITTEN, measured(lambda: hand_written(spark)))]
    with OnDuckDB(spark, root / "duckdb") as duck:
        for _ in range(size.rounds):
            runs.append((RETCON, measured(driver.backfill)))
            say(f"  {RETCON}: {runs[-1][1].cpu:.1f} CPU s")
            if duck.is_there:
                runs.append((DUCKDB, duck.once()))
            runs.append((HAND_WRITTEN, measured(lambda: hand_written(spark))))
        if duck.is_there:
            duck.require_same()
    require_same(spark)
    wanted = (
        "spark.sql.extensions",
        "spark.sql.defaultCatalog",
        "spark.sql.session.timeZone",
        "spark.sql.ansi.enabled",
    )
    conf = {key: spark.conf.get(key) for key in (*wanted, "spark.sql.shuffle.partitions")}
    catalog = driver.workspace.project.settings.catalog
    driver.workspace.close()
    spark.stop()
    # SQLMesh and dbt look tables up again and again, as Iceberg's catalog lets them by default: with its cache.
    theirs = {key: value for key, value in catalog_conf(catalog).items() if not key.endswith("cache-enabled")}
    jars = os.pathsep.join(str(jar) for jar in kept_jars(os.environ))
    return runs, {
        **conf, **theirs, "spark.master": "local[*]", "spark.driver.memory": "6g", "spark.driver.extraClassPath": jars,
        "spark.ui.enabled": "false", "spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.sources.partitionOverwriteMode": "dynamic",
    }  # fmt: skip


def by_peer(name: str, root: Path, size: Size, conf: dict[str, str]) -> list[tuple[str, Cost]]:
    python = python_of(name)
    asked = json.dumps(
        {"conf": conf, "root": str(root), "days": size.days, "rounds": size.rounds, "warm_ups": size.warm_ups}
    )
    environ = {key: value for key, value in child_environ().items() if key != "SPARK_HOME"}
    environ |= {"PYTHONPATH": str(Path(__file__).parent), "PYSPARK_PYTHON": str(python)}
    log = root / f"{name}.log"
    with open(log, "w") as errors:
        answer = subprocess.run(
            [str(python), "-m", PEERS[name]], input=asked, stdout=subprocess.PIPE, stderr=errors, text=True,
            check=False, env=environ, cwd=root,
        )  # fmt: skip
    lines = log.read_text().splitlines()
    print(*(line for line in lines if "CPU s" in line), sep="\n", flush=True)
    if answer.returncode != 0:
        raise Unavailable(f"{name} failed: " + "\n".join(lines[-40:]))
    return [(each, Cost(cpu=cpu, wall=wall)) for each, cpu, wall in json.loads(answer.stdout.splitlines()[-1])]


def row_of(name: str, runs: Runs, retcon: float) -> list[str]:
    costs = costs_of(runs, name)
    ratio = against(runs, name, HAND_WRITTEN)
    wall = against(runs, name, HAND_WRITTEN, "wall")
    ours = "1" if name == RETCON else f"{ratio.median / retcon:.2f}"
    cpu = spread(cost.cpu for cost in costs)
    return [name, str(len(costs)), cpu.shown(1), f"**{ratio.shown()}**", wall.shown(), ours]


def main() -> None:
    options = options_of(__doc__)
    options.add_argument("--days", type=int)
    options.add_argument("--orders", type=int, help="orders a day")
    options.add_argument("--peer", choices=sorted(PEERS), action="append", help="only this one, and nothing is written")
    given = options.parse_args()
    size = Size(
        days=given.days or (4 if given.quick else FULL_SIZE[0]),
        a_day=given.orders or (1_000 if given.quick else FULL_SIZE[1]),
        rounds=given.rounds or (1 if given.quick else 3),
        warm_ups=1 if given.quick else WARM_UPS,
    )
    began = time.monotonic()
    lacking: list[str] = []
    with folder_of_its_own() as root:
        say(f"peers: {size.text}")
        runs, conf = by_retcon(root, size)
        retcon = against(runs, RETCON, HAND_WRITTEN).median
        measured_here = [RETCON, *([DUCKDB] if costs_of(runs, DUCKDB) else [])]
        rows = [row_of(name, runs, retcon) for name in measured_here]
        ratios: dict[str, float] = {}
        chart = [Bar(name=BESIDE, value=retcon, is_ours=True)]
        for peer in given.peer or PEERS:
            say(f"  {peer} …")
            try:
                theirs = by_peer(peer, root, size, conf)
            except Unavailable as error:
                say(f"  {error}")
                lacking.append(f"{peer} could not be measured: {str(error).splitlines()[-1]}")
                continue
            for name in dict.fromkeys(name for name, _ in theirs if name != HAND_WRITTEN):
                rows.append(row_of(name, theirs, retcon))
                ratio = against(theirs, name, HAND_WRITTEN).median
                chart.append(Bar(name=name, value=ratio))
                if name in LIMITED:
                    ratios[LIMITED[name]] = ratio / retcon
    head = ["how", "runs", "CPU s", "CPU against the hand-written job", "wall against it", "CPU against retcon"]
    text = "\n\n".join([table(head, rows), *lacking])
    is_whole = not given.quick and not given.peer
    found = Found(
        part="peers", size=size.text, is_full_size=(size.days, size.a_day) == FULL_SIZE, began=began, text=text,
        ratios=ratios, chart=chart,
    )  # fmt: skip
    tell(found, write=is_whole)


if __name__ == "__main__":
    main()
