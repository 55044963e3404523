"""Plans of upserts whose rows may move to another slice; where the keys are is told by a stand-in for Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from retcon.core.jobs import Job
from retcon.core.plans import from_document, to_document
from retcon.core.reads import Read
from retcon.core.slices import SliceSet
from retcon.errors import Refused
from tests.flow.workshops import Workshop, scope, share
from tests.lakehouse.lakes import days

MERGED = "strategy: merge\nkey: [x]"


class Moving(Workshop):
    """A model of upserts, published for some days, and a reader."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.lake.by_day("raw.s", "2026-01-01..2026-01-20")
        self.merged("mart.a", "raw.s: {time: d}", "SELECT d, x FROM raw.s")
        self.model("mart.b", "mart.a: {time: d}", "SELECT d, count(x) AS n FROM mart.a GROUP BY d")
        self.looks: list[tuple[Job, Read]] = []
        self.homes = SliceSet(days("2026-01-01").grain)

    def merged(self, name: str, inputs: str, sql: str, keys: str = "") -> None:
        self.model(name, inputs, sql, keys=f"{MERGED}\n{keys}")

    def publish(self, name: str, slices: str) -> None:
        self.lake.by_day(name, slices, properties={"retcon.model": name})

    def plan(self, *select: str, **ask: Any) -> Any:
        def look(job: Job, there: Read) -> SliceSet:
            self.looks.append((job, there))
            return self.homes

        self.workspace._homes = look  # type: ignore[method-assign]
        return super().plan(*select, **ask)


@pytest.fixture
def moving(tmp_path: Path) -> Moving:
    moving = Moving(tmp_path)
    moving.publish("mart.a", "2026-01-01..2026-01-10")
    moving.publish_by_hand("mart.b", "2026-01-01..2026-01-10")
    return moving


def test_slices_that_hold_computed_keys_are_written_too_and_what_reads_them(moving: Moving) -> None:
    moving.homes = days("2026-01-02, 2026-01-07")
    plan = moving.plan("mart.a", start="2026-01-09", end="2026-01-12", wave=2)
    planned = share(plan, "mart.a")
    assert scope(plan) == {
        "mart.a": "2026-01-02, 2026-01-07, 2026-01-09..2026-01-12",
        "mart.b": "2026-01-02, 2026-01-07, 2026-01-09..2026-01-10",
    }
    assert planned.moved_from == moving.homes
    assert planned.waves == (planned.slices,)
    assert planned.inputs[0].slices == planned.computed == days("2026-01-09..2026-01-12")
    assert from_document(to_document(plan)) == plan
    assert to_document(plan)["models"][0]["moved_from"] == "2026-01-02, 2026-01-07"
    assert "one_row_per_key" in planned.gates
    assert any("mart.a is written in one wave" in note for note in plan.notes)

    [(job, there)] = moving.looks
    assert [part.slices for part in job.parts] == [planned.computed]
    assert there.slices == days("2026-01-01..2026-01-08"), "looked for where it isn't computed"


def test_nothing_is_looked_for_where_nothing_else_is_there(moving: Moving) -> None:
    plan = moving.plan("mart.a", start="2026-01-01", end="2026-01-12", wave=5)
    assert share(plan, "mart.a").moved_from is None
    assert len(share(plan, "mart.a").waves) == 1, "a row may move within the range"
    assert "moved_from" not in to_document(plan)["models"][0]
    assert not moving.looks


def test_a_table_without_rows_is_planned_as_any_other(tmp_path: Path) -> None:
    moving = Moving(tmp_path)
    plan = moving.plan("mart.a", start="2026-01-01", end="2026-01-12", wave=5)
    assert [len(wave) for wave in share(plan, "mart.a").waves] == [5, 5, 2]
    assert not moving.looks


def test_days_that_hold_none_of_the_keys_and_no_rows_are_cut_into_waves(moving: Moving) -> None:
    plan = moving.plan("mart.a", start="2026-01-11", end="2026-01-16", wave=3)
    assert [len(wave) for wave in share(plan, "mart.a").waves] == [3, 3]
    assert len(moving.looks) == 1


def test_where_an_input_is_made_by_the_same_plan_rows_may_leave_any_slice(moving: Moving) -> None:
    moving.merged("mart.c", "mart.a: {time: d}", "SELECT d, x FROM mart.a")
    moving.publish("mart.c", "2026-01-01..2026-01-04, 2026-01-09")
    plan = moving.plan("mart.a", start="2026-01-09", end="2026-01-09")
    planned = share(plan, "mart.c")
    assert planned.moved_from == days("2026-01-01..2026-01-04")
    assert planned.computed == days("2026-01-09")
    assert [job.model.name for job, _ in moving.looks] == ["mart.a"]
    told = next(note for note in plan.notes if note.startswith("mart.c: rows may leave"))
    assert told.endswith("it reads mart.a, which this plan makes too, so keys aren't known yet")


def test_keys_are_computed_as_the_plan_computes_them(moving: Moving) -> None:
    text = "SELECT d, x, count(*) OVER () AS n FROM raw.s WHERE d >= :start_date"
    moving.merged("mart.a", "raw.s: {time: d, lookback: 1}", text)
    moving.plan("mart.a", start="2026-01-08", end="2026-01-09")
    [(job, _)] = moving.looks
    assert [part.slices.text for part in job.parts] == ["2026-01-08", "2026-01-09"], "slice by slice"
    assert [read.slices for read in job.all_reads] == [days("2026-01-07..2026-01-08"), days("2026-01-08..2026-01-09")]
    assert len({part.name for part in job.parts}) == 2


def test_a_plan_that_will_be_refused_starts_no_spark(moving: Moving) -> None:
    with pytest.raises(Refused, match="don't hold the whole range"):
        moving.plan("mart.a", start="2026-01-09", end="2026-01-21")
    moving.settings("limits: {slices: 3}")
    with pytest.raises(Refused, match="slices, at most 3 allowed"):
        moving.plan("mart.a", start="2026-01-05", end="2026-01-09")
    assert not moving.looks
