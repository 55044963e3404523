"""The data of the main benchmark: orders in eight currencies, two tables made of them, and the job that people write.

Knows Spark and nothing of retcon: peers are compared with the same job on the same tables.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, timedelta

from pyspark.sql import SparkSession

HAND_WRITTEN = "hand-written"
FIRST = date(2025, 10, 25)
TABLES = ("fct_orders_usd", "fct_revenue")
ORDERS_SQL = """\
SELECT o.order_id, o.order_date, o.customer_id, o.currency, o.amount,
  CAST(ROUND(o.amount * r.rate, 2) AS DECIMAL(14, 2)) AS amount_usd
FROM {orders} o JOIN {rates} r ON r.rate_date = o.order_date AND r.currency = o.currency"""
REVENUE_SQL = """\
SELECT f.order_date, f.currency, f.customer_id % 100 AS bucket, count(*) AS orders, sum(f.amount_usd) AS revenue_usd
FROM {fct} f GROUP BY f.order_date, f.currency, f.customer_id % 100"""


def last_of(days: int) -> date:
    return FIRST + timedelta(days=days - 1)


def write_sources(spark: SparkSession, days: int, a_day: int) -> None:
    spark.sql("CREATE NAMESPACE IF NOT EXISTS raw")
    spark.sql(
        "CREATE TABLE raw.orders (order_id BIGINT, order_date DATE, customer_id BIGINT, currency STRING, "
        "amount DECIMAL(12,2), updated_at TIMESTAMP) USING iceberg PARTITIONED BY (order_date)"
    )
    spark.sql("CREATE TABLE raw.fx_rates (rate_date DATE, currency STRING, rate DECIMAL(18,8)) USING iceberg")
    currencies = "array('USD', 'EUR', 'GBP', 'JPY', 'CHF', 'CAD', 'BRL', 'INR')"
    spark.sql(
        f"INSERT INTO raw.orders SELECT id, date_add(DATE '{FIRST}', CAST(id % {days} AS INT)), "
        f"pmod(xxhash64(id), 50000), {currencies}[CAST(pmod(hash(id), 8) AS INT)], "
        f"CAST(pmod(xxhash64(id, 1), 20000) / 100 AS DECIMAL(12,2)), TIMESTAMP '2026-01-23 00:00:00' "
        f"FROM range({days * a_day})"
    )
    spark.sql(
        f"INSERT INTO raw.fx_rates SELECT date_add(DATE '{FIRST}', CAST(id AS INT)), c, "
        f"CAST(1 + pmod(hash(id, c), 1000) / 1000 AS DECIMAL(18,8)) FROM range({days}) "
        f"LATERAL VIEW explode({currencies}) AS c"
    )
    make_tables(spark, "reference")


def make_tables(spark: SparkSession, namespace: str) -> None:
    """Both tables, empty."""
    spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {namespace}")
    queries = (
        ORDERS_SQL.format(orders="raw.orders", rates="raw.fx_rates"),
        REVENUE_SQL.format(fct=f"{namespace}.fct_orders_usd"),
    )
    for name, query in zip(TABLES, queries, strict=True):
        columns = spark.sql(query)._jdf.schema().toDDL()  # type: ignore[operator]
        spark.sql(f"CREATE TABLE {namespace}.{name} ({columns}) USING iceberg PARTITIONED BY (order_date)")


def hand_written(spark: SparkSession, namespace: str = "reference", days: Sequence[date] = ()) -> None:
    """What a data engineer writes today: one job per table, straight into production, nothing checked; of some days."""
    where = f" WHERE order_date IN ({', '.join(f'DATE {str(day)!r}' for day in days)})" if days else ""
    orders = spark.sql(ORDERS_SQL.format(orders="raw.orders", rates="raw.fx_rates") + where)
    orders.writeTo(f"{namespace}.fct_orders_usd").overwritePartitions()
    revenue = spark.sql(REVENUE_SQL.format(fct=f"(SELECT * FROM {namespace}.fct_orders_usd{where})"))
    revenue.writeTo(f"{namespace}.fct_revenue").overwritePartitions()


def day_by_day(spark: SparkSession, namespace: str, days: int) -> None:
    """The loop that schedulers run: each day overwritten by a statement of its own, in both tables."""
    for number in range(days):
        hand_written(spark, namespace, [FIRST + timedelta(days=number)])


def size_of(spark: SparkSession, tables: Sequence[str]) -> tuple[int, int]:
    """Rows and bytes of their files, as Iceberg counts them."""
    each = [
        spark.sql(f"SELECT sum(record_count), sum(file_size_in_bytes) FROM {name}.files").first() for name in tables
    ]
    return sum(found[0] for found in each if found), sum(found[1] for found in each if found)


def require_same(spark: SparkSession, one: str = "reference", other: str = "mart") -> None:
    """Speed counts only for the same result."""
    for table in TABLES:
        require_same_rows(spark, f"SELECT * FROM {one}.{table}", f"SELECT * FROM {other}.{table}", table)


def require_same_rows(spark: SparkSession, one: str, other: str, what: str) -> None:
    for a, b in ((one, other), (other, one)):
        left = spark.sql(f"{a} EXCEPT ALL {b}").limit(1).collect()
        if left:
            raise SystemExit(f"{what} differs: {left}. Nothing is told of results that aren't the same.")
