"""Runs whose slices others write to meanwhile; real commits, pointers and ledger, only Spark is stood in for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import LongType

from retcon.core.certificates import Apart, Compared
from retcon.core.jobs import Job, MeasureRequest, PublishRequest, Scanned, WaveTarget
from retcon.core.measures import SliceMeasure, TableMeasures
from retcon.core.plans import Plan
from retcon.core.pointers import PointerSwap
from retcon.core.runs import Run, RunState
from retcon.core.tables import Column
from retcon.errors import Conflict, Fault, GatesFailed, Refused
from retcon.flow.apply import Override, Until, apply, open_run
from retcon.flow.context import Context
from retcon.processes import is_gone, this_process
from tests.flow.test_publish import Swaps
from tests.flow.workshops import Workshop
from tests.ledger.examples import a_plan, published_run
from tests.shops import Meddling


class Spark:
    """Stands in for Spark and Iceberg's library: a slice is a row on the branch."""

    def __init__(self, workshop: Workshop) -> None:
        self._workshop = workshop
        self._swaps = Swaps(workshop)
        self.staged: list[tuple[str, str]] = []
        self.reads: list[Mapping[str, int | None]] = []
        self.carried: list[tuple[str, str]] = []
        self.measured: list[int | None] = []
        self.dies: dict[str, str] = {}
        """By step: `before` or `after` it is done."""
        self.meanwhile: Callable[[], object] = lambda: None
        """What others do before each publish is prepared."""

    def output(self, job: Job) -> tuple[Column, ...]:  # noqa: ARG002 - all models yield the same
        return (Column(name="d", type="date"), Column(name="n", type="bigint"))

    def open_branch(self, table: str, branch: str, snapshot_id: int | None) -> None:
        assert snapshot_id is not None
        self._workshop.lake.table(table).manage_snapshots().create_branch(snapshot_id, branch).commit()

    def stage(self, job: Job, target: WaveTarget) -> Mapping[str, Scanned]:
        self._die("stage", "before")
        marks = {"retcon__run": target.run, "retcon__wave": str(target.wave), "retcon__slices": job.slices.text}
        self._workshop.lake.append(target.table, *(s.label for s in job.slices), branch=target.branch, **marks)
        self.staged.append((target.table, job.slices.text))
        self.reads.append({read.table: read.snapshot_id for read in job.reads.values()})
        self._die("stage", "after")
        return {}

    def tasks(self, name: str) -> None:
        """Spark tells nothing of its tasks."""

    def carry_over(self, request: PublishRequest) -> None:
        self._die("carry_over", "before")
        table, base, rebase = request.table.written, request.table.base_snapshot, request.table.rebase
        assert base is not None
        assert rebase is not None
        assert self._workshop.lake.metadata.head(table, request.branch) == rebase.head
        manage = self._workshop.lake.table(table).manage_snapshots()
        manage.remove_branch(request.branch).create_branch(base, request.branch).commit()
        marks = {"retcon__run": request.run, "retcon__round": str(rebase.round)}
        self._workshop.lake.append(table, *(s.label for s in request.slices), branch=request.branch, **marks)
        self.carried.append((table, request.slices.text))
        self._die("carry_over", "after")

    def measure(self, request: MeasureRequest) -> tuple[TableMeasures, TableMeasures]:
        self.measured.append(request.production)
        measured = {slice: SliceMeasure(rows=1, checksum=f"sum of {slice.label}") for slice in request.slices}
        return TableMeasures(slices=measured), TableMeasures(slices=measured)

    def differs_alone(self, *_: object) -> str:
        return ""

    def prepare_publish(self, request: PublishRequest) -> PointerSwap:
        self.meanwhile()
        return self._swaps.prepare_publish(request)

    def _die(self, step: str, when: str) -> None:
        if self.dies.get(step) == when:
            del self.dies[step]
            raise Fault("killed")


@pytest.fixture
def workshop(tmp_path: Path) -> Workshop:
    workshop = Workshop(tmp_path).shop()
    workshop.publish_by_hand("mart.a", "2026-01-01..2026-01-20")
    workshop.publish_by_hand("mart.b", "2026-01-01..2026-01-20")
    return workshop


def go(workshop: Workshop, plan: Plan, spark: Spark, **how: Any) -> Run:
    w = workshop.workspace
    parts: dict[str, Any] = {"warehouse": spark, "driver": this_process("ada"), "is_gone": is_gone, "max_active": 1}
    # The snapshot that stands in for a publish lists the files from before.
    tables = Meddling(w.tables, "compared", lambda *_: Compared(before=None, base=Apart(), proven=Apart()))
    context = Context(
        project=w.project, ledger=w.ledger, tables=tables, clock=w.clock, who="ada", watch=lambda _: None, **parts
    )
    return apply(open_run(plan, w.project, w.ledger, w.tables, w.clock, w.who), context, **how)


def proven(workshop: Workshop, spark: Spark, *select: str) -> Plan:
    """Six days of these models, else of both, in waves of three, that only wait for their publish."""
    models = select or ("mart.a", "mart.b")
    plan = workshop.plan(*models, start="2026-01-03", end="2026-01-08", wave=3, downstream=False)
    go(workshop, plan, spark, until=Until.PROVEN)
    spark.staged.clear()
    spark.reads.clear()
    spark.measured.clear()
    return plan


def rebases(workshop: Workshop, plan: Plan) -> list[Mapping[str, Any]]:
    return [event.body for event in workshop.ledger.events(plan.id) if event.kind == "Rebased"]


def test_only_the_slice_that_others_added_to_is_staged_anew_with_what_reads_it(workshop: Workshop) -> None:
    spark = Spark(workshop)
    plan = proven(workshop, spark)
    workshop.lake.append("raw.s", "2026-01-07", "2026-01-15")
    landed = workshop.lake.append("mart.a", "2026-01-04", "2026-01-12")
    elsewhere = workshop.lake.append("mart.a", "2026-01-13")
    now = workshop.lake.current("raw.s")

    run = go(workshop, plan, spark)

    assert run.state is RunState.PUBLISHED
    # The seventh is staged anew because its source changed meanwhile: one set of pins is true for the whole run.
    assert spark.staged == [
        ("mart.a", "2026-01-04"), ("mart.a", "2026-01-07"), ("mart.b", "2026-01-04"), ("mart.b", "2026-01-07"),
    ]  # fmt: skip
    kept = "2026-01-03, 2026-01-05..2026-01-06, 2026-01-08"
    assert spark.carried == [("mart.a", kept), ("mart.b", kept)]
    assert [read["raw.s"] for read in spark.reads[:2]] == [now, now]
    assert run.pins == {"raw.s": now}
    assert {c.snapshot_id for c in workshop.ledger.consumption(run.id) if c.table == "raw.s"} == {now}
    assert elsewhere in spark.measured, "production is measured as it is now"
    (rebased,) = rebases(workshop, plan)
    assert rebased["commits"] == {"mart.a": [f"snapshot {landed} (append)"]}
    assert rebased["slices"]["mart.b"] == ["2026-01-04", "2026-01-07"]
    assert rebased["replaced"] == {"mart.a": ["2026-01-04"]}, "its source didn't change there"
    (told,) = workshop.workspace.teller.show_run(run).rebases
    assert told.slices["mart.a"].text == "2026-01-04, 2026-01-07"


def test_whatever_came_by_the_moment_of_a_run_is_in_what_it_pins(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What came late by then counts as brought in."""
    plan = workshop.plan("mart.a", start="2026-01-03", end="2026-01-08", downstream=False)
    committed: dict[str, int] = {}

    def looked_at() -> datetime:
        workshop.now += timedelta(minutes=1)
        committed[workshop.now.isoformat()] = workshop.lake.append("raw.s", "2026-01-15")
        return workshop.now

    monkeypatch.setattr(workshop.workspace, "clock", looked_at)
    run = go(workshop, plan, Spark(workshop), until=Until.STAGED)
    order = list(committed.values())
    assert order.index(run.pins["raw.s"] or 0) >= order.index(committed[run.run_ts or ""])


def test_an_override_is_of_what_was_proven_then_and_not_of_what_is_proven_anew(workshop: Workshop) -> None:
    workshop.model("mart.a", keys="gates: [rows: {min: 2}]")
    spark = Spark(workshop)
    plan = workshop.plan("mart.a", start="2026-01-03", end="2026-01-08", downstream=False)
    answer = Override(gates=("mart.a:rows",), reason="few are right")
    go(workshop, plan, spark, until=Until.PROVEN, override=answer)
    workshop.lake.append("mart.a", "2026-01-04")
    with pytest.raises(GatesFailed):
        go(workshop, plan, spark, override=answer)
    assert len(rebases(workshop, plan)) == 1
    assert go(workshop, plan, spark, override=answer).state is RunState.PUBLISHED


def test_a_slice_that_is_only_read_inside_the_run_takes_its_readers_along(workshop: Workshop) -> None:
    workshop.model("mart.b", "mart.a: {time: d, lookback: 2}", "SELECT d, n FROM mart.a")
    spark = Spark(workshop)
    plan = proven(workshop, spark)
    late = workshop.lake.append("mart.a", "2026-01-02")
    with pytest.raises(Conflict, match=r"mart\.a: 2026-01-02 changed by others"):
        go(workshop, plan, spark, rebase=False)
    assert go(workshop, plan, spark).state is RunState.PUBLISHED
    assert spark.staged == [("mart.b", "2026-01-03..2026-01-04")]
    # What it reads of mart.a is the branch, which stands on what is there now.
    assert spark.carried == [("mart.a", "2026-01-03..2026-01-08"), ("mart.b", "2026-01-05..2026-01-08")]
    head = workshop.lake.metadata.head("mart.a", plan.branch)
    assert spark.reads == [{"mart.a": head}]
    assert workshop.lake.changed("mart.a", late, head) is not None
    assert rebases(workshop, plan)[0]["slices"] == {"mart.b": ["2026-01-03", "2026-01-04"]}


def test_of_a_running_total_every_later_slice_is_staged_anew_one_after_the_other(workshop: Workshop) -> None:
    workshop.publish_by_hand("mart.total", "2026-01-01..2026-01-08")
    workshop.model(
        "mart.total",
        "raw.s: {time: d}, mart.total: {time: d, lookback: 1}",
        "SELECT :start_date AS d, sum(n) AS n FROM (SELECT n FROM raw.s UNION ALL SELECT n FROM mart.total)",
        keys="replay: {order: sequential}\ncolumns: {d: date, n: bigint}",
    )
    spark = Spark(workshop)
    plan = proven(workshop, spark, "mart.total")
    workshop.lake.append("mart.total", "2026-01-06")
    assert go(workshop, plan, spark).state is RunState.PUBLISHED
    assert spark.staged == [("mart.total", f"2026-01-0{day}") for day in (6, 7, 8)]
    assert spark.carried == [("mart.total", "2026-01-03..2026-01-05")]
    own = [read["mart.total"] for read in spark.reads]
    assert len(set(own)) == 3, "each reads what the one before left"


def test_what_another_run_published_meanwhile_is_built_upon_and_named(workshop: Workshop) -> None:
    spark = Spark(workshop)
    plan = proven(workshop, spark, "mart.a")
    other = published_run(workshop.ledger, a_plan("20260122_other_x1y2"))
    workshop.lake.append("mart.a", "2026-01-05", retcon__run=other.plan.id)
    assert go(workshop, plan, spark).state is RunState.PUBLISHED
    (rebased,) = rebases(workshop, plan)
    assert "(append by run 20260122_other_x1y2)" in rebased["commits"]["mart.a"][0]
    assert rebased["replaced"] == {}


def test_somebody_who_never_stops_wins_after_three_rounds_and_the_next_apply_tries_again(workshop: Workshop) -> None:
    spark = Spark(workshop)
    plan = proven(workshop, spark, "mart.a")
    spark.meanwhile = lambda: workshop.lake.append("mart.a", "2026-01-05")
    with pytest.raises(Conflict, match=r"mart\.a: 2026-01-05 changed by others since this run began"):
        go(workshop, plan, spark)
    assert [body["round"] for body in rebases(workshop, plan)] == [1, 2, 3]
    assert spark.staged == [("mart.a", "2026-01-05")] * 3
    standing = workshop.ledger.run(plan.id)
    assert standing is not None
    assert standing.state is RunState.PROVEN
    spark.meanwhile = lambda: None
    assert go(workshop, plan, spark).state is RunState.PUBLISHED
    assert rebases(workshop, plan)[-1]["round"] == 4


@pytest.mark.parametrize("step", ["carry_over", "stage"])
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_crash_while_staging_anew_is_gone_on_from(workshop: Workshop, step: str, when: str) -> None:
    spark = Spark(workshop)
    plan = proven(workshop, spark)
    workshop.lake.append("mart.a", "2026-01-04")
    for _ in range(2):
        spark.dies[step] = when
        if step == "stage" and spark.staged:
            break  # what was committed before the crash isn't computed again
        with pytest.raises(Fault, match="killed"):
            go(workshop, plan, spark)
    spark.dies.clear()
    assert go(workshop, plan, spark).state is RunState.PUBLISHED
    assert sorted(spark.staged) == [("mart.a", "2026-01-04"), ("mart.b", "2026-01-04")]
    assert len(spark.carried) == 2
    assert len(rebases(workshop, plan)) == 1


# ── refused, or passed by ─────────────────────────────────────────────────────────────────────────────────────────


def append(workshop: Workshop, plan: Plan) -> None:
    workshop.lake.append("mart.a", "2026-01-04")


def delete_a_day(workshop: Workshop, plan: Plan) -> None:
    workshop.lake.table("mart.a").delete("d == '2026-01-05'")


def add_a_column(workshop: Workshop, plan: Plan) -> None:
    append(workshop, plan)
    with workshop.lake.table("mart.a").update_schema() as update:
        update.add_column("more", LongType())


def rename_a_column(workshop: Workshop, plan: Plan) -> None:
    with workshop.lake.table("mart.a").update_schema() as update:
        update.rename_column("n", "m")


def drop_a_column_and_add_it_again(workshop: Workshop, plan: Plan) -> None:
    with workshop.lake.table("mart.a").update_schema(allow_incompatible_changes=True) as update:
        update.delete_column("n")
    with workshop.lake.table("mart.a").update_schema() as update:
        update.add_column("n", LongType())


def partition_otherwise(workshop: Workshop, plan: Plan) -> None:
    append(workshop, plan)
    with workshop.lake.table("mart.a").update_spec() as update:
        update.add_field("n", IdentityTransform())


def make_it_again(workshop: Workshop, plan: Plan) -> None:
    workshop.lake.catalog.drop_table("mart.a")
    workshop.publish_by_hand("mart.a", "2026-01-01..2026-01-20")


def write_to_the_branch(workshop: Workshop, plan: Plan) -> None:
    append(workshop, plan)
    workshop.lake.append("mart.a", "2026-01-04", branch=plan.branch)


def drop_the_branch(workshop: Workshop, plan: Plan) -> None:
    append(workshop, plan)
    workshop.lake.table("mart.a").manage_snapshots().remove_branch(plan.branch).commit()


def expire(workshop: Workshop, plan: Plan) -> None:
    run = workshop.ledger.run(plan.id)
    base = run.tables["mart.a"].base_snapshot if run is not None else None
    assert base is not None
    workshop.lake.table("mart.a").maintenance.expire_snapshots().by_id(base).commit()


def append_and_expire(workshop: Workshop, plan: Plan) -> None:
    append(workshop, plan)
    expire(workshop, plan)


def append_elsewhere_and_expire(workshop: Workshop, plan: Plan) -> None:
    workshop.lake.append("mart.a", "2026-01-12")
    expire(workshop, plan)


def compact(workshop: Workshop, plan: Plan) -> None:
    append(workshop, plan)

    def say_replace(metadata: dict[str, Any]) -> None:
        metadata["snapshots"][-1]["summary"]["operation"] = "replace"

    workshop.lake.rewrite("mart.a", say_replace)


def publish_it_behind_the_ledgers_back(workshop: Workshop, plan: Plan) -> None:
    workshop.lake.append("mart.a", "2026-01-04", retcon__run=plan.id)


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (delete_a_day, r"mart\.a: rows of 2026-01-05 were deleted or overwritten by others since this run began"),
        (add_a_column, r"mart\.a changed since it was staged: its schema id was 0 and is 1"),
        (rename_a_column, r"mart\.a changed since it was staged: its schema id was 0 and is 1"),
        (drop_a_column_and_add_it_again, r"mart\.a changed since it was staged: its schema id was 0 and is 2"),
        (partition_otherwise, r"mart\.a changed since it was staged: its partition spec id was 0 and is 1"),
        (make_it_again, r"mart\.a changed since it was staged: its uuid \(dropped and made again\?\)"),
        (write_to_the_branch, r"branch retcon_.* of mart\.a points to snapshot"),
        (drop_the_branch, r"branch retcon_.* of mart\.a is gone"),
        (append_and_expire, r"mart\.a: the snapshots since this run began have expired, and the files of"),
        (
            publish_it_behind_the_ledgers_back,
            r"the tables know more than the ledger: run .* was published .*; the ledger has it as proven",
        ),
    ],
)
def test_what_cant_be_built_upon_is_refused_and_the_run_stays_proven(
    workshop: Workshop, act: Callable[[Workshop, Plan], None], message: str
) -> None:
    spark = Spark(workshop)
    plan = proven(workshop, spark, "mart.a")
    act(workshop, plan)
    before = workshop.lake.table("mart.a").metadata_location
    with pytest.raises(Refused, match=message) as refused:
        go(workshop, plan, spark)
    assert refused.value.next
    assert workshop.lake.table("mart.a").metadata_location == before
    assert (spark.staged, spark.carried) == ([], [])
    standing = workshop.ledger.run(plan.id)
    assert standing is not None
    assert standing.state is RunState.PROVEN


@pytest.mark.parametrize("act", [compact, append_elsewhere_and_expire])
def test_what_changed_no_row_that_is_used_is_passed_by(
    workshop: Workshop, act: Callable[[Workshop, Plan], None]
) -> None:
    spark = Spark(workshop)
    plan = proven(workshop, spark, "mart.a")
    act(workshop, plan)
    seen: list[int | None] = []
    prepare = spark.prepare_publish

    def watched(request: PublishRequest) -> PointerSwap:
        seen.append(request.since)
        return prepare(request)

    spark.prepare_publish = watched  # type: ignore[method-assign]
    head = workshop.lake.current("mart.a")
    assert go(workshop, plan, spark).state is RunState.PUBLISHED
    assert spark.staged == []
    assert seen == [head], "Iceberg would take what was looked at already for a conflict"
