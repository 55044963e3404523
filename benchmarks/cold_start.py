"""A cold start: from no process to the answer of the first Iceberg query, by settings of the JVM and of Spark.

Each start is a process of its own, timed from outside; settings take turns, so that a machine's moods meet all alike.
What a setting costs long jobs is measured by the hand-written job, several times in one session.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from measuring import cpu_seconds, spread
from orders import hand_written, write_sources
from pages import table
from parts import options_of, say
from projects import child_environ, folder_of_its_own, write_project
from results import Found, tell
from retcon.wiring import Workspace

JAVA = "spark.driver.extraJavaOptions"
C1 = "-XX:TieredStopAtLevel=1"


@dataclass(frozen=True, kw_only=True)
class Setting:
    name: str
    conf: Mapping[str, str]
    needs_archive: bool = False
    is_tried_long: bool = False


def java(*words: str) -> dict[str, str]:
    return {JAVA: " ".join(words)}


def settings(archive: Path, jars: str) -> list[Setting]:
    with_archive = f"-XX:SharedArchiveFile={archive}"
    return [
        Setting(name="as retcon starts it", conf={}, is_tried_long=True),
        Setting(name="jars by `spark.jars` only", conf={"spark.driver.extraClassPath": "", "spark.jars": jars}),
        Setting(name="with Spark's UI", conf={"spark.ui.enabled": "true"}),
        Setting(name="C1 only (`-XX:TieredStopAtLevel=1`)", conf=java(C1), is_tried_long=True),
        Setting(name="serial GC", conf=java("-XX:+UseSerialGC"), is_tried_long=True),
        Setting(name="parallel GC", conf=java("-XX:+UseParallelGC")),
        Setting(name="`-Xshare:auto` (Java's default, said)", conf=java("-Xshare:auto")),
        Setting(name="no class data sharing (`-Xshare:off`)", conf=java("-Xshare:off")),
        Setting(name="AppCDS archive", conf=java(with_archive), needs_archive=True),
        Setting(name="AppCDS archive, serial GC", conf=java(with_archive, "-XX:+UseSerialGC"), needs_archive=True,
                is_tried_long=True),
        Setting(name="AppCDS archive, serial GC, C1 only", conf=java(with_archive, "-XX:+UseSerialGC", C1),
                needs_archive=True, is_tried_long=True),
    ]  # fmt: skip


# ── one start, in a process of its own ────────────────────────────────────────────────────────────────────────────


def one_start(root: Path, long: int) -> None:
    """Start, ask, tell; then the hand-written job some times."""
    workspace = Workspace(root, who="bench")
    spark = workspace.spark
    began = time.time(), cpu_seconds()
    [(rows,)] = spark.sql("SELECT count(*) FROM raw.orders WHERE amount > 1").collect()
    told: dict[str, object] = {"started": began, "answered": (time.time(), cpu_seconds()), "rows": rows, "long": []}
    for _ in range(long):
        before = time.time(), cpu_seconds()
        hand_written(spark)
        told["long"] += [(time.time() - before[0], cpu_seconds() - before[1])]  # type: ignore[operator]
    print(json.dumps(told), flush=True)
    spark.stop()


@dataclass(frozen=True, kw_only=True)
class Start:
    session_wall: float
    wall: float
    cpu: float
    long: list[tuple[float, float]]


def start(root: Path, conf: Mapping[str, str], long: int = 0) -> Start:
    lines = ", ".join(f'{key}: "{value}"' for key, value in {"spark.driver.memory": "6g", **conf}.items())
    write_project(root, {}, conf=lines)
    began = time.time()
    command = [sys.executable, __file__, "--one", str(root), "--long", str(long)]
    answer = subprocess.run(command, capture_output=True, text=True, check=False, env=child_environ())
    if answer.returncode != 0:
        raise SystemExit(f"{dict(conf)} didn't start: {answer.stderr[-2000:]}")
    # Java speaks of class archives on the same stream.
    told = json.loads(next(line for line in answer.stdout.splitlines() if line.startswith("{")))
    return Start(
        session_wall=told["started"][0] - began, wall=told["answered"][0] - began, cpu=told["answered"][1],
        long=[tuple(each) for each in told["long"]],
    )  # fmt: skip


def main() -> None:
    options = options_of(__doc__)
    options.add_argument("--one", type=Path, help=argparse.SUPPRESS)
    options.add_argument("--long", type=int, help="how often the hand-written job runs; 0: only starts are measured")
    given = options.parse_args()
    if given.one is not None:
        one_start(given.one, given.long or 0)
        return
    rounds = given.rounds or (1 if given.quick else 2)
    repeated = given.long if given.long is not None else (1 if given.quick else 3)
    a_day = 200 if given.quick else 50_000
    began = time.monotonic()
    with folder_of_its_own() as root:
        jars = prepare(root, a_day)
        listed = settings(root / "classes.jsa", jars)
        say("  making a class archive …")
        start(root, java(f"-XX:ArchiveClassesAtExit={root / 'classes.jsa'}"))
        has_archive = wait_for(root / "classes.jsa")
        if not has_archive:
            listed = [each for each in listed if not each.needs_archive]
        if given.quick:
            listed = [listed[0], listed[-1]]
        starts: dict[str, list[Start]] = {each.name: [] for each in listed}
        for number in range(rounds):
            for each in listed:
                starts[each.name].append(start(root, each.conf))
                say(f"  round {number + 1} of {rounds}, {each.name}: {starts[each.name][-1].cpu:.1f} CPU s")
        longs: dict[str, list[tuple[float, float]]] = {}
        for each in [*(each for each in listed if each.is_tried_long), listed[0]] if repeated else []:
            longs.setdefault(each.name, []).extend(start(root, each.conf, repeated).long[-2:])
            say(f"  long jobs: {each.name}")
    text = starts_table(starts)
    if longs:
        text += (
            f"\n\nThe hand-written job over 30 days × {a_day:,} orders, the last two of {repeated} in one session:\n\n"
        )
        text += longs_table(longs)
    if not has_archive:
        text += "\n\nJava wrote no class archive here, so that AppCDS wasn't measured."
    tell(Found(part="cold", size="one query of an Iceberg table", began=began, text=text), write=not given.quick)


def prepare(root: Path, a_day: int) -> str:
    """The tables, made once; the jars as Spark would be told them."""
    write_project(root, {}, conf="spark.driver.memory: 6g")
    workspace = Workspace(root, who="bench")
    say("cold start: making a table …")
    write_sources(workspace.spark, 30, a_day)
    jars = str(workspace.spark.conf.get("spark.driver.extraClassPath")).replace(":", ",")
    workspace.spark.stop()
    return jars


def wait_for(archive: Path, patience: float = 60) -> bool:
    """Java writes it when it ends, which is after the process that started it has ended."""
    deadline, size = time.monotonic() + patience, -1
    while time.monotonic() < deadline:
        now = archive.stat().st_size if archive.exists() else -1
        if now > 0 and now == size:
            return True
        size = now
        time.sleep(2)
    return False


def starts_table(starts: Mapping[str, list[Start]]) -> str:
    base = spread(each.cpu for each in next(iter(starts.values()))).median
    rows: list[list[str]] = []
    for name, each in starts.items():
        cpu = spread(one.cpu for one in each)
        row = [name, str(len(each)), cpu.shown(1), f"{100 * (cpu.median / base - 1):+.0f}%"]
        row += [spread(one.session_wall for one in each).shown(1), spread(one.wall for one in each).shown(1)]
        rows.append(row)
    head = [
        "setting",
        "starts",
        "CPU s until the first answer",
        "",
        "wall s until the session",
        "wall s until the answer",
    ]
    return table(head, rows)


def longs_table(longs: Mapping[str, list[tuple[float, float]]]) -> str:
    base = spread(cpu for _, cpu in next(iter(longs.values()))).median
    rows = [
        [name, str(len(each)), spread(cpu for _, cpu in each).shown(1),
         f"{100 * (spread(cpu for _, cpu in each).median / base - 1):+.0f}%", spread(wall for wall, _ in each).shown(1)]
        for name, each in longs.items()
    ]  # fmt: skip
    return table(["setting", "runs", "CPU s", "", "wall s"], rows)


if __name__ == "__main__":
    main()
