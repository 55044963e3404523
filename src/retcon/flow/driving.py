"""Driving a run: one process at a time, with a sign of life while it works."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import Event, Thread

from retcon.core.leases import LEASE_SECONDS
from retcon.core.runs import Run
from retcon.errors import Conflict, RetconError
from retcon.flow.context import Context


@contextmanager
def driving(run: Run, context: Context, *, seconds: float = LEASE_SECONDS) -> Iterator[None]:
    """Hold the lease on a run. Everything that is recorded meanwhile carries its token: after another process took
    over, the ledger refuses what this one says, its publish included.
    """
    token = _taken(run, context, seconds)
    over = Event()
    beat = Thread(target=_keep_alive, args=(run, context, token, seconds, over), name="lease", daemon=True)
    context.fence = token
    beat.start()
    try:
        yield
    finally:
        over.set()
        beat.join()
        context.fence = None
        with suppress(RetconError):
            # It runs out by itself; whoever comes next needn't wait for that.
            context.ledger.renew_lease(run.id, token, seconds=0.0)


def _taken(run: Run, context: Context, seconds: float) -> int:
    held = context.ledger.lease(run.id)
    # Killed on this machine: nobody has to wait for a lease that nobody renews.
    over = held.token if held is not None and context.is_gone(held.driver) else None
    token = context.ledger.take_lease(run.id, context.driver, over=over, seconds=seconds)
    if token is None:
        by = context.ledger.lease(run.id) or held
        raise Conflict(
            f"run {run.id} is being run by {by.driver if by is not None else 'another process'}",
            state="nothing was done by this process",
            next=f"let it finish (`retcon status` tells how far it is); if that process is no more, its turn ends "
            f"{seconds:.0f} seconds after its last sign of life: try again then",
        )
    return token


def _keep_alive(run: Run, context: Context, token: int, seconds: float, over: Event) -> None:
    while not over.wait(seconds / 4):
        # A database that doesn't answer now may by the next time.
        with suppress(RetconError):
            if not context.ledger.renew_lease(run.id, token, seconds=seconds):
                return
