"""Sample source tables for `init` and `demo`: orders in eight currencies and their daily rates, made without a JVM."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import DateType, DecimalType, LongType, NestedField, StringType, TimestamptzType

from retcon.core.projects import Catalog
from retcon.values import dataclass

CURRENCIES = {"USD": 1.0, "EUR": 1.09, "GBP": 1.27, "JPY": 0.0067, "CHF": 1.12, "CAD": 0.73, "BRL": 0.19, "INR": 0.012}
_WEIGHTS = (28, 24, 14, 10, 6, 6, 8, 4)
_SHOCK = 0.12
"""The real loses this much in one day, so that a rate of the day before is visibly wrong somewhere."""

LAST_DAY = date(2026, 1, 22)
DAYS_OF_RATES = 730
_QUARTER = 91

_ORDERS = Schema(
    NestedField(1, "order_id", LongType()),
    NestedField(2, "order_date", DateType()),
    NestedField(3, "customer_id", LongType()),
    NestedField(4, "currency", StringType()),
    NestedField(5, "amount", DecimalType(12, 2)),
    NestedField(6, "updated_at", TimestamptzType()),
)
_RATES = Schema(
    NestedField(1, "rate_date", DateType()),
    NestedField(2, "currency", StringType()),
    NestedField(3, "rate", DecimalType(18, 8)),
)


@dataclass(frozen=True, kw_only=True)
class Samples:
    """What was made, and which days it holds."""

    tables: tuple[str, ...]
    first: date
    last: date
    orders: int


def write_samples(
    catalog: Catalog, *, days: int, orders_a_day: int, seed: int = 7, tell: Callable[[str], None] = lambda _: None
) -> Samples:
    """Make `raw.orders` and `raw.fx_rates` in the project's catalog; the same rows for the same seed."""
    if catalog.is_sqlite:
        Path(catalog.uri.removeprefix("sqlite:///")).parent.mkdir(parents=True, exist_ok=True)
    iceberg = SqlCatalog(
        catalog.name,
        uri=catalog.uri.replace("postgresql://", "postgresql+psycopg://", 1),
        warehouse=catalog.warehouse,
    )
    iceberg.create_namespace_if_not_exists("raw")
    draw = random.Random(seed)
    first = LAST_DAY - timedelta(days=days - 1)
    tell(f"raw.fx_rates: {DAYS_OF_RATES:,} days × {len(CURRENCIES)} currencies")
    rates = iceberg.create_table("raw.fx_rates", _RATES)
    for quarter in _rate_rows(draw, first + timedelta(days=days // 2)):
        # Not partitioned, but delivered in order of time: files are told apart by their bounds.
        rates.append(quarter)
    tell(f"raw.orders: {days:,} days × about {orders_a_day:,} orders")
    by_day = PartitionField(source_id=2, field_id=1000, transform=IdentityTransform(), name="order_date")
    orders = iceberg.create_table("raw.orders", _ORDERS, partition_spec=PartitionSpec(by_day))
    rows = _order_rows(draw, first, days, orders_a_day)
    orders.append(rows)
    return Samples(tables=("raw.orders", "raw.fx_rates"), first=first, last=LAST_DAY, orders=rows.num_rows)


def _rate_rows(draw: random.Random, shock: date) -> Iterator[pa.Table]:
    """By quarter: a random walk a day against a slowly rising dollar; on one day the real falls."""
    begin = LAST_DAY - timedelta(days=DAYS_OF_RATES - 1)
    level = dict(CURRENCIES)
    for at in range(0, DAYS_OF_RATES, _QUARTER):
        days = [begin + timedelta(days=day) for day in range(at, min(at + _QUARTER, DAYS_OF_RATES))]
        values: list[Decimal] = []
        for day in days:
            for currency in CURRENCIES:
                if currency != "USD":
                    level[currency] *= 1 + draw.gauss(-0.001, 0.009)
                if currency == "BRL" and day == shock:
                    level[currency] *= 1 - _SHOCK
                values.append(Decimal(f"{level[currency]:.8f}"))
        dates = pa.array([day for day in days for _ in CURRENCIES])
        codes = pa.array(list(CURRENCIES) * len(days))
        yield pa.Table.from_arrays([dates, codes, pa.array(values, pa.decimal128(18, 8))], names=_names(_RATES))


def _names(schema: Schema) -> list[str]:
    return [field.name for field in schema.fields]


def _order_rows(draw: random.Random, first: date, days: int, a_day: int) -> pa.Table:
    """More orders at the weekend, a little growth, amounts as shops have them."""
    codes = list(CURRENCIES)
    parts: list[pa.RecordBatch] = []
    next_id = 1
    for number in range(days):
        day = first + timedelta(days=number)
        busy = 1.25 if day.weekday() >= 5 else 0.95
        count = max(1, int(a_day * busy * (1 + number / days / 10) * draw.uniform(0.95, 1.05)))
        currencies = draw.choices(codes, _WEIGHTS, k=count)
        unit = {code: 100 / CURRENCIES[code] for code in codes}
        cents = [int(unit[code] * draw.lognormvariate(3.6, 0.7)) for code in currencies]
        midnight = int(datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp())
        seconds = [midnight + draw.randrange(86_400) for _ in range(count)]
        amount = pc.multiply(pa.array(cents).cast(pa.decimal128(19, 0)), pa.scalar(Decimal("0.01")))
        columns = [
            pa.array(range(next_id, next_id + count), pa.int64()),
            pa.array([day] * count),
            pa.array(draw.choices(range(1, 50_000), k=count), pa.int64()),
            pa.array(currencies),
            amount.cast(pa.decimal128(12, 2)),
            pa.array(seconds).cast(pa.timestamp("s", tz="UTC")).cast(pa.timestamp("us", tz="UTC")),
        ]
        parts.append(pa.RecordBatch.from_arrays(columns, names=_names(_ORDERS)))
        next_id += count
    return pa.Table.from_batches(parts)
