"""Inputs that are read as they were when a slice ended: planned by the table's history, and held to it."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from retcon.core.exceptions import LateChange
from retcon.core.jobs import Job
from retcon.core.measures import SliceMeasure
from retcon.core.plans import from_document, to_document
from retcon.core.slices import Slice
from retcon.errors import Refused
from retcon.flow.apply import open_run
from retcon.wiring import Workspace
from tests.flow.workshops import Workshop, reading, scope, share
from tests.lakehouse.lakes import Lake


@pytest.fixture
def workshop(tmp_path: Path) -> Workshop:
    """A source that got rows on the second, the fourth and the twenty-second of January, and a model that asks when."""
    workshop = Workshop(tmp_path)
    workshop.lake.by_day("raw.s", "2026-01-01..2026-01-03")
    workshop.lake.append("raw.s", "2026-01-02")
    workshop.lake.append("raw.s", "2026-01-04")
    dated(workshop.lake, "raw.s", (2, 6), (4, 6), (22, 6))
    workshop.model("mart.then", "raw.s: {time: d, lookback: 1, as_of: slice}")
    return workshop


def dated(lake: Lake, table: str, *moments: tuple[int, int]) -> None:
    """Make the table's history say that its snapshots are from these days and hours of January."""

    def change(metadata: dict[str, Any]) -> None:
        log = metadata["snapshot-log"][-len(moments) :]
        assert len(log) == len(moments)
        for entry, (day, hour) in zip(log, moments, strict=True):
            entry["timestamp-ms"] = int(datetime(2026, 1, day, hour, tzinfo=UTC).timestamp() * 1000)
        metadata["snapshot-log"] = log

    lake.rewrite(table, change)


def test_each_slice_reads_the_snapshot_of_its_own_end(workshop: Workshop) -> None:
    plan = workshop.plan("mart.then", start="2026-01-02", end="2026-01-04", allow_missing_source=True)
    first, second, third = [snapshot for _, snapshot in workshop.workspace.tables.facts("raw.s").history]  # type: ignore[union-attr]
    read = reading(plan, "mart.then", "raw.s")
    assert [(v.slices.text, v.snapshot_id) for v in read.versions] == [
        ("2026-01-02..2026-01-03", first),
        ("2026-01-04", second),
    ]
    assert third not in {v.snapshot_id for v in read.versions}
    assert [wave.text for wave in share(plan, "mart.then").waves] == ["2026-01-02", "2026-01-03", "2026-01-04"]
    assert read.missing is not None
    assert read.missing.text == "2026-01-04", "it came on the twenty-second"
    assert from_document(to_document(plan)) == plan
    assert any("as it was at each slice's end: 2 snapshots" in note for note in plan.notes)


def test_what_wasnt_there_yet_is_missing_though_it_is_there_now(workshop: Workshop) -> None:
    with pytest.raises(Refused, match=r"raw\.s has no data for 2026-01-04"):
        workshop.plan("mart.then", start="2026-01-04", end="2026-01-05")


def test_history_that_isnt_known_is_refused_when_planning_and_when_applying(workshop: Workshop) -> None:
    with pytest.raises(Refused, match=r"at the end of 2026-01-01, .* since 2026-01-02 06:00 UTC"):
        workshop.plan("mart.then", start="2026-01-01", end="2026-01-02")
    plan = workshop.plan("mart.then", start="2026-01-02", end="2026-01-03")
    dated(workshop.lake, "raw.s", (4, 6), (22, 6))
    w = workshop.workspace
    with pytest.raises(Refused, match=r"what it was at the end of 2026-01-02 has expired"):
        open_run(plan, w.project, w.ledger, w.tables, w.clock, w.who)


def test_an_open_slice_reads_what_is_there_now_and_is_held_to_it(workshop: Workshop) -> None:
    workshop.lake.append("raw.s", "2026-01-21", "2026-01-22")
    dated(workshop.lake, "raw.s", (2, 6), (4, 6), (21, 6), (22, 6))
    plan = workshop.plan("mart.then", start="2026-01-22", end="2026-01-22")
    w = workshop.workspace
    now = w.tables.facts("raw.s").snapshot_id  # type: ignore[union-attr]
    assert [v.snapshot_id for v in reading(plan, "mart.then", "raw.s").versions] == [now]
    workshop.lake.append("raw.s", "2026-01-22")
    dated(workshop.lake, "raw.s", (2, 6), (4, 6), (21, 6), (22, 6), (22, 7))
    with pytest.raises(Refused, match=r"raw\.s changed since plan .*: 2026-01-22"):
        open_run(plan, w.project, w.ledger, w.tables, w.clock, w.who)


def test_the_past_of_a_model_isnt_restated_with_it(workshop: Workshop) -> None:
    workshop.model("mart.a")
    workshop.model("mart.b", "mart.a: {time: d, as_of: slice}", "SELECT d, n FROM mart.a")
    workshop.publish_by_hand("mart.a", "2026-01-01..2026-01-03")
    workshop.publish_by_hand("mart.b", "2026-01-01..2026-01-03")
    assert scope(workshop.plan("mart.a", start="2026-01-02", end="2026-01-02")) == {"mart.a": "2026-01-02"}
    with pytest.raises(Refused, match=r"mart\.b reads mart\.a as it was"):
        workshop.plan("mart.a", "mart.b", start="2026-01-02", end="2026-01-02")


def test_a_late_change_of_another_input_is_told_with_or_without_the_history_of_this_one(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def outcome(_: Workspace, job: Job, __: object) -> dict[Slice, SliceMeasure]:
        asked.append(job.slices.text)
        return {}

    monkeypatch.setattr(Workspace, "_outcome", outcome)
    workshop.lake.by_day("raw.t", "2026-01-02..2026-01-20")
    workshop.model(
        "mart.both",
        "raw.t: {time: d}, raw.s: {time: d, as_of: slice}",
        "SELECT t.d, count(*) AS n FROM raw.t t JOIN raw.s s ON s.d = t.d GROUP BY t.d",
        keys="replay: {window: 5 days}",
    )
    workshop.publish_by_hand("mart.both", "2026-01-02..2026-01-03")
    late = [LateChange(model="mart.both", slice="2026-01-02", contents={}, because_of=("raw.t",))]
    impact = workshop.workspace.loader._impact
    assert [each.slice for each in impact.of(late)] == ["2026-01-02"]
    assert asked == ["2026-01-02"]
    dated(workshop.lake, "raw.s", (4, 6), (22, 6))
    workshop.settings()
    (untold,) = workshop.workspace.loader._impact.of(late)
    assert (untold.rows, len(asked)) == ((None, None), 1), "what it was then has expired"
