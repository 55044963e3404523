"""Runs over the same slices: of those that are opened at once, one is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from retcon.core.leases import Driver as Process
from retcon.core.plans import Plan
from retcon.core.runs import Run, RunState
from retcon.errors import Conflict
from retcon.ledger.migrate import migrate
from retcon.ledger.store import SqlLedger
from tests.ledger.conftest import CATALOG, Database
from tests.ledger.crowds import at_once
from tests.ledger.examples import AGG, ANN, FCT, NOON, Driver, a_plan, opened, published_run, wave_staged

ADA = Process(who="ada", host="desk", pid=17, began="1")


def opening(uri: str, plan: Plan) -> Callable[[], Run]:
    """As a process of its own would do it."""
    ledger = SqlLedger(uri, CATALOG, migrate=migrate)
    return lambda: ledger.open_run(plan, opened(plan), at=NOON, who=ANN)


def test_of_many_that_open_overlapping_runs_at_once_one_passes(ledger: SqlLedger, database: Database) -> None:
    plans = [a_plan(f"run_{n}", models=(AGG, FCT) if n % 2 else (FCT,), force=False) for n in range(6)]
    results = at_once([opening(database.uri, plan) for plan in plans])
    (first,) = [run for run in results if isinstance(run, Run)]
    refused = [each for each in results if isinstance(each, Conflict)]
    assert len(refused) == 5
    assert all(f"run {first.id} is under way" in each.message for each in refused)
    assert [run.id for run in ledger.runs()] == [first.id]
    assert database.counts()["retcon_slices"] == first.plan.slices, "a refused one leaves nothing"


def test_runs_of_other_tables_and_forced_ones_are_opened_at_once(ledger: SqlLedger, database: Database) -> None:
    plans = [a_plan("a"), a_plan("b"), a_plan("c", models=(AGG,), force=False)]
    assert all(isinstance(each, Run) for each in at_once([opening(database.uri, plan) for plan in plans]))


def test_what_is_in_the_way_is_told_with_its_progress_and_driver_oldest_first(ledger: SqlLedger) -> None:
    published_run(ledger, a_plan("over"))
    first = Driver(ledger, a_plan("first", models=(AGG, FCT)))
    Driver(ledger, a_plan("second", days=2))
    first.tell(wave_staged(first.plan, 2, AGG))
    ledger.take_lease("second", ADA, over=None, seconds=60)
    plan = a_plan("new", days=3)
    one, two = ledger.in_the_way(plan)
    assert (one.run.id, one.run.state, one.staged, one.driver) == ("first", RunState.STAGING, 2, None)
    assert {table: slices.text for table, slices in one.shared.items()} == {FCT: "2025-10-25..2025-10-27"}
    assert (two.run.id, two.driver) == ("second", ADA)
    assert two.shared[FCT].text == "2025-10-25..2025-10-26"
    renewing = replace(plan, request=replace(plan.request, refreshes="first"))
    assert [each.run.id for each in ledger.in_the_way(renewing)] == ["second"]
    assert [each.run.id for each in ledger.in_the_way(a_plan("second", days=2))] == ["first"], "not in its own way"
