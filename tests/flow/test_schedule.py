"""Whose turn it is, and staying to load what is due: with a clock and a sleep of our own."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from retcon.core.leases import Driver
from retcon.core.schedules import Claim, Kind, Schedule, Standing, Turn
from retcon.errors import GatesFailed
from retcon.flow.driving import Caller
from retcon.flow.schedule import taking, watch
from retcon.ledger.migrate import migrate
from retcon.ledger.store import SqlLedger
from retcon.project.crons import cron_of

NOON = datetime(2026, 1, 22, 12, tzinfo=UTC)
ADA = Driver(who="ada", host="desk", pid=17, began="1")
BEN = Driver(who="ben", host="desk", pid=18, began="1")
FCT = "mart.fct"


def standing(cron: str, now: datetime, turn: Turn | None = None, model: str = FCT) -> Standing:
    times = cron_of(cron, "UTC")
    return Standing(
        schedule=Schedule(model=model, kind=Kind.LOAD, cron=cron),
        due=times.newest(now),
        turn=turn or Turn(model=model, kind=Kind.LOAD),
        coming=times.coming(now, 1),
    )


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[SqlLedger]:
    made = SqlLedger(f"sqlite:///{tmp_path}/lake.db", "lake", migrate=migrate)
    yield made
    made.close()


def caller(ledger: SqlLedger, driver: Driver = ADA, *gone: Driver) -> Caller:
    return Caller(
        ledger=ledger,
        clock=lambda: NOON,
        who=driver.who,
        driver=driver,
        is_gone=lambda other: other in gone,
        say=lambda _: None,
    )


def now_standing(ledger: SqlLedger) -> Standing:
    return standing("0 4 * * *", NOON, ledger.turns().get((FCT, Kind.LOAD)))


def test_what_one_process_took_no_other_gets_and_it_is_done_at_the_end(ledger: SqlLedger) -> None:
    due = now_standing(ledger)
    assert due.is_due, "it never was"
    with taking([due], caller(ledger), claim="a") as taken:
        assert [each.model for each in taken.turns] == [FCT]
        with taking([now_standing(ledger)], caller(ledger, BEN), claim="b") as other:
            assert other.turns == ()
    assert not now_standing(ledger).is_due
    with taking([due], caller(ledger, BEN), claim="c") as late:
        assert late.turns == (), "who looked before it was done doesn't do it again"


def test_a_load_that_fails_lets_go_and_tells_why(ledger: SqlLedger) -> None:
    with pytest.raises(GatesFailed), taking([now_standing(ledger)], caller(ledger), claim="a"):
        raise GatesFailed("2 gates failed")
    after = now_standing(ledger)
    assert after.is_due
    assert (after.turn.claim, after.turn.trouble) == (None, "2 gates failed")
    with pytest.raises(KeyboardInterrupt), taking([after], caller(ledger), claim="b"):
        raise KeyboardInterrupt
    assert now_standing(ledger).turn.claim is None


def test_a_process_that_is_no_more_is_taken_over_from_at_once(ledger: SqlLedger) -> None:
    ledger.prepare()
    ledger.claim_schedules({(FCT, Kind.LOAD): NOON}, ADA, claim="dead", seconds=3600)
    with taking([now_standing(ledger)], caller(ledger, BEN), claim="b") as taken:
        assert taken.turns == ()
    with taking([now_standing(ledger)], caller(ledger, BEN, ADA), claim="b") as taken:
        assert len(taken.turns) == 1


def test_a_long_load_keeps_its_claim(ledger: SqlLedger) -> None:
    with taking([now_standing(ledger)], caller(ledger), claim="a", seconds=0.2) as taken:
        assert taken.turns
        time.sleep(0.6)
        assert now_standing(ledger).turn.claim is not None


def test_nothing_due_makes_no_ledger(ledger: SqlLedger) -> None:
    with taking([], caller(ledger), claim="a") as taken:
        assert taken.turns == ()
    assert not ledger.exists()


class Enough(Exception):
    pass


class Stayed:
    """Somebody who stays, in a time that passes only while he sleeps or loads."""

    def __init__(self, crons: dict[str, str], ends: datetime, *, takes: timedelta = timedelta(minutes=2)) -> None:
        self.now = NOON
        self.ends = ends
        self.takes = takes
        self.crons = crons
        self.turns: dict[str, Turn] = {}
        self.loads: list[tuple[datetime, str]] = []
        self.fails: set[str] = set()
        self.looks = 0

    def look(self) -> Sequence[Standing]:
        self.looks += 1
        return [standing(cron, self.now, self.turns.get(model), model) for model, cron in self.crons.items()]

    def load(self, due: Sequence[Standing]) -> bool:
        self.loads += [(self.now, each.model) for each in due]
        self.now += self.takes
        if self.fails & {each.model for each in due}:
            return False
        self.turns |= {each.model: replace(each.turn, done=each.due) for each in due}
        return True

    def sleep(self, seconds: float) -> None:
        assert 0 < seconds <= 60
        self.now += timedelta(seconds=seconds)
        if self.now > self.ends:
            raise Enough

    def stay(self) -> list[str]:
        with pytest.raises(Enough):
            watch(self.look, self.load, lambda: self.now, self.sleep)
        return [f"{at:%H:%M} {model}" for at, model in self.loads]


def test_each_time_is_loaded_once_on_the_minute_and_what_was_missed_before_in_one(ledger: SqlLedger) -> None:
    stayed = Stayed({"mart.a": "*/20 * * * *", "mart.b": "30 12 * * *"}, NOON + timedelta(minutes=65))
    assert stayed.stay() == [
        "12:00 mart.a", "12:00 mart.b", "12:20 mart.a", "12:30 mart.b", "12:40 mart.a", "13:00 mart.a",
    ]  # fmt: skip


def test_times_that_pass_while_a_load_runs_are_made_up_for_by_one() -> None:
    stayed = Stayed({"mart.a": "*/5 * * * *"}, NOON + timedelta(minutes=50), takes=timedelta(minutes=17))
    assert stayed.stay() == ["12:00 mart.a", "12:17 mart.a", "12:34 mart.a"]


def test_a_load_that_fails_is_tried_again_at_its_next_time_and_others_go_on() -> None:
    stayed = Stayed({"mart.a": "0 * * * *", "mart.b": "10,50 * * * *"}, NOON + timedelta(minutes=75))
    stayed.fails = {"mart.a"}
    stayed.turns["mart.b"] = Turn(model="mart.b", kind=Kind.LOAD, done=NOON)
    assert stayed.stay() == ["12:00 mart.a", "12:10 mart.b", "12:50 mart.b", "13:00 mart.a", "13:10 mart.b"]


def test_what_another_process_is_at_is_left_to_it() -> None:
    stayed = Stayed({"mart.a": "0 * * * *"}, NOON + timedelta(minutes=30))
    claim = Claim(id="a", driver=BEN, seconds_left=60)
    stayed.turns["mart.a"] = Turn(model="mart.a", kind=Kind.LOAD, claim=claim)
    assert stayed.stay() == []
    assert stayed.looks == 31, "every minute: it may have died"


def test_a_model_that_was_left_alone_stays_due_and_tells_why_and_others_are_done(ledger: SqlLedger) -> None:
    other = replace(now_standing(ledger), schedule=replace(now_standing(ledger).schedule, model="mart.other"))
    with taking([now_standing(ledger), other], caller(ledger), claim="a") as taken:
        taken.troubles[FCT] = "raw.s is not there"
    after = now_standing(ledger)
    assert after.is_due
    assert (after.turn.claim, after.turn.trouble) == (None, "raw.s is not there")
    done = ledger.turns()["mart.other", Kind.LOAD]
    assert (done.done, done.trouble) == (other.due, "")
