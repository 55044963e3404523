"""Profiles of real rows: what is kept, what they are held to, and what needn't be read again."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession

from retcon.core.gates import Verdict
from retcon.core.profiles import ColumnProfile, Side, stability
from retcon.errors import GatesFailed
from retcon.lakehouse import profiling, two_sides
from retcon.lakehouse.profiling import _binned, _summaries
from retcon.lakehouse.two_sides import PRODUCTION, STAGED
from tests.shops import Shop

pytestmark = pytest.mark.spark

ORDERS = "mart.orders_usd"
GATE = "  - profile: {psi: 0.25, null_rate: 5%, outliers: {history: 4}}\n"


def kept(shop: Shop, run: str, side: Side = Side.STAGED) -> dict[str, ColumnProfile]:
    entries = shop.workspace.ledger.profiles(run)
    return {entry.profile.column: entry.profile for entry in entries if entry.side is side}


def verdict(shop: Shop, run: str) -> Verdict:
    return next(v.verdict for v in shop.workspace.ledger.verdicts(run) if v.verdict.gate == "profile")


def test_columns_are_profiled_kept_and_held_to_production_and_to_earlier_slices(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.edit(ORDERS, "  - rows: {min: 1}\n", GATE)
    shop.edit(ORDERS, "  - not_null: [amount_usd]\n", "")
    shop.edit(ORDERS, "  - drift: {metric: sum(amount_usd), within: 50%}\n", "")
    shop.open_doors()
    reads: list[object] = []
    production_rows = two_sides.production_rows

    def spied(*arguments: Any) -> DataFrame | None:
        reads.append(arguments)
        return production_rows(*arguments)

    monkeypatch.setattr(profiling, "production_rows", spied)
    first = shop.backfill(ORDERS, end="2026-01-06")
    profiles = kept(shop, first.id)
    assert set(profiles) == {"order_id", "order_date", "currency", "customer", "amount_usd"}
    [(rows, least, most)] = shop.sql(f"SELECT count(*), min(amount_usd), max(amount_usd) FROM {ORDERS}")
    amount = profiles["amount_usd"]
    assert (amount.rows, amount.nulls, amount.low, amount.high) == (rows, 0, f"{least:f}", f"{most:f}")
    assert sum(amount.bins.counts) == rows
    # Values of rows are hashes, unless the model says otherwise.
    text = json.dumps([event.body for event in shop.workspace.ledger.events(first.id) if event.kind == "Judged"])
    assert "EUR" not in text
    assert profiles["currency"].bins.values == ()
    assert profiles["currency"].low is None
    assert "nothing in production" in verdict(shop, first.id).summary
    assert set(shop.workspace.ledger.slice_profiles(ORDERS)) == {f"2026-01-0{day}" for day in range(1, 7)}

    # The same slices, standing as they were published: production's profile is the one that was kept.
    reads.clear()
    again = shop.backfill(ORDERS, end="2026-01-06")
    assert reads == []
    assert "stability index up to 0.00" in verdict(shop, again.id).summary
    assert kept(shop, again.id, Side.PRODUCTION).keys() == profiles.keys()
    assert not verdict(shop, again.id).findings

    # Other slices, other values: production is read, and what moved is told.
    shop.edit(ORDERS, "CAST(o.amount * r.rate AS", "CAST(if(o.currency = 'EUR', NULL, o.amount * r.rate * 9) AS")
    shop.edit(ORDERS, "wave: 3}\n", "wave: 3}\nsamples: true\n")
    plan = shop.plan(ORDERS, start="2026-01-05")
    with pytest.raises(GatesFailed, match=r"1 gate failed: mart\.orders_usd:profile"):
        shop.apply(plan)
    assert reads
    whole = [finding.text for finding in verdict(shop, plan.id).findings if finding.slice is None]
    assert {text.split(",")[0].rsplit(" ", 1)[0] for text in whole if "index" in text} == {
        "amount_usd: stability index"
    }
    assert any("amount_usd: NULL in 0.0%" in text for text in whole)
    # Two of the four days are new: they are profiled by themselves, and don't pass for a change of the others.
    assert [kept(shop, plan.id, side)["currency"].rows for side in Side] == [24, 24]
    assert "EUR" in kept(shop, plan.id)["currency"].bins.values
    assert kept(shop, plan.id)["currency"].low == "EUR"


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> SparkSession:
    folder: Path = tmp_path_factory.mktemp("profiling")
    return Shop(folder / "shop", "sqlite:///.retcon/lake.db").workspace.spark


row = st.tuples(
    st.none() | st.integers(-3, 30), st.none() | st.sampled_from(["", "a", "b", "ü"]), st.none() | st.booleans()
)


def table(spark: SparkSession, rows: list[tuple[Any, ...]]) -> DataFrame:
    text = json.dumps([dict(zip("nsb", row, strict=True)) for row in rows])
    schema = "ARRAY<STRUCT<n: INT, s: STRING, b: BOOLEAN>>"
    return spark.sql(f"SELECT inline(from_json(:rows, '{schema}'))", args={"rows": text})


@given(before=st.lists(row, min_size=1, max_size=60), after=st.lists(row, min_size=1, max_size=60), same=st.booleans())
@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
def test_counts_by_bins_are_exact_and_the_same_rows_are_stable(
    spark: SparkSession, before: list[Any], after: list[Any], same: bool
) -> None:
    after = list(reversed(before)) if same else after
    sides = {STAGED: table(spark, after), PRODUCTION: table(spark, before)}
    fields = sides[STAGED].schema.fields
    found = _summaries(sides, fields, samples=True)
    profiles = [{field.name: found[side, field.name] for field in fields} for side in (PRODUCTION, STAGED)]
    old, new = _binned(sides, fields, *profiles, samples=True, is_known=False)
    for at, name in enumerate("nsb"):
        assert new[name].nulls == sum(row[at] is None for row in after)
        values = [row[at] for row in before]
        bins = old[name].bins
        if not any(value is not None for value in values):
            assert bins.edges == ()
            continue
        assert new[name].against[-1] == new[name].nulls
        if name == "n":
            assert bins.counts == by_edges(values, bins.edges)
            assert new[name].against == by_edges([row[at] for row in after], bins.edges)
        else:
            shown = Counter(str(value).lower() if name == "b" else value for value in values if value is not None)
            assert dict(zip(bins.values, bins.counts, strict=False)) == shown
        index = stability(bins.counts, new[name].against)
        assert index is not None
        assert index >= 0
        assert index == 0 or not same


def test_moments_fall_into_the_same_bins_in_every_time_zone(spark: SparkSession) -> None:
    zone = "spark.sql.session.timeZone"
    before = spark.conf.get(zone)

    def profiled(name: str, known: dict[str, ColumnProfile]) -> dict[str, ColumnProfile]:
        spark.conf.set(zone, name)
        frame = spark.sql("SELECT timestamp_micros(1767268800123456 + id % 3) AS at FROM range(9)")
        found = _summaries({STAGED: frame}, frame.schema.fields, samples=False)
        now = {"at": found[STAGED, "at"]}
        return _binned({STAGED: frame}, frame.schema.fields, known, now, samples=False, is_known=True)[1]

    try:
        there = profiled("UTC", {})
        here = profiled("Europe/Berlin", there)
    finally:
        spark.conf.set(zone, str(before))
    assert here["at"].against == there["at"].bins.counts == (3, 3, 3, 0, 0)


def by_edges(values: list[int | None], edges: tuple[str, ...]) -> tuple[int, ...]:
    bounds = [float(edge) for edge in edges]
    known = [value for value in values if value is not None]
    found = Counter(next((at for at, edge in enumerate(bounds) if value <= edge), len(bounds)) for value in known)
    return (*(found[at] for at in range(len(bounds) + 1)), len(values) - len(known))
