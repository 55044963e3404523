"""Schedules in the ledger: each of their times is one process's, until it is done or that process is no more."""

from __future__ import annotations

import time
from datetime import timedelta
from functools import partial

from retcon.core.schedules import Kind
from retcon.ledger.store import SqlLedger
from tests.ledger.crowds import at_once
from tests.ledger.examples import FCT, NOON
from tests.ledger.test_leases import ADA, BEN

LOAD, DEEP = (FCT, Kind.LOAD), (FCT, Kind.DEEP)
LATER = NOON + timedelta(days=1)


def test_a_time_is_taken_once_and_done_once(ledger: SqlLedger) -> None:
    assert ledger.claim_schedules({LOAD: NOON, DEEP: NOON}, ADA, claim="a", seconds=60) == [DEEP, LOAD]
    assert ledger.claim_schedules({LOAD: NOON}, BEN, claim="b", seconds=60) == []
    held = ledger.turns()[LOAD]
    assert held.claim is not None
    assert (held.claim.id, held.claim.driver, held.done) == ("a", ADA, None)
    assert 50 < held.claim.seconds_left <= 60
    ledger.end_claim("a", at=NOON)
    turn = ledger.turns()[LOAD]
    assert (turn.claim, turn.done, turn.ended, turn.trouble) == (None, NOON, NOON, "")
    assert ledger.claim_schedules({LOAD: NOON}, BEN, claim="b", seconds=60) == [], "it is done"
    assert ledger.claim_schedules({LOAD: LATER}, BEN, claim="b", seconds=60) == [LOAD]


def test_what_ended_in_trouble_is_free_at_once_and_tells_why(ledger: SqlLedger) -> None:
    ledger.claim_schedules({LOAD: NOON}, ADA, claim="a", seconds=60)
    ledger.end_claim("a", at=LATER, trouble="a gate failed")
    turn = ledger.turns()[LOAD]
    assert (turn.claim, turn.done, turn.ended, turn.trouble) == (None, None, LATER, "a gate failed")
    assert ledger.claim_schedules({LOAD: NOON}, BEN, claim="b", seconds=60) == [LOAD]
    ledger.end_claim("b", at=LATER)
    assert (ledger.turns()[LOAD].done, ledger.turns()[LOAD].trouble) == (NOON, "")


def test_a_claim_without_a_sign_of_life_runs_out(ledger: SqlLedger) -> None:
    ledger.claim_schedules({LOAD: NOON}, ADA, claim="a", seconds=0.05)
    time.sleep(0.1)
    assert ledger.turns()[LOAD].claim is None
    assert ledger.renew_claim("a", seconds=0.05), "nobody took over: it may go on"
    time.sleep(0.1)
    assert ledger.claim_schedules({LOAD: NOON}, BEN, claim="b", seconds=60) == [LOAD]
    assert not ledger.renew_claim("a", seconds=60)
    ledger.end_claim("a", at=NOON)
    held = ledger.turns()[LOAD]
    assert held.claim is not None
    assert (held.claim.id, held.done) == ("b", None), "who lost it ends nothing"


def test_a_claim_is_taken_over_by_name(ledger: SqlLedger) -> None:
    ledger.claim_schedules({LOAD: NOON}, ADA, claim="a", seconds=60)
    assert ledger.claim_schedules({LOAD: NOON}, BEN, claim="b", over=["x"], seconds=60) == []
    assert ledger.claim_schedules({LOAD: NOON}, BEN, claim="b", over=["a"], seconds=60) == [LOAD]


def test_of_many_who_take_the_same_times_at_once_one_gets_each(ledger: SqlLedger) -> None:
    due = {(f"mart.m{number}", kind): NOON for number in range(5) for kind in Kind}
    orders = [due, dict(reversed(due.items()))]
    acts = [partial(ledger.claim_schedules, orders[n % 2], ADA, claim=str(n), seconds=60) for n in range(6)]
    results = at_once(acts)
    assert all(isinstance(each, list) for each in results), results
    got = [key for each in results if isinstance(each, list) for key in each]
    assert sorted(got) == sorted(due)
