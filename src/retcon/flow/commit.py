"""Commit: every table of a run in one step, and the record of it.

Where the catalog is in the ledger's own database, both are one transaction. A REST catalog commits by itself: then the
intent is recorded first, the outcome after. What happened in between, the tables tell.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from retcon.core.events import Published, RolledBack
from retcon.core.intents import Intent, Standing, standing_of, tables_by_standing
from retcon.core.pointers import PointerSwap, TableCommit
from retcon.core.runs import Run
from retcon.errors import Conflict, Fault, Refused
from retcon.flow.context import Context
from retcon.flow.ports import Clock, Ledger, Tables

_TRIES = 3


def publish_group(run: Run, event: Published, swaps: Sequence[PointerSwap], context: Context) -> Run:
    """Make a run visible and record it."""
    if context.catalog is None or not swaps:
        return context.ledger.publish(run.id, event, swaps, at=context.clock(), who=context.who, fence=context.fence)
    return _through_catalog(Intent(run=run.id, event=event, commits=_commits(swaps)), context)


def roll_back_group(run: Run, event: RolledBack, swaps: Sequence[PointerSwap], context: Context) -> Run:
    """Take a publish back and record it."""
    if context.catalog is None:
        return context.ledger.roll_back(run.id, event, swaps, at=context.clock(), who=context.who, fence=context.fence)
    return _through_catalog(Intent(run=run.id, event=event, commits=_commits(swaps)), context)


def settle(run: Run, context: Context) -> Run:
    """Finish what a process that died, or an answer that was lost, left open: recorded, sent again, or given up."""
    intent = _settled(context.ledger.intent(run.id))
    if intent is None:
        return run
    found = look(intent, context.tables)
    if set(found.values()) == {Standing.DONE}:
        return _recorded(intent, context)
    why = "its tables moved on"
    if Standing.LOST not in found.values() and (gone := _gone(intent, found, context.tables)):
        found = {**found, **dict.fromkeys(gone, Standing.LOST)}
        why = f"files that it would lead to are gone, e.g. {next(iter(gone.values()))}"
    if Standing.LOST not in found.values():
        # The same commits with the same requirements: taken once, however often they are sent.
        rest = tuple(commit for commit in intent.commits if found[commit.table] is Standing.OPEN)
        return _sent(replace(intent, commits=rest), intent, context, may_be_under_way=True)
    if Standing.DONE in found.values():
        raise _half(intent, found)
    return _withdrawn(intent, f"the catalog didn't take it, and {why}", context)


def _gone(intent: Intent, found: Mapping[str, Standing], tables: Tables) -> Mapping[str, str]:
    """By table whose commit is open: a file that it would lead to and that isn't there. As long as no snapshot leads to
    what was prepared, whoever removes orphans deletes it, and no catalog looks before it takes a commit.
    """
    rest = (commit for commit in intent.commits if found[commit.table] is Standing.OPEN)
    return {commit.table: lost[0] for commit in rest if (lost := tables.lost_for(commit))}


def _settled(intent: Intent | None) -> Intent | None:
    """The same, marked as found out later: how long it took isn't known."""
    if intent is None or not isinstance(intent.event, Published):
        return intent
    return replace(intent, event=replace(intent.event, settled=True))


def require_undecided(run: Run, ledger: Ledger, tables: Tables, *, clock: Clock, who: str) -> None:
    """Refuse to give up a run whose publish may have become visible, or still may."""
    intent = ledger.intent(run.id)
    if intent is None:
        return
    found = look(intent, tables)
    if set(found.values()) == {Standing.LOST}:
        ledger.withdraw(run.id, "the catalog didn't take it, and its tables moved on", at=clock(), who=who)
        return
    if Standing.DONE in found.values() and Standing.LOST in found.values():
        raise _half(intent, found)
    raise Refused(
        f"run {run.id} was being published when its process ended, and the catalog may have taken it",
        state=_state(found),
        next=f"`retcon apply {run.id}` finds out and finishes it",
    )


def look(intent: Intent, tables: Tables) -> Mapping[str, Standing]:
    """What became of each table's commit, told by the tables."""

    def once() -> Mapping[str, Standing]:
        return {commit.table: standing_of(commit, tables.main_line(commit.table)) for commit in intent.commits}

    found = once()
    # They are asked one after the other: a commit that lands meanwhile looks like half of it.
    return once() if Standing.DONE in found.values() and set(found.values()) != {Standing.DONE} else found


def _commits(swaps: Sequence[PointerSwap]) -> tuple[TableCommit, ...]:
    commits = tuple(swap.commit for swap in swaps if swap.commit is not None)
    if len(commits) != len(swaps):
        raise Refused(
            "a table that takes the place of another can't be published through a REST catalog",
            state="nothing was published; production is untouched",
            next="cancel the run; `retcon check` and `retcon plan` tell what to change",
        )
    return commits


def _through_catalog(intent: Intent, context: Context) -> Run:
    # The lease is checked in this transaction; from here to the catalog's answer, the requirements alone guard it.
    context.ledger.intend(intent, at=context.clock(), who=context.who, fence=context.fence)
    return _sent(intent, intent, context, may_be_under_way=False)


def _sent(part: Intent, whole: Intent, context: Context, *, may_be_under_way: bool) -> Run:
    """Ask the catalog for the commits that are left of an intent. Where it doesn't say yes, the tables decide.

    A no is final only where no earlier request for the same may still be under way.
    """
    problem: Refused | Fault | None = None
    for _ in range(_TRIES):
        problem = _asked(part, context)
        if problem is None:
            return _recorded(whole, context)
        found = _look_if_possible(whole, context)
        standings = set(found.values())
        if standings == {Standing.DONE}:
            return _recorded(whole, context)
        if Standing.DONE in standings:
            raise _half(whole, found) from problem
        may_be_under_way = may_be_under_way or isinstance(problem, Fault)
        if found and not may_be_under_way:
            _withdrawn(whole, problem.message, context)
            raise problem
        if Standing.LOST in standings:
            _withdrawn(whole, problem.message, context)
            raise Conflict(
                f"somebody wrote to {', '.join(tables_by_standing(found, Standing.LOST))} meanwhile",
                state="no table was changed by this step",
                next="run the same command again: it looks at what changed",
            ) from problem
    raise Fault(
        f"whether the catalog took run {whole.run} isn't known: {problem}",
        state="what was asked of it is kept in the ledger, and its tables will tell; nothing else was recorded",
        next=f"{_again(whole)} finds out and finishes it",
        retryable=True,
    ) from problem


def _asked(part: Intent, context: Context) -> Refused | Fault | None:
    assert context.catalog is not None
    try:
        context.catalog.commit([commit.request for commit in part.commits])
    except (Refused, Fault) as problem:
        return problem
    return None


def _look_if_possible(intent: Intent, context: Context) -> Mapping[str, Standing]:
    try:
        return look(intent, context.tables)
    except Fault:
        return {}


def _recorded(intent: Intent, context: Context) -> Run:
    at, who = context.clock(), context.who
    match intent.event:
        case Published():
            return context.ledger.publish(intent.run, intent.event, (), at=at, who=who, fence=context.fence)
        case RolledBack():
            return context.ledger.roll_back(intent.run, intent.event, (), at=at, who=who, fence=context.fence)


def _withdrawn(intent: Intent, why: str, context: Context) -> Run:
    return context.ledger.withdraw(intent.run, why, at=context.clock(), who=context.who, fence=context.fence)


def _half(intent: Intent, found: Mapping[str, Standing]) -> Fault:
    """A catalog that isn't atomic took some tables and not the others."""
    lost = tables_by_standing(found, Standing.LOST)
    did = "published" if intent.is_publish else "rolled back"
    if lost:
        remedy = (
            f"{', '.join(lost)} moved on, or lost files of this step, so the rest can't follow: take the tables that "
            f"are {did} back by Spark's `rollback_to_snapshot`, or plan a new correction for the others"
        )
    else:
        remedy = f"{_again(intent)} commits the rest, for which everything required still holds"
    return Fault(
        f"the catalog took only a part of run {intent.run}: a catalog that promises all or nothing doesn't",
        state=_state(found),
        next=remedy,
    )


def _again(intent: Intent) -> str:
    return f"`retcon apply {intent.run}`" if intent.is_publish else f"`retcon rollback {intent.run} --reason …` again"


def _state(found: Mapping[str, Standing]) -> str:
    new = ", ".join(tables_by_standing(found, Standing.DONE))
    old = ", ".join(tables_by_standing(found, Standing.OPEN, Standing.LOST))
    return f"as they were: {old or 'none'}; changed by this step: {new or 'none'}"
