"""Pause: stop a run where it is, to go on later."""

from __future__ import annotations

from retcon.core.events import Paused
from retcon.core.leases import StopRequest
from retcon.core.runs import Run, RunState
from retcon.errors import Interrupted, Refused
from retcon.flow.context import Context
from retcon.flow.driving import Caller, stopped

AT_THE_KEYBOARD = StopRequest(who="", why="interrupted at the keyboard")


def pause(run: Run, reason: str, caller: Caller) -> Run:
    """Whoever drives the run stops and records it; where nobody does, it is recorded at once."""
    _require_pausable(run)
    with stopped(run, reason, caller) as token:
        standing = caller.ledger.run(run.id) or run
        _require_pausable(standing)
        if was_paused_since(run, standing):
            return standing
        # One that is paused already as well: an `apply` that is just starting must see it.
        why = StopRequest(who=caller.who, why=reason).told
        return caller.ledger.record(run.id, Paused(why=why), at=caller.clock(), who=caller.who, fence=token)


def was_paused_since(before: Run, now: Run) -> bool:
    """Did somebody pause the run meanwhile?"""
    return now.state is RunState.PAUSED and (before.state, before.updated) != (now.state, now.updated)


def pause_here(run: Run, context: Context, *, passed: str = "") -> Interrupted:
    """Record that this process stopped driving the run; what is staged, what isn't, and how to go on. `passed` tells
    of a budget that is.
    """
    asked = StopRequest(who="", why=passed) if passed else context.brake.request or AT_THE_KEYBOARD
    standing = context.ledger.run(run.id) or run
    if standing.state not in (RunState.PUBLISHING, RunState.PAUSED) and not standing.state.is_over:
        standing = context.record(standing, Paused(why=asked.told, driven=True))
    total, staged = run.plan.slices, context.ledger.tallies([run.id])[run.id].staged
    what = f"{standing.state.value.replace('_', ' ')}{f' ({asked.told})' if asked is not AT_THE_KEYBOARD else ''}"
    if standing.state.is_over:
        return Interrupted(
            f"run {run.id} is {what}",
            state="the run is published" if standing.state is RunState.PUBLISHED else "production is untouched",
            next=f"`retcon show {run.id}` tells more",
        )
    rest = f", {total - staged:,} aren't" if staged < total else ""
    was_asked = context.ledger.intent(run.id) is not None
    again = f"`retcon apply {run.id} --budget …` with a higher one" if passed else f"`retcon apply {run.id}`"
    return Interrupted(
        f"{what}: {staged:,} of {total:,} slices are staged{rest}",
        state="the catalog may have published it: that will be found out" if was_asked else "production is untouched",
        next=f"{again} goes on with what is missing; `retcon cancel {run.id}` gives it up",
    )


def _require_pausable(run: Run) -> None:
    match run.state:
        case RunState.PUBLISHING:
            state = "all of it becomes visible in one step, or nothing does"
            advice = f"`retcon show {run.id}` tells how it ended; `retcon apply {run.id}` goes on where it broke off"
        case RunState.PUBLISHED:
            state, advice = "it is visible", f"`retcon rollback {run.id} --reason …` undoes a publish"
        case RunState.ROLLED_BACK | RunState.CANCELLED:
            state, advice = "nothing of it is visible", f"`retcon show {run.id}` tells more"
        case _:
            return
    raise Refused(
        f"run {run.id} is {run.state.value.replace('_', ' ')}: it can't be paused any more", state=state, next=advice
    )
