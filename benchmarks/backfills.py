"""retcon against a hand-written Spark job: the same orders into the same two tables, in one run.

The hand-written job runs before and after whatever is compared. Blocks:

* backfill: retcon with waves by size, in six waves, and where production must be read; the daily loop; DuckDB;
* steps: staging, proving, publishing and rolling back, each by itself;
* changed: twelve of the days have other orders now: `plan --changed` and `apply`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from measuring import WARM_UPS, Cost, against, measured, spread, told
from orders import (
    FIRST,
    HAND_WRITTEN,
    day_by_day,
    hand_written,
    last_of,
    make_tables,
    require_same,
    size_of,
    write_sources,
)
from pages import Bar, table
from parts import options_of, say
from peers.duck import OnDuckDB
from projects import SHOP, Driver, folder_of_its_own, write_project
from results import Found, cost_table, tell
from retcon.core.runs import Run
from retcon.flow.apply import Until

BLOCKS = ("backfill", "steps", "changed")
FULL_SIZE = (90, 100_000)
"""Days, and orders a day, that the limits are for."""
WARM_UPS_OF_FEW_DAYS = 12
"""Of the twelve days that changed: such a run is short, and a larger part of it is what Java still compiles."""
BY_SIZE = "retcon, waves by size"
SIX_WAVES = "retcon, 6 waves"
READ = "retcon, production read"
LOOP = "a statement a day (INSERT OVERWRITE)"
DUCKDB = "DuckDB, plain Parquet by day"


@dataclass(frozen=True, kw_only=True)
class Lab:
    """One session with its data, and what was run in it."""

    driver: Driver
    spark: SparkSession
    days: int
    rounds: int
    size: str
    is_full_size: bool
    write: bool
    root: Path
    runs: list[tuple[str, Cost]] = field(default_factory=list)

    @property
    def few(self) -> int:
        """Rounds of what isn't the main comparison."""
        return max(self.rounds - 1, 1)

    @property
    def six(self) -> int:
        """Days a wave, for six waves."""
        return -(-self.days // 6)

    def run(self, name: str, work: Callable[[], object]) -> None:
        self.runs.append((name, measured(work)))
        say(f"  {name}: {self.runs[-1][1].cpu:.1f} CPU s, {self.runs[-1][1].wall:.1f} s")

    def warm_up(self, times: int) -> None:
        """Each way so often: Java goes on compiling what plans and commits for many runs. Afterwards the ledger knows
        what production holds.
        """
        for _ in range(times):
            for wave in (None, self.six):
                hand_written(self.spark)
                self.driver.backfill(wave)
            hand_written(self.spark)
            self.others_write()
            self.driver.backfill()

    def by_hand(self) -> None:
        self.run(HAND_WRITTEN, partial(hand_written, self.spark))

    def others_write(self) -> None:
        """Somebody else writes the same rows: what the ledger knows of production isn't true any more."""
        for model in SHOP:
            self.spark.sql(f"INSERT OVERWRITE {model} SELECT * FROM {model}")


def compare(lab: Lab) -> None:
    began = time.monotonic()
    with OnDuckDB(lab.spark, lab.root / "duckdb") as duck:
        lab.by_hand()
        for _ in range(lab.rounds):
            lab.run(BY_SIZE, lab.driver.backfill)
            lab.by_hand()
            lab.run(SIX_WAVES, partial(lab.driver.backfill, lab.six))
            lab.by_hand()
            lab.others_write()
            lab.run(READ, lab.driver.backfill)
            if duck.is_there:
                lab.runs.append((DUCKDB, duck.once()))
            lab.by_hand()
        if duck.is_there:
            duck.require_same()
    make_tables(lab.spark, "looped")
    lab.run(LOOP, partial(day_by_day, lab.spark, "looped", lab.days))
    lab.by_hand()
    require_same(lab.spark)
    require_same(lab.spark, other="looped")
    names = [HAND_WRITTEN, BY_SIZE, SIX_WAVES, READ, LOOP, *([DUCKDB] if duck.is_there else [])]
    ratio = {name: against(lab.runs, name, HAND_WRITTEN).median for name in names[1:]}
    tell(
        Found(
            part="backfill", size=lab.size, is_full_size=lab.is_full_size, began=began,
            text=cost_table(lab.runs, HAND_WRITTEN, names),
            ratios={
                "backfill, ledger": ratio[BY_SIZE], "backfill, waves": ratio[SIX_WAVES], "backfill, read": ratio[READ],
            },
            chart=[Bar(name=HAND_WRITTEN, value=1)]
            + [Bar(name=name, value=value, is_ours=name.startswith("retcon")) for name, value in ratio.items()],
        ),
        write=lab.write,
    )  # fmt: skip


class Swaps:
    """How long the ledger's transactions take that move the tables."""

    def __init__(self, ledger: Any) -> None:
        self.seconds: list[float] = []
        for name in ("publish", "roll_back"):
            setattr(ledger, name, self._timed(getattr(ledger, name)))

    def _timed(self, work: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*given: Any, **named: Any) -> Any:
            began = time.monotonic()
            result = work(*given, **named)
            self.seconds.append(time.monotonic() - began)
            return result

        return timed


def steps(lab: Lab) -> None:
    """The steps of a backfill; production's measures as the ledger has them, and read."""
    began = time.monotonic()
    say("  the steps of a backfill …")
    driver = lab.driver
    driver.backfill()  # the ledger knows what production holds
    swaps = Swaps(driver.workspace.ledger)
    costs: dict[str, list[Cost]] = {}

    def step(name: str, work: Callable[[], Run]) -> Run:
        run, cost = told(work)
        costs.setdefault(name, []).append(cost)
        return run

    for number in range(2 * lab.few):
        is_read = number % 2 == 1
        if is_read:
            lab.others_write()
        run = step("plan, open", driver.opened)
        run = step("stage", partial(driver.go_on, run, Until.STAGED))
        proving = "prove, production read" if is_read else "prove, production from the ledger"
        run = step(proving, partial(driver.go_on, run, Until.PROVEN))
        run = step("publish", partial(driver.go_on, run, Until.PUBLISHED))
        if is_read:
            costs.setdefault("roll back", []).append(measured(partial(driver.roll_back, run)))
            driver.backfill()  # the ledger knows again what production holds
    staging = spread(cost.cpu for cost in costs["stage"]).median
    cpu = {name: spread(cost.cpu for cost in each) for name, each in costs.items()}
    wall = {name: spread(cost.wall for cost in each) for name, each in costs.items()}
    rows = [
        [name, str(cpu[name].count), cpu[name].shown(), f"{cpu[name].median / staging:.2f}", wall[name].shown()]
        for name in costs
    ]
    rows.append(
        ["of publish and roll back: the swap", str(len(swaps.seconds)), "–", "–", spread(swaps.seconds).shown(3)]
    )
    tell(
        Found(
            part="steps", size=lab.size, is_full_size=lab.is_full_size, began=began,
            text=table(["step", "runs", "CPU s", "against staging", "wall s"], rows),
            ratios={
                "prove, ledger": cpu["prove, production from the ledger"].median / staging,
                "prove, read": cpu["prove, production read"].median / staging,
                "publish": wall["publish"].median, "roll back": wall["roll back"].median,
                "swap": spread(swaps.seconds).median,
            },
            figures=by_bytes(lab, {name: each.median for name, each in cpu.items()}),
        ),
        write=lab.write,
    )  # fmt: skip


def by_bytes(lab: Lab, cpu: Mapping[str, float]) -> dict[str, dict[str, float]]:
    """What staging and proving took, with the rows and bytes of the files that they read."""
    made = list(SHOP)
    read = {"stage": ["raw.orders", "raw.fx_rates", made[0]]}
    figures: dict[str, dict[str, float]] = {}
    for step, sides in (("stage", 1), ("prove, production from the ledger", 1), ("prove, production read", 2)):
        rows, size = size_of(lab.spark, read.get(step, made))
        figures[step] = {"cpu": cpu[step], "rows": rows * sides, "bytes": size * sides, "sides": sides}
    return figures


def some_changed(lab: Lab) -> None:
    """Twelve days have other orders now: what differs is found and computed, against everything by hand."""
    began = time.monotonic()
    say("  twelve days that changed …")
    lab.driver.backfill()  # what was rolled back, or written by others
    name = "12 days: plan --changed, apply"
    changed = [FIRST + timedelta(days=number * lab.days // 12) for number in range(12)]
    listed = ", ".join(f"DATE '{day}'" for day in changed)

    def correct() -> None:
        lab.spark.sql(
            f"UPDATE raw.orders SET amount = amount + 1 WHERE order_date IN ({listed}) "
            "AND pmod(xxhash64(order_id), 1000) = 0"
        )

    for _ in range(WARM_UPS_OF_FEW_DAYS if lab.is_full_size else 1):
        correct()
        lab.driver.backfill_changed()
    lab.by_hand()
    # Of short runs, single ones differ by a third: their median wants more of them.
    for _ in range(2 * lab.rounds - 1):
        correct()
        lab.run(name, lab.driver.backfill_changed)
        lab.by_hand()
    require_same(lab.spark)
    ratio = against(lab.runs, name, HAND_WRITTEN)
    text = cost_table(lab.runs, HAND_WRITTEN, [HAND_WRITTEN, name])
    found = Found(
        part="changed", size=lab.size, is_full_size=lab.is_full_size, began=began, text=text,
        ratios={"changed": ratio.median},
    )  # fmt: skip
    tell(found, write=lab.write)


def main() -> None:
    options = options_of(__doc__, BLOCKS)
    options.add_argument("--days", type=int)
    options.add_argument("--orders", type=int, help="orders a day")
    given = options.parse_args()
    days, a_day = (
        given.days or (12 if given.quick else FULL_SIZE[0]),
        given.orders or (2_000 if given.quick else FULL_SIZE[1]),
    )
    wanted = given.only or BLOCKS
    with folder_of_its_own() as root:
        write_project(root, SHOP)
        driver = Driver(root, ["+mart.fct_revenue"], FIRST, last_of(days))
        spark = driver.workspace.spark
        size = f"{days} days × {a_day:,} orders, two tables"
        say(f"backfills: {size}; making sources …")
        write_sources(spark, days, a_day)
        say("  warming up …")
        rounds = given.rounds or (1 if given.quick else 5)
        lab = Lab(
            driver=driver, spark=spark, days=days, rounds=rounds, size=size, write=not given.quick, root=root,
            is_full_size=(days, a_day) == FULL_SIZE,
        )  # fmt: skip
        lab.warm_up(1 if given.quick else WARM_UPS)
        for block, work in zip(BLOCKS, (compare, steps, some_changed), strict=True):
            if block in wanted:
                work(lab)
        spark.stop()


if __name__ == "__main__":
    main()
