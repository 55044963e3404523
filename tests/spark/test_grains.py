"""Hours, days, weeks, months and years in one graph, whole tables among them; against what the rows themselves say."""

from __future__ import annotations

import re
from collections import Counter
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from retcon.core.intervals import edge_text
from retcon.core.slices import Grain, SliceSet
from retcon.errors import Refused
from tests.shops import Shop

pytestmark = pytest.mark.spark

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "hours-weeks-months.md"
NAMES = ("mart.clicks_hourly", "mart.clicks_daily", "mart.clicks_monthly", "mart.clicks_so_far")
"""The models of that page, in its order."""
FIRST, LAST = datetime(2024, 2, 27, tzinfo=UTC), datetime(2024, 4, 2, 23, tzinfo=UTC)
"""A leap day, and the night in which Berlin leaves out an hour."""


def moments() -> list[datetime]:
    hours = int((LAST - FIRST) / timedelta(hours=1)) + 1
    return [FIRST + timedelta(hours=n, minutes=30) for n in range(0, hours, 3)]


@pytest.fixture
def clicks(shop: Shop) -> Shop:
    """A source of clicks, one each third hour, not partitioned at all."""
    shop.now = datetime(2024, 4, 10, 12, tzinfo=UTC)
    shop.remove("mart.orders_usd", "mart.revenue")
    for name, text in zip(NAMES, re.findall(r"```sql\n(.*?)```", PAGE.read_text(), re.DOTALL), strict=True):
        shop.write(name, text)
    shop.sql("CREATE NAMESPACE IF NOT EXISTS raw")
    shop.sql("CREATE TABLE raw.clicks (ts TIMESTAMP, page STRING) USING iceberg PARTITIONED BY (days(ts))")
    insert(shop, moments())
    return shop


def insert(shop: Shop, times: list[datetime]) -> None:
    rows = ", ".join(f"(TIMESTAMP '{t:%Y-%m-%d %H:%M:%S} UTC', 'p{t.hour % 2}')" for t in times)
    shop.sql(f"INSERT INTO raw.clicks VALUES {rows}")


def by_month(times: list[datetime]) -> dict[date, int]:
    return dict(Counter(date(t.year, t.month, 1) for t in times))


def test_hours_days_months_and_a_whole_table_are_corrected_together(clicks: Shop) -> None:
    shop, times = clicks, moments()
    ask: dict[str, Any] = {"start": "2024-02-27", "end": "2024-04-02", "allow_missing_source": True}
    plan = shop.plan("mart.*", **ask)
    assert {m.name: m.slices.text for m in plan.models} == {
        "mart.clicks_hourly": "2024-02-27T00..2024-04-02T23",
        "mart.clicks_daily": "2024-02-27..2024-04-02",
        "mart.clicks_monthly": "2024-02..2024-04",
        "mart.clicks_so_far": "all",
    }
    assert "mart.clicks_monthly: 2024-02-27..2024-04-02 widened to 2024-02..2024-04" in plan.notes
    assert not any(m.one_by_one for m in plan.models)
    shop.apply(plan)
    hourly = Counter((t.replace(minute=0, tzinfo=None), f"p{t.hour % 2}") for t in times)
    assert shop.rows("SELECT CAST(hour AS TIMESTAMP_NTZ), page, clicks FROM mart.clicks_hourly") == Counter(
        (ts, page, n) for (ts, page), n in hourly.items()
    )
    daily = Counter((t.date(), f"p{t.hour % 2}") for t in times)
    assert shop.rows("SELECT * FROM mart.clicks_daily") == Counter((d, page, n) for (d, page), n in daily.items())
    assert dict(shop.sql("SELECT month, clicks FROM mart.clicks_monthly")) == by_month(times)
    days = Counter(date(d.year, d.month, 1) for d in {t.date() for t in times})
    assert dict(shop.sql("SELECT month, days FROM mart.clicks_monthly")) == dict(days)
    assert max(so_far for _, _, so_far in shop.sql("SELECT * FROM mart.clicks_so_far")) == len(times)

    # A late hour of the last February day reaches its day, its month, and the whole table; nothing else.
    late = datetime(2024, 2, 29, 23, 59, tzinfo=UTC)
    insert(shop, [late])
    plan = shop.plan("mart.clicks_hourly", start="2024-02-29", end="2024-02-29", allow_missing_source=True)
    assert {m.name: m.slices.text for m in plan.models} == {
        "mart.clicks_hourly": "2024-02-29T00..2024-02-29T23",
        "mart.clicks_daily": "2024-02-29",
        "mart.clicks_monthly": "2024-02..2024-03",
        "mart.clicks_so_far": "all",
    }
    run = shop.apply(plan)
    assert dict(shop.sql("SELECT month, clicks FROM mart.clicks_monthly")) == by_month([*times, late])
    consumed = {(c.model, c.slice): c.content for c in shop.workspace.ledger.consumption(run.id)}
    assert ("mart.clicks_so_far", "all") in consumed
    shop.rollback(run)
    assert dict(shop.sql("SELECT month, clicks FROM mart.clicks_monthly")) == by_month(times)


KINDS = {"DATE": "DATE '{:%Y-%m-%d}'", "TIMESTAMP": "TIMESTAMP '{:%Y-%m-%d %H:%M:%S} UTC'",
         "TIMESTAMP_NTZ": "TIMESTAMP_NTZ '{:%Y-%m-%d %H:%M:%S}'"}  # fmt: skip
RANGES = {
    Grain.HOUR: "2020-10-24T22..2020-10-25T03",  # Berlin has two o'clock twice
    Grain.DAY: "2020-02-27..2020-03-01",
    Grain.WEEK: "2020-W52..2021-W01",
    Grain.MONTH: "1969-12..1970-02",
    Grain.YEAR: "1968..1970",
}
PARTITIONS = {Grain.WEEK: "day"}


def cut(every: Grain, source: str, wave: int) -> str:
    return (
        f"/* retcon\nslices: {{by: t, every: {every}}}\ninputs: {{{source}: {{time: t}}}}\nreplay: {{wave: {wave}}}\n"
        f"gates: [{{unique: [id]}}, {{unique: [t, id]}}]\n*/\nSELECT t, id FROM {source}\n"
    )


@pytest.mark.parametrize(
    "every",
    [e if e is Grain.DAY else pytest.param(e, marks=pytest.mark.soak) for e in Grain],
)
def test_each_grain_of_each_type_is_cut_staged_measured_and_published(shop: Shop, every: Grain) -> None:
    """The same table by one wave, by waves of one slice, and its end first; in a session far from UTC."""
    settings = shop.root / "retcon.yaml"
    settings.write_text(settings.read_text() + "timezone: Europe/Berlin\n")
    shop.remove("mart.orders_usd", "mart.revenue")
    kinds = [kind for kind in KINDS if (every, kind) != (Grain.HOUR, "DATE")]
    slices = SliceSet.parse(every, RANGES[every])
    moments = [
        moment
        for slice in slices
        for moment in (slice.interval.start, slice.interval.start + timedelta(minutes=40),
                       slice.interval.end - timedelta(seconds=1))
    ]  # fmt: skip
    shop.sql("CREATE NAMESPACE IF NOT EXISTS raw")
    for kind in kinds:
        rows = ", ".join(f"({KINDS[kind].format(m)}, {at})" for at, m in enumerate(moments))
        shop.sql(f"CREATE TABLE raw.s_{kind} (t {kind}, id INT) USING iceberg")
        shop.sql(f"INSERT INTO raw.s_{kind} VALUES {rows}")
        for name, wave in (("waves", 1000), ("single", 1), ("mixed", 2)):
            shop.write(f"mart.{name}_{kind}", cut(every, f"raw.s_{kind}", wave))
    start, end = (edge_text(edge) for edge in slices.hull().edges)
    shop.backfill("mart.waves_*", "mart.single_*", start=start, end=end)
    *earlier, last = slices.ordinals
    for part in ((last,), tuple(earlier)):
        start, end = (edge_text(edge) for edge in SliceSet(every, part).hull().edges)
        shop.backfill("mart.mixed_TIMESTAMP", start=start, end=end)
    for kind in kinds:
        expected = Counter(every.label(every.ordinal(m.date() if kind == "DATE" else m)) for m in moments)
        for name in ("waves", "single", *(["mixed"] if kind == "TIMESTAMP" else [])):
            table = f"mart.{name}_{kind}"
            assert shop.rows(f"SELECT * FROM {table}") == shop.rows(f"SELECT * FROM raw.s_{kind}"), table
            recorded = shop.workspace.ledger.published_slices(table)
            assert {label: held.rows for label, held in recorded.items()} == dict(expected), table
        facts = shop.workspace.tables.facts(f"mart.waves_{kind}")
        assert facts is not None
        unit = PARTITIONS.get(every, every)
        assert [f.transform for f in facts.partitioning] == ["identity" if (kind, unit) == ("DATE", "day") else unit]


def test_what_does_not_fit_a_grain_is_refused_before_anything_is_written(shop: Shop) -> None:
    shop.open_doors()
    shop.remove("mart.revenue", "mart.orders_usd")
    keys = "/* retcon\nslices: {by: order_date, every: %s}\ninputs: {raw.orders: {time: order_date}}\n*/\n"
    shop.write("mart.m", keys % "hour" + "SELECT order_date, order_id FROM raw.orders")
    with pytest.raises(Refused, match="an hour of order_date, which is a DATE"):
        shop.backfill("mart.m")
    shop.sql("CREATE NAMESPACE IF NOT EXISTS mart")
    shop.sql("CREATE TABLE mart.m (order_date DATE, order_id BIGINT) USING iceberg PARTITIONED BY (months(order_date))")
    shop.write("mart.m", keys % "day" + "SELECT order_date, order_id FROM raw.orders")
    with pytest.raises(Refused, match=r"partitioned by month\(order_date\)"):
        shop.plan("mart.m")
    # A finer cut is as good: a month is whole days.
    shop.sql("DROP TABLE mart.m")
    shop.sql("CREATE TABLE mart.m (order_date DATE, order_id BIGINT) USING iceberg PARTITIONED BY (days(order_date))")
    shop.write("mart.m", keys % "month" + "SELECT order_date, order_id FROM raw.orders")
    shop.backfill("mart.m", allow_missing_source=True)
    assert shop.rows("SELECT order_id FROM mart.m") == shop.rows("SELECT order_id FROM raw.orders")


def test_hours_over_days_are_planned_and_built_together_the_first_time(shop: Shop) -> None:
    shop.remove("mart.orders_usd", "mart.revenue")
    shop.sql("CREATE NAMESPACE IF NOT EXISTS raw")
    shop.sql("CREATE TABLE raw.clicks (ts TIMESTAMP, id INT) USING iceberg PARTITIONED BY (days(ts))")
    moments = [datetime(2024, 2, 28, 22, tzinfo=UTC) + timedelta(minutes=25 * n) for n in range(12)]
    rows = ", ".join(f"({KINDS['TIMESTAMP'].format(m)}, {at})" for at, m in enumerate(moments))
    shop.sql(f"INSERT INTO raw.clicks VALUES {rows}")
    days = (
        "/* retcon\nslices: {by: ts, every: day}\ninputs: {raw.clicks: {time: ts}}\n*/\nSELECT ts, id FROM raw.clicks"
    )
    hours = (
        "/* retcon\nslices: {by: ts, every: hour}\ninputs: {mart.days: {time: ts}}\nallow_empty: true\n*/\nSELECT %s"
    )
    shop.write("mart.days", days)
    shop.write("mart.together", hours % "ts, id FROM mart.days")
    shop.write("mart.alone", hours % "ts, id, count(*) OVER () AS n FROM mart.days")
    ask: dict[str, Any] = {"start": "2024-02-28T22", "end": "2024-02-29T03"}
    with pytest.raises(Refused, match=r"nothing says whether ts of mart\.days") as refused:
        shop.plan("mart.*", **ask)
    assert "columns: {ts: timestamp, …}" in refused.value.next
    shop.edit("mart.days", "inputs:", "columns: {ts: timestamp, id: int}\ninputs:")
    plan = shop.plan("mart.*", **ask)
    assert [(m.name, len(m.slices), len(m.waves)) for m in plan.models] == [
        ("mart.days", 2, 1), ("mart.alone", 6, 6), ("mart.together", 6, 1),
    ]  # fmt: skip
    shop.apply(plan)
    assert shop.production("mart.together") == shop.rows("SELECT * FROM raw.clicks")
    assert shop.production("mart.alone") == shop.rows(
        "SELECT ts, id, count(*) OVER (PARTITION BY date_trunc('HOUR', ts)) FROM raw.clicks"
    )
