"""The doctor over real tables and a real ledger, without a JVM."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from pyiceberg.table import Table
from pyiceberg.types import LongType

from retcon.core.chains import first_broken_link
from retcon.core.events import Paused, PublishBegan, Published, StagingDone, TablesOpened
from retcon.core.intents import Intent
from retcon.core.leases import Driver
from retcon.core.plans import Plan, branch_of, tag_before
from retcon.core.runs import Run, RunState
from retcon.core.troubles import Trouble, TroubleKind
from retcon.errors import Refused
from retcon.flow.apply import open_run
from retcon.flow.cancel import cancel
from retcon.flow.doctor import Checkup
from retcon.flow.publish import publish
from retcon.flow.rollback import roll_back
from retcon.flow.unrecorded import require_recorded
from retcon.processes import this_process
from tests.backups import saved_ledger
from tests.flow.test_publish import Swaps, context_of, proven
from tests.flow.workshops import Workshop

K = TroubleKind
DAYS = [f"2026-01-{day:02}" for day in range(1, 21)]
SLICES = "2026-01-03..2026-01-05"


@pytest.fixture
def workshop(tmp_path: Path) -> Workshop:
    """A table whose files are really there."""
    workshop = Workshop(tmp_path).shop()
    workshop.publish_by_hand("mart.a", "")
    workshop.lake.append("mart.a", *DAYS)
    return workshop


def examine(workshop: Workshop, *, repair: bool = False, all_files: bool = False) -> Checkup:
    doctor = workshop.workspace.doctor(lambda _: None)
    return doctor.examine(repair=repair, all_files=all_files, watch=lambda _: None)


def troubles(workshop: Workshop) -> list[tuple[TroubleKind, str, str]]:
    return [(each.kind, each.table, each.run) for each in examine(workshop).troubles]


def only(workshop: Workshop) -> Trouble:
    (trouble,) = examine(workshop).troubles
    return trouble


def table(workshop: Workshop) -> Table:
    return workshop.lake.table("mart.a")


def staged(workshop: Workshop) -> Run:
    """A proven run, with a commit on its branch."""
    run = proven(workshop)
    base = workshop.lake.current("mart.a")
    assert base is not None
    table(workshop).manage_snapshots().create_branch(base, run.plan.branch).commit()
    workshop.lake.append("mart.a", "2026-01-04", branch=run.plan.branch, retcon__run=run.id, retcon__wave="1")
    return run


def on_main(workshop: Workshop, run: str, slices: str = SLICES) -> int:
    """The publish of a run as the table knows it, with the tag from before."""
    before = workshop.lake.current("mart.a")
    assert before is not None
    table(workshop).manage_snapshots().create_tag(before, tag_before(run)).commit()
    return workshop.lake.append("mart.a", "2026-01-04", retcon__run=run, retcon__slices=slices)


def published(workshop: Workshop) -> Run:
    """A run that the table and the ledger know to be published."""
    run = staged(workshop)
    snapshot = on_main(workshop, run.id)
    workshop.ledger.record(run.id, PublishBegan(locations={}), at=workshop.now, who="ada")
    event = Published(snapshots={"mart.a": snapshot}, consumed=())
    return workshop.ledger.publish(run.id, event, [], at=workshop.now, who="ada")


def known(workshop: Workshop, run: str) -> Run:
    found = workshop.ledger.run(run)
    assert found is not None
    return found


# ── nothing is wrong ──────────────────────────────────────────────────────────────────────────────────────────────


def test_a_project_without_a_ledger_or_a_table_has_no_trouble(tmp_path: Path) -> None:
    workshop = Workshop(tmp_path)
    workshop.model("mart.a")
    assert examine(workshop) == Checkup(troubles=(), runs=0, tables=0, files=0, files_left=0)
    assert examine(workshop, repair=True).repaired == ()
    assert not (tmp_path / ".retcon" / "lake.db").exists(), "looking makes nothing"


def test_runs_in_every_usual_state_are_no_trouble(workshop: Workshop) -> None:
    published(workshop)
    waiting = staged(workshop)
    assert troubles(workshop) == []
    workshop.ledger.record(waiting.id, Paused(why="lunch"), at=workshop.now, who="ada")
    found = examine(workshop)
    assert found.troubles == ()
    assert (found.runs, found.tables, found.files_left) == (2, 1, 0)
    assert found.files > 20
    workshop.now += timedelta(days=99)
    assert troubles(workshop) == []


# ── runs ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_record_that_was_changed_is_named_and_left_as_it_is(workshop: Workshop) -> None:
    run = published(workshop)
    with closing(sqlite3.connect(workshop.lake.file)) as database, database:
        database.execute("UPDATE retcon_events SET who = 'nobody' WHERE run_id = ? AND number = 2", (run.id,))
    for found in (examine(workshop), examine(workshop, repair=True)):
        assert [(each.kind, each.run, each.repair) for each in found.troubles] == [(K.BROKEN_CHAIN, run.id, "")]
        assert "from event 2 on" in found.troubles[0].what
        assert found.repaired == ()
    with closing(sqlite3.connect(workshop.lake.file)) as database, database:
        database.execute("DELETE FROM retcon_events WHERE run_id = ?", (run.id,))
    assert "from event 1 on (0 events)" in only(workshop).what


def test_a_run_that_nobody_works_on_any_more_is_told_with_its_last_word(workshop: Workshop) -> None:
    plan = workshop.plan("mart.a", start="2026-01-03", end="2026-01-05")
    w = workshop.workspace
    run = open_run(plan, w.project, w.ledger, w.tables, w.clock, "ada")
    begun = TablesOpened(tables=(), pins={}, run_ts=workshop.now.isoformat())
    workshop.ledger.record(run.id, begun, at=workshop.now, who="ada")
    assert troubles(workshop) == [(K.NO_DRIVER, "", run.id)]
    assert "its last word is of 2026-01-22 12:00 UTC" in only(workshop).what
    assert f"retcon apply {run.id}" in only(workshop).remedy
    token = workshop.ledger.take_lease(run.id, this_process("ada"), over=None, seconds=60)
    assert token is not None
    assert troubles(workshop) == []
    workshop.ledger.renew_lease(run.id, token, seconds=0)
    dead = Driver(who="ada", host=this_process("ada").host, pid=2**22 + 1, began="")
    workshop.ledger.take_lease(run.id, dead, over=None, seconds=60)
    assert troubles(workshop) == [(K.NO_DRIVER, "", run.id)], "its process is gone"
    workshop.ledger.record(run.id, StagingDone(), at=workshop.now, who="ada")
    assert troubles(workshop) == [], "between two steps somebody may have stopped on purpose"


def test_branches_and_tags_without_a_run_are_told_together(workshop: Workshop) -> None:
    base = workshop.lake.current("mart.a")
    assert base is not None
    lost = "20260101_a_x1y2"
    manage = table(workshop).manage_snapshots().create_branch(base, branch_of(lost)).create_branch(base, "theirs")
    manage.create_tag(base, tag_before(lost)).commit()
    assert troubles(workshop) == [(K.NO_RUN, "mart.a", lost)]
    assert f"branch retcon_{lost}" in only(workshop).what
    assert f"tag retcon_before_{lost}" in only(workshop).what


def test_a_run_whose_branch_is_gone_is_told(workshop: Workshop) -> None:
    run = staged(workshop)
    workshop.workspace.tables.drop_branch("mart.a", run.plan.branch)
    assert troubles(workshop) == [(K.LOST_BRANCH, "mart.a", run.id)]
    assert f"retcon cancel {run.id}" in only(workshop).remedy


def test_a_publish_whose_version_from_before_is_gone_is_told_until_its_retention_ends(workshop: Workshop) -> None:
    run = published(workshop)
    metadata = table(workshop).metadata
    before = metadata.refs[tag_before(run.id)].snapshot_id
    table(workshop).manage_snapshots().remove_tag(tag_before(run.id)).remove_branch(branch_of(run.id)).commit()
    assert troubles(workshop) == [], "the snapshot itself is there"
    table(workshop).maintenance.expire_snapshots().by_id(before).commit()
    assert troubles(workshop) == [(K.LOST_VERSION, "mart.a", run.id)]
    workshop.now += timedelta(days=15)
    assert troubles(workshop) == []


# ── a ledger that knows less than the tables ──────────────────────────────────────────────────────────────────────


def refusals(workshop: Workshop, plan: Plan, proven: Run | None = None) -> list[str]:
    """What is refused while the tables know more: a new run, and the publish of one that was ready for it."""
    w = workshop.workspace
    found: list[str] = []
    with pytest.raises(Refused) as refused:
        open_run(plan, w.project, w.ledger, w.tables, w.clock, "ada")
    found.append(refused.value.message)
    assert "retcon doctor" in refused.value.next
    if proven is not None:
        with pytest.raises(Refused) as refused:
            publish(proven, context_of(workshop, Swaps(workshop)))
        found.append(refused.value.message)
    return found


def test_a_ledger_restored_from_before_a_publish_refuses_until_it_is_repaired(workshop: Workshop) -> None:
    run = staged(workshop)
    restore = saved_ledger(workshop.lake.file, workshop.root / "backup.db")
    snapshot = on_main(workshop, run.id)
    workshop.ledger.record(run.id, PublishBegan(locations={}), at=workshop.now, who="ada")
    event = Published(snapshots={"mart.a": snapshot}, consumed=())
    workshop.ledger.publish(run.id, event, [], at=workshop.now, who="ada")
    workshop.workspace.close()
    restore()
    assert known(workshop, run.id).state is RunState.PROVEN
    other = workshop.plan("mart.a", start="2026-01-10", end="2026-01-10", force=True)
    told = f"run {run.id} was published (snapshot {snapshot} of mart.a); the ledger has it as proven"
    assert all(told in message for message in refusals(workshop, other, known(workshop, run.id)))
    with pytest.raises(Refused, match="the tables know more"):
        cancel(known(workshop, run.id), "", workshop.ledger, workshop.workspace.tables, clock=lambda: workshop.now,
               who="ada")  # fmt: skip
    assert branch_of(run.id) in table(workshop).metadata.refs, "an old Iceberg would delete what main holds"
    trouble = only(workshop)
    assert (trouble.kind, trouble.table, trouble.run) == (K.LEDGER_BEHIND, "mart.a", run.id)
    assert trouble.what == told
    before = table(workshop).metadata_location

    found = examine(workshop, repair=True)
    assert (found.troubles, [each.run for each in found.repaired]) == ((), [run.id])
    assert table(workshop).metadata_location == before, "no table is changed"
    rebuilt = known(workshop, run.id)
    assert (rebuilt.state, rebuilt.kind) == (RunState.PUBLISHED, "backfill")
    assert rebuilt.tables["mart.a"].published_snapshot == snapshot
    last = workshop.ledger.events(run.id)[-1]
    assert (last.kind, last.who, last.body["source"]) == ("Rebuilt", "ada", "the ledger")
    (status,) = workshop.workspace.statuses.status(("mart.a",))
    assert (status.unknown.text, status.slices.text) == (SLICES, "")
    assert open_run(other, workshop.workspace.project, workshop.ledger, workshop.workspace.tables,
                    workshop.workspace.clock, "ada").state is RunState.PLANNED  # fmt: skip
    undone = roll_back(rebuilt, "wrong after all", context_of(workshop, Swaps(workshop)))
    assert undone.run.state is RunState.ROLLED_BACK
    assert examine(workshop, repair=True).repaired == ()


@pytest.mark.parametrize("has_opened", [True, False])
def test_what_a_lost_publish_left_alone_is_no_part_of_it(workshop: Workshop, has_opened: bool) -> None:
    workshop.publish_by_hand("mart.b", "")
    workshop.lake.append("mart.b", *DAYS)
    asked = workshop.plan("mart.a", "mart.b", start="2026-01-03", end="2026-01-05")
    # As `plan --changed` has it: what comes out as it was isn't published.
    plan = replace(asked, request=replace(asked.request, changed=True))
    if has_opened:
        proven(workshop, plan)
    else:
        w = workshop.workspace
        open_run(plan, w.project, workshop.ledger, w.tables, w.clock, "ada")
    snapshot = on_main(workshop, plan.id, slices="2026-01-04")

    assert len(examine(workshop, repair=True).repaired) == 1
    assert troubles(workshop) == []
    rebuilt = known(workshop, plan.id)
    assert {name: (each.published_snapshot, each.same) for name, each in rebuilt.tables.items()} == {
        "mart.a": (snapshot, ("2026-01-03", "2026-01-05")),
        "mart.b": (None, ("2026-01-03", "2026-01-04", "2026-01-05")),
    }
    statuses = workshop.workspace.statuses.status(("mart.a", "mart.b"))
    assert [status.unknown.text for status in statuses] == ["2026-01-04", ""]
    undone = roll_back(rebuilt, "wrong after all", context_of(workshop, Swaps(workshop)))
    assert [way.table for way in undone.ways] == ["mart.a"]
    assert workshop.ledger.held_slices("mart.a") == {"2026-01-04"}


def test_a_table_that_may_have_had_a_publish_before_its_history_expired_isnt_rolled_back(workshop: Workshop) -> None:
    workshop.publish_by_hand("mart.b", "")
    first = workshop.lake.append("mart.b", *DAYS)
    asked = workshop.plan("mart.a", "mart.b", start="2026-01-03", end="2026-01-05")
    plan = replace(asked, request=replace(asked.request, changed=True))
    w = workshop.workspace
    open_run(plan, w.project, workshop.ledger, w.tables, w.clock, "ada")
    on_main(workshop, plan.id)
    workshop.lake.append("mart.b", "2026-01-19")
    workshop.lake.table("mart.b").maintenance.expire_snapshots().by_id(first).commit()

    assert len(examine(workshop, repair=True).repaired) == 1
    assert troubles(workshop) == []
    with pytest.raises(Refused, match=rf"which snapshot of mart\.b run {plan.id} published isn't known any more"):
        roll_back(known(workshop, plan.id), "wrong after all", context_of(workshop, Swaps(workshop)))


@pytest.mark.parametrize("has_file", [False, True])
def test_a_ledger_that_was_lost_is_rebuilt_from_the_snapshots(workshop: Workshop, has_file: bool) -> None:
    run = published(workshop)
    if has_file:
        workshop.workspace.write_plan(run.plan)
    workshop.workspace.close()
    with closing(sqlite3.connect(workshop.lake.file)) as database, database:
        for (name,) in database.execute("SELECT name FROM sqlite_master WHERE name LIKE 'retcon%'").fetchall():
            if not name.endswith(("model", "slice", "number")):
                database.execute(f"DROP TABLE IF EXISTS {name}")
    assert workshop.workspace.ledger.runs() == []
    assert "doesn't know this run" in only(workshop).what
    refusals(workshop, workshop.plan("mart.a", start="2026-01-10", end="2026-01-10"))

    workshop.now += timedelta(days=1)
    assert examine(workshop, repair=True).troubles == ()
    rebuilt = known(workshop, run.id)
    assert (rebuilt.kind, rebuilt.state, rebuilt.by) == ("rebuilt", RunState.PUBLISHED, "ada")
    assert [model.slices.text for model in rebuilt.plan.models] == [SLICES]
    assert (rebuilt.plan == run.plan) is has_file
    (event,) = workshop.ledger.events(run.id)
    assert event.kind == "Rebuilt"
    assert event.body["source"] == (f"backfills/{run.id}.yaml" if has_file else "the snapshots' summaries")
    assert first_broken_link([event]) is None
    assert workshop.workspace.teller.show_run(rebuilt).old_version == tag_before(run.id)
    assert troubles(workshop) == []


def test_a_rollback_that_the_ledger_lost_is_found_by_its_mark(workshop: Workshop) -> None:
    run = published(workshop)
    workshop.lake.append("mart.a", "2026-01-04", retcon__rollback=run.id, retcon__slices=SLICES)
    assert "taken back since in mart.a; the ledger has it as published" in only(workshop).what
    assert examine(workshop, repair=True).troubles == ()
    rebuilt = known(workshop, run.id)
    assert rebuilt.state is RunState.ROLLED_BACK
    assert workshop.ledger.last_published(("mart.a",)) == {}


def test_main_that_was_moved_back_past_a_publish_is_found(workshop: Workshop) -> None:
    run = published(workshop)
    before = table(workshop).metadata.refs[tag_before(run.id)].snapshot_id

    def move_back(metadata: dict) -> None:  # type: ignore[type-arg]
        metadata["current-snapshot-id"] = metadata["refs"]["main"]["snapshot-id"] = before

    workshop.lake.rewrite("mart.a", move_back)
    assert troubles(workshop) == [(K.LEDGER_BEHIND, "mart.a", run.id)]
    assert examine(workshop, repair=True).troubles == ()
    assert known(workshop, run.id).state is RunState.ROLLED_BACK


@pytest.mark.parametrize("is_lost", [False, True])
def test_history_that_expired_after_a_publish_doesnt_take_it_back(workshop: Workshop, is_lost: bool) -> None:
    run = staged(workshop) if is_lost else published(workshop)
    if is_lost:
        on_main(workshop, run.id)
    kept, later = workshop.lake.current("mart.a"), workshop.lake.append("mart.a", "2026-01-18")
    assert kept is not None
    workshop.lake.append("mart.a", "2026-01-19")
    table(workshop).manage_snapshots().create_tag(kept, "somebodys").commit()
    # Pyiceberg leaves what stood on it without a parent, and the log of what main was as it is.
    table(workshop).maintenance.expire_snapshots().by_id(later).commit()
    examine(workshop, repair=True)
    assert troubles(workshop) == []
    assert known(workshop, run.id).state is RunState.PUBLISHED
    assert workshop.ledger.held_slices("mart.a") == set()


def test_what_doesnt_say_which_slices_is_told_and_not_guessed(workshop: Workshop) -> None:
    on_main(workshop, "20260101_a_x1y2", slices="")
    trouble = only(workshop)
    assert (trouble.kind, trouble.repair) == (K.LEDGER_BEHIND, "")
    assert "which slices of mart.a it replaced can't be told" in trouble.means
    assert examine(workshop, repair=True).repaired == ()


def test_a_run_that_a_process_works_on_isnt_repaired(workshop: Workshop) -> None:
    run = staged(workshop)
    on_main(workshop, run.id)
    workshop.ledger.take_lease(run.id, this_process("ada"), over=None, seconds=60)
    found = examine(workshop, repair=True)
    assert found.repaired == ()
    assert "works on it" in found.troubles[0].means
    assert known(workshop, run.id).state is RunState.PROVEN


def test_a_name_in_a_summary_that_no_run_can_have_is_nobodys(workshop: Workshop) -> None:
    workshop.lake.append("mart.a", "2026-01-04", retcon__run="../../etc/x.yaml", retcon__slices=SLICES)
    assert troubles(workshop) == []


def test_publishes_are_rebuilt_in_the_order_in_which_they_happened(workshop: Workshop) -> None:
    for name in ("20260101_a_zzzz", "20260102_a_aaaa"):
        on_main(workshop, name)
    assert len(examine(workshop, repair=True).repaired) == 2
    assert workshop.ledger.last_published(("mart.a",))["mart.a"].id == "20260102_a_aaaa"


# ── tables that know less than the ledger ─────────────────────────────────────────────────────────────────────────


def test_a_table_that_was_restored_or_made_again_is_told(workshop: Workshop) -> None:
    run = published(workshop)
    old = table(workshop).metadata_location
    workshop.lake.catalog.drop_table("mart.a")
    assert troubles(workshop) == [(K.LEDGER_AHEAD, "mart.a", run.id)]
    assert "isn't there" in only(workshop).what
    workshop.publish_by_hand("mart.a", "")
    assert "dropped and made again" in only(workshop).what
    workshop.lake.catalog.drop_table("mart.a")
    workshop.lake.catalog.register_table("mart.a", old)
    assert troubles(workshop) == []


def test_a_table_from_before_the_publish_is_told_and_an_expired_publish_isnt(workshop: Workshop) -> None:
    before = table(workshop).metadata_location
    run = published(workshop)
    table(workshop).manage_snapshots().remove_tag(tag_before(run.id)).remove_branch(branch_of(run.id)).commit()
    workshop.lake.append("mart.a", "2026-01-19")
    snapshot = run.tables["mart.a"].published_snapshot
    assert snapshot is not None
    table(workshop).maintenance.expire_snapshots().by_id(snapshot).commit()
    workshop.now += timedelta(days=20)
    assert troubles(workshop) == [], "it expired by age"
    workshop.lake.catalog.drop_table("mart.a")
    workshop.lake.catalog.register_table("mart.a", before)
    assert f"mart.a has no snapshot {snapshot}, which run {run.id} published" in only(workshop).what


# ── files ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def file_of(workshop: Workshop, day: str) -> str:
    return next(
        file.path for file in workshop.lake.contents("mart.a").files if f"d_cut={day}" in file.path
    )  # fmt: skip


def test_missing_data_files_are_named_with_their_slices(workshop: Workshop) -> None:
    lost = file_of(workshop, "2026-01-07")
    Path(lost.removeprefix("file://")).unlink()
    trouble = only(workshop)
    assert (trouble.kind, trouble.table, trouble.details) == (K.LOST_FILES, "mart.a", (lost,))
    assert "1 data file; main leads there" in trouble.what
    assert "retcon plan mart.a --start 2026-01-07 --end 2026-01-07" in trouble.remedy
    assert examine(workshop, repair=True).repaired == ()


def test_files_that_only_a_branch_leads_to_are_looked_for_too(workshop: Workshop) -> None:
    run = staged(workshop)
    head = workshop.lake.metadata.head("mart.a", run.plan.branch)
    main = {file.path for file in workshop.lake.contents("mart.a").files}
    (lost,) = {file.path for file in workshop.lake.contents("mart.a", at=head).files} - main
    Path(lost.removeprefix("file://")).unlink()
    trouble = only(workshop)
    assert trouble.details == (lost,)
    assert f"{run.plan.branch} leads there" in trouble.what
    assert "production is whole" in trouble.means


def test_missing_manifests_and_metadata_are_told(workshop: Workshop) -> None:
    snapshot = table(workshop).current_snapshot()
    assert snapshot is not None
    manifest = snapshot.manifests(table(workshop).io)[0].manifest_path
    Path(manifest.removeprefix("file://")).unlink()
    assert "1 manifest; main leads there" in only(workshop).what
    Path(snapshot.manifest_list.removeprefix("file://")).unlink()
    assert "1 manifest list; main leads there" in only(workshop).what
    Path(table(workshop).metadata_location.removeprefix("file://")).unlink()
    assert "points mart.a at a metadata file that isn't there" in only(workshop).what


def test_a_large_table_is_sampled_unless_all_files_are_asked_for(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("retcon.flow.doctor.MOST_FILES", 4)
    sampled, whole = examine(workshop), examine(workshop, all_files=True)
    assert (sampled.files_left, whole.files_left) == (16, 0)
    assert whole.files - sampled.files == 16


def test_a_model_that_is_gone_from_the_project_is_still_looked_at(workshop: Workshop) -> None:
    run = staged(workshop)
    on_main(workshop, run.id)
    workshop.remove("mart.b")
    workshop.remove("mart.a")
    workshop.model("mart.c")
    assert troubles(workshop) == [(K.LEDGER_BEHIND, "mart.a", run.id)]
    assert len(examine(workshop, repair=True).repaired) == 1


def test_columns_that_were_added_since_are_no_trouble(workshop: Workshop) -> None:
    published(workshop)
    with table(workshop).update_schema() as update:
        update.add_column("m", LongType())
    assert troubles(workshop) == []


def test_what_a_rest_catalog_was_asked_for_is_left_to_the_run_itself(workshop: Workshop) -> None:
    run = staged(workshop)
    workshop.ledger.record(run.id, PublishBegan(locations={}), at=workshop.now, who="ada")
    event = Published(snapshots={"mart.a": on_main(workshop, run.id)}, consumed=())
    workshop.ledger.intend(Intent(run=run.id, event=event, commits=()), at=workshop.now, who="ada")
    assert troubles(workshop) == [(K.NO_DRIVER, "", run.id)]
    assert "the catalog was asked to publish it" in only(workshop).means
    assert examine(workshop, repair=True).repaired == ()
    require_recorded(run.plan, workshop.ledger, workshop.workspace.tables)
