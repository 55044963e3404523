"""Loads of what isn't Iceberg: sources known by an `updated` column, files by day, and sources that went back."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from typing import Any

import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from retcon.cli.main import run
from retcon.core.projects import Source
from retcon.core.slices import WHOLE, Buckets, Grain, SliceSet
from retcon.core.updates import SliceRows, Wanted
from retcon.errors import Refused
from retcon.lakehouse.looking import look_at_rows
from tests.shops import Shop
from tests.spark.test_backfills import RECOMPUTED_ORDERS

pytestmark = pytest.mark.spark

MODEL = "mart.daily"
SUMMARY = """\
/* retcon
slices: {by: order_date, every: day}
inputs: {raw.bookings: {time: order_date}}
replay: {reprocess: 3 days}
*/
SELECT order_date, count(*) AS orders, sum(amount) AS amount FROM raw.bookings GROUP BY order_date
"""
COLUMNS = "{order_id: bigint, order_date: date, amount: int, updated_at: timestamp}"
CSV = f"sources: {{raw.bookings: {{format: csv, path: data, columns: {COLUMNS}, updated: updated_at}}}}\n"
TABLE = (
    'sources: {raw.bookings: {format: jdbc, options: {url: "${BOOKINGS}", dbtable: bookings}, '
    "updated: updated_at, key: [order_id]}}\n"
)

Retcon = Callable[..., Any]
Row = tuple[int, str, int, str]

FIRST: list[Row] = [
    (1, "2026-01-01", 10, "2026-01-01 09:00:00"),
    (2, "2026-01-02", 20, "2026-01-02 09:00:00"),
    (3, "2026-01-03", 30, "2026-01-08 09:00:00"),
    (4, "2026-01-04", 40, "2026-01-04 09:00:00"),
]


@pytest.fixture
def retcon(shop: Shop, capsys: pytest.CaptureFixture[str]) -> Retcon:
    """Runs a command; its result, or its error where it isn't to succeed."""

    def call(*words: str, code: int = 0) -> Any:
        shop.close()
        assert run([*words, "--project", str(shop.root), "--json"]) == code, capsys.readouterr()
        document = json.loads(capsys.readouterr().out)
        return document["result" if not code else "error"]

    return call


def declare(shop: Shop, sources: str) -> None:
    """A project with one model over a source that isn't Iceberg."""
    shop.remove("mart.orders_usd", "mart.revenue")
    settings = shop.root / "retcon.yaml"
    settings.write_text(settings.read_text() + sources)
    shop.write(MODEL, SUMMARY)


def write(shop: Shop, rows: list[Row]) -> None:
    folder = shop.root / "data"
    folder.mkdir(exist_ok=True)
    lines = ["order_id,order_date,amount,updated_at", *(",".join(map(str, row)) for row in rows)]
    (folder / "bookings.csv").write_text("\n".join(lines) + "\n")


def slices_of(shop: Shop, loaded: Any) -> list[str]:
    """What each run of a load covered."""
    runs = [shop.workspace.ledger.run(each["run"]) for each in loaded["runs"]]
    return [planned.slices.text for each in runs if each is not None for planned in each.plan.models]


def amounts(shop: Shop) -> dict[str, int]:
    return {day.isoformat(): amount for day, _, amount in sorted(shop.production(MODEL))}


def test_a_source_known_by_its_updated_column(shop: Shop, retcon: Retcon) -> None:
    declare(shop, CSV)
    rows = list(FIRST)

    def load(*more: Row) -> tuple[list[str], list[str]]:
        """The slices that were loaded, and what was said of the rows."""
        rows.extend(more)
        write(shop, rows)
        result = retcon("load")
        return slices_of(shop, result), result["models"][0]["notes"]

    def marks() -> list[str | None]:
        return [each["value"] for each in retcon("watermarks")["watermarks"]]

    mark = "updated_at=2026-01-08T09:00:00+00:00"
    assert load() == (["2026-01-01..2026-01-04"], [])
    assert marks() == [mark]
    assert load() == ([], []), "rows at the very mark are looked at again, and are the same"
    # Another batch with the newest time that was seen; an old time that is committed late, within the trailing window
    # of three days; and a row of which nobody knows when it was updated.
    tied = (5, "2026-01-02", 1, "2026-01-08 09:00:00")
    no_time = "raw.bookings: 1 row without updated_at: looked at by every load"
    late, unknown = (6, "2026-01-01", 1, "2026-01-05 09:00:00"), (7, "2026-01-03", 1, "")
    assert load(tied, late, unknown) == (["2026-01-01..2026-01-03"], [no_time])
    # Far in the future: loaded, and the watermark doesn't follow.
    ahead = (
        "raw.bookings: 1 row with updated_at in the future: loaded, the watermark goes no further than "
        "2026-01-08 09:00:00"
    )
    assert load((8, "2026-01-05", 50, "2099-01-01 00:00:00")) == (["2026-01-05"], [no_time, ahead])
    assert marks() == [mark]
    assert load() == ([], [no_time, ahead])
    assert list(amounts(shop).values()) == [11, 21, 31, 40, 50]
    # Older than the window, or gone: not seen by a load; compared by a plan.
    rows.remove(tied)
    assert load((9, "2026-01-02", 2, "2026-01-02 10:00:00"))[0] == []
    plan = retcon("plan", "--changed", "--reason", "x", "--dry-run")["plan"]
    assert [model["slices"] for model in plan["models"]] == ["2026-01-02"]
    # Restored from a backup: nothing is loaded until somebody says so.
    rows[:] = [(day, f"2026-01-0{day}", 7, "2026-01-03 09:00:00") for day in range(1, 6)]
    write(shop, rows)
    refused = retcon("load", code=1)
    assert "was read up to updated_at 2026-01-08 09:00:00, and no row is as new any more" in refused["message"]
    assert "retcon watermarks reset mart.daily --input raw.bookings" in refused["next"]
    assert marks() == [mark]
    retcon("watermarks", "reset", MODEL, "--reason", "restored")
    assert load() == (["2026-01-01..2026-01-05"], [])
    assert list(amounts(shop).values()) == [7] * 5
    retcon("watermarks", "reset", MODEL, "--to", "2026-01-01", "--reason", "once more")
    assert load() == ([], [])
    retcon("watermarks", "reset", MODEL, "--to", "2026-02-01", "--reason", "forward", code=1)


def test_with_a_key_rows_of_a_database_that_moved_or_went_are_found(
    shop: Shop, retcon: Retcon, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BOOKINGS", "jdbc:" + postgres_url.replace("retcon@", "") + "?user=retcon")
    declare(shop, TABLE)
    with psycopg.connect(postgres_url, autocommit=True) as server:
        server.execute("DROP TABLE IF EXISTS bookings")
        server.execute("CREATE TABLE bookings (order_id int, order_date date, amount int, updated_at timestamptz)")
        server.cursor().executemany(
            "INSERT INTO bookings VALUES (%s, %s::date, %s, %s::timestamptz)",
            [(*row[:3], f"{row[3]}+00") for row in [*FIRST[:3], (4, "2026-01-01", 1, "2026-01-01 09:00:00")]],
        )
        assert slices_of(shop, retcon("load")) == ["2026-01-01..2026-01-03"]
        assert slices_of(shop, retcon("load")) == []
        server.execute("UPDATE bookings SET order_date = '2026-01-03', updated_at = '2026-01-09' WHERE order_id = 4")
        assert slices_of(shop, retcon("load")) == ["2026-01-01, 2026-01-03"]
        assert amounts(shop) == {"2026-01-01": 10, "2026-01-02": 20, "2026-01-03": 31}
        server.execute("INSERT INTO bookings VALUES (5, '2026-01-02', 5, '2026-01-09'), (6, '2026-01-01', 1, now())")
        server.execute("DELETE FROM bookings WHERE order_id = 3")
        assert slices_of(shop, retcon("load")) == ["2026-01-01..2026-01-03"]
        assert amounts(shop) == {"2026-01-01": 11, "2026-01-02": 25, "2026-01-03": 1}


def test_an_iceberg_source_that_was_set_back_stops_its_readers_and_one_made_again_is_compared(
    shop: Shop, retcon: Retcon
) -> None:
    shop.open_doors()
    shop.remove("mart.revenue")
    shop.write("mart.rates", "/* retcon\nslices: {by: rate_date, every: day}\ninputs: {raw.rates: {time: rate_date}}\n"
               "*/\nSELECT rate_date, currency, rate FROM raw.rates\n")  # fmt: skip
    ((before,),) = shop.sql("SELECT snapshot_id FROM raw.orders.history ORDER BY made_current_at DESC LIMIT 1")
    shop.sql("INSERT INTO raw.orders VALUES (900, DATE '2026-01-03', 'EUR', 'late', 7)")
    retcon("load")
    shop.sql(f"CALL lake.system.rollback_to_snapshot('raw.orders', {before})")
    shop.sql("INSERT INTO raw.rates VALUES (DATE '2026-01-09', 'USD', 1)")
    refused = retcon("load", code=1)
    assert "raw.orders was read at snapshot" in refused["message"]
    assert "left as it is, with its watermarks: mart.orders_usd;" in refused["state"]
    assert slices_of(shop, refused) == ["2026-01-09"], "others go on"
    # What is different is found all the same, for a plan; also when more was written since.
    shop.sql("INSERT INTO raw.orders VALUES (901, DATE '2026-01-05', 'EUR', 'new', 7)")
    differ = retcon("plan", "mart.orders_usd", "--changed", "--reason", "x", "--dry-run")["plan"]["models"]
    assert [model["slices"] for model in differ] == ["2026-01-03, 2026-01-05"]
    assert retcon("load", code=1)["runs"] == []
    retcon("watermarks", "reset", "mart.orders_usd", "--to", "2026-01-15", "--reason", "restored", code=1)
    retcon("watermarks", "reset", "mart.orders_usd", "--input", "raw.orders", "--reason", "restored")
    assert slices_of(shop, retcon("load")) == ["2026-01-03, 2026-01-05"]
    assert shop.production("mart.orders_usd") == shop.rows(RECOMPUTED_ORDERS)
    # Dropped and made again, it is another table: every day is compared, and what its files were isn't known.
    shop.sql("CREATE TABLE raw.kept USING iceberg AS SELECT * FROM raw.orders")
    shop.sql("DROP TABLE raw.orders")
    shop.sql("CREATE TABLE raw.orders USING iceberg PARTITIONED BY (order_date) AS SELECT * FROM raw.kept "
             "WHERE order_id <> 901")  # fmt: skip
    assert slices_of(shop, retcon("load")) == ["2026-01-01..2026-01-08"]
    assert shop.production("mart.orders_usd") == shop.rows(RECOMPUTED_ORDERS)


def test_files_in_folders_by_day_are_loaded_by_the_day(shop: Shop, retcon: Retcon) -> None:
    columns = "{order_id: bigint, amount: int, order_date: date}"
    declare(shop, f"sources: {{raw.bookings: {{format: csv, path: data, columns: {columns}}}}}\n")

    def put(day: int, name: str, amount: int) -> None:
        folder = shop.root / "data" / f"order_date=2026-01-0{day}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{name}.csv").write_text(f"order_id,amount\n1,{amount}\n")

    for day in (1, 2, 3):
        put(day, "a", day)
    assert slices_of(shop, retcon("load")) == ["2026-01-01..2026-01-03"]
    assert retcon("load")["runs"] == []
    put(1, "a", 100)
    put(3, "b", 10)
    put(4, "a", 4)
    assert slices_of(shop, retcon("load")) == ["2026-01-01, 2026-01-03..2026-01-04"]
    assert amounts(shop) == {"2026-01-01": 100, "2026-01-02": 2, "2026-01-03": 13, "2026-01-04": 4}
    assert retcon("load")["runs"] == []


def test_rows_are_looked_at_by_the_slices_and_types_of_their_columns(shop: Shop) -> None:
    at = [datetime(2026, 1, 1, 23, 59, 59, 999_999), datetime(2026, 1, 2, 0, 30), datetime(2026, 3, 5), None]
    times = pa.array(at, pa.timestamp("us"))
    columns = {
        "k": [1, 2, 3, 4],
        "ntz": times,
        "utc": times.cast(pa.timestamp("us", tz="UTC")),
        "day": times.cast(pa.date32()),
        "text": ["a", "b", "c", "d"],
    }
    pq.write_table(pa.table(columns), shop.root / "rows.parquet")
    settings = shop.root / "retcon.yaml"
    # Days and hours are UTC's, whatever the session thinks.
    settings.write_text(settings.read_text() + "timezone: America/New_York\n")
    shop.close()
    path = str(shop.root / "rows.parquet")

    def look(updated: str, **wanted: Any) -> dict[tuple[int | None, int | None], SliceRows]:
        source = Source(name="raw.r", format="parquet", path=path, updated=updated, key=("k",))
        found = look_at_rows(shop.workspace.spark, source, None, Wanted(**wanted))
        return {(rows.first, rows.last): rows for rows in found}

    day, hour = (partial(grain.ordinal, datetime(2026, 1, 2, tzinfo=UTC)) for grain in (Grain.DAY, Grain.HOUR))
    for column in ("ntz", "utc", "day"):
        days = look(column, time=column, cut=Grain.DAY)
        assert set(days) == {(day() - 1, day() - 1), (day(), day()), (day() + 62, day() + 62), (0, -1)}
        newest = datetime(2026, 1, 2, 0, 0 if column == "day" else 30, tzinfo=UTC)
        assert days[day(), day()].newest == newest
        assert (days[0, -1].newest, days[0, -1].nulls) == (None, 1)
        recent = look(column, time=column, cut=Grain.MONTH, since=newest, until=newest)
        assert {(rows.rows, rows.newest, rows.nulls, rows.ahead) for rows in recent.values()} == {
            (1, newest, 0, 0),
            (1, None, 0, 1),
            (1, None, 1, 0),
        }
        (one,) = look(column, time=column, cut=Grain.DAY, within=SliceSet(Grain.DAY, (day(),))).values()
        assert one.checksum == days[day(), day()].checksum
        (whole,) = look(column, time=None, cut=WHOLE).values()
        assert whole.rows == 4
    # A date tells no hours: its rows may be in any hour of its day.
    assert (hour(), hour() + 23) in look("utc", time="day", cut=Grain.HOUR)
    assert (hour(), hour()) in look("utc", time="utc", cut=Grain.HOUR)
    assert set(look("utc", time="k", cut=Buckets(4))) == {(None, None)}
    for updated, message in (("nothing", r"raw\.r has no column nothing"), ("text", r"raw\.r\.text is string")):
        with pytest.raises(Refused, match=message):
            look(updated, time="day", cut=Grain.DAY)
