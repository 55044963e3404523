"""Troubles: where the ledger and the tables contradict one another, or themselves; what it means, what can be done."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from itertools import groupby

from retcon.core.chains import RecordedEvent, first_broken_link
from retcon.core.intents import Intent
from retcon.core.intervals import Interval
from retcon.core.leases import Lease
from retcon.core.plans import Plan, PlannedModel, Request, Role, branch_of
from retcon.core.projects import env_option
from retcon.core.runs import Run, RunState, RunTable
from retcon.core.slices import WHOLE, Buckets, Cut, Grain, SliceSet
from retcon.core.sweeping import Kind, TableRefs, owner_of
from retcon.values import dataclass

_MID_STEP = (RunState.STAGING, RunState.PROVING, RunState.PUBLISHING)
"""Whoever stops on purpose leaves a run in another state."""


class TroubleKind(StrEnum):
    """What is wrong."""

    BROKEN_CHAIN = "broken chain"
    NO_DRIVER = "no driver"
    NO_RUN = "no run"
    LOST_BRANCH = "lost branch"
    LOST_VERSION = "lost version"
    LEDGER_BEHIND = "ledger behind"
    LEDGER_AHEAD = "ledger ahead"
    LOST_FILES = "lost files"
    UNTOLD_HOOK = "untold hook"


@dataclass(frozen=True, kw_only=True)
class Trouble:
    """One thing that is wrong."""

    kind: TroubleKind
    what: str
    means: str
    remedy: str
    """What a person can do, where nothing is repaired."""
    table: str = ""
    run: str = ""
    repair: str = ""
    """What `--repair` does about it; empty: nothing."""
    details: tuple[str, ...] = ()


def untold_hook(hook: str, waiting: int, error: str | None) -> Trouble:
    """A system that keeps watermarks of its own doesn't know where they are."""
    return Trouble(
        kind=TroubleKind.UNTOLD_HOOK,
        what=f"the hook {hook} wasn't told of {waiting:,} movements of watermarks"
        + (f": {error}" if error else ", and nobody tried yet"),
        means="what it keeps of them may be behind",
        remedy="see to it that it answers; the next `retcon load` tells it",
        repair="tells it",
    )


# ── what tables tell ──────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, kw_only=True)
class Mark:
    """A snapshot that says which run it published, or took back. It was production's newest once."""

    snapshot_id: int
    parent: int | None
    at: datetime
    run: str
    slices: str
    undoes: bool
    """It took the run's publish back."""


@dataclass(frozen=True, kw_only=True)
class TableMarks:
    """What a table's own metadata tells of runs."""

    table: str
    uuid: str
    schema_id: int
    spec_id: int
    marks: tuple[Mark, ...]
    """Oldest first."""
    snapshots: Collection[int]
    """All that there are."""
    left: Collection[int]
    """Those that production was moved back from."""
    is_whole: bool
    """Of the line that production stands on, none has expired."""

    def published(self, run: str) -> Mark | None:
        return next((mark for mark in self.marks if mark.run == run and not mark.undoes), None)

    def took_back(self, run: str) -> bool:
        """Is a publish that was there no longer? By a commit that says so, or because main was moved back. What can't
        be told, as history has expired, wasn't.
        """
        published = self.published(run)
        undone = any(mark.run == run and mark.undoes and mark.snapshot_id not in self.left for mark in self.marks)
        return undone or (published is not None and published.snapshot_id in self.left)


@dataclass(frozen=True, kw_only=True)
class LostFile:
    """A file that metadata leads to and that isn't there."""

    path: str
    kind: str
    refs: tuple[str, ...]
    """The branches and tags that lead to it."""
    slices: SliceSet | None = None
    """That it held rows of; None where that can't be told."""


@dataclass(frozen=True, kw_only=True)
class FileCheck:
    """How many files of a table were looked for, and which aren't there."""

    checked: int = 0
    left: int = 0
    """Not looked for."""
    lost: tuple[LostFile, ...] = ()


# ── a ledger that knows less than the tables ──────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, kw_only=True)
class Unrecorded:
    """A run of which the tables know something that the ledger doesn't: it was lost, or restored from a backup."""

    run: str
    known: Run | None
    published: Mapping[str, Mark]
    """By table."""
    undone: frozenset[str]
    """The tables in which it was taken back since."""

    @property
    def at(self) -> datetime:
        return min(mark.at for mark in self.published.values())

    @property
    def is_undone(self) -> bool:
        return bool(self.undone)

    @property
    def what(self) -> str:
        snapshots = ", ".join(f"snapshot {mark.snapshot_id} of {table}" for table, mark in self.published.items())
        ledger = "doesn't know this run" if self.known is None else f"has it as {_state(self.known)}"
        ended = f", and taken back since in {', '.join(sorted(self.undone))}" if self.undone else ""
        return f"run {self.run} was published ({snapshots}){ended}; the ledger {ledger}"


def unrecorded(tables: Sequence[TableMarks], runs: Mapping[str, Run]) -> list[Unrecorded]:
    """Publishes and rollbacks that the tables know and the ledger doesn't, oldest first."""
    found: list[Unrecorded] = []
    for name in dict.fromkeys(mark.run for table in tables for mark in table.marks if not mark.undoes):
        published = {table.table: mark for table in tables if (mark := table.published(name)) is not None}
        undone = frozenset(t.table for t in tables if t.table in published and t.took_back(name))
        known = runs.get(name)
        if known is None or known.published is None or (known.state is RunState.PUBLISHED and undone):
            found.append(Unrecorded(run=name, known=known, published=published, undone=undone))
    return sorted(found, key=lambda each: (each.at, each.run))


def why_not_rebuilt(found: Unrecorded, tables: Sequence[TableMarks], cuts: Mapping[str, Cut]) -> str:
    """Why what the tables tell isn't enough to record it; empty where it is."""
    if found.undone and found.undone != set(found.published):
        there = ", ".join(sorted(set(found.published) - found.undone))
        return f"it still stands in {there}: a publish is undone in all of its tables or in none"
    if found.known is not None:
        by_name = {table.table: table for table in tables}
        for planned in found.known.plan.models:
            table = by_name.get(planned.name)
            # What came out as it was isn't published.
            is_expected = not found.known.plan.leaves_same_alone and (table is None or table.is_whole)
            if planned.name not in found.published and is_expected:
                return f"{planned.name}, which it wrote too, never got it"
        return ""
    for name, mark in found.published.items():
        if slices_of(mark, cuts[name]) is None:
            return f"which slices of {name} it replaced can't be told: {mark.slices or 'the snapshot says nothing'}"
    return ""


def left_alone(found: Unrecorded, tables: Mapping[str, TableMarks]) -> dict[str, tuple[str, ...]]:
    """By model of a run whose publish the ledger lost: the slices that came out as they were, which aren't published.
    Where history has expired, a table without a mark may have had one: nothing is said of it.
    """
    run = found.known
    if run is None or run.published is not None or not run.plan.leaves_same_alone:
        return {}
    left: dict[str, tuple[str, ...]] = {}
    for planned in run.plan.models:
        mark, table, grain = found.published.get(planned.name), tables.get(planned.name), planned.slices.grain
        if mark is not None:
            written = slices_of(mark, grain)
        else:
            is_told = table is not None and table.is_whole and planned.beside is None
            written = SliceSet(grain) if is_told else None
        if written is not None and written.grain == grain:
            left[planned.name] = (planned.slices - written).labels
    return left


def slices_of(mark: Mark, cut: Cut) -> SliceSet | None:
    """The slices that a mark names, as the table is cut now or, if it was cut otherwise then, as they are spelled."""
    for each in (cut, *(g for g in Grain if g is not cut), WHOLE):
        try:
            slices = SliceSet.parse(each, mark.slices)
        except ValueError:
            continue
        if slices:
            return slices
    return None


def lost_plan(found: Unrecorded, cuts: Mapping[str, Cut], *, environment: str | None, timezone: str, by: str) -> Plan:
    """What summaries of snapshots tell of a plan whose file is gone: tables and slices, no more."""
    models = tuple(
        _lost_model(table, slices)
        for table, mark in found.published.items()
        if (slices := slices_of(mark, cuts[table])) is not None
    )
    timed = [model.slices.hull() for model in models if isinstance(model.slices.grain, Grain)]
    interval = Interval(min(i.start for i in timed), max(i.end for i in timed)) if timed else None
    return Plan(
        id=found.run,
        reason="unknown: rebuilt from what the tables' snapshots tell",
        created=found.at,
        by=by,
        request=Request(
            models=tuple(model.name for model in models),
            start=None if interval is None else interval.start.date().isoformat(),
            end=None if interval is None else (interval.end - timedelta(microseconds=1)).date().isoformat(),
            command="retcon doctor --repair",
            environment=environment,
        ),
        interval=interval,
        timezone=timezone,
        models=models,
        outside=(),
        settings="",
        limits={},
        notes=("its plan is lost: code, inputs and gates are unknown",),
    )


def _lost_model(name: str, slices: SliceSet) -> PlannedModel:
    return PlannedModel(
        name=name,
        role=Role.SELECTED,
        slices=slices,
        waves=(slices,),
        open=SliceSet(slices.grain),
        is_new=False,
        fingerprint="",
        inputs=(),
        gates=(),
        consumers=(),
    )


def fits(plan: Plan, found: Unrecorded) -> bool:
    """Is this the plan that the snapshots tell of?"""
    told = {table: mark.slices for table, mark in found.published.items()}
    return plan.id == found.run and {model.name: model.slices.text for model in plan.models} == told


def behind(found: Unrecorded, why_not: str, lease: Lease | None) -> Trouble:
    """The trouble of a ledger that knows less than the tables."""
    outcome = "rolled back" if found.is_undone else "published"
    repair = f"records run {found.run} as {outcome}, with what the snapshots tell: tables, slices, when"
    remedy = f"`retcon doctor --repair` {repair}"
    if lease is not None:
        why_not, remedy = f"{lease.driver} works on it", "let it finish, or end that process; then look again"
    elif why_not:
        remedy = "restore a newer backup of the ledger, or one of the tables from the same time"
    means = "the ledger was lost, or restored from a backup: nothing is published to these tables, or rolled back,"
    return Trouble(
        kind=TroubleKind.LEDGER_BEHIND,
        table=", ".join(found.published),
        run=found.run,
        what=found.what,
        means=f"{means} before it is recorded" + (f". It can't be rebuilt: {why_not}" if why_not else ""),
        repair="" if why_not else repair,
        remedy=remedy,
    )


# ── runs ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def broken_chain(run: Run, events: list[RecordedEvent]) -> Trouble | None:
    """Was a run's record changed after it was written?"""
    broken = first_broken_link(events) if events else 1
    if broken is None:
        return None
    return Trouble(
        kind=TroubleKind.BROKEN_CHAIN,
        run=run.id,
        what=f"the record of run {run.id} doesn't hold together from event {broken} on ({len(events)} events)",
        means="an event was changed, moved or removed by hand, or lost: what is told from there on can't be trusted",
        remedy=f"nothing mends it, and nothing should: compare `retcon show {run.id} --json` with a backup",
    )


def undriven(run: Run, intent: Intent | None) -> Trouble | None:
    """Did whoever worked on a run, on which nobody does, stop in the middle of a step?"""
    what = f"run {run.id} is {_state(run)}, and no process works on it; its last word is of {_moment(run.updated)}"
    if intent is not None:
        again = f"retcon apply {run.id}" if intent.is_publish else f"retcon rollback {run.id} --reason …"
        return Trouble(
            kind=TroubleKind.NO_DRIVER,
            run=run.id,
            what=what,
            means=f"the catalog was asked to {'publish it' if intent.is_publish else 'roll it back'}, and whether it "
            "did isn't recorded",
            remedy=f"`{again}` finds out and finishes it",
        )
    if run.state not in _MID_STEP:
        return None
    return Trouble(
        kind=TroubleKind.NO_DRIVER,
        run=run.id,
        what=what,
        means="the process that ran it ended in the middle of a step; production is untouched, what it staged is kept",
        remedy=f"`retcon apply {run.id}` goes on; `retcon cancel {run.id}` gives it up",
    )


def lost_branches(run: Run, tables: Mapping[str, TableRefs]) -> Iterator[Trouble]:
    """Tables on which a run that isn't over has no branch any more."""
    if run.state.is_over:
        return
    branch = branch_of(run.id)
    for table in run.tables.values():
        refs = tables.get(table.written)
        if refs is not None and all(ref.name != branch for ref in refs.refs):
            yield Trouble(
                kind=TroubleKind.LOST_BRANCH,
                table=table.written,
                run=run.id,
                what=f"branch {branch} of {table.written} is gone, and run {run.id} is {_state(run)}",
                means="what it staged there is lost: it can't be published; production is untouched",
                remedy=f"`retcon cancel {run.id}`, then `retcon plan --refresh backfills/{run.id}.yaml`",
            )


def unowned(table: TableRefs, runs: Collection[str], *, env: str | None) -> Iterator[Trouble]:
    """Branches and tags of retcon's that no run is known of."""
    owned = [(ref, owner) for ref in table.refs if (owner := owner_of(ref)) is not None and owner[1] not in runs]
    for run, group in groupby(sorted(owned, key=lambda pair: pair[1][1]), key=lambda pair: pair[1][1]):
        refs = [(ref.name, kind) for ref, (kind, _) in group]
        listed = ", ".join(f"{'tag' if kind is Kind.TAG else 'branch'} {name}" for name, kind in refs)
        yield Trouble(
            kind=TroubleKind.NO_RUN,
            table=table.table,
            run=run,
            what=f"{table.table} has {listed}, and the ledger knows no run {run}",
            means="the ledger was restored from before that run, or another ledger's run made it; readers of main "
            "see nothing of it",
            remedy=f"`retcon apply {run}` goes on with it if backfills/{run}.yaml is there; else "
            f"`retcon sweep{env_option(env)}` drops it after the retention",
        )


def lost_version(run: Run, table: RunTable, refs: TableRefs, tag: str) -> Trouble | None:
    """Can a publish that may still be rolled back no longer be, because the version from before is gone?"""
    published = table.published_snapshot
    if table.replaces is not None or published is None:
        return None
    tagged = next((ref.snapshot_id for ref in refs.refs if ref.name == tag), None)
    before = refs.parents.get(published) or tagged
    # Some writers forget the parent of a snapshot when it expires: that there was one, the run knows.
    is_first = before is None and table.base_snapshot is None
    if is_first or before in refs.parents:
        return None
    return _no_way_back(run, table.table, f"tag {tag}" if before is None else f"snapshot {before}")


def lost_old_table(run: Run, table: RunTable, *, is_there: bool) -> Trouble | None:
    """The same where another table took its place."""
    if table.replaces is None or is_there:
        return None
    return _no_way_back(run, table.table, f"table {table.replaces.beside}")


def _no_way_back(run: Run, table: str, gone: str) -> Trouble:
    return Trouble(
        kind=TroubleKind.LOST_VERSION,
        table=table,
        run=run.id,
        what=f"the version of {table} from before run {run.id} is gone: {gone}",
        means="the run can't be rolled back any more, though its retention isn't over; what is published stands",
        remedy="none is needed as long as nobody wants it undone: a new plan can still correct it",
    )


def lost_publish(run: Run, table: RunTable, marks: TableMarks | None) -> Trouble | None:
    """Does the ledger say that something is published of which the table knows nothing, and nothing has expired?"""
    published = table.published_snapshot
    if published is None or (marks is not None and published in marks.snapshots):
        return None
    if marks is None:
        what = f"{table.table} isn't there, and run {run.id} was published to it"
    elif marks.uuid != table.uuid:
        what = f"{table.table} was dropped and made again since run {run.id} was published to it"
    elif marks.is_whole:
        what = f"{table.table} has no snapshot {published}, which run {run.id} published, and none of its own expired"
    else:
        return None
    return Trouble(
        kind=TroubleKind.LEDGER_AHEAD,
        table=table.table,
        run=run.id,
        what=what,
        means="the table, or the catalog, was restored from a backup or made anew: what the run published isn't there",
        remedy=f"restore the newer table, or publish its slices anew: `retcon plan --refresh backfills/{run.id}.yaml`",
    )


# ── files ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def lost_files(table: str, lost: Sequence[LostFile], *, env: str | None) -> Iterator[Trouble]:
    """Files that aren't there, told together by who leads to them."""
    for refs, group in groupby(sorted(lost, key=lambda each: (each.refs, each.kind, each.path)), lambda f: f.refs):
        files = list(group)
        kinds = ", ".join(f"{len(list(each)):,} {kind}" for kind, each in groupby(files, key=lambda file: file.kind))
        yield Trouble(
            kind=TroubleKind.LOST_FILES,
            table=table,
            what=f"{table}: missing from its storage: {kinds}; {', '.join(refs)} {'lead' if refs[1:] else 'leads'} "
            "there",
            means=_reach(refs),
            remedy=_restore(table, files, refs, env),
            details=tuple(file.path for file in files),
        )


def unreadable(table: str, why: str) -> Trouble:
    """The file that the catalog points to isn't there."""
    return Trouble(
        kind=TroubleKind.LOST_FILES,
        table=table,
        what=f"{table}: {why}",
        means="nobody can read the table; nothing else about it can be told",
        remedy="restore that file from a backup of the storage, or drop the table from the catalog",
    )


def _reach(refs: Sequence[str]) -> str:
    if "main" in refs:
        return "whoever reads those rows of production fails, and so does a run that reads them"
    return "production is whole; whoever reads that branch or tag fails, and its run can't be published or undone by it"


def _restore(table: str, files: Iterable[LostFile], refs: Sequence[str], env: str | None) -> str:
    told = [file.slices for file in files]
    if "main" not in refs:
        return "restore them from a backup of the storage, or cancel that run and plan it anew"
    known = [slices for slices in told if slices is not None]
    if len(known) < len(told) or not known or any(isinstance(s.grain, Buckets) for s in known):
        return "restore them from a backup of the storage"
    around, *others = known
    for slices in others:
        around |= slices
    dates = ""
    if isinstance(around.grain, Grain):
        labels = [slice.label for slice in around]
        dates = f" --start {labels[0]} --end {labels[-1]}"
    again = f'retcon plan {table}{env_option(env)}{dates} --reason "lost files"'
    return f"restore them from a backup of the storage; or compute {around.text} anew: `{again}`"


def _state(run: Run) -> str:
    return run.state.value.replace("_", " ")


def _moment(at: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M} UTC"
