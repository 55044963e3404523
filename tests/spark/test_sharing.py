"""An input that every wave reads whole is read once, and let go when they are done."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from retcon.core.jobs import Job
from retcon.core.reads import Read
from retcon.core.runs import RunState
from retcon.errors import Fault, Refused
from retcon.flow.apply import Until
from retcon.lakehouse.scoped_reads import ScopedReads
from tests.shops import Meddling, Shop

pytestmark = pytest.mark.spark

NAMED = """\
/* retcon
slices: {by: order_date, every: day}
inputs: {raw.orders: {time: order_date}, raw.customers: {}}
replay: {wave: 2}
*/
SELECT o.order_date, o.order_id, c.name FROM raw.orders o JOIN raw.customers c ON c.customer = o.customer
"""


@pytest.fixture
def named(shop: Shop) -> Shop:
    shop.open_doors()
    (shop.root / "customers.csv").write_text("customer,name\n" + "".join(f"c{n},customer {n}\n" for n in range(5)))
    settings = shop.root / "retcon.yaml"
    source = "{format: csv, path: customers.csv, columns: {customer: string, name: string}}"
    settings.write_text(settings.read_text() + f"sources: {{raw.customers: {source}}}\n")
    shop.write("mart.named", NAMED)
    return shop


def held(shop: Shop) -> int:
    """Frames that Spark keeps in memory."""
    return int(shop.workspace.spark.sparkContext._jsc.getPersistentRDDs().size())  # type: ignore[union-attr]


def test_waves_read_a_shared_text_once_and_let_it_go(named: Shop) -> None:
    before = held(named)
    kept: list[int] = []

    def counting(real: Any, *words: Any) -> Any:
        done = real(*words)
        kept.append(held(named) - before)
        return done

    def alone(real: Any, job: Job, *words: Any) -> Any:
        assert job.reads["raw.customers"].is_kept
        return counting(real, job, *words)

    plan = named.plan("mart.named")
    assert any("raw.customers would be read whole 4 times" in note for note in plan.notes)
    staging = Meddling(named.context().warehouse, "stage", counting)
    named.apply(plan, warehouse=Meddling(staging, "differs_alone", alone))
    assert kept == [1] * 5, "one frame for four waves, and for the slice that is computed alone"
    assert held(named) == before
    wanted = "SELECT order_date, order_id, concat('customer ', substr(customer, 2)) FROM raw.orders"
    assert named.production("mart.named") == named.rows(wanted)


def test_jobs_of_other_sizes_read_the_same_that_is_kept(named: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """They run in sessions of their own."""
    named.edit("mart.named", "replay: {wave: 2}", "replay: {wave: 3}")  # the last one is smaller
    plan = named.plan("mart.named")
    monkeypatch.setattr("retcon.lakehouse.staging._SMALL_SLICE", 0)
    monkeypatch.setattr("retcon.lakehouse.sessions._A_TASK", 2_500)
    before = held(named)
    kept: list[int] = []
    sessions: set[SparkSession] = set()
    compute = ScopedReads.compute

    def computing(reads: ScopedReads, job: Job) -> DataFrame:
        sessions.add(reads.spark)
        return compute(reads, job)

    def counting(real: Any, *words: Any) -> Any:
        done = real(*words)
        kept.append(held(named) - before)
        return done

    monkeypatch.setattr(ScopedReads, "compute", computing)
    staging = Meddling(named.context().warehouse, "stage", counting)
    named.apply(plan, warehouse=Meddling(staging, "differs_alone", counting))
    assert len(sessions) > 2
    assert kept == [1] * 4
    assert held(named) == before


def test_a_run_that_is_proven_by_another_process_keeps_nothing_for_it(named: Shop) -> None:
    before = held(named)
    plan = named.plan("mart.named")
    named.apply(plan, until=Until.STAGED)
    assert held(named) == before

    def alone(real: Any, job: Job, *words: Any) -> Any:
        assert not job.reads["raw.customers"].is_kept
        return real(job, *words)

    run = named.apply(plan, warehouse=Meddling(named.context().warehouse, "differs_alone", alone))
    assert run.state is RunState.PUBLISHED


def test_what_is_kept_is_let_go_where_a_wave_fails(named: Shop) -> None:
    before = held(named)
    named.edit("mart.named", "c.name FROM", "if(o.order_id = 95, raise_error('no'), c.name) AS name FROM")
    with pytest.raises(Fault, match="no"):
        named.apply(named.plan("mart.named"), until=Until.STAGED)
    assert held(named) == before


def test_a_kept_table_can_be_joined_with_itself_in_python(named: Shop) -> None:
    (named.root / "models/mart/pairs.py").write_text(
        "from retcon.models import Day, Input, model\n\n\n"
        "@model('mart.pairs', slices=Day('order_date'), sliceable=True, replay={'wave': 2},\n"
        "       inputs={'orders': Input('raw.orders', time='order_date'), 'one': Input('raw.customers'),\n"
        "               'other': Input('raw.customers')})\n"
        "def pairs(orders, one, other):\n"
        "    both = one.join(other, one.customer == other.customer).select(one.customer, other.name)\n"
        "    return orders.select('order_date', 'order_id', 'customer').join(both, 'customer')\n"
    )
    plan = named.plan("mart.pairs")
    assert any("raw.customers would be read whole" in note for note in plan.notes)
    named.apply(plan)
    [[rows]] = named.sql("SELECT count(*) FROM mart.pairs")
    assert rows == 96


def test_rows_that_are_dropped_for_what_else_is_in_them_are_dropped_alike_in_many_waves(named: Shop) -> None:
    """A column that nobody reads must not decide, however many waves there are, which rows come."""
    (named.root / "customers.csv").write_text("customer,name,born\nc0,a,1990\nc1,b,?\n")
    settings = named.root / "retcon.yaml"
    columns = "columns: {customer: string, name: string"
    text = settings.read_text().replace(columns, f"options: {{mode: DROPMALFORMED}}, {columns}, born: int")
    settings.write_text(text)
    assert not any("read whole" in note for note in named.plan("mart.named").notes), "and the plan says nothing else"
    named.backfill("mart.named")
    wave_by_wave = named.production("mart.named")
    named.edit("mart.named", "replay: {wave: 2}", "replay: {wave: 8}")
    named.backfill("mart.named")
    assert named.production("mart.named") == wave_by_wave


BEFORE_IT = """\
/* retcon
slices: {by: order_date, every: day}
inputs:
  a: {table: raw.orders, time: order_date}
  b: {table: raw.orders, time: order_date, lookback: 1}
replay: {wave: 1}
*/
SELECT a.order_date, a.order_id, count(b.order_id) AS before_it
FROM raw.orders a LEFT JOIN raw.orders b ON b.order_date = a.order_date - INTERVAL 1 DAY
GROUP BY a.order_date, a.order_id
"""


def test_waves_of_a_query_open_a_table_once_and_each_reads_its_own_of_it(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.open_doors()
    shop.max_active = 1
    shop.write("mart.before", BEFORE_IT)
    real, opened = ScopedReads._open, []

    def counted(reads: ScopedReads, read: Read, mark: str, *more: Any) -> Any:
        # Proving reads what is staged; that is another table.
        opened.extend([(reads.spark, read.snapshot_id)] if read.table == "raw.orders" else [])
        return real(reads, read, mark, *more)

    monkeypatch.setattr(ScopedReads, "_open", counted)
    first = shop.apply(shop.plan("mart.before", start="2026-01-02"))
    assert len(shop.workspace.ledger.waves(first.id)) > 5
    assert len(opened) == len(set(opened)), "once by each session"
    wanted = (
        "SELECT order_date, order_id, (SELECT count(*) FROM raw.orders b WHERE b.order_date = a.order_date - 1) "
        "FROM raw.orders a WHERE order_date > DATE '2026-01-01'"
    )
    assert shop.production("mart.before") == shop.rows(wanted)
    # Another snapshot is another answer, however young the last one is.
    shop.sql("INSERT INTO raw.orders SELECT order_id + 1000, * EXCEPT (order_id) FROM raw.orders")
    opened.clear()
    shop.backfill("mart.before", start="2026-01-02")
    assert {snapshot for _, snapshot in opened} != {first.pins["raw.orders"]}
    assert shop.production("mart.before") == shop.rows(wanted)


def test_a_snapshot_whose_files_go_between_two_waves_is_told_as_gone(shop: Shop) -> None:
    shop.open_doors()
    shop.max_active = 1
    shop.write("mart.before", BEFORE_IT)
    plan = shop.plan("mart.before", start="2026-01-02")

    def expiring(real: Any, *words: Any) -> Any:
        done = real(*words)
        shop.sql("INSERT OVERWRITE raw.orders SELECT * FROM raw.orders")
        shop.sql("CALL lake.system.expire_snapshots('raw.orders', TIMESTAMP '2100-01-01 00:00:00', 1)")
        return done

    with pytest.raises(Refused, match="is gone") as refused:
        shop.apply(plan, warehouse=Meddling(shop.context().warehouse, "stage", expiring))
    assert "plan --refresh" in refused.value.next


RATED = """\
/* retcon
slices: {by: order_date, every: day}
inputs: {raw.orders: {time: order_date}, raw.rates: {}}
replay: {wave: 1}
*/
SELECT o.order_date, o.order_id, (SELECT max(rate) FROM raw.rates) AS rate FROM raw.orders o
"""
RATES = """\
/* retcon
slices: {by: rate_date, every: day}
inputs: {raw.rates: {time: rate_date}, mart.one: {time: order_date}, mart.other: {time: order_date}}
*/
SELECT r.rate_date, r.currency, r.rate FROM raw.rates r
LEFT SEMI JOIN mart.one ON one.order_date = r.rate_date
LEFT SEMI JOIN mart.other ON other.order_date = r.rate_date
"""


def test_a_part_of_a_table_that_others_keep_whole_is_read_from_its_files(shop: Shop) -> None:
    """In memory it would be neither pruned nor by partition."""
    shop.open_doors()
    for name in ("one", "other"):
        shop.write(f"mart.{name}", RATED)
    shop.write("mart.rates", RATES)
    plan = shop.plan("mart.one", "mart.other", "mart.rates")
    assert any("raw.rates would be read whole" in note for note in plan.notes)
    run = shop.apply(plan)
    assert _reads_memory(shop, f"{run.id}_0_mart__one")
    assert not _reads_memory(shop, f"{run.id}_2_mart__rates")
    wanted = "SELECT rate_date, currency, rate FROM raw.rates WHERE rate_date IN (SELECT order_date FROM raw.orders)"
    assert shop.production("mart.rates") == shop.rows(wanted)


def _reads_memory(shop: Shop, name: str) -> bool:
    """Does some wave, of those that Spark knows by this name, read what is kept?"""
    store = shop.workspace.spark._jsparkSession.sharedState().statusStore()
    executions = store.executionsList()
    found = [each for each in map(executions.apply, range(executions.size())) if each.description().startswith(name)]
    assert found
    return any("InMemoryTableScan" in each.physicalPlanDescription() for each in found)
