"""Plans about some keys, from the command line to the plan's file."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow.parquet import write_table

from retcon.core.keys import keys_file
from retcon.errors import BadArguments, Refused
from tests.flow.workshops import Workshop, scope, share


@pytest.fixture
def keyed(tmp_path: Path) -> Workshop:
    """A model that carries `x`, published for some of its days, and a reader that doesn't."""
    workshop = Workshop(tmp_path)
    workshop.lake.by_day("raw.s", "2026-01-01..2026-01-20")
    workshop.model("mart.a", "raw.s: {time: d, key: x}", "SELECT d, x FROM raw.s")
    workshop.model("mart.b", "mart.a: {time: d}", "SELECT d, count(x) AS n FROM mart.a GROUP BY d")
    workshop.lake.by_day("mart.a", "2026-01-01..2026-01-05", properties={"retcon.model": "mart.a"})
    workshop.publish_by_hand("mart.b", "2026-01-02..2026-01-03")
    return workshop


def test_a_plan_about_keys_covers_what_was_published_and_widens_where_the_key_is_not_carried(keyed: Workshop) -> None:
    keys = keyed.workspace.listed_keys("X=1,2").keys
    plan = keyed.plan("mart.a", start="2026-01-03", end="2026-01-08", keys=keys)
    assert scope(plan) == {"mart.a": "2026-01-03..2026-01-05", "mart.b": "2026-01-03"}
    assert (share(plan, "mart.a").is_keyed, share(plan, "mart.b").is_keyed) == (True, False)
    assert "other_keys" in share(plan, "mart.a").gates
    assert "other_keys" not in share(plan, "mart.b").gates
    assert any("2026-01-06..2026-01-08 (3 slices) left out: never published" in note for note in plan.notes)
    assert any(note.startswith("mart.b: whole slices are recomputed: none of its inputs") for note in plan.notes)


def test_keys_of_nothing_published_of_another_type_or_over_the_limit_are_refused(keyed: Workshop) -> None:
    keys = keyed.workspace.listed_keys("x=1").keys
    with pytest.raises(Refused, match="that could hold these keys was ever published"):
        keyed.plan("mart.a", start="2026-01-10", end="2026-01-12", keys=keys)
    with pytest.raises(BadArguments, match="'c1' is no bigint"):
        keyed.plan("mart.a", start="2026-01-03", end="2026-01-03", keys=keyed.workspace.listed_keys("x=c1").keys)
    keyed.settings("limits: {keys: 2}")
    with pytest.raises(Refused, match="3 keys, at most 2 allowed"):
        keyed.workspace.listed_keys("x=1,2,3")


def test_many_keys_are_kept_beside_the_plan_and_planned_again_from_there(keyed: Workshop, tmp_path: Path) -> None:
    write_table(pa.table({"x": pa.array(range(1000), pa.int64())}), tmp_path / "keys.parquet")
    gathered = keyed.workspace.keys_from(str(tmp_path / "keys.parquet"))
    plan = keyed.plan("mart.a", start="2026-01-03", end="2026-01-03", keys=gathered.keys)
    keyed.workspace.write_plan(plan, gathered)
    gathered.drop()
    assert keyed.workspace.read_plan(plan.id) == plan
    again = keyed.workspace.keys_again(keyed.workspace.read_asked(plan.id))
    assert again is not None
    assert again.keys == gathered.keys
    again.drop()
    (keyed.root / keys_file(plan.id)).write_text("")
    with pytest.raises(Refused, match="isn't what was reviewed"):
        keyed.workspace.read_plan(plan.id)
    with pytest.raises(BadArguments, match=r"neither a \.csv or \.parquet file, nor a table, nor a SELECT"):
        keyed.workspace.keys_from("mart.nothing")


def test_columns_that_change_are_no_matter_of_some_keys(keyed: Workshop) -> None:
    keyed.model("mart.a", "raw.s: {time: d, key: x}", "SELECT d, x, x * 2 AS twice FROM raw.s")
    keys = keyed.workspace.listed_keys("x=1,2").keys
    with pytest.raises(Refused, match="the columns of all rows would change: new column twice"):
        keyed.plan("mart.a", start="2026-01-03", end="2026-01-03", keys=keys)
    assert share(keyed.plan("mart.a", start="2026-01-03", end="2026-01-03"), "mart.a").changes
