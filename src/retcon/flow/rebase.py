"""Rebase: what others did to a run's tables meanwhile, and the run on top of it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import field, replace

from retcon.core.conflicts import Commit, Share, by_inputs, changed_by, taken_out, to_restage
from retcon.core.events import Rebased
from retcon.core.jobs import PublishRequest
from retcon.core.models import Input, Strategy
from retcon.core.planning import abridged
from retcon.core.plans import Plan, PlannedModel, tag_before
from retcon.core.runs import Rebase, Run, RunTable
from retcon.core.slices import WHOLE, Grain, SliceSet
from retcon.core.tables import Changed, TableFacts, digest_of
from retcon.errors import Conflict, Refused
from retcon.flow.context import Context
from retcon.flow.measure import kept_slices
from retcon.flow.ports import Progress
from retcon.flow.still_fits import again
from retcon.values import dataclass

_UNTOUCHED = "nothing was published; production is untouched by this run"


@dataclass(frozen=True, kw_only=True)
class Seen:
    """Production's side of one table of a run, as a look found it."""

    head: int | None
    since: int | None
    """Up to this snapshot all was looked at: the publish is validated from here."""
    hit: SliceSet
    """Slices that the run writes, and others changed."""
    read: Mapping[tuple[str, str], Changed] = field(default_factory=dict)
    """By model and input: what others changed of what it reads, in the slices in which it is read."""
    commits: tuple[Commit, ...] = ()
    """Those that did, newest first."""

    @property
    def is_conflict(self) -> bool:
        return bool(self.hit) or any(self.read.values())


def look(run: Run, context: Context) -> dict[str, Seen]:
    """Each table of the run as it is now; refused where it isn't the same table any more, or rows were taken out."""
    return {planned.name: _seen(run, planned, context) for planned in run.plan.models}


def conflict_of(run: Run, seen: Mapping[str, Seen]) -> Conflict | None:
    """What others changed of what the run writes, or reads of its own tables; None if nothing."""
    named = [
        f"{name}: {_slices_text(found)} changed by others since this run began ({_told(found.commits)})"
        for name, found in seen.items()
        if found.is_conflict
    ]
    next = f"`retcon apply {run.id}` stages those slices anew; {again(run.plan, 'plans it so')}"
    return Conflict("; ".join(named), state=_UNTOUCHED, next=next) if named else None


def rebase(run: Run, seen: Mapping[str, Seen], context: Context) -> Run:
    """Let the run stand on what is there now: its tables' newest snapshots and its inputs' newest ones, with every
    slice for which that makes a difference to be staged anew. Only recorded here: staging brings the branches along.
    """
    pins = {table: _pinned_now(run, table, context) for table in run.pins}
    shares = [_share(run, planned, seen, pins, context) for planned in run.plan.models]
    anew = to_restage(shares)
    moving = next((p.name for p in run.plan.models if p.name in anew and context.model(p).moves_rows), None)
    if moving is not None:
        raise _conflict(run, f"{moving}: what it reads changed meanwhile, and its rows may leave other slices now")
    number = 1 + max((table.rebase.round for table in run.tables.values() if table.rebase is not None), default=0)
    event = Rebased(
        round=number,
        tables=tuple(
            _begun_anew(run, planned, anew.get(planned.name), seen[planned.name].head, number, context)
            if planned.name in anew or seen[planned.name].is_conflict
            else replace(run.tables[planned.name], head=None)
            for planned in run.plan.models
        ),
        pins=pins,
        slices={name: _labels(slices) for name, slices in anew.items()},
        commits={name: tuple(c.text for c in found.commits) for name, found in seen.items() if found.commits},
        replaced={share.planned.name: _labels(lost) for share in shares if (lost := _replaced(share, seen))},
    )
    for name, slices in anew.items():
        context.watch(Progress(step="rebase", model=name, note=f"staged anew: {abridged(slices)}"))
    return context.record(run, event)


def carry_over(run: Run, planned: PlannedModel, context: Context) -> None:
    """Bring a table's branch to where the run stands, unless it is there already: in one commit, so that a crash
    leaves the old branch or the new one.
    """
    table = run.tables[planned.name]
    if table.rebase is None:
        return
    staged = context.tables.staged(table.written, run.plan.branch, table.base_snapshot)
    if staged is not None and staged.reaches_base and staged.round == table.rebase.round:
        return
    context.warehouse.carry_over(
        PublishRequest(
            run=run.id,
            table=replace(table, head=table.rebase.head),
            # What wasn't computed has no files of its own: production's would be added a second time.
            slices=planned.slices
            - SliceSet.labelled(planned.slices.grain, table.rebase.restaged)
            - kept_slices(run, planned, context),
            branch=run.plan.branch,
            tag=tag_before(run.id),
            since=table.base_snapshot,
        )
    )


def content_used(plan: Plan, planned: PlannedModel, snapshot_id: int | None, context: Context) -> str:
    """Hash of the data and delete files, at a snapshot, of all that a run replaces or reads of one of its tables."""
    by = context.model(planned).slicing.by
    held = context.contents(planned.name, by, planned.slices.grain, snapshot_id)
    parts = [held.of(planned.slices).digest]
    for reader, i in _reads(plan, planned.name, context):
        reads = reader.input(i.name).slices
        column = None if reads is None else i.column(reader.slices.grain)
        cut = WHOLE if reads is None else reads.grain
        parts.append(context.contents(planned.name, column, cut, snapshot_id).of(reads).digest)
    return digest_of(parts)


# ── looking ───────────────────────────────────────────────────────────────────────────────────────────────────────


def _seen(run: Run, planned: PlannedModel, context: Context) -> Seen:
    table = run.tables[planned.name]
    facts = context.tables.facts(planned.name)
    if facts is None:
        raise Refused(
            f"{planned.name} was dropped since this run began",
            state="nothing was published",
            next=f"`retcon cancel {run.id}`, then plan again",
        )
    if planned.beside is None:
        _require_same_table(run, table, facts)
    unmoved = Seen(head=facts.snapshot_id, since=table.base_snapshot, hit=SliceSet(planned.slices.grain))
    if facts.snapshot_id == table.snapshot_before:
        return unmoved
    if planned.beside is not None:
        told = ", ".join(context.tables.commits_after(planned.name, table.snapshot_before)[:3])
        raise _conflict(
            run, f"{planned.name}: written by others since this run began to build a table in its place ({told})"
        )
    moves_rows = context.model(planned).moves_rows
    commits = context.tables.commits(
        planned.name,
        time=context.model(planned).slicing.by,
        grain=planned.slices.grain,
        since=table.base_snapshot,
        until=facts.snapshot_id,
    )
    if commits is None:
        is_same = table.content and content_used(run.plan, planned, facts.snapshot_id, context) == table.content
        if not is_same or moves_rows:
            raise _conflict(
                run,
                f"{planned.name}: the snapshots since this run began have expired, and the files of "
                f"{abridged(planned.slices)}, or of what the run reads, aren't those that it began with",
            )
        return replace(unmoved, since=facts.snapshot_id)
    _require_nothing_taken(run, planned, commits)
    written = tuple(commit for commit in reversed(commits) if not commit.is_rewrite)
    if moves_rows and written:
        raise _conflict(
            run,
            f"{planned.name}: written by others since this run began ({_told(written)}), and a key that it merges may "
            "have come to any slice by that",
        )
    read = dict(_changed_reads(run, planned, facts.snapshot_id, context))
    hit = changed_by(commits, planned.slices.grain).within(planned.slices)
    return Seen(
        head=facts.snapshot_id,
        # A rewrite of files changes no row, but Iceberg's own check takes it for a conflict.
        since=facts.snapshot_id if any(commit.is_rewrite for commit in commits) else table.base_snapshot,
        hit=hit,
        read=read,
        commits=_concerned(commits, hit, read.values()),
    )


def _require_same_table(run: Run, table: RunTable, facts: TableFacts) -> None:
    pairs = {
        "uuid (dropped and made again?)": (table.uuid, facts.uuid),
        "schema id": (table.schema_id, facts.schema_id),
        "partition spec id": (table.spec_id, facts.spec_id),
    }
    for what, (then, now) in pairs.items():
        if then != now:
            raise Refused(
                f"{table.table} changed since it was staged: its {what} was {then} and is {now}",
                state=_UNTOUCHED,
                next=f"`retcon cancel {run.id}`, then plan again",
            )


def _require_nothing_taken(run: Run, planned: PlannedModel, commits: tuple[Commit, ...]) -> None:
    own = next((commit for commit in commits if commit.run == run.id), None)
    if own is not None:
        raise Refused(
            f"{planned.name} holds a publish of this run already: {own.text}",
            state="the ledger doesn't know of it, and nothing was published now",
            next="was the ledger restored from a backup? `retcon doctor --repair` records what the tables know; what a "
            "run published is never published again",
        )
    taken = taken_out(commits, planned.slices)
    if taken is not None:
        commit, slices = taken
        raise _conflict(
            run,
            f"{planned.name}: rows of {slices.text} were deleted or overwritten by others since this run began "
            f"({commit.text}); staged again, they could come back",
        )


def _changed_reads(
    run: Run, planned: PlannedModel, until: int | None, context: Context
) -> Iterator[tuple[tuple[str, str], Changed]]:
    """What others changed of a table of the run, as the run's models read it."""
    since = run.tables[planned.name].base_snapshot
    for reader, i in _reads(run.plan, planned.name, context):
        yield (reader.name, i.name), _changed_input(i, reader, since, until, context)


def _reads(plan: Plan, table: str, context: Context) -> Iterator[tuple[PlannedModel, Input]]:
    for reader in plan.models:
        for i in context.model(reader).inputs:
            # What a table was when a slice ended stays what it was.
            if i.table == table and not reader.input(i.name).versions:
                yield reader, i


def _changed_input(i: Input, reader: PlannedModel, since: int | None, until: int | None, context: Context) -> Changed:
    """What changed of what a model reads of an input, between two snapshots of it."""
    reads = reader.input(i.name).slices
    if reads is None:
        changed = context.tables.changed(i.table, time=None, grain=WHOLE, since=since, until=until)
        return Changed(slices=SliceSet.every(WHOLE), everything=True) if changed is None else changed
    column = i.column(reader.slices.grain)
    changed = context.tables.changed(i.table, time=column, grain=reads.grain, since=since, until=until)
    if changed is not None:
        return Changed(slices=changed.within(reads))
    try:
        then, now = (context.contents(i.table, column, reads.grain, at) for at in (since, until))
    except Refused:
        return Changed(slices=reads)
    each = (SliceSet(reads.grain, (ordinal,)) for ordinal in reads.ordinals)
    return Changed(
        slices=SliceSet.of(reads.grain, (one.ordinals[0] for one in each if then.of(one).digest != now.of(one).digest))
    )


def _concerned(commits: tuple[Commit, ...], hit: SliceSet, reads: Collection[Changed]) -> tuple[Commit, ...]:
    """The commits that changed what the run uses, newest first."""
    slices, cut = hit, hit.grain
    everything = False
    for changed in (changed for changed in reads if changed):
        is_alike = isinstance(cut, Grain) and isinstance(changed.slices.grain, Grain)
        if is_alike or changed.slices.grain == cut:
            slices |= changed.slices.recut(cut)
        everything |= changed.everything or not is_alike
    found = tuple(commit for commit in reversed(commits) if commit.touches(slices))
    # Read by another column, or whole: any that changed a row may be meant.
    return found or tuple(commit for commit in reversed(commits) if everything and not commit.is_rewrite)


def _slices_text(found: Seen) -> str:
    slices, others = found.hit, dict[str, None]()
    for changed in (changed for changed in found.read.values() if changed):
        if changed.slices.grain == slices.grain:
            slices |= changed.slices
        elif changed.slices.grain != WHOLE or not found.hit:
            others[changed.slices.text] = None
    return ", ".join(filter(None, (slices.text, *others)))


def _told(commits: tuple[Commit, ...]) -> str:
    more = f", and {len(commits) - 3} more" if len(commits) > 3 else ""
    return ", ".join(commit.text for commit in commits[:3]) + more


def _conflict(run: Run, message: str) -> Conflict:
    return Conflict(
        message,
        state=_UNTOUCHED,
        next=again(run.plan, "plans it anew on what is there now"),
    )


# ── deciding ──────────────────────────────────────────────────────────────────────────────────────────────────────


def _pinned_now(run: Run, table: str, context: Context) -> int | None:
    facts = context.tables.facts(table)
    if facts is None:
        raise _conflict(run, f"{table}, which the run reads, is gone, and slices have to be staged anew")
    return facts.snapshot_id


def _share(
    run: Run, planned: PlannedModel, seen: Mapping[str, Seen], pins: Mapping[str, int | None], context: Context
) -> Share:
    model = context.model(planned)
    changed: dict[str, Changed] = {}
    for i in model.inputs:
        if i.table in seen:
            changed[i.name] = seen[i.table].read.get((planned.name, i.name), _nothing(planned))
        elif i.table in pins and not planned.input(i.name).versions:
            changed[i.name] = _changed_input(i, planned, run.pins[i.table], pins[i.table], context)
    return Share(model=model, planned=planned, hit=seen[planned.name].hit, changed=changed)


def _nothing(planned: PlannedModel) -> Changed:
    return Changed(slices=SliceSet(planned.slices.grain))


def _begun_anew(
    run: Run, planned: PlannedModel, anew: SliceSet | None, head: int | None, number: int, context: Context
) -> RunTable:
    """A table of the run whose branch begins anew, at production's newest snapshot where it is written in its place."""
    table = run.tables[planned.name]
    stands = context.tables.head(table.written, run.plan.branch)
    if table.head is None or stands != table.head:
        raise Refused(
            f"branch {run.plan.branch} of {table.written} "
            f"{'is gone' if stands is None else f'points to snapshot {stands}'}, but snapshot {table.head} was proven",
            state=_UNTOUCHED,
            next=f"somebody changed it: `retcon cancel {run.id}`, then plan again",
        )
    base = head if planned.beside is None else table.base_snapshot
    return replace(
        table,
        base_snapshot=base,
        content=content_used(run.plan, planned, base, context) if planned.beside is None else "",
        head=None,
        rebase=Rebase(round=number, head=table.head, restaged=() if anew is None else _labels(anew)),
    )


def _replaced(share: Share, seen: Mapping[str, Seen]) -> SliceSet:
    """Slices whose rows by others can't come out of the model's query, as far as files tell: no input changed."""
    if share.model.strategy is Strategy.MERGE or share.planned.is_keyed:
        return SliceSet(share.planned.slices.grain)
    by_others = [commit for commit in seen[share.planned.name].commits if commit.run is None]
    hit = changed_by(by_others, share.planned.slices.grain).within(share.planned.slices)
    return hit - by_inputs(share)


def _labels(slices: SliceSet) -> tuple[str, ...]:
    return tuple(slice.label for slice in slices)
