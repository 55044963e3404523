"""What a change comes from: real plans, commits and ledger, only Spark is stood in for."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path

import pytest

from retcon.core.attributions import ROWS, AttributedSlice, Attribution
from retcon.core.gates import Metric
from retcon.core.jobs import Job, MeasureRequest
from retcon.core.measures import SliceMeasure, TableMeasures
from retcon.core.models import Model
from retcon.core.plans import Plan
from retcon.core.slices import Slice
from retcon.errors import Refused
from retcon.flow.apply import Until
from retcon.flow.attribute import Attributor
from retcon.flow.cancel import cancel
from retcon.flow.compare_rows import compared_models, made_by, sides_of
from retcon.flow.context import Context
from retcon.flow.records import Records
from retcon.processes import is_gone, this_process
from tests.flow.test_rebase import Spark, go
from tests.flow.workshops import Workshop

OLD, NEW = "SELECT d, count(*) AS n FROM raw.s GROUP BY d", "SELECT d, count(*) + 1 AS n FROM raw.s GROUP BY d"
DAY = "2026-01-04"
N = "sum(n)"
GATES = f"gates: [{{drift: {{metric: {N}, within: 90%}}}}]"


class Trying(Spark):
    """A sum of a hundred; ten more by new code, one more of new inputs, and some less by chance."""

    def __init__(self, workshop: Workshop) -> None:
        super().__init__(workshop)
        self.since = self.held()
        self.by_chance = 0
        self.by_others = 0
        self.gone: set[int | None] = set()
        self.outcomes: list[tuple[str, int | None]] = []

    def held(self, snapshot: int | None = None) -> int | None:
        """What the source holds, now or at a snapshot."""
        return snapshot or self._workshop.lake.current("raw.s")

    def measure(self, request: MeasureRequest) -> tuple[TableMeasures, TableMeasures]:
        is_new = self.held() != self.since
        return measures(request, 100 + 10 * ("+ 1" in request.model.query.text) + is_new), measures(
            request, 100 + self.by_others
        )

    def outcome(self, job: Job, metrics: tuple[Metric, ...]) -> Mapping[Slice, SliceMeasure]:  # noqa: ARG002
        (part,) = job.parts
        snapshot = part.reads["raw.s"].snapshot_id
        if snapshot in self.gone:
            raise Refused(f"snapshot {snapshot} of raw.s is gone")
        is_new = "+ 1" in job.model.query.text
        self.outcomes.append(("new" if is_new else "old", snapshot))
        number = 100 + 10 * is_new + (self.held(snapshot) != self.since) - self.by_chance
        return {at: measure_of(at, number) for at in job.slices}

    def differing(self, job: Job, request: MeasureRequest) -> Mapping[Slice, int]:  # noqa: ARG002
        return dict.fromkeys(job.slices, 7)


class TryingFiles(Trying):
    """The same of files: however they are asked for, they are read as they are."""

    def held(self, snapshot: int | None = None) -> int | None:  # noqa: ARG002 - they have none
        return sum(1 for path in (self._workshop.root / "data").rglob("*.csv"))


def measures(request: MeasureRequest, number: int) -> TableMeasures:
    slices = {at: measure_of(at, number) for at in request.slices}
    return TableMeasures(slices=slices, totals={N: Decimal(number) * len(slices)})


def measure_of(slice: Slice, number: int) -> SliceMeasure:
    return SliceMeasure(rows=1, checksum=f"{number} of {slice.label}", metrics={N: Decimal(number)})


@pytest.fixture
def workshop(tmp_path: Path) -> Workshop:
    workshop = Workshop(tmp_path)
    workshop.lake.by_day("raw.s", "2026-01-01..2026-01-20")
    workshop.publish_by_hand("mart.a", "2026-01-01..2026-01-20")
    workshop.model("mart.a", sql=OLD, keys=GATES)
    return workshop


def planned(workshop: Workshop) -> Plan:
    return workshop.plan("mart.a", start=DAY, end="2026-01-08", downstream=False)


def tried(workshop: Workshop, plan: Plan, spark: Trying, slices: int = 1, **parts: object) -> Attribution:
    w = workshop.workspace
    context = Context(
        project=w.project, ledger=w.ledger, tables=w.tables, clock=w.clock, who="ada", watch=lambda _: None,
        warehouse=spark, driver=this_process("ada"), is_gone=is_gone,  # type: ignore[arg-type]
    )  # fmt: skip
    run = w.ledger.run(plan.id)
    assert run is not None
    attributor = Attributor(run=run, context=context, slices=slices, **{"reread": w.reread, **parts})
    return attributor.attribute(run.plan.models[0])


def moved(slice: AttributedSlice) -> tuple[Decimal | None, ...]:
    parts = slice.parts[N]
    return parts.change, parts.code, parts.inputs, parts.chance, parts.rest


def with_files(workshop: Workshop, settings: str) -> Trying:
    """The model reads files instead."""
    workshop.settings(settings)
    workshop.model("mart.a", sql=OLD, keys=GATES)
    for day in range(1, 21):
        put(workshop, day, "part")
    return TryingFiles(workshop)


def put(workshop: Workshop, day: int, name: str) -> None:
    file = workshop.root / "data" / f"d=2026-01-{day:02}" / f"{name}.csv"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("v\n1\n")


def restated(
    workshop: Workshop, *, code: bool = True, inputs: bool = True, by_others: int = 0
) -> tuple[Plan, Trying, str]:
    """A publish, and then a proven run by other code, on other inputs, or both; and the run before."""
    spark = Trying(workshop)
    first = planned(workshop)
    go(workshop, first, spark)
    spark.by_others = by_others
    if code:
        workshop.model("mart.a", sql=NEW, keys=GATES)
    if inputs:
        workshop.lake.append("raw.s", *(f"2026-01-{day:02}" for day in range(1, 21)))
    plan = planned(workshop)
    go(workshop, plan, spark, until=Until.PROVEN)
    return plan, spark, first.id


def test_code_and_inputs_are_told_apart_before_the_publish_and_after_it(workshop: Workshop) -> None:
    plan, spark, first = restated(workshop)
    found = tried(workshop, plan, spark, slices=2)
    assert (found.moved, len(found.slices)) == (5, 2)
    for slice in found.slices:
        assert moved(slice) == (11, 10, 1, 0, 0)
        assert (slice.before, slice.unlike, slice.notes) == (first, 0, ())
    assert (found.totals[N].change, found.totals[ROWS].change) == (22, 0)
    now = workshop.lake.current("raw.s")
    assert spark.outcomes[:3] == [("new", now), ("old", now), ("new", spark.since)]
    go(workshop, plan, spark)
    assert tried(workshop, plan, spark, slices=2) == found


def test_what_is_as_it_was_isnt_tried(workshop: Workshop) -> None:
    plan, spark, _ = restated(workshop, inputs=False)
    (slice,) = tried(workshop, plan, spark).slices
    assert moved(slice) == (10, 10, 0, 0, 0)
    assert slice.notes == ("its inputs are as they were",)
    assert len(spark.outcomes) == 2
    workshop.model("mart.a", sql=OLD, keys=GATES)
    assert moved(tried(workshop, plan, spark).slices[0]) == (10, 10, 0, 0, 0), "by the code of the run, not of today"


def test_inputs_alone(workshop: Workshop) -> None:
    plan, spark, _ = restated(workshop, code=False)
    (slice,) = tried(workshop, plan, spark).slices
    assert moved(slice) == (1, 0, 1, 0, 0)
    assert slice.notes == ("code and settings are as they were",)


@pytest.mark.parametrize(("code", "inputs"), [(True, True), (True, False), (False, True), (False, False)])
def test_what_others_wrote_since_the_run_before_is_in_the_rest(workshop: Workshop, code: bool, inputs: bool) -> None:
    plan, spark, _ = restated(workshop, code=code, inputs=inputs, by_others=7)
    (slice,) = tried(workshop, plan, spark).slices
    by_code, by_inputs = 10 * code, 1 * inputs
    assert moved(slice) == (by_code + by_inputs - 7, by_code, by_inputs, 0, -7)


def test_what_comes_out_otherwise_each_time_is_chance(workshop: Workshop) -> None:
    plan, spark, _ = restated(workshop, inputs=False)
    spark.by_chance = 2
    (slice,) = tried(workshop, plan, spark).slices
    assert (slice.parts[N].chance, slice.unlike) == (2, 7)


def test_what_cant_be_tried_is_named_and_the_rest_is_told(workshop: Workshop) -> None:
    plan, spark, first = restated(workshop)
    spark.gone = {spark.since}
    (slice,) = tried(workshop, plan, spark).slices
    assert moved(slice) == (11, 10, 1, 0, 0)
    assert slice.notes == (f"new code on old inputs: snapshot {spark.since} of raw.s is gone",)

    def reread(model: Model, text: str) -> Model:
        raise Refused("it reads raw.gone")

    (slice,) = tried(workshop, plan, spark, reread=reread).slices
    assert moved(slice) == (11, None, None, 0, None)
    assert slice.notes[0] == (
        f"old code on new inputs: the code of run {first} doesn't fit the model's file any more: it reads raw.gone"
    )


def test_of_a_slice_that_retcon_never_published_only_chance_is_told(workshop: Workshop) -> None:
    spark = Trying(workshop)
    workshop.model("mart.a", sql=NEW, keys=GATES)
    plan = planned(workshop)
    go(workshop, plan, spark, until=Until.PROVEN)
    (slice,) = tried(workshop, plan, spark).slices
    assert (slice.before, moved(slice)) == (None, (10, None, None, 0, None))
    assert all("retcon hasn't published it before" in note for note in slice.notes)


FILES = "sources: {raw.s: {format: csv, path: data, columns: {d: date, v: int}}}"
UNSEEN = "sources: {raw.s: {format: jdbc, options: {url: 'jdbc:x', dbtable: t}}}"
NO_PAST = "new code on old inputs: raw.s isn't an Iceberg table: what it held before can't be read"


@pytest.mark.parametrize("settings", [FILES, UNSEEN])
def test_what_a_source_that_isnt_iceberg_held_before_isnt_taken_for_what_it_holds(
    tmp_path: Path, settings: str
) -> None:
    workshop = Workshop(tmp_path)
    workshop.publish_by_hand("mart.a", "2026-01-01..2026-01-20")
    spark = with_files(workshop, settings)
    first = planned(workshop)
    go(workshop, first, spark)
    workshop.model("mart.a", sql=NEW, keys=GATES)
    for day in range(1, 21):
        put(workshop, day, "more")
    plan = planned(workshop)
    go(workshop, plan, spark, until=Until.PROVEN)
    for _ in range(2):
        (slice,) = tried(workshop, plan, spark).slices
        assert (slice.before, slice.notes) == (first.id, (NO_PAST,))
        assert moved(slice) == (11, 10, 1, 0, 0), "what old code on new inputs leaves is put down to code"
        go(workshop, plan, spark)


def test_files_that_are_as_they_were_are_told_by_the_record(tmp_path: Path) -> None:
    workshop = Workshop(tmp_path)
    workshop.publish_by_hand("mart.a", "2026-01-01..2026-01-20")
    spark = with_files(workshop, FILES)
    go(workshop, planned(workshop), spark)
    workshop.model("mart.a", sql=NEW, keys=GATES)
    plan = planned(workshop)
    go(workshop, plan, spark, until=Until.PROVEN)
    assert tried(workshop, plan, spark).slices[0].notes == (NO_PAST,), "what it consumed isn't on record before"
    go(workshop, plan, spark)
    (slice,) = tried(workshop, plan, spark).slices
    assert (moved(slice), slice.notes) == ((10, 10, 0, 0, 0), ("its inputs are as they were",))


def test_a_metric_that_no_gate_has_any_more_isnt_taken_for_nothing(workshop: Workshop) -> None:
    plan, spark, _ = restated(workshop)
    workshop.model("mart.a", sql=NEW)
    (slice,) = tried(workshop, plan, spark).slices
    assert slice.parts.keys() == {ROWS}


def test_a_model_that_keeps_rows_cant_be_told_apart(workshop: Workshop) -> None:
    plan, spark, _ = restated(workshop)
    workshop.model("mart.a", sql=NEW, keys="strategy: merge\nkey: [d]")
    found = tried(workshop, plan, spark)
    assert (found.slices, "rows that were there stay" in found.why_not) == ((), True)


def test_sides_are_the_base_and_the_branch_then_what_was_before_and_what_was_published(workshop: Workshop) -> None:
    plan, spark, _ = restated(workshop)
    w = workshop.workspace
    records = Records(project=w.outline, ledger=w.ledger, tables=w.tables)

    def sides() -> tuple[int | None, int | None, str]:
        run = w.ledger.run(plan.id)
        assert run is not None
        ((model, share),) = compared_models(run, None, records)
        found = sides_of(run, model, share, records)
        assert found is not None
        assert made_by(run, "mart.a", records) == ("mart.a", found.new.snapshot_id)
        return found.old.snapshot_id, found.new.snapshot_id, found.slices.text

    base, head = workshop.lake.current("mart.a"), workshop.lake.metadata.head("mart.a", plan.branch)
    assert sides() == (base, head, "2026-01-04..2026-01-08")
    workshop.lake.append("mart.a", "2026-01-15")
    run = go(workshop, plan, spark)
    records = Records(project=w.outline, ledger=w.ledger, tables=w.tables)
    before, published, _ = sides()
    assert published == run.tables["mart.a"].published_snapshot
    assert before is not None
    with pytest.raises(Refused, match=r"has no model mart\.b") as refused:
        compared_models(run, "mart.b", records)
    assert "mart.a" in str(refused.value.next)
    workshop.model("mart.a", sql=NEW, slices="by: d, every: month")
    w = workshop.workspace
    with pytest.raises(Refused, match="was cut by day"):
        compared_models(run, None, Records(project=w.outline, ledger=w.ledger, tables=w.tables))


def test_of_a_run_that_isnt_staged_or_was_cancelled_no_rows_are_compared(workshop: Workshop) -> None:
    plan, _, _ = restated(workshop)
    w = workshop.workspace
    records = Records(project=w.outline, ledger=w.ledger, tables=w.tables)
    run = w.ledger.run(plan.id)
    assert run is not None
    ((model, share),) = compared_models(run, None, records)
    cancelled = cancel(run, "a test", w.ledger, w.tables, clock=w.clock, who="ada")
    with pytest.raises(Refused, match="was cancelled"):
        sides_of(cancelled, model, share, records)
