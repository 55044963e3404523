"""Timings: where the time of a run went, told by the moments of its events.

Each call of `apply` is a turn: it begins with its own event, and from there on the time up to each event belongs to the
step that the event ends. What a process that died did after its last event isn't known, and isn't counted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from typing import Any

from retcon.core.chains import RecordedEvent
from retcon.core.estimates import RunSample, WaveSample, median_of
from retcon.core.events import (
    ApplyBegan,
    Cancelled,
    CheckedAfter,
    GateOverridden,
    InputsJudged,
    Judged,
    Paused,
    ProvingBegan,
    PublishBegan,
    Published,
    PublishRefused,
    Rebased,
    Resumed,
    RollbackBegan,
    SlicesKept,
    StagingDone,
    TablesOpened,
    WaveFailed,
    WaveStaged,
)
from retcon.core.tasks import Tasks, tasks_from


class Step(StrEnum):
    """The parts of a run, in their order."""

    PLANNING = "planning"
    PREPARING = "getting ready"
    """Reading the project, comparing the plan with code and inputs; of a load, finding and planning, too."""
    STARTING = "starting Spark"
    OPENING = "opening tables"
    STAGING = "staging"
    PROVING = "proving"
    PUBLISHING = "publishing"
    CHECKING = "looking at production"


_ENDS = {
    TablesOpened.__name__: Step.OPENING,
    **dict.fromkeys(
        (each.__name__ for each in (WaveStaged, WaveFailed, SlicesKept, StagingDone, Resumed)), Step.STAGING
    ),
    **dict.fromkeys((each.__name__ for each in (ProvingBegan, Judged, GateOverridden)), Step.PROVING),
    **dict.fromkeys((each.__name__ for each in (PublishBegan, PublishRefused, Published, Rebased)), Step.PUBLISHING),
}
_FOLLOWS = {
    TablesOpened.__name__: Step.STAGING,
    Rebased.__name__: Step.STAGING,
    StagingDone.__name__: Step.PROVING,
    Judged.__name__: Step.PUBLISHING,
}


@dataclass(frozen=True, kw_only=True)
class Turn:
    """One call of `apply`."""

    at: str
    cores: int | None
    max_active: int
    seconds: Mapping[Step, float]

    @property
    def in_spark(self) -> float:
        """Seconds for which Spark, and its cores, were there."""
        return sum(s for step, s in self.seconds.items() if step not in (Step.PLANNING, Step.PREPARING))

    @property
    def core_hours(self) -> float | None:
        return None if self.cores is None else self.cores * self.in_spark / 3600


@dataclass(frozen=True, kw_only=True)
class TimedWave:
    """One wave that was computed."""

    model: str
    wave: int
    slices: int
    seconds: float
    at_once: float
    """How many waves, of whatever model, shared its time with it, itself included; on average."""
    cores: int | None
    bytes: int | None
    """What was in scope of it, where that is known."""
    written_bytes: int
    tasks: Tasks | None

    @property
    def around(self) -> float | None:
        """Seconds of the wave around its job: views made and analysed before, its commit found again after."""
        if self.tasks is None:
            return None
        own = self.tasks.planning_seconds + self.tasks.seconds + self.tasks.commit_seconds
        return max(0.0, self.seconds - own)


@dataclass(frozen=True, kw_only=True)
class Timing:
    """Where the time of a run went."""

    planning: float | None
    turns: tuple[Turn, ...]
    waves: tuple[TimedWave, ...]

    @property
    def steps(self) -> dict[Step, float]:
        """Over all turns, in order; those that are known."""
        found = {} if self.planning is None else {Step.PLANNING: self.planning}
        for turn in self.turns:
            for step, seconds in turn.seconds.items():
                found[step] = found.get(step, 0.0) + seconds
        return {step: found[step] for step in Step if step in found}

    @property
    def in_spark(self) -> float:
        """Seconds for which Spark was there."""
        return sum(turn.in_spark for turn in self.turns)

    @property
    def core_hours(self) -> float | None:
        """None where the cores of a turn aren't known."""
        hours = [turn.core_hours for turn in self.turns]
        known = [each for each in hours if each is not None]
        return sum(known) if known and len(known) == len(hours) else None


@dataclass(kw_only=True)
class _Turn:
    """A turn that is being read."""

    body: Mapping[str, Any]
    at: str
    last: datetime
    step: Step
    seconds: dict[Step, float] = field(default_factory=dict)

    def add(self, step: Step, seconds: float) -> None:
        self.seconds[step] = self.seconds.get(step, 0.0) + max(0.0, seconds)

    def until(self, step: Step, at: datetime) -> None:
        self.add(step, (at - self.last).total_seconds())
        self.last = at

    @property
    def made(self) -> Turn:
        return Turn(
            at=self.at, cores=self.body.get("cores"), max_active=self.body["max_active"], seconds=dict(self.seconds)
        )


def timing_of(events: Sequence[RecordedEvent], planning: float | None = None) -> Timing:
    """Where the time of the run of these events went."""
    turns: list[_Turn] = []
    waves: list[tuple[datetime, TimedWave]] = []
    current: _Turn | None = None
    has_tables = False
    for event in events:
        at = datetime.fromisoformat(event.at)
        if event.kind == ApplyBegan.__name__:
            current = _begun(event, at, Step.STAGING if has_tables else Step.OPENING)
            turns.append(current)
        elif event.kind in (Cancelled.__name__, RollbackBegan.__name__):
            current = None
        elif event.kind == CheckedAfter.__name__ and turns:
            # Made up for by a later call, it has no turn of its own: it says itself how long it took.
            turns[-1].add(Step.CHECKING, event.body.get("seconds") or 0.0)
        elif current is not None:
            _carry_on(current, event, at)
        has_tables = has_tables or event.kind == TablesOpened.__name__
        if event.kind == WaveStaged.__name__ and not event.body.get("adopted"):
            waves.append((at, _wave(event.body, current)))
    return Timing(planning=planning, turns=tuple(turn.made for turn in turns), waves=_shared(waves))


def _begun(event: RecordedEvent, at: datetime, step: Step) -> _Turn:
    turn = _Turn(body=event.body, at=event.at, last=at, step=step)
    for key, own in (("preparing", Step.PREPARING), ("starting", Step.STARTING)):
        if event.body.get(key) is not None:
            turn.add(own, event.body[key])
    return turn


def _carry_on(turn: _Turn, event: RecordedEvent, at: datetime) -> None:
    if (event.kind == Paused.__name__ and event.body.get("driven")) or event.kind == InputsJudged.__name__:
        turn.until(turn.step, at)
    elif event.kind == Published.__name__ and event.body.get("settled"):
        pass  # found out by a later process: when it happened isn't known
    elif event.kind in _ENDS:
        turn.until(_ENDS[event.kind], at)
    turn.step = _FOLLOWS.get(event.kind, turn.step)


def _wave(body: Mapping[str, Any], turn: _Turn | None) -> TimedWave:
    return TimedWave(
        model=body["model"],
        wave=body["wave"],
        slices=len(body["slices"]),
        seconds=body["seconds"],
        at_once=1.0,
        cores=turn.body.get("cores") if turn is not None else None,
        bytes=body.get("bytes"),
        written_bytes=sum(each["bytes"] for each in body["slices"]),
        tasks=tasks_from(body.get("tasks")),
    )


def _shared(ended: Sequence[tuple[datetime, TimedWave]]) -> tuple[TimedWave, ...]:
    """Each with how many ran at once: while there are n, the time of each counts for an nth of it."""
    spans = [(at.timestamp() - wave.seconds, at.timestamp()) for at, wave in ended]
    changes: dict[float, int] = {}
    for begin, end in spans:
        changes[begin] = changes.get(begin, 0) + 1
        changes[end] = changes.get(end, 0) - 1
    # Up to each moment: the time that a wave would have had for itself, had it been there from the beginning.
    share: dict[float, float] = {}
    total, running, last = 0.0, 0, 0.0
    for moment in sorted(changes):
        total += (moment - last) / running if running else 0.0
        share[moment] = total
        running, last = running + changes[moment], moment
    return tuple(
        replace(wave, at_once=max(1.0, wave.seconds / own)) if (own := share[end] - share[begin]) > 0 else wave
        for (begin, end), (_, wave) in zip(spans, ended, strict=True)
    )


def wave_sample(wave: TimedWave, run: str = "") -> WaveSample:
    """What a wave of an earlier run tells."""
    tasks = 0.0 if wave.tasks is None else wave.tasks.seconds
    fixed = 0.0 if wave.tasks is None else max(0.0, wave.seconds - tasks)
    return WaveSample(
        seconds=wave.seconds / wave.at_once,
        fixed=fixed / wave.at_once,
        slices=wave.slices,
        bytes=wave.bytes,
        cores=wave.cores,
        run=run,
    )


def run_sample(timing: Timing) -> RunSample | None:
    """What an earlier run tells as a whole; nothing where it didn't get to its end."""
    steps = timing.steps
    if Step.STAGING not in steps or Step.PUBLISHING not in steps or not timing.turns:
        return None
    rest = (Step.OPENING, Step.PROVING, Step.PUBLISHING, Step.CHECKING)
    starts = [s for turn in timing.turns if (s := turn.seconds.get(Step.STARTING)) is not None]
    return RunSample(
        starting=median_of(starts) if starts else None,
        staging=steps[Step.STAGING],
        rest=sum(steps.get(step, 0.0) for step in rest),
    )
