"""Leases: one driver at a time, and the ledger takes nothing from one that was taken over from."""

from __future__ import annotations

import time

import pytest

from retcon.core.events import RollbackBegan, RolledBack, StagingDone
from retcon.core.leases import Driver, StopRequest
from retcon.core.runs import RunState
from retcon.errors import Conflict, Refused
from retcon.ledger.store import SqlLedger
from tests.ledger.conftest import Database
from tests.ledger.crowds import at_once
from tests.ledger.examples import ANN, FCT, NOON, a_plan, a_publishing_run, opened, published, swap, tables_opened

ADA = Driver(who="ada", host="desk", pid=17, began="1")
BEN = Driver(who="ben", host="desk", pid=18, began="1")


def opened_run(ledger: SqlLedger) -> str:
    plan = a_plan()
    ledger.prepare()
    return ledger.open_run(plan, opened(plan), at=NOON, who=ANN).id


def test_a_second_process_gets_its_turn_when_the_first_ends_it(ledger: SqlLedger) -> None:
    run = opened_run(ledger)
    first = ledger.take_lease(run, ADA, over=None, seconds=60)
    assert first is not None
    held = ledger.lease(run)
    assert held is not None
    assert (held.driver, held.token) == (ADA, first)
    assert 50 < held.seconds_left <= 60
    assert ledger.take_lease(run, BEN, over=None, seconds=60) is None
    assert ledger.renew_lease(run, first, seconds=0.0)
    assert ledger.lease(run) is None
    second = ledger.take_lease(run, BEN, over=None, seconds=60)
    assert second is not None
    assert second > first


def test_a_lease_that_isnt_renewed_runs_out_and_the_sleeper_is_refused(ledger: SqlLedger) -> None:
    run = opened_run(ledger)
    sleeper = ledger.take_lease(run, ADA, over=None, seconds=0.05)
    assert sleeper is not None
    time.sleep(0.1)
    # Nobody took over meanwhile: it may go on.
    ledger.record(run, tables_opened(a_plan()), at=NOON, who=ANN, fence=sleeper)
    assert ledger.renew_lease(run, sleeper, seconds=0.05)
    time.sleep(0.1)
    assert ledger.take_lease(run, BEN, over=None, seconds=60) is not None
    with pytest.raises(Conflict, match=r"was taken over by ben on desk \(process 18\)"):
        ledger.record(run, StagingDone(), at=NOON, who=ANN, fence=sleeper)
    assert not ledger.renew_lease(run, sleeper, seconds=60)


def test_the_publish_of_a_driver_that_was_taken_over_from_moves_no_pointer(
    ledger: SqlLedger, database: Database
) -> None:
    database.add_table(FCT)
    driver = a_publishing_run(ledger)
    sleeper = ledger.take_lease(driver.plan.id, ADA, over=None, seconds=60)
    assert ledger.take_lease(driver.plan.id, BEN, over=sleeper, seconds=60) is not None
    before = database.pointers()
    with pytest.raises(Conflict, match="taken over"):
        ledger.publish(driver.plan.id, published(driver.plan), (swap(FCT),), at=NOON, who=ANN, fence=sleeper)
    run = ledger.run(driver.plan.id)
    assert run is not None
    assert run.state is RunState.PUBLISHING
    assert database.pointers() == before


def test_the_rollback_of_a_driver_that_was_taken_over_from_moves_no_pointer(
    ledger: SqlLedger, database: Database
) -> None:
    database.add_table(FCT)
    driver = a_publishing_run(ledger)
    driver.publish(swap(FCT))
    sleeper = ledger.take_lease(driver.plan.id, ADA, over=None, seconds=60)
    taken = ledger.take_lease(driver.plan.id, BEN, over=sleeper, seconds=60)
    back = swap(FCT, old="m1.json", new="m2.json", snapshot=302)
    event = RolledBack(reason="wrong after all", snapshots={FCT: 302})
    before = database.pointers()
    with pytest.raises(Conflict, match="taken over"):
        ledger.roll_back(driver.plan.id, event, (back,), at=NOON, who=ANN, fence=sleeper)
    assert database.pointers() == before
    began = RollbackBegan(reason="wrong after all", ways={FCT: "moved back"}, locations={FCT: "m2.json"})
    assert ledger.record(driver.plan.id, began, at=NOON, who=ANN, fence=taken).state is RunState.PUBLISHED
    undone = ledger.roll_back(driver.plan.id, event, (back,), at=NOON, who=ANN, fence=taken)
    assert undone.state is RunState.ROLLED_BACK


def test_of_many_that_want_a_run_at_once_one_gets_it(ledger: SqlLedger) -> None:
    run = opened_run(ledger)
    tokens = at_once([lambda: ledger.take_lease(run, BEN, over=None, seconds=60)] * 8)
    assert len([token for token in tokens if token is not None]) == 1


def test_there_is_no_lease_on_a_run_that_isnt_there(ledger: SqlLedger) -> None:
    opened_run(ledger)
    with pytest.raises(Refused, match="there is no run nope"):
        ledger.take_lease("nope", ADA, over=None, seconds=60)


def test_a_request_to_stop_is_read_with_the_lease_and_lapses_with_it(ledger: SqlLedger) -> None:
    run = opened_run(ledger)
    first = ledger.take_lease(run, ADA, over=None, seconds=60)
    assert first is not None
    held = ledger.lease(run)
    assert held is not None
    assert held.asked is None
    asked = StopRequest(who="ben", why="the cluster is needed: «jetzt» 🙂")
    assert ledger.ask_to_stop(run, first, asked)
    assert ledger.renew_lease(run, first, seconds=60), "it goes on until it has stopped"
    held = ledger.lease(run)
    assert held is not None
    assert (held.asked, held.token) == (asked, first)
    second = ledger.take_lease(run, BEN, over=first, seconds=60)
    held = ledger.lease(run)
    assert held is not None
    assert (held.asked, held.token) == (None, second)
    assert not ledger.ask_to_stop(run, first, asked), "too late: its turn is over"
