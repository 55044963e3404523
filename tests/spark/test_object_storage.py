"""Tables in S3 behind a REST catalog, driven by the command line: planned without a JVM, published."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import date, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.expressions import EqualTo

from tests.rest_catalogs import iceberg_fixture, s3_server
from tests.shops import Shop

pytestmark = pytest.mark.spark

DAYS = [date(2026, 1, 1) + timedelta(days=n) for n in range(4)]
S3_SETTINGS = """\
catalog:
  name: lake
  type: rest
  uri: "{uri}"
  warehouse: s3://lake/warehouse
  s3.secret-access-key: "${{LAKE_SECRET}}"
{storage}
ledger: {{uri: "sqlite:///.retcon/ledger.db"}}"""


@contextmanager
def a_shop(tmp_path: Path) -> Iterator[tuple[Shop, RestCatalog]]:
    with (
        s3_server(tmp_path, "lake") as storage,
        iceberg_fixture(tmp_path, "s3://lake/warehouse", storage) as uri,
    ):
        open_keys = {key: value for key, value in storage.items() if "secret" not in key}
        listed = "\n".join(f'  {key}: "{value}"' for key, value in open_keys.items())
        catalog = RestCatalog("lake", uri=uri, **storage)
        with closing(Shop(tmp_path / "shop", uri, S3_SETTINGS.replace("{storage}", listed))) as shop, closing(catalog):
            yield shop, catalog


def open_doors(catalog: RestCatalog) -> None:
    """The shop's sources, made without a JVM."""
    rates = [(day, currency, Decimal(rate)) for day in DAYS for currency, rate in (("USD", "1"), ("EUR", "1.1"))]
    orders = [(n, day, ("USD", "EUR")[n % 2], f"c{n % 3}", Decimal(n)) for n, day in enumerate(DAYS * 3, start=1)]
    for name, rows, columns in (
        ("raw.rates", rates, {"rate_date": pa.date32(), "currency": pa.string(), "rate": pa.decimal128(12, 6)}),
        ("raw.orders", orders, {"order_id": pa.int64(), "order_date": pa.date32(), "currency": pa.string(),
                                "customer": pa.string(), "amount": pa.decimal128(12, 2)}),
    ):  # fmt: skip
        catalog.create_namespace_if_not_exists("raw")
        schema = pa.schema(list(columns.items()))
        table = pa.Table.from_pylist([dict(zip(columns, row, strict=True)) for row in rows], schema)
        catalog.create_table(name, schema).append(table)


def retcon(shop: Shop, *arguments: str) -> dict[str, Any]:
    """The command line in a process of its own: the jars for S3 must be there when Java starts."""
    environ = {**os.environ, "LAKE_SECRET": "tell-nobody"}
    command = [sys.executable, "-m", "retcon", *arguments, "--project", str(shop.root), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environ, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "tell-nobody" not in done.stdout + done.stderr
    result: dict[str, Any] = json.loads(done.stdout)["result"]
    return result


def test_a_group_on_s3_is_planned_and_published_and_no_secret_is_kept(tmp_path: Path) -> None:
    with a_shop(tmp_path) as (shop, catalog):
        open_doors(catalog)
        ends = ("--start", str(DAYS[0]), "--end", str(DAYS[-1]))
        plan = retcon(shop, "plan", "+mart.revenue", *ends, "--reason", "first build")
        run = plan["plan"]["id"]
        retcon(shop, "apply", run)
        revenue = catalog.load_table("mart.revenue")
        assert revenue.location().startswith("s3://lake/")
        expected = sum(Decimal(n) * (Decimal("1.1") if n % 2 else 1) for n, _ in enumerate(DAYS * 3, start=1))
        assert sum(revenue.scan().to_arrow()["revenue_usd"].to_pylist()) == expected
        assert catalog.load_table("mart.orders_usd").scan(row_filter=EqualTo("order_date", DAYS[0])).count() == 3
        assert "tell-nobody" not in (shop.root / ".retcon" / "ledger.db").read_bytes().decode(errors="replace")
