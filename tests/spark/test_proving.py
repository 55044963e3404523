"""Proving: gates that fail before anything is visible, overrides on record, and what makes a publish impossible."""

from __future__ import annotations

import os
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from retcon.core.jobs import MeasureRequest, UndoRequest
from retcon.core.runs import RunState
from retcon.errors import BadArguments, Conflict, GatesFailed, Refused, RetconError
from retcon.flow.apply import Override, Until
from retcon.lakehouse import measuring
from retcon.lakehouse.sessions import sized_session, summing_session, tasks_for
from tests.shops import Meddling, Shop

pytestmark = pytest.mark.spark


def test_a_drift_beyond_its_bound_stops_the_run_and_an_override_is_on_record(shop: Shop) -> None:
    shop.open_for_business()
    before = shop.production("mart.revenue")
    shop.edit("mart.orders_usd", "o.amount * r.rate", "o.amount * r.rate * 2")
    plan = shop.plan("mart.orders_usd", start="2026-01-02", end="2026-01-03")
    with pytest.raises(GatesFailed, match=r"2 gates failed: mart\.orders_usd:drift, mart\.revenue:drift") as error:
        shop.apply(plan)
    assert error.value.exit_code == 4
    assert shop.production("mart.revenue") == before

    with pytest.raises(BadArguments, match="reason"):
        shop.apply(plan, override=Override(gates=("mart.orders_usd:drift",)))
    with pytest.raises(GatesFailed, match=r"1 gate failed: mart\.revenue:drift"):
        shop.apply(plan, override=Override(gates=("mart.orders_usd:drift",), reason="prices doubled"))
    run = shop.apply(
        plan, until=Until.PROVEN, override=Override(gates=("mart.revenue:drift",), reason="prices doubled there too")
    )
    assert run.state is RunState.PROVEN
    assert shop.production("mart.revenue") == before
    shop.apply(plan)
    assert shop.production("mart.revenue") != before
    overrides = {v.verdict.model: v.override for v in shop.workspace.ledger.verdicts(plan.id) if v.override}
    assert overrides == {"mart.orders_usd": "prices doubled", "mart.revenue": "prices doubled there too"}


@pytest.mark.parametrize(("configured", "tasks"), [("8", 2), ("1", 1)])
def test_sums_by_slice_are_put_together_by_two_tasks_and_other_jobs_keep_what_is_configured(
    shop: Shop, configured: str, tasks: int
) -> None:
    running = shop.workspace.spark.newSession()
    running.conf.set("spark.sql.shuffle.partitions", configured)

    def tasks_of(session: SparkSession) -> int:
        summed = session.range(1_000).groupBy(F.expr("id % 90")).agg(F.sum("id"))
        return summed.rdd.getNumPartitions()

    assert tasks_of(summing_session(running, "lake")) == tasks
    assert tasks_of(sized_session(running, "lake", tasks_for(10_000, int(configured)))) == int(configured)


def _double_orders(shop: Shop) -> None:
    shop.sql(
        "INSERT INTO raw.orders SELECT 1000 + id, DATE '2026-01-02', 'USD', concat('d', id % 3), 7 FROM range(3000)"
    )
    shop.sql("INSERT INTO raw.orders SELECT * FROM raw.orders WHERE order_id IN (1, 9, 3500)")
    shop.sql("INSERT INTO raw.orders VALUES (NULL, DATE '2026-01-04', 'USD', 'x', 1)")


def test_small_files_are_measured_sixteen_by_a_task(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    shop.open_doors()
    shop.sql("DELETE FROM raw.orders")
    shop.sql("INSERT INTO raw.orders SELECT id, DATE '2026-01-01' + CAST(id AS INT), 'USD', 'a', 1 FROM range(17)")
    shop.write(
        "mart.ids",
        "/* retcon\nslices: {by: order_date, every: day}\ninputs: {raw.orders: {time: order_date}}\n*/\n"
        "SELECT order_date, order_id FROM raw.orders",
    )
    tasks: list[int] = []
    aggregated = measuring._aggregated

    def spied(frame: DataFrame, *given: Any) -> DataFrame:
        tasks.append(frame.rdd.getNumPartitions())
        return aggregated(frame, *given)

    monkeypatch.setattr(measuring, "_aggregated", spied)
    shop.backfill("mart.ids", end="2026-01-17")
    assert tasks == [2]

    shop.sql("INSERT OVERWRITE mart.ids SELECT * FROM mart.ids")  # so that production is read
    shop.backfill("mart.ids", end="2026-01-17")
    assert tasks == [2, 2, 2]


@pytest.mark.parametrize("key", ["order_id", "customer, amount_usd, order_id"])
@pytest.mark.parametrize(
    ("few", "many", "bits"),
    [(1_000_000, 1_000_000, 20), (0, 1_000_000, 20), (0, 0, 20), (0, 0, 10)],
    ids=["counted along", "shuffled", "grouped by slice", "grouped by slice in a map that is too small"],
)
def test_duplicates_and_null_keys_are_counted_and_refused(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, few: int, many: int, bits: int, key: str
) -> None:
    monkeypatch.setattr("retcon.flow.measure._FEW_ROWS", few)
    monkeypatch.setattr("retcon.lakehouse.measuring._MANY_ROWS", many)
    monkeypatch.setattr("retcon.lakehouse.measuring.bits_for", lambda _: bits)
    shop.once("orders that are there twice", lambda: _double_orders(shop.open_doors()))
    shop.edit("mart.orders_usd", "key: [order_date, order_id]", f"key: [order_date, {key}]")
    if not few:  # the maps are in the code that Spark makes
        shop.workspace.spark.conf.set("spark.sql.codegen.wholeStage", "true")
        shop.workspace.spark.conf.set("spark.sql.codegen.factoryMode", "FALLBACK")
    plan = shop.plan("mart.orders_usd")
    with pytest.raises(GatesFailed, match=r"1 gate failed: mart\.orders_usd:unique"):
        shop.apply(plan)
    [verdict] = [v.verdict for v in shop.workspace.ledger.verdicts(plan.id) if not v.verdict.passed]
    assert {(f.slice, f.text.split()[0]) for f in verdict.findings} == {("2026-01-02", "3"), ("2026-01-04", "1")}


@pytest.mark.parametrize("few", [1_000_000, 0])
def test_keys_are_counted_again_only_where_they_are_not_those_of_an_earlier_run(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, few: int
) -> None:
    shop.open_doors()
    shop.backfill("mart.orders_usd", end="2026-01-03")
    monkeypatch.setattr("retcon.flow.measure._FEW_ROWS", few)
    counted: list[str] = []
    count = shop.workspace.warehouse.duplicates

    def spied(request: MeasureRequest, *given: Any) -> Any:
        counted.extend(request.slices.labels)
        return count(request, *given)

    monkeypatch.setattr(shop.workspace.warehouse, "duplicates", spied)
    shop.sql("UPDATE raw.orders SET customer = 'other values, the same keys'")
    shop.backfill("mart.orders_usd", end="2026-01-03")
    assert counted == []

    shop.sql("INSERT INTO raw.orders VALUES (77, DATE '2026-01-03', 'USD', 'a new key', 1)")
    shop.backfill("mart.orders_usd", end="2026-01-03")
    assert counted == ["2026-01-03"]
    shop.backfill("mart.orders_usd", end="2026-01-03")
    assert counted == ["2026-01-03"]

    [[other]] = shop.sql("SELECT min(order_id) FROM raw.orders WHERE order_date = DATE '2026-01-03' AND order_id <> 77")
    shop.sql(f"UPDATE raw.orders SET order_id = {other} WHERE order_id = 77")  # as many rows as before
    for _ in range(2):  # what was found not to be a key isn't remembered as one
        with pytest.raises(GatesFailed, match=r"1 gate failed: mart\.orders_usd:unique"):
            shop.apply(plan := shop.plan("mart.orders_usd", end="2026-01-03"))
        [verdict] = [v.verdict for v in shop.workspace.ledger.verdicts(plan.id) if not v.verdict.passed]
        assert [(f.slice, f.text.split()[0]) for f in verdict.findings] == [("2026-01-03", "1")]


def test_keys_that_differ_by_less_than_checksums_tell_are_always_counted(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("retcon.flow.measure._FEW_ROWS", 0)
    shop.open_doors()
    shop.write(
        "mart.points",
        "/* retcon\nslices: {by: order_date, every: day}\nkey: [order_date, x]\ngates: [unique: key]\n"
        "inputs: {raw.orders: {time: order_date}}\n*/\n"
        "SELECT order_date, 1D + order_id * 1e-15D AS x FROM raw.orders",
    )
    shop.backfill("mart.points", end="2026-01-03")
    shop.edit("mart.points", "1e-15D", "0D")
    with pytest.raises(GatesFailed, match=r"mart\.points:unique"):
        shop.backfill("mart.points", end="2026-01-03")


@pytest.mark.parametrize(
    ("gate", "few"),
    [("unique: [order_date, nowhere]", 1_000_000), ("unique: [order_date, nowhere]", 0), ("not_null: [nowhere]", 0)],
)
def test_a_gate_on_columns_that_are_not_there_is_told_as_the_mistake_that_it_is(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, gate: str, few: int
) -> None:
    monkeypatch.setattr("retcon.flow.measure._FEW_ROWS", few)
    shop.open_doors()
    shop.write(
        "mart.everything",
        f"/* retcon\nslices: {{by: order_date, every: day}}\ngates: [{gate}]\n"
        "inputs: {raw.orders: {time: order_date}}\n*/\nSELECT * FROM raw.orders",
    )
    with pytest.raises(Refused, match=r"a gate can't be computed: .*nowhere") as refused:
        shop.backfill("mart.everything", end="2026-01-02")
    assert " pos " not in refused.value.message, "no place in a text that nobody wrote"


def test_a_key_without_the_slice_column_is_unique_over_the_whole_table(shop: Shop) -> None:
    shop.open_doors()
    shop.edit("mart.orders_usd", "key: [order_date, order_id]", "key: [order_id]")
    shop.backfill("mart.orders_usd", end="2026-01-04")
    shop.sql("INSERT INTO raw.orders VALUES (1, DATE '2026-01-06', 'USD', 'same id, another day', 1)")
    plan = shop.plan("mart.orders_usd", start="2026-01-05")
    with pytest.raises(GatesFailed, match="unique"):
        shop.apply(plan)
    [verdict] = [v.verdict for v in shop.workspace.ledger.verdicts(plan.id) if not v.verdict.passed]
    assert [f.slice for f in verdict.findings] == ["2026-01-06"]


def test_nulls_where_none_may_be_are_counted_per_slice(shop: Shop) -> None:
    shop.open_doors()
    shop.edit("mart.orders_usd", "CAST(o.amount * r.rate", "CAST(nullif(o.amount, 10) * r.rate")
    with pytest.raises(GatesFailed, match=r"mart\.orders_usd:not_null"):
        shop.backfill("mart.orders_usd")


def test_a_model_vouched_for_wrongly_is_caught_by_computing_one_slice_alone(shop: Shop) -> None:
    shop.open_doors()
    shop.write(
        "mart.numbered",
        "/* retcon\nslices: {by: order_date, every: day}\nreplay: {sliceable: true}\n"
        "inputs: {raw.orders: {time: order_date}}\n*/\n"
        "SELECT order_date, order_id, count(*) OVER () AS n FROM raw.orders",
    )
    plan = shop.plan("mart.numbered")
    with pytest.raises(GatesFailed, match=r"mart\.numbered:parity"):
        shop.apply(plan)
    shop.edit("mart.numbered", "replay: {sliceable: true}\n", "")
    shop.backfill("mart.numbered")
    assert shop.sql("SELECT DISTINCT n FROM mart.numbered") == [(12,)]


def test_sums_of_doubles_pass_parity_whatever_their_order(shop: Shop) -> None:
    shop.open_doors()
    shop.write(
        "mart.floats",
        "/* retcon\nslices: {by: order_date, every: day}\ninputs: {raw.orders: {time: order_date}}\n*/\n"
        "SELECT order_date, currency, sum(CAST(amount AS DOUBLE) / 3 + 1e9) AS s, avg(CAST(amount AS DOUBLE)) AS a, "
        "named_struct('s', sum(CAST(amount AS DOUBLE) / 3 + 1e9)) AS st, "
        "array(map('s', sum(CAST(amount AS DOUBLE) / 3 + 1e9))) AS arr "
        "FROM raw.orders GROUP BY order_date, currency",
    )
    for _ in range(2):
        shop.backfill("mart.floats")


def test_fields_in_another_order_or_case_than_the_tables_pass_parity(shop: Shop) -> None:
    shop.open_doors()
    shop.write(
        "mart.nested",
        "/* retcon\nslices: {by: order_date, every: day}\ninputs: {raw.orders: {time: order_date}}\n*/\n"
        "SELECT order_date, order_id, named_struct('who', customer, 'cur', currency) AS st, "
        "array(named_struct('who', customer, 'cur', currency)) AS arr FROM raw.orders",
    )
    shop.backfill("mart.nested")
    whole = "SELECT order_id, to_json(struct(st, arr)) FROM mart.nested"
    before = shop.rows(whole)
    shop.edit("mart.nested", "'who', customer, 'cur', currency", "'CUR', currency, 'who', customer")
    shop.backfill("mart.nested")
    assert shop.rows(whole) == before


def test_types_that_differ_are_refused_before_the_first_wave_naming_both(shop: Shop) -> None:
    shop.open_doors()
    shop.backfill("mart.orders_usd", end="2026-01-01")
    shop.edit("mart.orders_usd", "AS DECIMAL(18, 4)) AS amount_usd", "AS DECIMAL(18, 3)) AS amount_usd")
    plan = shop.plan("mart.orders_usd", end="2026-01-01")
    with pytest.raises(Refused, match=r"amount_usd: the query yields decimal\(18,3\), the table has decimal\(18,4\)"):
        shop.apply(plan)
    assert not [w for w in shop.workspace.ledger.waves(plan.id) if w.attempts]


def test_names_that_differ_are_refused_when_planning(shop: Shop) -> None:
    shop.open_doors()
    shop.backfill("mart.orders_usd", end="2026-01-01")
    shop.edit("mart.orders_usd", "o.customer,", "o.customer AS client,")
    with pytest.raises(
        Refused, match=r"the table has customer \(string, since snapshot \d+ of run \w+\), which the query"
    ):
        shop.plan("mart.orders_usd", end="2026-01-01")


def test_declared_columns_are_checked(shop: Shop) -> None:
    shop.open_doors()
    shop.edit("mart.revenue", "consumers:", "columns: {order_date: date, currency: string, orders: int, "
              "revenue_usd: 'decimal(28,4)'}\nconsumers:")  # fmt: skip
    with pytest.raises(Refused, match=r"mart\.revenue\.orders: the query yields bigint, `columns` says int"):
        shop.backfill()


def test_an_unknown_column_is_refused_with_the_file_and_a_suggestion(shop: Shop) -> None:
    shop.open_doors()
    shop.edit("mart.orders_usd", "o.currency, o.customer", "o.currency, o.custommer AS customer")
    with pytest.raises(RetconError, match="custommer") as error:
        shop.plan("mart.orders_usd")
    assert "customer" in error.value.next + error.value.message


TRAILING = """\
/* retcon
slices: {by: d, every: day}
inputs:
  mart.orders_usd: {time: order_date, lookback: 2}
*/
SELECT d, n, sum(n) OVER (ORDER BY d ROWS BETWEEN 2 PRECEDING AND CURRENT ROW) AS n3
FROM (SELECT order_date AS d, count(*) AS n FROM mart.orders_usd GROUP BY order_date)
"""


def break_the_branch(shop: Shop, branch: str) -> None:
    shop.sql(f"INSERT INTO mart.orders_usd.branch_{branch} VALUES (1, DATE '2026-01-02', 'USD', 'x', 1.0)")


def drop_the_branch(shop: Shop, branch: str) -> None:
    shop.sql(f"ALTER TABLE mart.orders_usd DROP BRANCH {branch}")


def add_a_column(shop: Shop, branch: str) -> None:
    shop.sql("ALTER TABLE mart.orders_usd ADD COLUMN extra INT")


def change_the_partitioning(shop: Shop, branch: str) -> None:
    shop.sql("ALTER TABLE mart.orders_usd ADD PARTITION FIELD currency")


def make_the_table_again(shop: Shop, branch: str) -> None:
    shop.sql("DROP TABLE mart.orders_usd")
    shop.sql("CREATE TABLE mart.orders_usd (order_id BIGINT, order_date DATE, currency STRING, customer STRING, "
             "amount_usd DECIMAL(18,4)) USING iceberg PARTITIONED BY (order_date)")  # fmt: skip


def lose_a_file(shop: Shop, branch: str) -> None:
    paths = shop.sql("SELECT file_path FROM mart.orders_usd.all_data_files")
    live = shop.files("mart.orders_usd")
    for (path,) in paths:
        if path not in live:
            os.remove(urlsplit(path).path)


def _refuse(shop: Shop, until: Until, sabotage: Any, message: str) -> None:
    """A run that got so far, and what somebody did then, is refused, and nothing is visible of it."""

    def build() -> None:
        shop.open_for_business()
        shop.apply(shop.plan("mart.orders_usd", start="2026-01-02", end="2026-01-03"), until=until)

    shop.once(f"business and a run that is {until}", build)
    [plan] = [run.plan for run in shop.workspace.ledger.runs() if run.state is not RunState.PUBLISHED]
    sabotage(shop, plan.branch)
    before = shop.files("mart.orders_usd"), shop.files("mart.revenue")
    with pytest.raises(Refused, match=message):
        shop.apply(plan)
    assert (shop.files("mart.orders_usd"), shop.files("mart.revenue")) == before


@pytest.mark.parametrize(
    ("sabotage", "message"),
    [
        (break_the_branch, r"branch .* points to snapshot"),
        (drop_the_branch, r"branch .* is gone"),
        (add_a_column, r"schema id was 0 and is 1"),
        (change_the_partitioning, r"partition spec id was 0 and is 1"),
        (make_the_table_again, r"uuid"),
        (lose_a_file, r"staged files of mart\.orders_usd are gone"),
    ],
)
def test_what_changed_since_it_was_proven_is_found_before_publishing(shop: Shop, sabotage: Any, message: str) -> None:
    _refuse(shop, Until.PROVEN, sabotage, message)


def move_the_branch_back(shop: Shop, branch: str) -> None:
    (head,) = shop.sql("SELECT snapshot_id FROM mart.orders_usd.refs WHERE name = 'main'")
    shop.sql(f"ALTER TABLE mart.orders_usd REPLACE BRANCH {branch} AS OF VERSION {head[0]}")


@pytest.mark.parametrize(
    ("sabotage", "message"),
    [
        (break_the_branch, r"branch .* was written by somebody else"),
        (drop_the_branch, r"branch .* is gone"),
        (move_the_branch_back, r"branch .* lacks wave 1, which was staged"),
    ],
)
def test_what_isnt_the_runs_own_work_is_never_proven(shop: Shop, sabotage: Any, message: str) -> None:
    _refuse(shop, Until.STAGED, sabotage, message)


def test_what_is_read_inside_a_run_may_not_change_until_the_very_swap(shop: Shop) -> None:
    shop.open_doors()
    shop.write("mart.trailing", TRAILING)
    shop.backfill("+mart.trailing", allow_missing_source=True)

    def land(real: Any, request: Any) -> Any:
        swap = real(request)
        if request.table.table == "mart.orders_usd":
            shop.sql("INSERT INTO mart.orders_usd VALUES (999, DATE '2026-01-04', 'USD', 'x', 1.0)")
        return swap

    # The sixth reads the fourth and fifth, which the run doesn't write.
    plan = shop.plan("mart.orders_usd", start="2026-01-06", end="2026-01-06")
    assert plan.model("mart.trailing") is not None
    warehouse = Meddling(shop.workspace.warehouse, "prepare_publish", land)
    with pytest.raises(Conflict, match=r"mart\.orders_usd: 2026-01-04 changed by others since this run began"):
        shop.apply(plan, warehouse=warehouse, rebase=False)


def test_a_rollback_is_never_prepared_over_what_landed_later(shop: Shop) -> None:
    shop.open_doors()
    run = shop.backfill("mart.orders_usd")
    shop.sql("INSERT INTO mart.orders_usd VALUES (999, DATE '2026-01-04', 'USD', 'x', 1.0)")
    (planned,), table = run.plan.models, run.tables["mart.orders_usd"]
    undo = UndoRequest(run=run.id, table=table, slices=planned.slices, seen=table.published_snapshot, before=None)
    with pytest.raises(Conflict, match=r"something landed in mart\.orders_usd after the publish"):
        shop.workspace.warehouse.prepare_rollback(undo)


def test_a_rollback_is_possible_until_the_retention_ends(shop: Shop) -> None:
    run = shop.open_for_business()
    shop.now += timedelta(days=14, seconds=1)
    with pytest.raises(Refused, match="could be rolled back until 2026-02-05"):
        shop.rollback(run)
    shop.now -= timedelta(seconds=2)
    shop.rollback(run)


def test_the_log_of_spark_is_kept_and_nothing_of_it_is_shown(shop: Shop, capfd: pytest.CaptureFixture[str]) -> None:
    shop.open_doors()
    capfd.readouterr()
    shop.edit("mart.orders_usd", "o.amount * r.rate", "o.amount / (r.rate - r.rate)")
    with pytest.raises(RetconError, match="DIVIDE_BY_ZERO"):
        shop.backfill("mart.orders_usd", end="2026-01-01")
    out, err = capfd.readouterr()
    assert (out, err) == ("", "")
    assert Path(shop.root, ".retcon", "logs").is_dir()


def test_production_is_read_only_where_somebody_wrote_since_the_ledger_knew_it(shop: Shop) -> None:
    shop.open_doors()
    shop.backfill("mart.orders_usd")
    shop.sql("INSERT INTO mart.orders_usd VALUES (999, DATE '2026-01-05', 'USD', 'by hand', 7.0)")
    known: list[set[str]] = []

    def watched(measure: Any, request: Any) -> Any:
        known.append({slice.label for slice in request.known})
        return measure(request)

    plan = shop.plan("mart.orders_usd")
    shop.apply(plan, warehouse=Meddling(shop.workspace.warehouse, "measure", watched))
    assert known == [{f"2026-01-0{day}" for day in (1, 2, 3, 4, 6, 7, 8)}]
    old = {s.slice: (s.old_rows, s.old_checksum == s.checksum) for s in shop.workspace.ledger.slices(plan.id)}
    assert old.pop("2026-01-05") == (13, False)
    assert set(old.values()) == {(12, True)}


def test_a_gate_that_was_reviewed_cant_be_left_out_afterwards(shop: Shop) -> None:
    shop.open_doors()
    plan = shop.plan("mart.orders_usd")
    shop.edit("mart.orders_usd", "  - not_null: [amount_usd]\n", "")
    with pytest.raises(Refused, match=r"the gates of mart\.orders_usd \(not_null left out\)"):
        shop.apply(plan)
