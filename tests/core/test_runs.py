"""The states of a run, and the chain of what was recorded of it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, get_args

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from retcon.core.chains import GENESIS, RecordedEvent, event_body, first_broken_link, link_hash
from retcon.core.events import Event, Judged, StagedSlice
from retcon.core.gates import Finding, Verdict
from retcon.core.runs import RecordedVerdict, RunState, SliceState, may_become, require_step
from retcon.errors import Refused

S = RunState
BEFORE_PUBLISHING = (S.PLANNED, S.STAGING, S.STAGED, S.PROVING, S.PROVEN, S.FAILED)


def steps(state: RunState) -> set[RunState]:
    return {to for to in RunState if to is not state and may_become(state, to)}


def reachable(start: RunState, without: tuple[RunState, ...] = ()) -> set[RunState]:
    found, ahead = {start}, [start]
    while ahead:
        for to in steps(ahead.pop()) - found - set(without):
            found.add(to)
            ahead.append(to)
    return found


# ── the state machine ─────────────────────────────────────────────────────────────────────────────────────────────


def test_every_state_can_be_reached() -> None:
    assert reachable(S.PLANNED) == set(RunState)


@pytest.mark.parametrize("state", RunState)
def test_final_states_lead_nowhere_and_all_others_lead_to_one(state: RunState) -> None:
    assert state.is_final == (not steps(state))
    assert any(found.is_final for found in reachable(state))
    assert may_become(state, state), "every step may run twice"


@pytest.mark.parametrize("needed", [S.PROVING, S.PROVEN, S.PUBLISHING])
def test_nothing_is_published_that_was_not_proven_and_meant_to_be_published(needed: RunState) -> None:
    assert S.PUBLISHED not in reachable(S.PLANNED, without=(needed,))


@pytest.mark.parametrize("state", RunState)
def test_only_a_run_that_is_not_being_published_can_be_paused_or_cancelled(state: RunState) -> None:
    assert (S.CANCELLED in steps(state)) == (state in (*BEFORE_PUBLISHING, S.PAUSED))
    assert (S.PAUSED in steps(state)) == (state in BEFORE_PUBLISHING)


@pytest.mark.parametrize(
    ("state", "to"),
    [(S.PLANNED, S.STAGING), (S.STAGING, S.STAGED), (S.STAGED, S.PROVING), (S.PROVING, S.PROVEN), (S.PROVING, S.FAILED),
     (S.FAILED, S.PROVEN), (S.PROVEN, S.PUBLISHING), (S.PUBLISHING, S.PUBLISHED), (S.PUBLISHED, S.ROLLED_BACK),
     (S.PUBLISHING, S.STAGING), (S.PUBLISHING, S.PROVEN), (S.PAUSED, S.STAGING)],
)  # fmt: skip
def test_the_steps_of_the_design_are_allowed(state: RunState, to: RunState) -> None:
    require_step("20260122_m_k3f9", state, to)


@pytest.mark.parametrize(
    ("state", "to"),
    [(S.PLANNED, S.STAGED), (S.STAGED, S.PROVEN), (S.STAGING, S.PUBLISHING), (S.FAILED, S.PUBLISHING),
     (S.PAUSED, S.PROVEN), (S.PAUSED, S.PUBLISHING), (S.PUBLISHED, S.STAGING), (S.PUBLISHED, S.CANCELLED),
     (S.ROLLED_BACK, S.PUBLISHED), (S.CANCELLED, S.STAGING), (S.PUBLISHING, S.CANCELLED)],
)  # fmt: skip
def test_a_step_that_the_machine_does_not_have_is_refused_with_both_states(state: RunState, to: RunState) -> None:
    with pytest.raises(Refused, match=f"is {state.value}: it can't become {to.value}"):
        require_step("20260122_m_k3f9", state, to)


# ── the chain ─────────────────────────────────────────────────────────────────────────────────────────────────────

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
BODIES = st.dictionaries(TEXTS, TEXTS | st.integers() | st.none() | st.lists(TEXTS, max_size=2), max_size=3)
EVENTS = st.tuples(TEXTS, TEXTS, st.sampled_from([kind.__name__ for kind in get_args(Event)]), BODIES)


def linked(events: list[tuple[str, str, str, dict[str, Any]]]) -> list[RecordedEvent]:
    """The chain that a ledger would keep of these events."""
    chain: list[RecordedEvent] = []
    previous = GENESIS
    for number, (at, who, kind, body) in enumerate(events, start=1):
        signed: dict[str, Any] = {"run": "r", "number": number, "at": at, "who": who, "kind": kind, "body": body}
        previous_hash, previous = previous, link_hash(**signed, previous=previous)
        chain.append(RecordedEvent(**signed, previous=previous_hash, hash=previous))
    return chain


CHAINS = st.lists(EVENTS, min_size=1, max_size=6).map(linked)
FORGED: dict[str, Any] = {
    "run": "other", "number": 99, "at": "later", "who": "nobody", "kind": "Nothing", "body": {"forged": 1},
    "previous": "f" * 64, "hash": "f" * 64,
}  # fmt: skip


@given(CHAINS)
def test_a_chain_that_nobody_touched_is_sound(chain: list[RecordedEvent]) -> None:
    assert first_broken_link(chain) is None
    assert first_broken_link([]) is None
    # What was recorded up to any moment was sound then, too.
    assert all(first_broken_link(chain[:upto]) is None for upto in range(len(chain)))


@given(CHAINS, st.sampled_from(sorted(FORGED)), st.data())
def test_any_change_of_one_event_is_found_at_that_event(
    chain: list[RecordedEvent], field: str, data: st.DataObject
) -> None:
    at = data.draw(st.integers(0, len(chain) - 1))
    chain[at] = replace(chain[at], **{field: FORGED[field]})
    assert first_broken_link(chain) == at + 1


@given(CHAINS, st.data())
def test_a_change_that_is_hashed_anew_is_found_at_the_next_event(
    chain: list[RecordedEvent], data: st.DataObject
) -> None:
    assume(len(chain) > 1)
    at = data.draw(st.integers(0, len(chain) - 2))
    old = chain[at]
    forged = {
        "run": old.run,
        "number": old.number,
        "at": old.at,
        "who": "nobody else",
        "kind": old.kind,
        "body": old.body,
    }
    chain[at] = RecordedEvent(**forged, previous=old.previous, hash=link_hash(**forged, previous=old.previous))
    assert first_broken_link(chain) == at + 2


@given(CHAINS, st.data())
def test_a_removed_event_is_found_unless_it_was_the_last(chain: list[RecordedEvent], data: st.DataObject) -> None:
    assume(len(chain) > 1)
    at = data.draw(st.integers(0, len(chain) - 2))
    assert first_broken_link(chain[:at] + chain[at + 1 :]) == at + 1


@given(CHAINS, st.data())
def test_a_chain_that_lost_its_beginning_and_was_linked_anew_is_found_by_its_numbers(
    chain: list[RecordedEvent], data: st.DataObject
) -> None:
    assume(len(chain) > 1)
    kept = chain[data.draw(st.integers(1, len(chain) - 1)) :]
    previous, forged = GENESIS, []
    for event in kept:
        signed = {"run": "r", "number": event.number, "at": event.at, "who": event.who, "kind": event.kind}
        digest = link_hash(**signed, body=event.body, previous=previous)
        forged.append(replace(event, previous=previous, hash=digest))
        previous = digest
    assert first_broken_link(forged) == 1


@given(CHAINS, st.data())
def test_two_events_that_changed_places_are_found(chain: list[RecordedEvent], data: st.DataObject) -> None:
    assume(len(chain) > 1)
    first = data.draw(st.integers(0, len(chain) - 2))
    second = data.draw(st.integers(first + 1, len(chain) - 1))
    chain[first], chain[second] = chain[second], chain[first]
    assert first_broken_link(chain) == first + 1


@given(CHAINS, st.data())
def test_an_event_that_stands_twice_is_found(chain: list[RecordedEvent], data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(chain) - 1))
    assert first_broken_link([*chain[: at + 1], *chain[at:]]) == at + 2


# ── small values ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_slice_without_rows_is_empty_and_never_done() -> None:
    assert StagedSlice(slice="2026-01-01", rows=0, bytes=0, files=0).state is SliceState.EMPTY
    assert StagedSlice(slice="2026-01-01", rows=1, bytes=9, files=1).state is SliceState.DONE


def test_a_run_passes_only_if_every_gate_does() -> None:
    good = Verdict(model="m", gate="rows", kind="rows", summary="")
    bad = replace(good, findings=(Finding(slice=None, text="no"),))
    for verdicts, passed in (((), True), ((good,), True), ((good, bad), False)):
        assert Judged(heads={}, slices=(), verdicts=verdicts, totals={}).passed is passed
    assert RecordedVerdict(verdict=good).holds
    assert not RecordedVerdict(verdict=bad).holds
    assert RecordedVerdict(verdict=bad, override="known").holds


def test_the_body_of_an_event_is_plain_data_all_the_way_down() -> None:
    verdict = Verdict(model="m", gate="rows", kind="rows", summary="", findings=(Finding(slice=None, text="no"),))
    body = event_body(Judged(heads={"m": 1}, slices=(), verdicts=(verdict,), totals={}))
    assert body["verdicts"][0]["findings"][0] == {"slice": None, "text": "no"}
