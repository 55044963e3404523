"""Which waves run at once: those of models that don't read one another do, and of a reader none before its inputs."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import count
from pathlib import Path
from threading import Barrier, Lock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retcon.core.jobs import Job, Scanned, WaveTarget
from retcon.core.runs import RunState, WaveState
from retcon.errors import Fault
from retcon.flow.waves import Line
from tests.flow.test_retries import staged
from tests.flow.test_sequence import Writing
from tests.flow.workshops import Workshop

DAYS = "2026-01-01..2026-01-02"


class Meeting(Writing):
    """Waves of some models wait for one another: each fails unless all of them run at once."""

    def __init__(self, workshop: Workshop, meet: set[str], fails: str = "") -> None:
        super().__init__(workshop)
        self._barrier = Barrier(len(meet))
        self._meet = meet
        self._fails = fails
        self._writes = Lock()
        self.order: list[str] = []

    def stage(self, job: Job, target: WaveTarget) -> Mapping[str, Scanned]:
        name = job.model.name
        if name in self._meet:
            self._barrier.wait(timeout=20)
        if name == self._fails:
            raise Fault("the cluster is gone")
        with self._writes:
            self.order.append(name)
            return super().stage(job, target)


@pytest.fixture
def workshop(tmp_path: Path) -> Workshop:
    """Two models on one source, and one that reads both."""
    workshop = Workshop(tmp_path)
    workshop.lake.by_day("raw.s", DAYS)
    for name in ("mart.a", "mart.b", "mart.c"):
        workshop.publish_by_hand(name, DAYS)
    workshop.model("mart.a")
    workshop.model("mart.b")
    both = "SELECT a.d, a.n + b.n AS n FROM mart.a a JOIN mart.b b ON a.d = b.d"
    workshop.model("mart.c", "mart.a: {time: d}, mart.b: {time: d}", both)
    return workshop


def test_models_that_dont_read_one_another_are_staged_at_once_and_their_reader_after_both(workshop: Workshop) -> None:
    writing = Meeting(workshop, {"mart.a", "mart.b"})
    plan = workshop.plan("mart.*", start="2026-01-02", end="2026-01-02", wave=1)
    run = staged(workshop, plan, writing, max_active=2)
    assert run.state is RunState.STAGED
    assert sorted(writing.order[:2]) == ["mart.a", "mart.b"]
    assert writing.order[2:] == ["mart.c"]


def test_where_one_of_two_fails_the_other_is_kept_and_their_reader_not_begun(workshop: Workshop) -> None:
    plan = workshop.plan("mart.*", start="2026-01-02", end="2026-01-02", wave=1)
    failing = Meeting(workshop, {"mart.a", "mart.b"}, fails="mart.b")
    with pytest.raises(Fault, match="the cluster is gone"):
        staged(workshop, plan, failing, max_active=2)
    states = {wave.model: wave.state for wave in workshop.ledger.waves(plan.id)}
    assert states == {"mart.a": WaveState.DONE, "mart.b": WaveState.FAILED, "mart.c": WaveState.PENDING}
    again = Meeting(workshop, set("x"))
    assert staged(workshop, plan, again, max_active=2).state is RunState.STAGED
    assert again.order == ["mart.b", "mart.c"]


def test_an_order_that_was_edited_since_the_plan_is_followed(workshop: Workshop) -> None:
    plan = workshop.plan("mart.a", "mart.b", "mart.c", start="2026-01-02", end="2026-01-02", wave=1)
    assert [planned.name for planned in plan.models] == ["mart.a", "mart.b", "mart.c"]
    workshop.model("mart.a", keys="after: [mart.b]")
    writing = Meeting(workshop, set("x"))
    assert staged(workshop, plan, writing, max_active=2).state is RunState.STAGED
    assert writing.order == ["mart.b", "mart.a", "mart.c"]


@given(
    waves=st.integers(0, 12),
    at_once=st.integers(1, 4),
    places=st.lists(st.integers(0, 5), min_size=60, max_size=60),
    fails=st.lists(st.booleans(), max_size=20),
)
def test_a_line_starts_each_wave_and_never_more_than_it_may(
    waves: int, at_once: int, places: list[int], fails: list[bool]
) -> None:
    line = Line(waves=iter(range(waves)), at_once=at_once)  # type: ignore[arg-type] # numbers serve as well
    running: list[int] = []
    done: list[int] = []
    failures = iter(fails)
    for now, free in zip(count(), places, strict=False):
        running += line.due(now, free)  # type: ignore[arg-type]
        assert line.under_way <= at_once
        if running:
            wave = running.pop(0)
            again = next(failures, False)
            line.settled(wave if again else None, now + 1)  # type: ignore[arg-type]
            done += [] if again else [wave]
        if line.is_done:
            break
    assert len(done) == len(set(done))
    if line.is_done:
        assert sorted(done) == list(range(waves))
