"""Driving a run: one process at a time, with a sign of life while it works; and asking it to stop."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from threading import Event, Thread
from time import monotonic, sleep

from retcon.core.leases import LEASE_SECONDS, LOOK_SECONDS, Driver, Lease, StopRequest
from retcon.core.runs import Run
from retcon.errors import Conflict, RetconError
from retcon.flow.brakes import Brake
from retcon.flow.context import Context
from retcon.flow.ports import Clock, Ledger
from retcon.values import dataclass

_SAY_EVERY = 5.0
_TAKEN_OVER = StopRequest(who="", why="another process took over")


@dataclass(frozen=True, kw_only=True)
class Caller:
    """A process that has something to do with a run that another one may drive."""

    ledger: Ledger
    clock: Clock
    who: str
    driver: Driver
    is_gone: Callable[[Driver], bool]
    say: Callable[[str], None]
    """For the person who waits."""
    patience: float = LEASE_SECONDS
    look: float = 0.5
    """Seconds between two looks at whether the driver has stopped."""


@contextmanager
def driving(
    run: Run, context: Context, *, seconds: float = LEASE_SECONDS, look: float = LOOK_SECONDS
) -> Iterator[None]:
    """Hold the lease on a run. Everything that is recorded meanwhile carries its token: after another process took
    over, the ledger refuses what this one says, its publish included. Who takes over, or asks to stop in another
    terminal, pulls the brake.
    """
    token = _take(run, context, seconds)
    if token is None:
        raise _busy(run, context.ledger.lease(run.id), seconds)
    over = Event()
    context.fence, context.brake = token, Brake()
    beat = Thread(target=_keep_alive, args=(run, context, token, seconds, look, over), name="lease", daemon=True)
    beat.start()
    try:
        yield
    finally:
        over.set()
        beat.join()
        context.fence = None
        _let_go(run, token, context.ledger)


@contextmanager
def stopped(run: Run, why: str, caller: Caller) -> Iterator[int]:
    """Hold the lease on a run after whoever drives it was asked to stop, and did; its token."""
    token = _waited_for(run, why, caller)
    try:
        yield token
    finally:
        _let_go(run, token, caller.ledger)


@contextmanager
def turn_or_busy(run: Run, caller: Caller) -> Iterator[int]:
    """Hold the lease on a run, refused where somebody else drives it. Also while Spark starts, so that nobody takes it
    for left: who drives it then takes it over from here.
    """
    with turn_if_free(run, caller) as token:
        if token is None:
            raise _busy(run, caller.ledger.lease(run.id), LEASE_SECONDS)
        yield token


@contextmanager
def turn_if_free(run: Run, caller: Caller) -> Iterator[int | None]:
    """Hold the lease on a run that nobody drives; None where somebody does."""
    token = _take(run, caller, LEASE_SECONDS)
    try:
        yield token
    finally:
        if token is not None:
            _let_go(run, token, caller.ledger)


def _take(run: Run, by: Context | Caller, seconds: float) -> int | None:
    held = by.ledger.lease(run.id)
    # Killed on this machine: nobody has to wait for a lease that nobody renews. Nor for its own, from before Spark
    # was started.
    if held is not None and held.driver != by.driver and not by.is_gone(held.driver):
        return None
    return by.ledger.take_lease(run.id, by.driver, over=None if held is None else held.token, seconds=seconds)


def _let_go(run: Run, token: int, ledger: Ledger) -> None:
    with suppress(RetconError):
        # It runs out by itself; whoever comes next needn't wait for that.
        ledger.renew_lease(run.id, token, seconds=0.0)


def _busy(run: Run, held: Lease | None, seconds: float) -> Conflict:
    return Conflict(
        f"run {run.id} is being run by {held.driver if held is not None else 'another process'}",
        state="nothing was done by this process",
        next=f"let it finish (`retcon status` tells how far it is); if that process is no more, its turn ends "
        f"{seconds:.0f} seconds after its last sign of life: try again then",
    )


def _keep_alive(run: Run, context: Context, token: int, seconds: float, look: float, over: Event) -> None:
    renewed, is_lost = monotonic(), False
    while not over.wait(min(look, seconds / 4)):
        # A database that doesn't answer now may by the next time.
        with suppress(RetconError):
            held = context.ledger.lease(run.id)
            is_lost = is_lost or (held is not None and held.token != token)
            if not is_lost and monotonic() - renewed >= seconds / 4:
                is_lost = not context.ledger.renew_lease(run.id, token, seconds=seconds)
                renewed = monotonic()
            # The ledger takes nothing from this process any more, but a branch would: its jobs must not go on.
            asked = _TAKEN_OVER if is_lost else (held.asked if held is not None else None) or context.brake.request
            if asked is not None:
                # Again and again: one job of a step may end, and its next begin.
                context.brake.pull(asked, context.warehouse.interrupt)


def _waited_for(run: Run, why: str, caller: Caller) -> int:
    began = monotonic()
    said = began - _SAY_EVERY
    while (token := _take(run, caller, LEASE_SECONDS)) is None:
        held = caller.ledger.lease(run.id)
        if held is not None and held.asked is None:
            caller.ledger.ask_to_stop(run.id, held.token, StopRequest(who=caller.who, why=why))
        waited = monotonic() - began
        if held is not None and waited >= caller.patience:
            raise Conflict(
                f"run {run.id} was asked to stop {waited:.0f} seconds ago, and {held.driver} hasn't yet",
                state="the request stands: it stops when it can; nothing else was done",
                next=f"the same command again waits on; end that process if it hangs: its turn ends "
                f"{LEASE_SECONDS:.0f} seconds after its last sign of life",
            )
        if held is not None and monotonic() - said >= _SAY_EVERY:
            caller.say(f"waiting for {held.driver} to stop…" + (f" {waited:.0f} s" if waited >= 1 else ""))
            said = monotonic()
        sleep(caller.look)
    return token
