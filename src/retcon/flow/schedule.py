"""Schedule: which models are due, whose turn it is to load them, and staying to do so."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import field
from datetime import datetime
from threading import Event, Thread

from retcon.core.leases import LEASE_SECONDS
from retcon.core.projects import Project
from retcon.core.schedules import Cron, Kind, Standing, Turn, schedules_of, without_claims_of
from retcon.errors import RetconError
from retcon.flow.driving import Caller
from retcon.flow.ports import Clock, Ledger
from retcon.values import dataclass

_LOOK_SECONDS = 60.0
"""How often somebody who stays looks again: models may be edited, and other processes may die."""

_LEAST_SECONDS = 1.0


class Schedules:
    """Tells how the schedules of models stand."""

    def __init__(self, project: Project, ledger: Ledger, cron: Callable[[str], Cron]) -> None:
        self._graph = project.graph
        self._ledger = ledger
        self._cron = cron

    def standing(self, names: Sequence[str], now: datetime, *, coming: int = 0) -> list[Standing]:
        """Each schedule of these models, in running order, with so many of its next times."""
        declared = [each for name in names for each in schedules_of(self._graph.models[name])]
        turns = self._ledger.turns() if declared else {}
        found: list[Standing] = []
        for each in declared:
            cron = self._cron(each.cron)
            turn = turns.get((each.model, each.kind)) or Turn(model=each.model, kind=each.kind)
            found.append(Standing(schedule=each, due=cron.newest(now), turn=turn, coming=cron.coming(now, coming)))
        return found


@dataclass(frozen=True, kw_only=True)
class Taken:
    """The schedules that a process got."""

    turns: Sequence[Standing] = ()
    troubles: dict[str, str] = field(default_factory=dict)
    """To be filled in, by model: why its time isn't done."""


@contextmanager
def taking(due: Sequence[Standing], caller: Caller, *, claim: str, seconds: float = LEASE_SECONDS) -> Iterator[Taken]:
    """Those of these schedules that this process got, and nobody else. They are done when the block ends, but for those
    with trouble; where it breaks off they are free for the next who looks, and where the process dies, when it gives no
    more sign of life.
    """
    wanted, gone = without_claims_of(due, caller.is_gone)
    times = {(each.model, each.kind): each.due for each in wanted if each.due is not None}
    got: list[tuple[str, Kind]] = []
    if times:
        caller.ledger.prepare()
        got = caller.ledger.claim_schedules(times, caller.driver, claim=claim, over=gone, seconds=seconds)
    if not got:
        yield Taken()
        return
    over = Event()
    beat = Thread(target=_keep_alive, args=(caller.ledger, claim, seconds, over), name="schedules", daemon=True)
    beat.start()
    taken = Taken(turns=[each for each in due if (each.model, each.kind) in got])
    try:
        yield taken
    except BaseException as broken:
        trouble = broken.recorded if isinstance(broken, RetconError) else type(broken).__name__
        with suppress(RetconError):
            # It runs out by itself; whoever comes next needn't wait for that.
            caller.ledger.end_claim(claim, at=caller.clock(), trouble=trouble)
        raise
    else:
        caller.ledger.end_claim(claim, at=caller.clock(), troubles=taken.troubles)
    finally:
        over.set()
        beat.join()


def _keep_alive(ledger: Ledger, claim: str, seconds: float, over: Event) -> None:
    while not over.wait(seconds / 4):
        # A database that doesn't answer now may by the next time.
        with suppress(RetconError):
            if not ledger.renew_claim(claim, seconds=seconds):
                return


def watch(
    look: Callable[[], Sequence[Standing]],
    load: Callable[[Sequence[Standing]], bool],
    clock: Clock,
    sleep: Callable[[float], None],
) -> None:
    """Load what is due when it is due, for ever. What `look` and `load` can't do they tell by themselves; a schedule
    whose load didn't end well, False, has its next try at its next time.
    """
    failed: dict[tuple[str, Kind], datetime | None] = {}
    while True:
        found = look()
        due = [
            each
            for each in found
            if each.is_due and each.turn.claim is None and failed.get((each.model, each.kind)) != each.due
        ]
        if due and not load(due):
            failed |= {(each.model, each.kind): each.due for each in due}
        next_time = min((each.coming[0] for each in found if each.coming), default=None)
        pause = _LOOK_SECONDS if next_time is None else (next_time - clock()).total_seconds()
        sleep(min(max(pause, _LEAST_SECONDS), _LOOK_SECONDS))
