"""From full refresh to incremental: both are computed and compared, then one command cuts over."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pyspark.sql import DataFrame

from retcon.cli.main import run
from retcon.lakehouse.differences import differing_rows
from tests.shops import Shop

pytestmark = pytest.mark.spark

DAILY = """\
SELECT order_date, currency, count(*) AS orders, sum(amount) AS amount, sum(CAST(amount AS DOUBLE) / 3) AS third
FROM raw.orders GROUP BY order_date, currency"""
EXACT = "SELECT order_date, currency, orders, amount FROM mart.daily"
MOVING = """\
/* retcon
slices: {by: order_date, every: day}
inputs: {raw.orders: {time: order_date, lookback: 1}}
gates: [{drift: {metric: sum(moving), within: 50%}}]
*/
SELECT order_date, sum(amount) AS amount,
  sum(sum(amount)) OVER (ORDER BY order_date ROWS BETWEEN 2 PRECEDING AND CURRENT ROW) AS moving
FROM raw.orders GROUP BY order_date
"""


class CommandLine:
    """The shop's command line, and what it says."""

    def __init__(self, shop: Shop, capsys: pytest.CaptureFixture[str]) -> None:
        self._shop = shop
        self._capsys = capsys

    def __call__(self, *words: str, code: int = 0) -> Any:
        self._shop.close()
        self._capsys.readouterr()
        assert run([*words, "--project", str(self._shop.root), "--json"]) == code, self._capsys.readouterr()
        document = json.loads(self._capsys.readouterr().out)
        return document.get("result") or document["error"]


@pytest.fixture
def retcon(shop: Shop, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    return CommandLine(shop, capsys)


def test_what_is_the_same_either_way_is_cut_over_and_loads_keep_it_up(shop: Shop, retcon: CommandLine) -> None:
    shop.remove("mart.orders_usd", "mart.revenue")
    shop.open_doors()
    # A job of somebody else's has always made it whole.
    shop.sql("CREATE NAMESPACE mart")
    shop.sql(f"CREATE TABLE mart.daily USING iceberg PARTITIONED BY (order_date) AS {DAILY}")
    head = "/* retcon\nslices: {by: order_date, every: day}\ninputs: {raw.orders: {time: order_date}}\n*/\n"
    shop.write("mart.daily", head + DAILY)
    retcon("adopt", "mart.daily", "--reason", "made by the nightly job")
    before = shop.rows(EXACT), shop.files("mart.daily")

    found = retcon("migrate", "mart.daily", "--days", "5")
    assert (found["same"], found["compared"], found["differing"]) == (True, "2026-01-04..2026-01-08", "")
    assert found["full_refresh_rows"] == sum(before[0].values())
    assert found["totals"]["rows"] == {"incremental": "10", "full_refresh": "10"}
    assert (shop.root / "backfills" / f"{found['run']}.yaml").exists()
    assert (shop.rows(EXACT), shop.files("mart.daily")) == before
    again = retcon("migrate", "mart.daily", "--days", "5")
    assert (again["run"], again["same"]) == (found["run"], True), "it goes on with its run"

    retcon("apply", found["run"])
    assert shop.files("mart.daily") != before[1]
    assert shop.rows(EXACT) == before[0]
    assert retcon("load")["runs"] == []
    shop.sql("INSERT INTO raw.orders VALUES (900, DATE '2026-01-07', 'EUR', 'late', 7)")
    (loaded,) = retcon("load")["runs"]
    assert shop.rows(EXACT) == shop.rows(EXACT.replace("mart.daily", f"({DAILY})")) != before[0]
    assert loaded["state"] == "published"


def test_a_lookback_that_is_too_short_is_found_and_so_is_a_row_without_a_day(shop: Shop, retcon: CommandLine) -> None:
    shop.remove("mart.orders_usd", "mart.revenue")
    shop.open_doors()
    shop.write("mart.moving", MOVING)

    found = retcon("migrate", "mart.moving", "--days", "4", code=1)
    assert (found["same"], found["differing"]) == (False, "2026-01-05..2026-01-08")
    first = found["slices"][0]
    assert (first["incremental"]["rows"], first["full_refresh"]["rows"], first["rows_apart"]) == (1, 1, 1)
    assert first["incremental"]["metrics"] != first["full_refresh"]["metrics"]
    assert any("lookback 1" in reason for reason in found["reasons"])
    assert shop.production("mart.moving") == {}
    shop.edit("mart.moving", "lookback: 1", "lookback: 2")
    refused = retcon("migrate", "mart.moving", "--days", "4", code=1)
    assert f"retcon cancel {found['run']}" in refused["next"]
    retcon("cancel", found["run"])

    # The gate is told along with the comparison, which holds all the same.
    shop.edit("mart.moving", "{drift: {metric: sum(moving), within: 50%}}", "{rows: {min: 2}}")
    failed = retcon("migrate", "mart.moving", "--days", "4", code=4)
    assert (failed["code"], failed["comparison"]["same"]) == ("gate", True)
    assert shop.production("mart.moving") == {}
    retcon("cancel", failed["run"])

    # A full refresh has rows of no day; no slice does.
    shop.sql("INSERT INTO raw.orders VALUES (900, NULL, 'EUR', 'nobody', 7)")
    shop.edit("mart.moving", "{rows: {min: 2}}", "{rows: {min: 1}}")
    shop.edit("mart.moving", "(ORDER BY", "(PARTITION BY order_date IS NULL ORDER BY")
    unsliced = retcon("migrate", "mart.moving", "--days", "4", code=1)
    assert (unsliced["same"], unsliced["differing"], unsliced["rows_in_no_slice"]) == (False, "", 1)


def test_only_another_order_of_summing_is_no_difference(shop: Shop) -> None:
    def frame(*rows: str) -> DataFrame:
        listed = ", ".join(f"({row})" for row in rows)
        return shop.workspace.spark.sql(f"SELECT d, k, double(x) AS x FROM VALUES {listed} AS t(d, k, x)")

    def apart(one: DataFrame, other: DataFrame) -> dict[int, int]:
        return differing_rows(one, other, one.schema.fields, lambda rows: rows["d"])

    sums = frame("1, 'a', '0.6000000000000001'", "2, 'a', 'NaN'", "3, 'a', 'inf'", "4, 'a', NULL", "5, 'a', '1e15'")
    same = frame("1, 'a', '0.6'", "2, 'a', 'NaN'", "3, 'a', 'inf'", "4, 'a', NULL", "5, 'a', '1000000000000001'")
    assert apart(sums, same) == {}
    other = frame("1, 'a', '0.61'", "2, 'a', '1'", "3, 'a', '-inf'", "4, 'a', '0'", "5, 'b', '1e15'")
    assert apart(sums, other) == dict.fromkeys(range(1, 6), 1)
    # Rows too many on either side, and slices that one side doesn't have.
    twice = frame("1, 'a', '1'", "1, 'a', '1'", "1, 'a', '1'", "2, 'a', '1'")
    assert apart(twice, frame("1, 'a', '1'", "3, 'c', '1'")) == {1: 2, 2: 1, 3: 1}


def test_inside_structs_arrays_and_maps_another_order_of_summing_is_no_difference_either(shop: Shop) -> None:
    def frame(*rows: str) -> DataFrame:
        listed = ", ".join(f"({row})" for row in rows)
        return shop.workspace.spark.sql(
            "SELECT d, named_struct('x', double(x), 'k', k) AS st, array(double(x), double(y)) AS arr, "
            f"map(k, double(x)) AS m FROM VALUES {listed} AS t(d, x, y, k)"
        )

    def apart(one: DataFrame, other: DataFrame) -> dict[int, int]:
        return differing_rows(one, other, one.schema.fields, lambda rows: rows["d"])

    sums = frame("1, '0.6000000000000001', '1', 'a'", "2, 'NaN', '1', 'a'", "3, 'inf', NULL, 'a'", "4, '1', '2', 'a'")
    same = frame("1, '0.6', '1', 'a'", "2, 'NaN', '1', 'a'", "3, 'inf', NULL, 'a'", "4, '1', '2', 'a'")
    assert apart(sums, same) == {}
    other = frame("1, '0.61', '1', 'a'", "2, '0', '1', 'a'", "3, '-inf', NULL, 'a'", "4, '1', '2', 'b'")
    assert apart(sums, other) == dict.fromkeys(range(1, 5), 1)
    swapped = frame("1, '0.6', '1', 'a'", "2, 'NaN', '1', 'a'", "3, 'inf', '0', 'a'", "4, '2', '1', 'a'")
    assert apart(sums.select("d", "arr"), swapped.select("d", "arr")) == {3: 1, 4: 1}, "places count, NULL isn't 0"
