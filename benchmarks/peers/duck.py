"""DuckDB as the floor of the machine: the same data files in, Parquet by day out, no table format, nothing recorded."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from urllib.parse import unquote, urlsplit

from pyspark.sql import SparkSession

from measuring import Cost
from orders import ORDERS_SQL, REVENUE_SQL, TABLES, require_same_rows
from peers.environments import Unavailable, python_of

PROGRAM = """\
import duckdb, json, pathlib, resource, sys, time
work = json.load(sys.stdin)
connection = duckdb.connect()
connection.execute("SET preserve_insertion_order = false")
connection.execute("SET enable_progress_bar = false")
def used():
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime, time.monotonic()
before = used()
for statement in work:
    connection.execute(statement)
print(json.dumps([after - earlier for after, earlier in zip(used(), before)]))
"""


class OnDuckDB:
    """The two tables by DuckDB, in a process of its own that measures itself, start-up apart."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self._spark = spark
        self._folder = folder
        self._python: Path | None = None

    def __enter__(self) -> OnDuckDB:
        try:
            self._python = python_of("duckdb")
        except Unavailable as error:
            print(f"  without DuckDB: {error}", flush=True)
        return self

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)

    @property
    def is_there(self) -> bool:
        return self._python is not None

    def once(self) -> Cost:
        shutil.rmtree(self._folder, ignore_errors=True)
        self._folder.mkdir(parents=True)
        places = [self._folder / name for name in TABLES]
        orders, rates = (self._files(name) for name in ("raw.orders", "raw.fx_rates"))
        queries = (
            ORDERS_SQL.format(orders=f"read_parquet({orders})", rates=f"read_parquet({rates})"),
            REVENUE_SQL.format(fct=f"read_parquet('{places[0]}/*/*.parquet', hive_partitioning = true)"),
        )
        statements = [
            f"COPY ({query}) TO '{place}' (FORMAT parquet, PARTITION_BY (order_date))"
            for query, place in zip(queries, places, strict=True)
        ]
        answer = subprocess.run(
            [str(self._python), "-c", PROGRAM],
            input=json.dumps(statements),
            capture_output=True,
            text=True,
            check=False,
        )
        if answer.returncode != 0:
            raise SystemExit(f"DuckDB: {answer.stderr[-2000:]}")
        cpu, wall = json.loads(answer.stdout)
        print(f"  DuckDB: {cpu:.1f} CPU s, {wall:.1f} s", flush=True)
        return Cost(cpu=cpu, wall=wall)

    def require_same(self) -> None:
        for name in TABLES:
            self._spark.read.parquet(str(self._folder / name)).createOrReplaceTempView(f"duck_{name}")
            theirs = ", ".join(
                f"CAST({field.name} AS {field.dataType.simpleString()}) AS {field.name}"
                for field in self._spark.table(f"reference.{name}").schema
            )
            require_same_rows(
                self._spark, f"SELECT * FROM reference.{name}", f"SELECT {theirs} FROM duck_{name}", f"DuckDB's {name}"
            )

    def _files(self, table: str) -> list[str]:
        rows = self._spark.sql(f"SELECT file_path FROM {table}.files").collect()
        return [unquote(urlsplit(row.file_path).path) for row in rows]
