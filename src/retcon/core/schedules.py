"""Schedules: when a model is to be loaded, told by a cron on the clocks of the project's time zone."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta, tzinfo
from enum import StrEnum

from retcon.core.leases import Driver
from retcon.core.models import Model
from retcon.values import dataclass

_SHIFT = timedelta(hours=3)
"""Clocks aren't put forward or back by more at once."""

_SECOND = timedelta(seconds=1)

Walls = Callable[[datetime, bool], Iterator[datetime]]
"""What clocks show at the times of a cron: those after a moment, or, with True, those before it, newest first."""


class Kind(StrEnum):
    """What is done on a schedule."""

    LOAD = "load"
    """What changed since the watermarks."""
    DEEP = "deep"
    """The whole history is compared with what was consumed."""


@dataclass(frozen=True, kw_only=True)
class Cron:
    """Times of a cron in a time zone. A time that clocks skip in spring comes as much later as they are put forward,
    and one that they show twice in autumn comes once, unless the cron names no hours: then clocks don't matter.
    """

    text: str
    walls: Walls
    zone: tzinfo
    is_hourly: bool
    """It names no hours: it comes in the hour that is there twice both times."""

    def newest(self, at: datetime) -> datetime | None:
        """The last time up to a moment; None: it never came."""
        found: datetime | None = None
        for wall in self.walls(self._wall(at) + self._around(at) + _SECOND, True):
            if found is not None and wall < self._wall(found) - self._around(found):
                break
            came = [moment for moment in self._moments(wall) if moment <= at]
            found = max(came if found is None else [found, *came], default=None)
        return found

    def next(self, at: datetime) -> datetime | None:
        """The first time after a moment; None: it never comes."""
        found: datetime | None = None
        for wall in self.walls(self._wall(at) - self._around(at), False):
            if found is not None and wall > self._wall(found) + self._around(found):
                break
            comes = [moment for moment in self._moments(wall) if moment > at]
            found = min(comes if found is None else [found, *comes], default=None)
        return found

    def coming(self, at: datetime, count: int) -> tuple[datetime, ...]:
        """So many times after a moment."""
        found: list[datetime] = []
        while len(found) < count and (moment := self.next(found[-1] if found else at)) is not None:
            found.append(moment)
        return tuple(found)

    def _wall(self, at: datetime) -> datetime:
        return at.astimezone(self.zone).replace(tzinfo=None, fold=0)

    def _around(self, at: datetime) -> timedelta:
        """How far clocks have to be looked at around a moment: where they are put forward or back, they don't show
        times in the order in which these come.
        """
        before, after = ((at + way).astimezone(self.zone).utcoffset() for way in (-_SHIFT, _SHIFT))
        return timedelta() if before == after else _SHIFT

    def _moments(self, wall: datetime) -> Iterator[datetime]:
        # Of a time that is skipped the first is the later one, of a time that is there twice the earlier one.
        first, second = (wall.replace(tzinfo=self.zone, fold=fold).astimezone(UTC) for fold in (0, 1))
        yield first
        if self.is_hourly and second > first:
            yield second


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """One schedule of a model."""

    model: str
    kind: Kind
    cron: str


def schedules_of(model: Model) -> tuple[Schedule, ...]:
    """The schedules that a model's file declares."""
    declared = ((Kind.LOAD, model.schedule), (Kind.DEEP, model.replay.deep))
    return tuple(Schedule(model=model.name, kind=kind, cron=cron) for kind, cron in declared if cron is not None)


@dataclass(frozen=True, kw_only=True)
class Claim:
    """A process is at it."""

    id: str
    driver: Driver
    seconds_left: float


@dataclass(frozen=True, kw_only=True)
class Turn:
    """What is on record about a schedule."""

    model: str
    kind: Kind
    done: datetime | None = None
    """The newest of its times for which a load ended well: that one took care of all before it, too."""
    ended: datetime | None = None
    """When a load of it ended the last time, well or not."""
    trouble: str = ""
    """Why the last one didn't end well."""
    claim: Claim | None = None
    """None: nobody is at it, or its process gave no sign of life for too long."""


@dataclass(frozen=True, kw_only=True)
class Standing:
    """How a schedule stands at a moment."""

    schedule: Schedule
    due: datetime | None
    """The last of its times that came."""
    turn: Turn
    coming: tuple[datetime, ...] = ()

    @property
    def model(self) -> str:
        return self.schedule.model

    @property
    def kind(self) -> Kind:
        return self.schedule.kind

    @property
    def is_due(self) -> bool:
        """Did one of its times come since the last that is done? Those that were missed are made up for by one load."""
        return self.due is not None and (self.turn.done is None or self.turn.done < self.due)


def without_claims_of(
    standing: Sequence[Standing], is_gone: Callable[[Driver], bool]
) -> tuple[list[Standing], list[str]]:
    """The same without the claims of processes that are no more, and the ids of those claims."""
    gone = [each.turn.claim.id for each in standing if each.turn.claim is not None and is_gone(each.turn.claim.driver)]
    freed = [
        replace(each, turn=replace(each.turn, claim=None))
        if each.turn.claim is not None and each.turn.claim.id in gone
        else each
        for each in standing
    ]
    return freed, gone
