"""The order in which waves are staged, and what each reads of its own table; real commits, without Spark."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from threading import Lock
from typing import Any

import pytest
from pyiceberg.transforms import IdentityTransform

from retcon.core.jobs import Job, Scanned, WaveTarget
from retcon.core.plans import Plan
from retcon.core.runs import Run, RunState, WaveState
from retcon.core.tables import Column
from retcon.errors import Fault, Refused
from retcon.flow.apply import Until, apply, open_run
from retcon.flow.context import Context
from retcon.processes import is_gone, this_process
from tests.flow.workshops import Workshop

TOTAL = "SELECT :start_date AS d, sum(n) AS n FROM (SELECT n FROM raw.s UNION ALL SELECT n FROM mart.total)"


class Writing:
    """Stands in for Spark: a wave is a commit of one row to the branch."""

    def __init__(self, workshop: Workshop, fail_at: str = "") -> None:
        self._workshop = workshop
        self._fail_at = fail_at
        self._busy = Lock()
        self.staged: list[tuple[str, int | None, int]] = []
        """Slice, what it read of its own table, and what it left."""

    def output(self, job: Job) -> tuple[Column, ...]:
        own = job.reads.get(job.model.name)
        assert own is None or own.snapshot_id is None, "nothing of it is read before its branch is open"
        return (Column(name="d", type="date"), Column(name="n", type="bigint"))

    def open_branch(self, table: str, branch: str, snapshot_id: int | None) -> None:
        assert snapshot_id is not None
        self._workshop.lake.table(table).manage_snapshots().create_branch(snapshot_id, branch).commit()

    def stage(self, job: Job, target: WaveTarget) -> Mapping[str, Scanned]:
        assert self._busy.acquire(blocking=False), "two waves at once"
        try:
            (slice,) = job.slices
            if slice.label == self._fail_at:
                raise Fault("the cluster is gone")
            marks = {
                "retcon__run": target.run,
                "retcon__wave": str(target.wave),
                "retcon__slices": job.slices.text,
            }
            left = self._workshop.lake.append(target.table, slice.label, branch=target.branch, **marks)
            own = job.reads.get(job.model.name)
            self.staged.append((slice.label, own.snapshot_id if own else None, left))
            return {}
        finally:
            self._busy.release()

    def tasks(self, name: str) -> None:
        """Spark tells nothing of its tasks."""


@pytest.fixture
def workshop(tmp_path: Path) -> Workshop:
    workshop = Workshop(tmp_path)
    workshop.lake.by_day("raw.s", "2026-01-01..2026-01-09")
    workshop.publish_by_hand("mart.total", "2026-01-01..2026-01-02")
    workshop.model(
        "mart.total",
        "raw.s: {time: d}, mart.total: {time: d, lookback: 1}",
        TOTAL,
        keys="replay: {order: sequential}\ncolumns: {d: date, n: bigint}",
    )
    return workshop


def staged(workshop: Workshop, plan: Plan, writing: Writing) -> Run:
    w = workshop.workspace
    parts: dict[str, Any] = {
        "warehouse": writing, "max_active": 4, "driver": this_process("ada"), "is_gone": is_gone,
    }  # fmt: skip
    context = Context(
        project=w.project, ledger=w.ledger, tables=w.tables, clock=w.clock, who="ada", watch=lambda _: None, **parts
    )
    return apply(open_run(plan, w.project, w.ledger, w.tables, w.clock, w.who), context, until=Until.STAGED)


def test_each_slice_reads_what_the_one_before_left_on_the_branch(workshop: Workshop) -> None:
    base = workshop.lake.current("mart.total")
    writing = Writing(workshop)
    run = staged(workshop, workshop.plan("mart.total", start="2026-01-03"), writing)
    assert run.state is RunState.STAGED
    assert [label for label, _, _ in writing.staged] == [f"2026-01-0{day}" for day in range(3, 10)]
    assert [read for _, read, _ in writing.staged] == [base, *(left for _, _, left in writing.staged[:-1])]


def test_a_failed_chain_is_resumed_at_the_slice_that_failed(workshop: Workshop) -> None:
    plan = workshop.plan("mart.total", start="2026-01-03")
    first = Writing(workshop, fail_at="2026-01-06")
    with pytest.raises(Fault, match="the cluster is gone"):
        staged(workshop, plan, first)
    waves = {wave.slices: wave.state for wave in workshop.ledger.waves(plan.id)}
    assert [label for label, state in waves.items() if state is WaveState.DONE] == [
        "2026-01-03", "2026-01-04", "2026-01-05",
    ]  # fmt: skip
    again = Writing(workshop)
    assert staged(workshop, plan, again).state is RunState.STAGED
    assert [label for label, _, _ in again.staged] == [f"2026-01-0{day}" for day in range(6, 10)]
    assert again.staged[0][1] == first.staged[-1][2]


def test_a_sequential_model_that_doesnt_read_itself_runs_one_wave_after_the_other(workshop: Workshop) -> None:
    workshop.model("mart.total", keys="replay: {order: sequential}")
    writing = Writing(workshop)
    plan = workshop.plan("mart.total", start="2026-01-03", wave=1)
    assert staged(workshop, plan, writing).state is RunState.STAGED
    assert [label for label, _, _ in writing.staged] == [f"2026-01-0{day}" for day in range(3, 10)]


def test_a_table_that_became_another_since_the_plan_is_left_alone(workshop: Workshop) -> None:
    workshop.model("mart.total", keys="replay: {order: sequential}")
    plan = workshop.plan("mart.total", start="2026-01-03")
    workshop.lake.catalog.drop_table("mart.total")
    workshop.lake.by_day("mart.total", "2026-01-01..2026-01-02", number="n")
    writing = Writing(workshop)
    with pytest.raises(Refused, match="retcon neither made nor published"):
        staged(workshop, plan, writing)
    assert not writing.staged


def test_a_table_that_was_partitioned_otherwise_since_the_plan_is_left_alone(workshop: Workshop) -> None:
    plan = workshop.plan("mart.total", start="2026-01-03")
    with workshop.lake.table("mart.total").update_spec() as spec:
        spec.add_field("n", IdentityTransform())
    writing = Writing(workshop)
    with pytest.raises(Refused, match=r"mart\.total: the table is partitioned by"):
        staged(workshop, plan, writing)
    assert not writing.staged


def test_a_branch_that_lost_a_wave_isnt_gone_on_with(workshop: Workshop) -> None:
    plan = workshop.plan("mart.total", start="2026-01-03")
    base = workshop.lake.current("mart.total")
    with pytest.raises(Fault):
        staged(workshop, plan, Writing(workshop, fail_at="2026-01-06"))
    table = workshop.lake.table("mart.total")
    table.manage_snapshots().remove_branch(plan.branch).commit()
    table.manage_snapshots().create_branch(base, plan.branch).commit()
    again = Writing(workshop)
    with pytest.raises(Refused, match="lacks wave 1, which was staged"):
        staged(workshop, plan, again)
    assert not again.staged
