"""Staging: scoped reads, what a wave may write, and going on after an interruption."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import date
from decimal import Decimal
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame, SparkSession

from retcon.core.events import WaveStaged
from retcon.core.jobs import Job
from retcon.core.queries import Query
from retcon.core.retries import TRIES
from retcon.core.runs import RunState, SliceState
from retcon.errors import Fault, GatesFailed, Interrupted, Refused
from retcon.flow.apply import Until
from retcon.lakehouse.planned_writes import PlannedWrite
from retcon.lakehouse.scoped_reads import ScopedReads
from retcon.lakehouse.staging import Staging
from tests.shops import Meddling, Shop

pytestmark = pytest.mark.spark

HEADER = """\
/* retcon
slices: {{by: d, every: day}}
inputs:
  raw.orders: {{time: order_date{extra}}}
{keys}*/
"""


def model(sql: str, *, extra: str = "", keys: str = "") -> str:
    return HEADER.format(extra=extra, keys=keys) + sql


def test_a_row_outside_the_wave_is_an_error_that_names_its_date(shop: Shop) -> None:
    shop.open_doors()
    shop.write("mart.shifted", model("SELECT date_add(order_date, 30) AS d, order_id FROM raw.orders"))
    with pytest.raises(GatesFailed, match=r"d = 2026-01-31 is outside the slices") as error:
        shop.backfill("mart.shifted", end="2026-01-01")
    assert error.value.exit_code == 4
    assert "production is untouched" in error.value.state


def test_a_null_slice_column_is_an_error_even_where_the_output_is_cut(shop: Shop) -> None:
    shop.open_doors()
    sql = "SELECT if(order_id = 1, NULL, order_date) AS d, order_id FROM raw.orders"
    shop.write("mart.holey", model(sql, extra=", lookback: 1"))
    with pytest.raises(GatesFailed, match="d = NULL"):
        shop.backfill("mart.holey", start="2026-01-03", allow_missing_source=True)


def test_lookback_reads_the_days_before_and_the_output_is_cut_to_the_slices(shop: Shop) -> None:
    shop.open_doors()
    sql = """
    SELECT d, n, sum(n) OVER (ORDER BY d ROWS BETWEEN 2 PRECEDING AND CURRENT ROW) AS n3
    FROM (SELECT order_date AS d, count(*) AS n FROM raw.orders GROUP BY order_date)
    """
    shop.write("mart.trailing", model(sql, extra=", lookback: 2"))
    plan = shop.plan("mart.trailing", start="2026-01-03")
    assert plan.models[0].one_by_one, "a window over other days: slice by slice"
    assert len(plan.models[0].waves) == 6
    shop.apply(plan)
    assert shop.sql("SELECT min(d), max(d), min(n3), max(n3) FROM mart.trailing") == [
        (date(2026, 1, 3), date(2026, 1, 8), 36, 36)
    ]


SAME_IN_WAVES = (
    "SELECT order_date AS d, order_id, lag(amount) OVER (PARTITION BY order_date ORDER BY order_id) AS l "
    "FROM raw.orders",
    "SELECT order_date AS d, amount, sum(amount) OVER () AS total FROM raw.orders",
    "SELECT order_date AS d, order_id, row_number() OVER (ORDER BY order_id) AS n FROM raw.orders",
    "SELECT DISTINCT order_date AS d, currency FROM raw.orders",
    "SELECT order_date AS d, max(amount) AS m FROM raw.orders GROUP BY order_date, currency",
    "SELECT o.order_date AS d, o.order_id FROM raw.orders o WHERE o.amount = (SELECT max(x.amount) FROM raw.orders x)",
    "SELECT o.order_date AS d, o.order_id FROM raw.orders o WHERE EXISTS "
    "(SELECT 1 FROM raw.orders x WHERE x.order_date = o.order_date AND x.order_id = o.order_id + 8)",
    "SELECT o.order_date AS d, 'o' AS side, o.order_id FROM raw.orders o UNION ALL "
    "SELECT x.order_date, 'x', -x.order_id FROM raw.orders x",
)


def test_in_waves_slice_by_slice_and_in_one_go_the_table_is_the_same(shop: Shop) -> None:
    shop.open_doors()
    waves = {"one": 1, "two": 2, "all": 100}
    for name, wave in waves.items():
        for at, sql in enumerate(SAME_IN_WAVES):
            text = model(sql)
            if "raw.orders x" in sql:
                text = text.replace(
                    "  raw.orders: {time: order_date}",
                    "  o: {table: raw.orders, time: order_date}\n  x: {table: raw.orders, time: order_date}",
                )
            shop.write(f"mart.{name}_{at}", text)
        shop.backfill(f"mart.{name}_*", wave=wave, end="2026-01-03")
    for at, sql in enumerate(SAME_IN_WAVES):
        tables = [shop.production(f"mart.{name}_{at}") for name in waves]
        assert tables[0] == tables[1] == tables[2], sql
        assert tables[0], sql


@pytest.mark.parametrize(("is_small", "tasks"), [(True, 1), (False, 8)], ids=["small", "large"])
def test_what_is_large_is_shared_out_among_more_tasks_and_no_task_reads_a_slice_of_it(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, is_small: bool, tasks: int
) -> None:
    """Of a wave, and of the slice that is computed alone."""
    shop.open_doors()
    shop.write("mart.sums", model("SELECT order_date AS d, currency, count(*) AS n FROM raw.orders GROUP BY ALL"))
    plan = shop.plan("mart.sums")
    if not is_small:
        [[size]] = shop.sql("SELECT sum(file_size_in_bytes) FROM raw.orders.files")
        monkeypatch.setattr("retcon.lakehouse.staging._SMALL_SLICE", 0)
        monkeypatch.setattr("retcon.lakehouse.sessions._A_TASK", size // 8 + 1)
    used: dict[str, tuple[int, bool]] = {}
    compute, planned = ScopedReads.compute, Staging._planned

    def conf_of(spark: SparkSession) -> tuple[int, bool]:
        by_partition = spark.conf.get("spark.sql.iceberg.planning.preserve-data-grouping", None) == "true"
        return int(spark.conf.get("spark.sql.shuffle.partitions") or 0), by_partition

    def computing(reads: ScopedReads, job: Job) -> DataFrame:
        used["alone" if job.name.endswith("parity") else "computed"] = conf_of(reads.spark)
        return compute(reads, job)

    def planning(staging: Staging, rows: DataFrame, *words: Any) -> PlannedWrite:
        used["written"] = conf_of(rows.sparkSession)
        return planned(staging, rows, *words)  # type: ignore[no-any-return] # a method, taken as it is

    monkeypatch.setattr(ScopedReads, "compute", computing)
    monkeypatch.setattr(Staging, "_planned", planning)
    shop.apply(plan)
    assert used["written"] == (tasks, is_small)
    assert used["alone"] == (1, is_small), "a day of eight is no more than one task's"


def test_waves_leave_no_pools_of_their_own_behind(shop: Shop) -> None:
    """Spark sorts all of them whenever a task starts."""
    shop.open_doors()
    shop.write("mart.plain", model("SELECT order_date AS d, order_id FROM raw.orders"))
    run = shop.backfill("mart.plain", wave=1)
    pools = shop.workspace.spark.sparkContext._jsc.sc().getAllPools()
    names = [pools.apply(at).name() for at in range(pools.size())]
    assert any(name.startswith("wave") for name in names)
    assert not any(run.id in name for name in names)


def test_parameters_are_bound_never_pasted(shop: Shop) -> None:
    shop.open_doors()
    shop.sql("INSERT INTO raw.orders VALUES (777, DATE '2026-01-01', 'USD', 'O\\'Brien \"ü\"', 5)")
    sql = (
        "SELECT order_date AS d, customer, :start_date AS s, :end_date AS e, :start_ts AS st, :end_ts AS et, "
        ":run_ts AS r FROM raw.orders WHERE customer = :vip"
    )
    shop.write("mart.vips", model(sql))
    shop.backfill("mart.vips", end="2026-01-01")
    [(d, customer, s, e, st, et, r)] = shop.sql("SELECT * FROM mart.vips")
    assert (customer, d, s, e) == ('O\'Brien "ü"', *[date(2026, 1, 1)] * 3)
    assert (et - st).days == 1
    assert r.replace(tzinfo=None) == shop.now.replace(tzinfo=None)


def test_names_and_values_may_hold_quotes_and_unicode(shop: Shop) -> None:
    shop.open_doors()
    shop.sql("CREATE TABLE raw.`größe'n` (`d'ay` DATE, `v``al` STRING) USING iceberg PARTITIONED BY (`d'ay`)")
    shop.sql("INSERT INTO raw.`größe'n` VALUES (DATE '2026-01-01', 'a\\'b\\\"c 🚀')")
    text = (
        '/* retcon\nslices: {by: d, every: day}\ninputs:\n  "raw.größe\'n": {time: "d\'ay"}\n*/\n'
        "-- 🚀 raw.nothing\nSELECT `größe'n`.`d'ay` AS d, `v``al` AS `wert \"x\"` FROM raw.`größe'n`"
    )
    shop.write("mart.maße", text)
    shop.backfill("mart.maße", end="2026-01-01")
    assert shop.sql("SELECT * FROM mart.`maße`") == [(date(2026, 1, 1), "a'b\"c 🚀")]


def escape_to(sql: str) -> Callable[[Any], Query]:
    """A query whose table names retcon wasn't told of, as if its reading of the text had missed them."""
    return lambda query: replace(query, text=sql, references=())


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT order_date AS d, order_id FROM raw.orders",
        "SELECT order_date AS d, order_id FROM IDENTIFIER('raw.orders')",
        "SELECT DATE '2026-01-01' AS d, (SELECT max(order_id) FROM raw.orders) AS m",
        "SELECT DATE '2026-01-01' AS d, 1 AS m WHERE EXISTS (SELECT 1 FROM raw.orders)",
        "SELECT DATE '2026-01-01' AS d, * FROM text.`{path}`",
    ],
)
def test_a_read_that_isnt_scoped_is_refused_after_analysis(shop: Shop, sql: str) -> None:
    shop.open_doors()
    shop.write("mart.escape", model("SELECT order_date AS d, order_id FROM raw.orders"))
    plan = shop.plan("mart.escape", end="2026-01-01")
    real = shop.workspace.project.graph.models["mart.escape"]
    text = sql.replace("{path}", str(shop.root / "retcon.yaml"))
    shop.workspace.project.graph.models["mart.escape"] = replace(real, query=escape_to(text)(real.query))  # type: ignore[index]
    with pytest.raises(Refused, match="past its declared inputs"):
        shop.apply(plan)


def test_an_emptied_slice_needs_allow_empty_and_then_is_empty(shop: Shop) -> None:
    shop.open_doors()
    shop.write("mart.some", model("SELECT order_date AS d, order_id FROM raw.orders"))
    shop.backfill("mart.some")
    shop.edit("mart.some", "FROM raw.orders", "FROM raw.orders WHERE order_date <> DATE '2026-01-03'")
    plan = shop.plan("mart.some")
    with pytest.raises(GatesFailed, match=r"mart\.some:empty"):
        shop.apply(plan)
    states = {s.slice: s.state for s in shop.workspace.ledger.slices(plan.id)}
    assert states["2026-01-03"] is SliceState.EMPTY
    assert states["2026-01-04"] is SliceState.DONE
    assert shop.sql("SELECT count(*) FROM mart.some WHERE d = DATE '2026-01-03'") == [(12,)]
    shop.edit("mart.some", "*/\n", "allow_empty: true\n*/\n")
    shop.backfill("mart.some")
    assert shop.sql("SELECT count(*) FROM mart.some WHERE d = DATE '2026-01-03'") == [(0,)]
    assert shop.sql("SELECT count(*) FROM mart.some") == [(84,)]


def test_a_run_of_empty_slices_only_can_be_published(shop: Shop) -> None:
    shop.open_doors()
    text = model("SELECT order_date AS d, order_id FROM raw.orders WHERE order_id < 0", keys="allow_empty: true\n")
    shop.write("mart.none", text)
    shop.backfill("mart.none")
    assert not shop.production("mart.none")
    shop.edit("mart.none", "order_id < 0", "order_id >= 0")
    run = shop.backfill("mart.none")
    assert len(shop.production("mart.none")) == 96
    shop.rollback(run)
    assert not shop.production("mart.none")


def test_after_a_crash_between_commit_and_record_the_wave_is_found_and_not_computed_again(shop: Shop) -> None:
    shop.open_doors()
    shop.max_active = 1
    plan = shop.plan("mart.orders_usd")

    def crash_at_the_second_wave(record: Any, run_id: str, event: Any, **kwargs: Any) -> Any:
        if isinstance(event, WaveStaged) and event.wave == 2:
            raise SystemExit("killed")
        return record(run_id, event, **kwargs)

    with pytest.raises(SystemExit):
        shop.apply(plan, ledger=Meddling(shop.workspace.ledger, "record", crash_at_the_second_wave))
    staged: list[Any] = []

    def count(stage: Any, job: Any, target: Any) -> Any:
        staged.append(target.wave)
        return stage(job, target)

    shop.apply(plan, warehouse=Meddling(shop.workspace.warehouse, "stage", count))
    assert staged == [3], "wave 1 was recorded, wave 2 is found on the branch"
    adopted = [e for e in shop.workspace.ledger.events(plan.id) if e.kind == "WaveStaged" and e.body["adopted"]]
    assert [e.body["wave"] for e in adopted] == [2]
    assert len(shop.production("mart.orders_usd")) == 96


def test_an_interruption_pauses_and_apply_goes_on_with_what_is_missing(shop: Shop) -> None:
    shop.open_doors()
    shop.max_active = 1
    plan = shop.plan("mart.orders_usd")
    staged: list[int] = []

    def interrupted_at_the_third(stage: Any, job: Any, target: Any) -> Any:
        if target.wave == 3 and len(staged) == 2:
            raise KeyboardInterrupt
        staged.append(target.wave)
        return stage(job, target)

    meddling = Meddling(shop.workspace.warehouse, "stage", interrupted_at_the_third)
    with pytest.raises(Interrupted, match="6 of 8 slices are staged") as error:
        shop.apply(plan, warehouse=meddling)
    assert error.value.state == "production is untouched"
    assert shop.workspace.ledger.run(plan.id).state is RunState.PAUSED  # type: ignore[union-attr]
    assert not shop.production("mart.orders_usd")
    staged.append(0)
    shop.apply(plan, warehouse=meddling)
    assert staged == [1, 2, 0, 3]
    assert len(shop.production("mart.orders_usd")) == 96


def test_rows_that_cant_be_cast_fail_a_wave_once_and_arent_tried_again(shop: Shop) -> None:
    shop.open_doors()
    shop.max_active = 1
    shop.edit("mart.orders_usd", "o.customer,", "CAST(o.customer AS INT) AS customer,")
    plan = shop.plan("mart.orders_usd")
    with pytest.raises(Fault, match="CAST_INVALID_INPUT") as fault:
        shop.apply(plan)
    assert not fault.value.retryable
    waves = shop.workspace.ledger.waves(plan.id)
    assert [wave.attempts for wave in waves] == [1, 0, 0]
    assert "The value 'c" in fault.value.message
    assert waves[0].error == "mart.orders_usd, 2026-01-01..2026-01-03: CAST_INVALID_INPUT", "whose it is isn't kept"
    shop.edit("mart.orders_usd", "slices:", "samples: true\nslices:")
    plan = shop.plan("mart.orders_usd")
    with pytest.raises(Fault, match="CAST_INVALID_INPUT") as fault:
        shop.apply(plan)
    assert shop.workspace.ledger.waves(plan.id)[0].error == fault.value.message


def test_a_cancelled_run_leaves_no_branch_and_no_table_of_its_own_and_is_final(shop: Shop) -> None:
    shop.open_doors()
    shop.backfill("mart.orders_usd")
    before = shop.files("mart.orders_usd")
    plan = shop.plan("mart.orders_usd", "mart.revenue")
    run = shop.apply(plan, until=Until.STAGED)
    staged = shop.root / ".retcon" / "warehouse" / "mart" / "revenue"
    assert list(staged.rglob("*.parquet"))
    shop.cancel(run)
    assert shop.sql("SHOW TABLES IN mart") == [("mart", "orders_usd", False)]
    assert not list(staged.rglob("*.parquet"))
    assert plan.branch not in {name for (name,) in shop.sql("SELECT name FROM mart.orders_usd.refs")}
    assert shop.files("mart.orders_usd") == before
    with pytest.raises(Refused, match="was cancelled"):
        shop.apply(plan)
    assert shop.cancel(run).state is RunState.CANCELLED, "cancelling twice is cancelling once"


def test_waves_run_at_most_max_active_at_once(shop: Shop) -> None:
    shop.open_doors()
    shop.max_active = 3
    running: set[int] = set()
    most: list[int] = []

    def watched(stage: Any, job: Any, target: Any) -> Any:
        running.add(target.wave)
        most.append(len(running))
        try:
            return stage(job, target)
        finally:
            running.discard(target.wave)

    plan = shop.plan("mart.orders_usd", wave=1)
    shop.apply(plan, warehouse=Meddling(shop.workspace.warehouse, "stage", watched))
    assert 1 < max(most) <= 3
    assert shop.sql("SELECT count(*), count(DISTINCT order_id) FROM mart.orders_usd") == [(96, 96)]


def test_an_input_that_changed_in_scope_since_the_plan_is_named_and_elsewhere_is_fine(shop: Shop) -> None:
    shop.open_doors()
    elsewhere = shop.plan("mart.orders_usd", start="2026-01-01", end="2026-01-04")
    inside = shop.plan("mart.orders_usd", start="2026-01-05", end="2026-01-08")
    shop.sql("INSERT INTO raw.orders VALUES (555, DATE '2026-01-06', 'USD', 'late', 1)")
    shop.apply(elsewhere)
    with pytest.raises(Refused, match=r"raw\.orders changed since .*: 2026-01-06"):
        shop.apply(inside)


def test_compacting_an_input_doesnt_make_a_plan_stale(shop: Shop) -> None:
    shop.open_doors()
    shop.sql("INSERT INTO raw.orders VALUES (555, DATE '2026-01-06', 'USD', 'late', 1)")
    plan = shop.plan("mart.orders_usd")
    shop.sql("CALL lake.system.rewrite_data_files(table => 'raw.orders', options => map('rewrite-all', 'true'))")
    shop.apply(plan)
    assert len(shop.production("mart.orders_usd")) == 97


def test_code_changed_since_the_plan_is_refused_and_a_comment_isnt(shop: Shop) -> None:
    shop.open_doors()
    plan = shop.plan("mart.orders_usd", end="2026-01-01")
    shop.edit("mart.orders_usd", "SELECT o.order_id", "-- one row per order\nSELECT   o.order_id")
    shop.apply(plan, until=Until.STAGED)
    shop.edit("mart.orders_usd", "o.amount * r.rate", "o.amount / r.rate")
    with pytest.raises(Refused, match=r"the code of mart\.orders_usd changed"):
        shop.apply(plan)


def test_inputs_are_pinned_for_the_whole_run(shop: Shop) -> None:
    shop.open_doors()
    shop.max_active = 1

    def orders_arrive(stage: Any, job: Any, target: Any) -> Any:
        shop.sql(f"INSERT INTO raw.orders VALUES ({1000 + target.wave}, DATE '2026-01-08', 'USD', 'late', 1)")
        return stage(job, target)

    plan = shop.plan("mart.orders_usd")
    shop.apply(plan, warehouse=Meddling(shop.workspace.warehouse, "stage", orders_arrive))
    assert shop.sql("SELECT count(*) FROM mart.orders_usd WHERE customer = 'late'") == [(0,)]
    assert shop.sql("SELECT sum(amount_usd) IS NOT NULL, count(*) FROM mart.orders_usd") == [(True, 96)]
    assert isinstance(shop.sql("SELECT sum(amount_usd) FROM mart.orders_usd")[0][0], Decimal)


def test_a_wave_that_lost_every_commit_to_others_is_written_again_and_then_told_in_one_line(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.open_doors()
    shop.max_active = 1
    jvm: Any = shop.workspace.spark._jvm
    nothing = shop.workspace.spark.sparkContext._gateway.new_array(jvm.java.lang.Object, 0)  # type: ignore[union-attr]
    lost = jvm.org.apache.iceberg.exceptions.CommitFailedException("the pointer moved\nand moved", nothing)
    real, left = PlannedWrite.run, iter(range(2))

    def loses(write: PlannedWrite) -> None:
        if next(left, None) is not None:
            raise Py4JJavaError("overwrite", lost)
        real(write)

    monkeypatch.setattr(PlannedWrite, "run", loses)
    shop.backfill("mart.orders_usd")
    assert len(shop.production("mart.orders_usd")) == 96
    left = iter(range(3 * TRIES))
    plan = shop.plan("mart.orders_usd")
    with pytest.raises(Fault, match=r"2026-01-01.*CommitFailedException: the pointer moved$") as fault:
        shop.apply(plan, backoff=lambda _: 0.0)
    assert fault.value.retryable
    assert [wave.attempts for wave in shop.workspace.ledger.waves(plan.id)] == [TRIES, 0, 0]
    shop.apply(plan)
    assert len(shop.production("mart.orders_usd")) == 96
