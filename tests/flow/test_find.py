"""What a load finds, and how far watermarks may move: nothing that came is ever passed by."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.typedef import Record

from retcon.core.events import Published
from retcon.core.exceptions import Decision
from retcon.core.loads import NEVER_BUILT, Found, refusal_of
from retcon.core.plans import Plan
from retcon.core.slices import Slice
from retcon.core.watermarks import Advance
from retcon.errors import Refused
from retcon.flow.load import Due
from retcon.flow.plan import Ask
from tests.flow.detecting import MODEL, SOURCE, _consumed, a_load, mark_of
from tests.flow.workshops import NOW, Workshop, scope
from tests.lakehouse.lakes import days, entry
from tests.ledger.examples import Driver

FIRST, LAST = "2026-01-01", "2026-01-20"


@pytest.fixture
def workshop(tmp_path: Path) -> Workshop:
    """Twenty days, loaded once."""
    made = Workshop(tmp_path)
    made.lake.by_day(SOURCE, f"{FIRST}..{LAST}")
    made.model(MODEL)
    a_load(made, made.plan(MODEL, start=FIRST, end=LAST))
    made.publish_by_hand(MODEL, f"{FIRST}..{LAST}")
    return made


def add(workshop: Workshop, *labels: str) -> None:
    """One commit with a file in each of these days."""
    ordinals = (days(label).ordinals[0] for label in labels)
    workshop.lake.add(SOURCE, *(entry(o, Record(o), rows=5, low=o, high=o) for o in ordinals))
    workshop._workspace = None  # as in a later process


def rewritten(workshop: Workshop, label: str) -> None:
    """The files of a day as one, as a compaction does it."""
    ordinal = days(label).ordinals[0]
    table = workshop.lake.table(SOURCE)
    old = [task.file for task in table.scan().plan_files() if task.file.partition[0] == ordinal]
    with table.transaction() as transaction, transaction.update_snapshot().overwrite() as rewrite:
        for file in old:
            rewrite.delete_data_file(file)
        new = entry(ordinal, Record(ordinal), rows=sum(f.record_count for f in old), low=ordinal, high=ordinal)
        new.spec_id = 0
        rewrite.append_data_file(new)

    def as_replace(metadata: dict[str, Any]) -> None:
        metadata["snapshots"][-1]["summary"]["operation"] = "replace"

    workshop.lake.rewrite(SOURCE, as_replace)


def find(workshop: Workshop) -> Found:
    workshop._workspace = None
    (found,) = workshop.workspace.finder.find((MODEL,), workshop.now)
    return found


def due(workshop: Workshop) -> Due:
    workshop._workspace = None
    ask = Ask(select=(), reason="a load", command="retcon load", by="ada", now=workshop.now, suffix="load")
    return workshop.workspace.loader.due((MODEL,), ask)


def publish(workshop: Workshop, plan: Plan) -> Driver:
    driver = Driver(workshop.ledger, plan, at=NOW)
    driver.begin_publish()
    slices: list[Slice] = [slice for planned in plan.models for slice in planned.slices]
    consumed = tuple(_consumed(workshop, slice) for slice in slices)
    driver.publish(event=Published(snapshots={MODEL: 301}, consumed=consumed))
    return driver


def test_rows_of_a_day_that_has_not_begun_are_built_once_it_has(workshop: Workshop) -> None:
    add(workshop, "2026-01-23")
    early = find(workshop)
    assert not early.stale
    assert [step.mark.snapshot_id for step in early.advances] == [mark_of(workshop).snapshot_id]
    workshop.workspace.loader.advance(Due(found=(early,), plan=None, advances=early.advances), NOW, "ada")
    again = find(workshop)
    assert (again.stale.text, again.advances) == ("", ()), "it is still the day before"
    workshop.now = NOW + timedelta(days=1)
    assert find(workshop).stale.text == "2026-01-23"
    # A change of another day comes with it.
    add(workshop, "2026-01-05")
    assert find(workshop).stale.text == "2026-01-05, 2026-01-23"


def test_a_first_load_in_several_publishes_builds_all_of_a_history_that_is_longer_than_the_window(
    tmp_path: Path,
) -> None:
    workshop = Workshop(tmp_path)
    workshop.settings("limits: {slices: 12}")
    workshop.lake.by_day(SOURCE, f"{FIRST}..{LAST}")
    workshop.model(MODEL, keys="replay: {window: 5 days}")
    first = due(workshop)
    assert first.plan is not None
    assert (scope(first.plan), first.left) == ({MODEL: "2026-01-01..2026-01-10"}, 10)
    publish(workshop, first.plan)
    workshop.publish_by_hand(MODEL, "2026-01-01..2026-01-10")
    second = due(workshop)
    assert second.plan is not None
    assert scope(second.plan) == {MODEL: "2026-01-11..2026-01-20"}
    assert not second.found[0].late


def test_a_row_of_an_old_day_that_was_never_built_is_late_once_the_history_is(workshop: Workshop) -> None:
    workshop.model(MODEL, keys="replay: {window: 5 days}")
    add(workshop, "2025-12-24")
    found = find(workshop)
    assert (found.stale.text, found.late.text) == ("", "2025-12-24")


def test_a_chain_behind_a_held_slice_is_not_consumed(tmp_path: Path) -> None:
    workshop = Workshop(tmp_path)
    workshop.lake.by_day(SOURCE, "2026-01-01..2026-01-10")
    workshop.model(
        MODEL,
        f"{SOURCE}: {{time: d}}, {MODEL}: {{time: d, lookback: 1}}",
        f"SELECT :start_date AS d, sum(n) AS n FROM (SELECT n FROM {SOURCE} UNION ALL SELECT n FROM {MODEL})",
        keys="replay: {order: sequential}\ncolumns: {d: date, n: bigint}",
    )
    a_load(workshop, workshop.plan(MODEL, start="2026-01-01", end="2026-01-10"))
    workshop.publish_by_hand(MODEL, "2026-01-01..2026-01-10")
    publish(workshop, workshop.plan(MODEL, start="2026-01-09", end="2026-01-10")).roll_back()
    add(workshop, "2026-01-05")
    found = due(workshop)
    assert found.plan is None
    assert (found.found[0].held.text, found.advances) == ("2026-01-05", ())


def test_slices_from_before_retcon_are_named_where_nothing_tells_whether_they_changed(tmp_path: Path) -> None:
    workshop = Workshop(tmp_path)
    workshop.lake.by_day(SOURCE, f"{FIRST}..{LAST}")
    workshop.model(MODEL)
    workshop.publish_by_hand(MODEL, f"{FIRST}..{LAST}")
    expired = replace(mark_of(workshop), snapshot_id=4711)
    workshop.ledger.move_watermarks([Advance(mark=expired, after=0)], is_set=True, why="a load", at=NOW, who="ada")
    found = find(workshop)
    assert not found.stale
    assert any("was there before retcon" in note and SOURCE in note for note in found.notes)


@pytest.mark.parametrize(
    "source", ["format: parquet, path: data", "format: jdbc, options: {url: 'jdbc:x', dbtable: t}"]
)
def test_where_no_input_tells_its_slices_all_since_the_start_are_built_once_they_are_over(
    tmp_path: Path, source: str
) -> None:
    workshop = Workshop(tmp_path)
    workshop.settings(f"sources: {{{SOURCE}: {{{source}}}}}")
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "a.parquet").write_bytes(b"some")
    workshop.model(MODEL)
    found = find(workshop)
    assert (found.stale.text, found.advances) == ("", ())
    assert found.notes == (
        f"{MODEL}: its inputs don't tell which slices there are: with `slices.start` loads build them",
    )
    workshop.model(MODEL, slices="by: d, start: 2026-01-15")
    assert find(workshop).stale.text == "2026-01-15..2026-01-21"


def test_days_are_built_though_no_change_is_followed(workshop: Workshop) -> None:
    workshop.model(MODEL, f"{SOURCE}: {{time: d, on_change: ignore}}")
    assert not find(workshop).stale
    add(workshop, "2026-01-05", "2026-01-21", "2026-01-22")
    assert dict(find(workshop).why) == {NEVER_BUILT: days("2026-01-21")}, "the 5th is there, the 22nd isn't over"


def test_a_source_that_is_gone_is_told_and_its_readers_are_left_alone(workshop: Workshop) -> None:
    workshop.lake.catalog.drop_table(SOURCE)
    found = due(workshop)
    assert (found.plan, found.advances) == (None, ())
    refused = refusal_of(found.found)
    assert isinstance(refused, Refused)
    assert f"{SOURCE} is not there" in refused.message
    assert MODEL in str(refused.state)


def test_the_last_day_of_the_calendar_ends_no_load(workshop: Workshop) -> None:
    workshop.model(MODEL, f"{SOURCE}: {{time: d, lookback: 1}}")
    add(workshop, "9999-12-31", "2026-01-05")
    assert find(workshop).stale.text == "2026-01-05..2026-01-06"


def test_a_movement_that_comes_while_a_load_looks_stays(workshop: Workshop) -> None:
    add(workshop, "2026-01-05")
    finder = workshop.workspace.finder
    real = finder._records.ledger.watermarks
    finder._records.ledger.watermarks = lambda: (  # type: ignore[method-assign]
        known := real(),
        workshop.ledger.move_watermarks(
            [Advance(mark=mark_of(workshop), after=known[MODEL, SOURCE].entry)], is_set=False, why="x", at=NOW, who="b"
        ),
    )[0]
    (found,) = finder.find((MODEL,), NOW)
    workshop.workspace.loader.advance(Due(found=(found,), plan=None, advances=found.advances), NOW, "ada")
    assert (MODEL, SOURCE) not in real(), "it was reset meanwhile"


def test_a_watermark_whose_snapshot_has_expired_is_not_set_to_a_moment(workshop: Workshop) -> None:
    add(workshop, "2026-01-05")
    for snapshot, told in ((4711, "has expired"), (None, "only loads move it forward")):
        mark = replace(mark_of(workshop), snapshot_id=snapshot)
        step = Advance(mark=mark, after=workshop.ledger.movements()[MODEL, SOURCE])
        workshop.ledger.move_watermarks([step], is_set=True, why="a test", at=NOW, who="ada")
        model = workshop.workspace.project.graph.models[MODEL]
        with pytest.raises(Refused, match=told):
            workshop.workspace.watermarks.reset(model, datetime.now(UTC).date(), "a test", only=None, at=NOW, who="ada")


def test_a_day_that_another_input_lacks_when_it_begins_waits_for_it(workshop: Workshop) -> None:
    workshop.lake.by_day("raw.rates", f"{FIRST}..2026-01-22")
    workshop.model(
        MODEL,
        f"{SOURCE}: {{time: d}}, raw.rates: {{time: d, on_change: ignore}}",
        f"SELECT s.d, count(*) AS n FROM {SOURCE} s JOIN raw.rates r ON r.d = s.d GROUP BY s.d",
    )
    add(workshop, "2026-01-23")
    early = find(workshop)
    workshop.workspace.loader.advance(Due(found=(early,), plan=None, advances=early.advances), NOW, "ada")
    workshop.now = NOW + timedelta(days=1)
    lacking = find(workshop)
    assert (lacking.stale.text, {t: s.text for t, s in lacking.waiting.items()}) == ("", {"raw.rates": "2026-01-23"})
    assert lacking.advances == (), "else nothing would tell of it any more"
    workshop.lake.append("raw.rates", "2026-01-23")
    assert find(workshop).stale.text == "2026-01-23"


def test_what_only_reads_what_is_loaded_is_left_alone_where_another_of_its_sources_is_gone(workshop: Workshop) -> None:
    workshop.lake.by_day("raw.other", f"{FIRST}..{LAST}")
    workshop.model(
        "mart.reader",
        f"{MODEL}: {{time: d}}, raw.other: {{time: d}}",
        f"SELECT a.d, a.n FROM {MODEL} a JOIN raw.other o ON a.d = o.d",
    )
    workshop.publish_by_hand("mart.reader", f"{FIRST}..{LAST}")
    workshop.lake.catalog.drop_table("raw.other")
    add(workshop, "2026-01-05")
    found = due(workshop)
    assert found.plan is not None
    assert scope(found.plan) == {MODEL: "2026-01-05"}
    refused = refusal_of(found.found)
    assert refused is not None
    assert "raw.other is not there" in refused.message


def test_what_was_rejected_does_not_come_back_because_files_are_rewritten(workshop: Workshop) -> None:
    workshop.model(MODEL, keys="replay: {window: 5 days}")
    add(workshop, "2026-01-05")
    late = find(workshop).exceptions
    assert [each.slice for each in late] == ["2026-01-05"]
    workshop.ledger.move_watermarks([], late, is_set=True, why="a test", at=NOW, who="ada")
    workshop.ledger.decide(workshop.ledger.exceptions(), Decision.REJECTED, at=NOW, by="cfo", reason="audited")
    assert not find(workshop).exceptions
    rewritten(workshop, "2026-01-05")
    assert not find(workshop).exceptions, "the same rows in another file"
    add(workshop, "2026-01-05")
    assert [each.slice for each in find(workshop).exceptions] == ["2026-01-05"]


def test_what_differs_is_told_as_of_one_moment_whatever_lands_meanwhile(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    add(workshop, "2026-01-05")
    finder, ledger = workshop.workspace.finder, workshop.workspace.ledger
    workshop._workspace = None  # another process
    plan = workshop.plan(MODEL, start="2026-01-05", end="2026-01-05")
    real = ledger.standing_consumption

    def after_a_load(name: str) -> Any:
        monkeypatch.setattr(ledger, "standing_consumption", real)
        a_load(workshop, plan)
        return real(name)

    monkeypatch.setattr(ledger, "standing_consumption", after_a_load)
    [stale] = finder.stale((MODEL,), NOW)
    assert stale.slices.text == "2026-01-05"
    [stale] = finder.stale((MODEL,), NOW)
    assert not stale.slices
