"""Commands that somebody waits for and that need no Spark: CPU seconds, each as a process of its own.

The projects are made here: one as large as the demo's, one of fifty models of which nothing has changed (both take
Spark), and one whose source has 1,000 days and 10,000 files, which are listed and not written.
"""

from __future__ import annotations

import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path

from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.typedef import Record
from pyiceberg.types import DateType, LongType, NestedField

from loads import make_small, small_project
from measuring import spread
from pages import table
from parts import options_of
from results import Found, tell

EPOCH = date(1970, 1, 1)
DAYS, FILES_A_DAY = 1_000, 10
MODEL = """\
/* retcon
slices: {by: d, every: day}
inputs: {raw.events: {time: d}}
gates:
  - drift: {metric: sum(v), within: 1%}
*/
SELECT d, sum(v) AS v FROM raw.events GROUP BY d
"""


@dataclass(frozen=True, kw_only=True)
class Question:
    """One command, and what it may cost."""

    name: str
    words: tuple[str, ...]
    limit: float
    is_first: bool = False
    """What manifests list isn't known yet."""
    is_beside_start: bool = False
    """The limit is what it may cost more than a command that does nothing."""


def cpu(words: tuple[str, ...], environ: dict[str, str]) -> float:
    """User and system seconds of the process and its children."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-m", "retcon", *words], check=True, capture_output=True, env=environ)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (after.ru_utime + after.ru_stime) - (before.ru_utime + before.ru_stime)


def many_files(root: Path) -> None:
    """A project whose model was never built, over a source of many files."""
    (root / "models" / "mart").mkdir(parents=True)
    (root / ".retcon").mkdir()
    (root / "retcon.yaml").write_text(
        "name: files\n"
        'catalog: {name: lake, type: jdbc, uri: "sqlite:///.retcon/lake.db", warehouse: .retcon/warehouse}\n'
    )
    (root / "models" / "mart" / "daily.sql").write_text(MODEL)
    catalog = SqlCatalog("lake", uri=f"sqlite:///{root}/.retcon/lake.db", warehouse=f"{root}/.retcon/warehouse")
    catalog.create_namespace("raw")
    table = catalog.create_table(
        "raw.events",
        Schema(NestedField(1, "d", DateType()), NestedField(2, "v", LongType())),
        partition_spec=PartitionSpec(PartitionField(1, 1000, IdentityTransform(), "d")),
    )
    last = (date.today() - timedelta(days=1) - EPOCH).days
    with table.transaction() as transaction, transaction.update_snapshot().fast_append() as append:
        for number in range(DAYS * FILES_A_DAY):
            append.append_data_file(_listed(last - number % DAYS, number))
    catalog.close()


def _listed(day: int, number: int) -> DataFile:
    bound = {1: day.to_bytes(4, "little", signed=True)}
    file = DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=f"/nowhere/{number}.parquet",
        file_format=FileFormat.PARQUET,
        partition=Record(day),
        record_count=1_000,
        file_size_in_bytes=100_000,
        column_sizes={1: 4_000, 2: 8_000},
        value_counts={1: 1_000, 2: 1_000},
        null_value_counts={1: 0, 2: 0},
        nan_value_counts={},
        lower_bounds=bound,
        upper_bounds=bound,
        key_metadata=None,
        split_offsets=[4],
        equality_ids=None,
        sort_order_id=None,
    )
    file.spec_id = 0
    return file


def unchanged(root: Path) -> None:
    """Fifty models of thirty slices, loaded."""
    driver = small_project(root, 50)
    make_small(driver.workspace.spark, 30)
    driver.load()
    assert driver.load() == 0
    driver.workspace.close()
    driver.workspace.spark.stop()


def questions(folder: Path) -> list[Question]:
    shop, small, files = (str(folder / name) for name in ("shop", "small", "files"))

    plan = ("plan", "mart.daily", "--dry-run", "--reason", "benchmark", "--project", files)
    return [
        Question(name="retcon --help", words=("--help",), limit=0.4),
        Question(name="retcon --version", words=("--version",), limit=0.4),
        Question(name="retcon status, the demo's project", words=("status", "--project", shop), limit=0.7),
        Question(name="retcon plan, 1,000 slices, 10,000 files, first time", words=plan, limit=3.0, is_first=True),
        Question(name="the same again", words=plan, limit=3.0),
        Question(
            name="retcon load, 50 models, nothing changed, beside --version",
            words=("load", "--project", small),
            limit=1.0,
            is_beside_start=True,
        ),
    ]


def main() -> None:
    options = options_of(__doc__)
    options.add_argument("--keep", type=Path, help="make the projects here, and use them where they are")
    given = options.parse_args()
    rounds = given.rounds or (1 if given.quick else 5)
    began = time.monotonic()
    rows: list[list[str]] = []
    with tempfile.TemporaryDirectory(prefix="retcon-bench-") as made:
        folder = given.keep.absolute() if given.keep else Path(made)
        folder.mkdir(exist_ok=True)
        if not (folder / "ready").exists():
            print("making the projects …", flush=True)
            many_files(folder / "files")
            unchanged(folder / "small")
            demo = [sys.executable, "-m", "retcon", "demo", str(folder / "shop"), "--orders", "200"]
            subprocess.run(demo, check=True, capture_output=True)
            (folder / "ready").touch()
        environ = {**os.environ, "RETCON_CACHE": str(folder / "cache")}
        # Some shells forbid Python to keep its bytecode: each process would compile retcon anew, as no user's does.
        environ.pop("PYTHONDONTWRITEBYTECODE", None)
        start = statistics.median(cpu(("--version",), environ) for _ in range(rounds))
        for question in questions(folder):
            cpu(question.words, environ)  # warms up what is kept between commands
            costs = []
            for _ in range(rounds):
                if question.is_first:
                    shutil.rmtree(folder / "cache" / "manifests")
                costs.append(cpu(question.words, environ) - start * question.is_beside_start)
            taken = spread(costs)
            is_reached = "reached" if taken.median <= question.limit else "**not reached**"
            rows.append([question.name, str(len(costs)), taken.shown(), f"≤ {question.limit:.1f}", is_reached])
    text = table(["command, as a process of its own", "runs", "CPU s", "limit", ""], rows)
    size = f"a project of one model over {DAYS:,} days and {DAYS * FILES_A_DAY:,} files, one of 50 models, the demo's"
    tell(Found(part="interactive", size=size, text=text, began=began), write=not given.quick)


if __name__ == "__main__":
    main()
