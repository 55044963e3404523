"""Twenty thousand slices, a hundred thousand files, nine rows of ten in one key, and a driver of 2 GiB: seconds and
memory of each step. One small file is linked and registered over and over: what is measured is the number of things.
"""

from __future__ import annotations

import argparse
import errno
import os
import shutil
import tempfile
import time
from collections.abc import Callable
from datetime import date, timedelta
from pathlib import Path
from typing import TypeVar
from urllib.parse import urlsplit

from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.table import Table
from pyiceberg.typedef import Record

from retcon.core.runs import Run
from retcon.flow.apply import apply, open_run
from retcon.flow.plan import Ask
from retcon.flow.rollback import roll_back
from retcon.flow.sweep import sweep
from retcon.wiring import Workspace, new_suffix

T = TypeVar("T")
FIRST = date(1970, 1, 1)
SETTINGS = """\
name: size
catalog: {name: lake, type: jdbc, uri: "sqlite:///.retcon/lake.db", warehouse: .retcon/warehouse}
spark: {master: "local[*]", conf: {spark.driver.memory: 2g}}
limits: {slices: 100000}
"""
MODEL = """\
/* retcon
slices: {by: day, every: day}
key: [day, customer]
inputs:
  raw.events: {time: day}
gates:
  - unique: key
  - drift: {metric: sum(events), within: 1%}
*/
SELECT day, customer, count(*) AS events, sum(amount) AS amount FROM raw.events GROUP BY day, customer
"""


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--days", type=int, default=20_000)
    options.add_argument("--files", type=int, default=5, help="files a day")
    given = options.parse_args()
    with tempfile.TemporaryDirectory(prefix="retcon-size-") as folder:
        root = Path(folder)
        (root / "models" / "mart").mkdir(parents=True)
        (root / "retcon.yaml").write_text(SETTINGS)
        (root / "models" / "mart" / "daily.sql").write_text(MODEL)
        workspace = Workspace(root, who="bench")
        shown = f"{given.days:,} slices, {given.days * given.files:,} files, {os.cpu_count()} cores, driver of 2 GiB"
        print(f"{shown}; registering …", flush=True)
        register(workspace, given.days, given.files)
        print("| step | s | Python's peak | Java's peak |\n|---|---|---|---|")
        run = build(workspace, given.days)
        measured("rollback", workspace, lambda: roll_back(run, "benchmark", workspace.context(lambda _: None)))
        later = workspace.clock() + timedelta(days=60)
        measured(
            "sweep", workspace, lambda: sweep(workspace.outline, workspace.ledger, workspace.tables, later, dry=False)
        )
        workspace.close()


def register(workspace: Workspace, days: int, files: int) -> None:
    spark = workspace.spark
    spark.sql("CREATE NAMESPACE IF NOT EXISTS raw")
    spark.sql(
        "CREATE TABLE raw.events (day DATE, customer STRING, amount DECIMAL(12,2)) USING iceberg PARTITIONED BY (day)"
    )
    spark.sql(
        f"INSERT INTO raw.events SELECT /*+ COALESCE(1) */ DATE '{FIRST}', if(id = 0, 'one of many', 'the largest'), "
        "CAST(id AS DECIMAL(12,2)) FROM range(10)"
    )
    catalog = SqlCatalog("lake", uri=workspace.project.settings.catalog.uri, warehouse="unused")
    table = catalog.load_table("raw.events")
    with table.transaction() as transaction, transaction.update_snapshot().fast_append() as append:
        for file in linked(table, days, files):
            append.append_data_file(file)


def linked(table: Table, days: int, files: int) -> list[DataFile]:
    """The one file under many names, in a partition of its own for each day: readers take the day from there."""
    [task] = table.scan().plan_files()
    one = Path(urlsplit(task.file.file_path).path)
    data = one.parent.parent
    places: list[DataFile] = []
    for day in range(days):
        folder = data / f"day={FIRST + timedelta(days=day)}"
        folder.mkdir(exist_ok=True)
        for number in range(files if day else files - 1):
            place = folder / f"linked-{number}.parquet"
            one = link(one, place)
            file = DataFile.from_args(
                content=DataFileContent.DATA,
                file_path=str(place),
                file_format=FileFormat.PARQUET,
                partition=Record(day),
                record_count=task.file.record_count,
                file_size_in_bytes=task.file.file_size_in_bytes,
            )
            file.spec_id = table.spec().spec_id
            places.append(file)
    return places


def link(one: Path, place: Path) -> Path:
    """The file under one more name; file systems take some ten thousand, then a copy is the next to be linked."""
    try:
        os.link(one, place)
    except OSError as error:
        if error.errno != errno.EMLINK:
            raise
        return shutil.copyfile(one, place)
    return one


def build(workspace: Workspace, days: int) -> Run:
    w = workspace
    ask = Ask(
        select=("mart.daily",), reason="benchmark", command="-", by="bench", now=w.clock(),
        suffix=new_suffix(), start=FIRST, end=FIRST + timedelta(days=days - 1),
    )  # fmt: skip
    plan = measured("plan", w, lambda: w.planner.plan(ask))
    run = open_run(plan, w.project, w.ledger, w.tables, w.clock, w.who)
    run = measured("stage, prove, publish", w, lambda: apply(run, w.context(lambda _: None)))
    [(rows, events)] = w.spark.sql("SELECT count(*), sum(events) FROM mart.daily").collect()
    assert rows == 2 * days, rows
    assert events % 10 == 0, events
    return run


def measured(name: str, workspace: Workspace, work: Callable[[], T]) -> T:
    java = int(workspace.spark._jvm.java.lang.ProcessHandle.current().pid())  # type: ignore[union-attr]
    began = time.monotonic()
    result = work()
    seconds = time.monotonic() - began
    print(f"| {name} | {seconds:.1f} | {peak(os.getpid())} | {peak(java)} |", flush=True)
    return result


def peak(pid: int) -> str:
    """The most memory that a process had so far."""
    status = Path(f"/proc/{pid}/status")
    lines = status.read_text().splitlines() if status.exists() else []
    kilobytes = next((int(line.split()[1]) for line in lines if line.startswith("VmHWM")), 0)
    return f"{kilobytes / 1024:,.0f} MiB" if kilobytes else "–"


if __name__ == "__main__":
    main()
