"""What Spark tells of its tasks, and slices that are computed for the sake of their time."""

from __future__ import annotations

import pytest

from retcon.core.events import WaveStaged
from retcon.core.timings import timing_of
from retcon.wiring import utc_now
from tests.shops import Shop

pytestmark = pytest.mark.spark

ORDERS, REVENUE = "mart.orders_usd", "mart.revenue"


def test_waves_tell_what_their_tasks_did_and_the_next_plan_learns_from_it(shop: Shop) -> None:
    shop.open_doors()
    plan = shop.plan(wave=4)
    shop.apply(plan, clock=utc_now)
    ledger = shop.workspace.ledger
    events = ledger.events(plan.id, kind=WaveStaged)
    assert len(events) == 4
    for event in events:
        tasks = event.body["tasks"]
        assert tasks is not None
        assert tasks["count"] > 0
        assert 0 < tasks["cpu_seconds"] <= tasks["run_seconds"]
        whole = tasks["planning_seconds"] + tasks["seconds"] + tasks["commit_seconds"]
        assert 0 < tasks["seconds"] < whole <= event.body["seconds"] + 0.05
        assert tasks["written_bytes"] == sum(each["bytes"] for each in event.body["slices"])
        assert event.body["bytes"] > 0
    timing = timing_of(ledger.events(plan.id))
    assert {step.name for step in timing.steps} >= {"OPENING", "STAGING", "PROVING", "PUBLISHING", "CHECKING"}
    assert all(seconds > 0 for seconds in timing.steps.values())

    again = shop.plan(wave=4)
    made = shop.workspace.estimator.estimate(again)
    assert made.seconds is not None
    assert (made.waves, made.runs, made.unknown) == (4, 1, ())
    # What it takes was measured once, on the very same slices.
    taken = sum(wave.seconds / wave.at_once for wave in timing.waves)
    staging = sum(span.low for span in made.models.values()), sum(span.high for span in made.models.values())
    assert staging[0] < taken < staging[1]


def test_a_canary_computes_slices_and_leaves_nothing_behind(shop: Shop) -> None:
    run = shop.open_for_business()
    before = {name: (shop.workspace.tables.facts(name), shop.workspace.tables.refs(name)) for name in (ORDERS, REVENUE)}
    files = sorted(path for path in (shop.root / ".retcon" / "warehouse").rglob("*") if path.is_file())
    plan = shop.plan()
    seen: list[str] = []
    made = shop.workspace.try_slices(plan, 2, lambda progress: seen.append(progress.model))
    assert (made.canary, made.waves, made.unknown) == (2, 4, ())
    assert made.seconds is not None
    assert 0 < made.seconds.low < made.seconds.high
    assert set(seen) == {ORDERS, REVENUE}
    after = {name: (shop.workspace.tables.facts(name), shop.workspace.tables.refs(name)) for name in (ORDERS, REVENUE)}
    assert after == before
    assert sorted(path for path in (shop.root / ".retcon" / "warehouse").rglob("*") if path.is_file()) == files
    assert [each.id for each in shop.workspace.ledger.runs()] == [run.id]
