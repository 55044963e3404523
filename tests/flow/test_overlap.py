"""A second run over the same slices: refused at `plan` and at `apply`, unless it is forced."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from retcon.core.events import Cancelled
from retcon.core.leases import Driver
from retcon.core.plans import Plan
from retcon.core.runs import Run, RunState
from retcon.errors import Conflict
from retcon.flow.apply import open_run
from tests.flow.workshops import Workshop
from tests.ledger import examples

ADA = Driver(who="ada", host="desk", pid=17, began="1")


@pytest.fixture
def workshop(tmp_path: Path) -> Workshop:
    workshop = Workshop(tmp_path).shop()
    workshop.publish_by_hand("mart.a", "2026-01-01..2026-01-20")
    return workshop


def planned(workshop: Workshop, start: str = "2026-01-03", end: str = "2026-01-05", **ask: Any) -> Plan:
    return workshop.plan("mart.a", start=start, end=end, **ask)


def opened(workshop: Workshop, plan: Plan) -> Run:
    w = workshop.workspace
    return open_run(plan, w.project, w.ledger, w.tables, w.clock, w.who)


def test_a_plan_over_slices_that_another_run_is_about_is_refused_with_how_far_that_is(workshop: Workshop) -> None:
    first = planned(workshop)
    driver = examples.Driver(workshop.ledger, first)
    driver.tell(examples.tables_opened(first), examples.wave_staged(first, 1, "mart.a"))
    workshop.ledger.take_lease(first.id, ADA, over=None, seconds=60)
    with pytest.raises(Conflict, match=f"run {first.id} is under way") as refused:
        planned(workshop, "2026-01-05", "2026-01-09")
    assert ", mart.a 2026-01-05 (1 slice):" in refused.value.message
    assert refused.value.message.endswith("staging, 3 of 3 slices staged, run by ada on desk (process 17)")
    assert refused.value.state == "no plan was written"
    assert planned(workshop, "2026-01-06", "2026-01-09").notes == ()


@pytest.mark.parametrize("ending", ["published", "rolled back", "cancelled"])
def test_a_run_that_is_over_is_in_nobodys_way(workshop: Workshop, ending: str) -> None:
    first = planned(workshop)
    if ending == "cancelled":
        examples.Driver(workshop.ledger, first).tell(Cancelled(reason="not needed"))
    else:
        driver = examples.published_run(workshop.ledger, first)
        if ending == "rolled back":
            driver.roll_back()
    assert opened(workshop, planned(workshop)).state is RunState.PLANNED


def test_a_plan_from_before_the_other_run_was_opened_is_refused_by_apply(workshop: Workshop) -> None:
    first, second = planned(workshop), planned(workshop)
    opened(workshop, first)
    with pytest.raises(Conflict, match=f"run {first.id} is under way") as refused:
        opened(workshop, second)
    assert refused.value.state == "nothing was run"
    assert f"`retcon plan --refresh backfills/{second.id}.yaml --force` lets both stage" in refused.value.next
    assert workshop.ledger.run(second.id) is None
    assert opened(workshop, first).state is RunState.PLANNED, "the first goes on"


def test_forced_both_are_opened_and_the_plan_says_so(workshop: Workshop) -> None:
    first = planned(workshop)
    opened(workshop, first)
    second = planned(workshop, force=True)
    assert f"run {first.id} (planned, 0 of 3 slices staged, nobody runs it now)" in second.notes[0]
    assert opened(workshop, second).plan.request.force


def test_a_dry_run_is_noted_and_not_refused(workshop: Workshop) -> None:
    first = planned(workshop)
    opened(workshop, first)
    trial = planned(workshop, dry_run=True)
    assert first.id in trial.notes[0]
    assert not trial.request.force
    with pytest.raises(Conflict):
        opened(workshop, trial)


def test_the_run_that_a_plan_renews_isnt_in_its_way_and_others_are(workshop: Workshop) -> None:
    first = planned(workshop)
    opened(workshop, first)
    again = planned(workshop, refreshes=first.id)
    assert again.notes == ()
    assert opened(workshop, again).state is RunState.PLANNED
    with pytest.raises(Conflict, match=rf"run {first.id} .* \(and 1 more run\)"):
        planned(workshop)


def test_a_run_that_builds_a_table_anew_is_in_the_way_of_every_slice(workshop: Workshop) -> None:
    late = planned(workshop, "2026-01-19", "2026-01-20")
    workshop.model("mart.a", sql="SELECT d, count(*) AS x FROM raw.s GROUP BY d", keys="strategy: full")
    anew = workshop.plan("mart.a")
    opened(workshop, anew)
    assert workshop.ledger.in_the_way(late)[0].run.id == anew.id
