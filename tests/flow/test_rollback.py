"""Rolling back around what landed later, on real metadata and a real ledger; only Spark's part is stood in for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from retcon.core import undoing
from retcon.core.events import RolledBack
from retcon.core.jobs import PublishRequest, WaveTarget
from retcon.core.leases import Driver
from retcon.core.plans import tag_before, undo_branch_of
from retcon.core.reads import Read
from retcon.core.runs import Run, RunState
from retcon.core.slices import Slice, SliceSet
from retcon.core.undoing import Way
from retcon.errors import Conflict, Fault, Interrupted, Refused
from retcon.flow.ports import Progress
from retcon.flow.publish import publish
from retcon.flow.rollback import Undone, roll_back
from tests.flow.test_publish import Exchanges, Swaps, context_of, kinds, location, proven, proven_beside, published
from tests.flow.test_rebase import Spark, go
from tests.flow.workshops import Workshop


class Died(Exception):
    """The process is gone."""


class Copies(Swaps):
    """Copies are rows on a branch; some of them fail."""

    def __init__(self, workshop: Workshop, *, dies_at: int = 0, unlike: str = "", **more: Any) -> None:
        super().__init__(workshop, **more)
        self._dies_at = dies_at
        self._unlike = unlike
        self.copied: list[str] = []
        self.was_interrupted = False

    def open_branch(self, table: str, branch: str, snapshot_id: int) -> None:
        self._workshop.lake.table(table).manage_snapshots().create_branch(snapshot_id, branch).commit()

    def copy(self, read: Read, slices: SliceSet, target: WaveTarget) -> None:
        assert read.slices == slices
        if len(self.copied) + 1 == self._dies_at:
            raise Died
        marks = {"retcon__run": target.run, "retcon__wave": str(target.wave), "retcon__slices": slices.text}
        days = (slice.label for slice in slices)
        self._workshop.lake.append(target.table, *days, branch=target.branch, **marks)
        self.copied.append(slices.text)

    def unlike(self, copy: Read, original: Read) -> tuple[Slice, ...]:
        assert (copy.table, copy.slices, copy.by) == (original.table, original.slices, original.by)
        assert copy.slices is not None
        return tuple(slice for slice in copy.slices if slice.label == self._unlike)

    def interrupt(self) -> None:
        self.was_interrupted = True


@pytest.fixture
def workshop(tmp_path: Path) -> Workshop:
    workshop = Workshop(tmp_path).shop()
    workshop.publish_by_hand("mart.a", "2026-01-01..2026-01-20")
    return workshop


def undo(workshop: Workshop, run: Run, warehouse: Swaps | None = None, **context: Any) -> Undone:
    parts = context_of(workshop, warehouse or Copies(workshop))
    for name, value in context.items():
        setattr(parts, name, value)
    return roll_back(workshop.ledger.run(run.id) or run, "wrong after all", parts)


def branch(workshop: Workshop, run: Run) -> int | None:
    return workshop.lake.metadata.head("mart.a", undo_branch_of(run.id))


def test_what_landed_on_other_slices_stays_and_the_old_slices_are_copied_onto_it(workshop: Workshop) -> None:
    before = workshop.lake.current("mart.a")
    run = published(workshop)
    later = workshop.lake.append("mart.a", "2026-01-19", "2026-01-02")
    warehouse = Copies(workshop)
    told: list[Progress] = []
    undone = undo(workshop, run, warehouse, watch=told.append)
    assert undone.run.state is RunState.ROLLED_BACK
    assert [(u.table, u.way, u.seen, u.before) for u in undone.ways] == [("mart.a", Way.COPIED, later, before)]
    assert warehouse.copied == ["2026-01-03..2026-01-05"]
    assert [(p.step, p.done, p.total) for p in told] == [("copy", 0, 3), ("copy", 3, 3)]
    request = warehouse.requests[-1]
    assert isinstance(request, PublishRequest)
    assert (request.table.base_snapshot, request.table.head) == (later, branch(workshop, run))
    assert (request.mark, request.tag, request.drops_branch) == ("retcon.rollback", None, True)
    assert kinds(workshop, run)[-2:] == ["RollbackBegan", "RolledBack"]
    assert workshop.ledger.events(run.id)[-2].body["ways"] == {"mart.a": "copied"}
    with pytest.raises(Refused, match="is rolled back: there is no publish to roll back"):
        undo(workshop, run)


@pytest.mark.parametrize("by", ["20260122_other_x1y2", ""])
def test_what_landed_on_the_same_slices_refuses_it_and_is_listed(workshop: Workshop, by: str) -> None:
    run = published(workshop)
    workshop.lake.append("mart.a", "2026-01-19")
    marks = {"retcon__run": by} if by else {}
    later = workshop.lake.append("mart.a", "2026-01-04", "2026-01-19", **marks)
    before = location(workshop)
    with pytest.raises(Conflict, match="something landed after run") as conflict:
        undo(workshop, run)
    named = f"(append by run {by})" if by else "(append)"
    assert conflict.value.message.endswith(f"mart.a: snapshot {later} {named}: 2026-01-04")
    assert conflict.value.state == "nothing was rolled back"
    assert location(workshop) == before


def test_a_later_run_that_was_undone_is_in_nobodys_way(workshop: Workshop) -> None:
    run, later = published(workshop), published(workshop)
    # The stand-in's publish touches no file: let another commit under its name do that.
    workshop.lake.append("mart.a", "2026-01-04", retcon__run=later.id)
    with pytest.raises(Conflict, match=later.id):
        undo(workshop, run)
    workshop.lake.append("mart.a", "2026-01-04", retcon__rollback=later.id)
    with pytest.raises(Refused, match=f"run {later.id} was published .* and taken back since in mart.a"):
        undo(workshop, run)
    undone = RolledBack(reason="wrong", snapshots={})
    workshop.ledger.roll_back(later.id, undone, [], at=workshop.now, who="ada")
    assert undo(workshop, run).ways[0].way is Way.COPIED


def test_a_rollback_that_died_goes_on_with_what_is_missing(workshop: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(undoing, "_SLICES_IN_A_COPY", 1)
    run = published(workshop)
    workshop.lake.append("mart.a", "2026-01-19")
    with pytest.raises(Died):
        undo(workshop, run, Copies(workshop, dies_at=3))
    assert kinds(workshop, run)[-1] == "Published"
    second = Copies(workshop)
    assert undo(workshop, run, second).run.state is RunState.ROLLED_BACK
    assert second.copied == ["2026-01-05"]


def test_what_somebody_wrote_to_the_branch_is_thrown_away(workshop: Workshop) -> None:
    run = published(workshop)
    workshop.lake.append("mart.a", "2026-01-19")
    with pytest.raises(Died):
        undo(workshop, run, Copies(workshop, meanwhile=_die))
    workshop.lake.append("mart.a", "2026-01-04", branch=undo_branch_of(run.id))
    second = Copies(workshop)
    undo(workshop, run, second)
    assert second.copied == ["2026-01-03..2026-01-05"]


def _die(_: int) -> None:
    raise Died


def test_a_copy_that_isnt_one_is_never_published(workshop: Workshop) -> None:
    run = published(workshop)
    workshop.lake.append("mart.a", "2026-01-19")
    before = workshop.lake.current("mart.a")
    with pytest.raises(Fault, match=r"mart\.a: the copy of 2026-01-04 isn't what was there") as fault:
        undo(workshop, run, Copies(workshop, unlike="2026-01-04"))
    assert fault.value.state == "nothing was rolled back"
    assert workshop.lake.current("mart.a") == before
    assert branch(workshop, run) is None
    assert kinds(workshop, run)[-1] == "Published"


def test_a_commit_between_the_look_and_the_swap_makes_it_look_again(workshop: Workshop) -> None:
    def commit_once(prepared: int) -> None:
        if prepared == 1:
            workshop.lake.append("mart.a", "2026-01-09")

    run = published(workshop)
    warehouse = Copies(workshop, meanwhile=commit_once)
    undone = undo(workshop, run, warehouse)
    # At first nothing had landed, and moving back was enough.
    assert kinds(workshop, run)[-3:] == ["RollbackBegan", "RollbackBegan", "RolledBack"]
    assert undone.ways[0].way is Way.COPIED
    assert warehouse.copied == ["2026-01-03..2026-01-05"]


def test_one_process_at_a_time_rolls_a_run_back(workshop: Workshop) -> None:
    run = published(workshop)
    workshop.ledger.take_lease(run.id, Driver(who="ben", host="desk", pid=1, began="1"), over=None, seconds=60)
    with pytest.raises(Conflict, match="being run by ben on desk"):
        undo(workshop, run, is_gone=lambda _: False)
    assert workshop.ledger.run(run.id) == run


def test_an_interrupted_copy_stops_spark_and_leaves_a_publish(workshop: Workshop) -> None:
    run = published(workshop)
    workshop.lake.append("mart.a", "2026-01-19")

    def interrupt(_: Progress) -> None:
        raise KeyboardInterrupt

    warehouse = Copies(workshop)
    with pytest.raises(Interrupted, match=f"interrupted while run {run.id} was rolled back"):
        undo(workshop, run, warehouse, watch=interrupt)
    assert warehouse.was_interrupted
    assert workshop.ledger.run(run.id) == run


def test_a_table_that_took_anothers_place_and_was_written_since_stays(workshop: Workshop) -> None:
    run = publish(proven_beside(workshop), context_of(workshop, Exchanges(workshop)))
    later = workshop.lake.append("mart.a", "2026-01-21")
    with pytest.raises(Conflict, match="it took the place of another table, and was written since") as conflict:
        undo(workshop, run, Exchanges(workshop))
    assert f"snapshot {later} (append)" in conflict.value.message


def test_a_column_that_was_renamed_since_cant_be_copied(workshop: Workshop) -> None:
    run = published(workshop)
    workshop.lake.append("mart.a", "2026-01-19")
    with workshop.lake.table("mart.a").update_schema() as update:
        update.rename_column("n", "number")
    with pytest.raises(Refused, match=r"old rows don't fit its columns any more: n is number now"):
        undo(workshop, run)


def expire(workshop: Workshop, *snapshots: int | None) -> None:
    """As Iceberg's own expiry does: the snapshots go, what stands on them goes on naming them."""

    def without(metadata: dict[str, Any]) -> None:
        metadata["snapshots"] = [s for s in metadata["snapshots"] if s["snapshot-id"] not in snapshots]
        metadata["snapshot-log"] = []

    workshop.lake.rewrite("mart.a", without)


@pytest.mark.parametrize("has_branch", [True, False])
def test_where_history_has_expired_the_files_themselves_tell(workshop: Workshop, has_branch: bool) -> None:
    before = workshop.lake.current("mart.a")
    assert before is not None
    run = proven(workshop)
    if has_branch:
        workshop.lake.table("mart.a").manage_snapshots().create_branch(before, run.plan.branch).commit()
    run = publish(run, context_of(workshop, Swaps(workshop)))
    workshop.lake.table("mart.a").manage_snapshots().create_tag(before, tag_before(run.id)).commit()
    gone = workshop.lake.append("mart.a", "2026-01-19")
    workshop.lake.append("mart.a", "2026-01-20")
    expire(workshop, run.tables["mart.a"].published_snapshot, gone)
    if has_branch:
        # The stand-in published the files that were there: the branch has them.
        assert undo(workshop, run).ways[0].before == before
    else:
        with pytest.raises(Conflict, match="its history since the publish is gone"):
            undo(workshop, run)


def test_without_the_version_from_before_there_is_no_way_back(workshop: Workshop) -> None:
    before = workshop.lake.current("mart.a")
    run = published(workshop)
    expire(workshop, before)
    with pytest.raises(Refused, match=r"mart\.a: the version from before has expired"):
        undo(workshop, run)


@pytest.mark.parametrize(
    ("inputs", "stale"),
    [
        ("mart.a: {time: d}", "2026-01-04..2026-01-05"),
        ("mart.a: {time: d, lookback: 2}", "2026-01-04..2026-01-07"),
        ("mart.a: {}", "2026-01-04..2026-01-10"),
    ],
)
def test_stale_is_what_read_some_of_the_slices_that_are_undone(workshop: Workshop, inputs: str, stale: str) -> None:
    workshop.publish_by_hand("mart.b", "2026-01-01..2026-01-20")
    workshop.model("mart.b", inputs, "SELECT d, n FROM mart.a")
    first, later = (
        go(workshop, workshop.plan(name, start=start, end=end, downstream=False), Spark(workshop))
        for name, start, end in (("mart.a", "2026-01-03", "2026-01-05"), ("mart.b", "2026-01-04", "2026-01-10"))
    )
    assert undo(workshop, first).stale == (("mart.b", stale, later.id),)


def test_where_the_reader_is_another_now_all_its_slices_count_if_its_plan_read_any_that_is_undone(
    workshop: Workshop,
) -> None:
    workshop.publish_by_hand("mart.b", "2026-01-01..2026-01-20")
    spans = (("mart.a", "2026-01-03", "2026-01-05"), ("mart.b", "2026-01-04", "2026-01-10"),
             ("mart.b", "2026-01-12", "2026-01-14"))  # fmt: skip
    first, near, _ = (
        go(workshop, workshop.plan(name, start=start, end=end, downstream=False), Spark(workshop))
        for name, start, end in spans
    )
    workshop.model("mart.b", "mart.a: {time: d}", "SELECT d, n + 1 AS n FROM mart.a")
    assert undo(workshop, first).stale == (("mart.b", "2026-01-04..2026-01-10", near.id),)
