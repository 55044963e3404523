"""Finding what changed in a source that is known by an `updated` column: which rows are looked at, and what follows."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from retcon.core.loads import Found, refusal_of
from retcon.core.projects import Source
from retcon.core.slices import Grain, SliceSet
from retcon.core.updates import SliceRows, Wanted, mark_value
from retcon.core.watermarks import Advance, Mark
from retcon.flow.load import Due
from retcon.flow.plan import Ask
from retcon.wiring import Workspace
from tests.flow.workshops import NOW, Workshop, scope
from tests.ledger.examples import Driver

OPTIONS = "options: {url: 'jdbc:x', dbtable: t}"
MARK = datetime(2026, 1, 21, 9, tzinfo=UTC)


@dataclass
class Rows:
    """A table of a database: when the row of each day was updated."""

    updated: dict[str, datetime] = field(default_factory=dict)
    looks: list[Wanted] = field(default_factory=list)

    def look(self, workspace: Workspace, source: Source, version: int | None, wanted: Wanted) -> tuple[SliceRows, ...]:
        assert (workspace.who, source.name, version) == ("ada", "raw.s", None)
        self.looks.append(wanted)
        assert wanted.cut is Grain.DAY
        found: list[SliceRows] = []
        for text, updated in self.updated.items():
            day = Grain.DAY.parse(text)
            is_within = wanted.within is None or day in wanted.within.ordinals
            if is_within and (wanted.since is None or updated >= wanted.since):
                is_ahead = wanted.until is not None and updated > wanted.until
                newest = None if is_ahead else updated
                checksum = updated.isoformat()
                found.append(
                    SliceRows(first=day, last=day, rows=1, checksum=checksum, newest=newest, ahead=int(is_ahead))
                )
        return tuple(found)


@pytest.fixture
def rows(monkeypatch: pytest.MonkeyPatch) -> Rows:
    held = Rows({f"2026-01-{day:02}": MARK - timedelta(days=30 - day) for day in range(1, 11)})
    monkeypatch.setattr(Workspace, "_look_at_rows", lambda *asked: held.look(*asked))
    return held


@pytest.fixture
def workshop(tmp_path: Path) -> Workshop:
    """Ten days are published, of which nobody knows what they were made of; the watermark is set."""
    workshop = Workshop(tmp_path)
    declare(workshop)
    workshop.model("mart.a", "raw.s: {time: d, lookback: 3}")
    workshop.publish_by_hand("mart.a", "2026-01-01..2026-01-10")
    advance(workshop, "mart.a", MARK)
    return workshop


def declare(workshop: Workshop, more: str = "") -> None:
    workshop.settings(f"sources: {{raw.s: {{format: jdbc, {OPTIONS}, updated: at{more}}}}}")


def advance(workshop: Workshop, model: str, to: datetime) -> None:
    mark = Mark(model=model, input="raw.s", table="raw.s", uuid="", snapshot_id=None, value=mark_value("at", to))
    movements = workshop.ledger.movements()
    step = Advance(mark=mark, after=movements.get((model, "raw.s"), 0))
    workshop.ledger.move_watermarks([step], is_set=True, why="a test", at=NOW, who="ada")


def due(workshop: Workshop, *models: str, exclude: tuple[str, ...] = ()) -> Due:
    ask = Ask(
        select=(), exclude=exclude, reason="a load", command="retcon load", by="ada", now=workshop.now, suffix="load"
    )
    return workshop.workspace.loader.due(models or ("mart.a",), ask)


def find(workshop: Workshop, *models: str) -> list[Found]:
    return workshop.workspace.finder.find(models or ("mart.a",), workshop.now)


def test_a_load_looks_at_rows_since_the_mark_and_then_at_the_slices_that_their_readers_read(
    workshop: Workshop, rows: Rows
) -> None:
    rows.updated["2026-01-11"] = MARK
    found = due(workshop)
    assert found.plan is not None
    assert scope(found.plan) == {"mart.a": "2026-01-11"}
    assert found.found[0].advances == (), "the watermark is there already"
    assert [(each.since, each.within and each.within.text) for each in rows.looks] == [
        (MARK, None),
        (None, "2026-01-08..2026-01-14"),
    ]


def test_where_nothing_is_as_new_nothing_else_is_looked_at_and_the_source_went_back(
    workshop: Workshop, rows: Rows
) -> None:
    (found,) = find(workshop)
    assert list(found.set_back) == ["raw.s"]
    assert (found.stale, found.advances, len(rows.looks)) == (SliceSet(Grain.DAY), (), 1)
    assert due(workshop).plan is None


def test_one_that_went_back_is_left_alone_also_as_a_reader_of_what_is_loaded(workshop: Workshop, rows: Rows) -> None:
    assert rows.updated
    workshop.lake.by_day("raw.other", "2026-01-01..2026-01-11")
    workshop.model("mart.up", "raw.other: {time: d}")
    workshop.model(
        "mart.a", "raw.s: {time: d}, mart.up: {time: d}", "SELECT s.d, 1 AS n FROM raw.s s JOIN mart.up u ON s.d = u.d"
    )
    found = due(workshop, "mart.up", "mart.a")
    assert found.plan is not None
    assert [model.name for model in found.plan.models] == ["mart.up"]
    assert {each.model: bool(each.set_back) for each in found.found} == {"mart.up": False, "mart.a": True}
    narrowed = due(workshop, "mart.up")
    assert narrowed.plan is not None
    assert [model.name for model in narrowed.plan.models] == ["mart.up"], "it isn't restated as a reader, either"
    assert refusal_of(narrowed.found) is not None


def test_the_trailing_window_of_the_model_goes_before_the_mark(workshop: Workshop, rows: Rows) -> None:
    workshop.model("mart.a", keys="replay: {reprocess: 3 days}")
    rows.updated |= {"2026-01-11": MARK, "2026-01-02": MARK - timedelta(days=3)}
    (found,) = find(workshop)
    assert found.stale.text == "2026-01-02, 2026-01-11"
    assert rows.looks[0].since == MARK - timedelta(days=3)


def test_with_a_key_everything_is_looked_at_once(workshop: Workshop, rows: Rows) -> None:
    declare(workshop, ", key: [k]")
    rows.updated["2026-01-11"] = NOW
    found = due(workshop)
    assert found.plan is not None
    assert scope(found.plan) == {"mart.a": "2026-01-11"}
    assert [(each.since, each.within) for each in rows.looks] == [(None, None)]
    assert [a.mark.value for a in found.found[0].advances] == [f"at={NOW.isoformat()}"]


def test_with_a_key_slices_from_before_retcon_are_restated_where_rows_were_updated_since(
    workshop: Workshop, rows: Rows
) -> None:
    declare(workshop, ", key: [k]")
    workshop.model("mart.a")
    rows.updated["2026-01-10"] = MARK
    rows.updated["2026-01-05"] = NOW
    (found,) = find(workshop)
    assert found.stale.text == "2026-01-05, 2026-01-10"
    assert len(rows.looks) == 1


def test_a_reader_that_only_looks_at_what_is_there_moves_no_other_readers_mark_ahead(
    workshop: Workshop, rows: Rows
) -> None:
    """The first of them needs all slices, whenever they were updated."""
    workshop.lake.by_day("raw.o", "2026-01-01..2026-01-11")
    workshop.model(
        "mart.0", "raw.o: {time: d}, raw.s: {time: d, on_change: ignore}",
        "SELECT o.d, count(*) AS n FROM raw.o o JOIN raw.s s ON s.d = o.d GROUP BY o.d",
    )  # fmt: skip
    rows.updated |= {"2026-01-10": MARK, "2026-01-11": datetime(2099, 1, 1, tzinfo=UTC)}
    other, found = find(workshop, "mart.0", "mart.a")
    assert other.stale
    assert found.advances == ()


def test_what_is_ahead_of_its_time_is_loaded_and_the_mark_stays(workshop: Workshop, rows: Rows) -> None:
    rows.updated |= {"2026-01-10": MARK, "2026-01-11": datetime(2099, 1, 1, tzinfo=UTC)}
    (found,) = find(workshop)
    assert "2026-01-11" in found.stale.text
    assert found.advances == ()
    assert found.notes == (
        "raw.s: 1 row with at in the future: loaded, the watermark goes no further than 2026-01-21 09:00:00",
    )


def test_a_clock_that_was_set_back_isnt_a_source_that_went_back(workshop: Workshop, rows: Rows) -> None:
    workshop.model("mart.b")
    advance(workshop, "mart.b", MARK - timedelta(hours=1))
    rows.updated["2026-01-10"] = MARK
    workshop.now = MARK - timedelta(days=1)
    assert [each.set_back for each in find(workshop, "mart.a", "mart.b")] == [{}, {}]
    assert {each.until for each in rows.looks if each.since} == {MARK}


def test_a_reset_goes_back_to_a_day_and_not_forward(workshop: Workshop, rows: Rows) -> None:
    model = workshop.workspace.project.graph.models["mart.a"]
    watermarks = workshop.workspace.watermarks
    watermarks.reset(model, datetime(2026, 1, 15).date(), "a test", only=None, at=NOW, who="ada")
    assert workshop.ledger.watermarks()["mart.a", "raw.s"].mark.value == "at=2026-01-16T00:00:00+00:00"
    with pytest.raises(Exception, match="only loads move it forward"):
        watermarks.reset(model, datetime(2026, 1, 20).date(), "a test", only=None, at=NOW, who="ada")
    assert not rows.looks


def test_other_models_of_the_same_turn_share_what_was_seen(workshop: Workshop, rows: Rows) -> None:
    workshop.model("mart.b", "raw.s: {time: d, lookback: 3}")
    rows.updated["2026-01-11"] = MARK
    a, b = find(workshop, "mart.a", "mart.b")
    assert (a.stale.text, b.stale.text) == ("2026-01-11", "2026-01-04..2026-01-11")
    assert [(each.since, each.within and each.within.text) for each in rows.looks] == [
        (MARK, None),
        (None, "2026-01-08..2026-01-14"),
        (None, None),
    ], "the second was never loaded: it needs all"


def test_how_fresh_a_model_is_that_reads_it_is_told_without_looking_at_rows(workshop: Workshop, rows: Rows) -> None:
    workshop.model("mart.b", "mart.a: {time: d}")
    published = {name: SliceSet.parse(Grain.DAY, "2026-01-01..2026-01-10") for name in ("mart.a", "mart.b")}
    found = workshop.workspace.freshener.freshness(published, workshop.now)
    assert found["mart.a"].unknown == "raw.s is known by its rows: `retcon load --dry-run` looks at them"
    assert found["mart.b"].unknown == ""
    assert rows.looks == []


def test_what_is_excluded_is_not_restated_as_a_reader_either(workshop: Workshop, rows: Rows) -> None:
    rows.updated["2026-01-10"] = MARK
    workshop.lake.by_day("raw.other", "2026-01-01..2026-01-11")
    workshop.model("mart.up", "raw.other: {time: d}")
    workshop.model(
        "mart.a", "raw.s: {time: d}, mart.up: {time: d}", "SELECT s.d, 1 AS n FROM raw.s s JOIN mart.up u ON s.d = u.d"
    )
    for exclude, planned in (((), ["mart.up", "mart.a"]), (("mart.a",), ["mart.up"])):
        found = due(workshop, "mart.up", exclude=exclude)
        assert found.plan is not None
        assert [model.name for model in found.plan.models] == planned
        assert refusal_of(found.found) is None


def test_a_day_that_begins_between_the_look_and_the_publish_is_built(workshop: Workshop, rows: Rows) -> None:
    midnight = datetime(2026, 1, 23, tzinfo=UTC)
    workshop.now = midnight - timedelta(minutes=10)
    workshop.model("mart.a", "raw.s: {time: d}")
    rows.updated |= {"2026-01-11": MARK + timedelta(hours=1), "2026-01-23": MARK - timedelta(days=1)}
    plan = due(workshop).plan
    assert plan is not None
    assert scope(plan) == {"mart.a": "2026-01-11"}
    driver = Driver(workshop.ledger, plan, at=midnight + timedelta(minutes=10))
    driver.begin_publish()
    driver.publish()
    workshop.now = midnight + timedelta(hours=1)
    workshop.settings(f"sources: {{raw.s: {{format: jdbc, {OPTIONS}, updated: at}}}}")
    (found,) = find(workshop)
    assert "2026-01-23" in {slice.label for slice in found.stale}
