"""Tables cut by entity: buckets, key scopes and upserts."""

from __future__ import annotations

import pytest

from retcon.errors import Conflict, GatesFailed, Refused
from retcon.flow.apply import Until
from tests.shops import Shop

pytestmark = pytest.mark.spark

CUSTOMERS = """\
/* retcon
slices: {by: customer, buckets: 4}
key: [customer]
inputs:
  raw.orders: {key: customer}
replay: {wave: 2}
gates:
  - unique: key
*/
SELECT customer, count(*) AS orders, sum(amount) AS amount FROM raw.orders GROUP BY customer
"""
LABELS = """\
/* retcon
slices: {by: customer, buckets: 4}
inputs:
  mart.customers: {key: customer}
*/
SELECT customer, if(amount > 500, 'big', 'small') AS label FROM mart.customers
"""
TOTALS = """\
/* retcon
inputs:
  mart.customers: {}
*/
SELECT sum(orders) AS orders, sum(amount) AS amount FROM mart.customers
"""
RECOMPUTED = "SELECT customer, count(*), sum(amount) FROM raw.orders GROUP BY customer"


def in_buckets(shop: Shop) -> Shop:
    """Twenty customers in four buckets, and two models that read them."""
    shop.open_doors()
    shop.sql("INSERT INTO raw.orders SELECT 1000 + id, DATE '2026-01-02', 'USD', concat('c', id), 7.5 FROM range(20)")
    shop.write("mart.customers", CUSTOMERS)
    shop.write("mart.labels", LABELS)
    shop.write("mart.totals", TOTALS)
    return shop


def test_buckets_are_staged_proven_published_and_restated_as_days_are(shop: Shop) -> None:
    in_buckets(shop)
    first = shop.plan("+mart.labels", "mart.totals", dates=False)
    assert [model.slices.text for model in first.models] == ["b0..b3", "b0..b3", "all"]
    assert len(first.models[0].waves) == 2
    assert first.interval is None
    shop.apply(first)
    assert shop.production("mart.customers") == shop.rows(RECOMPUTED)
    assert shop.sql("SELECT sum(orders) FROM mart.totals") == shop.sql("SELECT count(*) FROM raw.orders")
    assert shop.production("mart.labels") == shop.rows(
        "SELECT customer, if(sum(amount) > 500, 'big', 'small') FROM raw.orders GROUP BY customer"
    )

    shop.sql("INSERT INTO raw.orders VALUES (5000, DATE '2026-01-02', 'USD', 'c3', 900), "
             "(5001, DATE '2026-01-02', 'USD', NULL, 1)")  # fmt: skip
    plan = shop.plan("mart.customers", dates=False)
    assert any("1 rows without a customer are in no slice" in note for note in plan.notes)
    shop.apply(plan, until=Until.PROVEN)
    other = shop.sql("SELECT DISTINCT system.bucket(4, customer) FROM mart.customers WHERE customer = 'c3'")[0][0]
    shop.sql("INSERT INTO mart.customers VALUES ('c3', 1, 1.0)")
    with pytest.raises(Conflict, match=rf"mart\.customers: b{other} changed by others"):
        shop.apply(plan)
    run = shop.backfill("mart.customers", dates=False)
    assert shop.production("mart.customers") == shop.rows(f"{RECOMPUTED} HAVING customer IS NOT NULL")
    assert ("c3", "big") in shop.production("mart.labels")
    before = shop.rows(f"SELECT * FROM mart.customers VERSION AS OF 'retcon_before_{run.id}'")
    shop.rollback(run)
    assert shop.production("mart.customers") == before


def test_a_bucket_is_counted_in_the_type_of_the_table_not_of_the_input(shop: Shop) -> None:
    shop.open_doors()
    shop.sql("CREATE TABLE raw.visits (customer_id STRING, pages INT) USING iceberg")
    shop.sql("INSERT INTO raw.visits SELECT CAST(id % 17 AS STRING), 1 FROM range(100)")
    shop.write(
        "mart.visits",
        "/* retcon\nslices: {by: customer_id, buckets: 4}\ninputs: {raw.visits: {key: customer_id}}\n*/\n"
        "SELECT CAST(customer_id AS BIGINT) AS customer_id, sum(pages) AS pages FROM raw.visits GROUP BY 1",
    )
    plan = shop.plan("mart.visits", dates=False)
    assert len(plan.models[0].waves) == 4, "bucket by bucket, since the key is changed on its way"
    shop.apply(plan)
    assert shop.production("mart.visits") == shop.rows(
        "SELECT CAST(customer_id AS BIGINT), sum(pages) FROM raw.visits GROUP BY 1"
    )


def test_a_row_without_its_key_or_with_another_one_stops_the_wave(shop: Shop) -> None:
    shop.open_doors()
    shop.write(
        "mart.customers",
        CUSTOMERS.replace("SELECT customer,", "SELECT if(customer = 'c1', NULL, customer) AS customer,"),
    )
    with pytest.raises(GatesFailed, match="customer = NULL is outside the slices"):
        shop.backfill("mart.customers", dates=False)
    shop.write("mart.customers", CUSTOMERS.replace("SELECT customer,", "SELECT upper(customer) AS customer,"))
    with pytest.raises(GatesFailed, match="is outside the slices"):
        shop.backfill("mart.customers", dates=False)


def test_a_table_in_the_same_buckets_of_another_type_is_refused(shop: Shop) -> None:
    shop.open_doors()
    shop.sql("CREATE TABLE raw.visits (customer_id STRING, pages INT) USING iceberg "
             "PARTITIONED BY (bucket(4, customer_id))")  # fmt: skip
    shop.sql("INSERT INTO raw.visits VALUES ('17', 1)")
    shop.write(
        "mart.visits",
        "/* retcon\nslices: {by: customer_id, buckets: 4}\ninputs: {raw.visits: {key: customer_id}}\n*/\n"
        "SELECT CAST(customer_id AS BIGINT) AS customer_id, pages FROM raw.visits",
    )
    with pytest.raises(Refused, match="which is string: the same key isn't in the same bucket"):
        shop.backfill("mart.visits", dates=False)
