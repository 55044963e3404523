"""Publishing, rolling back and cancelling on real pointers and a real ledger; only Spark's part is stood in for."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from retcon.core.events import ProvingBegan, StagingDone, TablesOpened
from retcon.core.jobs import PublishRequest, UndoRequest
from retcon.core.plans import Plan
from retcon.core.pointers import Pointer, PointerSwap
from retcon.core.runs import Replaced, Run, RunState, RunTable
from retcon.errors import BadArguments, Conflict, Refused
from retcon.flow.cancel import cancel
from retcon.flow.context import Context
from retcon.flow.publish import publish
from retcon.flow.rollback import Undone, roll_back
from retcon.ledger.store import SqlLedger
from retcon.processes import is_gone, this_process
from tests.flow.workshops import Workshop
from tests.ledger.examples import Driver, all_staged, judged, named
from tests.ledger.examples import published as all_published


class Swaps:
    """Stands in for Iceberg's own library: a new metadata file for each table, ready to be swapped in."""

    def __init__(self, workshop: Workshop, meanwhile: Callable[[int], None] = lambda _: None) -> None:
        self._workshop = workshop
        self._meanwhile = meanwhile
        self.prepared = 0
        self.requests: list[PublishRequest | UndoRequest] = []

    def prepare_publish(self, request: PublishRequest) -> PointerSwap:
        """One more snapshot, of the same files."""
        return self._prepared(request, request.mark)

    def prepare_rollback(self, request: UndoRequest) -> PointerSwap:
        return self._prepared(request, "retcon.rollback")

    def _prepared(self, request: PublishRequest | UndoRequest, mark: str) -> PointerSwap:
        table = self._workshop.lake.table(request.table.table)
        old = table.metadata_location
        self.prepared += 1
        self.requests.append(request)
        new = old.replace(".metadata.json", f"-{request.run}-{self.prepared}.metadata.json")
        metadata = json.loads(Path(old).read_text())
        snapshot = uuid4().int >> 66
        current = next(s for s in metadata["snapshots"] if s["snapshot-id"] == metadata["current-snapshot-id"])
        metadata["last-sequence-number"] += 1
        metadata["snapshots"].append(
            current
            | {
                "snapshot-id": snapshot,
                "parent-snapshot-id": current["snapshot-id"],
                "sequence-number": metadata["last-sequence-number"],
                "summary": {"operation": "overwrite", mark: request.run},
            }
        )
        metadata["current-snapshot-id"] = metadata["refs"]["main"]["snapshot-id"] = snapshot
        Path(new).write_text(json.dumps(metadata))
        self._meanwhile(self.prepared)
        return PointerSwap(table=request.table.table, old_location=old, new_location=new, snapshot_id=snapshot)


class Exchanges(Swaps):
    """The same for a table that was built beside: the two change places."""

    def prepare_publish(self, request: PublishRequest) -> PointerSwap:
        there = self._workshop.lake.table(request.table.table)
        built = self._workshop.lake.table(request.table.written)
        return PointerSwap(
            table=request.table.table,
            old_location=there.metadata_location,
            new_location=built.metadata_location,
            snapshot_id=built.metadata.current_snapshot_id,
            beside=Pointer(table=request.table.written, location=built.metadata_location),
        )

    prepare_rollback = prepare_publish  # type: ignore[assignment] # the same step, back


@pytest.fixture
def workshop(tmp_path: Path) -> Workshop:
    workshop = Workshop(tmp_path).shop()
    workshop.publish_by_hand("mart.a", "2026-01-01..2026-01-20")
    return workshop


def context_of(workshop: Workshop, warehouse: Swaps) -> Context:
    w = workshop.workspace
    parts: dict[str, Any] = {"warehouse": warehouse, "driver": this_process("ada"), "is_gone": is_gone}
    return Context(
        project=w.project, ledger=w.ledger, tables=w.tables, clock=w.clock, who="ada", watch=lambda _: None, **parts
    )


def proven(workshop: Workshop, plan: Plan | None = None) -> Run:
    """A run over three days of mart.a that only waits for its publish."""
    plan = plan or workshop.plan("mart.a", start="2026-01-03", end="2026-01-05")
    driver = Driver(workshop.ledger, plan, at=workshop.now)
    tables = tuple(
        RunTable(
            table=m.name,
            uuid=str(workshop.lake.table(m.name).metadata.table_uuid),
            schema_id=0,
            spec_id=0,
            base_snapshot=workshop.lake.current(m.name),
            made=False,
        )
        for m in plan.models
    )
    pins = {"raw.s": workshop.lake.current("raw.s")}
    begun = TablesOpened(tables=tables, pins=pins, run_ts=workshop.now.isoformat())
    return driver.tell(begun, *all_staged(plan), StagingDone(), ProvingBegan(), judged(plan))


def published(workshop: Workshop) -> Run:
    return publish(proven(workshop), context_of(workshop, Swaps(workshop)))


def location(workshop: Workshop) -> str:
    return workshop.lake.table("mart.a").metadata_location


def kinds(workshop: Workshop, run: Run) -> list[str]:
    return [event.kind for event in workshop.ledger.events(run.id)]


# ── publish ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_publish_moves_the_pointer_and_records_what_each_slice_consumed(workshop: Workshop) -> None:
    run = published(workshop)
    assert run.state is RunState.PUBLISHED
    assert f"-{run.id}-1.metadata.json" in location(workshop)
    consumed = workshop.ledger.consumption(run.id)
    assert {(c.model, c.slice, c.table) for c in consumed} == {("mart.a", f"2026-01-0{n}", "raw.s") for n in (3, 4, 5)}
    assert {c.snapshot_id for c in consumed} == {workshop.lake.current("raw.s")}
    assert len({c.content for c in consumed}) == 3
    assert set(workshop.ledger.published_slices("mart.a")) == {"2026-01-03", "2026-01-04", "2026-01-05"}


def test_a_commit_to_another_slice_meanwhile_is_no_conflict(workshop: Workshop) -> None:
    run = proven(workshop)
    workshop.lake.append("mart.a", "2026-01-06", "2026-01-02")
    assert publish(run, context_of(workshop, Swaps(workshop))).state is RunState.PUBLISHED


def test_a_commit_into_the_scope_is_named_and_nothing_moves(workshop: Workshop) -> None:
    run = proven(workshop)
    workshop.lake.append("mart.a", "2026-01-06", "2026-01-04")
    before = location(workshop)
    warehouse = Swaps(workshop)
    with pytest.raises(Conflict, match=r"mart\.a: 2026-01-04 changed by others") as conflict:
        publish(run, context_of(workshop, warehouse), may_rebase=False)
    assert f"snapshot {workshop.lake.current('mart.a')} (append)" in conflict.value.message
    assert location(workshop) == before
    assert warehouse.prepared == 0
    assert kinds(workshop, run)[-1] == "PublishRefused"
    standing = workshop.ledger.run(run.id)
    assert standing is not None
    assert standing.state is RunState.PROVEN


def test_a_table_that_was_dropped_meanwhile_is_refused(workshop: Workshop) -> None:
    run = proven(workshop)
    workshop.lake.catalog.drop_table("mart.a")
    with pytest.raises(Refused, match=r"mart\.a was dropped since this run began"):
        publish(run, context_of(workshop, Swaps(workshop)))


def test_a_commit_between_preparing_and_swapping_makes_it_look_again(workshop: Workshop) -> None:
    def commit_once(prepared: int) -> None:
        if prepared == 1:
            workshop.lake.append("mart.a", "2026-01-09")

    run = proven(workshop)
    run = publish(run, context_of(workshop, Swaps(workshop, commit_once)))
    assert run.state is RunState.PUBLISHED
    assert f"-{run.id}-2.metadata.json" in location(workshop)
    assert kinds(workshop, run)[-3:] == ["PublishBegan", "PublishBegan", "Published"]


def test_a_commit_into_the_scope_between_preparing_and_swapping_is_found(workshop: Workshop) -> None:
    run = proven(workshop)
    with pytest.raises(Conflict, match=r"2026-01-05 changed by others"):
        publish(
            run,
            context_of(workshop, Swaps(workshop, lambda _: workshop.lake.append("mart.a", "2026-01-05") and None)),
            may_rebase=False,
        )
    standing = workshop.ledger.run(run.id)
    assert standing is not None
    assert standing.state is RunState.PROVEN


def test_somebody_who_commits_all_the_time_wins_in_the_end(workshop: Workshop) -> None:
    run = proven(workshop)
    warehouse = Swaps(workshop, lambda _: workshop.lake.append("mart.a", "2026-01-09") and None)
    with pytest.raises(Conflict, match=r"mart\.a was written by somebody else meanwhile"):
        publish(run, context_of(workshop, warehouse))
    assert warehouse.prepared == 5
    assert kinds(workshop, run)[-1] == "PublishRefused"
    assert run.id not in location(workshop)
    assert not workshop.ledger.published_slices("mart.a")


# ── roll back ─────────────────────────────────────────────────────────────────────────────────────────────────────


def undo(workshop: Workshop, run: Run, reason: str = "wrong after all") -> Undone:
    return roll_back(run, reason, context_of(workshop, Swaps(workshop)))


def test_a_rollback_moves_the_pointer_and_what_was_published_no_longer_is(workshop: Workshop) -> None:
    run = published(workshop)
    before = location(workshop)
    undone = undo(workshop, run)
    assert undone.run.state is RunState.ROLLED_BACK
    assert undone.stale == ()
    assert location(workshop) != before
    assert not workshop.ledger.published_slices("mart.a")


# ── built beside ──────────────────────────────────────────────────────────────────────────────────────────────────


def proven_beside(workshop: Workshop) -> Run:
    """A run that built all of mart.a anew, without its column n."""
    workshop.model("mart.a", sql="SELECT d, count(*) AS x FROM raw.s GROUP BY d", keys="strategy: full")
    plan = workshop.plan("mart.a")
    driver = Driver(workshop.ledger, plan, at=workshop.now)
    there = workshop.lake.metadata.facts("mart.a")
    assert there is not None
    place = plan.place("mart.a")
    workshop.lake.by_day(place, "2026-01-01..2026-01-20", properties={"retcon.made_by": plan.id})
    replaced = Replaced(
        beside=place,
        uuid=there.uuid,
        schema_id=there.schema_id,
        spec_id=there.spec_id,
        snapshot_id=there.snapshot_id,
    )
    table = RunTable(table="mart.a", uuid="u", schema_id=0, spec_id=0, base_snapshot=None, made=True, replaces=replaced)
    pins = {"raw.s": workshop.lake.current("raw.s")}
    begun = TablesOpened(tables=(table,), pins=pins, run_ts=workshop.now.isoformat())
    run = driver.tell(begun, *all_staged(plan), StagingDone(), ProvingBegan(), judged(plan))
    assert run.tables["mart.a"].replaces == replaced
    return run


def columns(workshop: Workshop, name: str) -> tuple[str, ...]:
    facts = workshop.lake.metadata.facts(name)
    return facts.column_names if facts is not None else ()


def test_a_table_that_was_built_beside_changes_places_with_the_one_that_was_there_and_back(workshop: Workshop) -> None:
    run = proven_beside(workshop)
    place = run.plan.place("mart.a")
    run = publish(run, context_of(workshop, Exchanges(workshop)))
    assert (columns(workshop, "mart.a"), columns(workshop, place)) == (("d", "x"), ("d", "n"))
    assert run.tables["mart.a"].published_snapshot == workshop.lake.current("mart.a")
    assert workshop.workspace.teller.show_run(run).old_versions == (place,)
    with pytest.raises(Refused, match="only a run that isn't published can be cancelled"):
        give_up(workshop, run)

    undone = roll_back(run, "wrong after all", context_of(workshop, Exchanges(workshop))).run
    assert (columns(workshop, "mart.a"), columns(workshop, place)) == (("d", "n"), ("d", "x"))
    assert workshop.workspace.teller.show_run(undone).old_versions == ()


def test_a_table_that_was_written_meanwhile_is_not_replaced(workshop: Workshop) -> None:
    run = proven_beside(workshop)
    # In a slice of its own or not: all of the table would go.
    later = workshop.lake.append("mart.a", "2026-01-21")
    with pytest.raises(Conflict, match=r"mart\.a: written by others since this run began") as conflict:
        publish(run, context_of(workshop, Exchanges(workshop)))
    assert f"snapshot {later} (append)" in conflict.value.message
    assert columns(workshop, "mart.a") == ("d", "n")


@pytest.mark.parametrize("what", ["gone", "changed"])
def test_without_the_version_from_before_there_is_no_way_back(workshop: Workshop, what: str) -> None:
    run = publish(proven_beside(workshop), context_of(workshop, Exchanges(workshop)))
    place = run.plan.place("mart.a")
    if what == "gone":
        workshop.lake.catalog.drop_table(place)
    else:
        workshop.lake.append(place, "2026-01-21")
    with pytest.raises(Refused, match=f"the version from before, {place}, .*{what}"):
        roll_back(run, "wrong after all", context_of(workshop, Exchanges(workshop)))
    assert columns(workshop, "mart.a") == ("d", "x")


def test_a_cancelled_run_takes_along_what_it_built_beside_and_nothing_else(workshop: Workshop) -> None:
    run = proven_beside(workshop)
    place = run.plan.place("mart.a")
    workshop.lake.catalog.drop_table(place)
    workshop.lake.by_day(place, properties={"retcon.made_by": run.id})
    before = workshop.lake.contents("mart.a")
    give_up(workshop, run)
    assert workshop.lake.metadata.facts(place) is None
    assert workshop.lake.contents("mart.a") == before


def test_a_rollback_lists_what_later_runs_read_of_it(workshop: Workshop) -> None:
    earlier = published_run(workshop.ledger, plan_of_b(workshop), at=workshop.now - timedelta(days=1), reads="mart.a")
    run = published(workshop)
    workshop.now += timedelta(hours=1)
    later = published_run(workshop.ledger, plan_of_b(workshop), at=workshop.now, reads="mart.a")
    assert undo(workshop, run).stale == (("mart.b", "2026-01-03..2026-01-04", later.plan.id),)
    assert earlier.run.state is RunState.PUBLISHED


def plan_of_b(workshop: Workshop) -> Plan:
    return workshop.plan("mart.b", start="2026-01-01", end="2026-01-04")


def published_run(ledger: SqlLedger, plan: Plan, *, at: datetime, reads: str) -> Driver:
    """Another run's publish that consumed this table."""
    driver = Driver(ledger, plan, at=at)
    driver.begin_publish()
    event = all_published(plan)
    driver.publish(event=replace(event, consumed=tuple(replace(c, table=reads, input=reads) for c in event.consumed)))
    return driver


def test_a_rollback_needs_a_reason_a_publish_and_time(workshop: Workshop) -> None:
    run = published(workshop)
    with pytest.raises(BadArguments, match="a rollback needs a reason"):
        undo(workshop, run, "  ")
    workshop.now += timedelta(days=14, seconds=10)
    with pytest.raises(Refused, match="could be rolled back until 2026-02-05"):
        undo(workshop, run)
    workshop.model("mart.a", keys="retention: 30 days")
    assert undo(workshop, run).run.state is RunState.ROLLED_BACK
    ended = workshop.ledger.run(run.id)
    assert ended is not None
    with pytest.raises(Refused, match="is rolled back: there is no publish to roll back"):
        undo(workshop, ended)


# ── cancel ────────────────────────────────────────────────────────────────────────────────────────────────────────


def give_up(workshop: Workshop, run: Run) -> Run:
    w = workshop.workspace
    return cancel(run, "not needed", w.ledger, w.tables, clock=w.clock, who="ada")


def branch(workshop: Workshop, name: str, run: Run) -> None:
    base = workshop.lake.current(name)
    assert base is not None
    workshop.lake.table(name).manage_snapshots().create_branch(base, run.plan.branch).commit()


def test_a_cancelled_run_loses_its_branch_and_production_stays(workshop: Workshop) -> None:
    run = proven(workshop)
    other = proven(workshop, workshop.plan("mart.a", start="2026-01-03", end="2026-01-05", force=True))
    for one in (run, other):
        branch(workshop, "mart.a", one)
    before = workshop.lake.contents("mart.a")
    cancelled = give_up(workshop, run)
    assert (cancelled.state, cancelled.why_ended) == (RunState.CANCELLED, "not needed")
    assert workshop.lake.metadata.head("mart.a", run.plan.branch) is None
    assert workshop.lake.metadata.head("mart.a", other.plan.branch) == workshop.lake.current("mart.a")
    assert workshop.lake.contents("mart.a") == before
    # Cancelling twice is cancelling once, and finishes what a crash left.
    branch(workshop, "mart.a", run)
    assert give_up(workshop, cancelled) == cancelled
    assert workshop.lake.metadata.head("mart.a", run.plan.branch) is None
    assert kinds(workshop, run).count("Cancelled") == 1


def test_a_table_that_was_made_for_the_run_goes_with_it_unless_somebody_wrote_to_it(workshop: Workshop) -> None:
    plan = workshop.plan("mart.b", start="2026-01-03", end="2026-01-05")
    run = Driver(workshop.ledger, plan).run
    workshop.lake.by_day("mart.b", number="n", properties={"retcon.made_by": run.id})
    give_up(workshop, run)
    assert workshop.lake.metadata.facts("mart.b") is None

    again = Driver(workshop.ledger, named(plan, "20260122_b_t9")).run
    workshop.lake.by_day("mart.b", "2026-01-01", number="n", properties={"retcon.made_by": again.id})
    give_up(workshop, again)
    assert workshop.lake.metadata.facts("mart.b") is not None


def test_a_table_that_another_run_made_stays(workshop: Workshop) -> None:
    run = Driver(workshop.ledger, workshop.plan("mart.b", start="2026-01-03", end="2026-01-05")).run
    workshop.lake.by_day("mart.b", number="n", properties={"retcon.made_by": "20260101_b_x1y2"})
    give_up(workshop, run)
    assert workshop.lake.metadata.facts("mart.b") is not None


def test_what_is_published_is_not_cancelled_but_rolled_back(workshop: Workshop) -> None:
    run = published(workshop)
    with pytest.raises(Refused, match="only a run that isn't published can be cancelled") as refused:
        give_up(workshop, run)
    assert f"retcon rollback {run.id}" in refused.value.next
    assert kinds(workshop, run)[-1] == "Published"
