"""Plans over real metadata and a real ledger: what is covered, what is refused, and why."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime
from pathlib import Path

import pytest
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import StringType, TimestamptzType

from retcon.core.evolution import AddColumn, DropColumn, Repartition
from retcon.core.intervals import Interval
from retcon.core.models import Order
from retcon.core.plans import Beside, Origin, Outside, Role, from_document, to_document
from retcon.errors import BadArguments, ProjectInvalid, Refused
from tests.flow.workshops import Workshop, reading, scope, share, tomorrow
from tests.lakehouse.lakes import days, utc
from tests.ledger.examples import published_run


@pytest.fixture
def workshop(tmp_path: Path) -> Workshop:
    return Workshop(tmp_path)


def refusal(workshop: Workshop, *select: str, **ask: object) -> Refused:
    with pytest.raises(Refused) as refused:
        workshop.plan(*select, **ask)  # type: ignore[arg-type]
    return refused.value


# ── what is covered ───────────────────────────────────────────────────────────────────────────────────────────────


def test_a_plan_covers_the_asked_days_and_says_what_they_read(workshop: Workshop) -> None:
    workshop.shop()
    plan = workshop.plan("mart.a", start="2026-01-03", end="2026-01-05")
    assert scope(plan) == {"mart.a": "2026-01-03..2026-01-05"}
    assert (plan.request.start, plan.request.end) == ("2026-01-03", "2026-01-05")
    assert plan.interval == Interval.of_edges(date(2026, 1, 3), date(2026, 1, 5))
    assert share(plan, "mart.a").is_new
    assert share(plan, "mart.a").role is Role.SELECTED
    read = reading(plan, "mart.a", "raw.s")
    assert (read.origin, read.slices, read.files, read.rows) == (Origin.SOURCE, days("2026-01-03..2026-01-05"), 3, 3)
    assert read.snapshot_id == workshop.lake.current("raw.s")
    assert read.bytes > 0
    assert plan.notes == ("mart.a doesn't exist yet: it is made, empty, when staging begins",)
    assert plan.outside == (Outside(model="mart.b", why="never published; select it to include it"),)
    assert from_document(to_document(plan)) == plan


def test_planning_writes_nothing(workshop: Workshop) -> None:
    workshop.shop()
    before = {path: path.stat().st_mtime_ns for path in workshop.root.rglob("*")}
    workshop.plan("mart.a", start="2026-01-03", end="2026-01-05")
    assert {path: path.stat().st_mtime_ns for path in workshop.root.rglob("*")} == before


def test_planning_where_there_is_no_database_yet_makes_none(workshop: Workshop) -> None:
    workshop.model("mart.a")
    assert "the catalog has no such table" in refusal(workshop, "mart.a", start="2026-01-03", end="2026-01-05").message
    assert not workshop.lake.file.exists()


def test_the_default_range_is_what_the_inputs_hold(workshop: Workshop) -> None:
    workshop.shop()
    workshop.lake.by_day("raw.short", "2026-01-05..2026-01-30")
    workshop.model("mart.c", "raw.s: {time: d, lookback: 2}, raw.short: {time: d}",
                   "SELECT s.d, count(*) AS n FROM raw.s s JOIN raw.short t ON s.d = t.d GROUP BY s.d")  # fmt: skip
    assert scope(workshop.plan("mart.a")) == {"mart.a": "2026-01-01..2026-01-20"}
    assert scope(workshop.plan("mart.c")) == {"mart.c": "2026-01-05..2026-01-20"}
    assert scope(workshop.plan("+mart.b")) == {"mart.a": "2026-01-01..2026-01-20", "mart.b": "2026-01-01..2026-01-20"}
    assert scope(workshop.plan("mart.a", start="2026-01-19")) == {"mart.a": "2026-01-19..2026-01-20"}
    assert scope(workshop.plan("mart.a", end="2026-01-02")) == {"mart.a": "2026-01-01..2026-01-02"}


def test_the_default_range_of_a_model_that_looks_around_can_be_planned(workshop: Workshop) -> None:
    workshop.shop()
    workshop.model("mart.c", "raw.s: {time: d, lookback: 6, lookahead: 1}")
    assert scope(workshop.plan("mart.c")) == {"mart.c": "2026-01-07..2026-01-19"}


def test_the_default_range_begins_where_the_model_begins(workshop: Workshop) -> None:
    workshop.shop()
    workshop.model("mart.a", slices="by: d, start: 2026-01-10")
    assert scope(workshop.plan("mart.a")) == {"mart.a": "2026-01-10..2026-01-20"}
    plan = workshop.plan("+mart.b", start="2026-01-08", end="2026-01-12", allow_missing_source=True)
    assert scope(plan)["mart.a"] == "2026-01-10..2026-01-12"
    assert "mart.a begins on 2026-01-10 (`slices.start`): nothing before is planned for it" in plan.notes


def test_inputs_that_tell_no_range_ask_for_one(workshop: Workshop) -> None:
    workshop.lake.by_day("raw.s")
    workshop.model("mart.a")
    with pytest.raises(BadArguments, match=r"mart\.a: its inputs don't tell where history begins"):
        workshop.plan("mart.a")


def test_a_start_after_all_data_is_answered_with_where_it_ends(workshop: Workshop) -> None:
    workshop.shop()
    refused = refusal(workshop, "mart.a", start="2026-01-21")
    assert refused.message == (
        "mart.a: nothing is left to plan: --start is 2026-01-21, and its inputs hold nothing after 2026-01-20"
    )
    refused = refusal(workshop, "mart.a", end="2025-12-31")
    assert "its history begins on 2026-01-01, and --end is 2025-12-31" in refused.message


def test_published_models_downstream_are_included_and_what_reads_around_them(workshop: Workshop) -> None:
    workshop.shop()
    workshop.model("mart.c", "mart.b: {time: d, lookback: 2}", "SELECT d, n FROM mart.b")
    workshop.model("mart.d", "mart.c: {}, raw.s: {time: d}",
                   "SELECT s.d, count(*) AS n FROM raw.s s CROSS JOIN mart.c c GROUP BY s.d")  # fmt: skip
    for name in ("mart.a", "mart.b", "mart.c", "mart.d"):
        workshop.publish_by_hand(name, "2026-01-01..2026-01-15")
    plan = workshop.plan("mart.a", start="2026-01-14", end="2026-01-16")
    assert scope(plan) == {
        "mart.a": "2026-01-14..2026-01-16",
        "mart.b": "2026-01-14..2026-01-15",
        "mart.c": "2026-01-14..2026-01-15",
    }
    assert [model.role for model in plan.models] == [Role.SELECTED, Role.DOWNSTREAM, Role.DOWNSTREAM]
    assert reading(plan, "mart.b", "mart.a").origin is Origin.RUN
    assert not any(model.is_new for model in plan.models)
    assert plan.outside == (Outside(model="mart.d", why="becomes stale: reads mart.c with on_change ignore"),)

    alone = workshop.plan("mart.a", start="2026-01-14", end="2026-01-16", downstream=False)
    assert scope(alone) == {"mart.a": "2026-01-14..2026-01-16"}
    assert alone.outside == (Outside(model="mart.b", why="becomes stale (2 slices): left out by --no-downstream"),)


def test_slices_that_were_published_empty_are_restated_and_are_no_holes(workshop: Workshop) -> None:
    workshop.shop()
    plan = workshop.plan("mart.a", start="2026-01-01", end="2026-01-10")
    published_run(workshop.ledger, plan, empty={"2026-01-05"})
    workshop.publish_by_hand("mart.a", "2026-01-01..2026-01-04, 2026-01-06..2026-01-08, 2026-01-10")
    plan = workshop.plan("mart.b", start="2026-01-03", end="2026-01-07")
    assert reading(plan, "mart.b", "mart.a").missing == days("")
    assert (
        "mart.a has no data for 2026-01-11" in refusal(workshop, "mart.b", start="2026-01-10", end="2026-01-11").message
    )
    # Published with rows, and gone: nobody says that it should be empty.
    assert (
        "mart.a has no data for 2026-01-09" in refusal(workshop, "mart.b", start="2026-01-08", end="2026-01-10").message
    )


def test_a_plan_is_named_after_its_first_model_in_running_order(workshop: Workshop) -> None:
    workshop.shop()
    plan = workshop.plan("mart.b", "mart.a", start="2026-01-03", end="2026-01-03")
    assert plan.id == "20260122_a_t1"
    assert plan.request.models == ("mart.a", "mart.b")


# ── what is refused ───────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("start", ["2026-01-03", None])
def test_a_source_that_is_not_there_is_refused_with_the_nearest_name(workshop: Workshop, start: str | None) -> None:
    workshop.lake.by_day("raw.orders", "2026-01-01..2026-01-05")
    workshop.model("mart.a", "raw.order: {time: d}")
    refused = refusal(workshop, "mart.a", start=start)
    assert refused.message == "mart.a reads raw.order, and the catalog has no such table"
    assert refused.next == "did you mean raw.orders?"
    assert refused.state == "no plan was written"


def test_an_upstream_model_that_was_never_published_is_refused_with_the_plan_that_would_include_it(
    workshop: Workshop,
) -> None:
    workshop.shop()
    for start in ("2026-01-03", None):
        refused = refusal(workshop, "mart.b", start=start)
        assert refused.message == "mart.b reads mart.a, which was never published"
        assert refused.next == "include it: retcon plan +mart.b …"
    workshop.lake.by_day("mart.a", number="n")
    assert "was never published" in refusal(workshop, "mart.b", start="2026-01-03").message
    assert scope(workshop.plan("+mart.b", start="2026-01-03")) == {
        "mart.a": "2026-01-03..2026-01-20",
        "mart.b": "2026-01-03..2026-01-20",
    }


def test_a_model_that_must_come_after_another_waits_for_its_publish(workshop: Workshop) -> None:
    workshop.shop()
    workshop.model("mart.c", keys="after: [mart.b]")
    refused = refusal(workshop, "mart.c", start="2026-01-03")
    assert refused.message == "mart.c comes after mart.b, which was never published"
    assert refused.next == "publish it first, or include it: retcon plan mart.b mart.c …"
    together = workshop.plan("mart.*", start="2026-01-03")
    assert [model.name for model in together.models] == ["mart.a", "mart.b", "mart.c"]
    for name in ("mart.a", "mart.b"):
        workshop.publish_by_hand(name, "2026-01-01..2026-01-02")
    assert "mart.c" in scope(workshop.plan("mart.c", start="2026-01-03"))


def test_holes_in_a_source_are_listed_and_refused_unless_allowed(workshop: Workshop) -> None:
    workshop.lake.by_day("raw.s", "2026-01-01..2026-01-04, 2026-01-07, 2026-01-09..2026-01-10")
    workshop.model("mart.a")
    refused = refusal(workshop, "mart.a", start="2026-01-01", end="2026-01-10")
    assert "raw.s has no data for 2026-01-05..2026-01-06, 2026-01-08 (3 slices) (mart.a reads it)" in refused.message
    plan = workshop.plan("mart.a", start="2026-01-01", end="2026-01-10", allow_missing_source=True)
    assert reading(plan, "mart.a", "raw.s").missing == days("2026-01-05..2026-01-06, 2026-01-08")
    assert any("allowed by --allow-missing-source" in note for note in plan.notes)


def test_a_wider_read_than_the_plan_makes_of_its_upstream_is_a_hole(workshop: Workshop) -> None:
    workshop.shop()
    workshop.model("mart.b", "mart.a: {time: d, lookback: 2}", "SELECT d, n FROM mart.a")
    refused = refusal(workshop, "+mart.b", start="2026-01-05", end="2026-01-06")
    assert "mart.a has no data for 2026-01-03..2026-01-04 (2 slices) (mart.b reads it)" in refused.message


def test_a_source_that_keeps_too_little_is_refused_though_it_still_shows_rows(workshop: Workshop) -> None:
    workshop.settings("sources: {raw.s: {keeps: 7 days}}")
    workshop.shop()
    refused = refusal(workshop, "mart.a", start="2026-01-10", end="2026-01-18")
    assert "raw.s has no data for 2026-01-10..2026-01-14 (5 slices)" in refused.message
    assert workshop.plan("mart.a", start="2026-01-15", end="2026-01-18")


@pytest.mark.parametrize(
    ("limits", "said"),
    [("slices: 5", "6 slices, at most 5 allowed"), ("bytes: 10 B", "bytes, at most 10 allowed")],
)
def test_a_plan_over_a_limit_is_refused(workshop: Workshop, limits: str, said: str) -> None:
    workshop.settings(f"limits: {{{limits}}}")
    workshop.shop()
    refused = refusal(workshop, "+mart.b", start="2026-01-01", end="2026-01-03")
    assert said in refused.message
    assert "limits" in refused.next
    workshop.settings("limits: {slices: 6, bytes: 1 MB, keys: 7}")
    plan = workshop.plan("+mart.b", start="2026-01-01", end="2026-01-03")
    assert plan.limits == {"slices": 6, "bytes": 10**6, "keys": 7}


def test_a_range_of_two_thousand_years_is_refused(workshop: Workshop) -> None:
    workshop.shop()
    refused = refusal(workshop, "mart.a", start="0001-01-01", end="2026-01-20", allow_missing_source=True)
    assert "739,636 slices, at most 5,000 allowed" in refused.message


def test_the_first_days_of_the_calendar_can_be_planned(workshop: Workshop) -> None:
    workshop.shop()
    plan = workshop.plan("mart.a", start="0001-01-01", end="0001-01-02", allow_missing_source=True)
    assert (plan.request.start, plan.request.end) == ("0001-01-01", "0001-01-02")
    assert from_document(to_document(plan)) == plan


def test_the_future_is_refused_and_a_day_that_is_not_over_is_open(workshop: Workshop) -> None:
    workshop.lake.by_day("raw.s", "2026-01-01..2026-01-25")
    workshop.model("mart.a")
    with pytest.raises(BadArguments, match="is in the future"):
        workshop.plan("mart.a", start="2026-01-20", end=tomorrow())
    plan = workshop.plan("mart.a", start="2026-01-20", end="2026-01-22")
    assert share(plan, "mart.a").open == days("2026-01-22")
    assert "mart.a: 2026-01-22 isn't over yet (open)" in plan.notes
    assert scope(workshop.plan("mart.a", start="2026-01-20")) == {"mart.a": "2026-01-20..2026-01-22"}
    workshop.now = datetime(2026, 1, 23, tzinfo=UTC)
    assert share(workshop.plan("mart.a", start="2026-01-20", end="2026-01-22"), "mart.a").open == days("")


def test_rows_without_a_time_are_noted_and_do_not_touch_the_slices(workshop: Workshop) -> None:
    workshop.shop()
    before = workshop.plan("mart.a", start="2026-01-03", end="2026-01-05")
    workshop.lake.append("raw.s", None, None)
    plan = workshop.plan("mart.a", start="2026-01-03", end="2026-01-05")
    assert "raw.s: 2 rows without a time are in no slice" in plan.notes
    assert reading(plan, "mart.a", "raw.s").content == reading(before, "mart.a", "raw.s").content
    assert reading(plan, "mart.a", "raw.s").rows == 3


def test_a_source_that_is_not_cut_by_its_time_is_noted(workshop: Workshop) -> None:
    workshop.lake.make("raw.s", TimestamptzType())
    workshop.lake.append("raw.s", *(utc(f"2026-01-0{n}T10:00:00") for n in range(1, 9)))
    workshop.model("mart.a", sql="SELECT CAST(d AS DATE) AS d, count(*) AS n FROM raw.s GROUP BY CAST(d AS DATE)")
    plan = workshop.plan("mart.a")
    assert scope(plan) == {"mart.a": "2026-01-01..2026-01-08"}
    assert "raw.s isn't partitioned by day: rows and bytes are upper bounds" in plan.notes


def test_an_existing_table_that_is_cut_otherwise_is_refused(workshop: Workshop) -> None:
    workshop.shop()
    workshop.lake.make("mart.a", number="n")
    refused = refusal(workshop, "mart.a", start="2026-01-03")
    assert refused.message == "mart.a: the table is partitioned by not at all, the model is sliced by d, a day each"


def test_an_existing_table_with_other_columns_is_refused(workshop: Workshop) -> None:
    workshop.shop()
    workshop.lake.make("mart.a", by=IdentityTransform(), number="rows")
    refused = refusal(workshop, "mart.a", start="2026-01-03")
    assert (
        refused.message
        == "mart.a: the table has rows (bigint, in no snapshot of main yet), which the query doesn't yield"
    )


def test_a_new_column_is_in_the_plan_and_in_the_plans_of_those_who_read_it(workshop: Workshop) -> None:
    workshop.shop()
    for name in ("mart.a", "mart.b"):
        workshop.publish_by_hand(name, "2026-01-01..2026-01-05")
    workshop.model("mart.a", sql="SELECT d, count(*) AS n, max(x) AS most FROM raw.s GROUP BY d")
    workshop.model("mart.b", "mart.a: {time: d}", "SELECT * FROM mart.a")
    plan = workshop.plan("mart.a", start="2026-01-03", end="2026-01-04")
    for name in ("mart.a", "mart.b"):
        assert share(plan, name).changes == (AddColumn(column="most", type=None),)
    workshop.model("mart.b", "mart.a: {time: d}", "SELECT d FROM mart.a")
    assert "mart.b: the table has n (bigint, since snapshot " in refusal(workshop, "mart.a", start="2026-01-03").message


@pytest.mark.parametrize(
    "sql", ["SELECT d, count(*) AS n FROM raw.s GROUP BY d", "SELECT s.x AS y, s.d FROM raw.s AS s"]
)
def test_hours_of_a_date_are_refused_by_the_plan_where_the_text_shows_the_type(workshop: Workshop, sql: str) -> None:
    workshop.shop()
    workshop.model("mart.a", sql=sql, slices="by: d, every: hour")
    assert "an hour of d, which is a DATE" in refusal(workshop, "mart.a", start="2026-01-03").message


def test_the_type_of_the_slice_column_is_followed_through_models_that_the_same_plan_makes(workshop: Workshop) -> None:
    workshop.shop()
    workshop.model("mart.b", "mart.a: {time: d}", "SELECT d AS at, n FROM mart.a", slices="by: at, every: hour")
    assert "mart.b: a slice is an hour of at" in refusal(workshop, "+mart.b", start="2026-01-03").message
    text = "SELECT CAST(d AS TIMESTAMP) AS at, n FROM mart.a"
    workshop.model("mart.b", "mart.a: {time: d}", text, slices="by: at, every: hour")
    assert len(share(workshop.plan("+mart.b", start="2026-01-03", end="2026-01-03"), "mart.b").slices) == 24


def test_a_model_that_is_rebuilt_in_full_is_planned_with_every_slice_whatever_was_asked(workshop: Workshop) -> None:
    workshop.shop()
    workshop.publish_by_hand("mart.a", "2026-01-01..2026-01-05")
    workshop.publish_by_hand("mart.b", "2026-01-01..2026-01-03")
    workshop.model("mart.a", keys="strategy: full")
    plan = workshop.plan("mart.a", start="2026-01-04", end="2026-01-04")
    assert scope(plan) == {"mart.a": "2026-01-01..2026-01-20", "mart.b": "2026-01-01..2026-01-03"}
    assert any("mart.a is rebuilt in full" in note for note in plan.notes)


def test_a_table_that_would_change_places_is_refused_with_a_rest_catalog(workshop: Workshop) -> None:
    workshop.shop()
    workshop.publish_by_hand("mart.a", "2026-01-01..2026-01-05")
    workshop.model("mart.a", sql="SELECT d, count(*) AS x FROM raw.s GROUP BY d", keys="strategy: full")
    assert share(workshop.plan("mart.a"), "mart.a").beside is not None
    project = workshop.workspace.project
    _ = workshop.workspace.tables
    catalog = replace(project.settings.catalog, type="rest")
    workshop.workspace.project = replace(project, settings=replace(project.settings, catalog=catalog))
    assert "a REST catalog can't put another one in its place" in refusal(workshop, "mart.a").message


def test_a_full_rebuild_covers_what_was_asked_though_its_inputs_hold_only_a_part_of_it(workshop: Workshop) -> None:
    workshop.shop()
    text = "SELECT trunc(d, 'MM') AS d, count(*) AS n FROM raw.s GROUP BY trunc(d, 'MM')"
    workshop.model("mart.a", sql=text, slices="by: d, every: month", keys="strategy: full")
    ask = {"start": "2026-01-01", "end": "2026-01-20"}
    assert "raw.s has no data for 2026-01-21" in refusal(workshop, "mart.a", **ask).message
    assert scope(workshop.plan("mart.a", **ask, allow_missing_source=True)) == {"mart.a": "2026-01"}


def test_a_full_rebuild_whose_inputs_tell_no_history_takes_the_dates_that_were_asked(workshop: Workshop) -> None:
    workshop.shop()
    workshop.publish_by_hand("mart.a", "2026-01-01..2026-01-02")
    workshop.model("mart.a", "raw.s: {}", keys="strategy: full")
    with pytest.raises(BadArguments, match="its inputs don't tell where history begins"):
        workshop.plan("mart.a")
    assert scope(workshop.plan("mart.a", start="2026-01-02", end="2026-01-05")) == {"mart.a": "2026-01-01..2026-01-05"}


def test_a_reader_that_is_rebuilt_in_full_is_planned_with_every_slice_that_it_has_or_its_inputs_hold(
    workshop: Workshop,
) -> None:
    workshop.shop()
    workshop.publish_by_hand("mart.a", "2026-01-01..2026-01-08")
    workshop.publish_by_hand("mart.b", "2026-01-01..2026-01-05")
    workshop.model("mart.b", "mart.a: {time: d}", "SELECT d, n FROM mart.a", keys="strategy: full")
    plan = workshop.plan("mart.a", start="2026-01-04", end="2026-01-04")
    assert scope(plan) == {"mart.a": "2026-01-04", "mart.b": "2026-01-01..2026-01-08"}
    # What the same plan adds to its inputs is held by them, too.
    plan = workshop.plan("mart.a", start="2026-01-04", end="2026-01-10")
    assert scope(plan) == {"mart.a": "2026-01-04..2026-01-10", "mart.b": "2026-01-01..2026-01-10"}
    plan = workshop.plan("mart.a", start="2026-01-04", end="2026-01-04", downstream=False)
    assert scope(plan) == {"mart.a": "2026-01-04"}


def test_a_full_rebuild_that_the_table_cannot_take_is_built_beside_and_its_readers_are_told(workshop: Workshop) -> None:
    workshop.shop()
    workshop.lake.make("mart.a", number="n", properties={"retcon.model": "mart.a"})
    base = workshop.lake.append("mart.a", "2026-01-01", "2026-01-02")
    workshop.publish_by_hand("mart.b", "2026-01-01..2026-01-02")
    workshop.model("mart.c", "mart.a: {time: d}", "SELECT d, 1 AS x FROM mart.a")
    workshop.model("mart.a", sql="SELECT d, count(*) AS rows FROM raw.s GROUP BY d", keys="strategy: full")
    plan = workshop.plan("mart.a", start="2026-01-04", end="2026-01-04", downstream=False)
    built = share(plan, "mart.a")
    assert built.beside == Beside(table="mart.a__20260122_t1", instead_of=base)
    assert built.changes == (
        Repartition(partitioning="not at all", to="day(d)"),
        DropColumn(column="n", type="bigint"),
        AddColumn(column="rows", type=None),
    )
    assert (built.slices.text, built.is_new) == ("2026-01-01..2026-01-20", False)
    assert "mart.b isn't restated, and names what changes in mart.a: column n (bigint) goes away" in plan.notes
    assert not any("mart.c isn't restated" in note for note in plan.notes)
    assert any("stays readable as mart.a__20260122_t1 for at least 14 days" in note for note in plan.notes)

    # Whoever is restated with it reads the new table, of which nothing is there yet.
    workshop.model("mart.b", "mart.a: {time: d}", "SELECT d, rows AS n FROM mart.a")
    plan = workshop.plan("mart.a", start="2026-01-04", end="2026-01-04")
    assert reading(plan, "mart.b", "mart.a").snapshot_id is None
    assert (reading(plan, "mart.b", "mart.a").origin, reading(plan, "mart.b", "mart.a").files) == (Origin.RUN, 0)
    assert not any("isn't restated, and names" in note for note in plan.notes)
    workshop.model("mart.b", "mart.a: {time: d}", "SELECT a.d, a.n FROM mart.a a")
    with pytest.raises(ProjectInvalid, match=r"mart\.a has no column `n`"):
        workshop.plan("mart.a", start="2026-01-04", end="2026-01-04")


def test_a_reader_that_is_excluded_is_left_as_it_is_and_told_as_stale(workshop: Workshop) -> None:
    workshop.shop()
    workshop.model("mart.c", "mart.b: {time: d}", "SELECT d, n FROM mart.b")
    for name in ("mart.a", "mart.b", "mart.c"):
        workshop.publish_by_hand(name, "2026-01-01..2026-01-05")
    plan = workshop.plan("mart.a", start="2026-01-04", end="2026-01-04", exclude=("*.b",))
    assert scope(plan) == {"mart.a": "2026-01-04"}
    assert plan.outside == (Outside(model="mart.b", why="becomes stale (1 slices): left out by --exclude"),)
    assert plan.request.exclude == ("mart.b",)
    assert from_document(to_document(plan)) == plan
    assert "exclude" not in to_document(workshop.plan("mart.a", start="2026-01-04", end="2026-01-04"))["request"]


def test_a_reader_in_full_keeps_to_what_it_has_where_its_inputs_hold_nothing_together(workshop: Workshop) -> None:
    workshop.shop()
    workshop.lake.by_day("raw.t", "2026-01-15..2026-01-16")
    workshop.publish_by_hand("mart.a", "2026-01-01..2026-01-05")
    workshop.publish_by_hand("mart.b", "2026-01-01..2026-01-02")
    workshop.model("mart.b", "mart.a: {time: d}, raw.t: {time: d}", keys="strategy: full",
                   sql="SELECT a.d, a.n FROM mart.a a JOIN raw.t t ON a.d = t.d")  # fmt: skip
    plan = workshop.plan("mart.a", start="2026-01-01", end="2026-01-01", allow_missing_source=True)
    assert scope(plan) == {"mart.a": "2026-01-01", "mart.b": "2026-01-01..2026-01-02"}


def test_slices_of_a_full_rebuild_that_the_inputs_no_longer_hold_are_not_emptied_unasked(workshop: Workshop) -> None:
    workshop.shop()
    workshop.publish_by_hand("mart.a", "2025-12-30..2026-01-05")
    workshop.model("mart.a", keys="strategy: full")
    assert "raw.s has no data for 2025-12-30..2025-12-31" in refusal(workshop, "mart.a").message
    plan = workshop.plan("mart.a", allow_missing_source=True)
    assert scope(plan) == {"mart.a": "2025-12-30..2026-01-20"}


def test_a_time_that_is_no_time_is_refused(workshop: Workshop) -> None:
    workshop.lake.make("raw.s", StringType())
    workshop.lake.append("raw.s", "2026-01-01")
    workshop.model("mart.a")
    for start in ("2026-01-01", None):
        refused = refusal(workshop, "mart.a", start=start)
        assert "raw.s.d is string, and a time column is a date or a timestamp" in refused.message


def test_columns_that_are_not_there_are_all_named(workshop: Workshop) -> None:
    workshop.lake.by_day("raw.s", "2026-01-01..2026-01-05")
    workshop.model("mart.a", "raw.s: {time: day}", "SELECT s.day AS d, sum(s.y) AS n FROM raw.s s GROUP BY s.day")
    with pytest.raises(ProjectInvalid) as refused:
        workshop.plan("mart.a")
    named = " ".join(problem.message for problem in refused.value.problems)
    assert "has no column `day`" in named
    assert "has no column `y`" in named


def test_requests_that_mean_nothing_are_refused(workshop: Workshop) -> None:
    assert refusal(workshop, "mart.a").message == "the project has no models"
    workshop.shop()
    with pytest.raises(BadArguments, match="a plan needs a reason"):
        workshop.plan("mart.a", reason=" \n")
    assert "did you mean mart.a" in refusal(workshop, "mart.aa").next
    assert refusal(workshop, "mart.a", exclude=("mart.*",)).message == "no model is left after --exclude"
    with pytest.raises(BadArguments, match="is before --start"):
        workshop.plan("mart.a", start="2026-01-05", end="2026-01-03")


# ── how much ──────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.slow
def test_ten_thousand_slices_can_be_planned(workshop: Workshop) -> None:
    workshop.settings("limits: {slices: 20000}")
    workshop.lake.by_day("raw.s", "1998-08-30..2026-01-20")
    workshop.model("mart.a", "raw.s: {time: d, lookback: 6}")
    workshop.model("mart.b", "mart.a: {time: d}", "SELECT d, n FROM mart.a", keys="replay: {wave: 15}")
    plan = workshop.plan("+mart.b")
    assert plan.slices == 20_000
    assert len(share(plan, "mart.b").waves) == 667
    assert reading(plan, "mart.a", "raw.s").files == 10_006
    assert from_document(to_document(plan)) == plan


# ── several grains ────────────────────────────────────────────────────────────────────────────────────────────────


def months(workshop: Workshop) -> Workshop:
    """A day model over a source by day, a month model over it, and a whole table over that."""
    workshop.lake.by_day("raw.s", "2025-12-01..2026-01-21")
    workshop.model("mart.a")
    monthly = "SELECT trunc(d, 'MM') AS m, sum(n) AS n FROM mart.a GROUP BY 1"
    workshop.model("mart.m", "mart.a: {time: d}", monthly, slices="by: m, every: month")
    path = workshop.root / "models" / "mart" / "z.sql"
    path.write_text("/* retcon\ninputs: {mart.m: {}}\n*/\nSELECT sum(n) AS n FROM mart.m\n")
    return workshop


def test_each_selected_model_gets_the_slices_of_its_own_grain_and_widening_is_noted(workshop: Workshop) -> None:
    plan = months(workshop).plan("mart.*", start="2025-12-10", end="2026-01-15", allow_missing_source=True)
    assert scope(plan) == {"mart.a": "2025-12-10..2026-01-15", "mart.m": "2025-12..2026-01", "mart.z": "all"}
    assert (plan.request.start, plan.request.end) == ("2025-12-10", "2026-01-15")
    assert plan.interval == Interval.of_edges(date(2025, 12, 1), date(2026, 1, 31))
    assert "mart.m: 2025-12-10..2026-01-15 widened to 2025-12..2026-01" in plan.notes
    read = reading(plan, "mart.m", "mart.a")
    assert read.slices == days("2025-12-01..2026-01-31")
    assert read.missing == days("2025-12-01..2025-12-09, 2026-01-16..2026-01-21")
    assert reading(plan, "mart.z", "mart.m").slices is None
    assert from_document(to_document(plan)) == plan


def test_without_dates_each_model_has_its_own_history_and_what_is_not_cut_has_all_of_it(workshop: Workshop) -> None:
    plan = months(workshop).plan("mart.*")
    assert scope(plan) == {"mart.a": "2025-12-01..2026-01-21", "mart.m": "2025-12..2026-01", "mart.z": "all"}
    assert share(plan, "mart.m").open.text == "2026-01"
    assert not [i.missing for model in plan.models for i in model.inputs if i.missing]


def test_a_whole_table_alone_is_planned_without_dates(workshop: Workshop) -> None:
    workshop.lake.by_day("raw.s", "2026-01-01..2026-01-20")
    path = workshop.root / "models" / "mart" / "z.sql"
    path.parent.mkdir(parents=True)
    path.write_text("/* retcon\ninputs: {raw.s: {}}\n*/\nSELECT count(*) AS n FROM raw.s\n")
    plan = workshop.plan("mart.z")
    assert scope(plan) == {"mart.z": "all"}
    assert (plan.interval, plan.request.start, plan.request.end) == (None, None, None)
    assert (reading(plan, "mart.z", "raw.s").rows, share(plan, "mart.z").open.text) == (20, "")
    assert from_document(to_document(plan)) == plan


def test_hours_of_a_table_whose_column_is_a_date_are_refused_with_both_named(workshop: Workshop) -> None:
    workshop.shop()
    workshop.publish_by_hand("mart.a", "2026-01-03")
    workshop.model("mart.a", slices="by: d, every: hour")
    refused = refusal(workshop, "mart.a", start="2026-01-03")
    assert refused.message == "mart.a: a slice is an hour of d, which is a DATE and tells no hours"
    assert "every: day" in refused.next


def a_chain(workshop: Workshop) -> Workshop:
    workshop.lake.by_day("raw.s", "2026-01-01..2026-01-20")
    workshop.model(
        "mart.total",
        "raw.s: {time: d}, mart.total: {time: d, lookback: 1}",
        "SELECT :start_date AS d, sum(n) AS n FROM (SELECT n FROM raw.s UNION ALL SELECT n FROM mart.total)",
        keys="replay: {order: sequential}\ncolumns: {d: date, n: bigint}",
    )
    return workshop


def test_a_model_that_reads_itself_is_planned_slice_by_slice_from_its_first_one_on(workshop: Workshop) -> None:
    plan = a_chain(workshop).plan("mart.total")
    total = share(plan, "mart.total")
    assert total.slices.text == "2026-01-01..2026-01-20"
    assert [wave.text for wave in total.waves] == [slice.label for slice in total.slices]
    assert total.order is Order.SEQUENTIAL
    assert total.one_by_one == ("it reads its previous slice",)
    own = reading(plan, "mart.total", "mart.total")
    assert own.origin is Origin.RUN
    assert own.slices is not None
    assert own.slices.text == "2025-12-31..2026-01-19"
    assert not own.missing
    assert "mart.total begins with 2026-01-01, which finds nothing of itself before it" in plan.notes


def test_a_chain_goes_on_where_it_ends_and_not_beyond_a_gap(workshop: Workshop) -> None:
    a_chain(workshop).publish_by_hand("mart.total", "2026-01-01..2026-01-10")
    assert scope(workshop.plan("mart.total", start="2026-01-11")) == {"mart.total": "2026-01-11..2026-01-20"}
    restated = workshop.plan("mart.total", start="2026-01-04", end="2026-01-05", downstream=False)
    assert scope(restated) == {"mart.total": "2026-01-04..2026-01-10"}
    assert any("2026-01-06..2026-01-10" in note for note in restated.notes)
    with pytest.raises(Refused, match=r"mart\.total has no data for 2026-01-12"):
        workshop.plan("mart.total", start="2026-01-13")


def test_hours_of_a_date_are_refused_of_python_too_where_its_table_tells(workshop: Workshop) -> None:
    workshop.lake.by_day("raw.s", "2026-01-01..2026-01-20")
    workshop.publish_by_hand("mart.p", "2026-01-01..2026-01-03")
    path = workshop.root / "models" / "mart" / "p.py"
    path.parent.mkdir(parents=True)
    path.write_text(
        "from retcon.models import Hour, Input, model\n\n\n"
        '@model("mart.p", slices=Hour("d"), inputs={"s": Input("raw.s", time="d")})\ndef p(s):\n    return s\n'
    )
    with pytest.raises(Refused, match="is a DATE and tells no hours"):
        workshop.plan("mart.p", start="2026-01-02", end="2026-01-02")
