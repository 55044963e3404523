"""A group of tables through a REST catalog: published, refused, rolled back, and found again after a crash."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from retcon.core.runs import RunState
from retcon.flow.apply import Until
from tests.shops import Meddling, Shop
from tests.spark.test_backfills import RECOMPUTED_ORDERS, RECOMPUTED_REVENUE, publish_with_the_bug

pytestmark = pytest.mark.spark


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


class Cut(BaseException):
    """The line to the catalog is cut, and this process ends."""


def test_a_publish_that_broke_off_is_found_in_the_tables_and_recorded_once(rest_shop: Shop) -> None:
    def break_off(real: Callable[..., None], requests: Sequence[str]) -> None:
        real(requests)
        raise Cut

    rest_shop.open_doors()
    plan = rest_shop.plan()
    with pytest.raises(Cut):
        rest_shop.apply(plan, catalog=Meddling(rest_shop.workspace.group_commits, "commit", break_off))
    ledger = rest_shop.workspace.ledger
    standing = ledger.run(plan.id)
    assert standing is not None
    assert standing.state is RunState.PUBLISHING
    assert ledger.intent(plan.id) is not None
    assert rest_shop.production("mart.revenue")
    rest_shop.close()
    assert rest_shop.apply(plan).state is RunState.PUBLISHED
    assert rest_shop.workspace.ledger.intent(plan.id) is None
    for table, recomputed in (("mart.orders_usd", RECOMPUTED_ORDERS), ("mart.revenue", RECOMPUTED_REVENUE)):
        assert rest_shop.production(table) == rest_shop.rows(recomputed)
        by_run = f"SELECT count(*) FROM {table}.snapshots WHERE summary['retcon.run'] = '{plan.id}'"
        assert rest_shop.sql(f"{by_run} AND summary['retcon.wave'] IS NULL") == [(1,)]


@pytest.mark.parametrize("is_cleaned", [False, True])
def test_a_publish_that_was_never_sent_is_sent_if_its_files_are_there_else_prepared_anew(
    rest_shop: Shop, is_cleaned: bool
) -> None:
    def break_off(real: Callable[..., None], requests: Sequence[str]) -> None:
        raise Cut

    rest_shop.open_doors()
    plan = rest_shop.plan()
    with pytest.raises(Cut):
        rest_shop.apply(plan, catalog=Meddling(rest_shop.workspace.group_commits, "commit", break_off))
    intent = rest_shop.workspace.ledger.intent(plan.id)
    assert intent is not None
    for update in json.loads(intent.commits[0].request)["updates"] if is_cleaned else ():
        if update["action"] == "add-snapshot":
            Path(update["snapshot"]["manifest-list"].removeprefix("file:")).unlink()
    rest_shop.close()
    assert rest_shop.apply(plan).state is RunState.PUBLISHED
    for commit, recomputed in zip(intent.commits, (RECOMPUTED_ORDERS, RECOMPUTED_REVENUE), strict=True):
        assert rest_shop.production(commit.table) == rest_shop.rows(recomputed)
        main = rest_shop.workspace.tables.main_line(commit.table)
        assert main is not None
        assert (commit.snapshot_id in main.line) is not is_cleaned


def test_a_commit_between_preparing_and_asking_is_told_by_the_requirements(rest_shop: Shop) -> None:
    asked: list[int] = []

    def write_first(real: Callable[..., None], requests: Sequence[str]) -> None:
        asked.append(len(requests))
        if len(asked) == 1:
            rest_shop.sql("INSERT INTO mart.orders_usd VALUES (9999, DATE '2026-02-07', 'USD', 'late', 1.0)")
        real(requests)

    rest_shop.open_doors()
    plan = rest_shop.plan()
    run = rest_shop.apply(plan, catalog=Meddling(rest_shop.workspace.group_commits, "commit", write_first))
    assert run.state is RunState.PUBLISHED
    assert asked == [2, 2]
    assert rest_shop.sql("SELECT order_id FROM mart.orders_usd WHERE customer = 'late'") == [(9999,)]
    kinds = [event.kind for event in rest_shop.workspace.ledger.events(run.id)]
    assert kinds[-6:-2] == ["PublishBegan", "PublishRefused", "PublishBegan", "Published"]
