"""From full refresh to incremental: real plans, commits and ledger, only Spark is stood in for."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from pathlib import Path

import pytest

from retcon.core.gates import Metric
from retcon.core.jobs import Job, MeasureRequest
from retcon.core.measures import FullRefresh, SliceMeasure, TableMeasures
from retcon.core.migrations import Comparison
from retcon.core.runs import Run, RunState
from retcon.core.slices import Slice
from retcon.errors import Conflict, GatesFailed, Refused
from retcon.flow.apply import open_run
from retcon.flow.cancel import cancel
from retcon.flow.context import Context
from retcon.flow.migrate import run_both
from retcon.flow.plan import Ask
from retcon.processes import is_gone, this_process
from retcon.wiring import new_suffix
from tests.flow.test_rebase import Spark
from tests.flow.workshops import Workshop


class BothWays(Spark):
    """Computes whole, too; some slices come out otherwise then."""

    def __init__(self, workshop: Workshop, *, rounded: str = "", other: str = "", rows: int = 1) -> None:
        super().__init__(workshop)
        self.rounded, self.other, self.rows = rounded, other, rows
        self.whole: list[Job] = []
        self.looked_at: list[str] = []

    def measure(self, request: MeasureRequest) -> tuple[TableMeasures, TableMeasures]:
        measured = {at: SliceMeasure(rows=self.rows, checksum=f"sum of {at.label}") for at in request.slices}
        return TableMeasures(slices=measured), TableMeasures()

    def full_refresh(self, job: Job, metrics: tuple[Metric, ...]) -> FullRefresh:  # noqa: ARG002 - there are none
        self.whole.append(job)
        apart = {self.rounded, self.other}
        sums = {at: ("another " if at.label in apart else "") + f"sum of {at.label}" for at in job.slices}
        return FullRefresh(
            slices={at: SliceMeasure(rows=1, checksum=text) for at, text in sums.items()}, rows=20, unsliced=0
        )

    def differing(self, job: Job, request: MeasureRequest) -> Mapping[Slice, int]:  # noqa: ARG002
        self.looked_at.append(request.slices.text)
        return {at: 5 for at in request.slices if at.label == self.other}


@pytest.fixture
def workshop(tmp_path: Path) -> Workshop:
    workshop = Workshop(tmp_path).shop()
    workshop.publish_by_hand("mart.a", "2026-01-01..2026-01-20")
    return workshop


def migrate(workshop: Workshop, spark: Spark, name: str = "mart.a", days: int = 3) -> tuple[Run, list[Comparison]]:
    """As the command does."""
    w = workshop.workspace
    model = w.project.graph.model(name)
    ask = Ask(select=(), reason="a test", command="retcon migrate", by="ada", now=workshop.now, suffix=new_suffix())
    slices = w.migrator.slices(model, days, ask.now)
    under_way = w.migrator.unfinished(model, slices)
    plan = w.migrator.plan(model, slices, ask) if under_way is None else under_way.plan
    context = Context(
        project=w.project, ledger=w.ledger, tables=w.tables, clock=w.clock, who="ada", watch=lambda _: None,
        warehouse=spark, driver=this_process("ada"), is_gone=is_gone, max_active=1,  # type: ignore[arg-type]
    )  # fmt: skip
    found: list[Comparison] = []
    run = open_run(plan, w.project, w.ledger, w.tables, w.clock, w.who)
    try:
        return run_both(run, context, model=model, tell=found.append), found
    except GatesFailed:
        return w.ledger.run(run.id) or run, found


def test_the_last_days_are_proven_and_compared_with_the_same_code_over_everything(workshop: Workshop) -> None:
    main = workshop.lake.current("mart.a")
    spark = BothWays(workshop, rounded="2026-01-19", other="2026-01-20")
    run, (comparison,) = migrate(workshop, spark)
    assert run.state is RunState.PROVEN
    assert workshop.lake.current("mart.a") == main
    assert comparison.covered.text == "2026-01-18..2026-01-20"
    (job,) = spark.whole
    read = job.reads["raw.s"]
    assert (read.slices, read.snapshot_id) == (None, workshop.lake.current("raw.s"))
    assert (job.parameters["start_date"], job.parameters["end_date"]) == (date(2026, 1, 1), date(2026, 1, 20))
    # Of those with another checksum the rows decide.
    assert spark.looked_at == ["2026-01-19..2026-01-20"]
    assert comparison.differing.text == "2026-01-20"
    assert comparison.slices[-1].apart == 5
    assert comparison.reasons


def test_where_all_is_the_same_no_row_is_looked_at_again_and_the_run_is_gone_on_with(workshop: Workshop) -> None:
    spark = BothWays(workshop)
    run, (comparison,) = migrate(workshop, spark)
    assert (comparison.is_same, comparison.reasons, spark.looked_at) == (True, (), [])
    again, (once_more,) = migrate(workshop, spark)
    assert (again.id, once_more.is_same) == (run.id, True)
    with pytest.raises(Conflict, match=run.id):
        migrate(workshop, spark, days=5)
    w = workshop.workspace
    cancel(run, "a test", w.ledger, w.tables, clock=w.clock, who="ada")
    assert migrate(workshop, spark, days=5)[1][0].covered.text == "2026-01-16..2026-01-20"


def test_a_gate_that_fails_is_told_with_the_comparison(workshop: Workshop) -> None:
    workshop.model("mart.a", keys="gates: [{rows: {min: 2}}]")
    run, (comparison,) = migrate(workshop, BothWays(workshop, other="2026-01-19"))
    assert run.state is RunState.FAILED
    assert comparison.differing.text == "2026-01-19"


def test_readers_are_restated_with_it_and_not_compared(workshop: Workshop) -> None:
    workshop.publish_by_hand("mart.b", "2026-01-01..2026-01-20")
    run, (comparison,) = migrate(workshop, BothWays(workshop))
    assert [planned.name for planned in run.plan.models] == ["mart.a", "mart.b"]
    assert (comparison.model, comparison.cost.waves, comparison.readers) == ("mart.a", 1, ("mart.b",))


def test_inputs_that_hold_nothing_holes_and_limits_are_refused_before_anything_is_staged(workshop: Workshop) -> None:
    workshop.lake.by_day("raw.today", "2026-01-22")
    workshop.model("mart.today", "raw.today: {time: d}")
    with pytest.raises(Refused, match="no slice that is over"):
        migrate(workshop, BothWays(workshop), "mart.today")
    workshop.lake.by_day("raw.holes", "2026-01-01..2026-01-10, 2026-01-12..2026-01-20")
    workshop.model("mart.holes", "raw.holes: {time: d}")
    with pytest.raises(Refused, match="no data for 2026-01-11") as refused:
        migrate(workshop, BothWays(workshop), "mart.holes", days=15)
    assert "fewer --days" in refused.value.next
    workshop.settings("limits: {bytes: 1}")
    with pytest.raises(Refused, match=r"computing mart\.a whole reads"):
        migrate(workshop, BothWays(workshop))
