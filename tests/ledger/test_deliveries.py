"""What hooks are to be told is written with the movement, and kept until they took it."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from retcon.core.events import RolledBack
from retcon.core.plans import Load
from retcon.core.watermarks import Advance, Mark
from retcon.ledger.migrate import migrate
from retcon.ledger.store import SqlLedger
from tests.ledger.conftest import CATALOG, Database
from tests.ledger.examples import AGG, ANN, FCT, NOON, Driver, a_plan, rebuilt

BOARD, LAKE = "board", "lake"
LATER = NOON + timedelta(hours=1)


@pytest.fixture
def hooked(ledger: SqlLedger, database: Database) -> SqlLedger:
    """Two hooks, one of which knows one model only."""
    hooks = {BOARD: frozenset({FCT, AGG}), LAKE: frozenset({AGG})}
    return SqlLedger(database.uri, CATALOG, migrate=migrate, hooks=hooks)


def mark(model: str, snapshot: int = 1) -> Mark:
    return Mark(model=model, input="o", table="raw.orders", uuid="u", snapshot_id=snapshot)


def waiting(ledger: SqlLedger) -> list[tuple[str, str, int | None]]:
    return [(each.hook, each.mark.model, each.mark.snapshot_id) for each in ledger.undelivered()]


def test_every_movement_waits_for_every_hook_that_wants_to_know_in_order(hooked: SqlLedger) -> None:
    hooked.move_watermarks([Advance(mark=mark(FCT), after=0)], is_set=True, why="a", at=NOON, who=ANN)
    hooked.move_watermarks([Advance(mark=mark(AGG), after=0)], is_set=True, why="b", at=NOON, who=ANN)
    assert waiting(hooked) == [(BOARD, FCT, 1), (BOARD, AGG, 1), (LAKE, AGG, 1)]
    assert len({each.id for each in hooked.undelivered()}) == 3


def test_a_movement_that_isnt_made_is_not_told(hooked: SqlLedger) -> None:
    hooked.move_watermarks([Advance(mark=mark(FCT), after=7)], is_set=True, why="a", at=NOON, who=ANN)
    assert waiting(hooked) == []


def test_without_hooks_nothing_waits_and_a_new_one_is_told_of_what_comes(ledger: SqlLedger, hooked: SqlLedger) -> None:
    ledger.move_watermarks([Advance(mark=mark(FCT), after=0)], is_set=True, why="a", at=NOON, who=ANN)
    assert waiting(hooked) == []
    last = hooked.movements()[FCT, "o"]
    hooked.move_watermarks([Advance(mark=mark(FCT, 2), after=last)], is_set=False, why="b", at=LATER, who=ANN)
    assert waiting(hooked) == [(BOARD, FCT, None)]
    assert not hooked.undelivered()[0].is_set


def test_a_failed_try_is_kept_and_one_that_is_taken_ends_it(hooked: SqlLedger) -> None:
    hooked.move_watermarks([Advance(mark=mark(FCT), after=0)], is_set=True, why="a", at=NOON, who=ANN)
    [first] = hooked.undelivered()
    hooked.record_delivery(first, at=NOON, error="HTTP 503")
    [again] = hooked.undelivered()
    assert (again.id, again.tries, again.error) == (first.id, 1, "HTTP 503")
    hooked.record_delivery(again, at=LATER, error=None)
    assert hooked.undelivered() == []
    assert hooked.last_delivered() == {BOARD: LATER}
    # Another process that was slower, and didn't get through.
    hooked.record_delivery(again, at=LATER + timedelta(hours=1), error="HTTP 503")
    assert (hooked.undelivered(), hooked.last_delivered()) == ([], {BOARD: LATER})


def test_a_publish_and_its_rollback_are_told_once_each(hooked: SqlLedger) -> None:
    driver = Driver(hooked, replace(a_plan(), load=Load(advances=(Advance(mark=mark(FCT, 5), after=0),))))
    driver.begin_publish()
    assert waiting(hooked) == []
    driver.publish()
    assert [(each.mark.snapshot_id, each.cause) for each in hooked.undelivered()] == [(5, "load")]
    driver.roll_back()
    assert [(each.is_set, each.cause) for each in hooked.undelivered()] == [(True, "load"), (False, "rollback")]


def test_a_clock_that_stands_still_tells_nothing_twice(hooked: SqlLedger) -> None:
    driver = Driver(hooked, replace(a_plan(), load=Load(advances=(Advance(mark=mark(FCT, 5), after=0),))))
    driver.begin_publish()
    driver.publish()
    hooked.roll_back(driver.plan.id, RolledBack(reason="wrong", snapshots={}), [], at=driver.at, who=ANN)
    assert [each.cause for each in hooked.undelivered()] == ["load", "rollback"]


def test_a_publish_that_is_found_in_the_tables_is_told_too(hooked: SqlLedger) -> None:
    plan = replace(a_plan(), load=Load(advances=(Advance(mark=mark(FCT, 5), after=0),)))
    hooked.rebuild(plan, rebuilt(plan, lost=True), at=NOON, who=ANN)
    assert waiting(hooked) == [(BOARD, FCT, 5)]
