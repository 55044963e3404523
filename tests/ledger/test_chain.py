"""Whoever changes a run's history behind the ledger's back is found out."""

from __future__ import annotations

import pytest

from retcon.core.chains import first_broken_link
from retcon.ledger.store import SqlLedger
from tests.ledger.conftest import Database
from tests.ledger.examples import Driver, a_plan, published_run


@pytest.fixture
def run(ledger: SqlLedger) -> str:
    driver: Driver = published_run(ledger, a_plan(days=2))
    chain = ledger.events(driver.plan.id)
    assert [event.number for event in chain] == list(range(1, 9))
    assert first_broken_link(chain) is None
    return driver.plan.id


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE retcon_events SET body = replace(body, '1.25', '0.25') WHERE number = 3",
        "UPDATE retcon_events SET who = 'mallory' WHERE number = 3",
        "UPDATE retcon_events SET at = '2020-01-01T00:00:00.000000Z' WHERE number = 3",
        "UPDATE retcon_events SET kind = 'WaveFailed' WHERE number = 3",
        "UPDATE retcon_events SET hash = '0' WHERE number = 3",
        "UPDATE retcon_events SET previous = hash WHERE number = 3",
    ],
)
def test_an_event_that_was_altered_is_named(ledger: SqlLedger, database: Database, run: str, change: str) -> None:
    database.run(change)
    assert first_broken_link(ledger.events(run)) == 3


@pytest.mark.parametrize("number", [1, 3, 7])
def test_an_event_that_was_deleted_is_missed(ledger: SqlLedger, database: Database, run: str, number: int) -> None:
    database.run("DELETE FROM retcon_events WHERE number = :number", number=number)
    assert first_broken_link(ledger.events(run)) == number


def test_an_event_that_was_deleted_is_missed_even_if_the_others_close_ranks(
    ledger: SqlLedger, database: Database, run: str
) -> None:
    database.run("DELETE FROM retcon_events WHERE number = 3")
    for number in range(4, 9):
        database.run("UPDATE retcon_events SET number = number - 1 WHERE number = :number", number=number)
    assert first_broken_link(ledger.events(run)) == 3


def test_events_that_changed_places_are_found(ledger: SqlLedger, database: Database, run: str) -> None:
    for old, new in [(4, 99), (5, 4), (99, 5)]:
        database.run("UPDATE retcon_events SET number = :new WHERE number = :old", old=old, new=new)
    assert first_broken_link(ledger.events(run)) == 4


def test_an_event_that_was_slipped_in_is_found(ledger: SqlLedger, database: Database, run: str) -> None:
    for number in range(8, 3, -1):
        database.run("UPDATE retcon_events SET number = number + 1 WHERE number = :number", number=number)
    database.run(
        "INSERT INTO retcon_events (run_id, number, at, who, kind, body, previous, hash) "
        "SELECT run_id, 4, at, who, kind, body, hash, hash FROM retcon_events WHERE number = 3"
    )
    assert first_broken_link(ledger.events(run)) == 4


def test_runs_have_chains_of_their_own(ledger: SqlLedger, database: Database, run: str) -> None:
    published_run(ledger, a_plan("another", days=2))
    database.run("UPDATE retcon_events SET who = 'mallory' WHERE run_id = :run AND number = 2", run=run)
    assert first_broken_link(ledger.events(run)) == 2
    assert first_broken_link(ledger.events("another")) is None
