"""Declared gates on real tables: what they find is what plain Python finds, and values are shown only with leave."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable
from datetime import date, timedelta
from decimal import Decimal
from random import Random

import pytest

from retcon.core.gates import Verdict
from retcon.core.plans import Plan
from retcon.errors import GatesFailed, Refused
from retcon.flow.apply import Until
from tests.shops import Shop

pytestmark = pytest.mark.spark

FIRST = date(2026, 1, 1)
DAYS = 21
KINDS = [None, "a", "b", "it's", "ü"]
CODES = [None, 1, 2, 3]
Row = tuple[date, str | None, int | None, Decimal]

PASSED_ON = """\
/* retcon
slices: {by: d, every: day}
inputs: {raw.t: {time: d}}
gates:
  - null_rate: {columns: {kind: 25%, code: 0}, warn: true}
  - accepted: {columns: {kind: ["it's", a], code: [1, 2.0, 2.5, 99999999999999999999]}, warn: true}
  - accepted: {columns: {d: [2026-01-02, 2026-01-03], x: [0, 1.50]}, name: others, warn: true}
  - foreign_key: {cols: [code, kind], to: raw.known, on: [n, k], warn: true}
  - no_rows: {sql: "SELECT t.d FROM mart.t t LEFT ANTI JOIN raw.known k ON k.n = t.code WHERE t.code > 1", warn: true}
  - no_rows: {sql: "SELECT count(*) AS n FROM mart.t HAVING count(*) > 1", name: whole, warn: true}
  - reconcile: {source: raw.t, by: d, metric: sum(x), mart: sum(x), tolerance: 10%, where: code IS NOT NULL, warn: true}
  - reconcile:
      {name: near, source: raw.t, by: d, metric: count(code), mart: count(*), tolerance: {absolute: 1}, warn: true}
*/
SELECT d, kind, code, x FROM raw.t WHERE x <> 7
"""


def verdicts(shop: Shop, plan: Plan) -> dict[str, Verdict]:
    return {v.verdict.gate: v.verdict for v in shop.workspace.ledger.verdicts(plan.id)}


def by_slice(verdict: Verdict) -> set[str | None]:
    return {finding.slice for finding in verdict.findings}


def drawn(seed: int) -> list[Row]:
    """A random small table for each day: every day is a case of its own."""
    random = Random(seed)
    return [
        (
            FIRST + timedelta(days=day),
            random.choice(KINDS),
            random.choice(CODES),
            Decimal(random.choice(["0", "1.5", "2", "7"])),
        )
        for day in range(DAYS)
        for _ in range(random.choice([1, 1, 2, 5, 9]))
    ]


def literal(value: object) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, date):
        return f"DATE '{value}'"
    return f"CAST({value} AS DECIMAL(6,2))" if isinstance(value, Decimal) else repr(value)


def values(rows: Iterable[tuple[object, ...]]) -> str:
    return ", ".join(f"({', '.join(literal(each) for each in row)})" for row in rows)


def counted(rows: Iterable[Row], is_wrong: Callable[[Row], bool]) -> dict[str, int]:
    return dict(Counter(row[0].isoformat() for row in rows if is_wrong(row)))


def told(verdict: Verdict) -> dict[str | None, int]:
    """By slice, the number with which its finding begins."""
    return {finding.slice: int(finding.text.split()[0].replace(",", "")) for finding in verdict.findings}


def test_what_gates_find_is_what_plain_python_finds(shop: Shop) -> None:
    raw, known = drawn(7), [(1, "a"), (1, "ü"), (2, "b"), (None, "b"), (3, None)]
    rows = [row for row in raw if row[3] != 7]
    days = sorted({row[0].isoformat() for row in raw})
    shop.sql("CREATE NAMESPACE IF NOT EXISTS raw")
    shop.sql("CREATE TABLE raw.t (d DATE, kind STRING, code INT, x DECIMAL(6,2)) USING iceberg PARTITIONED BY (d)")
    shop.sql("CREATE TABLE raw.known (n BIGINT, k STRING) USING iceberg")
    shop.sql(f"INSERT INTO raw.t VALUES {values(raw)}")
    shop.sql(f"INSERT INTO raw.known VALUES {values(known)}")
    shop.remove("mart.orders_usd", "mart.revenue")
    shop.write("mart.t", PASSED_ON.replace("gates:", "allow_empty: true\ngates:"))
    plan = shop.plan("mart.t", end=days[-1])
    shop.apply(plan, until=Until.PROVEN)
    found = verdicts(shop, plan)

    of = {day: [row for row in rows if row[0].isoformat() == day] for day in days}
    full = {day: [row for row in raw if row[0].isoformat() == day] for day in days}
    assert by_slice(found["null_rate"]) == {
        day
        for day in days
        if sum(r[1] is None for r in of[day]) * 4 > len(of[day]) or any(r[2] is None for r in of[day])
    }
    accepted = {
        day: [n for n in (sum(r[1] not in (None, "it's", "a") for r in of[day]), sum(r[2] == 3 for r in of[day])) if n]
        for day in days
    }
    assert told(found["accepted"]) == {day: counts[0] for day, counts in accepted.items() if counts}
    others = [sum(r[3] == 2 for r in of[day]) for day in days]
    on_other_days = [0 if day in ("2026-01-02", "2026-01-03") else len(of[day]) for day in days]
    assert told(found["others"]) == {
        day: of_days or of_x for day, of_days, of_x in zip(days, on_other_days, others, strict=True) if of_days or of_x
    }
    keys = {key for key in known if None not in key}
    assert told(found["foreign_key"]) == counted(
        rows, lambda r: r[1] is not None and r[2] is not None and (r[2], r[1]) not in keys
    )
    assert "raw.known at snapshot " in found["foreign_key"].summary
    assert told(found["no_rows"]) == {}
    assert told(found["whole"]) == {None: 1}
    assert "raw." not in found["whole"].summary
    wrong, near = set(), set()
    for day in days:
        there = [r for r in full[day] if r[2] is not None]
        source, mart = sum(r[3] for r in there), sum(r[3] for r in of[day])
        is_missing = bool(there) != bool(of[day])
        if is_missing or abs(mart - source) > source / 10:
            wrong.add(day)
        if not of[day] or abs(len(of[day]) - len(there)) > 1:  # `where` isn't there: every row of the source counts
            near.add(day)
    assert by_slice(found["reconcile"]) == wrong
    assert by_slice(found["near"]) == near
    assert wrong != near
    # None of the values of rows: the model doesn't let them be shown.
    assert not any("e.g." in finding.text for verdict in found.values() for finding in verdict.findings)


def test_a_query_may_return_columns_of_one_name(shop: Shop) -> None:
    shop.open_doors()
    twice = "SELECT a.*, b.* FROM mart.orders_usd a JOIN mart.orders_usd b ON a.order_id = b.order_id"
    one = (
        f"SELECT order_date, order_id AS n, customer AS N FROM ({twice.replace('b.*', '1 AS one')}) WHERE order_id = 8"
    )
    shop.edit("mart.orders_usd", "gates:\n", f"samples: true\ngates:\n  - no_rows: {one}\n"
              f"  - no_rows: {{sql: \"{twice} WHERE a.order_id = 8\", name: twice}}\n")  # fmt: skip
    plan = shop.plan("mart.orders_usd", end="2026-01-02")
    with pytest.raises(GatesFailed, match="2 gates failed"):
        shop.apply(plan)
    found = verdicts(shop, plan)
    assert found["no_rows"].findings[0].text == "e.g. order_date=2026-01-01, n=8, N=c3 (1 rows)"
    assert by_slice(found["no_rows"]) == {None, "2026-01-01"}
    # Which of two slice columns is meant, nobody knows.
    assert by_slice(found["twice"]) == {None}


BESIDE = """\
/* retcon
slices: {by: order_date, every: day}
inputs: {mart.orders_usd: {time: order_date}}
samples: true
gates:
  - accepted: {currency: [USD]}
  - foreign_key: {cols: [order_date, currency], to: mart.revenue}
  - no_rows: SELECT currency FROM mart.beside WHERE orders > 1
  - reconcile: {source: mart.orders_usd, by: order_date, metric: avg(amount_usd), mart: max(usd) / 2, tolerance: 1%}
*/
SELECT order_date, if(currency = 'EUR', 'EUR ', currency) AS currency, count(*) AS orders, sum(amount_usd) AS usd
FROM mart.orders_usd GROUP BY order_date, currency
"""


def test_a_model_is_looked_at_as_it_is_staged_and_examples_are_shown_with_leave(shop: Shop) -> None:
    shop.open_doors()
    shop.write("mart.beside", BESIDE)
    plan = shop.plan("mart.*", end="2026-01-02")
    with pytest.raises(GatesFailed, match="4 gates failed"):
        shop.apply(plan)
    found = {
        v.verdict.gate: v.verdict for v in shop.workspace.ledger.verdicts(plan.id) if v.verdict.model == "mart.beside"
    }
    assert found["accepted"].findings[0].text == "e.g. currency=EUR  (2 rows)"
    assert [(f.slice, f.text) for f in found["foreign_key"].findings] == [
        (
            None,
            "e.g. order_date=2026-01-01, currency=EUR  (1 rows); order_date=2026-01-02, currency=EUR  (1 rows)",
        ),
        ("2026-01-01", "1 rows whose order_date, currency isn't in mart.revenue"),
        ("2026-01-02", "1 rows whose order_date, currency isn't in mart.revenue"),
    ]
    # Published never, and found on the branch: nothing else was there to be recorded.
    assert found["foreign_key"].summary == "order_date, currency in mart.revenue: 2 rows without a match"
    assert found["no_rows"].findings[0].slice is None
    assert found["no_rows"].summary == "4 rows found"
    assert by_slice(found["reconcile"]) == {"2026-01-01", "2026-01-02"}

    shop.edit("mart.beside", "{currency: [USD]}", "{columns: {currency: [1]}, warn: true}")
    with pytest.raises(Refused, match="`accepted` lists numbers for currency, which is string"):
        shop.apply(shop.plan("mart.*", end="2026-01-02"))


SUITE = [
    ("expect_column_values_to_be_in_set", {"column": "currency", "value_set": ["USD"]}),
    ("expect_table_row_count_to_be_between", {"min_value": 1, "max_value": 3}),
    ("expect_column_max_to_be_between", {"column": "orders", "max_value": 1}),
    ("expect_column_values_to_not_be_null", {"column": "order_date"}),
    ("expect_compound_columns_to_be_unique", {"column_list": ["order_date", "currency"]}),
]
ON_REVENUE = "gates:\n  - great_expectations: {suite: revenue.json}"


def write_suite(shop: Shop, *expectations: tuple[str, dict[str, object]]) -> None:
    document = {"name": "revenue", "expectations": [{"type": type, "kwargs": kwargs} for type, kwargs in expectations]}
    (shop.root / "revenue.json").write_text(json.dumps(document))


@pytest.mark.filterwarnings("ignore")  # of the library's own
def test_a_suite_of_great_expectations_is_a_gate(shop: Shop, capfd: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("great_expectations")
    shop.open_doors()
    shop.edit("mart.revenue", "gates:", ON_REVENUE)
    write_suite(shop, *SUITE)
    plan = shop.plan(end="2026-01-02")
    before = shop.sql("SET")
    with pytest.raises(GatesFailed, match=r"1 gate failed: mart\.revenue:great_expectations"):
        shop.apply(plan)
    assert shop.sql("SET") == before
    verdict = verdicts(shop, plan)["great_expectations"]
    assert [finding.text for finding in verdict.findings] == [
        "expect_column_max_to_be_between of orders",
        "expect_column_values_to_be_in_set of currency: 2 of 4 rows unexpected",
        "expect_table_row_count_to_be_between: observed 4",
    ]
    assert verdict.summary == "revenue.json: 2 of 5 met"

    shop.edit("mart.revenue", "gates:", "samples: true\ngates:")
    with pytest.raises(GatesFailed):
        shop.apply(plan)
    assert [finding.text for finding in verdicts(shop, plan)["great_expectations"].findings][:2] == [
        "expect_column_max_to_be_between of orders: observed 8",
        "expect_column_values_to_be_in_set of currency: 2 of 4 rows unexpected, e.g. EUR, EUR",
    ]
    for wrong, why in (
        (("expect_nothing", {}), "expect_nothing of revenue.json: expect_nothing not found"),
        (
            ("expect_column_values_to_not_be_null", {"colum": "a"}),
            "expect_column_values_to_not_be_null of revenue.json",
        ),
        (("expect_column_max_to_be_between", {"column": "nope", "max_value": 1}), 'The column "nope"'),
    ):
        write_suite(shop, SUITE[0], wrong)
        shop.close()
        with pytest.raises(Refused, match=why):
            shop.apply(plan)
    assert "Calculating Metrics" not in capfd.readouterr().err


def test_a_suite_without_the_library_is_refused_before_anything_is_staged(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.open_doors()
    shop.edit("mart.revenue", "gates:", ON_REVENUE)
    write_suite(shop, *SUITE)
    plan = shop.plan(end="2026-01-02")
    monkeypatch.setattr("retcon.lakehouse.suites.find_spec", lambda _: None)
    with pytest.raises(Refused, match="the library is not installed") as refused:
        shop.apply(plan)
    assert "pip install 'retcon[great-expectations]'" in refused.value.next
    assert not [wave for wave in shop.workspace.ledger.waves(plan.id) if wave.attempts]
