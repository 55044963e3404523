"""Late changes on record."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from retcon.core.events import Cancelled
from retcon.core.exceptions import Decision, LateChange
from retcon.core.plans import Load
from retcon.errors import Conflict
from retcon.ledger.store import SqlLedger
from tests.ledger.examples import FCT, NOON, Driver, a_plan, published, published_run, rebuilt

PLAN = a_plan("wrote", days=2)
FIRST, SECOND = (slice.label for slice in PLAN.models[0].slices)
LATE = LateChange(
    model=FCT,
    slice=FIRST,
    contents={"o": "files:1"},
    because_of=("o",),
    rows=(5, None),
    metrics={"sum(x)": ("1.50", None)},
)


def noted(ledger: SqlLedger, *lates: LateChange, minutes: int = 0) -> None:
    at = NOON + timedelta(minutes=minutes)
    ledger.move_watermarks((), lates, is_set=True, why="a load", at=at, who="ada")


def decisions(ledger: SqlLedger) -> list[tuple[str, Decision]]:
    return [(each.late.slice, each.decision) for each in ledger.exceptions(only_open=False)]


def test_one_of_a_slice_is_open_and_what_was_decided_stays(ledger: SqlLedger) -> None:
    ledger.prepare()
    noted(ledger, LATE)
    noted(ledger, LATE, minutes=1)
    (open_one,) = ledger.exceptions()
    assert open_one.late == LATE
    assert (open_one.first_seen, open_one.last_seen) == (NOON, NOON + timedelta(minutes=1))
    more = replace(LATE, contents={"o": "files:2"}, rows=(5, 7))
    noted(ledger, more, minutes=2)
    (seen_again,) = ledger.exceptions()
    assert (seen_again.entry, seen_again.first_seen, seen_again.late) == (open_one.entry, NOON, more)
    # Decided of what was shown, not of what came since.
    with pytest.raises(Conflict, match="more of it changed"):
        ledger.decide([open_one], Decision.REJECTED, at=NOON, by="cfo", reason="audited")
    ledger.decide([seen_again], Decision.REJECTED, at=NOON, by="cfo", reason="audited")
    assert ledger.exceptions() == []
    noted(ledger, more, minutes=3)
    assert decisions(ledger) == [(FIRST, Decision.REJECTED)], "nothing but what was rejected"
    noted(ledger, LATE, minutes=4)
    assert decisions(ledger) == [(FIRST, Decision.REJECTED), (FIRST, Decision.OPEN)]
    assert ledger.newest_exceptions(FCT)[FIRST].decision is Decision.OPEN


def test_a_publish_restates_what_is_late_of_its_slices_and_its_rollback_opens_it_again(ledger: SqlLedger) -> None:
    ledger.prepare()
    other = replace(LATE, slice="2020-01-01")
    noted(ledger, replace(LATE, contents={"o": f"content of {FIRST}"}), other)
    driver = published_run(ledger, PLAN)
    assert decisions(ledger) == [("2020-01-01", Decision.OPEN), (FIRST, Decision.RESTATED)]
    driver.roll_back()
    assert decisions(ledger) == [("2020-01-01", Decision.OPEN), (FIRST, Decision.OPEN)]


def test_what_came_after_a_run_had_pinned_its_inputs_waits_though_the_run_brings_in_something(
    ledger: SqlLedger,
) -> None:
    ledger.prepare()
    noted(ledger, replace(LATE, because_of=("o", "p"), contents={"o": f"content of {FIRST}"}), minutes=1)
    noted(ledger, replace(LATE, slice=SECOND), minutes=1)
    published_run(ledger, PLAN)
    assert decisions(ledger) == [(FIRST, Decision.RESTATED), (SECOND, Decision.OPEN)], "made of something else"


def test_a_run_that_pinned_its_inputs_since_brings_in_what_came_before_and_after(ledger: SqlLedger) -> None:
    ledger.prepare()
    noted(ledger, LATE, minutes=-1)
    published_run(ledger, PLAN)
    assert decisions(ledger) == [(FIRST, Decision.RESTATED)]


def test_a_publish_that_had_read_its_inputs_before_or_only_some_keys_of_them_settles_nothing(
    ledger: SqlLedger,
) -> None:
    published_run(ledger, replace(PLAN, id="before"))
    noted(ledger, LATE)
    published_run(ledger, PLAN)
    assert decisions(ledger) == [(FIRST, Decision.OPEN)], "made of what it was made of"
    keyed = Driver(ledger, replace(PLAN, id="keyed"))
    keyed.begin_publish()
    made = published(keyed.plan)
    keyed.publish(event=replace(made, consumed=tuple(replace(c, content="keys:keyed") for c in made.consumed)))
    assert decisions(ledger) == [(FIRST, Decision.OPEN)]


def test_what_a_load_found_too_late_is_recorded_with_its_publish_and_not_before(ledger: SqlLedger) -> None:
    plan = replace(PLAN, id="load", load=Load(advances=(), late=(replace(LATE, slice="2020-01-01"),)))
    driver = Driver(ledger, plan)
    driver.begin_publish()
    assert ledger.exceptions() == []
    driver.publish()
    assert decisions(ledger) == [("2020-01-01", Decision.OPEN)]


def test_what_was_restated_since_a_load_found_it_is_not_late_any_more(ledger: SqlLedger) -> None:
    ledger.prepare()
    seen = {slice: replace(LATE, slice=slice, contents={"o": f"content of {slice}"}) for slice in (FIRST, SECOND)}
    published_run(ledger, PLAN)
    noted(ledger, seen[FIRST], replace(seen[SECOND], contents={"o": "files:2"}))
    assert decisions(ledger) == [(SECOND, Decision.OPEN)]


def test_a_plan_that_is_given_up_restates_nothing(ledger: SqlLedger) -> None:
    ledger.prepare()
    noted(ledger, LATE)
    driver = Driver(ledger, PLAN)
    ledger.decide(ledger.exceptions(), Decision.APPROVED, run=PLAN.id, at=NOON, by="cfo", reason="from the bank")
    assert ledger.exceptions() == []
    driver.tell(Cancelled(reason="not this year"))
    assert decisions(ledger) == [(FIRST, Decision.OPEN)]


def test_what_tables_say_was_undone_is_open_again(ledger: SqlLedger) -> None:
    ledger.prepare()
    noted(ledger, replace(LATE, contents={"o": f"content of {FIRST}"}))
    driver = published_run(ledger, PLAN)
    assert decisions(ledger) == [(FIRST, Decision.RESTATED)]
    ledger.rebuild(driver.plan, rebuilt(driver.plan, undone=True), at=NOON, who="doctor")
    assert decisions(ledger) == [(FIRST, Decision.OPEN)]
