"""`adopt`, and what plans and `status` say of a table that others made."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyiceberg.types import DateType, LongType, StringType

from tests.cli.conftest import Retcon
from tests.cli.shops import ORDERS
from tests.lakehouse.lakes import Lake

MODEL = """\
/* retcon
slices: {by: d, every: day}
inputs: {raw.orders: {time: order_date}}
columns:
  d: date
  n: {type: bigint, comment: how many}
  most: decimal(12,2)
*/
SELECT order_date AS d, count(*) AS n, max(amount) AS most FROM raw.orders GROUP BY order_date
"""
REASON = ("--reason", "the nightly job's")


@pytest.fixture
def lake(shop: Path) -> Lake:
    """A table with two days that others wrote, and a model of its name."""
    (shop / "models" / "mart" / "daily.sql").write_text(MODEL)
    lake = Lake(shop / ".retcon")
    lake.by_day("mart.daily", "2026-01-01..2026-01-02", number="n")
    return lake


def test_a_table_of_others_is_adopted_before_it_is_planned(retcon: Retcon, lake: Lake) -> None:
    refused = retcon("plan", "mart.daily", *REASON)
    assert refused.code == 1
    assert "retcon adopt mart.daily" in refused.err
    told = retcon("adopt", "mart.daily", *REASON)
    assert told.code == 0
    assert "2026-01-01..2026-01-02 (2 slices, 2 rows)" in told.out
    assert "new column most (decimal(12,2)): made by the first plan" in told.out
    assert "unknown: 2026-01-01..2026-01-02" in retcon("status", "mart.daily").out
    assert retcon("status", "mart.daily", "--json").result["models"][0]["unknown"] == "2026-01-01..2026-01-02"
    assert "adopted with 2026-01-01..2026-01-02, unknown" in retcon("show", "mart.daily").out
    again = retcon("adopt", "mart.daily", *REASON)
    assert again.code == 1
    assert "was adopted by" in again.err
    lake.close()


def test_in_an_environment_its_own_table_is_adopted(retcon: Retcon, lake: Lake, shop: Path) -> None:
    settings = shop / "retcon.yaml"
    settings.write_text(settings.read_text() + "environments: {staging: {prefix: staging_}}\n")
    lake.by_day("staging_mart.daily", "2026-01-03", number="n")
    refused = retcon("plan", "mart.daily", *REASON, "--env", "staging")
    assert "`retcon adopt staging_mart.daily --env staging --reason …`" in refused.err
    adopted = retcon("adopt", "mart.daily", *REASON, "--env", "staging")
    assert "(1 slices, 1 rows)" in adopted.out
    assert "retcon plan staging_mart.daily --env staging --reason …" in adopted.out
    again = retcon("adopt", "mart.daily", *REASON, "--env", "staging")
    assert "retcon plan staging_mart.daily --env staging --reason" in again.err
    assert "retcon adopt mart.daily" in retcon("plan", "mart.daily", *REASON).err
    lake.close()


def test_the_plan_says_how_columns_change(retcon: Retcon, lake: Lake) -> None:
    result = retcon("adopt", "mart.daily", *REASON, "--json").result
    assert (result["slice_count"], result["reason"]) == (2, "the nightly job's")
    text = retcon("plan", "mart.daily", *REASON, "--dry-run").out
    assert "mart.daily  new column most (decimal(12,2))" in text
    assert "comment of n: how many" in text
    assert "NULL until" in text
    plan = retcon("plan", "mart.daily", *REASON, "--dry-run", "--json").result["plan"]
    assert plan["models"][0]["columns"] == [
        {"add": "most", "type": "decimal(12,2)"},
        {"comment": "n", "text": "how many"},
    ]
    assert "Columns" not in retcon("plan", ORDERS, *REASON, "--dry-run").out
    lake.close()


def test_a_column_of_another_type_is_refused_when_planning_where_columns_tells(retcon: Retcon, shop: Path) -> None:
    (shop / "models" / "mart" / "daily.sql").write_text(MODEL)
    lake = Lake(shop / ".retcon")
    lake.make("mart.daily", DateType(), number="n", more={"most": StringType()})
    refused = retcon("plan", "mart.daily", *REASON)
    assert refused.code == 1
    assert "is partitioned by not at all" in refused.err
    lake.catalog.drop_table("mart.daily")
    lake.by_day("mart.daily", number="n", more={"most": LongType()}, properties={"retcon.model": "mart.daily"})
    refused = retcon("plan", "mart.daily", *REASON)
    assert "mart.daily.most: the query yields decimal(12,2), the table has bigint" in refused.err.replace("\n", " ")
    lake.close()


def test_the_plan_says_which_table_is_built_beside_and_why(retcon: Retcon, shop: Path) -> None:
    (shop / "models" / "mart" / "daily.sql").write_text(MODEL.replace("slices:", "strategy: full\nslices:"))
    lake = Lake(shop / ".retcon")
    lake.by_day("mart.daily", "2026-01-01..2026-01-02", properties={"retcon.model": "mart.daily"})
    plan = retcon("plan", "mart.daily", *REASON, "--json").result["plan"]
    [model] = plan["models"]
    assert model["beside"]["table"].startswith("mart.daily__20")
    assert model["beside"]["instead_of"] == str(lake.current("mart.daily"))
    assert {"drop": "x", "type": "bigint"} in model["columns"]
    text = retcon("plan", "mart.daily", *REASON, "--dry-run").out
    for told in ("Built beside", "mart.daily  as mart.daily__20", "column x (bigint) goes away", "new column most"):
        assert told in text
    assert "Columns" not in text
    lake.close()
