"""What a plan expects of its correction, judged on real rows."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession

from retcon.core.expectations import Expectation
from retcon.core.gates import Verdict
from retcon.core.jobs import MeasureRequest
from retcon.core.plans import Plan
from retcon.core.runs import RunState
from retcon.core.slices import Grain, SliceSet
from retcon.errors import GatesFailed, Refused
from retcon.flow.apply import Until, apply
from retcon.lakehouse.expecting import _expected, compared
from retcon.project.plan_files import with_expectations
from tests.shops import Shop

pytestmark = pytest.mark.spark

ORDERS = "mart.orders_usd"


def expecting(shop: Shop, expect: Any, **ask: Any) -> Plan:
    return with_expectations(shop.plan(ORDERS, start="2026-01-02", end="2026-01-04", **ask), expect, "--expect")


def verdicts(shop: Shop, plan: Plan) -> dict[str, Verdict]:
    return {v.verdict.gate: v.verdict for v in shop.workspace.ledger.verdicts(plan.id) if v.verdict.kind == "expect"}


def test_a_correction_is_held_to_what_its_plan_says(shop: Shop) -> None:
    shop.open_for_business()
    shop.edit(ORDERS, "o.amount * r.rate", "o.amount * r.rate * if(o.currency = 'EUR', 1.02, 1)")
    right = {"metric": "sum(amount_usd)", "change": {"from": "1%", "to": "3%"}, "where": "currency = 'EUR'"}
    wrong = {"metric": "avg(amount_usd)", "change": {"to": "1%"}, "where": "currency = 'EUR'", "unchanged": "true"}
    plan = expecting(
        shop, [{**right, "unchanged": "currency <> 'EUR'"}, wrong, {**right, "where": None, "change": {"from": "0.1%"}}]
    )
    with pytest.raises(GatesFailed, match=r"1 gate failed: mart\.orders_usd:expect-2"):
        shop.apply(plan)
    found = verdicts(shop, plan)
    assert set(found) == {"expect", "expect-2", "expect-3"}
    assert found["expect"].passed
    assert "+2.00%" in found["expect"].summary
    assert found["expect-3"].passed
    # The average of three days and the total, and each day with other rows.
    assert Counter(f.slice for f in found["expect-2"].findings) == {
        None: 1, "2026-01-02": 2, "2026-01-03": 2, "2026-01-04": 2,
    }  # fmt: skip

    # Edited: judged by what it says now, and that is on record.
    edited = replace(plan, expect=plan.expect[:1])
    run = apply(shop.open(edited), shop.context(), until=Until.PROVEN, expect=edited.expect)
    assert run.state is RunState.PROVEN
    assert run.plan.expect == edited.expect
    ledger = shop.workspace.ledger
    assert [e.body["expect"] is not None for e in ledger.events(plan.id) if e.kind == "ApplyBegan"] == [False, True]
    # A proven run whose expectation changes isn't published by what it was proven for.
    stricter = with_expectations(plan, {"unchanged": "currency = 'EUR'"}, "x")
    with pytest.raises(GatesFailed, match=r"mart\.orders_usd:expect"):
        apply(shop.open(stricter), shop.context(), expect=stricter.expect)
    run = apply(shop.open(edited), shop.context(), expect=edited.expect)
    assert run.state is RunState.PUBLISHED
    report = shop.workspace.teller.show_run(run)
    [(expectation, recorded)] = report.expectations
    assert expectation == edited.expect[0]
    assert recorded is not None
    assert recorded.holds


def test_a_condition_that_no_row_meets_is_no_evidence_of_a_change(shop: Shop) -> None:
    shop.open_for_business()
    shop.edit(ORDERS, "o.amount * r.rate", "o.amount * r.rate * if(o.currency = 'EUR', 1.02, 1)")
    mistyped = {"metric": "sum(amount_usd)", "where": "currency = 'EURO'"}
    plan = expecting(shop, [{**mistyped, "change": {"from": "1%"}}, {**mistyped, "change": {"from": "-1%"}}])
    with pytest.raises(GatesFailed, match=r"1 gate failed: mart\.orders_usd:expect"):
        shop.apply(plan)
    found = verdicts(shop, plan)
    [finding] = found["expect"].findings
    assert finding.text.startswith("no row meets currency = 'EURO', before or after")
    assert (found["expect-2"].passed, found["expect-2"].summary) == (True, "no row meets currency = 'EURO'")


def test_what_is_expected_holds_with_new_columns_and_on_first_slices(shop: Shop) -> None:
    shop.open_doors()
    shop.backfill(ORDERS, start="2026-01-02", end="2026-01-03")
    shop.edit(ORDERS, "SELECT o.order_id", "SELECT upper(o.customer) AS shouted, o.order_id")
    same = {"unchanged": "currency IS NOT NULL AND order_id >= 0"}
    plan = expecting(shop, [same, {"metric": "count(shouted)", "change": {"to": "0%"}, "where": "shouted <> ''"}])
    shop.apply(plan)
    found = verdicts(shop, plan)
    assert found["expect"].summary == "unchanged where currency IS NOT NULL AND order_id >= 0"
    assert "3 slices new" in found["expect-2"].summary
    # Stated in words that only Spark objects to.
    plan = expecting(shop, {"unchanged": "no_such_function(currency)"})
    with pytest.raises(Refused, match=r"what is expected of mart\.orders_usd can't be computed"):
        shop.apply(plan)


def test_a_double_is_unchanged_whose_last_bit_another_order_of_summing_explains(shop: Shop) -> None:
    shop.open_doors()
    # Neighbours, of which one is rounded down and one up before they are hashed.
    low, high = "1.0000000000009095D", "1.0000000000009097D"
    shop.edit(ORDERS, "SELECT o.order_id", f"SELECT {low} AS x, o.order_id")
    shop.backfill(ORDERS)
    shop.edit(ORDERS, low, f"if(o.order_date = DATE '2026-01-03' AND o.order_id = 2, 1.1D, {high})")
    plan = expecting(shop, {"unchanged": "currency IS NOT NULL"})
    with pytest.raises(GatesFailed, match=r"mart\.orders_usd:expect"):
        shop.apply(plan)
    assert [finding.slice for finding in verdicts(shop, plan)["expect"].findings] == ["2026-01-03"]
    shop.apply(expecting(shop, {"unchanged": "currency IS NOT NULL AND order_id <> 2"}))


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> SparkSession:
    folder: Path = tmp_path_factory.mktemp("expecting")
    return Shop(folder / "shop", "sqlite:///.retcon/lake.db").workspace.spark


Rows = list[tuple[str | None, int | None, float | None]]
row = st.tuples(
    st.sampled_from(["USD", "EUR", None]), st.none() | st.integers(0, 2), st.sampled_from([0.0, -0.0, 1.5, None])
)
pairs = st.lists(st.tuples(st.lists(row, max_size=4), st.lists(row, max_size=4)), min_size=30, max_size=40)


def table(spark: SparkSession, days: list[Rows]) -> DataFrame:
    rows = [{"d": number, "c": c, "n": n, "x": x} for number, day in enumerate(days) for c, n, x in day]
    schema = "ARRAY<STRUCT<d: INT, c: STRING, n: BIGINT, x: DOUBLE>>"
    text = f"SELECT date_from_unix_date(d) AS d, c, n, x FROM (SELECT inline(from_json(:rows, '{schema}')))"
    return spark.sql(text, args={"rows": json.dumps(rows)})


@given(days=pairs, keep=st.lists(st.booleans(), min_size=40, max_size=40))
@settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck))
def test_unchanged_finds_every_change_of_a_row_in_its_filter_and_no_other(
    shared_request: MeasureRequest, spark: SparkSession, days: list[tuple[Rows, Rows]], keep: list[bool]
) -> None:
    # Half of the days keep their rows in the filter, in another order, and change whatever else they like.
    def is_in(row: tuple[Any, ...]) -> bool:
        return row[0] == "USD" and row[1] is not None

    both = [
        (before, [r for r in after if not is_in(r)] + [r for r in reversed(before) if is_in(r)] if kept else after)
        for (before, after), kept in zip(days, keep, strict=False)
    ]
    staged, old = table(spark, [after for _, after in both]), table(spark, [before for before, _ in both])
    expectation = Expectation(model="m.m", unchanged="c = 'USD' AND n IS NOT NULL")
    rows = compared(staged, old, shared_request, [expectation]).collect()
    found = {slice.ordinal for slice in _expected(rows, 0, expectation, shared_request).unlike}
    told = {
        number
        for number, (before, after) in enumerate(both)
        if Counter(r for r in before if is_in(r)) != Counter(r for r in after if is_in(r))
    }
    assert found == told


@pytest.fixture(scope="module")
def shared_request(tmp_path_factory: pytest.TempPathFactory) -> MeasureRequest:
    shop = Shop(tmp_path_factory.mktemp("request") / "shop", "sqlite:///.retcon/lake.db")
    shop.write(
        "mart.orders_usd", "/* retcon\nslices: {by: d}\ninputs: {raw.s: {time: d}}\n*/\nSELECT d, c, n FROM raw.s"
    )
    shop.remove("mart.revenue")
    return MeasureRequest(
        model=shop.workspace.project.graph.model("mart.orders_usd"),
        table="mart.orders_usd",
        slices=SliceSet.span(Grain.DAY, 0, 60),
        metrics=(),
        not_null=(),
        staged=1,
        production=1,
        production_table="mart.orders_usd",
        known={},
    )
