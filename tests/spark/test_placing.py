"""Placing: waves whose tasks write the partitions that they read, without a shuffle, planned once."""

from __future__ import annotations

from typing import Any

import pytest
from py4j.protocol import Py4JJavaError

from retcon.errors import GatesFailed
from retcon.lakehouse.planned_writes import PlannedWrite
from tests.shops import Shop

pytestmark = pytest.mark.spark


@pytest.mark.parametrize(
    ("by", "kind", "every", "partitioning", "is_shuffled"),
    [
        ("d", "DATE", "day", "d", False),
        ("d", "TIMESTAMP", "day", "days(d)", False),
        ("k", "BIGINT", "bucket", "bucket(4, k)", False),
        ("d", "TIMESTAMP", "day", "hours(d)", True),
    ],
)
def test_rows_that_are_read_by_slice_are_written_without_a_shuffle(
    shop: Shop, by: str, kind: str, every: str, partitioning: str, is_shuffled: bool
) -> None:
    shop.open_doors()
    time = "TIMESTAMP" if kind == "TIMESTAMP" else "DATE"
    shop.sql(f"CREATE TABLE raw.events (k BIGINT, d {time}) USING iceberg PARTITIONED BY ({partitioning})")
    for _ in range(2):
        shop.sql(
            f"INSERT INTO raw.events SELECT id, CAST(TIMESTAMP '2026-01-01 00:00:00' + make_interval(0, 0, 0, 0, "
            f"CAST(id AS INT)) AS {time}) FROM range(48)"
        )
    cut, key = ("buckets: 4", "key: k") if every == "bucket" else (f"every: {every}", "time: d")
    slices = f"slices: {{by: {by}, {cut}}}\ninputs:\n  raw.events: {{{key}}}"
    shop.write("mart.events", f"/* retcon\n{slices}\n*/\nSELECT d, k, count(*) AS n FROM raw.events GROUP BY d, k")
    run = shop.backfill("mart.events", dates=False)
    assert shop.rows("SELECT d, k, n FROM mart.events") == shop.rows("SELECT d, k, 2 FROM raw.events GROUP BY d, k")
    writes = [nodes for name, nodes in _executions(shop) if name.startswith(run.id) and name.endswith("w1")]
    assert [any("Exchange" in node for node in nodes) for nodes in writes] == [is_shuffled]
    assert not any("Sort" in node for nodes in writes for node in nodes)


def by_partition(shop: Shop) -> None:
    """A model that passes the partitions of its input on."""
    shop.open_doors()
    shop.sql("CREATE TABLE raw.events (d DATE, k BIGINT, due DATE) USING iceberg PARTITIONED BY (d)")
    days = "date_add(DATE '2026-01-05', CAST(id % 7 AS INT))"
    shop.sql(f"INSERT INTO raw.events SELECT {days}, id, date_add({days}, CAST(id % 3 AS INT)) FROM range(64)")
    inputs = "slices: {by: d, every: day}\ninputs:\n  raw.events: {time: d}\n"
    shop.write("mart.events", f"/* retcon\n{inputs}*/\nSELECT d, k FROM raw.events")


@pytest.mark.parametrize("order", ["WRITE ORDERED BY k DESC", "WRITE LOCALLY ORDERED BY k DESC"])
def test_a_table_that_wants_an_order_gets_it(shop: Shop, order: str) -> None:
    by_partition(shop)
    shop.backfill("mart.events", dates=False)
    shop.sql(f"ALTER TABLE mart.events {order}")
    run = shop.backfill("mart.events", dates=False)
    assert shop.rows("SELECT d, k FROM mart.events") == shop.rows("SELECT d, k FROM raw.events")
    writes = [nodes for name, nodes in _executions(shop) if name.startswith(run.id) and name.endswith("w1")]
    assert [any("Sort" in node for node in nodes) for nodes in writes] == [True]


def test_a_wave_that_is_tried_again_finds_its_table_as_it_is_now(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    by_partition(shop)
    shop.backfill("mart.events", dates=False)
    away = shop.workspace.spark._jvm.java.lang.RuntimeException("the storage is away")  # type: ignore[union-attr]
    real, left = PlannedWrite.run, iter(range(1))

    def fails(write: PlannedWrite) -> None:
        if next(left, None) is not None:
            shop.sql("ALTER TABLE mart.events WRITE LOCALLY ORDERED BY k DESC")
            raise Py4JJavaError("overwrite", away)
        real(write)

    monkeypatch.setattr(PlannedWrite, "run", fails)
    run = shop.backfill("mart.events", dates=False)
    writes = [nodes for name, nodes in _executions(shop) if name.startswith(run.id) and name.endswith("w1")]
    assert any("Sort" in node for node in writes[-1])


def test_a_table_that_is_cut_finer_than_what_is_read_gets_all_its_partitions(shop: Shop) -> None:
    shop.open_doors()
    shop.sql("CREATE TABLE raw.events (d DATE, k BIGINT) USING iceberg PARTITIONED BY (months(d))")
    days = "date_add(DATE '2025-11-01', CAST(id % 61 AS INT))"
    shop.sql(f"INSERT INTO raw.events SELECT /*+ REPARTITION(1) */ {days}, id FROM range(183)")
    inputs = "slices: {by: d, every: month}\ninputs:\n  raw.events: {time: d}\n"
    shop.write("mart.events", f"/* retcon\n{inputs}*/\nSELECT d, k FROM raw.events")
    shop.backfill("mart.events", dates=False)
    shop.sql("ALTER TABLE mart.events REPLACE PARTITION FIELD d_month WITH days(d)")
    shop.backfill("mart.events", dates=False)
    assert shop.rows("SELECT d, k FROM mart.events") == shop.rows("SELECT d, k FROM raw.events")
    assert shop.sql("SELECT count(*) FROM mart.events.files") == [(61,)]


def test_where_the_partitions_that_are_read_tell_no_row_is_asked_and_a_row_outside_is_still_found(shop: Shop) -> None:
    by_partition(shop)
    shop.write("mart.weekly", (shop.root / "models/mart/events.sql").read_text().replace("every: day", "every: week"))
    run = shop.backfill("mart.events", "mart.weekly", dates=False)
    assert not _asks_rows(shop, run.id)
    assert shop.rows("SELECT d, k FROM mart.weekly") == shop.rows("SELECT d, k FROM raw.events")
    shop.edit("mart.events", "SELECT d,", "SELECT date_add(d, 0) AS d,")
    assert _asks_rows(shop, shop.backfill("mart.events", dates=False).id), "a day that is computed may be any"
    # The slice's column is still one by which the input is partitioned, but not the one by which it is read.
    shop.sql("CREATE TABLE raw.dues (due DATE, k BIGINT, d DATE) USING iceberg PARTITIONED BY (due)")
    shop.sql("INSERT INTO raw.dues SELECT due, k, d FROM raw.events")
    inputs = "slices: {by: d, every: day}\ninputs:\n  raw.dues: {time: d}\nreplay: {sliceable: true}\n"
    shop.write("mart.dues", f"/* retcon\n{inputs}*/\nSELECT due AS d, k FROM raw.dues")
    with pytest.raises(GatesFailed, match=r"d = 2026-01-1[23] is outside the slices"):
        shop.backfill("mart.dues", start="2026-01-05", end="2026-01-11")


def test_spark_plans_again_as_it_goes_only_where_rows_are_shuffled(shop: Shop) -> None:
    settings = shop.root / "retcon.yaml"
    off, on = (f"spark.sql.adaptive.enabled: {word}" for word in ("false", "true"))
    assert off in settings.read_text()
    settings.write_text(settings.read_text().replace(off, on))
    by_partition(shop)
    shop.sql("CREATE TABLE raw.names (k BIGINT, name STRING) USING iceberg")
    shop.sql("INSERT INTO raw.names SELECT id, CAST(id AS STRING) FROM range(64)")
    inputs = "slices: {by: d, every: day}\ninputs:\n  raw.events: {time: d}\n  raw.names: {}\n"
    joined = "SELECT /*+ BROADCAST(n) */ e.d, e.k, n.name FROM raw.events e JOIN {names} n ON n.k = e.k"
    grouped = "(SELECT k, max(name) AS name FROM raw.names GROUP BY k)"
    for name, names in (("named", "raw.names"), ("grouped", grouped)):
        shop.write(f"mart.{name}", f"/* retcon\n{inputs}*/\n{joined.format(names=names)}")
    # What is broadcast for the join also tells which partitions to read: it stands in the plan twice.
    shop.sql("CREATE TABLE raw.factors (day DATE, factor INT) USING iceberg")
    shop.sql("INSERT INTO raw.factors SELECT DISTINCT d, 2 FROM raw.events")
    inputs = "slices: {by: d, every: day}\ninputs:\n  raw.events: {time: d}\n  raw.factors: {time: day}\n"
    joined = (
        "SELECT /*+ BROADCAST(f) */ e.d, e.k, e.k * f.factor AS v FROM raw.events e JOIN raw.factors f ON f.day = e.d"
    )
    shop.write("mart.factored", f"/* retcon\n{inputs}*/\n{joined}")
    shop.edit("mart.events", "SELECT d, k", "SELECT DISTINCT date_add(d, 0) AS d, k")
    run = shop.backfill("mart.named", "mart.grouped", "mart.factored", "mart.events", dates=False)
    plans = {
        name: "".join(plan for at, plan in _plans(shop, run.id).items() if f"_mart__{name}_w" in at)
        for name in ("named", "grouped", "factored", "events")
    }
    adapting = {name: "AdaptiveSparkPlan" in plan for name, plan in plans.items()}
    assert adapting == {"named": False, "grouped": True, "factored": False, "events": True}
    assert "dynamicpruning" in plans["factored"]
    assert "ReusedExchange" in plans["factored"]
    assert shop.rows("SELECT * FROM mart.factored") == shop.rows("SELECT d, k, k * 2 FROM raw.events")
    for table in ("mart.named", "mart.grouped"):
        assert shop.rows(f"SELECT * FROM {table}") == shop.rows("SELECT d, k, CAST(k AS STRING) FROM raw.events")
    assert shop.rows("SELECT d, k FROM mart.events") == shop.rows("SELECT d, k FROM raw.events")


def test_a_wave_is_planned_once_where_the_plan_that_was_looked_at_can_be_run(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    by_partition(shop)
    real, planned = PlannedWrite.__init__, []

    def counted(write: PlannedWrite, *given: Any) -> None:
        planned.append(write)
        real(write, *given)

    monkeypatch.setattr(PlannedWrite, "__init__", counted)
    run = shop.backfill("mart.events", dates=False)
    assert len(planned) == len(shop.workspace.ledger.waves(run.id)) > 0
    planned.clear()
    shop.edit("mart.events", "SELECT d,", "SELECT date_add(d, 0) AS d,")
    run = shop.backfill("mart.events", dates=False)
    assert len(planned) == 2 * len(shop.workspace.ledger.waves(run.id)), "rows that must be asked are planned anew"
    assert shop.rows("SELECT d, k FROM mart.events") == shop.rows("SELECT d, k FROM raw.events")


def _asks_rows(shop: Shop, run: str) -> bool:
    return any("raise_error" in plan for plan in _plans(shop, run).values())


def _plans(shop: Shop, run: str) -> dict[str, str]:
    """What Spark ran for a run, by its description: the plans."""
    store = shop.workspace.spark._jsparkSession.sharedState().statusStore()
    executions = store.executionsList()
    found = (executions.apply(at) for at in range(executions.size()))
    plans = {each.description(): each.physicalPlanDescription() for each in found if each.description().startswith(run)}
    assert plans
    return plans


def _executions(shop: Shop) -> list[tuple[str, list[str]]]:
    """What Spark ran, by its description, with the operators of its plan."""
    store = shop.workspace.spark._jsparkSession.sharedState().statusStore()
    executions = store.executionsList()
    found = []
    for each in (executions.apply(at) for at in range(executions.size())):
        nodes = store.planGraph(each.executionId()).allNodes()
        found.append((each.description(), [nodes.apply(at).name() for at in range(nodes.size())]))
    return found


def test_a_large_slice_becomes_files_of_the_size_that_the_table_wants(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = shop.root / "retcon.yaml"
    settings.write_text(settings.read_text().replace("adaptive.enabled: false", "adaptive.enabled: true"))
    shop.open_doors()
    shop.sql("DELETE FROM raw.orders")
    shop.sql(
        "INSERT INTO raw.orders SELECT id, DATE '2026-01-01' + CAST(id % 2 AS INT), 'USD', sha2(string(id), 512), 1 "
        "FROM range(60000)"
    )
    shop.write(
        "mart.large",
        "/* retcon\nslices: {by: order_date, every: day}\ninputs: {raw.orders: {time: order_date}}\n*/\n"
        "SELECT order_date, order_id, customer FROM raw.orders",
    )
    shop.backfill("mart.large", end="2026-01-02")
    target = 2**18
    shop.sql(f"ALTER TABLE mart.large SET TBLPROPERTIES ('write.target-file-size-bytes' = {target})")
    monkeypatch.setattr("retcon.lakehouse.staging._SMALL_SLICE", 0)
    shop.backfill("mart.large", end="2026-01-02")
    found = shop.sql("SELECT partition.order_date, file_size_in_bytes FROM mart.large.files")
    days = {day for day, _ in found}
    assert len(days) == 2
    for day in days:
        sizes = sorted(size for each, size in found if each == day)
        assert len(sizes) > 3
        assert sizes[-1] < 2 * target, "none much larger"
        assert sizes[len(sizes) // 2] > target / 2, "and not a lot of small ones"
