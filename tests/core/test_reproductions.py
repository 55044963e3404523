"""Reproductions: which slices, what has expired, and what comes out."""

from __future__ import annotations

from dataclasses import replace

from retcon.core.projects import Catalog, Settings, SparkSettings, as_recorded
from retcon.core.reproductions import Outcome, Reproduction, TriedSlice, drawn, expired_text, reproducible
from retcon.core.runs import RecordedSlice, SliceState
from retcon.core.slices import Grain, SliceSet

DAYS = SliceSet.parse(Grain.DAY, "2026-01-01..2026-01-20")


def recorded(slice: str, checksum: str | None = "x") -> RecordedSlice:
    return RecordedSlice(
        model="mart.a",
        slice=slice,
        wave=1,
        state=SliceState.DONE,
        rows=3,
        bytes=1,
        files=1,
        checksum=checksum,
        old_rows=None,
        old_checksum=None,
        metrics={},
    )


def tried(slice: str, outcome: Outcome, note: str = "") -> TriedSlice:
    return TriedSlice(model="mart.a", slice=slice, outcome=outcome, rows=3, note=note)


def test_only_what_the_run_computed_and_measured_is_tried() -> None:
    slices = [recorded("2026-01-01"), recorded("2026-01-02", None), recorded("2026-01-03")]
    assert reproducible(Grain.DAY, slices, {"2026-01-03"}).text == "2026-01-01"


def test_some_are_drawn_and_the_same_ones_every_time() -> None:
    few = drawn("run_a", "mart.a", DAYS, 5)
    assert len(few) == 5
    assert few & DAYS == few
    assert drawn("run_a", "mart.a", DAYS, 5) == few
    assert any(drawn(f"run_{n}", "mart.a", DAYS, 5) != few for n in range(5))
    assert drawn("run_a", "mart.a", DAYS, 99) == DAYS


def test_what_has_expired_is_named_with_how_long_it_is_kept() -> None:
    assert expired_text(7, "raw.s", {}) == (
        "snapshot 7 of raw.s has expired (it keeps them for 5 days, Iceberg's default: "
        "`history.expire.max-snapshot-age-ms` isn't set)"
    )
    told = {"history.expire.max-snapshot-age-ms": str(36 * 3_600_000)}
    assert "keeps them for 1.5 days, as `history.expire" in expired_text(7, "raw.s", told)
    assert expired_text(7, "raw.s", None) == "raw.s, which was read at snapshot 7, isn't there any more"


def test_the_exit_code_tells_the_worst_and_the_record_holds_counts() -> None:
    same, other = tried("2026-01-01", Outcome.SAME), tried("2026-01-02", Outcome.DIFFERS)
    lost = [tried(f"2026-01-0{n}", Outcome.IMPOSSIBLE, "expired") for n in (3, 4)]
    made = Reproduction(run="r", slices=(same, other, *lost))
    assert made.exit_code == 4
    assert Reproduction(run="r", slices=(same, *lost)).exit_code == 1
    assert Reproduction(run="r", slices=(same,)).exit_code == 0
    assert Reproduction(run="r", slices=()).exit_code == 1
    event = made.event({"mart.a": SliceSet.parse(Grain.DAY, "2026-01-01..2026-01-04")})
    assert (event.tried, event.same, event.impossible) == ({"mart.a": "2026-01-01..2026-01-04"}, 1, 2)
    assert (event.differing, event.why) == ({"mart.a": ("2026-01-02",)}, ("expired",))


def test_the_record_says_why_without_values_of_rows() -> None:
    told = replace(tried("2026-01-03", Outcome.IMPOSSIBLE, "The value 'ada'"), recorded="CAST_INVALID_INPUT")
    gone = tried("2026-01-04", Outcome.IMPOSSIBLE, "gone")
    assert Reproduction(run="run_a", slices=(told, gone)).event({}).why == ("CAST_INVALID_INPUT", "gone")


def test_settings_that_change_results_come_from_the_record_and_the_others_stay() -> None:
    today = {
        "spark.driver.memory": "4g",
        "spark.sql.ansi.enabled": "true",
        "spark.sql.new": "1",
        "spark.sql.secret": "s3cr3t",
        "spark.sql.env": "filled in",
        "spark.sql.catalog.lake.x": "y",
    }
    settings = Settings(
        name="shop",
        root="/",
        catalog=Catalog(name="lake", uri="", warehouse=""),
        spark=SparkSettings(conf=today),
        timezone="UTC",
        params={"a": 1},
    )
    then = {
        "spark.driver.memory": "1g",
        "spark.sql.ansi.enabled": "false",
        "spark.sql.secret": "(hidden)",
        "spark.sql.env": "${VAR}",
    }
    found = as_recorded(settings, timezone="Europe/Berlin", params={"a": 2}, conf=then)
    assert (found.timezone, found.params) == ("Europe/Berlin", {"a": 2})
    assert found.spark.conf == {
        "spark.driver.memory": "4g",
        "spark.sql.ansi.enabled": "false",
        "spark.sql.secret": "s3cr3t",
        "spark.sql.env": "filled in",
        "spark.sql.catalog.lake.x": "y",
    }
