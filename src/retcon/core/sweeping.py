"""Sweeping: which branches, tags and old tables nobody needs any more, and until when the others are kept."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from enum import StrEnum

from retcon.core.runs import Run
from retcon.values import dataclass

_NEVER = datetime(1970, 1, 1, tzinfo=UTC)
_OURS = re.compile(r"retcon_(?:(?P<kind>before|undo)_)?(?P<run>(?P<day>\d{8})_[a-z0-9_]+)")


class Kind(StrEnum):
    """What a run leaves behind."""

    BRANCH = "branch"
    """What it staged."""
    TAG = "tag"
    """The version from before its publish."""
    UNDO = "undo branch"
    """What a rollback copied, and didn't publish."""
    TABLE = "table"
    """The version from before, where another table took its place; after a rollback, what was undone."""


@dataclass(frozen=True, kw_only=True)
class Ref:
    """A branch or a tag of a table."""

    name: str
    snapshot_id: int
    is_tag: bool


@dataclass(frozen=True, kw_only=True)
class TableRefs:
    """A table's branches and tags, and how its snapshots stand on one another."""

    table: str
    refs: tuple[Ref, ...]
    parents: Mapping[int, int | None]
    times: Mapping[int, datetime]

    def reachable(self, refs: Iterable[Ref]) -> set[int]:
        """The snapshots that these refs lead to."""
        found: set[int] = set()
        for ref in refs:
            at: int | None = ref.snapshot_id
            while at is not None and at in self.parents and at not in found:
                found.add(at)
                at = self.parents[at]
        return found

    def only_of(self, names: Collection[str]) -> frozenset[int]:
        """The snapshots that these refs lead to, and no other does."""
        gone, kept = ([r for r in self.refs if (r.name in names) is of_these] for of_these in (True, False))
        return frozenset(self.reachable(gone) - self.reachable(kept))

    def newest_at(self, ref: Ref) -> datetime | None:
        """When the ref's snapshot was made, or the newest that stands on it."""
        about = [ref.snapshot_id, *(child for child, parent in self.parents.items() if parent == ref.snapshot_id)]
        return max((self.times[each] for each in about if each in self.times), default=None)


@dataclass(frozen=True, kw_only=True)
class Leftover:
    """Something that a run left behind, and what becomes of it."""

    table: str
    name: str
    kind: Kind
    run: str
    why: str
    until: datetime | None = None
    """Until when it is kept; None: now, or nobody can say."""
    is_dropped: bool = False


@dataclass(frozen=True, kw_only=True)
class Circumstances:
    """What decides over everything that is left on one table."""

    now: datetime
    runs: Mapping[str, Run]
    environment: str | None
    retention_days: Mapping[str, int]
    """By run: how long what it left on this table is kept."""
    default_days: int
    """The same for what no run is known of."""
    driven: Collection[str]
    """Runs that a process works on this moment, or that the catalog was asked about and hasn't answered."""
    needed: Collection[int]
    """Snapshots of the table that open runs read or stand on."""
    hold: str
    """Why what no run is known of can't be told from what is needed; empty where it can."""


def owner_of(ref: Ref) -> tuple[Kind, str] | None:
    """What a ref is, and of which run, by its name; None where it isn't retcon's."""
    match = _OURS.fullmatch(ref.name)
    if match is None or ref.is_tag is not (match["kind"] == "before"):
        return None
    kind = {None: Kind.BRANCH, "before": Kind.TAG, "undo": Kind.UNDO}[match["kind"]]
    return kind, match["run"]


def leftovers(table: TableRefs, about: Circumstances) -> list[Leftover]:
    """Every branch and tag of retcon's on a table, each kept or dropped, with the reason."""
    judged = [_judged(table, ref, *owner, about) for ref in table.refs if (owner := owner_of(ref)) is not None]
    return list(_without_needed(table, judged, about.needed))


def _judged(table: TableRefs, ref: Ref, kind: Kind, run_id: str, about: Circumstances) -> Leftover:
    def kept(why: str, until: datetime | None = None) -> Leftover:
        return Leftover(table=table.table, name=ref.name, kind=kind, run=run_id, why=why, until=until)

    def dropped(why: str) -> Leftover:
        return Leftover(table=table.table, name=ref.name, kind=kind, run=run_id, why=why, is_dropped=True)

    run = about.runs.get(run_id)
    if run is None:
        until = _orphan_until(table, ref, run_id, about.default_days)
        if about.hold:
            return kept(f"no run is known of it, and {about.hold}", until)
        return dropped("no run is known of it") if until <= about.now else kept("no run is known of it", until)
    if run.plan.environment != about.environment:
        return kept(f"of the environment {run.plan.environment or 'production'}")
    state = run.state.value.replace("_", " ")
    if not run.state.is_over:
        return kept(f"its run is {state}")
    if kind is Kind.UNDO:
        return kept("its run is being rolled back") if run_id in about.driven else dropped("a rollback left it")
    until = kept_until(run, about.retention_days.get(run_id, about.default_days))
    return dropped(f"its run is {state}") if until <= about.now else kept(f"its run is {state}", until)


def kept_until(run: Run, days: int) -> datetime:
    """Until when what a run left is kept, once it is over."""
    ended = run.rolled_back or run.published
    return run.updated if ended is None else ended + timedelta(days=days)


def _orphan_until(table: TableRefs, ref: Ref, run_id: str, days: int) -> datetime:
    """Counted from its snapshot, those that stand on it, or the day in its name: a tag tells no time of its own."""
    times = [table.newest_at(ref)]
    with suppress(ValueError):
        times.append(datetime.strptime(run_id[:8], "%Y%m%d").replace(tzinfo=UTC))
    return max((time for time in times if time is not None), default=_NEVER) + timedelta(days=days)


def _without_needed(table: TableRefs, judged: list[Leftover], needed: Collection[int]) -> Iterator[Leftover]:
    """What an open run reads or stands on is kept, whatever else is true of it."""
    heads = {ref.name: ref.snapshot_id for ref in table.refs}
    names = {each.name for each in judged if each.is_dropped}
    lost = table.only_of(names) & set(needed)
    for each in judged:
        reached = table.reachable(ref for ref in table.refs if ref.name == each.name)
        if each.is_dropped and (heads[each.name] in needed or lost & reached):
            yield Leftover(
                table=each.table, name=each.name, kind=each.kind, run=each.run, why="an open run reads what it keeps"
            )
        else:
            yield each
