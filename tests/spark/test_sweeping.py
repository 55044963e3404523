"""After a sweep and an expiry every file that anybody can reach is there."""

from __future__ import annotations

import time
from collections import Counter
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest

from retcon.core.plans import branch_of, tag_before
from retcon.core.runs import Run
from retcon.flow.sweep import Swept, sweep
from tests.shops import Shop

pytestmark = pytest.mark.spark

ORDERS, REVENUE = "mart.orders_usd", "mart.revenue"


def swept(shop: Shop) -> Swept:
    w = shop.workspace
    return sweep(w.outline, w.ledger, w.tables, w.clock(), dry=False)


def missing(shop: Shop, model: str) -> set[str]:
    """Files that some branch or tag of a table leads to, and that aren't there."""
    catalog = shop.workspace.tables._catalog._catalog()
    assert catalog is not None
    table = catalog.load_table(model)
    reached = [table.metadata.snapshot_by_id(ref.snapshot_id) for ref in table.metadata.refs.values()]
    manifests = {m.manifest_path: m for snapshot in reached if snapshot for m in snapshot.manifests(table.io)}
    entries = (entry for m in manifests.values() for entry in m.fetch_manifest_entry(table.io, discard_deleted=True))
    paths = {*manifests, *(entry.data_file.file_path for entry in entries)}
    return {path for path in paths if not Path(unquote(urlsplit(path).path)).exists() and not Path(path).exists()}


def expire(table: Any) -> None:
    """Iceberg's own, in its core: it trusts what the metadata says was deleted. Spark's procedure doesn't."""
    table.expireSnapshots().expireOlderThan(int(time.time() * 1000) + 60_000).retainLast(1).commit()


def corrections(shop: Shop) -> tuple[Run, Run]:
    """Published, published again and undone around a later commit."""
    first = shop.open_for_business()
    shop.edit(ORDERS, "o.amount * r.rate", "o.amount * r.rate * 1.1")
    second = shop.backfill(start="2026-01-03", end="2026-01-05")
    shop.sql(f"INSERT INTO {ORDERS} VALUES (900, DATE '2026-01-20', 'USD', 'late', 1)")
    shop.rollback(second)
    return first, second


def production(shop: Shop) -> dict[str, Counter[tuple[Any, ...]]]:
    return {model: shop.production(model) for model in (ORDERS, REVENUE)}


def test_what_is_kept_stays_readable_and_what_goes_takes_no_live_file_along(shop: Shop) -> None:
    first, second = corrections(shop)
    shop.now += timedelta(days=15)
    third = shop.backfill(start="2026-01-04", end="2026-01-04")
    expected = production(shop)
    old = shop.rows(f"SELECT * FROM {ORDERS} VERSION AS OF '{tag_before(third.id)}'")
    found = swept(shop)
    gone = {name for run in (first, second) for name in (branch_of(run.id), tag_before(run.id))}
    assert {each.name for each in found.dropped} == gone - {tag_before(first.id)}  # there was nothing before the first
    assert {each.name for each in found.kept} == {branch_of(third.id), tag_before(third.id)}
    util = shop.workspace.spark._jvm.org.apache.iceberg.spark.Spark3Util  # type: ignore[union-attr] # set on a live session
    for model in (ORDERS, REVENUE):
        before = len(shop.sql(f"SELECT * FROM {model}.snapshots"))
        expire(util.loadIcebergTable(shop.workspace.spark._jsparkSession, f"lake.{model}"))
        assert len(shop.sql(f"SELECT * FROM {model}.snapshots")) < before
        assert missing(shop, model) == set()
    assert production(shop) == expected
    assert shop.rows(f"SELECT * FROM {ORDERS} VERSION AS OF '{tag_before(third.id)}'") == old
    shop.rollback(third)
    assert shop.production(ORDERS) == old
    assert swept(shop).dropped == ()
