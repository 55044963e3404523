"""Waves that fail are tried again where that can help, each failure on record; real commits, without Spark."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from time import monotonic
from typing import Any

import pytest

from retcon.core.jobs import Job, Scanned, WaveTarget
from retcon.core.plans import Plan
from retcon.core.runs import Run, RunState
from retcon.errors import Fault, GatesFailed, Interrupted, Refused
from retcon.flow.apply import Until, apply, open_run
from retcon.flow.context import Context
from retcon.flow.ports import Progress
from retcon.processes import is_gone, this_process
from tests.flow.test_sequence import Writing
from tests.flow.workshops import Workshop, chained

LOST = Fault("executor lost", retryable=True)


class Failing(Writing):
    """Fails at some slices, as often as is said; before its commit, or with it on the branch."""

    def __init__(self, workshop: Workshop, errors: dict[str, list[Exception]], *, after: bool = False) -> None:
        super().__init__(workshop)
        self._errors = {label: list(each) for label, each in errors.items()}
        self._after = after
        self.tried: list[str] = []

    def stage(self, job: Job, target: WaveTarget) -> Mapping[str, Scanned]:
        (slice,) = job.slices
        self.tried.append(slice.label)
        left = self._errors.get(slice.label)
        if not left:
            return super().stage(job, target)
        if self._after:
            super().stage(job, target)
        raise left.pop(0)

    def interrupt(self) -> None:
        pass


@pytest.fixture
def workshop(tmp_path: Path) -> Workshop:
    return chained(tmp_path)


@pytest.fixture
def plan(workshop: Workshop) -> Plan:
    return workshop.plan("mart.a", start="2026-01-03", end="2026-01-05", wave=1)


def staged(workshop: Workshop, plan: Plan, writing: Writing, **parts: Any) -> Run:
    w = workshop.workspace
    given: dict[str, Any] = {
        "driver": this_process("ada"), "is_gone": is_gone, "backoff": lambda _: 0.0, "watch": lambda _: None, **parts
    }  # fmt: skip
    context = Context(
        project=w.project,
        ledger=w.ledger,
        tables=w.tables,
        warehouse=writing,  # type: ignore[arg-type] # as much of one as staging asks for
        clock=w.clock,
        who="ada",
        **given,
    )
    return apply(open_run(plan, w.project, w.ledger, w.tables, w.clock, w.who), context, until=Until.STAGED)


def attempts(workshop: Workshop, plan: Plan) -> list[int]:
    return [wave.attempts for wave in workshop.ledger.waves(plan.id)]


def kinds(workshop: Workshop, plan: Plan) -> list[str]:
    return [event.kind for event in workshop.ledger.events(plan.id)]


def test_a_wave_that_fails_twice_is_staged_at_the_third_try_in_its_order(workshop: Workshop, plan: Plan) -> None:
    writing = Failing(workshop, {"2026-01-04": [LOST, LOST]})
    waits: list[int] = []
    told: list[Progress] = []
    run = staged(workshop, plan, writing, backoff=lambda tries: waits.append(tries) or 0.0, watch=told.append)
    assert run.state is RunState.STAGED
    assert writing.tried == ["2026-01-03", "2026-01-04", "2026-01-04", "2026-01-04", "2026-01-05"]
    assert attempts(workshop, plan) == [1, 3, 1]
    assert kinds(workshop, plan).count("WaveFailed") == 2
    assert waits == [1, 2]
    assert [each.note for each in told if each.note] == [
        "wave 2 failed: try 2 of 3 in 0 s", "wave 2 failed: try 3 of 3 in 0 s",
    ]  # fmt: skip


def test_after_three_tries_the_run_stops_and_apply_tries_anew(workshop: Workshop, plan: Plan) -> None:
    writing = Failing(workshop, {"2026-01-04": [LOST] * 4})
    with pytest.raises(Fault, match="executor lost"):
        staged(workshop, plan, writing)
    assert attempts(workshop, plan) == [1, 3, 0]
    assert staged(workshop, plan, writing).state is RunState.STAGED
    assert attempts(workshop, plan) == [1, 5, 1]
    assert writing.tried.count("2026-01-03") == 1


@pytest.mark.parametrize(
    "error",
    [Fault("no space left"), Refused("no such column"), GatesFailed("a row outside"), ZeroDivisionError("code")],
)
def test_what_would_fail_again_is_tried_once(workshop: Workshop, plan: Plan, error: Exception) -> None:
    writing = Failing(workshop, {"2026-01-04": [error]})
    with pytest.raises((type(error), Fault)):
        staged(workshop, plan, writing)
    assert writing.tried == ["2026-01-03", "2026-01-04"]
    assert attempts(workshop, plan) == [1, 1, 0]


def test_a_wave_whose_commit_got_through_is_adopted_and_not_computed_again(workshop: Workshop, plan: Plan) -> None:
    writing = Failing(workshop, {"2026-01-04": [LOST]}, after=True)
    assert staged(workshop, plan, writing).state is RunState.STAGED
    assert writing.tried == ["2026-01-03", "2026-01-04", "2026-01-05"]
    adopted = [e.body["wave"] for e in workshop.ledger.events(plan.id) if e.kind == "WaveStaged" and e.body["adopted"]]
    assert adopted == [2]
    assert attempts(workshop, plan) == [1, 2, 1]


@pytest.fixture
def ctrl_c() -> Iterator[None]:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("ctrl_c")
def test_ctrl_c_ends_the_waiting_at_once(workshop: Workshop, plan: Plan) -> None:
    def interrupt_soon(progress: Progress) -> None:
        if progress.note:
            threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()

    began = monotonic()
    writing = Failing(workshop, {"2026-01-04": [LOST]})
    with pytest.raises(Interrupted, match="paused: 1 of 3 slices are staged, 2 aren't"):
        staged(workshop, plan, writing, backoff=lambda _: 600.0, watch=interrupt_soon)
    assert monotonic() - began < 60
    assert workshop.ledger.run(plan.id).state is RunState.PAUSED  # type: ignore[union-attr]
    assert staged(workshop, plan, Failing(workshop, {})).state is RunState.STAGED
