"""One process drives a run: turns, signs of life, and who is taken over from."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from retcon.core.events import Paused
from retcon.core.leases import Driver
from retcon.core.runs import Run, RunState
from retcon.errors import Conflict
from retcon.flow.apply import open_run
from retcon.flow.cancel import cancel_if_left
from retcon.flow.context import Context
from retcon.flow.driving import Caller, driving, turn_or_busy
from retcon.flow.ports import Warehouse
from tests.flow.workshops import Workshop

ADA = Driver(who="ada", host="desk", pid=17, began="1")
BEN = Driver(who="ben", host="desk", pid=18, began="1")


@pytest.fixture
def workshop(tmp_path: Path) -> Workshop:
    return Workshop(tmp_path).shop()


@pytest.fixture
def run(workshop: Workshop) -> Run:
    w = workshop.workspace
    plan = workshop.plan("mart.a", start="2026-01-03", end="2026-01-05")
    return open_run(plan, w.project, w.ledger, w.tables, w.clock, w.who)


def context_of(workshop: Workshop, driver: Driver, *, gone: tuple[Driver, ...] = ()) -> Context:
    w = workshop.workspace
    parts: dict[str, Any] = {"warehouse": None, "driver": driver, "is_gone": lambda other: other in gone}
    return Context(
        project=w.project, ledger=w.ledger, tables=w.tables, clock=w.clock, who="ada", watch=lambda _: None, **parts
    )


def test_a_second_process_is_told_who_runs_it_and_has_its_turn_afterwards(workshop: Workshop, run: Run) -> None:
    with (
        driving(run, context_of(workshop, ADA)),
        pytest.raises(Conflict, match=r"run by ada on desk \(process 17\)"),
        driving(run, context_of(workshop, BEN)),
    ):
        raise AssertionError("two at once")
    with driving(run, context_of(workshop, BEN)):
        held = workshop.ledger.lease(run.id)
        assert held is not None
        assert held.driver == BEN


def test_a_turn_ends_with_an_error_too(workshop: Workshop, run: Run) -> None:
    with pytest.raises(ZeroDivisionError), driving(run, context_of(workshop, ADA)):
        raise ZeroDivisionError
    assert workshop.ledger.lease(run.id) is None


def test_a_process_that_was_killed_is_taken_over_from_at_once(workshop: Workshop, run: Run) -> None:
    workshop.ledger.take_lease(run.id, ADA, over=None, seconds=60)
    with pytest.raises(Conflict), driving(run, context_of(workshop, BEN)):
        pass
    with driving(run, context_of(workshop, BEN, gone=(ADA,))):
        pass
    # As another process of the same number that began later.
    workshop.ledger.take_lease(run.id, replace(ADA, began="2"), over=None, seconds=60)
    with pytest.raises(Conflict), driving(run, context_of(workshop, BEN, gone=(ADA,))):
        pass


def test_a_lease_is_renewed_as_long_as_its_process_works(workshop: Workshop, run: Run) -> None:
    with driving(run, context_of(workshop, ADA), seconds=0.4):
        time.sleep(1.0)
        held = workshop.ledger.lease(run.id)
        assert held is not None
        assert held.driver == ADA


@pytest.mark.parametrize("is_over", [False, True])
def test_who_was_taken_over_from_stops_its_jobs(workshop: Workshop, run: Run, is_over: bool) -> None:
    interrupts: list[int] = []
    context = context_of(workshop, ADA)
    context.warehouse = cast(Warehouse, SimpleNamespace(interrupt=lambda: interrupts.append(1)))
    with driving(run, context, seconds=0.4, look=0.02):
        held = workshop.ledger.lease(run.id)
        assert held is not None
        token = workshop.ledger.take_lease(run.id, BEN, over=held.token, seconds=60)
        assert token is not None
        if is_over:
            # The other's turn came and went between two looks.
            workshop.ledger.renew_lease(run.id, token, seconds=0)
        context.brake.pulled.result(timeout=10)
        began = len(interrupts)
        while len(interrupts) < began + 2:
            time.sleep(0.02)
    assert context.brake.request is not None
    assert context.brake.request.told == "another process took over"


def test_who_was_taken_over_from_can_record_nothing_more(workshop: Workshop, run: Run) -> None:
    context = context_of(workshop, ADA)
    with driving(run, context):
        held = workshop.ledger.lease(run.id)
        assert held is not None
        token = workshop.ledger.take_lease(run.id, BEN, over=held.token, seconds=60)
        with pytest.raises(Conflict, match=r"taken over by ben on desk \(process 18\)"):
            context.record(run, Paused(why="a moment"))
    # Nor does it end the other's turn.
    now = workshop.ledger.lease(run.id)
    assert now is not None
    assert now.token == token


def test_who_waits_for_spark_keeps_others_from_it_and_drives_it_then(workshop: Workshop, run: Run) -> None:
    w = workshop.workspace
    ada = Caller(
        ledger=w.ledger, clock=w.clock, who="ada", driver=ADA, is_gone=lambda _: False, say=lambda _: None, patience=0.1
    )
    ben = replace(ada, who="ben", driver=BEN)
    with turn_or_busy(run, ada):
        with pytest.raises(Conflict, match=r"run by ada on desk"):
            cancel_if_left(run, "found anew", ben, w.tables)
        with driving(run, context_of(workshop, ADA)):
            held = workshop.ledger.lease(run.id)
            assert held is not None
            assert held.driver == ADA
    assert cancel_if_left(run, "found anew", ben, w.tables).state is RunState.CANCELLED
