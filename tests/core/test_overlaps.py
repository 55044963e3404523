"""Which slices two plans share, and what is said about a run in the way."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retcon.core.intervals import Interval
from retcon.core.leases import Driver
from retcon.core.overlaps import InTheWay, overlap_notes, require_nobody_in_the_way, shared_slices
from retcon.core.plans import Beside, Plan, PlannedModel, Request, Role
from retcon.core.runs import Run, RunState
from retcon.core.slices import WHOLE, Buckets, Grain, SliceSet
from retcon.errors import Conflict
from tests.core.examples import days

NOON = datetime(2026, 1, 22, 12, tzinfo=UTC)
ADA = Driver(who="ada", host="desk", pid=17, began="1")


def share(slices: SliceSet, name: str = "mart.a") -> PlannedModel:
    return PlannedModel(
        name=name, role=Role.SELECTED, slices=slices, waves=(slices,), open=SliceSet(slices.grain), is_new=False,
        fingerprint="f", inputs=(), gates=(), consumers=(),
    )  # fmt: skip


def plan(*models: PlannedModel, id: str = "20260122_a_t1") -> Plan:
    return Plan(
        id=id,
        reason="a test",
        created=NOON,
        by="ada",
        request=Request(models=("mart.a",), start=None, end=None, command="retcon plan …"),
        interval=None,
        timezone="UTC",
        models=models,
        outside=(),
        settings="s",
        limits={},
    )


def shared(mine: PlannedModel, theirs: PlannedModel) -> str:
    found = shared_slices(plan(mine), plan(theirs))
    return found["mart.a"].text if found else ""


def test_slices_of_the_same_table_are_shared_and_those_of_others_arent() -> None:
    mine, theirs = share(days("2026-01-03..2026-01-05")), share(days("2026-01-05..2026-01-09"))
    assert shared(mine, theirs) == "2026-01-05"
    assert shared(mine, share(days("2026-01-06..2026-01-09"))) == ""
    assert shared_slices(plan(mine), plan(replace(theirs, name="staging_mart.a"))) == {}


def test_a_table_that_is_built_beside_counts_whole_on_either_side() -> None:
    mine, far = share(days("2026-01-03")), share(days("2025-01-01"))
    anew = replace(far, beside=Beside(table="mart.a__20260122_t1", instead_of=7))
    assert shared(mine, far) == ""
    assert shared(mine, anew) == "2026-01-03"
    assert shared(anew, mine) == "2025-01-01"


def test_a_table_that_was_cut_otherwise_meanwhile_is_compared_by_time_or_counts_whole() -> None:
    month = share(SliceSet.parse(Grain.MONTH, "2026-01"))
    assert shared(month, share(days("2026-01-31"))) == "2026-01"
    assert shared(share(days("2026-01-31..2026-02-01")), month) == "2026-01-31"
    assert shared(month, share(days("2026-02-01"))) == ""
    assert shared(month, share(SliceSet.every(WHOLE))) == "2026-01"
    assert shared(share(SliceSet.every(Buckets(4))), share(SliceSet.every(Buckets(8)))) == "b0..b3"


RANGES = st.tuples(
    st.sampled_from(list(Grain)), st.integers(0, 800), st.integers(1, 40)
).map(lambda drawn: SliceSet.covering(drawn[0], Interval(*(
    Grain.DAY.start(19000 + drawn[1] + more) for more in (0, drawn[2])
))))  # fmt: skip


@given(RANGES, RANGES)
def test_slices_are_shared_where_their_times_are_whichever_plan_is_asked(mine: SliceSet, theirs: SliceSet) -> None:
    do_meet = any(a.start < b.end and b.start < a.end for a in mine.intervals() for b in theirs.intervals())
    assert bool(shared(share(mine), share(theirs))) is do_meet
    assert bool(shared(share(theirs), share(mine))) is do_meet


def in_the_way(driver: Driver | None = None, *, id: str = "20260122_a_t1") -> InTheWay:
    slices = days("2026-01-03..2026-01-05")
    run = Run(
        id=id, kind="backfill", state=RunState.STAGING, plan=plan(share(slices)), by="ada", created=NOON, updated=NOON
    )
    return InTheWay(run=run, shared={"mart.a": slices}, staged=2, driver=driver)


def test_nobody_in_the_way_is_no_reason_to_refuse() -> None:
    require_nobody_in_the_way([], state="", force="--force")
    assert overlap_notes([]) == ()


def test_a_refusal_tells_which_run_how_far_it_is_who_runs_it_and_what_to_do() -> None:
    with pytest.raises(Conflict) as driven:
        require_nobody_in_the_way([in_the_way(ADA)], state="no plan was written", force="--force")
    assert driven.value.message == (
        "run 20260122_a_t1 is under way over the same slices, mart.a 2026-01-03..2026-01-05 (3 slices): staging, "
        "2 of 3 slices staged, run by ada on desk (process 17)"
    )
    assert driven.value.next.startswith("let its `apply` finish")
    assert "`retcon cancel 20260122_a_t1`" in driven.value.next
    with pytest.raises(Conflict, match=r"nobody runs it now \(and 1 more run\)") as left:
        require_nobody_in_the_way([in_the_way(), in_the_way(id="other")], state="", force="--force")
    assert left.value.next.startswith("`retcon apply 20260122_a_t1` goes on with it, `retcon cancel 20260122_a_t1`")
    assert "--force lets both stage, and the publish decides" in left.value.next


def test_a_note_tells_the_reviewer_the_same() -> None:
    (note,) = overlap_notes([in_the_way(ADA)])
    for told in ("20260122_a_t1", "staging, 2 of 3 slices staged, run by ada", "mart.a 2026-01-03", "conflict"):
        assert told in note
