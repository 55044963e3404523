"""Rows of the ledger as values of the core."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, Row, Select, bindparam, exists, func, or_, select, true, type_coerce

from retcon.core.adoption import Adoption
from retcon.core.chains import RecordedEvent
from retcon.core.gates import Finding, Verdict
from retcon.core.plans import codes_in
from retcon.core.profiles import ColumnProfile, ProfileEntry, Side, entry_from
from retcon.core.runs import (
    Consumed,
    PublishedSlice,
    Rebase,
    RecordedSlice,
    RecordedVerdict,
    RecordedWave,
    Replaced,
    Run,
    RunState,
    RunTable,
    ScanEvidence,
    SliceState,
    Tally,
    WaveState,
)
from retcon.core.slices import SliceSet, cut_of
from retcon.ledger.columns import Document
from retcon.ledger.schema import ADOPTIONS, CONSUMPTION, EVENTS, PROFILES, RUNS, SLICES, VERDICTS, WAVES

if TYPE_CHECKING:
    from retcon.core.events import Event

IS_UNFINISHED = RUNS.c.state.not_in([state for state in RunState if state.is_over])
"""Of a run, that something is left to be done for it."""
_UNWRITTEN = SliceState.SAME, SliceState.LAPSED
"""States of slices that a publish left alone."""
_MOST_NAMED = 500
"""Of more slices than this, all of the model's are read: databases bound the parameters of a query."""


def run(connection: Connection, run_id: str) -> Run | None:
    """One run."""
    return _one(connection, select(RUNS).where(RUNS.c.id == run_id))


def locked_run(connection: Connection, run_id: str) -> Run | None:
    """One run that nobody else changes before this transaction ends (on SQLite, a writing one is alone anyway)."""
    return _one(connection, select(RUNS).where(RUNS.c.id == run_id).with_for_update())


def runs(connection: Connection, *, model: str | None, limit: int | None) -> list[Run]:
    """Runs, newest first."""
    query = _newest_runs().limit(limit)
    if model is not None:
        query = query.where(exists().where(WAVES.c.run_id == RUNS.c.id, WAVES.c.model == model))
    return [_run_of(row) for row in connection.execute(query)]


def unfinished_runs(connection: Connection) -> list[Run]:
    """Runs for which something is left to be done, newest first."""
    return [_run_of(row) for row in connection.execute(_newest_runs().where(IS_UNFINISHED))]


def _newest_runs() -> Select[Any]:
    return select(RUNS).order_by(RUNS.c.created.desc(), RUNS.c.id.desc())


def waves(connection: Connection, run_id: str) -> list[RecordedWave]:
    """The waves of a run, by model."""
    query = select(WAVES).where(WAVES.c.run_id == run_id).order_by(WAVES.c.model, WAVES.c.wave)
    return [
        RecordedWave(
            model=row.model,
            wave=row.wave,
            slices=row.slices,
            state=WaveState(row.state),
            attempts=row.attempts,
            snapshot_id=row.snapshot_id,
            seconds=row.seconds,
            scans=tuple(ScanEvidence(**scan) for scan in row.scans),
            error=row.error,
        )
        for row in connection.execute(query)
    ]


def slices(connection: Connection, run_id: str, model: str | None) -> list[RecordedSlice]:
    """The slices of a run, by model."""
    query = select(SLICES).where(SLICES.c.run_id == run_id).order_by(SLICES.c.model, SLICES.c.slice)
    if model is not None:
        query = query.where(SLICES.c.model == model)
    return [
        RecordedSlice(
            model=row.model,
            slice=row.slice,
            wave=row.wave,
            state=SliceState(row.state),
            rows=row.rows,
            bytes=row.bytes,
            files=row.files,
            checksum=row.checksum,
            old_rows=row.old_rows,
            old_checksum=row.old_checksum,
            metrics=_metrics(row.metrics),
        )
        for row in connection.execute(query)
    ]


def tallies(connection: Connection, run_ids: Sequence[str]) -> dict[str, Tally]:
    """How far each of these runs is, counted by the database."""
    query = (
        select(SLICES.c.run_id, SLICES.c.state, func.count(), func.sum(SLICES.c.rows))
        .where(SLICES.c.run_id.in_(run_ids))
        .group_by(SLICES.c.run_id, SLICES.c.state)
    )
    found = {run_id: Tally() for run_id in run_ids}
    for run_id, state, count, rows in connection.execute(query):
        if state == SliceState.PENDING.value:
            continue
        so_far = found[run_id]
        found[run_id] = Tally(
            staged=so_far.staged + count,
            empty=so_far.empty + (count if state == SliceState.EMPTY.value else 0),
            rows=so_far.rows + int(rows or 0),
        )
    return found


def verdicts(connection: Connection, run_id: str) -> list[RecordedVerdict]:
    """The verdicts on a run, as they were judged."""
    query = select(VERDICTS).where(VERDICTS.c.run_id == run_id).order_by(VERDICTS.c.number)
    return [
        RecordedVerdict(
            verdict=Verdict(
                model=row.model,
                gate=row.gate,
                kind=row.kind,
                summary=row.summary,
                findings=tuple(Finding(**finding) for finding in row.findings),
                warns=bool(row.warns),
            ),
            override=row.override,
        )
        for row in connection.execute(query)
    ]


def profiles(connection: Connection, run_id: str) -> list[ProfileEntry]:
    """The profiles that a run's proof left, as far as they are of all its slices together."""
    query = select(PROFILES).where(PROFILES.c.run_id == run_id, PROFILES.c.slice == "")
    found = connection.execute(query.order_by(PROFILES.c.model, PROFILES.c.column_name, PROFILES.c.side))
    return [entry_from(row.profile) for row in found]


def slice_profiles(connection: Connection, model: str) -> dict[str, dict[str, ColumnProfile]]:
    """Per slice, the profile of each column that the newest publish that stands left of it."""
    newest = _newest_slices().subquery()
    query = select(PROFILES.c.slice, PROFILES.c.profile).join(
        newest, (PROFILES.c.run_id == newest.c.run_id) & (PROFILES.c.slice == newest.c.slice)
    )
    staged = query.where(PROFILES.c.model == bindparam("model"), PROFILES.c.side == Side.STAGED)
    found: dict[str, dict[str, ColumnProfile]] = {}
    for row in connection.execute(staged, _words(model)):
        profile = entry_from(row.profile).profile
        found.setdefault(row.slice, {})[profile.column] = profile
    return found


def events(connection: Connection, run_id: str, kind: type[Event] | None = None) -> list[RecordedEvent]:
    """The chain of a run; or of it, the events of one kind."""
    query = select(EVENTS).where(EVENTS.c.run_id == run_id).order_by(EVENTS.c.number)
    if kind is not None:
        query = query.where(EVENTS.c.kind == kind.__name__)
    return [
        RecordedEvent(
            run=row.run_id,
            number=row.number,
            at=row.at,
            who=row.who,
            kind=row.kind,
            body=row.body,
            previous=row.previous,
            hash=row.hash,
        )
        for row in connection.execute(query)
    ]


def code(connection: Connection, run_id: str) -> Mapping[str, str]:
    """The code of a run's models, from the event that opened it."""
    opened = connection.scalar(select(EVENTS.c.body).where(EVENTS.c.run_id == run_id, EVENTS.c.number == 1))
    # A run that was rebuilt from the tables began otherwise.
    return {} if opened is None else opened.get("code", {})


def consumption(connection: Connection, run_id: str) -> list[Consumed]:
    """What a run's published slices were computed from."""
    columns = CONSUMPTION.c
    query = select(CONSUMPTION).where(columns.run_id == run_id).order_by(columns.model, columns.slice, columns.input)
    return [_consumed(row) for row in connection.execute(query)]


def published_slices(
    connection: Connection, model: str, slices: Collection[str] | None = None
) -> dict[str, PublishedSlice]:
    """Per slice (of these, where they are given), the newest publish that stands, where it was measured."""
    return {
        row.slice: PublishedSlice(
            slice=row.slice,
            run=row.run_id,
            rows=row.rows,
            checksum=row.checksum,
            metrics={name: new for name, (_, new) in _metrics(row.metrics).items()},
            keys=row.key_checksums or {},
        )
        for row in connection.execute(_newest_slices(is_narrowed=_is_few(slices)), _words(model, slices=slices))
        if row.checksum is not None
    }


def bare_slices(connection: Connection, model: str) -> Sequence[Row[Any]]:
    """Slices whose newest publish that stands has no rows, or is known from the tables alone: then it wasn't
    measured, and has no checksum.
    """
    return connection.execute(_bare_slices(), _words(model)).all()


@cache
def _bare_slices() -> Select[Any]:
    newest = _newest_slices().subquery()
    is_bare = or_(newest.c.rows == 0, newest.c.checksum.is_(None))
    return select(newest.c.slice, newest.c.checksum).where(is_bare).order_by(newest.c.slice)


@cache
def _newest_slices(*, written: bool = True, is_bounded: bool = False, is_narrowed: bool = False) -> Select[Any]:
    """Per slice, the newest publish that stands: that wrote it, or that found it to be as it came out. What `_words`
    gives is bound to it: making such a query takes longer than asking it.
    """
    newness = func.row_number().over(partition_by=SLICES.c.slice, order_by=RUNS.c.publish_order.desc())
    standing = (
        select(
            SLICES.c.slice,
            SLICES.c.run_id,
            SLICES.c.rows,
            SLICES.c.checksum,
            SLICES.c.metrics,
            SLICES.c.key_checksums,
            newness.label("newness"),
        )
        .join(RUNS, RUNS.c.id == SLICES.c.run_id)
        .where(SLICES.c.model == bindparam("model"), RUNS.c.state == RunState.PUBLISHED)
        .where(SLICES.c.state.not_in(_UNWRITTEN if written else _UNWRITTEN[1:]))
        .where(RUNS.c.publish_order < bindparam("before") if is_bounded else true())
        .where(SLICES.c.slice.in_(bindparam("slices", expanding=True)) if is_narrowed else true())
        .subquery()
    )
    return select(standing).where(standing.c.newness == 1).order_by(standing.c.slice)


def _words(model: str, *, before: int | None = None, slices: Collection[str] | None = None) -> dict[str, Any]:
    """What is bound to a query for newest slices."""
    bounds = {} if before is None else {"before": before}
    return {"model": model, **bounds, **({"slices": list(slices)} if slices is not None and _is_few(slices) else {})}


def _is_few(slices: Collection[str] | None) -> bool:
    return slices is not None and len(slices) <= _MOST_NAMED


def standing_consumption(
    connection: Connection, model: str, slices: Collection[str] | None = None
) -> dict[str, dict[str, Consumed]]:
    """Per slice of a model (of these, where they are given), what its newest publish that stands was computed from, by
    input.
    """
    query = _consumption_of(is_narrowed=_is_few(slices))
    return _by_slice(connection.execute(query, _words(model, slices=slices)))


def consumption_before(connection: Connection, run_id: str, model: str) -> dict[str, dict[str, Consumed]]:
    """The same as it was when this run was published; as it is, where that wasn't."""
    before = connection.scalar(select(RUNS.c.publish_order).where(RUNS.c.id == run_id))
    return _by_slice(connection.execute(_consumption_of(is_bounded=before is not None), _words(model, before=before)))


def runs_before(connection: Connection, run_id: str, model: str) -> dict[str, str]:
    """Per slice of a model, the run of its newest publish that stood when this run was published; as it is, where that
    wasn't.
    """
    before = connection.scalar(select(RUNS.c.publish_order).where(RUNS.c.id == run_id))
    query = _newest_slices(written=False, is_bounded=before is not None)
    return {row.slice: row.run_id for row in connection.execute(query, _words(model, before=before))}


@cache
def _consumption_of(*, is_bounded: bool = False, is_narrowed: bool = False) -> Select[Any]:
    newest = _newest_slices(written=False, is_bounded=is_bounded, is_narrowed=is_narrowed).subquery()
    query = select(CONSUMPTION).join(
        newest, (CONSUMPTION.c.run_id == newest.c.run_id) & (CONSUMPTION.c.slice == newest.c.slice)
    )
    return query.where(CONSUMPTION.c.model == bindparam("model"))


def _by_slice(rows: Iterable[Row[Any]]) -> dict[str, dict[str, Consumed]]:
    found: dict[str, dict[str, Consumed]] = {}
    for row in rows:
        found.setdefault(row.slice, {})[row.input] = _consumed(row)
    return found


def standing_runs(connection: Connection, model: str) -> dict[str, str]:
    """Per slice of a model, the run of its newest publish that stands."""
    return {row.slice: row.run_id for row in connection.execute(_standing_runs(), _words(model))}


@cache
def _standing_runs() -> Select[Any]:
    newest = _newest_slices(written=False).subquery()
    return select(newest.c.slice, newest.c.run_id).order_by(newest.c.slice)


def standing_code(connection: Connection, model: str) -> dict[str, str]:
    """Per slice of a model, the fingerprints of code and settings by which its newest publish that stands made it."""
    made = standing_runs(connection, model)
    codes: dict[str, str] = {}
    for ids in _batches(sorted(set(made.values()))):
        plans = connection.execute(_plans(), {"ids": ids})
        codes |= {row.id: codes_in(row.plan).get(model, "") for row in plans}
    return {slice: codes[run_id] for slice, run_id in made.items()}


def _batches(items: list[str]) -> Iterator[list[str]]:
    return (items[start : start + _MOST_NAMED] for start in range(0, len(items), _MOST_NAMED))


@cache
def _plans() -> Select[Any]:
    # Of many plans no more than their codes: those of a year of loads aren't worth being made.
    plan = type_coerce(RUNS.c.plan, Document).label("plan")
    return select(RUNS.c.id, plan).where(RUNS.c.id.in_(bindparam("ids", expanding=True)))


def published_snapshots(connection: Connection, model: str) -> dict[str, int]:
    """The snapshot that each publish of a model that stands made, oldest first."""
    query = (
        select(RUNS.c.id, RUNS.c.tables)
        .where(RUNS.c.state == RunState.PUBLISHED)
        .where(exists().where(WAVES.c.run_id == RUNS.c.id, WAVES.c.model == model))
        .order_by(RUNS.c.publish_order)
    )
    made = {row.id: row.tables.get(model, {}).get("published_snapshot") for row in connection.execute(query)}
    return {run_id: snapshot for run_id, snapshot in made.items() if snapshot is not None}


def held_slices(connection: Connection, model: str) -> frozenset[str]:
    """Slices whose newest publish was undone: left alone until a new plan."""
    return frozenset(connection.scalars(_held_slices(), _words(model)))


@cache
def _held_slices() -> Select[Any]:
    newness = func.row_number().over(partition_by=SLICES.c.slice, order_by=RUNS.c.publish_order.desc())
    ever = (
        select(SLICES.c.slice, RUNS.c.state, newness.label("newness"))
        .join(RUNS, RUNS.c.id == SLICES.c.run_id)
        .where(SLICES.c.model == bindparam("model"))
        .where(RUNS.c.publish_order.is_not(None), SLICES.c.state != SliceState.LAPSED)
        .where(or_(SLICES.c.state != SliceState.SAME, RUNS.c.state == RunState.PUBLISHED))
        .subquery()
    )
    return select(ever.c.slice).where(ever.c.newness == 1, ever.c.state == RunState.ROLLED_BACK)


def last_published(connection: Connection, models: Sequence[str]) -> dict[str, Run]:
    """Per model, the run of its newest publish that stands."""
    newest = connection.execute(
        select(WAVES.c.model, func.max(RUNS.c.publish_order).label("publish_order"))
        .join(RUNS, RUNS.c.id == WAVES.c.run_id)
        .where(WAVES.c.model.in_(models), RUNS.c.state == RunState.PUBLISHED)
        .group_by(WAVES.c.model)
        .order_by(WAVES.c.model)
    ).all()
    found = connection.execute(select(RUNS).where(RUNS.c.publish_order.in_({row.publish_order for row in newest})))
    by_order = {row.publish_order: _run_of(row) for row in found}
    return {row.model: by_order[row.publish_order] for row in newest}


def adoptions(connection: Connection) -> dict[str, Adoption]:
    """Per model, the newest adoption of a table."""
    return {
        row.model: Adoption(
            model=row.model,
            uuid=row.uuid,
            snapshot_id=row.snapshot_id,
            slices=SliceSet.parse(cut_of(row.grain), row.slices),
            who=row.who,
            at=row.at,
            reason=row.reason,
        )
        for row in connection.execute(select(ADOPTIONS).order_by(ADOPTIONS.c.at))
    }


def _consumed(row: Row[Any]) -> Consumed:
    return Consumed(
        model=row.model,
        slice=row.slice,
        input=row.input,
        table=row.input_table,
        snapshot_id=row.snapshot_id,
        content=row.content,
    )


def _one(connection: Connection, query: Select[Any]) -> Run | None:
    row = connection.execute(query).one_or_none()
    return None if row is None else _run_of(row)


def _run_of(row: Row[Any]) -> Run:
    return Run(
        id=row.id,
        kind=row.kind,
        state=RunState(row.state),
        plan=row.plan,
        by=row.who,
        created=row.created,
        updated=row.updated,
        tables={model: _table_of(opened) for model, opened in row.tables.items()},
        pins=row.pins,
        run_ts=row.run_ts,
        totals={model: _metrics(totals) for model, totals in row.totals.items()},
        published=row.published,
        rolled_back=row.rolled_back,
        why_ended=row.why_ended,
    )


def _table_of(opened: Mapping[str, Any]) -> RunTable:
    # Runs of before tables could be built beside others, or follow them, say nothing of it.
    replaces, rebase = opened.get("replaces"), opened.get("rebase")
    return RunTable(
        **{
            **opened,
            "replaces": Replaced(**replaces) if replaces else None,
            "rebase": Rebase(**{**rebase, "restaged": tuple(rebase["restaged"])}) if rebase else None,
            "same": tuple(opened.get("same", ())),
        }
    )


def _metrics(stored: Mapping[str, Sequence[str | None]]) -> dict[str, tuple[str | None, str | None]]:
    return {name: (old, new) for name, (old, new) in stored.items()}
