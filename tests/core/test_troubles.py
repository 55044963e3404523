"""What is wrong between a ledger and tables, decided from values alone."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retcon.core.events import Published, RolledBack
from retcon.core.intents import Intent
from retcon.core.leases import Driver, Lease
from retcon.core.runs import Run, RunState, RunTable
from retcon.core.slices import Buckets, Grain, SliceSet
from retcon.core.troubles import (
    LostFile,
    Mark,
    TableMarks,
    Unrecorded,
    behind,
    fits,
    left_alone,
    lost_files,
    lost_plan,
    slices_of,
    undriven,
    unrecorded,
    why_not_rebuilt,
)
from tests.ledger.examples import FCT, NOON, a_plan

ID, OTHER = "20260122_fct_k3f9", "mart.other"
DAYS = "2025-10-25..2025-10-28"
CUTS = {FCT: Grain.DAY, OTHER: Grain.DAY}


def mark(snapshot: int = 2, *, run: str = ID, slices: str = DAYS, undoes: bool = False) -> Mark:
    at = NOON + timedelta(seconds=snapshot)
    return Mark(snapshot_id=snapshot, parent=snapshot - 1, at=at, run=run, slices=slices, undoes=undoes)


def table(*marks: Mark, name: str = FCT, left: range = range(0), is_whole: bool = True) -> TableMarks:
    return TableMarks(
        table=name, uuid="u", schema_id=0, spec_id=0, marks=marks, snapshots=range(10), left=left, is_whole=is_whole
    )  # fmt: skip


def run(state: RunState, *, models: tuple[str, ...] = (FCT,)) -> Run:
    published = NOON if state in (RunState.PUBLISHED, RunState.ROLLED_BACK) else None
    plan = a_plan(ID, models=models)
    tables = {m: RunTable(table=m, uuid="u", schema_id=0, spec_id=0, base_snapshot=1, made=False) for m in models}
    return Run(id=ID, kind="backfill", state=state, plan=plan, by="ann", created=NOON, updated=NOON, tables=tables,
               published=published)  # fmt: skip


def found(*tables: TableMarks, of: Run | None = None) -> Unrecorded:
    (each,) = unrecorded(tables, {} if of is None else {of.id: of})
    return each


@pytest.mark.parametrize("state", RunState)
def test_a_publish_on_main_is_news_unless_the_ledger_has_it(state: RunState) -> None:
    is_known = state in (RunState.PUBLISHED, RunState.ROLLED_BACK)
    assert bool(unrecorded([table(mark())], {ID: run(state)})) is not is_known
    assert unrecorded([table()], {ID: run(state)}) == []


@pytest.mark.parametrize("state", RunState)
def test_a_publish_that_was_taken_back_is_news_unless_the_ledger_has_that(state: RunState) -> None:
    undone = table(mark(), mark(3, undoes=True))
    moved_back = table(mark(), left=range(2, 10))
    for each in (undone, moved_back):
        news = unrecorded([each], {ID: run(state)})
        assert [n.is_undone for n in news] == ([] if state is RunState.ROLLED_BACK else [True])


def test_a_rollback_that_main_was_moved_back_from_took_nothing_back() -> None:
    assert not found(table(mark(), mark(5, undoes=True), left=range(5, 10))).is_undone


def test_what_is_found_comes_in_the_order_in_which_it_happened() -> None:
    news = unrecorded([table(mark(4, run="a_b"), mark(5, run="c_d")), table(mark(2, run="z_z"), name=OTHER)], {})
    assert [each.run for each in news] == ["z_z", "a_b", "c_d"]


def test_half_a_publish_and_half_a_rollback_are_not_rebuilt() -> None:
    both = run(RunState.PROVEN, models=(FCT, OTHER))
    half = [table(mark()), table(name=OTHER)]
    assert why_not_rebuilt(found(*half, of=both), half, CUTS) == f"{OTHER}, which it wrote too, never got it"
    expired = [table(mark()), table(name=OTHER, is_whole=False)]
    assert why_not_rebuilt(found(*expired, of=both), expired, CUTS) == ""
    undone = [table(mark(), mark(3, undoes=True)), table(mark(), name=OTHER)]
    assert f"it still stands in {OTHER}" in why_not_rebuilt(found(*undone), undone, CUTS)


@pytest.mark.parametrize("text", ["", "nonsense", "2025-13-01"])
def test_slices_that_cant_be_read_are_not_guessed(text: str) -> None:
    tables = [table(mark(slices=text))]
    assert slices_of(mark(slices=text), Grain.DAY) is None
    assert "can't be told" in why_not_rebuilt(found(*tables), tables, CUTS)


def test_slices_are_read_as_they_were_cut_then() -> None:
    assert slices_of(mark(slices="2025-10"), Grain.DAY) == SliceSet.parse(Grain.MONTH, "2025-10")


@given(st.sets(st.integers(0, 8_000), min_size=1, max_size=50), st.sampled_from([*Grain, Buckets(50_000)]))
def test_the_plan_of_a_lost_run_names_the_slices_that_were_published(ordinals: set[int], cut: Grain | Buckets) -> None:
    slices = SliceSet.of(cut, ordinals)
    lost = found(table(mark(slices=slices.text)))
    plan = lost_plan(lost, {FCT: cut}, environment=None, timezone="UTC", by="ann")
    assert [(model.name, model.slices) for model in plan.models] == [(FCT, slices)]
    assert fits(plan, lost)


def test_a_plan_file_fits_if_its_slices_are_those_that_were_published() -> None:
    assert fits(a_plan(ID), found(table(mark())))
    assert not fits(a_plan(ID, days=3), found(table(mark())))
    assert not fits(a_plan("another"), found(table(mark())))
    assert not fits(a_plan(ID, models=(FCT, OTHER)), found(table(mark()))), "it was about more"


def test_who_works_on_it_is_left_alone() -> None:
    driver = Driver(who="ann", host="h", pid=1, began="")
    trouble = behind(found(table(mark())), "", Lease(token=1, driver=driver, seconds_left=9))
    assert trouble.repair == ""
    assert "ann on h (process 1) works on it" in trouble.means


@pytest.mark.parametrize("state", RunState)
def test_only_in_the_middle_of_a_step_a_run_needs_somebody(state: RunState) -> None:
    needs = state in (RunState.STAGING, RunState.PROVING, RunState.PUBLISHING)
    assert (undriven(run(state), None) is not None) is needs


@pytest.mark.parametrize(
    ("event", "command"),
    [
        (Published(snapshots={}, consumed=()), f"retcon apply {ID}"),
        (RolledBack(reason="x", snapshots={}), f"retcon rollback {ID}"),
    ],
)
def test_what_a_catalog_was_asked_for_is_found_out_by_the_same_command(
    event: Published | RolledBack, command: str
) -> None:
    trouble = undriven(run(RunState.PUBLISHED), Intent(run=ID, event=event, commits=()))
    assert trouble is not None
    assert command in trouble.remedy


def test_lost_files_are_told_by_who_leads_to_them() -> None:
    day = SliceSet.parse(Grain.DAY, "2025-10-25")
    lost = [
        LostFile(path="a", kind="data file", refs=("main",), slices=day),
        LostFile(path="b", kind="delete file", refs=("main",), slices=SliceSet.parse(Grain.DAY, "2025-10-27")),
        LostFile(path="c", kind="data file", refs=("retcon_x",)),
    ]
    main, branch = lost_files(FCT, lost, env="staging")
    assert (main.details, branch.details) == (("a", "b"), ("c",))
    assert "1 data file, 1 delete file; main leads there" in main.what
    assert f"retcon plan {FCT} --env staging --start 2025-10-25 --end 2025-10-27" in main.remedy
    assert "production is whole" in branch.means
    unknown = [replace(each, slices=None) for each in lost[:1]]
    assert [t.remedy for t in lost_files(FCT, unknown, env=None)] == ["restore them from a backup of the storage"]


def test_times_are_told_in_utc() -> None:
    late = replace(run(RunState.STAGING), updated=datetime(2026, 1, 2, 3, 4, tzinfo=UTC))
    trouble = undriven(late, None)
    assert trouble is not None
    assert "2026-01-02 03:04 UTC" in trouble.what


def test_what_a_lost_publish_left_alone_is_told_by_its_marks() -> None:
    proven = run(RunState.PROVEN, models=(FCT, OTHER))
    found_changed = replace(proven.plan, request=replace(proven.plan.request, changed=True))
    load = replace(proven, plan=found_changed)
    marked, unmarked = table(mark(slices="2025-10-26")), table(name=OTHER)
    tables = {FCT: marked, OTHER: unmarked}
    rest = ("2025-10-25", "2025-10-27", "2025-10-28")
    planned = load.plan.model(OTHER)
    assert planned is not None
    assert left_alone(found(marked, of=load), tables) == {FCT: rest, OTHER: planned.slices.labels}
    assert left_alone(found(marked, of=proven), tables) == {}, "what was asked for is published whatever comes out"
    assert left_alone(found(marked), tables) == {}, "the plan is made of what is marked"
    expired = {**tables, OTHER: table(name=OTHER, is_whole=False)}
    assert left_alone(found(marked, of=load), expired) == {FCT: rest}, "it may have had a mark"
    unclear = table(mark(slices="b3"))
    assert left_alone(found(unclear, of=load), {FCT: unclear}) == {}
