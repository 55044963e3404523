"""Estimates from runs that were recorded, canaries, and runs that pause where their budget is passed; without Spark."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from retcon.core.budgets import Budget
from retcon.core.estimates import Price
from retcon.core.events import ApplyBegan, Paused, WaveStaged
from retcon.core.jobs import Job, Tried
from retcon.core.plans import Plan, from_document, to_document
from retcon.core.runs import Run, RunState
from retcon.core.tasks import Tasks
from retcon.core.timings import Step, Timing, Turn
from retcon.errors import Interrupted, Refused
from retcon.flow import apply as applying
from retcon.flow.apply import Until, apply, open_run
from retcon.flow.context import Context
from retcon.flow.estimate import Canary, Estimator, spread_out
from retcon.flow.meters import Meter, Setup, _taken, budget_of, meter_of, require_budget
from retcon.flow.records import Records
from retcon.processes import is_gone, this_process
from tests.core.examples import days
from tests.flow.test_sequence import Writing
from tests.flow.workshops import NOW, Workshop, chained

TASKS = Tasks(
    count=2, planning_seconds=0.0, seconds=0.0, commit_seconds=0.0, run_seconds=0.1, cpu_seconds=0.1,
    read_bytes=10, written_bytes=10, shuffled_bytes=0, spilled_bytes=0,
)  # fmt: skip


class Told(Writing):
    """Spark tells of its tasks."""

    def tasks(self, name: str) -> Tasks:  # type: ignore[override] # as the real one does
        assert name
        return TASKS


@pytest.fixture
def workshop(tmp_path: Path) -> Workshop:
    return chained(tmp_path)


@pytest.fixture
def plan(workshop: Workshop) -> Plan:
    return workshop.plan("mart.a", start="2026-01-03", end="2026-01-05", wave=1)


def context_of(workshop: Workshop, writing: Writing, **parts: Any) -> Context:
    w = workshop.workspace
    given: dict[str, Any] = {"setup": Setup(preparing=0.5, starting=4.0, cores=2), **parts}
    return Context(
        project=w.project, ledger=w.ledger, tables=w.tables, clock=w.clock, who="ada", watch=lambda _: None,
        warehouse=writing, driver=this_process("ada"), is_gone=is_gone, **given,  # type: ignore[arg-type]
    )  # fmt: skip


def opened(workshop: Workshop, plan: Plan) -> Run:
    w = workshop.workspace
    return open_run(plan, w.project, w.ledger, w.tables, w.clock, w.who)


def estimator_of(workshop: Workshop, cores: int | None = 2) -> Estimator:
    w = workshop.workspace
    return Estimator(records=Records(project=w.project, ledger=w.ledger, tables=w.tables), cores=cores)


# ── estimates ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_what_was_never_run_isnt_known_and_what_was_is(workshop: Workshop, plan: Plan) -> None:
    before = estimator_of(workshop).estimate(plan)
    assert (before.seconds, before.unknown) == (None, ("mart.a",))
    apply(opened(workshop, plan), context_of(workshop, Told(workshop)), until=Until.STAGED)
    (first, *_) = workshop.ledger.events(plan.id, kind=WaveStaged)
    assert first.body["bytes"] > 0
    assert first.body["tasks"]["count"] == 2
    workshop.settings("cost: {core_hour: 0.12, currency: USD}")
    later = workshop.plan("mart.a", start="2026-01-03", end="2026-01-09", wave=1, force=True)
    made = estimator_of(workshop).estimate(later)
    assert made.seconds is not None
    assert (made.waves, made.runs, made.cores, made.price) == (3, 0, 2, Price(core_hour=0.12, currency="USD"))
    assert "weren't published" in made.basis
    short = estimator_of(workshop).estimate(workshop.plan("mart.a", start="2026-01-03", end="2026-01-03", force=True))
    assert short.seconds is not None
    assert short.seconds.high < made.seconds.high
    # Where settings don't tell how many cores there are, the last run does.
    assert estimator_of(workshop, cores=None).estimate(later).cores == 2


def test_a_plan_keeps_its_estimate_budget_and_planning_time_in_its_file(workshop: Workshop, plan: Plan) -> None:
    apply(opened(workshop, plan), context_of(workshop, Told(workshop)), until=Until.STAGED)
    again = workshop.plan("mart.a", start="2026-01-03", wave=1, force=True)
    made = replace(again, estimate=estimator_of(workshop).estimate(again), budget=Budget(cost=5.0), planned_in=0.4)
    assert from_document(to_document(made)) == made
    assert to_document(from_document(to_document(made))) == to_document(made)
    older = {k: v for k, v in to_document(again).items() if k not in ("budget", "planned_in")}
    assert from_document(older) == again


def test_slices_are_tried_apart_from_one_another_and_nothing_is_staged(workshop: Workshop, plan: Plan) -> None:
    tried: list[str] = []

    def trial(job: Job) -> Tried:
        tried.append(job.slices.text)
        return Tried(seconds=2.0, tasks=TASKS)

    main = workshop.lake.current("mart.a")
    canary = Canary(slices=2, trial=trial, watch=lambda _: None, now=NOW)
    wide = workshop.plan("mart.a", start="2026-01-01", end="2026-01-09", wave=1)
    made = estimator_of(workshop).tried(wide, canary, starting=6.0)
    assert tried == ["2026-01-03", "2026-01-03", "2026-01-07"], "the first once more: it was compiled before"
    assert (made.canary, made.waves, made.runs) == (2, 2, 0)
    assert made.seconds is not None
    assert made.seconds.low > 9 * 2.0 / 1.5
    assert workshop.lake.current("mart.a") == main
    assert workshop.ledger.runs() == []


def test_what_reads_a_table_that_the_plan_makes_first_cant_be_tried(tmp_path: Path) -> None:
    workshop = Workshop(tmp_path).shop()
    plan = workshop.plan("mart.a", "mart.b", start="2026-01-01", end="2026-01-04")
    canary = Canary(slices=1, trial=lambda _: Tried(seconds=2.0, tasks=None), watch=lambda _: None, now=NOW)
    made = estimator_of(workshop).tried(plan, canary, starting=None)
    assert (made.seconds, made.unknown, set(made.models)) == (None, ("mart.b",), {"mart.a"})


def test_slices_are_drawn_far_from_one_another_and_from_both_ends() -> None:
    held = days("2026-01-01..2026-01-10")
    assert spread_out(held, 1).text == "2026-01-06"
    assert spread_out(held, 2).text == "2026-01-03, 2026-01-08"
    assert spread_out(held, 12) == held


# ── budgets ───────────────────────────────────────────────────────────────────────────────────────────────────────


class Hours(Writing):
    """Every wave takes an hour, by the clock of the meter."""

    def metered(self, run: Run, given: Budget | None, *parts: Any) -> Meter:
        real = meter_of(run, given, *parts)
        return replace(real, before=0.0, clock=lambda: 3600.0 * len(self.staged), began=0.0)


def test_a_run_that_passes_its_budget_pauses_between_waves_and_keeps_what_is_staged(
    workshop: Workshop, plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    workshop.settings("cost: {core_hour: 1, currency: USD}")
    writing = Hours(workshop)
    monkeypatch.setattr(applying, "meter_of", writing.metered)
    run = opened(workshop, plan)
    with pytest.raises(Interrupted) as error:
        apply(run, context_of(workshop, writing), until=Until.STAGED, budget=Budget(cost=3.0))
    assert error.value.exit_code == 130
    assert error.value.message == (
        "paused (the budget of 3.00 USD is passed: 4.00 USD so far): 2 of 3 slices are staged, 1 aren't"
    )
    assert f"`retcon apply {run.id} --budget …` with a higher one goes on" in error.value.next
    assert [label for label, *_ in writing.staged] == ["2026-01-03", "2026-01-04"]
    (paused,) = workshop.ledger.events(run.id, kind=Paused)
    assert paused.body == {"why": "the budget of 3.00 USD is passed: 4.00 USD so far", "driven": True}
    (began,) = workshop.ledger.events(run.id, kind=ApplyBegan)
    assert began.body["budget"] == {"cost": 3.0}
    assert (began.body["starting"], began.body["cores"]) == (4.0, 2)
    # With the same budget it stops at once, with a higher one it goes on with what is missing.
    with pytest.raises(Interrupted, match="the budget"):
        apply(opened(workshop, plan), context_of(workshop, writing), until=Until.STAGED)
    assert len(writing.staged) == 2
    done = apply(opened(workshop, plan), context_of(workshop, writing), until=Until.STAGED, budget=Budget(cost=10.0))
    assert done.state is RunState.STAGED
    assert len(writing.staged) == 3


def test_what_is_staged_isnt_proven_where_the_budget_is_passed(
    workshop: Workshop, plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    writing = Hours(workshop)
    monkeypatch.setattr(applying, "meter_of", writing.metered)
    run = opened(workshop, plan)
    apply(run, context_of(workshop, writing), until=Until.STAGED)
    with pytest.raises(Interrupted, match="the budget of 30 min is passed: 3 h so far"):
        apply(opened(workshop, plan), context_of(workshop, writing), budget=Budget(seconds=1800.0))


def test_a_budget_holds_until_another_one_is_given(workshop: Workshop, plan: Plan) -> None:
    limited = replace(plan, budget=Budget(seconds=60.0))
    assert budget_of(None, limited, None, workshop.ledger) == Budget(seconds=60.0)
    run = opened(workshop, limited)
    assert budget_of(run, limited, None, workshop.ledger) == Budget(seconds=60.0)
    apply(run, context_of(workshop, Writing(workshop)), until=Until.STAGED, budget=Budget(seconds=3600.0))
    assert budget_of(run, limited, None, workshop.ledger) == Budget(seconds=3600.0)
    assert budget_of(run, limited, Budget(seconds=1.0), workshop.ledger) == Budget(seconds=1.0)


def test_what_was_spent_on_other_machines_counts_as_it_was() -> None:
    turns = tuple(
        Turn(at="2026-01-22T12:00:00Z", cores=cores, max_active=2, seconds={Step.STAGING: 3600.0}) for cores in (4, 16)
    )
    taken = Timing(planning=None, turns=turns, waves=())
    assert _taken(taken, Budget(cost=5.0), 10) == 2 * 3600
    assert _taken(taken, Budget(cost=5.0), 40) == 1800
    assert _taken(taken, Budget(seconds=5.0), 40) == 7200, "an hour is an hour"


def test_a_run_that_has_taken_its_budget_is_refused_before_spark_is_started(workshop: Workshop, plan: Plan) -> None:
    run = opened(workshop, plan)
    apply(run, context_of(workshop, Writing(workshop)), until=Until.STAGED)
    settings = workshop.workspace.project.settings
    with pytest.raises(Refused, match=r"has taken 4\.0 s of its budget of 2\.0 s") as error:
        require_budget(run, plan, Budget(seconds=2.0), workshop.ledger, settings, 2)
    assert "--budget" in error.value.next
    require_budget(run, plan, Budget(seconds=200.0), workshop.ledger, settings, 2)
    require_budget(run, plan, None, workshop.ledger, settings, 2)
