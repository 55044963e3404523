"""Tables cut by entity: buckets, key scopes and upserts."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pyspark.sql import functions as F

from retcon.errors import BadArguments, Conflict, GatesFailed, Refused
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
        shop.apply(plan, rebase=False)
    run = shop.backfill("mart.customers", dates=False)
    assert shop.production("mart.customers") == shop.rows(f"{RECOMPUTED} HAVING customer IS NOT NULL")
    assert ("c3", "big") in shop.production("mart.labels")
    before = shop.rows(f"SELECT * FROM mart.customers VERSION AS OF 'retcon_before_{run.id}'")
    shop.rollback(run)
    assert shop.production("mart.customers") == before


def test_a_bucket_is_counted_in_the_type_of_the_table_not_of_the_input(shop: Shop) -> None:
    shop.open_doors()
    shop.sql("CREATE TABLE raw.visits (customer_id STRING, pages INT) USING iceberg")
    shop.sql("INSERT INTO raw.visits SELECT CAST(15 + id % 3 AS STRING), 1 FROM range(100)")
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
    shop.sql("DELETE FROM raw.visits WHERE customer_id = '17'")
    with pytest.raises(GatesFailed, match=r"mart\.visits:empty"):
        shop.backfill("mart.visits", dates=False)


def test_a_row_without_its_key_or_with_another_one_stops_the_wave(shop: Shop) -> None:
    shop.open_doors()
    shop.write(
        "mart.customers",
        CUSTOMERS.replace("SELECT customer,", "SELECT if(customer = 'c1', NULL, customer) AS customer,"),
    )
    with pytest.raises(GatesFailed, match="customer = NULL is outside the slices"):
        shop.backfill("mart.customers", dates=False)
    shop.write("mart.customers", CUSTOMERS.replace("SELECT customer,", "SELECT upper(customer) AS customer,"))
    plan = shop.plan("mart.customers", dates=False)
    with pytest.raises(GatesFailed, match=r"a row with customer = C\d is outside the slices"):
        shop.apply(plan)
    errors = {wave.error for wave in shop.workspace.ledger.waves(plan.id) if wave.error}
    assert all(": a row is outside the slices" in error for error in errors), "whose it is isn't kept"


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


BUG = ("CAST(o.amount * r.rate AS DECIMAL(18, 4))", "CAST(o.amount * r.rate * 2 AS DECIMAL(18, 4))")
REPAIRED = """
SELECT o.order_id, o.order_date, o.currency, o.customer, CAST(o.amount * r.rate AS DECIMAL(18,4))
FROM raw.orders o JOIN raw.rates r ON r.rate_date = o.order_date AND r.currency = o.currency
"""
DOWNSTREAM = """
SELECT order_date, currency, count(*), sum(amount_usd) FROM mart.orders_usd GROUP BY order_date, currency
"""


def published_with_a_bug(shop: Shop) -> Shop:
    """Orders whose amounts were doubled, and the mended model; its source says which column carries the customer."""
    shop.open_doors()
    shop.sql(
        "INSERT INTO raw.orders SELECT 1000 + id, DATE '2026-01-02', 'USD', concat('k', id), id + 1 FROM range(300)"
    )
    shop.sql("INSERT INTO raw.orders VALUES (9000, DATE '2026-01-03', 'USD', NULL, 5)")
    shop.edit("mart.orders_usd", "  - drift: {metric: sum(amount_usd), within: 50%}\n", "")
    shop.edit("mart.revenue", "gates:\n  - drift: {metric: sum(revenue_usd), within: 50%}\n", "")
    shop.edit("mart.orders_usd", "raw.orders: {time: order_date}", "raw.orders: {time: order_date, key: customer}")
    shop.edit("mart.orders_usd", *BUG)
    shop.backfill()
    shop.edit("mart.orders_usd", *reversed(BUG))
    return shop


def test_only_the_rows_of_the_keys_are_recomputed_and_all_others_are_carried_over(shop: Shop) -> None:
    published_with_a_bug(shop)
    before = shop.production("mart.orders_usd")
    shop.sql("DELETE FROM raw.orders WHERE customer = 'c2' AND order_date = DATE '2026-01-04'")
    keys = shop.workspace.listed_keys("customer=c1,c2,nobody").keys
    plan = shop.plan("mart.orders_usd", keys=keys)
    assert {model.name: model.is_keyed for model in plan.models} == {"mart.orders_usd": True, "mart.revenue": False}
    assert any("mart.revenue: whole slices are recomputed: none of its inputs" in note for note in plan.notes)

    run = shop.apply(plan)

    ours = "customer IN ('c1', 'c2')"
    assert shop.rows(f"SELECT * FROM mart.orders_usd WHERE {ours}") == shop.rows(
        f"SELECT * FROM ({REPAIRED}) WHERE {ours}"
    )
    others = f"SELECT * FROM mart.orders_usd %s WHERE ({ours}) IS NOT TRUE"
    assert shop.rows(others % "") == shop.rows(others % f"VERSION AS OF 'retcon_before_{run.id}'")
    assert shop.production("mart.orders_usd") != before
    assert shop.production("mart.revenue") == shop.rows(DOWNSTREAM)
    verdicts = {(v.verdict.model, v.verdict.gate): v.holds for v in shop.workspace.ledger.verdicts(run.id)}
    assert verdicts["mart.orders_usd", "other_keys"]
    assert {c.content for c in shop.workspace.ledger.consumption(run.id) if c.model == "mart.orders_usd"} == {
        f"keys:{run.id}"
    }


def test_many_keys_are_joined_from_the_file_beside_the_plan(shop: Shop) -> None:
    published_with_a_bug(shop)
    listed = shop.root / "keys.csv"
    listed.write_text("customer\n" + "".join(f"k{n}\n" for n in range(250)))
    gathered = shop.workspace.keys_from(str(listed))
    plan = shop.plan("mart.orders_usd", keys=gathered.keys)
    shop.workspace.write_plan(plan, gathered)
    assert not plan.keys.values
    shop.apply(shop.workspace.read_plan(plan.id))
    mended = "SELECT customer FROM mart.orders_usd WHERE customer LIKE 'k%' AND amount_usd < order_id - 998"
    assert {customer for (customer,) in shop.sql(mended)} == {f"k{n}" for n in range(250)}
    assert shop.sql("SELECT count(*) FROM mart.orders_usd WHERE customer IS NULL") == [(1,)]
    by_query = shop.workspace.keys_from("SELECT DISTINCT customer FROM raw.orders WHERE customer LIKE 'k29%'")
    assert sorted(by_query.keys.values) == ["k29", *(f"k29{n}" for n in range(10))]


def test_a_row_of_another_key_that_changed_on_the_branch_fails_its_gate(shop: Shop) -> None:
    published_with_a_bug(shop)
    plan = shop.plan("mart.orders_usd", keys=shop.workspace.listed_keys("customer=c1").keys)
    shop.apply(plan, until=Until.STAGED)
    branch = f"mart.orders_usd.branch_{plan.branch}"
    rows = shop.workspace.spark.table(branch).withColumn("currency", F.expr("if(customer = 'k7', 'SEK', currency)"))
    # As a wave with a defect would leave it.
    rows.writeTo(branch).option("snapshot-property.retcon.run", plan.id).overwrite(F.lit(True))
    with pytest.raises(GatesFailed, match=r"mart\.orders_usd:other_keys"):
        shop.apply(plan)


STATUSES = """\
/* retcon
slices: {by: order_id, buckets: 4}
strategy: merge
key: [order_id]
inputs:
  raw.changes: {key: order_id}
*/
SELECT order_id, status, amount FROM raw.changes
"""


def forty_new(shop: Shop) -> None:
    """Orders whose statuses are merged, and published once."""
    shop.sql("CREATE NAMESPACE IF NOT EXISTS raw")
    shop.sql("CREATE TABLE raw.changes (order_id BIGINT, status STRING, amount INT) USING iceberg")
    shop.sql("INSERT INTO raw.changes SELECT id, 'new', 1 FROM range(40)")
    shop.write("mart.statuses", STATUSES)
    shop.backfill("mart.statuses", dates=False)


def test_merged_rows_take_the_place_of_their_keys_and_all_others_stay(shop: Shop) -> None:
    shop.sql("CREATE NAMESPACE IF NOT EXISTS raw")
    shop.sql("CREATE TABLE raw.changes (order_id BIGINT, status STRING, amount INT) USING iceberg")
    shop.sql("INSERT INTO raw.changes SELECT id, 'new', 1 FROM range(40)")
    shop.write("mart.statuses", STATUSES)
    shop.write(
        "mart.newest", STATUSES.replace("slices: {by: order_id, buckets: 4}\n", "").replace("{key: order_id}", "")
    )
    shop.backfill("mart.statuses", "mart.newest", dates=False)
    shop.sql("DELETE FROM raw.changes")
    shop.sql("INSERT INTO raw.changes SELECT id, 'paid', NULL FROM range(30, 50)")

    run = shop.backfill("mart.statuses", "mart.newest", dates=False)

    expected = shop.rows("SELECT id, if(id < 30, 'new', 'paid'), if(id < 30, 1, NULL) FROM range(50)")
    for table in ("mart.statuses", "mart.newest"):
        assert shop.production(table) == expected, table
        again = shop.backfill(table, dates=False)
        assert shop.production(table) == expected, "upserting the same again changes nothing"
        shop.rollback(again)
    shop.rollback(run)
    assert shop.production("mart.statuses") == shop.rows("SELECT id, 'new', 1 FROM range(40)")

    shop.write("mart.statuses", STATUSES.replace(", amount", ", CAST(amount AS INT) AS amount, 'eur' AS currency"))
    shop.backfill("mart.statuses", dates=False)
    expected = shop.rows(
        "SELECT id, if(id < 30, 'new', 'paid'), if(id < 30, 1, NULL), if(id < 30, NULL, 'eur') FROM range(50)"
    )
    assert shop.production("mart.statuses") == expected, "a new column is NULL in rows that stay"


def test_a_renamed_column_isnt_lost_in_rows_that_stay(shop: Shop) -> None:
    forty_new(shop)
    shop.sql("DELETE FROM raw.changes WHERE order_id <> 7")
    shop.sql("ALTER TABLE mart.statuses RENAME COLUMN amount TO paid")
    shop.write("mart.statuses", STATUSES.replace("status, amount", "'paid' AS status, amount AS paid"))
    with pytest.raises(Refused, match="amount is paid now"):
        shop.backfill("mart.statuses", dates=False)
    # As the error says.
    shop.sql("DELETE FROM mart.statuses WHERE order_id = 39")
    shop.sql("INSERT INTO mart.statuses VALUES (39, 'new', 1)")
    shop.backfill("mart.statuses", dates=False)
    expected = shop.rows("SELECT id, if(id = 7, 'paid', 'new'), 1 FROM range(40)")
    assert shop.production("mart.statuses") == expected


def test_fields_of_rows_that_stay_go_by_their_names_as_those_of_new_ones_do(shop: Shop) -> None:
    nested = STATUSES.replace(
        "status, amount",
        "named_struct('b', 'b', 'a', 'a') AS s, array(named_struct('b', 'b', 'a', 'a'), NULL) AS list, "
        "map('k', named_struct('b', 'b', 'a', 'a')) AS m, "
        "if(order_id < 5, NULL, named_struct('b', 'b', 'a', 'a')) AS none",
    )
    shop.sql("CREATE NAMESPACE IF NOT EXISTS raw")
    shop.sql("CREATE TABLE raw.changes (order_id BIGINT) USING iceberg")
    shop.sql("INSERT INTO raw.changes SELECT id FROM range(10)")
    shop.write("mart.statuses", nested)
    shop.backfill("mart.statuses", dates=False)
    whole = "SELECT order_id, to_json(struct(s, list, m, none)) FROM mart.statuses"
    before = shop.rows(whole)
    shop.sql("DELETE FROM raw.changes WHERE order_id <> 7")

    shop.write("mart.statuses", nested.replace("'b', 'b', 'a', 'a'", "'A', 'a', 'b', 'b'"))
    shop.backfill("mart.statuses", dates=False)

    assert shop.rows(whole) == before


@pytest.mark.parametrize(("rows", "key"), [("(3, 'a', 1), (3, 'b', 2)", "3"), ("(NULL, 'a', 1)", "NULL")])
def test_a_key_of_several_rows_or_of_none_stops_the_wave(shop: Shop, rows: str, key: str) -> None:
    shop.sql("CREATE NAMESPACE IF NOT EXISTS raw")
    shop.sql("CREATE TABLE raw.changes (order_id BIGINT, status STRING, amount INT) USING iceberg")
    shop.sql(f"INSERT INTO raw.changes VALUES (1, 'x', 1), {rows}")
    shop.write(
        "mart.newest", STATUSES.replace("slices: {by: order_id, buckets: 4}\n", "").replace("{key: order_id}", "")
    )
    plan = shop.plan("mart.newest", dates=False)
    with pytest.raises(GatesFailed, match=rf"\({key}\) isn't the key of one row"):
        shop.apply(plan)
    [wave] = shop.workspace.ledger.waves(plan.id)
    assert wave.error is not None
    assert wave.error.startswith("mart.newest, all: a key isn't that of one row")


PYTHON = """\
from pyspark.sql import functions as F
from retcon.models import Buckets, Input, model


@model(
    "mart.by_code",
    slices=Buckets("id", 4),
    strategy="merge",
    key=["id"],
    inputs={"visits": Input("raw.visits", key="customer_id")},
)
def by_code(visits):
    return visits.groupBy(F.col("customer_id").cast("bigint").alias("id")).agg(F.sum("pages").alias("pages"))
"""


def test_files_that_are_not_iceberg_feed_buckets_keys_and_python(shop: Shop) -> None:
    settings = shop.root / "retcon.yaml"
    columns = "{customer_id: string, pages: int}"
    settings.write_text(
        settings.read_text() + f"sources: {{raw.visits: {{format: csv, path: data, columns: {columns}}}}}\n"
    )
    shop.close()
    visits = shop.root / "data" / "visits.csv"
    visits.parent.mkdir()
    visits.write_text("customer_id,pages\n" + "".join(f"{n % 20},1\n" for n in range(60)))
    shop.write(
        "mart.visits",
        "/* retcon\nslices: {by: customer_id, buckets: 4}\ninputs: {raw.visits: {key: customer_id}}\n*/\n"
        "SELECT customer_id, sum(pages) AS pages FROM raw.visits GROUP BY customer_id",
    )
    (shop.root / "models" / "mart" / "by_code.py").write_text(PYTHON)
    shop.close()
    shop.backfill("mart.visits", "mart.by_code", dates=False)
    assert shop.production("mart.visits") == shop.rows("SELECT CAST(id AS STRING), 3 FROM range(20)")
    assert shop.production("mart.by_code") == shop.rows("SELECT id, 3 FROM range(20)")

    visits.write_text("customer_id,pages\n7,5\n8,5\n")
    plan = shop.plan("mart.visits", "mart.by_code", dates=False, keys=shop.workspace.listed_keys("customer_id=7").keys)
    assert [model.is_keyed for model in plan.models] == [model.name == "mart.visits" for model in plan.models]
    shop.apply(plan)
    assert shop.production("mart.visits") == shop.rows("SELECT CAST(id AS STRING), if(id = 7, 5, 3) FROM range(20)")
    assert shop.production("mart.by_code") == shop.rows("SELECT id, if(id IN (7, 8), 5, 3) FROM range(20)")


PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "entities-and-keys.md"


def test_the_page_about_entities_does_what_it_says(shop: Shop) -> None:
    customers, orders, *_ = re.findall(r"```sql\n(.*?)```", PAGE.read_text(), re.DOTALL)
    shop.sql("CREATE NAMESPACE IF NOT EXISTS raw")
    shop.sql("CREATE TABLE raw.orders (order_id BIGINT, customer_id BIGINT, amount DECIMAL(10,2)) USING iceberg")
    shop.sql("INSERT INTO raw.orders SELECT id, id % 50, id FROM range(200)")
    shop.sql("CREATE TABLE raw.order_changes (order_id BIGINT, status STRING, changed_at TIMESTAMP) USING iceberg")
    shop.sql("INSERT INTO raw.order_changes SELECT id, 'new', TIMESTAMP '2026-01-01 00:00:00' FROM range(20)")
    shop.write("mart.customers", customers)
    shop.write("mart.order_status", orders)
    plan = shop.plan("mart.customers", "mart.order_status", dates=False)
    assert [(model.slices.text, len(model.waves)) for model in plan.models] == [("b0..b7", 1)] * 2
    shop.apply(plan)
    recomputed = "SELECT customer_id, count(*), sum(amount) FROM raw.orders GROUP BY customer_id"
    assert shop.production("mart.customers") == shop.rows(recomputed)

    before = shop.production("mart.customers")
    shop.sql("INSERT INTO raw.orders VALUES (900, 17, 5), (901, 18, 5)")
    keys = shop.workspace.listed_keys("customer_id=17,42").keys
    plan = shop.plan("mart.customers", keys=keys, dates=False)
    hashed = shop.sql("SELECT DISTINCT system.bucket(8, id) FROM range(50) WHERE id IN (17, 42) ORDER BY 1")
    assert plan.models[0].slices.ordinals == tuple(bucket for (bucket,) in hashed)
    shop.apply(plan)
    assert shop.production("mart.customers") - before == shop.rows(f"{recomputed} HAVING customer_id = 17")
    with pytest.raises(BadArguments, match="'c17' is no bigint"):
        shop.plan("mart.customers", keys=shop.workspace.listed_keys("customer_id=c17").keys, dates=False)

    shop.sql("DELETE FROM raw.order_changes WHERE order_id < 10")
    shop.sql("INSERT INTO raw.order_changes VALUES (15, 'paid', TIMESTAMP '2026-01-02 00:00:00')")
    shop.backfill("mart.order_status", dates=False)
    assert shop.rows("SELECT order_id, status FROM mart.order_status") == shop.rows(
        "SELECT id, if(id = 15, 'paid', 'new') FROM range(20)"
    )


def test_buckets_in_an_environment_are_built_beside_production_and_keys_are_restated_there(shop: Shop) -> None:
    settings = shop.root / "retcon.yaml"
    settings.write_text(settings.read_text() + "environments: {staging: {prefix: staging_}}\n")
    in_buckets(shop)
    shop.backfill("+mart.labels", dates=False)
    before = shop.production("mart.customers")
    shop.sql("INSERT INTO raw.orders SELECT 6000 + id, DATE '2026-01-02', 'USD', concat('c', id), 900 FROM range(3)")
    shop.close()
    shop.environment = "staging"
    shop.backfill("+mart.labels", dates=False)
    assert shop.production("staging_mart.customers") == shop.rows(RECOMPUTED)
    assert shop.sql("SELECT label FROM staging_mart.labels WHERE customer = 'c1'") == [("big",)]

    shop.sql("DELETE FROM raw.orders WHERE customer IN ('c1', 'c2')")
    plan = shop.plan("mart.customers", dates=False, keys=shop.workspace.listed_keys("customer=c1").keys)
    assert {model.name: model.is_keyed for model in plan.models} == {
        "staging_mart.customers": True,
        "staging_mart.labels": True,
    }
    shop.apply(plan)
    for table in ("customers", "labels"):
        listed = shop.rows(f"SELECT customer FROM staging_mart.{table} WHERE customer IN ('c1', 'c2')")
        assert listed == {("c2",): 1}, table
    assert shop.production("mart.customers") == before
    assert shop.rows("SELECT customer FROM mart.labels WHERE customer = 'c1'") == {("c1",): 1}


def test_keys_of_a_merged_model_widen_to_whole_slices_and_the_plan_says_why(shop: Shop) -> None:
    forty_new(shop)
    shop.sql("DELETE FROM raw.changes")
    shop.sql("INSERT INTO raw.changes VALUES (3, 'paid', 2), (4, 'paid', 2)")
    plan = shop.plan("mart.statuses", dates=False, keys=shop.workspace.listed_keys("order_id=3").keys)
    assert not plan.models[0].is_keyed
    assert plan.models[0].slices.text == "b0..b3"
    assert any("its strategy is merge, which leaves keys that aren't computed alone" in note for note in plan.notes)
    shop.apply(plan)
    assert shop.production("mart.statuses") == shop.rows(
        "SELECT id, if(id IN (3, 4), 'paid', 'new'), if(id IN (3, 4), 2, 1) FROM range(40)"
    )


def test_a_table_in_buckets_is_adopted_and_restated_bucket_by_bucket(shop: Shop) -> None:
    shop = in_buckets(shop)
    shop.sql("CREATE NAMESPACE IF NOT EXISTS mart")
    shop.sql("CREATE TABLE mart.customers (customer STRING, orders BIGINT, amount DECIMAL(22,2)) USING iceberg "
             "PARTITIONED BY (bucket(8, customer))")  # fmt: skip
    shop.sql("INSERT INTO mart.customers SELECT customer, 0, 0 FROM raw.orders GROUP BY customer")
    w = shop.workspace
    with pytest.raises(
        Refused, match=r"partitioned by bucket\[8\]\(customer\), the model is sliced by customer into 4"
    ):
        w.adopter.adopt("mart.customers", "the nightly job's", clock=w.clock, who=w.who)
    shop.sql("ALTER TABLE mart.customers REPLACE PARTITION FIELD bucket(8, customer) WITH bucket(4, customer)")
    with pytest.raises(Refused, match="hold rows of more than one slice") as refused:
        w.adopter.adopt("mart.customers", "the nightly job's", clock=w.clock, who=w.who)
    shop.sql(refused.value.next[refused.value.next.index("CALL") :])
    adopted = w.adopter.adopt("mart.customers", "the nightly job's", clock=w.clock, who=w.who)
    assert adopted.adoption.slices.text == "b0..b3"
    assert adopted.survey.rows == 20
    before = shop.production("mart.customers")

    run = shop.backfill("mart.customers", dates=False, keys=shop.workspace.listed_keys("customer=c3").keys)
    assert len(run.plan.models[0].slices) == 1
    assert shop.rows("SELECT * FROM mart.customers WHERE orders > 0") == shop.rows(
        f"{RECOMPUTED} HAVING customer = 'c3'"
    )
    shop.rollback(run)
    assert shop.production("mart.customers") == before
    shop.backfill("mart.customers", dates=False)
    assert shop.production("mart.customers") == shop.rows(RECOMPUTED)
