"""Reproducing: the code and snapshots on record once more, and what the record says to that."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from retcon.core.events import Reproduced
from retcon.core.measures import SliceMeasure
from retcon.core.reproductions import Outcome, Reproduction
from retcon.core.runs import Run
from retcon.core.slices import SliceSet
from retcon.errors import BadArguments, Refused
from retcon.flow.reproduce import Wanted, plan_trials, reproduce, require_reproducible, wanted_slices
from tests.shops import Meddling, Shop
from tests.spark.test_building_beside import DAILY, built
from tests.spark.test_conflicts import STATUSES
from tests.spark.test_python_models import FUNCTIONS, FX
from tests.spark.test_python_models import ORDERS as PYTHON_ORDERS
from tests.spark.test_running_totals import BALANCE

pytestmark = pytest.mark.spark

ORDERS, REVENUE = "mart.orders_usd", "mart.revenue"
EXPIRE = (
    "CALL lake.system.expire_snapshots(table => '{}', retain_last => 1, older_than => TIMESTAMP '2100-01-01 00:00:00')"
)


def reproduced(shop: Shop, run: Run, wanted: Wanted | None = None, **context: Any) -> Reproduction:
    """As the command does it."""
    found = shop.workspace.ledger.run(run.id) or run
    require_reproducible(found)
    tried = wanted_slices(found, wanted or Wanted(), shop.workspace.ledger)
    with shop.workspace.recorded(found, lambda _: None) as again:
        for name, part in context.items():
            setattr(again.context, name, part(getattr(again.context, name)))
        return reproduce(plan_trials(found, tried, again.lacking, again.context), again.context)


def outcomes(made: Reproduction) -> dict[str, int]:
    return {outcome.value: len(made.of(outcome)) for outcome in Outcome if made.of(outcome)}


def test_a_run_comes_out_again_whatever_became_of_code_inputs_and_production(shop: Shop) -> None:
    run = shop.open_for_business()
    snapshots = [facts.snapshot_id for name in (ORDERS, REVENUE) if (facts := shop.workspace.tables.facts(name))]
    shop.sql("UPDATE raw.orders SET amount = amount + 1")
    shop.edit(ORDERS, "o.amount * r.rate", "o.amount * r.rate * 2")
    shop.edit(ORDERS, "raw.rates: {time: rate_date}", "raw.rates: {time: rate_date, lookback: 1}")
    shop.remove(REVENUE)
    made = reproduced(shop, run)
    assert outcomes(made) == {"same": 16}
    assert made.exit_code == 0
    # Nothing is written: no snapshot, no branch, no file.
    again = [facts.snapshot_id for name in (ORDERS, REVENUE) if (facts := shop.workspace.tables.facts(name))]
    assert again == snapshots
    refs = shop.workspace.tables.refs(ORDERS)
    assert refs is not None
    assert [ref.name for ref in refs.refs if "reproduce" in ref.name] == []

    drawn = reproduced(shop, run, Wanted(model=ORDERS, most=2))
    assert [each.model for each in drawn.slices] == [ORDERS, ORDERS]
    assert reproduced(shop, run, Wanted(model=ORDERS, most=2)).slices == drawn.slices
    grain = run.plan.models[0].slices.grain
    some = Wanted(slices={ORDERS: SliceSet.parse(grain, "2026-01-02..2026-01-03")})
    assert [each.slice for each in reproduced(shop, run, some).slices] == ["2026-01-02", "2026-01-03"]
    with pytest.raises(BadArguments, match="none of these"):
        reproduced(shop, run, Wanted(slices={ORDERS: SliceSet.parse(grain, "2025-01-02")}))

    events = shop.workspace.ledger.events(run.id, kind=Reproduced)
    assert [event.body["same"] for event in events] == [16, 2, 2, 2]
    assert shop.workspace.teller.show_run(run).broken_link is None

    # A record that isn't of these rows is found out.
    def otherwise(real: Any, job: Any, like: Any) -> Any:
        found = dict(real(job, like))
        first = min(found)
        return {**found, first: SliceMeasure(rows=found[first].rows + 1, checksum="x")}

    def more(real: Any, job: Any, request: Any) -> Any:
        return dict.fromkeys(request.slices, 3)

    def meddled(warehouse: Any) -> Any:
        return Meddling(Meddling(warehouse, "recomputed", otherwise), "differing", more)

    made = reproduced(shop, run, Wanted(model=ORDERS), warehouse=meddled)
    assert outcomes(made) == {"same": 5, "differs": 3}
    assert {each.note for each in made.of(Outcome.DIFFERS)} == {"3 rows differ"}
    assert made.exit_code == 4


def test_what_has_expired_is_named_and_the_rest_is_computed(shop: Shop) -> None:
    run = shop.open_for_business()
    pin = run.pins["raw.orders"]
    shop.sql("INSERT INTO raw.orders VALUES (900, DATE '2026-01-05', 'EUR', 'late', 7)")
    shop.sql(EXPIRE.format("raw.orders"))
    made = reproduced(shop, run)
    assert outcomes(made) == {"same": 8, "impossible": 8}
    (why,) = {each.note for each in made.of(Outcome.IMPOSSIBLE)}
    assert f"snapshot {pin} of raw.orders has expired (it keeps them for 5 days" in why
    assert {each.model for each in made.of(Outcome.SAME)} == {REVENUE}
    assert made.exit_code == 1

    # The branch is gone, but what was published is all that was proven.
    for model in (ORDERS, REVENUE):
        shop.sql(f"ALTER TABLE {model} DROP BRANCH retcon_{run.id}")
        shop.sql(EXPIRE.format(model))
    assert outcomes(reproduced(shop, run, Wanted(model=REVENUE))) == {"same": 8}


def merged_statuses(shop: Shop) -> Run:
    """The second run of a model that merges: half of its rows stay."""
    shop.sql("CREATE TABLE raw.changes (order_id BIGINT, status STRING) USING iceberg")
    shop.sql("INSERT INTO raw.changes SELECT id, 'new' FROM range(40)")
    shop.write("mart.statuses", STATUSES)
    shop.backfill("mart.statuses", dates=False)
    shop.sql("DELETE FROM raw.changes WHERE order_id < 20")
    return shop.backfill("mart.statuses", dates=False)


def four_movements(shop: Shop) -> None:
    shop.sql("CREATE TABLE raw.movements (day DATE, account STRING, amount DECIMAL(12,2)) USING iceberg")
    shop.sql("INSERT INTO raw.movements SELECT date_add(DATE '2026-01-01', CAST(id AS INT)), 'a', id FROM range(4)")


def test_rows_that_stay_running_totals_buckets_and_tables_built_beside(shop: Shop) -> None:
    built(shop)
    shop.write("mart.totals", DAILY)
    beside = shop.backfill("mart.totals")
    assert outcomes(reproduced(shop, beside)) == {"same": 16}
    shop.rollback(beside)
    assert outcomes(reproduced(shop, beside)) == {"same": 16}
    assert outcomes(reproduced(shop, merged_statuses(shop))) == {"same": 4}
    four_movements(shop)
    shop.write("mart.balance", BALANCE)
    totals = shop.backfill("mart.balance", end="2026-01-04")
    assert outcomes(reproduced(shop, totals)) == {"same": 4}


def test_where_checksums_differ_the_rows_decide_with_rows_that_stay_and_slices_computed_apart_too(shop: Shop) -> None:
    shop.open_doors()
    merged = merged_statuses(shop)
    four_movements(shop)
    shop.write(
        "mart.counted",
        "/* retcon\nslices: {by: day, every: day}\ninputs: {raw.movements: {time: day}}\n*/\n"
        "SELECT day, account, count(*) OVER () AS n FROM raw.movements",
    )
    apart = shop.backfill("mart.counted", end="2026-01-04")

    def otherwise(real: Any, job: Any, like: Any) -> Any:
        return {slice: SliceMeasure(rows=each.rows, checksum="x") for slice, each in real(job, like).items()}

    for run in (merged, apart):
        made = reproduced(shop, run, warehouse=lambda real: Meddling(real, "recomputed", otherwise))
        assert outcomes(made) == {"same": 4}
        assert {each.note for each in made.slices} == {"the same rows, but for rounding in floating-point columns"}


def test_python_is_run_as_recorded_as_long_as_what_it_imports_is_the_same(shop: Shop) -> None:
    shop.open_doors()
    shop.remove(ORDERS, REVENUE)
    (shop.root / "lib").mkdir()
    (shop.root / "lib" / "fx.py").write_text(FX)
    (shop.root / "functions.py").write_text(FUNCTIONS)
    file = Path(shop.root / "models" / "mart" / "orders_usd.py")
    file.write_text(PYTHON_ORDERS)
    shop.close()
    run = shop.backfill(ORDERS, end="2026-01-02")
    file.write_text(PYTHON_ORDERS.replace('"order_id", "order_date"', '"order_date", "order_id"'))
    shop.close()
    assert outcomes(reproduced(shop, run)) == {"same": 2}
    (shop.root / "lib" / "fx.py").write_text(FX.replace("1.10", "1.20"))
    shop.close()
    made = reproduced(shop, run)
    assert outcomes(made) == {"impossible": 2}
    assert "project files that it imports aren't what they were" in made.slices[0].note


def test_a_run_that_was_never_published_has_nothing_to_reproduce(shop: Shop) -> None:
    shop.open_doors()
    run = shop.open(shop.plan())
    with pytest.raises(Refused, match="only what was published"):
        reproduced(shop, run)
