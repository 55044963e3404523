"""What watermarks have passed by is found, with how it came in; what is new, held, late or can't be told isn't it."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
from pyiceberg.manifest import DataFileContent
from pyiceberg.typedef import Record

from retcon.core.drifts import ModelDrift
from retcon.core.runs import RunState
from retcon.flow.postmortem import PostMortem
from tests.flow.detecting import MODEL, SOURCE, a_load, mark_of, move_past
from tests.flow.workshops import NOW, Workshop
from tests.lakehouse.lakes import days, entry

FIRST, LAST = "2026-01-01", "2026-01-20"
DAY = "2026-01-05"


@pytest.fixture
def workshop(tmp_path: Path) -> Workshop:
    """Twenty days, loaded once."""
    made = Workshop(tmp_path)
    made.lake.by_day(SOURCE, f"{FIRST}..{LAST}")
    made.model(MODEL, keys="gates: [drift: {metric: sum(n), within: 20%}]")
    run = a_load(made, made.plan(MODEL, start=FIRST, end=LAST))
    assert run.run.state is RunState.PUBLISHED
    made.publish_by_hand(MODEL, f"{FIRST}..{LAST}")
    return made


def add(workshop: Workshop, *labels: str, rows: int = 5) -> int | None:
    """One commit with a file in each of these days."""
    ordinals = (days(label).ordinals[0] for label in labels)
    workshop.lake.add(SOURCE, *(entry(o, Record(o), rows=rows, low=o, high=o) for o in ordinals))
    return mark_of(workshop).snapshot_id


def look(workshop: Workshop) -> ModelDrift:
    workshop._workspace = None  # as in a later process
    [found] = workshop.workspace.detective.look((MODEL,), NOW)
    return found


def test_what_was_consumed_is_no_drift(workshop: Workshop) -> None:
    found = look(workshop)
    assert (found.compared, found.slices, found.inputs[0].not_loaded_yet) == (20, days(""), days(""))


def test_what_came_after_the_watermark_is_not_loaded_yet(workshop: Workshop) -> None:
    add(workshop, DAY)
    add(workshop, "2026-01-21")
    found = look(workshop)
    assert not found.slices
    assert found.inputs[0].not_loaded_yet == days(f"{DAY}, 2026-01-21")


def test_what_the_watermark_has_passed_is_drift_with_its_commits_rows_and_who_passed_it(workshop: Workshop) -> None:
    first = add(workshop, DAY, "2026-01-06", rows=3)
    second = add(workshop, DAY, rows=4)
    move_past(workshop)
    later = add(workshop, "2026-01-08")
    [drift] = look(workshop).inputs
    assert drift.slices == days(f"{DAY}..2026-01-06")
    assert drift.not_loaded_yet == days("2026-01-08")
    assert drift.is_history_known
    one, two = drift.arrivals
    assert (one.commit.snapshot_id, two.commit.snapshot_id) == (first, second)
    assert later not in {one.commit.snapshot_id, two.commit.snapshot_id}
    assert (one.slices, one.added, one.removed) == (days(f"{DAY}..2026-01-06"), 6, 0)
    assert (two.slices, two.added, two.removed) == (days(DAY), 4, 0)
    assert one.commit.at is not None
    assert one.passed_by is not None
    assert (one.passed_by.who, one.passed_by.why, one.passed_by.run) == ("ada", "somebody knew better", None)
    assert one.passed_by == two.passed_by


def test_a_load_that_passed_it_by_is_named(workshop: Workshop) -> None:
    add(workshop, DAY)
    # A load that should have restated that day, and restated another one.
    run = a_load(workshop, workshop.plan(MODEL, start="2026-01-07", end="2026-01-07"))
    [drift] = look(workshop).inputs
    assert drift.slices == days(DAY)
    [arrival] = drift.arrivals
    assert arrival.passed_by is not None
    assert arrival.passed_by.run == run.plan.id


def test_a_day_that_was_never_built_is_drift_once_it_is_passed(workshop: Workshop) -> None:
    snapshot = add(workshop, "2026-01-21", rows=7)
    move_past(workshop)
    [drift] = look(workshop).inputs
    assert drift.slices == days("2026-01-21")
    assert [(each.commit.snapshot_id, each.added) for each in drift.arrivals] == [(snapshot, 7)]


def test_rows_that_metadata_cant_count_are_not_known(workshop: Workshop) -> None:
    at = days(DAY).ordinals[0]
    workshop.lake.add(SOURCE, entry(at, Record(at), rows=2, content=DataFileContent.POSITION_DELETES))
    move_past(workshop)
    [arrival] = look(workshop).inputs[0].arrivals
    assert (arrival.added, arrival.removed) == (None, None)


def test_held_and_late_slices_are_told_apart(workshop: Workshop) -> None:
    run = a_load(workshop, workshop.plan(MODEL, start="2026-01-19", end="2026-01-19"))
    run.roll_back()
    add(workshop, "2026-01-01", DAY, "2026-01-19")
    move_past(workshop)
    workshop.model(MODEL, keys="replay: {window: 20 days}")
    found = look(workshop)
    assert (found.held, found.late) == (days("2026-01-19"), days("2026-01-01"))
    assert found.slices == days(DAY)


def test_a_history_that_expired_is_said_to_be_unknown(workshop: Workshop) -> None:
    add(workshop, DAY)
    add(workshop, "2026-01-06")
    move_past(workshop)

    def forget(metadata: dict[str, object]) -> None:
        snapshots = metadata["snapshots"]
        assert isinstance(snapshots, list)
        metadata["snapshots"] = snapshots[-1:]

    workshop.lake.rewrite(SOURCE, forget)
    [drift] = look(workshop).inputs
    assert drift.slices == days(f"{DAY}..2026-01-06")
    assert (drift.arrivals, drift.is_history_known) == ((), False)


def test_a_watermark_that_was_unset_passes_nothing_by(workshop: Workshop) -> None:
    add(workshop, DAY)
    move_past(workshop)
    step = workshop.ledger.movements()
    assert step
    workshop.workspace.watermarks.reset(
        workshop.workspace.project.graph.models[MODEL], None, "look again", only=None, at=NOW, who="ada"
    )
    found = look(workshop)
    assert not found.slices
    assert found.inputs[0].not_loaded_yet == days(DAY)


# ── post-mortems ──────────────────────────────────────────────────────────────────────────────────────────────────


def written(workshop: Workshop, run: str | None = None) -> PostMortem:
    workshop._workspace = None
    w = workshop.workspace
    model = w.project.graph.models[MODEL]
    return w.coroner.of_drift(model, NOW) if run is None else w.coroner.of_run(model, w.teller.run(run), NOW)


def test_without_drift_there_is_nothing_to_write(workshop: Workshop) -> None:
    assert not written(workshop).slices


def test_drift_has_no_impact_until_its_repair_is_measured(workshop: Workshop) -> None:
    add(workshop, DAY)
    move_past(workshop)
    before = written(workshop)
    assert (before.slices, before.run, before.diff) == (days(DAY), None, None)
    driver = a_load(workshop, workshop.plan(MODEL, start=DAY, end="2026-01-06"), is_staged_only=True)
    staged = written(workshop)
    assert staged.run is not None
    assert staged.run.id == driver.plan.id
    assert staged.diff is not None
    assert [each.slice for each in staged.diff.slices] == [DAY], "what else the run restates isn't the drift's impact"


def test_a_published_run_tells_what_it_corrected_and_who_had_passed_it(workshop: Workshop) -> None:
    snapshot = add(workshop, DAY, rows=9)
    move_past(workshop)
    workshop.now = NOW + timedelta(hours=1)
    run = a_load(workshop, workshop.plan(MODEL, start=DAY, end="2026-01-06"))
    add(workshop, DAY)
    found = written(workshop, run.plan.id)
    assert found.slices == days(f"{DAY}..2026-01-06")
    [drift] = found.inputs
    [arrival] = drift.arrivals
    assert (arrival.commit.snapshot_id, arrival.added, arrival.slices) == (snapshot, 9, days(DAY))
    assert arrival.passed_by is not None
    assert arrival.passed_by.why == "somebody knew better"


def test_what_a_load_took_up_itself_was_passed_by_nobody(workshop: Workshop) -> None:
    add(workshop, DAY)
    run = a_load(workshop, workshop.plan(MODEL, start=DAY, end=DAY))
    [drift] = written(workshop, run.plan.id).inputs
    assert [each.passed_by for each in drift.arrivals] == [None]
