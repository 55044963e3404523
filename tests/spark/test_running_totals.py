"""Models that read their own previous slice, and inputs as they were when a slice ended: the page's examples."""

from __future__ import annotations

import re
from collections import Counter
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import pytest

from retcon.core.runs import RunState, WaveState
from retcon.errors import Fault, Refused
from retcon.lakehouse import metadata_documents
from tests.shops import FIRST, Meddling, Shop

pytestmark = pytest.mark.spark

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "running-totals.md"
BALANCE, VALUED = re.findall(r"```sql\n(.*?)```", PAGE.read_text(), re.DOTALL)
DAYS = 6
LAST = FIRST + timedelta(days=DAYS - 1)
RECOMPUTED = f"""
SELECT d.day, m.account, CAST(sum(m.amount) AS DECIMAL(38, 2)) AS balance
FROM (SELECT explode(sequence(DATE '{FIRST}', DATE '{LAST}')) AS day) d JOIN raw.movements m ON m.day <= d.day
GROUP BY d.day, m.account
"""


def day_of(number: int) -> date:
    return FIRST + timedelta(days=number)


def a_bank(shop: Shop, random: Random) -> Shop:
    """Movements of a few accounts on each of six days, drawn by chance, and the models of the page."""
    shop.remove("mart.orders_usd", "mart.revenue")
    shop.write("mart.balance", BALANCE)
    shop.sql("CREATE NAMESPACE IF NOT EXISTS raw")
    shop.sql("CREATE TABLE raw.movements (day DATE, account STRING, amount DECIMAL(12,2)) USING iceberg "
             "PARTITIONED BY (day)")  # fmt: skip
    for number in range(DAYS):
        move(shop, random, number)
    return shop


def move(shop: Shop, random: Random, number: int) -> None:
    """Something moves on a day."""
    rows = [
        f"(DATE '{day_of(number)}', 'a{random.randrange(4)}', {random.randrange(-500, 500)}.25)"
        for _ in range(random.randrange(1, 5))
    ]
    shop.sql(f"INSERT INTO raw.movements VALUES {', '.join(rows)}")


def balance(shop: Shop, model: str = "mart.balance") -> Counter[tuple[Any, ...]]:
    return shop.rows(f"SELECT day, account, balance FROM {model}")


def backfill(shop: Shop, model: str, first: int, last: int, **ask: Any) -> Any:
    return shop.backfill(model, start=day_of(first).isoformat(), end=day_of(last).isoformat(), **ask)


def test_restating_a_slice_restates_the_later_ones_and_reads_exactly_the_one_before(shop: Shop) -> None:
    random = Random(1)
    shop = a_bank(shop, random)
    first = backfill(shop, "mart.balance", 0, 3)
    backfill(shop, "mart.balance", 4, 5)
    assert balance(shop) == shop.rows(RECOMPUTED)

    move(shop, random, 2)
    before = balance(shop)
    run = backfill(shop, "mart.balance", 2, 2, downstream=False)
    assert run.plan.models[0].slices.text == f"{day_of(2)}..{LAST}"
    assert balance(shop) == shop.rows(RECOMPUTED)

    ledger = shop.workspace.ledger
    then, now = (
        {c.slice: c.content for c in ledger.consumption(r.id) if c.table == "mart.balance"} for r in (first, run)
    )
    assert then[str(day_of(2))] == now[str(day_of(2))], "the day before it was and is the same"
    assert then[str(day_of(3))] != now[str(day_of(3))]
    for wave in ledger.waves(run.id):
        assert {scan.input for scan in wave.scans} == {"raw.movements", "mart.balance"}
        assert all(scan.scanned_files == scan.scope_files for scan in wave.scans)
    shop.rollback(run)
    assert balance(shop) == before


def test_a_chain_that_broke_goes_on_at_the_slice_that_failed(shop: Shop) -> None:
    a_bank(shop, Random(2))
    plan = shop.plan("mart.balance", end=str(LAST))
    broken_chain(shop, plan)
    done = [w for w in shop.workspace.ledger.waves(plan.id) if w.state is WaveState.DONE]
    assert [w.slices for w in done] == [str(day_of(number)) for number in range(3)], "the fourth isn't known of yet"
    assert shop.apply(plan).state is RunState.PUBLISHED
    assert balance(shop) == shop.rows(RECOMPUTED)


def broken_chain(shop: Shop, plan: Any) -> None:
    """Break off twice: before a wave is written, and after it was, before anybody knew."""
    for after_writing in (False, True):
        left = iter(range(2 - after_writing))

        def fails(stage: Any, *args: Any, left: Any = left, after: bool = after_writing) -> Any:
            is_done = next(left, None) is None
            if is_done and not after:
                raise Fault("the cluster is gone")
            found = stage(*args)
            if is_done:
                raise Fault("the cluster is gone, its commit isn't")
            return found

        with pytest.raises(Fault, match="the cluster is gone"):
            shop.apply(plan, warehouse=Meddling(shop.context().warehouse, "stage", fails))
        shop.close()


@pytest.mark.parametrize("seed", [3])
def test_however_it_is_brought_about_the_table_is_the_same(shop: Shop, seed: int) -> None:
    random = Random(seed)
    a_bank(shop, random)
    names = ("mart.at_once", "mart.one_by_one", "mart.after_a_crash", "mart.piecemeal")
    for name in names:
        shop.write(name, BALANCE.replace("mart.balance", name))
    backfill(shop, "mart.at_once", 0, DAYS - 1)
    for number in range(DAYS):
        backfill(shop, "mart.one_by_one", number, number)
    plan = shop.plan("mart.after_a_crash", end=str(LAST))
    broken_chain(shop, plan)
    shop.apply(plan)
    ends = random.randrange(1, DAYS - 1)
    backfill(shop, "mart.piecemeal", ends, DAYS - 1)
    backfill(shop, "mart.piecemeal", 0, random.randrange(0, ends))
    for name in names:
        assert balance(shop, name) == shop.rows(RECOMPUTED), name
    for number in random.sample(range(DAYS), 2):
        move(shop, random, number)
        backfill(shop, "mart.piecemeal", number, number)
        assert balance(shop, "mart.piecemeal") == shop.rows(RECOMPUTED)
    backfill(shop, "mart.at_once", 0, DAYS - 1)
    assert balance(shop, "mart.at_once") == shop.rows(RECOMPUTED), "a full rebuild"


def test_each_slice_sees_an_input_as_it_was_at_its_end(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    random = Random(4)
    a_bank(shop, random)
    shop.write("mart.valued", VALUED)
    shop.sql("CREATE TABLE raw.rates (account STRING, rate INT) USING iceberg")
    rates = [1, 2, 3]
    for rate in rates:
        shop.sql(f"INSERT OVERWRITE raw.rates SELECT concat('a', id), {rate} FROM range(4)")
    known = metadata_documents.history_in
    # The first three days saw the first rates, the fourth and fifth the second ones, and so on.
    moments = [datetime(2026, 1, day, 9, tzinfo=UTC) for day in (1, 4, 6)]

    def told(document: Any) -> Any:
        found = known(document)
        is_rates = document["location"].endswith("rates")
        return tuple(zip(moments, [i for _, i in found], strict=True)) if is_rates else found

    monkeypatch.setattr(metadata_documents, "history_in", told)
    expected = shop.rows(
        "SELECT day, account, CAST(amount * CASE WHEN day < DATE '2026-01-04' THEN 1 WHEN day < DATE '2026-01-06' "
        "THEN 2 ELSE 3 END AS DECIMAL(38, 2)) FROM raw.movements"
    )
    order = random.sample(range(DAYS), DAYS)
    for number in order[:2]:
        backfill(shop, "mart.valued", number, number)
    run = backfill(shop, "mart.valued", 0, DAYS - 1)
    assert shop.rows("SELECT day, account, value FROM mart.valued") == expected
    read = {c.slice: c.snapshot_id for c in shop.workspace.ledger.consumption(run.id) if c.table == "raw.rates"}
    assert [len({read[str(day_of(n))] for n in days}) for days in ((0, 1, 2), (3, 4), (5,))] == [1, 1, 1]
    assert len(set(read.values())) == len(rates)
    with pytest.raises(Refused, match="which nobody knows: its history is known since 2026-01-01 09:00 UTC"):
        shop.plan("mart.valued", start="2025-12-30", end="2025-12-31")


def test_some_keys_are_restated_from_what_was_known_at_each_slices_end(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    a_bank(shop, Random(5))
    shop.sql("INSERT INTO raw.movements SELECT day, a, 1 FROM (SELECT DISTINCT day FROM raw.movements) "
             "LATERAL VIEW explode(array('a0', 'a1')) AS a")  # fmt: skip
    shop.write(
        "mart.valued",
        "/* retcon\nslices: {by: day, every: day}\ninputs:\n  raw.movements: {time: day, key: account}\n"
        "  raw.rates: {as_of: slice, key: account}\n*/\n"
        "SELECT m.day, m.account, m.amount * r.rate AS value FROM raw.movements m "
        "JOIN raw.rates r ON r.account = m.account",
    )
    shop.sql("CREATE TABLE raw.rates (account STRING, rate INT) USING iceberg")
    for rate in (1, 2):
        shop.sql(f"INSERT OVERWRITE raw.rates SELECT concat('a', id), {rate} FROM range(4)")
    known = metadata_documents.history_in
    moments = [datetime(2026, 1, day, 9, tzinfo=UTC) for day in (1, 4)]

    def told(document: Any) -> Any:
        found = known(document)
        is_rates = document["location"].endswith("rates")
        return tuple(zip(moments, [i for _, i in found], strict=True)) if is_rates else found

    monkeypatch.setattr(metadata_documents, "history_in", told)
    backfill(shop, "mart.valued", 0, DAYS - 1)
    before = shop.production("mart.valued")
    shop.sql("UPDATE raw.movements SET amount = amount + 100")
    run = backfill(shop, "mart.valued", 2, 4, keys=shop.workspace.listed_keys("account=a0,a3").keys)
    assert run.plan.models[0].is_keyed
    assert len(run.plan.models[0].waves) == 3
    ours = "day BETWEEN DATE '2026-01-03' AND DATE '2026-01-05' AND account IN ('a0', 'a3')"
    assert shop.rows(f"SELECT * FROM mart.valued WHERE {ours}") == shop.rows(
        "SELECT day, account, amount * if(day < DATE '2026-01-04', 1, 2) FROM raw.movements WHERE " + ours
    )
    others = f"SELECT * FROM mart.valued %s WHERE NOT ({ours})"
    assert shop.rows(others % "") == shop.rows(others % f"VERSION AS OF 'retcon_before_{run.id}'")
    assert shop.production("mart.valued") != before
