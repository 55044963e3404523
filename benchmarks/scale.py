"""How the steps of a restatement grow with slices, files and models: seconds, memory, and the exponent of growth.

One small file is linked and registered over and over: what is measured is the number of things, not rows. Each size is
a process of its own with a driver of 2 GiB. Blocks: slices, files, models; then what a petabyte would take, derived.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from datetime import date, timedelta
from pathlib import Path
from typing import TypeVar

from many_files import FIRST, make_table
from measuring import exponent, with_peak
from pages import table
from parts import options_of, say
from projects import Driver, child_environ, folder_of_its_own, write_project
from results import SCALING, Found, tell
from retcon.flow.apply import Until, open_run
from retcon.flow.sweep import sweep

T = TypeVar("T")
KEYS = """\
slices: {by: day, every: day}
key: [day, customer]
inputs:
  raw.events: {time: day}
gates:
  - unique: key
  - drift: {metric: sum(events), within: 1%}
"""
QUERY = """\
SELECT day, customer, count(*) AS events, sum(amount) AS amount, {number} AS number
FROM raw.events GROUP BY day, customer"""


@dataclass(frozen=True, kw_only=True)
class Size:
    slices: int
    files: int
    """Of each slice of the input."""
    models: int

    @property
    def all_files(self) -> int:
        return self.slices * self.files


@dataclass(frozen=True, kw_only=True)
class Step:
    name: str
    cpu: float
    wall: float
    python: float | None
    heap: float | None


SIZES = {
    "slices": [Size(slices=slices, files=1, models=1) for slices in (100, 1_000, 10_000)],
    "files": [Size(slices=1_000, files=files, models=1) for files in (1, 10, 100)],
    "models": [Size(slices=5, files=1, models=models) for models in (10, 50, 200)],
}
QUICK = {
    "slices": [Size(slices=slices, files=1, models=1) for slices in (5, 20)],
    "files": [Size(slices=10, files=files, models=1) for files in (1, 10)],
    "models": [Size(slices=3, files=1, models=models) for models in (1, 3)],
}
COUNTED: dict[str, Callable[[Size], int]] = {
    "slices": lambda size: size.slices,
    "files": lambda size: size.all_files,
    "models": lambda size: size.models,
}
BLOCKS = tuple(SIZES)


# ── one size, in a process of its own ─────────────────────────────────────────────────────────────────────────────


class Steps:
    """What each step takes."""

    def __init__(self, driver: Driver) -> None:
        self._spark = driver.workspace.spark
        self.taken: list[Step] = []

    def take(self, name: str, work: Callable[[], T]) -> T:
        result, cost, peak = with_peak(self._spark, work)
        self.taken.append(Step(name=name, cpu=cost.cpu, wall=cost.wall, python=peak.python, heap=peak.heap))
        print(f"    {name}: {cost.wall:.1f} s", file=sys.stderr, flush=True)
        return result


def one_size(size: Size) -> list[Step]:
    with folder_of_its_own() as root:
        models = {f"mart.daily_{number}": (KEYS, QUERY.format(number=number)) for number in range(size.models)}
        write_project(root, models, conf="spark.driver.memory: 2g")
        driver = Driver(root, ["mart.*"], FIRST, FIRST + timedelta(days=size.slices - 1))
        w = driver.workspace
        make_table(w.spark)
        program = str(Path(__file__).with_name("many_files.py"))
        catalog = w.project.settings.catalog.uri
        subprocess.run(
            [sys.executable, program, catalog, str(size.slices), str(size.files)], check=True, env=child_environ()
        )
        driver.backfill()
        require_rows(driver, size)
        w.close()
        # From here on a restatement of what is there: there is a version before it, to compare with and to go back to.
        steps = Steps(driver)
        plan = steps.take("plan", lambda: w.planner.plan(driver.ask()))
        run = open_run(plan, w.project, w.ledger, w.tables, w.clock, w.who)
        run = steps.take("stage", lambda: driver.go_on(run, Until.STAGED))
        run = steps.take("prove", lambda: driver.go_on(run, Until.PROVEN))
        run = steps.take("publish", lambda: driver.go_on(run, Until.PUBLISHED))
        require_rows(driver, size)
        w.close()
        # The first look of a load is at everything; later ones are at what changed since.
        steps.take("load finds nothing, first look", driver.load)
        change(driver, size)
        w.close()
        found = steps.take("load finds what changed", lambda: due(driver))
        w.close()
        changed = steps.take("`plan --changed` finds it", lambda: w.planner.plan(driver.changed()))
        expected = size.models * len(changed_days(size))
        if (found, changed.slices) != (expected, expected):
            raise SystemExit(f"{expected} slices changed, found were {found} and {changed.slices}")
        w.close()
        steps.take("roll back", lambda: driver.roll_back(run))
        later = w.clock() + timedelta(days=60)
        swept = steps.take("sweep", lambda: sweep(w.outline, w.ledger, w.tables, later, dry=False))
        if not swept.dropped:
            raise SystemExit("there was nothing to sweep: its time says nothing")
        w.close()
        w.spark.stop()
    return steps.taken


def due(driver: Driver) -> int:
    """How many slices a load would compute."""
    w = driver.workspace
    found = w.loader.due(w.project.graph.select(()), driver.ask_everything())
    return 0 if found.plan is None else found.plan.slices


def changed_days(size: Size) -> list[date]:
    """One in a hundred."""
    return [FIRST + timedelta(days=day) for day in range(0, size.slices, 100)]


def change(driver: Driver, size: Size) -> None:
    rows = ", ".join(f"(DATE '{day}', 'one of many', 1)" for day in changed_days(size))
    driver.workspace.spark.sql(f"INSERT INTO raw.events VALUES {rows}")


def require_rows(driver: Driver, size: Size) -> None:
    spark = driver.workspace.spark
    [(rows, events)] = spark.sql("SELECT count(*), sum(events) FROM mart.daily_0").collect()
    if (rows, events) != (2 * size.slices, 10 * size.all_files):
        raise SystemExit(f"{rows} rows of {events} events came out of {size}")


# ── all sizes ─────────────────────────────────────────────────────────────────────────────────────────────────────


def measured_size(size: Size) -> list[Step]:
    say(f"  {size.slices:,} slices, {size.all_files:,} files, {size.models:,} models …")
    command = [sys.executable, __file__, "--one", json.dumps(asdict(size))]
    answer = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False, env=child_environ())
    if answer.returncode != 0:
        raise SystemExit(f"{size} failed")
    return [Step(**each) for each in json.loads(answer.stdout.splitlines()[-1])]


def steps_table(block: str, sizes: Sequence[Size], steps: Sequence[Sequence[Step]]) -> str:
    counted = [COUNTED[block](size) for size in sizes]
    head = ["step", *(f"{count:,} {block}: s" for count in counted), "growth", "growth, last two"]
    head += [f"Python's peak at {counted[-1]:,}, MiB", "heap's peak, MiB"]
    rows: list[list[str]] = []
    for each in zip(*steps, strict=True):
        walls = [max(step.wall, 0.001) for step in each]
        row = [each[0].name, *(f"{wall:.2f}" for wall in walls), f"{exponent(counted, walls):.2f}"]
        row += [f"{exponent(counted[-2:], walls[-2:]):.2f}", _mib(each[-1].python), _mib(each[-1].heap)]
        rows.append(row)
    return table(head, rows)


def print_one(size: Size) -> None:
    rows = [
        [step.name, f"{step.wall:.2f}", f"{step.cpu:.2f}", _mib(step.python), _mib(step.heap)]
        for step in measured_size(size)
    ]
    say(table(["step", "wall s", "CPU s", "Python's peak, MiB", "heap's peak, MiB"], rows))


def _mib(value: float | None) -> str:
    return "–" if value is None else f"{value:,.0f}"


def main() -> None:
    options = options_of(__doc__, BLOCKS)
    options.add_argument("--one", type=json.loads, help=argparse.SUPPRESS)
    options.add_argument("--largest", type=int, help="leave out sizes with more slices, files or models than this")
    options.add_argument("--slices", type=int, help="one size of your own, printed and not written: its slices")
    options.add_argument("--files", type=int, default=1, help="files of each of these slices")
    options.add_argument("--models", type=int, default=1, help="models on them")
    given = options.parse_args()
    if given.one is not None:
        print(json.dumps([asdict(step) for step in one_size(Size(**given.one))]))
        return
    say(f"scale: {os.cpu_count()} cores, driver of 2 GiB")
    if given.slices is not None:
        print_one(Size(slices=given.slices, files=given.files, models=given.models))
        return
    for block in given.only or BLOCKS:
        began = time.monotonic()
        sizes = (QUICK if given.quick else SIZES)[block]
        if given.largest is not None:
            sizes = [size for size in sizes if COUNTED[block](size) <= given.largest]
        if len(sizes) < 2:
            raise SystemExit(f"growth in {block} needs two sizes: raise --largest")
        steps = [measured_size(size) for size in sizes]
        counted = [f"{COUNTED[block](size)}" for size in sizes]
        found = Found(
            part=block,
            size=f"{' / '.join(f'{int(count):,}' for count in counted)} {block}",
            began=began,
            text=steps_table(block, sizes, steps),
            page=SCALING,
            figures=dict(zip(counted, ({step.name: asdict(step) for step in each} for each in steps), strict=True)),
        )
        tell(found, write=not given.quick)


if __name__ == "__main__":
    main()
