"""Which verdicts stand by the certificate, and which are passed again; Spark's part is stood in for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from retcon.core.certificates import TableCertificate
from retcon.core.events import CheckedAfter, GateOverridden, ProvingBegan, PublishBegan, StagingDone
from retcon.core.gates import Unique
from retcon.core.jobs import MeasureRequest
from retcon.core.measures import SliceMeasure, TableMeasures
from retcon.core.reads import Read
from retcon.core.runs import Run
from retcon.core.slices import Slice
from retcon.core.table_gates import Counted, ForeignKey
from retcon.flow.check_production import check_production
from retcon.flow.context import Context
from retcon.processes import is_gone, this_process
from tests.flow.workshops import Workshop
from tests.ledger.examples import Driver, all_staged, certificate, judged, published, tables_opened, verdict

GATES = "gates: [rows: {min: 1}, unique: [n], not_null: [n]]\nkey: [d]"
DECLARED = ("rows", "unique", "not_null")
ALWAYS = ("schema", "outside_scope", "empty", "parity")


class Spark:
    """Counts what it is asked for; some keys are there twice, if so wished."""

    def __init__(self, *, twice: int = 0) -> None:
        self._twice = twice
        self.asked: list[str] = []

    def measure(self, request: MeasureRequest) -> tuple[TableMeasures, TableMeasures]:
        self.asked.append("measure")
        rows = {slice: SliceMeasure(rows=5, checksum="x", nulls={"n": 0}) for slice in request.slices}
        return TableMeasures(slices=rows), TableMeasures()

    def duplicates(self, request: MeasureRequest, gate: Unique, _: int) -> dict[Slice, int]:
        self.asked.append(f"duplicates {gate.name} at {request.staged}")
        return {next(iter(request.slices)): self._twice} if self._twice else {}

    def orphans(self, request: MeasureRequest, _: ForeignKey, to: Read) -> Counted:
        self.asked.append(f"orphans of {to.table} at {to.snapshot_id}")
        return Counted(rows={next(iter(request.slices)): 1})


@pytest.fixture
def workshop(tmp_path: Path) -> Workshop:
    workshop = Workshop(tmp_path).shop()
    workshop.model("mart.a", keys=GATES)
    workshop.publish_by_hand("mart.a", "2026-01-01..2026-01-20")
    return workshop


def a_run(
    workshop: Workshop,
    *,
    failed: str = "",
    declared: tuple[str, ...] = DECLARED,
    pins: Mapping[str, int | None] | None = None,
) -> Run:
    """Published; a failed gate was answered for."""
    plan = workshop.plan("mart.a", start="2026-01-03", end="2026-01-05", downstream=False)
    kinds = (*declared, *ALWAYS)
    verdicts = [verdict(kind, model="mart.a", kind=kind, failed=kind == failed) for kind in kinds]
    driver = Driver(workshop.ledger, plan, at=workshop.now)
    opened = replace(tables_opened(plan), pins=pins or {})
    driver.tell(opened, *all_staged(plan), StagingDone(), ProvingBegan(), judged(plan, *verdicts))
    if failed:
        driver.tell(GateOverridden(model="mart.a", gate=failed, reason="known"))
    driver.tell(PublishBegan(locations={}))
    return driver.publish(event=published(plan))


def check(workshop: Workshop, run: Run, spark: Spark, **told: Any) -> CheckedAfter:
    w = workshop.workspace
    parts: dict[str, Any] = {"warehouse": spark, "driver": this_process("ada"), "is_gone": is_gone}
    context = Context(
        project=w.project, ledger=w.ledger, tables=w.tables, clock=w.clock, who="ada", watch=lambda _: None, **parts
    )
    made: TableCertificate = certificate("mart.a", **told)
    return check_production(run, (made,), context)


def test_all_verdicts_stand_where_the_whole_table_is_as_proven(workshop: Workshop) -> None:
    spark = Spark()
    found = check(workshop, a_run(workshop), spark)
    assert found == CheckedAfter(verdicts=(), held={"mart.a": (*DECLARED, *ALWAYS)})
    assert spark.asked == []


def test_what_looks_beyond_the_slices_is_passed_again_where_the_rest_is_another(workshop: Workshop) -> None:
    run, spark = a_run(workshop), Spark(twice=2)
    found = check(workshop, run, spark, is_proven_whole=False)
    assert spark.asked == ["duplicates unique at 301"]
    assert [(each.gate, each.passed) for each in found.verdicts] == [("unique", False)]
    assert "unique" not in found.held["mart.a"]
    assert check(workshop, run, Spark(), is_proven_whole=False).verdicts[0].passed


def test_what_was_answered_for_is_told_and_not_held_against_the_publish(workshop: Workshop) -> None:
    found = check(workshop, a_run(workshop, failed="unique"), Spark(twice=2), is_proven_whole=False)
    (again,) = found.verdicts
    assert again.passed
    assert again.is_warning
    assert again.summary.endswith("(answered for: known)")


def test_nothing_about_rows_stands_where_others_than_the_proven_files_are_published(workshop: Workshop) -> None:
    spark = Spark()
    found = check(workshop, a_run(workshop), spark, is_proven_inside=False, is_proven_whole=False)
    assert {each.gate for each in found.verdicts} == set(DECLARED)
    assert "measure" in spark.asked
    assert list(found.unjudged) == ["mart.a:empty"]
    assert found.held["mart.a"] == ("schema", "outside_scope", "parity")


def test_of_what_cannot_be_read_any_more_it_is_said_why(workshop: Workshop) -> None:
    run, spark = a_run(workshop), Spark()
    gone: dict[str, Any] = {"is_proven_inside": False, "is_proven_whole": False, "is_there": False}
    found = check(workshop, run, spark, unknown=("it has expired",), **gone)
    assert (spark.asked, found.verdicts) == ([], ())
    assert found.unjudged == dict.fromkeys((f"mart.a:{gate}" for gate in (*DECLARED, "empty")), "it has expired")


def test_of_a_gate_that_is_gone_nobody_knows_how_far_it_looked(workshop: Workshop) -> None:
    run, spark = a_run(workshop), Spark()
    workshop.model("mart.a", keys="key: [d]")
    found = check(workshop, run, spark, is_proven_whole=False)
    assert list(found.unjudged) == [f"mart.a:{gate}" for gate in DECLARED]
    assert spark.asked == []
    assert check(workshop, run, spark).unjudged == {}


def test_what_looks_at_another_table_stands_where_that_was_pinned_and_is_passed_again_where_it_wasnt(
    workshop: Workshop,
) -> None:
    workshop.model("mart.a", keys="gates: [foreign_key: {cols: [n], to: raw.s, on: [x]}]\nkey: [d]")
    snapshot = workshop.lake.current("raw.s")
    pinned, spark = a_run(workshop, declared=("foreign_key",), pins={"raw.s": snapshot}), Spark()
    workshop.lake.append("raw.s", "2026-01-04")  # whatever was written since
    assert "foreign_key" in check(workshop, pinned, spark).held["mart.a"]
    assert spark.asked == []
    # With other files inside, it is passed again beside what was pinned.
    check(workshop, pinned, spark, is_proven_inside=False, is_proven_whole=False)
    assert spark.asked[-1] == f"orphans of raw.s at {snapshot}"


def test_what_looks_at_a_table_as_it_is_is_passed_again_as_it_is_now(workshop: Workshop) -> None:
    workshop.model("mart.a", keys="gates: [foreign_key: {cols: [n], to: raw.s, on: [x]}]\nkey: [d]")
    run, spark = a_run(workshop, declared=("foreign_key",)), Spark()
    now = workshop.lake.append("raw.s", "2026-01-04")
    (again,) = check(workshop, run, spark).verdicts
    assert spark.asked == [f"orphans of raw.s at {now}"], "no rows are measured for it"
    assert (again.gate, again.passed) == ("foreign_key", False)
    workshop.model("mart.a", keys="key: [d]")
    assert list(check(workshop, run, spark).unjudged) == ["mart.a:foreign_key"]
