"""A group of tables through a REST catalog: published, refused, rolled back, and found again after a crash."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from retcon.core.runs import RunState
from retcon.flow.apply import Until
from tests.rest_catalogs import iceberg_fixture
from tests.shops import REST, Shop
from tests.spark.test_backfills import RECOMPUTED_ORDERS, RECOMPUTED_REVENUE, publish_with_the_bug

pytestmark = pytest.mark.spark


@pytest.fixture
def rest_shop(tmp_path: Path) -> Iterator[Shop]:
    """The small project, its tables in Iceberg's own REST server."""
    with (
        iceberg_fixture(tmp_path, str(tmp_path / "warehouse")) as uri,
        closing(Shop(tmp_path / "a shöp", uri, REST)) as shop,
    ):
        yield shop


def test_a_group_is_published_and_rolled_back_through_the_catalog(rest_shop: Shop) -> None:
    publish_with_the_bug(rest_shop)
    before = rest_shop.production("mart.orders_usd")
    plan = rest_shop.plan("mart.orders_usd", start="2026-01-03", end="2026-01-06")
    rest_shop.apply(plan, until=Until.PROVEN)
    rest_shop.sql("INSERT INTO mart.orders_usd VALUES (9999, DATE '2026-01-08', 'USD', 'late', 1.0)")
    run = rest_shop.apply(plan)
    assert run.state is RunState.PUBLISHED
    inside = "order_date BETWEEN DATE '2026-01-03' AND DATE '2026-01-06'"
    for table, recomputed in (("mart.orders_usd", RECOMPUTED_ORDERS), ("mart.revenue", RECOMPUTED_REVENUE)):
        assert rest_shop.rows(f"SELECT * FROM {table} WHERE {inside}") == rest_shop.rows(
            f"SELECT * FROM ({recomputed}) WHERE {inside}"
        )
    assert rest_shop.workspace.ledger.intent(run.id) is None
    assert rest_shop.rollback(run).run.state is RunState.ROLLED_BACK
    left = rest_shop.production("mart.orders_usd")
    assert left - before == rest_shop.rows("SELECT * FROM mart.orders_usd WHERE customer = 'late'")
    assert not before - left
