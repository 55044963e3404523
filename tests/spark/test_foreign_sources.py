"""Sources that aren't Iceberg, read for real: files, a database, a Delta table."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from retcon.core.reads import Read
from retcon.core.runs import RunState
from retcon.core.slices import Grain, SliceSet
from retcon.errors import Fault, Refused
from retcon.flow.apply import Until
from retcon.lakehouse.scoped_reads import ScopedReads
from tests.shops import FIRST, Shop

pytestmark = pytest.mark.spark

FILES = ("parquet", "orc", "csv", "json")
COLUMNS = '{order_id: bigint, order_date: date, currency: string, amount: "decimal(12,2)"}'
SOURCES = f"""
sources:
  raw.in_parquet: {{format: parquet, path: data/parquet}}
  raw.in_orc: {{format: orc, path: data/orc}}
  raw.in_csv: {{format: csv, path: data/csv, columns: {COLUMNS}}}
  raw.in_json: {{format: json, path: data/json, columns: {COLUMNS}}}
  raw.in_postgres:
    format: jdbc
    options: {{url: "${{ORDERS_URL}}", dbtable: orders, user: retcon, password: "${{ORDERS_PASSWORD}}"}}
  raw.in_sqlite:
    format: jdbc
    options: {{url: "jdbc:sqlite:${{ORDERS_FILE}}?date_class=text&date_string_format=yyyy-MM-dd", dbtable: orders}}
    columns: {COLUMNS}
"""
NAMES = (*FILES, "postgres", "sqlite")
EXPECTED = "SELECT order_date, currency, count(*), sum(amount) FROM raw.orders WHERE {} GROUP BY order_date, currency"


def declare(shop: Shop, sources: str) -> None:
    settings = shop.root / "retcon.yaml"
    settings.write_text(settings.read_text() + sources)
    shop.close()


def summary(source: str) -> str:
    return (
        "/* retcon\nslices: {by: order_date, every: day}\n"
        f"inputs: {{{source}: {{time: order_date}}}}\nreplay: {{wave: 2}}\n*/\n"
        f"SELECT order_date, currency, count(*) AS orders, sum(amount) AS amount FROM {source} "
        "GROUP BY order_date, currency\n"
    )


@pytest.fixture
def elsewhere(shop: Shop, postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> Shop:
    """The shop's orders, again, in every format; a model on each of them."""
    shop.open_doors()
    orders = shop.workspace.spark.sql("SELECT order_id, order_date, currency, amount FROM raw.orders").cache()
    for each in FILES:
        orders.coalesce(1).write.format(each).option("header", "true").partitionBy("order_date").save(
            f"file://{shop.root}/data/{each}"
        )
    rows = [(r.order_id, r.order_date.isoformat(), r.currency, r.amount) for r in orders.collect()]
    columns = "(order_id bigint, order_date date, currency text, amount numeric(12,2))"
    with psycopg.connect(postgres_url, autocommit=True) as server:
        server.execute("DROP TABLE IF EXISTS orders")
        server.execute(f"CREATE TABLE orders {columns}".encode())
        server.cursor().executemany("INSERT INTO orders VALUES (%s, %s::date, %s, %s)", rows)
    with closing(sqlite3.connect(shop.root / "orders.db")) as file:
        file.execute(f"CREATE TABLE orders {columns}")
        file.executemany("INSERT INTO orders VALUES (?, ?, ?, ?)", [(*r[:3], str(r[3])) for r in rows])
        file.commit()
    monkeypatch.setenv("ORDERS_URL", "jdbc:" + postgres_url.replace("retcon@", ""))
    monkeypatch.setenv("ORDERS_PASSWORD", "s3cret-of-orders")
    monkeypatch.setenv("ORDERS_FILE", str(shop.root / "orders.db"))
    declare(shop, SOURCES)
    for name in NAMES:
        shop.write(f"mart.from_{name}", summary(f"raw.in_{name}"))
    return shop


def test_every_format_gives_the_rows_of_its_slices_and_a_change_of_files_under_way_refuses_the_publish(
    elsewhere: Shop,
) -> None:
    shop = elsewhere
    plan = shop.plan("mart.from_*", start="2026-01-02", end="2026-01-04")
    run = shop.apply(plan, until=Until.PROVEN)
    read = {(i.table, i.format, i.is_pinned) for model in plan.models for i in model.inputs}
    assert {(table, pinned) for table, _, pinned in read} == {(f"raw.in_{name}", False) for name in NAMES}

    later = next((shop.root / "data/csv/order_date=2026-01-07").glob("*.csv"))
    later.write_text(later.read_text() + "999,EUR,1.00\n")
    inside = next((shop.root / "data/csv/order_date=2026-01-03").glob("*.csv"))
    kept, stat = inside.read_text(), inside.stat()
    inside.write_text(kept + "998,EUR,1.00\n")
    with pytest.raises(Refused, match=r"raw\.in_csv \(csv\) changed since plan .* added, removed or rewritten") as said:
        shop.apply(plan)
    assert f"retcon plan --refresh backfills/{plan.id}.yaml" in said.value.next
    assert not shop.production("mart.from_csv")

    inside.write_text(kept)
    os.utime(inside, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert shop.apply(plan).state is RunState.PUBLISHED
    expected = shop.rows(EXPECTED.format("order_date BETWEEN DATE '2026-01-02' AND DATE '2026-01-04'"))
    for name in NAMES:
        assert shop.production(f"mart.from_{name}") == expected, name
    content = {c.table: c.content for c in shop.workspace.ledger.consumption(run.id)}
    assert content["raw.in_postgres"] == content["raw.in_sqlite"] == "unknown"
    assert all(content[f"raw.in_{name}"] != "unknown" for name in FILES)
    told = json.dumps([event.body for event in shop.workspace.ledger.events(run.id)])
    assert "s3cret-of-orders" not in told
    assert "jdbc:" not in told


def test_slices_are_cut_out_before_rows_are_read(elsewhere: Shop) -> None:
    shop = elsewhere
    foreign = shop.workspace.project.settings.foreign
    reads = ScopedReads(shop.workspace.spark, "lake", shop.workspace.code, foreign)
    slices = SliceSet.parse(Grain.DAY, "2026-01-02..2026-01-03")
    for name in NAMES:
        frame = reads.frame(Read(table=f"raw.in_{name}", snapshot_id=None, by="order_date", slices=slices))
        scan = frame._jdf.queryExecution().executedPlan().toString()
        cut = "PartitionFilters: [isnotnull(order_date" if name in FILES else "PushedFilters: [*IsNotNull(order_date)"
        assert cut in scan, scan
    day = shop.root / "data/json/order_date=2026-01-08"
    next(day.glob("*.json")).write_text("this isn't JSON\n")
    shop.apply(shop.plan("mart.from_json", start="2026-01-02", end="2026-01-03"))
    with pytest.raises(Fault, match=r"mart\.from_json"):
        shop.backfill("mart.from_json", start="2026-01-08", end="2026-01-08")


def test_a_header_that_isnt_as_declared_and_a_value_of_another_type_are_refused_not_read_as_null(
    elsewhere: Shop,
) -> None:
    shop = elsewhere
    file = next((shop.root / "data/csv/order_date=2026-01-03").glob("*.csv"))
    good = file.read_text()
    for bad in (good.replace("currency", "amount", 1).replace(",amount\n", ",currency\n", 1), good + "7,EUR,many\n"):
        file.write_text(bad)
        with pytest.raises(Fault, match=r"mart\.from_csv"):
            shop.backfill("mart.from_csv", start="2026-01-03", end="2026-01-03")
    assert not shop.workspace.tables.facts("mart.from_csv") or not shop.production("mart.from_csv")


def test_a_database_that_doesnt_answer_is_a_fault_without_its_secrets(
    elsewhere: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = elsewhere
    monkeypatch.setenv("ORDERS_URL", "jdbc:nowhere://hush-hush-host/x")
    shop.close()
    with pytest.raises((Fault, Refused), match=r"raw\.in_postgres \(jdbc\) can't be read") as said:
        shop.backfill("mart.from_postgres", start="2026-01-03", end="2026-01-03")
    assert "hush-hush" not in str(vars(said.value))
    assert said.value.__cause__ is None


# ── Delta ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def write_delta(folder: Path, version: int, order_id: int) -> None:
    """One commit of a Delta table, as its protocol has it: an order a day."""
    log = folder / "_delta_log"
    log.mkdir(parents=True, exist_ok=True)
    days = [FIRST + timedelta(days=n) for n in range(4)]
    table = pa.table({"order_id": pa.array([order_id] * 4, pa.int64()), "order_date": pa.array(days, pa.date32())})
    name = f"part-{version}.parquet"
    pq.write_table(table, folder / name)
    fields = [
        {"name": "order_id", "type": "long", "nullable": True, "metadata": {}},
        {"name": "order_date", "type": "date", "nullable": True, "metadata": {}},
    ]
    metadata = {
        "id": "0a1b2c3d-0000-4000-8000-000000000000",
        "format": {"provider": "parquet", "options": {}},
        "schemaString": json.dumps({"type": "struct", "fields": fields}),
        "partitionColumns": [],
        "configuration": {},
        "createdTime": 0,
    }
    add = {
        "path": name,
        "partitionValues": {},
        "size": (folder / name).stat().st_size,
        "modificationTime": 0,
        "dataChange": True,
    }
    actions: list[dict[str, object]] = [{"add": add}]
    if version == 0:
        actions = [{"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}, {"metaData": metadata}, *actions]
    (log / f"{version:020}.json").write_text("".join(json.dumps(action) + "\n" for action in actions))


MEDDLE = """
import sys
from pathlib import Path
from tests.shops import NOW, Meddling, Shop
from tests.spark.test_foreign_sources import write_delta
shop = Shop.__new__(Shop)  # its files are there already
shop.root, shop._workspace, shop.max_active, shop.now, shop.environment = Path(sys.argv[1]), None, 1, NOW, None
plan = shop.plan("mart.from_delta", start="2026-01-01", end="2026-01-02", wave=1)
assert plan.models[0].inputs[0].is_pinned
def stage(real, job, target):
    if job.slices.text == "2026-01-02":
        write_delta(shop.root / "data" / "delta", 1, 2)  # while the run is under way
    return real(job, target)
shop.apply(plan, warehouse=Meddling(shop.workspace.warehouse, "stage", stage))
print(sorted((d.isoformat(), n) for d, n in shop.production("mart.from_delta")))
"""


def test_a_delta_table_is_pinned_by_its_version(shop: Shop) -> None:
    write_delta(shop.root / "data" / "delta", 0, 1)
    declare(shop, "\nsources: {raw.in_delta: {format: delta, path: data/delta}}\n")
    shop.write("mart.from_delta", summary("raw.in_delta").replace("currency, ", "").replace(", currency", "").replace(
        ", sum(amount) AS amount", ""))  # fmt: skip
    # A process of its own: the jars must be there when Spark starts.
    answer = subprocess.run(
        [sys.executable, "-c", MEDDLE, str(shop.root)], capture_output=True, text=True, check=False, cwd=os.getcwd()
    )
    assert answer.returncode == 0, answer.stderr[-3000:]
    days = [(FIRST + timedelta(days=n)).isoformat() for n in range(2)]
    assert answer.stdout.strip().splitlines()[-1] == str([(day, 1) for day in days])
    (shop.root / "data/delta/_delta_log").rename(shop.root / "data/delta/log")
    with pytest.raises(Refused, match="isn't a Delta table"):
        shop.plan("mart.from_delta", start="2026-01-01", end="2026-01-04")
