"""Plans over sources that aren't Iceberg: what a listing tells, what it doesn't, and what a change of files does."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from retcon.core.models import Model
from retcon.core.slices import Buckets, SliceSet
from retcon.errors import BadArguments, Fault, ProjectInvalid, Refused
from retcon.flow.still_fits import require_same_files, require_unchanged_inputs
from tests.flow.workshops import Workshop, reading, share

FILES = "sources: {raw.s: {format: csv, path: data, columns: {d: date, v: int}}}"
JDBC = "sources: {raw.s: {format: jdbc, options: {url: 'jdbc:x', dbtable: t, password: hush-hush}}}"


@pytest.fixture
def workshop(tmp_path: Path) -> Workshop:
    workshop = Workshop(tmp_path)
    workshop.model("mart.a")
    return workshop


def put(workshop: Workshop, path: str, text: str = "v\n1\n") -> Path:
    file = workshop.root / "data" / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    return file


def by_day(workshop: Workshop, *days: str) -> None:
    workshop.settings(FILES)
    for day in days:
        put(workshop, f"d=2026-01-{day}/part.csv")


def test_folders_that_name_days_tell_slices_files_and_bytes_but_no_rows(workshop: Workshop) -> None:
    by_day(workshop, "01", "02", "03", "04")
    plan = workshop.plan("mart.a", start="2026-01-02", end="2026-01-03")
    read = reading(plan, "mart.a", "raw.s")
    assert (read.format, read.files, read.rows, read.bytes) == ("csv", 2, None, 8)
    assert not read.is_pinned
    assert not read.missing
    assert any("raw.s (csv): not pinned" in note for note in plan.notes)
    assert not any("which slices it holds" in note for note in plan.notes)


def test_a_missing_folder_is_a_hole(workshop: Workshop) -> None:
    by_day(workshop, "01", "02", "04")
    with pytest.raises(Refused, match=r"raw\.s has no data for 2026-01-03 \(1 slice\)"):
        workshop.plan("mart.a", start="2026-01-01", end="2026-01-04")
    allowed = workshop.plan("mart.a", start="2026-01-01", end="2026-01-04", allow_missing_source=True)
    missing = reading(allowed, "mart.a", "raw.s").missing
    assert missing is not None
    assert missing.text == "2026-01-03"


def test_the_range_is_taken_from_the_folders(workshop: Workshop) -> None:
    by_day(workshop, "03", "04", "05")
    assert share(workshop.plan("mart.a"), "mart.a").slices.text == "2026-01-03..2026-01-05"


def test_what_spark_skips_isnt_counted_and_rows_without_a_time_are_in_no_slice(workshop: Workshop) -> None:
    by_day(workshop, "01", "02")
    for path in ("_SUCCESS", "d=2026-01-01/.part.csv.crc", "_temporary/d=2026-01-09/x.csv", "x.csv._COPYING_"):
        put(workshop, path)
    put(workshop, "d=__HIVE_DEFAULT_PARTITION__/part.csv")
    read = reading(workshop.plan("mart.a"), "mart.a", "raw.s")
    assert read.slices is not None
    assert (read.slices.text, read.files) == ("2026-01-01..2026-01-02", 2)


def test_files_in_no_such_folder_tell_no_slices_and_the_plan_says_so(workshop: Workshop) -> None:
    workshop.settings(FILES)
    put(workshop, "all.csv", "d,v\n2026-01-01,1\n")
    with pytest.raises(BadArguments, match="don't tell where history begins"):
        workshop.plan("mart.a")
    plan = workshop.plan("mart.a", start="2026-01-01", end="2026-01-09")
    read = reading(plan, "mart.a", "raw.s")
    assert not read.missing
    assert read.files == 1
    assert any("which slices it holds can't be told" in note for note in plan.notes)


def test_of_a_database_nothing_is_known_and_nothing_of_its_options_is_written(workshop: Workshop) -> None:
    workshop.settings(JDBC)
    plan = workshop.plan("mart.a", start="2026-01-01", end="2026-01-09")
    read = reading(plan, "mart.a", "raw.s")
    assert (read.files, read.rows, read.bytes, read.content, read.is_pinned) == (None, None, None, "", False)
    assert any("changes can't be seen: what it holds when it is read is what counts" in note for note in plan.notes)
    assert "hush-hush" not in workshop.workspace.write_plan(plan).read_text()
    assert workshop.workspace.read_plan(plan.id) == plan
    require_unchanged_inputs(plan, workshop.workspace.project, workshop.workspace.tables)


@pytest.mark.parametrize("change", ["rewritten", "touched", "added", "removed"])
def test_a_change_of_files_in_scope_is_found_and_one_elsewhere_doesnt_matter(workshop: Workshop, change: str) -> None:
    by_day(workshop, "01", "02", "03", "04")
    plan = workshop.plan("mart.a", start="2026-01-01", end="2026-01-02")
    project, tables = workshop.workspace.project, workshop.workspace.tables

    def meddle(day: str) -> None:
        file = workshop.root / "data" / f"d=2026-01-{day}" / "part.csv"
        match change:
            case "rewritten":
                file.write_text("v\n2\n3\n")
            case "touched":
                os.utime(file, ns=(0, file.stat().st_mtime_ns + 1))
            case "added":
                file.with_name("more.csv").write_text("v\n9\n")
            case "removed":
                file.unlink()

    meddle("03")
    require_unchanged_inputs(plan, project, tables)
    require_same_files(plan, project, tables)
    meddle("02")
    for check in (require_unchanged_inputs, require_same_files):
        with pytest.raises(Refused, match=r"raw\.s.* changed since plan .*: files that it reads were added, removed"):
            check(plan, project, tables)


def test_where_slices_arent_known_any_change_counts(workshop: Workshop) -> None:
    workshop.settings(FILES)
    put(workshop, "all.csv", "d,v\n")
    plan = workshop.plan("mart.a", start="2026-01-01", end="2026-01-02")
    put(workshop, "more.csv", "d,v\n")
    with pytest.raises(Refused, match="changed since plan"):
        require_same_files(plan, workshop.workspace.project, workshop.workspace.tables)


def test_a_folder_that_isnt_there_is_refused_by_its_path(workshop: Workshop) -> None:
    workshop.settings(FILES)
    with pytest.raises(Refused, match=r"mart\.a reads raw\.s, and there is no .*/data") as refused:
        workshop.plan("mart.a", start="2026-01-01", end="2026-01-02")
    assert refused.value.next == "correct `sources.raw.s.path` in retcon.yaml"


def test_a_folder_that_goes_away_is_found(workshop: Workshop) -> None:
    by_day(workshop, "01", "02")
    plan = workshop.plan("mart.a")
    (workshop.root / "data").rename(workshop.root / "gone")
    with pytest.raises(Refused, match="it is gone"):
        require_same_files(plan, workshop.workspace.project, workshop.workspace.tables)


def test_files_that_cant_be_listed_are_a_fault(workshop: Workshop) -> None:
    by_day(workshop, "01")
    (workshop.root / "data" / "d=2026-01-02").symlink_to(workshop.root / "nowhere")
    with pytest.raises(Fault, match=r"the files of raw\.s can't be listed"):
        workshop.plan("mart.a")


def test_files_tell_no_buckets_so_any_change_of_them_counts_for_all(workshop: Workshop) -> None:
    workshop.settings(FILES)
    workshop.model(
        "mart.a", "raw.s: {key: v}", "SELECT v, count(*) AS n FROM raw.s GROUP BY v", slices="by: v, buckets: 4"
    )
    put(workshop, "d=2026-01-01/part.csv")
    plan = workshop.plan("mart.a")
    assert reading(plan, "mart.a", "raw.s").slices == SliceSet.every(Buckets(4))
    assert not reading(plan, "mart.a", "raw.s").missing
    require_unchanged_inputs(plan, workshop.workspace.project, workshop.workspace.tables)
    put(workshop, "d=2026-01-02/part.csv")
    with pytest.raises(Refused, match="were added, removed or rewritten"):
        require_same_files(plan, workshop.workspace.project, workshop.workspace.tables)


def test_a_source_with_the_name_of_a_table_in_the_catalog_is_refused(workshop: Workshop) -> None:
    by_day(workshop, "01", "02")
    workshop.lake.by_day("raw.s", "2026-01-01..2026-01-02")
    with pytest.raises(Refused, match=r"with `format: csv`, and the catalog has a table raw\.s"):
        workshop.plan("mart.a")


def test_declared_columns_are_checked_and_folders_add_theirs(workshop: Workshop) -> None:
    workshop.settings("sources: {raw.s: {format: csv, path: data, columns: {v: int}}}")
    put(workshop, "d=2026-01-01/part.csv")
    workshop.plan("mart.a", start="2026-01-01", end="2026-01-01")
    workshop.model("mart.a", sql="SELECT s.d, s.w AS n FROM raw.s s")
    with pytest.raises(ProjectInvalid, match=r"raw\.s has no column `w`"):
        workshop.plan("mart.a", start="2026-01-01", end="2026-01-01")


def test_the_version_of_a_delta_table_is_pinned_and_any_new_one_counts(workshop: Workshop) -> None:
    workshop.settings("sources: {raw.s: {format: delta, path: data}}")
    put(workshop, "_delta_log/00000000000000000000.json", "{}")
    put(workshop, "_delta_log/00000000000000000007.checkpoint.parquet", "")
    plan = workshop.plan("mart.a", start="2026-01-01", end="2026-01-02")
    read = reading(plan, "mart.a", "raw.s")
    assert (read.snapshot_id, read.is_pinned, read.files) == (7, True, None)
    project, tables = workshop.workspace.project, workshop.workspace.tables
    require_unchanged_inputs(plan, project, tables)
    put(workshop, "_delta_log/00000000000000000008.json", "{}")
    require_same_files(plan, project, tables)
    with pytest.raises(Refused, match=r"raw\.s changed since plan .*2026-01-01\.\.2026-01-02"):
        require_unchanged_inputs(plan, project, tables)
    require_unchanged_inputs(plan, project, tables, {"raw.s": 7})


def test_the_columns_of_validity_windows_are_looked_for(workshop: Workshop) -> None:
    workshop.lake.by_day("raw.s", "2026-01-01..2026-01-02")
    workshop.settings("sources: {raw.h: {format: csv, path: data, columns: {k: int, a: date, b: date}}}")
    put(workshop, "history.csv", "k,a,b\n")
    sql = "SELECT s.d, count(*) AS n FROM raw.s s JOIN raw.h h ON s.d >= h.a AND s.d < h.b GROUP BY s.d"
    valid = "raw.s: {time: d}, raw.h: {valid: {from: a, to: %s, key: [k]}}"
    workshop.model("mart.a", valid % "b", sql)
    plan = workshop.plan("mart.a")
    model: Model = workshop.workspace.project.graph.models["mart.a"]
    assert model.gate_names[-1] == share(plan, "mart.a").gates[-1] == "valid.raw.h"
    workshop.model("mart.a", valid % "c", sql)
    with pytest.raises(ProjectInvalid, match=r"`valid` of the input `raw\.h`: raw\.h has no column `c`"):
        workshop.plan("mart.a")
