"""What an event makes of a run: pure, so that it can be refused before anything is written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import TypeVar, assert_never

from retcon.core.events import (
    ApplyBegan,
    Cancelled,
    Certified,
    CheckedAfter,
    Event,
    GateOverridden,
    InputsJudged,
    Judged,
    Paused,
    ProvingBegan,
    PublishBegan,
    Published,
    PublishRefused,
    Rebased,
    Rebuilt,
    Reproduced,
    Resumed,
    RollbackBegan,
    RolledBack,
    RunOpened,
    SampleChecked,
    SlicesKept,
    StagingDone,
    TablesOpened,
    WaveFailed,
    WaveStaged,
)
from retcon.core.expectations import expectation_from
from retcon.core.runs import RecordedVerdict, Run, RunState, require_step
from retcon.errors import Refused

T = TypeVar("T")

_UNDONE = "unknown: found undone in the tables"
_WITH_ROWS = frozenset(RunState) - {RunState.PLANNED, RunState.STAGING, RunState.CANCELLED}
"""In which there may be rows to compare."""
_JUDGED_LATER = (
    RunState.PLANNED,
    RunState.STAGING,
    RunState.STAGED,
    RunState.PROVING,
    RunState.PROVEN,
    RunState.FAILED,
    RunState.PAUSED,
)
"""States in which what is expected of a run may still change."""


def run_after(run: Run, event: Event, *, verdicts: Sequence[RecordedVerdict], at: datetime) -> Run:
    """The run as it is after an event; refused where the state machine has no such step."""
    state = state_after(run, event, verdicts)
    moved = _without_proof(run) if proof_lapses(run.state, event) else run
    return replace(_with_outcome(moved, event, at), state=state, updated=at)


def state_after(run: Run, event: Event, verdicts: Sequence[RecordedVerdict]) -> RunState:
    """The state that an event leads to."""
    match event:
        case RunOpened():
            raise ValueError(f"run {run.id} is open already")
        case ApplyBegan():
            to = RunState.PROVING if proof_lapses(run.state, event) else run.state
        case TablesOpened():
            if run.tables:
                raise Refused(f"run {run.id} has its tables open already", next=f"`retcon show {run.id}`")
            to = RunState.STAGING
        case InputsJudged():
            _require_state(run, "told of its inputs", RunState.PLANNED, RunState.STAGING, RunState.PAUSED)
            to = run.state
        case WaveStaged() | WaveFailed() | SlicesKept():
            # A wave that was under way when the run was paused still tells how it ended.
            to = RunState.PAUSED if run.state is RunState.PAUSED else RunState.STAGING
        case StagingDone():
            to = RunState.STAGED
        case ProvingBegan():
            to = RunState.PROVING
        case Judged():
            _require_state(run, "judged", RunState.PROVING)
            to = RunState.PROVEN if event.passed else RunState.FAILED
        case GateOverridden():
            _require_state(run, "overridden", RunState.FAILED, RunState.PROVEN)
            to = _state_after_override(event, verdicts)
        case SampleChecked():
            _require_state(run, "checked by hand", *_WITH_ROWS)
            to = run.state
        case PublishBegan():
            to = RunState.PUBLISHING
        case PublishRefused():
            # Mostly it is refused while it is being prepared, before any intent to swap was recorded.
            _require_state(run, "sent back from publishing", RunState.PUBLISHING, RunState.PROVEN)
            to = RunState.PROVEN
        case Rebased():
            _require_state(run, "rebased", RunState.PUBLISHING, RunState.PROVEN)
            to = RunState.STAGING
        case Published():
            # A publish id stands once.
            _require_state(run, "published", RunState.PUBLISHING)
            to = RunState.PUBLISHED
        case Certified() | CheckedAfter():
            _require_state(run, "looked at as published", RunState.PUBLISHED)
            to = run.state
        case Paused():
            to = RunState.PAUSED
        case Resumed():
            _require_resumable(run, event.to)
            to = event.to
        case Cancelled():
            to = RunState.CANCELLED
        case RollbackBegan():
            _require_state(run, "rolled back", RunState.PUBLISHED)
            to = run.state
        case RolledBack():
            _require_state(run, "rolled back", RunState.PUBLISHED)
            to = RunState.ROLLED_BACK
        case Reproduced():
            _require_state(run, "reproduced", RunState.PUBLISHED, RunState.ROLLED_BACK)
            to = run.state
        case Rebuilt():
            _require_lost(run, event)
            return RunState.ROLLED_BACK if event.undone else RunState.PUBLISHED
        case _:
            assert_never(event)
    require_step(run.id, run.state, to)
    return to


def proof_lapses(state: RunState, event: Event) -> bool:
    """Does what was measured and judged so far, overrides included, no longer hold?"""
    if isinstance(event, WaveStaged | WaveFailed | SlicesKept):
        return state is not RunState.STAGING
    if isinstance(event, ApplyBegan):
        return event.expect is not None and state in (RunState.PROVEN, RunState.FAILED)
    if isinstance(event, Rebuilt):
        # What was proven may not be what was published in the end.
        return state is not RunState.PUBLISHED
    return isinstance(event, Resumed | ProvingBegan | Rebased)


def overridden_by(event: GateOverridden, verdicts: Sequence[RecordedVerdict]) -> list[int]:
    """The places of the failed verdicts that an override is about."""
    return [
        place
        for place, recorded in enumerate(verdicts)
        if not recorded.verdict.passed and (recorded.verdict.model, recorded.verdict.gate) == (event.model, event.gate)
    ]


def _state_after_override(event: GateOverridden, verdicts: Sequence[RecordedVerdict]) -> RunState:
    meant = overridden_by(event, verdicts)
    if not meant:
        raise Refused(f"{event.model} has no failed gate {event.gate!r}", next="name a gate that failed")
    if not all(verdicts[place].verdict.may_be_overridden for place in meant):
        raise Refused(f"{event.model}: {event.gate!r} can't be overridden", next="correct the model, then apply again")
    rest = (recorded for place, recorded in enumerate(verdicts) if place not in meant)
    return RunState.PROVEN if all(recorded.holds for recorded in rest) else RunState.FAILED


def _with_outcome(run: Run, event: Event, at: datetime) -> Run:
    match event:
        case ApplyBegan() if event.expect is not None:
            _require_state(run, "expected to do something else", *_JUDGED_LATER)
            return replace(run, plan=replace(run.plan, expect=tuple(expectation_from(e) for e in event.expect)))
        case TablesOpened():
            tables = {opened.table: opened for opened in event.tables}
            return replace(run, tables=tables, pins=dict(event.pins), run_ts=event.run_ts)
        case Rebased():
            return replace(run, tables={opened.table: opened for opened in event.tables}, pins=dict(event.pins))
        case Judged():
            heads = _of_its_tables(run, event.heads)
            tables = {
                model: replace(opened, head=heads.get(opened.table, opened.head))
                for model, opened in run.tables.items()
            }
            return replace(run, tables=tables, totals=event.totals)
        case Published():
            published = _of_its_tables(run, event.snapshots)
            tables = {
                model: replace(
                    opened,
                    published_snapshot=published.get(opened.table),
                    same=tuple(event.same.get(opened.table, ())),
                )
                for model, opened in run.tables.items()
            }
            return replace(run, tables=tables, published=at)
        case Cancelled():
            return replace(run, why_ended=event.reason)
        case RolledBack():
            return replace(run, rolled_back=at, why_ended=event.reason)
        case Rebuilt():
            tables = {**run.tables, **{table.table: table for table in event.tables}}
            when = run.published or datetime.fromisoformat(event.published)
            found = replace(run, tables=tables, published=when, why_ended=None)
            return replace(found, rolled_back=at, why_ended=_UNDONE) if event.undone else found
        case _:
            return run


def _without_proof(run: Run) -> Run:
    tables = {model: replace(opened, head=None) for model, opened in run.tables.items()}
    return replace(run, tables=tables, totals={})


def _of_its_tables(run: Run, values: Mapping[str, T]) -> Mapping[str, T]:
    unknown = set(values) - {opened.table for opened in run.tables.values()}
    if unknown:
        raise ValueError(f"run {run.id} didn't open {', '.join(sorted(unknown))}")
    return values


def _require_lost(run: Run, event: Rebuilt) -> None:
    """The tables know more than the ledger: a publish, or that one was taken back."""
    if run.published is not None and not (event.undone and run.state is RunState.PUBLISHED):
        raise Refused(f"run {run.id} is {run.state.value}: nothing of it is lost", next=f"`retcon show {run.id}`")


def _require_state(run: Run, done: str, *states: RunState) -> None:
    if run.state not in states:
        raise Refused(f"run {run.id} is {run.state.value}: it can't be {done}", next=f"`retcon show {run.id}`")


def _require_resumable(run: Run, to: RunState) -> None:
    # Everything from the proof on has to be earned again; resuming straight to it would pass by the gates.
    if to not in (RunState.STAGING, RunState.PROVING):
        raise Refused(f"run {run.id} can't be resumed to {to.value}", next=f"`retcon show {run.id}`")
