"""Roll back: take one publish back, for all of its tables in one atomic step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta

from retcon.core.conflicts import readers_in
from retcon.core.events import RollbackBegan, RolledBack
from retcon.core.jobs import PublishRequest, UndoRequest, WaveTarget
from retcon.core.plans import PlannedInput, PlannedModel, tag_before, undo_branch_of
from retcon.core.pointers import PointerSwap
from retcon.core.projects import Project
from retcon.core.reads import Read
from retcon.core.runs import Run, RunState
from retcon.core.slices import Grain, SliceSet, Whole
from retcon.core.tables import TableFacts
from retcon.core.undoing import Blocked, Undo, Way, copies, way_back
from retcon.errors import BadArguments, Conflict, Fault, Interrupted, Refused
from retcon.flow.commit import roll_back_group, settle
from retcon.flow.context import Context
from retcon.flow.driving import driving
from retcon.flow.ports import Ledger, Progress, Tables
from retcon.flow.unrecorded import require_recorded
from retcon.values import dataclass

_TRIES = 5
_NOTHING = "nothing was rolled back"


@dataclass(frozen=True, kw_only=True)
class Undone:
    """What a rollback did, and what stands on what it undid."""

    run: Run
    stale: tuple[tuple[str, str, str], ...]
    """(model, slices, run) of later publishes that read what was undone."""
    ways: tuple[Undo, ...]


@dataclass(frozen=True, kw_only=True)
class _Copied:
    """Old slices of a table on the rollback's own branch, found to be what they are a copy of."""

    head: int
    schema_id: int


def roll_back(run: Run, reason: str, context: Context) -> Undone:
    """The slices of every table as they were before the publish; later reads of it are listed as stale."""
    require_reason(reason)
    run = run.as_published
    if not is_left_open(run, context.ledger):
        require_possible(run, reason, context.project, context.tables, context.clock())
        require_recorded(run.plan, context.ledger, context.tables)
    with driving(run, context):
        try:
            # Another process may have undone it before this one got its turn.
            standing = (context.ledger.run(run.id) or run).as_published
            settled = settle(standing, context)
            if settled is not standing and settled.state is RunState.ROLLED_BACK:
                # An earlier try had asked for it; its record alone was missing.
                return Undone(run=settled, stale=_readers(run, context), ways=())
            return _undo(settled.as_published, reason.strip(), context)
        except KeyboardInterrupt:
            context.warehouse.interrupt()
            raise Interrupted(
                f"interrupted while run {run.id} was rolled back",
                state="all of it is rolled back, or nothing",
                next=f"`retcon show {run.id}` tells; `retcon rollback {run.id} --reason …` goes on",
            ) from None


def _undo(run: Run, reason: str, context: Context) -> Undone:
    copied: dict[str, _Copied] = {}
    for attempt in range(1, _TRIES + 1):
        ways = require_possible(run, reason, context.project, context.tables, context.clock())
        _copy_old_slices(run, ways, copied, context)
        try:
            swaps = [_prepare(run, planned, ways[planned.name], copied, context) for planned in run.plan.models]
        except Conflict:
            # Somebody committed since it was looked at: look again at what it was.
            if attempt == _TRIES:
                raise
            continue
        began = RollbackBegan(
            reason=reason,
            ways={undo.table: undo.way.value for undo in ways.values()},
            locations={swap.table: swap.new_location for swap in swaps},
        )
        run = context.record(run, began).as_published
        event = RolledBack(reason=reason, snapshots={swap.table: swap.snapshot_id for swap in swaps})
        try:
            undone = roll_back_group(run, event, swaps, context)
        except Conflict:
            if attempt == _TRIES:
                raise
            continue
        break
    _drop_left(run, ways, context)
    return Undone(run=undone, stale=_readers(run, context), ways=tuple(ways.values()))


def _prepare(
    run: Run, planned: PlannedModel, undo: Undo, copied: Mapping[str, _Copied], context: Context
) -> PointerSwap:
    table = run.tables[planned.name]
    if undo.way is not Way.COPIED:
        return context.warehouse.prepare_rollback(
            UndoRequest(run=run.id, table=table, slices=planned.slices, seen=undo.seen, before=undo.before)
        )
    copy = copied[planned.name]
    request = PublishRequest(
        run=run.id,
        table=replace(table, base_snapshot=undo.seen, head=copy.head, schema_id=copy.schema_id),
        slices=planned.slices,
        branch=undo_branch_of(run.id),
        tag=None,
        since=undo.seen,
        mark="retcon.rollback",
        drops_branch=True,
    )
    try:
        return context.warehouse.prepare_publish(request)
    except Refused as refusal:
        again = f"`retcon rollback {run.id} --reason …` looks at it anew"
        raise type(refusal)(refusal.message, state=_NOTHING, next=again) from refusal


# ── copies ────────────────────────────────────────────────────────────────────────────────────────────────────────


def _copy_old_slices(run: Run, ways: Mapping[str, Undo], copied: dict[str, _Copied], context: Context) -> None:
    """Where later commits must stay, the old slices as new files: a path that was once deleted must not return."""
    missing = [p for p in run.plan.models if ways[p.name].way is Way.COPIED and p.name not in copied]
    done, total = 0, sum(len(planned.slices) for planned in missing)
    for planned in missing:
        undo = ways[planned.name]
        is_begun = _opened(run, planned, undo, context)
        for number, portion in enumerate(copies(planned.slices), start=1):
            context.watch(Progress(step="copy", model=planned.name, done=done, total=total))
            _copy(run, planned, undo, (number, portion), context, look_first=is_begun)
            done += len(portion)
        context.watch(Progress(step="copy", model=planned.name, done=done, total=total))
        copied[planned.name] = _checked(run, planned, undo, context)


def _opened(run: Run, planned: PlannedModel, undo: Undo, context: Context) -> bool:
    """Open the rollback's branch where the old version is; True where an earlier attempt left it, and only that."""
    table, branch = run.tables[planned.name].table, undo_branch_of(run.id)
    left = context.tables.staged(table, branch, undo.before)
    if left is not None and left.reaches_base and set(left.runs.values()) <= {run.id}:
        return True
    # Never published: the publish of a copy takes its branch along.
    context.tables.drop_branch(table, branch)
    context.warehouse.open_branch(table, branch, undo.before)
    return False


def _copy(
    run: Run, planned: PlannedModel, undo: Undo, portion: tuple[int, SliceSet], context: Context, *, look_first: bool
) -> None:
    number, slices = portion
    table = run.tables[planned.name].table
    by = _sliced_by(planned, _facts(table, context.tables))
    target = WaveTarget(run=run.id, wave=number, table=table, branch=undo_branch_of(run.id))
    if not look_first or context.tables.find_wave(target, slices, by) is None:
        context.warehouse.copy(_read(table, undo.before, by, slices), slices, target)


def _checked(run: Run, planned: PlannedModel, undo: Undo, context: Context) -> _Copied:
    """The copy, compared slice by slice with what it is a copy of."""
    table, branch = run.tables[planned.name].table, undo_branch_of(run.id)
    facts = _facts(table, context.tables)
    head, by = context.tables.head(table, branch), _sliced_by(planned, facts)
    if head is None or undo.before is None:
        raise _not_copied(run, table, f"branch {branch} is gone")
    reads = (_read(table, snapshot, by, planned.slices) for snapshot in (head, undo.before))
    unlike = context.warehouse.unlike(*reads)
    if unlike:
        context.tables.drop_branch(table, branch)
        raise _not_copied(run, table, f"the copy of {', '.join(s.label for s in unlike[:5])} isn't what was there")
    return _Copied(head=head, schema_id=facts.schema_id)


def _drop_left(run: Run, ways: Mapping[str, Undo], context: Context) -> None:
    """Branches of earlier attempts that weren't needed in the end; a copy that was published took its own along."""
    for name, undo in ways.items():
        if undo.way is not Way.COPIED:
            context.tables.drop_branch(run.tables[name].table, undo_branch_of(run.id))


def _not_copied(run: Run, table: str, what: str) -> Fault:
    return Fault(
        f"{table}: {what}",
        state=_NOTHING,
        next=f"did somebody write to that branch? `retcon rollback {run.id} --reason …` begins anew",
        retryable=True,
    )


def _read(table: str, snapshot_id: int | None, by: str | None, slices: SliceSet) -> Read:
    return Read(table=table, snapshot_id=snapshot_id, by=by, slices=None if by is None else slices)


def _sliced_by(planned: PlannedModel, facts: TableFacts) -> str | None:
    """The slices' column: tables that retcon writes are partitioned by it. The model may be gone from the project."""
    is_cut = not isinstance(planned.slices.grain, Whole) and facts.partitioning
    return facts.partitioning[0].column if is_cut else None


def _facts(table: str, tables: Tables) -> TableFacts:
    facts = tables.facts(table)
    if facts is None:
        raise Refused(f"{table} was dropped", state=_NOTHING, next="plan a new correction instead")
    return facts


# ── may it be undone? ─────────────────────────────────────────────────────────────────────────────────────────────


def is_left_open(run: Run, ledger: Ledger) -> bool:
    """Was the catalog asked to take this publish back, and isn't it on record what became of that?"""
    intent = ledger.intent(run.id)
    return intent is not None and not intent.is_publish


def require_reason(reason: str) -> None:
    """Nothing is undone without a word why."""
    if not reason.strip():
        raise BadArguments("a rollback needs a reason", next='pass --reason "why it is undone"')


def require_possible(run: Run, reason: str, project: Project, tables: Tables, now: datetime) -> dict[str, Undo]:
    """Can this publish be taken back now, and which way, by model? Asked before Spark is started, and when it is."""
    require_reason(reason)
    _require_published(run)
    _require_in_time(run, now, project)
    run = run.as_published
    found = {planned.name: _way_back(run, planned, tables) for planned in run.plan.models}
    _require_kept(run, tables)
    blocked = {name: way for name, way in found.items() if isinstance(way, Blocked)}
    if any(way.is_conflict for way in blocked.values()):
        listed = "; ".join(f"{name}: {way.why}" for name, way in blocked.items())
        raise Conflict(
            f"something landed after run {run.id} was published, and would be lost: {listed}",
            state=_NOTHING,
            next="roll back the later run first, or plan a new correction over the same range",
        )
    if blocked:
        listed = "; ".join(f"{name}: {way.why}" for name, way in blocked.items())
        raise Refused(
            f"run {run.id} can't be rolled back: {listed}", state=_NOTHING, next="plan a new correction instead"
        )
    return {name: way for name, way in found.items() if isinstance(way, Undo)}


def _way_back(run: Run, planned: PlannedModel, tables: Tables) -> Undo | Blocked:
    table = run.tables[planned.name]
    facts = _facts(table.table, tables)
    if table.published_snapshot is None:
        raise Refused(
            f"which snapshot of {table.table} run {run.id} published isn't known any more",
            state=_NOTHING,
            next="plan a new correction instead",
        )
    grain, by = planned.slices.grain, _sliced_by(planned, facts)
    after = tables.aftermath(
        table.table, published=table.published_snapshot, tag=tag_before(run.id), time=by, grain=grain
    )
    if after is None:
        raise Refused(f"{table.table} was dropped", state=_NOTHING, next="plan a new correction instead")
    unmoved = after.landings is None and _holds_what_was_published(run, planned, after.current, by, tables)
    return way_back(table, planned.slices, after, facts.columns, unmoved=unmoved)


def _holds_what_was_published(
    run: Run, planned: PlannedModel, current: int | None, by: str | None, tables: Tables
) -> bool:
    """Do the slices consist of the very files that were staged? Then nobody wrote to them, whatever is expired."""
    name = run.tables[planned.name].table
    head = tables.head(name, run.plan.branch)
    if head is None or current is None:
        return False
    held = (tables.contents(name, time=by, grain=planned.slices.grain, snapshot_id=at) for at in (head, current))
    staged, now = (each.of(planned.slices).digest for each in held)
    return staged == now


def rollback_until(run: Run, retention_days: int) -> datetime | None:
    """Until when a publish can be taken back."""
    return run.published + timedelta(days=retention_days) if run.published is not None else None


def retention_days(run: Run, project: Project) -> int:
    """The shortest retention among the run's models."""
    models = project.graph.models
    return min((models[p.name].retention_days for p in run.plan.models if p.name in models), default=14)


def _require_published(run: Run) -> None:
    """Only a publish that stands can be rolled back."""
    if run.state is not RunState.PUBLISHED:
        is_under_way = run.state is RunState.PUBLISHING
        raise Refused(
            f"run {run.id} is {run.state.value.replace('_', ' ')}: there is no publish to roll back",
            next=f"`retcon apply {run.id}` finishes it first" if is_under_way else f"`retcon show {run.id}` tells more",
        )
    if not run.as_published.plan.models:
        raise Refused(
            f"run {run.id} changed nothing: all of it came out as it was",
            next="there is nothing to roll back",
        )


def _require_in_time(run: Run, now: datetime, project: Project) -> None:
    until = rollback_until(run, retention_days(run, project))
    if until is not None and now > until:
        raise Refused(
            f"run {run.id} could be rolled back until {until:%Y-%m-%d %H:%M} UTC",
            next="plan a new correction instead",
        )


def _require_kept(run: Run, tables: Tables) -> None:
    """Where a table took the place of another, that one is still there, as it was."""
    for replaced in (table.replaces for table in run.tables.values() if table.replaces is not None):
        facts = tables.facts(replaced.beside)
        kept = (facts.uuid, facts.snapshot_id) if facts is not None else None
        if kept != (replaced.uuid, replaced.snapshot_id):
            raise Refused(
                f"the version from before, {replaced.beside}, {'was changed' if kept else 'is gone'}",
                state=_NOTHING,
                next="plan a new correction instead",
            )


def _readers(run: Run, context: Context) -> tuple[tuple[str, str, str], ...]:
    """Slices that later publishes computed from what this run had published."""
    undone = {planned.name: planned.slices for planned in run.plan.models}
    found: list[tuple[str, str, str]] = []
    for later in context.ledger.runs():
        if later.id == run.id or later.state is not RunState.PUBLISHED:
            continue
        if later.published is None or run.published is None or later.published < run.published:
            continue
        consumed: dict[tuple[str, str], list[str]] = {}
        for entry in context.ledger.consumption(later.id):
            consumed.setdefault((entry.model, entry.input), []).append(entry.slice)
        for planned in later.plan.models:
            stale = SliceSet(planned.slices.grain)
            for i in planned.inputs:
                # Read as of a slice's end: what production showed then stays what it was.
                if i.table in undone and not i.versions:
                    labels = consumed.get((planned.name, i.name), ())
                    readers = _read_of(planned, i, undone[i.table], context.project)
                    stale |= SliceSet.labelled(stale.grain, labels) & readers
            if stale:
                found.append((planned.name, stale.text, later.id))
    return tuple(found)


def _read_of(planned: PlannedModel, i: PlannedInput, undone: SliceSet, project: Project) -> SliceSet:
    """The planned slices that read some of these slices of an input; all of them, where that can't be told any more."""
    reads = i.slices
    are_by_time = reads is not None and isinstance(reads.grain, Grain) and isinstance(undone.grain, Grain)
    if reads is not None and are_by_time and not reads & undone.recut(reads.grain):
        return SliceSet(planned.slices.grain)
    model, upstream = (project.graph.models.get(name) for name in (planned.name, i.table))
    if model is None or upstream is None or model.fingerprint != planned.fingerprint:
        return planned.slices
    declared = next(each for each in model.inputs if each.name == i.name)
    return readers_in(declared, planned, undone, upstream)
