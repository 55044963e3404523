"""Rolling back around what landed later: it stays, and the slices are what they were."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from retcon.core.plans import undo_branch_of
from retcon.core.runs import Run, RunState
from retcon.core.undoing import Way
from retcon.errors import Conflict, Refused
from tests.shops import Meddling, Shop

pytestmark = pytest.mark.spark

ORDERS, REVENUE = "mart.orders_usd", "mart.revenue"
LATER = f"INSERT INTO {ORDERS} (order_id, order_date, currency, customer, amount_usd) VALUES (900, DATE '2026-01-20', "


class Died(Exception):
    """The process is gone."""


def corrected(shop: Shop) -> tuple[Run, Run]:
    """Eight days, and three of them published once more with other amounts."""
    first = shop.open_for_business()
    shop.edit(ORDERS, "o.amount * r.rate", "o.amount * r.rate * 1.1")
    return first, shop.backfill(start="2026-01-03", end="2026-01-05")


def refs(shop: Shop, model: str) -> set[str]:
    return {name for (name,) in shop.sql(f"SELECT name FROM {model}.refs")}


def test_others_commits_stay_while_the_slices_go_back_and_then_the_run_before_goes_too(shop: Shop) -> None:
    first = shop.open_for_business()
    before = {model: shop.production(model) for model in (ORDERS, REVENUE)}
    shop.edit(ORDERS, "o.amount * r.rate", "o.amount * r.rate * 1.1")
    run = shop.backfill(start="2026-01-03", end="2026-01-05")
    published = shop.files(ORDERS)
    shop.sql(LATER + "'USD', 'late', 1)")
    shop.sql(f"ALTER TABLE {ORDERS} ADD COLUMN note STRING")
    shop.sql(f"CALL lake.system.rewrite_data_files(table => '{ORDERS}', options => map('rewrite-all', 'true'))")
    undone = shop.rollback(run)
    assert {undo.table: undo.way for undo in undone.ways} == {ORDERS: Way.COPIED, REVENUE: Way.MOVED}
    assert [landing.operation for landing in undone.ways[0].later] == ["replace", "append"]
    columns = "order_id, order_date, currency, customer, amount_usd"
    days = "order_date < DATE '2026-01-20'"
    assert shop.rows(f"SELECT {columns} FROM {ORDERS} WHERE {days}") == before[ORDERS]
    assert shop.rows(f"SELECT DISTINCT note FROM {ORDERS}") == {(None,): 1}
    assert shop.sql(f"SELECT customer FROM {ORDERS} WHERE NOT {days}") == [("late",)]
    assert shop.production(REVENUE) == before[REVENUE]
    assert not shop.files(ORDERS) & published
    assert undo_branch_of(run.id) not in refs(shop, ORDERS)
    with pytest.raises(Refused, match="is rolled back: there is no publish to roll back"):
        shop.rollback(run)
    # The later run and its undoing cancel out: the one before can go as well.
    again = shop.rollback(first)
    assert {undo.table: undo.way for undo in again.ways} == {ORDERS: Way.EMPTIED, REVENUE: Way.EMPTIED}
    assert shop.sql(f"SELECT customer FROM {ORDERS}") == [("late",)]
    assert not shop.production(REVENUE)


def test_a_rollback_that_died_goes_on_and_a_commit_meanwhile_is_seen(shop: Shop) -> None:
    _, run = corrected(shop)
    old = f"SELECT * FROM {ORDERS} VERSION AS OF 'retcon_before_{run.id}'"
    before = shop.rows(old)
    replaced = {path for (path,) in shop.sql(old.replace("*", "DISTINCT _file"))} - shop.files(ORDERS)
    wrong = shop.production(ORDERS)
    shop.sql(LATER + "'USD', 'late', 1)")

    def dying(after: bool) -> Callable[..., Any]:
        def act(real: Callable[..., Any], *args: Any, **more: Any) -> Any:
            if after:
                real(*args, **more)
            raise Died

        return act

    for part, method, after in (
        ("warehouse", "copy", False),
        ("warehouse", "copy", True),
        ("warehouse", "unlike", False),
        ("warehouse", "prepare_publish", True),
        ("ledger", "roll_back", False),
    ):
        inner = getattr(shop.context(), part)
        with pytest.raises(Died):
            shop.rollback(run, **{part: Meddling(inner, method, dying(after))})
        assert shop.rows(f"SELECT * FROM {ORDERS} WHERE customer != 'late'") == wrong
        standing = shop.workspace.ledger.run(run.id)
        assert standing is not None
        assert standing.state is RunState.PUBLISHED

    copied: list[Any] = []

    def counted(real: Callable[..., Any], *args: Any) -> Any:
        copied.append(args)
        return real(*args)

    def commit_once(real: Callable[..., Any], *args: Any, **more: Any) -> Any:
        if not shop.sql(f"SELECT 1 FROM {ORDERS} WHERE customer = 'later still'"):
            shop.sql(LATER + "'USD', 'later still', 1)")
        return real(*args, **more)

    context = shop.context()
    warehouse, ledger = Meddling(context.warehouse, "copy", counted), Meddling(context.ledger, "roll_back", commit_once)
    undone = shop.rollback(run, warehouse=warehouse, ledger=ledger)
    assert copied == []  # what was copied before is still there
    assert undone.run.state is RunState.ROLLED_BACK
    assert shop.rows(f"SELECT * FROM {ORDERS} WHERE customer NOT LIKE 'late%'") == before
    assert shop.rows(f"SELECT customer FROM {ORDERS} WHERE customer LIKE 'late%'") == {
        ("late",): 1,
        ("later still",): 1,
    }
    assert len(replaced) == 3
    assert not shop.files(ORDERS) & replaced, "a path that was once deleted must not return"
    kinds = [event.kind for event in shop.workspace.ledger.events(run.id)]
    assert kinds[-2:] == ["RollbackBegan", "RolledBack"]


def test_a_commit_to_the_same_slices_refuses_it_and_is_named(shop: Shop) -> None:
    _, run = corrected(shop)
    later = shop.backfill(start="2026-01-05", end="2026-01-06")
    with pytest.raises(Conflict, match=rf"snapshot \d+ \(overwrite by run {later.id}\): 2026-01-05") as conflict:
        shop.rollback(run)
    assert conflict.value.state == "nothing was rolled back"
    wrong = shop.production(ORDERS)
    _, head = shop.sql(f"SELECT name, snapshot_id FROM {ORDERS}.refs WHERE name = 'main'")[0]
    shop.rollback(later)
    assert shop.sql(f"SELECT snapshot_id FROM {ORDERS}.refs WHERE name = 'main'") != [(head,)]
    shop.rollback(run)
    assert shop.production(ORDERS) != wrong


CLICKS = """\
/* retcon
slices: {by: at, every: hour}
inputs: {raw.clicks: {time: at}}
*/
SELECT at, who, tags, score FROM raw.clicks
"""
PEOPLE = """\
/* retcon
slices: {by: customer, buckets: 4}
inputs: {raw.orders: {key: customer}}
*/
SELECT customer, count(*) AS orders FROM raw.orders GROUP BY customer
"""
TOTAL = """\
/* retcon
inputs: {raw.orders: {}}
*/
SELECT count(*) AS orders FROM raw.orders
"""


def test_hours_buckets_and_whole_tables_go_back_around_others(shop: Shop) -> None:
    shop.remove(ORDERS, REVENUE)
    shop.open_doors()
    shop.sql("CREATE TABLE raw.clicks (at TIMESTAMP, who STRUCT<name: STRING>, tags ARRAY<STRING>, score DOUBLE)")
    shop.sql(
        "INSERT INTO raw.clicks SELECT TIMESTAMP '2026-01-01 00:30:00 UTC' + make_dt_interval(0, CAST(id % 6 AS INT)), "
        "named_struct('name', concat('n', id)), array('x', NULL), id / 7 FROM range(60)"
    )
    for name, text in {"mart.clicks": CLICKS, "mart.people": PEOPLE, "mart.total": TOTAL}.items():
        shop.write(name, text)
    shop.backfill("mart.clicks", start="2026-01-01T00", end="2026-01-01T05")
    shop.backfill("mart.people", "mart.total", dates=False)
    clicks = "SELECT at, to_json(struct(who, tags)), score FROM mart.clicks WHERE who IS NOT NULL"
    queries = {"mart.clicks": clicks, "mart.people": "SELECT * FROM mart.people WHERE customer NOT LIKE 'z%'",
               "mart.total": "SELECT * FROM mart.total"}  # fmt: skip
    before = {name: shop.rows(query) for name, query in queries.items()}
    shop.edit("mart.clicks", "score FROM", "score * 2 AS score FROM")
    for name in ("mart.people", "mart.total"):
        shop.edit(name, "count(*)", "count(*) * 2")
    hours = shop.backfill("mart.clicks", start="2026-01-01T02", end="2026-01-01T03")
    bucket = shop.backfill("mart.people", dates=False, keys=shop.workspace.listed_keys("customer=c3").keys)
    whole = shop.backfill("mart.total", dates=False)
    assert all(shop.rows(queries[name]) != rows for name, rows in before.items())

    late = (
        "SELECT CAST(concat('z', id) AS STRING) AS customer, 1L FROM range(99) "
        "WHERE system.bucket(4, concat('z', id)) != system.bucket(4, 'c3') LIMIT 1"
    )
    shop.sql(f"INSERT INTO mart.people {late}")
    shop.sql("INSERT INTO mart.clicks VALUES (TIMESTAMP '2026-01-01 04:59:59 UTC', NULL, NULL, 1)")
    shop.sql("CALL lake.system.rewrite_data_files(table => 'mart.total', options => map('rewrite-all', 'true'))")
    for run in (hours, bucket, whole):
        (undo,) = shop.rollback(run).ways
        assert (undo.way, len(undo.later)) == (Way.COPIED, 1)
    assert {name: shop.rows(query) for name, query in queries.items()} == before
    assert shop.sql("SELECT (SELECT count(*) FROM mart.clicks), (SELECT count(*) FROM mart.people)") == [(61, 6)]
