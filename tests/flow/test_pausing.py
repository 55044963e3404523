"""Pause and cancel from another terminal: whoever drives the run stops, records it, and leaves nothing behind."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import pytest

from retcon.core.events import Cancelled, Paused, PublishBegan
from retcon.core.jobs import Job, Scanned, WaveTarget
from retcon.core.leases import Driver, StopRequest
from retcon.core.plans import Plan
from retcon.core.runs import Run, RunState
from retcon.errors import Conflict, Fault, Interrupted, Refused
from retcon.flow.apply import Until, apply, open_run
from retcon.flow.brakes import Brake, Stopped
from retcon.flow.cancel import stop_and_cancel
from retcon.flow.context import Context
from retcon.flow.driving import Caller, driving
from retcon.flow.pause import pause
from tests.flow.test_sequence import Writing
from tests.flow.workshops import Workshop, chained
from tests.ledger import examples

ADA = Driver(who="ada", host="desk", pid=17, began="1")
BEN = Driver(who="ben", host="lap", pid=18, began="1")


class Slow(Writing):
    """One step goes on until Spark's jobs are cancelled, or, where they can't be, until it is let go."""

    def __init__(self, workshop: Workshop, at: str, *, is_stubborn: bool = False) -> None:
        super().__init__(workshop)
        self._at = at
        self._is_stubborn = is_stubborn
        self.reached = threading.Event()
        self.let_go = threading.Event()
        self.interrupts = 0

    def interrupt(self) -> None:
        self.interrupts += 1
        if not self._is_stubborn:
            self.let_go.set()

    def open_branch(self, table: str, branch: str, snapshot_id: int | None) -> None:
        if self._at == "branch":
            self.reached.set()
            assert self.let_go.wait(60)
        super().open_branch(table, branch, snapshot_id)

    def stage(self, job: Job, target: WaveTarget) -> Mapping[str, Scanned]:
        if job.slices.text == self._at:
            self.reached.set()
            assert self.let_go.wait(60)
            raise Fault("job 7 was cancelled", retryable=True)
        return super().stage(job, target)


class Terminal:
    """An `apply` in another terminal."""

    def __init__(self, workshop: Workshop, plan: Plan, writing: Writing, **parts: Any) -> None:
        w = workshop.workspace
        run = open_run(plan, w.project, w.ledger, w.tables, w.clock, w.who)
        given: dict[str, Any] = {"watch": lambda _: None, "is_gone": lambda _: False, **parts}
        context = Context(
            project=w.project,
            ledger=w.ledger,
            tables=w.tables,
            warehouse=writing,  # type: ignore[arg-type] # as much of one as staging asks for
            clock=w.clock,
            who="ada",
            driver=ADA,
            **given,
        )
        self.ended: object = None
        self._thread = threading.Thread(target=self._apply, args=(run, context))
        self._thread.start()

    def _apply(self, run: Run, context: Context) -> None:
        try:
            self.ended = apply(run, context, until=Until.STAGED)
        except BaseException as error:
            self.ended = error

    def wait(self) -> object:
        self._thread.join(60)
        return self.ended


@pytest.fixture
def workshop(tmp_path: Path) -> Workshop:
    return chained(tmp_path)


@pytest.fixture
def plan(workshop: Workshop) -> Plan:
    return workshop.plan("mart.a", start="2026-01-03", end="2026-01-05", wave=1)


def caller_of(workshop: Workshop, say: Callable[[str], None] = lambda _: None, **parts: Any) -> Caller:
    w = workshop.workspace
    given: dict[str, Any] = {"is_gone": lambda _: False, "look": 0.05, **parts}
    return Caller(ledger=w.ledger, clock=w.clock, who="ben", driver=BEN, say=say, **given)


def standing(workshop: Workshop, plan: Plan) -> Run:
    run = workshop.ledger.run(plan.id)
    assert run is not None
    return run


def kinds(workshop: Workshop, plan: Plan) -> list[str]:
    return [event.kind for event in workshop.ledger.events(plan.id)]


def head(workshop: Workshop, plan: Plan) -> int | None:
    return workshop.lake.metadata.head("mart.a", plan.branch)


# ── pause ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_process_that_drives_stops_its_jobs_records_the_pause_and_says_how_to_go_on(
    workshop: Workshop, plan: Plan
) -> None:
    slow = Slow(workshop, "2026-01-04")
    other = Terminal(workshop, plan, slow)
    assert slow.reached.wait(60)
    said: list[str] = []
    began = monotonic()
    paused = pause(standing(workshop, plan), "the cluster is needed", caller_of(workshop, said.append))
    assert monotonic() - began < 30
    assert paused.state is RunState.PAUSED
    assert said[0] == "waiting for ada on desk (process 17) to stop…"
    error = other.wait()
    assert isinstance(error, Interrupted)
    assert error.exit_code == 130
    assert error.message == ("paused (asked by ben: the cluster is needed): 1 of 3 slices are staged, 2 aren't")
    assert error.state == "production is untouched"
    assert f"`retcon apply {plan.id}` goes on" in error.next
    assert kinds(workshop, plan)[-2:] == ["WaveStaged", "Paused"], "what the brake broke isn't the wave's failure"
    assert workshop.ledger.events(plan.id)[-1].body["why"] == "asked by ben: the cluster is needed"
    again = Terminal(workshop, plan, Writing(workshop)).wait()
    assert isinstance(again, Run)
    assert again.state is RunState.STAGED


def test_a_wave_that_waits_for_its_next_try_is_paused_at_once(workshop: Workshop, plan: Plan) -> None:
    slow = Slow(workshop, "2026-01-04")
    slow.let_go.set()  # it fails, as if an executor was lost
    other = Terminal(workshop, plan, slow, backoff=lambda _: 600.0)
    assert slow.reached.wait(60)
    while "WaveFailed" not in kinds(workshop, plan):
        sleep(0.05)
    assert pause(standing(workshop, plan), "", caller_of(workshop)).state is RunState.PAUSED
    assert isinstance(other.wait(), Interrupted)
    assert workshop.ledger.waves(plan.id)[1].attempts == 1


def test_where_nobody_drives_the_pause_is_recorded_at_once(workshop: Workshop, plan: Plan) -> None:
    run = examples.Driver(workshop.ledger, plan).stage()
    said: list[str] = []
    assert pause(run, "", caller_of(workshop, said.append)).state is RunState.PAUSED
    assert said == []
    assert workshop.ledger.events(plan.id)[-1].body["why"] == "asked by ben"
    assert workshop.ledger.lease(plan.id) is None


def test_a_driver_that_was_killed_isnt_waited_for(workshop: Workshop, plan: Plan) -> None:
    run = examples.Driver(workshop.ledger, plan).stage()
    workshop.ledger.take_lease(plan.id, ADA, over=None, seconds=60)
    assert pause(run, "", caller_of(workshop, is_gone=lambda _: True)).state is RunState.PAUSED


def test_an_apply_that_was_just_starting_heeds_a_pause_and_a_cancellation(workshop: Workshop, plan: Plan) -> None:
    w = workshop.workspace
    run = open_run(plan, w.project, w.ledger, w.tables, w.clock, w.who)
    pause(run, "", caller_of(workshop))
    context = Context(
        project=w.project, ledger=w.ledger, tables=w.tables, clock=w.clock, who="ada", watch=lambda _: None,
        warehouse=None, driver=ADA, is_gone=lambda _: False,  # type: ignore[arg-type] # it isn't got to
    )  # fmt: skip
    with pytest.raises(Interrupted, match="paused: 0 of 3 slices are staged"):
        apply(run, context)
    assert kinds(workshop, plan) == ["RunOpened", "Paused"]
    stop_and_cancel(run, "", caller_of(workshop), w.tables)
    with pytest.raises(Interrupted, match=f"run {plan.id} is cancelled"):
        apply(run, context)


@pytest.mark.parametrize("state", ["publishing", "published", "rolled back", "cancelled"])
def test_what_is_publishing_or_over_cant_be_paused(workshop: Workshop, plan: Plan, state: str) -> None:
    driver = examples.Driver(workshop.ledger, plan)
    if state == "cancelled":
        driver.tell(Cancelled(reason="not needed"))
    else:
        driver.begin_publish()
    if state in ("published", "rolled back"):
        driver.publish()
    if state == "rolled back":
        driver.roll_back()
    with pytest.raises(Refused, match=f"is {state}: it can't be paused any more"):
        pause(driver.run, "", caller_of(workshop))
    assert "Paused" not in kinds(workshop, plan)


def test_a_run_that_is_published_before_its_driver_hears_is_told_so(workshop: Workshop, plan: Plan) -> None:
    driver = examples.Driver(workshop.ledger, plan)
    driver.stage()
    proven = driver.prove()
    token = workshop.ledger.take_lease(plan.id, ADA, over=None, seconds=60)
    assert token is not None

    def publish_and_end(_: str) -> None:
        driver.tell(PublishBegan(locations={}))
        driver.publish()
        workshop.ledger.renew_lease(plan.id, token, seconds=0.0)

    with pytest.raises(Refused, match="is published: it can't be paused any more"):
        pause(proven, "", caller_of(workshop, publish_and_end))


def test_a_brake_that_a_publish_holds_isnt_pulled_and_a_pulled_one_lets_no_publish_begin() -> None:
    interrupts: list[int] = []
    asked = StopRequest(who="ben", why="")
    brake = Brake()
    with brake.held():
        brake.pull(asked, lambda: interrupts.append(1))
        brake.check()
    assert interrupts == []
    brake.pull(asked, lambda: interrupts.append(1))
    brake.pull(StopRequest(who="cy", why=""), lambda: interrupts.append(1))
    assert (brake.request, interrupts) == (asked, [1, 1])
    with pytest.raises(Stopped), brake.held():
        raise AssertionError("published")


def test_a_request_lapses_with_the_turn_it_was_made_in(workshop: Workshop, plan: Plan) -> None:
    run = examples.Driver(workshop.ledger, plan).stage()
    token = workshop.ledger.take_lease(plan.id, ADA, over=None, seconds=60)
    assert token is not None
    assert workshop.ledger.ask_to_stop(plan.id, token, StopRequest(who="ben", why=""))
    w = workshop.workspace
    context = Context(
        project=w.project, ledger=w.ledger, tables=w.tables, clock=w.clock, who="ada", watch=lambda _: None,
        warehouse=None, driver=BEN, is_gone=lambda _: True,  # type: ignore[arg-type] # nothing is to be stopped
    )  # fmt: skip
    with driving(run, context, look=0.02):
        sleep(0.2)
        assert not context.brake.is_pulled
        context.record(run, Paused(why="nothing but a test"))


def taken_over(workshop: Workshop, plan: Plan) -> tuple[Slow, Terminal, int]:
    """Somebody at a wave that takes long, and the turn that Ben took over from there."""
    slow = Slow(workshop, "2026-01-04")
    other = Terminal(workshop, plan, slow)
    assert slow.reached.wait(60)
    held = workshop.ledger.lease(plan.id)
    assert held is not None
    token = workshop.ledger.take_lease(plan.id, BEN, over=held.token, seconds=60)
    assert token is not None
    return slow, other, token


def test_who_was_taken_over_from_breaks_its_wave_off_and_is_told_by_whom(workshop: Workshop, plan: Plan) -> None:
    slow, other, _ = taken_over(workshop, plan)
    error = other.wait()
    assert isinstance(error, Conflict)
    assert error.message == f"run {plan.id} was taken over by ben on lap (process 18)"
    assert slow.interrupts
    assert kinds(workshop, plan)[-1] == "WaveStaged", "it records nothing more, not even that it stopped"


def test_who_was_taken_over_from_says_so_when_the_other_one_is_further(workshop: Workshop, plan: Plan) -> None:
    _, other, token = taken_over(workshop, plan)
    workshop.ledger.record(plan.id, Paused(why="lunch"), at=workshop.now, who="ben", fence=token)
    error = other.wait()
    assert isinstance(error, Interrupted)
    assert error.message.startswith("paused (another process took over): 1 of 3 slices are staged")


# ── cancel ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_cancel_stops_the_driver_first_and_leaves_no_branch(workshop: Workshop, plan: Plan) -> None:
    slow = Slow(workshop, "2026-01-04")
    other = Terminal(workshop, plan, slow)
    assert slow.reached.wait(60)
    ended = stop_and_cancel(standing(workshop, plan), "planned anew", caller_of(workshop), workshop.workspace.tables)
    assert (ended.state, ended.why_ended) == (RunState.CANCELLED, "planned anew")
    error = other.wait()
    assert isinstance(error, Interrupted)
    assert "asked by ben: to cancel it: planned anew" in error.message
    assert kinds(workshop, plan)[-2:] == ["Paused", "Cancelled"]
    assert head(workshop, plan) is None


def test_a_branch_that_was_just_being_made_goes_too(workshop: Workshop, plan: Plan) -> None:
    slow = Slow(workshop, "branch")
    other = Terminal(workshop, plan, slow)
    assert slow.reached.wait(60)
    ended = stop_and_cancel(standing(workshop, plan), "", caller_of(workshop), workshop.workspace.tables)
    assert ended.state is RunState.CANCELLED
    assert isinstance(other.wait(), Interrupted)
    assert not slow.staged
    assert head(workshop, plan) is None


def test_a_driver_that_slept_through_the_cancellation_clears_away_what_it_made_since(
    workshop: Workshop, plan: Plan
) -> None:
    slow = Slow(workshop, "branch", is_stubborn=True)
    other = Terminal(workshop, plan, slow)
    assert slow.reached.wait(60)
    gone = caller_of(workshop, is_gone=lambda _: True)
    stop_and_cancel(standing(workshop, plan), "", gone, workshop.workspace.tables)
    slow.let_go.set()
    error = other.wait()
    assert isinstance(error, Conflict)
    assert "was taken over by ben" in error.message
    assert head(workshop, plan) is None


def test_a_driver_that_doesnt_stop_in_time_is_named_and_nothing_is_cancelled(workshop: Workshop, plan: Plan) -> None:
    slow = Slow(workshop, "2026-01-04", is_stubborn=True)
    other = Terminal(workshop, plan, slow)
    assert slow.reached.wait(60)
    hasty = caller_of(workshop, patience=0.2)
    with pytest.raises(Conflict, match=r"ada on desk \(process 17\) hasn't yet") as conflict:
        stop_and_cancel(standing(workshop, plan), "", hasty, workshop.workspace.tables)
    assert "the request stands" in conflict.value.state
    assert standing(workshop, plan).state is RunState.STAGING
    while not slow.interrupts:
        sleep(0.05)
    slow.let_go.set()
    assert isinstance(other.wait(), Interrupted)
    assert standing(workshop, plan).state is RunState.PAUSED
