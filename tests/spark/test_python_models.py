"""Python models and functions on real Spark: scoped, proven and published as SQL models are."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from retcon.errors import GatesFailed, Refused
from retcon.flow.apply import Until
from tests.shops import Shop
from tests.test_docs import write_python_example

pytestmark = pytest.mark.spark

FX = """\
from decimal import Decimal

from pyspark.sql import functions as F

VIP = Decimal("1.10")


@F.udf("DECIMAL(18,4)")
def dearer_for_vips(amount, customer):
    return amount * (VIP if customer == "c0" else 1)
"""
FUNCTIONS = """\
from retcon.models import udf
from lib.fx import VIP


@udf("DECIMAL(18,4)")
def to_usd(amount, rate):
    return amount * rate


@udf("STRING")
def shout(text):
    if text == "boom":
        raise ValueError("no such customer")
    return text.upper()
"""
ORDERS = """\
from pyspark.sql import functions as F

from functions import to_usd
from lib.fx import dearer_for_vips
from retcon.models import Day, Input, model


@model(
    "mart.orders_usd",
    slices=Day("order_date"),
    key=["order_date", "order_id"],
    inputs={"orders": Input("raw.orders", time="order_date"), "rates": Input("raw.rates", time="rate_date")},
    replay={"wave": 3},
    gates=[{"rows": {"min": 1}}, {"unique": "key"}, {"drift": {"metric": "sum(amount_usd)", "within": "50%"}}],
    sliceable=True,
)
def orders_usd(orders, rates):
    joined = orders.join(rates, (F.col("rate_date") == F.col("order_date")) & (orders.currency == rates.currency))
    chosen = joined.select(
        "order_id", "order_date", orders.currency, "customer",
        to_usd(F.col("amount"), F.col("rate")).alias("amount_usd"),
    )
    return chosen.withColumn("amount_usd", dearer_for_vips("amount_usd", "customer"))
"""
EXPECTED = """\
SELECT o.order_id, o.order_date, o.currency, o.customer,
  CAST(CAST(o.amount * r.rate AS DECIMAL(18, 4)) * if(o.customer = 'c0', 1.10, 1) AS DECIMAL(18, 4)) AS amount_usd
FROM raw.orders o JOIN raw.rates r ON r.rate_date = o.order_date AND r.currency = o.currency
"""
ONE = """\
from pyspark.sql import functions as F
{head}
from retcon.models import Day, Input, model


@model("mart.one", slices=Day("d"), inputs={{"orders": Input("raw.orders", time="order_date")}}{keys})
def one(orders{arguments}):
    chosen = orders.select(F.col("order_date").alias("d"), "order_id", "customer")
    {body}
"""


def put(shop: Shop, path: str, text: str) -> None:
    file = shop.root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    shop.close()


def one(shop: Shop, body: str, *, head: str = "", keys: str = "", arguments: str = "") -> None:
    put(shop, "models/mart/one.py", ONE.format(body=body, head=head, keys=keys, arguments=arguments))


@pytest.fixture
def python_shop(shop: Shop) -> Iterator[Shop]:
    """The shop with its orders in Python, its revenue in SQL."""
    (shop.root / "models/mart/orders_usd.sql").unlink()
    put(shop, "lib/fx.py", FX)
    put(shop, "functions.py", FUNCTIONS)
    put(shop, "models/mart/orders_usd.py", ORDERS)
    return shop.open_doors()


def test_python_models_are_published_wave_by_wave_and_equal_an_independent_computation(python_shop: Shop) -> None:
    shop = python_shop
    plan = shop.plan("+mart.revenue")
    assert [len(planned.waves) for planned in plan.models] == [3, 1]
    run = shop.apply(plan, until=Until.PROVEN)
    parity = [v.verdict for v in shop.workspace.ledger.verdicts(run.id) if v.verdict.gate == "parity"]
    assert "computed alone gives the same" in parity[0].summary
    assert not shop.production("mart.orders_usd")
    shop.apply(plan)
    assert shop.production("mart.orders_usd") == shop.rows(EXPECTED)
    assert len(shop.production("mart.orders_usd")) == 96
    assert shop.workspace.ledger.code(run.id)["mart.orders_usd"] == ORDERS
    # slice by slice, the same
    put(shop, "models/mart/orders_usd.py", ORDERS.replace("    sliceable=True,\n", ""))
    again = shop.plan("mart.orders_usd", end="2026-01-03", downstream=False)
    assert [len(planned.waves) for planned in again.models] == [3]
    before = shop.production("mart.orders_usd")
    shop.apply(again)
    assert shop.production("mart.orders_usd") == before
    waiting = shop.plan("mart.orders_usd")
    # a correction in a module that the model imports is a correction of the model
    put(shop, "lib/fx.py", FX.replace('"1.10"', '"1.20"'))
    with pytest.raises(Refused, match=r"the code of mart\.orders_usd changed"):
        shop.open(waiting)
    shop.backfill("+mart.revenue")
    assert shop.production("mart.orders_usd") == shop.rows(EXPECTED.replace("1.10", "1.20"))


def test_slices_that_are_wrongly_vouched_for_are_found_out(python_shop: Shop) -> None:
    shop = python_shop
    body = 'return chosen.groupBy().agg(F.max("d").alias("d"), F.count("*").alias("n"))'
    one(shop, body, keys=", sliceable=True, allow_empty=True")
    with pytest.raises(GatesFailed, match="parity"):
        shop.backfill("mart.one")


def test_sql_calls_the_projects_functions_by_name(python_shop: Shop) -> None:
    shop = python_shop
    text = "/* retcon\nslices: {by: d, every: day}\ninputs: {raw.orders: {time: order_date}}\n*/\n"
    shop.write("mart.loud", text + "SELECT order_date AS d, order_id, Shout(customer) AS who FROM raw.orders")
    shop.backfill("mart.loud", end="2026-01-02")
    assert shop.rows("SELECT order_id, who FROM mart.loud") == shop.rows(
        "SELECT order_id, upper(customer) FROM raw.orders WHERE order_date <= DATE '2026-01-02'"
    )
    shop.sql("INSERT INTO raw.orders VALUES (777, DATE '2026-01-03', 'USD', 'boom', 5)")
    with pytest.raises(Refused, match=r"functions\.py:13: ValueError: no such customer") as error:
        shop.backfill("mart.loud", start="2026-01-03", end="2026-01-03")
    assert "waves already staged are kept" in error.value.state
    put(shop, "functions.py", FUNCTIONS + '\n\n@udf("INT")\ndef bround(x):\n    return 1\n')
    shop.edit("mart.loud", "Shout(customer)", "bround(customer)")
    with pytest.raises(Refused, match="already a function of Spark SQL"):
        shop.backfill("mart.loud", end="2026-01-01")


@pytest.mark.parametrize(
    ("body", "head", "message"),
    [
        ('return getattr(orders, "spark" + "Session").table("raw.orders").selectExpr("order_date AS d")', "",
         r"the function reads lake\.raw\.orders past its declared inputs"),
        ('s = getattr(orders, "spark" + "Session")\n'
         '    return chosen.join(s.createDataFrame([(1,)], "order_id INT"), "order_id")', "", "past its declared"),
        ("return chosen.localCheckpoint()", "", "past its declared inputs"),
        ("return KEPT.setdefault('x', chosen)", "KEPT = {}", r"past its declared inputs"),
        ('return chosen.withColumn("r", getattr(F, "ra" + "nd")())', "", "Rand gives another result each time"),
        ("return 1", "", "one returned int, not a DataFrame"),
        ('return chosen.select("nothing")', "", r"models/mart/one\.py:9: AnalysisException"),
        ('raise KeyError("lost")', "", r"models/mart/one\.py:9: KeyError: 'lost'"),
    ],
)  # fmt: skip
def test_what_escapes_varies_or_breaks_is_refused(python_shop: Shop, body: str, head: str, message: str) -> None:
    shop = python_shop
    one(shop, body, head=head)
    with pytest.raises(Refused, match=message) as error:
        shop.backfill("mart.one", end="2026-01-02")
    assert "production is untouched" in error.value.state
    assert error.value.next


def test_a_function_takes_bounds_and_params_from_run(python_shop: Shop) -> None:
    shop = python_shop
    body = (
        'settled = chosen.groupBy("d").agg(F.array_sort(F.collect_list("order_id")).alias("ids"))\n'
        '    return settled.withColumn("s", F.lit(run.start_date)).withColumn("v", F.lit(run.params["vip"]))'
    )
    one(shop, body, arguments=", run")
    shop.backfill("mart.one", end="2026-01-02")
    assert shop.sql("SELECT count(*), count_if(s = d), max(v), max(size(ids)) FROM mart.one") == [
        (2, 2, 'O\'Brien "ü"', 12)
    ]


def test_pandas_functions_work(python_shop: Shop) -> None:
    shop = python_shop
    put(
        shop,
        "lib/pandas_fx.py",
        "from collections.abc import Iterator\n\nimport pandas as pd\nfrom pyspark.sql.functions import pandas_udf\n\n"
        "STEP = 1\n\n\n"
        '@pandas_udf("BIGINT")\ndef plus(x: pd.Series) -> pd.Series:\n    return x + STEP\n\n\n'
        "def ranked(frame: pd.DataFrame) -> pd.DataFrame:\n"
        "    return frame.sort_values('order_id').assign(n=range(len(frame)))\n\n\n"
        "def louder(frames: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:\n"
        "    for frame in frames:\n        yield frame.assign(customer=frame.customer.str.upper())\n",
    )
    body = (
        'more = chosen.withColumn("next", plus("order_id"))\n'
        '    named = "d DATE, order_id BIGINT, customer STRING, next BIGINT, n BIGINT"\n'
        '    ranks = more.groupBy("d").applyInPandas(ranked, named)\n'
        "    return ranks.mapInPandas(louder, ranks.schema)"
    )
    one(shop, body, head="from lib.pandas_fx import louder, plus, ranked", keys=", sliceable=True")
    shop.backfill("mart.one")
    assert shop.sql("SELECT count(*), count_if(next = order_id + 1), max(n), max(customer) FROM mart.one") == [
        (96, 96, 11, "C4")
    ]


def test_the_example_of_the_page_is_published(shop: Shop) -> None:
    shop.open_doors()
    write_python_example(shop.root)
    shop.sql("CREATE TABLE raw.fx_rates USING iceberg PARTITIONED BY (rate_date) AS SELECT * FROM raw.rates")
    shop.close()
    shop.backfill("mart.fct_orders_banded", "mart.stg_orders")
    assert shop.rows("SELECT order_id, amount_usd, band FROM mart.fct_orders_banded") == shop.rows(
        "SELECT order_id, usd, if(usd >= 50, 'large', 'small') FROM "
        "(SELECT order_id, CAST(ROUND(amount * rate, 2) AS DECIMAL(14, 2)) AS usd FROM raw.orders o "
        "JOIN raw.rates r ON rate_date = order_date AND r.currency = o.currency)"
    )
    assert shop.sql("SELECT count(*), count(DISTINCT loaded_at) FROM mart.stg_orders") == [(96, 1)]
