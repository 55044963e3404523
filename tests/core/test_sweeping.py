"""What is swept, and what never is."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retcon.core.runs import Run, RunState
from retcon.core.sweeping import Circumstances, Kind, Leftover, Ref, TableRefs, leftovers, owner_of
from tests.ledger.examples import FCT, a_plan

NOW = datetime(2026, 2, 20, tzinfo=UTC)
DAYS = 14
STATES = sorted(RunState)


def run(name: str, state: RunState, days_ago: int) -> Run:
    ended = NOW - timedelta(days=days_ago)
    return Run(
        id=name, kind="backfill", state=state, plan=a_plan(name), by="ann", created=ended, updated=ended,
        published=ended if state in (RunState.PUBLISHED, RunState.ROLLED_BACK) else None,
        rolled_back=ended if state is RunState.ROLLED_BACK else None,
    )  # fmt: skip


def about(
    *runs: Run, needed: frozenset[int] = frozenset(), driven: tuple[str, ...] = (), hold: str = ""
) -> Circumstances:
    return Circumstances(
        now=NOW, runs={each.id: each for each in runs}, environment=None, retention_days={}, default_days=DAYS,
        driven=driven, needed=needed, hold=hold,
    )  # fmt: skip


@st.composite
def lines(draw: st.DrawFn) -> TableRefs:
    """Snapshots that stand on one another in any way, main, and some refs of retcon's and of others."""
    number = draw(st.integers(1, 8))
    parents: dict[int, int | None] = {
        at: draw(st.none() | st.integers(0, at - 1)) if at else None for at in range(number)
    }
    gone = draw(st.sets(st.integers(0, number - 1), max_size=2))
    kept = [at for at in parents if at not in gone] or [0]
    names = ["main", "theirs", *(f"retcon_{kind}20260101_m_{at}" for kind in ("", "before_", "undo_") for at in "abc")]
    chosen = draw(st.sets(st.sampled_from(names[1:])))
    refs = [
        Ref(name=name, snapshot_id=draw(st.sampled_from(kept)), is_tag="before" in name)
        for name in ("main", *sorted(chosen))
    ]
    times = {at: NOW - timedelta(days=draw(st.integers(0, 30))) for at in kept}
    return TableRefs(table=FCT, refs=tuple(refs), parents={at: parents[at] for at in kept}, times=times)


runs = st.tuples(
    *(st.none() | st.tuples(st.sampled_from(STATES), st.integers(0, 30)) for _ in "abc")
).map(
    lambda drawn: [run(f"20260101_m_{at}", *each) for at, each in zip("abc", drawn, strict=True) if each is not None]
)  # fmt: skip


@given(lines(), runs, st.frozensets(st.integers(0, 8), max_size=3), st.booleans())
def test_whatever_the_history_nothing_goes_that_somebody_needs(
    table: TableRefs, known: list[Run], needed: frozenset[int], is_busy: bool
) -> None:
    by_id = {each.id: each for each in known}
    found = leftovers(table, about(*known, needed=needed, hold="some run is open" if is_busy else ""))
    names = {each.name for each in found if each.is_dropped}
    heads = {ref.name: ref.snapshot_id for ref in table.refs}
    assert {each.name for each in found} == {name for name in heads if name.startswith("retcon_")}
    kept = [ref for ref in table.refs if ref.name not in names]
    only = table.only_of(names)
    assert not only & table.reachable(kept)
    assert not only & needed
    assert not {heads[name] for name in names} & needed
    assert only | table.reachable(kept) == table.reachable(table.refs)
    for each in (each for each in found if each.is_dropped):
        owner = by_id.get(each.run)
        if owner is None:
            assert not is_busy
            continue
        assert owner.state.is_over
        can_be_undone = owner.state is RunState.PUBLISHED and NOW - owner.updated < timedelta(days=DAYS)
        assert not can_be_undone or each.kind is Kind.UNDO
    # Once more, nothing is left to do.
    left = replace(table, refs=tuple(kept), parents={k: v for k, v in table.parents.items() if k not in only})
    again = leftovers(left, about(*known, needed=needed, hold="some run is open" if is_busy else ""))
    assert not any(each.is_dropped and by_id.get(each.run) is not None for each in again)


def fate(name: str, *known: Run, **more: object) -> Leftover:
    ref = Ref(name=name, snapshot_id=1, is_tag="before" in name)
    table = TableRefs(table=FCT, refs=(ref,), parents={1: None}, times={1: NOW - timedelta(days=20)})
    return leftovers(table, about(*known, **more))[0]  # type: ignore[arg-type] # as they come


@pytest.mark.parametrize(
    ("state", "days_ago", "is_dropped"),
    [
        (RunState.PUBLISHED, 13, False),
        (RunState.PUBLISHED, 14, True),
        (RunState.ROLLED_BACK, 13, False),
        (RunState.ROLLED_BACK, 14, True),
        (RunState.CANCELLED, 0, True),
        (RunState.PAUSED, 30, False),
        (RunState.PUBLISHING, 30, False),
    ],
)
def test_what_a_run_left_is_kept_for_its_retention(state: RunState, days_ago: int, is_dropped: bool) -> None:
    known = run("20260101_m_a", state, days_ago)
    for name in ("retcon_20260101_m_a", "retcon_before_20260101_m_a"):
        found = fate(name, known)
        assert found.is_dropped is is_dropped
        assert (found.until is not None) is (not is_dropped and state.is_over)


def test_the_branch_of_an_abandoned_rollback_goes_unless_somebody_works_on_it() -> None:
    known = run("20260101_m_a", RunState.PUBLISHED, 1)
    assert fate("retcon_undo_20260101_m_a", known).is_dropped
    driven = fate("retcon_undo_20260101_m_a", known, driven=("20260101_m_a",))
    assert (driven.is_dropped, driven.why) == (False, "its run is being rolled back")


def test_what_no_run_is_known_of_goes_when_it_is_old_and_no_run_is_open() -> None:
    assert fate("retcon_20260101_m_x").is_dropped
    # Its snapshot is old, as a tag's may be; the day in its name is not.
    young = fate("retcon_before_20260210_m_x")
    assert (young.is_dropped, young.until) == (False, datetime(2026, 2, 24, tzinfo=UTC))
    assert not fate("retcon_20260101_m_x", hold="some run is open").is_dropped


@pytest.mark.parametrize("name", ["main", "theirs", "retcon", "retcon_x", "retcon_20260101", "xretcon_20260101_m_a"])
def test_what_others_made_is_not_even_told(name: str) -> None:
    assert owner_of(Ref(name=name, snapshot_id=1, is_tag=False)) is None


def test_a_tag_with_a_branchs_name_is_somebody_elses() -> None:
    assert owner_of(Ref(name="retcon_20260101_m_a", snapshot_id=1, is_tag=True)) is None
    assert owner_of(Ref(name="retcon_before_20260101_m_a", snapshot_id=1, is_tag=True)) == (Kind.TAG, "20260101_m_a")
