"""Rows of the ledger as values of the core."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

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
from retcon.ledger.statements import Transaction, ask, ask_one
from retcon.ledger.texts import document_in, moment_if_any, moment_in, plan_in

if TYPE_CHECKING:
    from retcon.core.events import Event

OVER = tuple(state.value for state in RunState if state.is_over)
"""States of runs for which nothing is left to be done."""
_MOST_NAMED = 500
"""Of more slices than this, all of the model's are read: databases bound the parameters of a query."""


def run(connection: Transaction, run_id: str) -> Run | None:
    """One run."""
    row = ask_one(connection, "SELECT * FROM retcon_runs WHERE id = :run_id", run_id=run_id)
    return None if row is None else _run_of(row)


def locked_run(connection: Transaction, run_id: str) -> Run | None:
    """One run that nobody else changes before this transaction ends (on SQLite, a writing one is alone anyway)."""
    lock = " FOR UPDATE" if connection.dialect.name == "postgresql" else ""
    row = ask_one(connection, f"SELECT * FROM retcon_runs WHERE id = :run_id{lock}", run_id=run_id)
    return None if row is None else _run_of(row)


def runs(connection: Transaction, *, model: str | None, limit: int | None) -> list[Run]:
    """Runs, newest first."""
    of_model = "EXISTS (SELECT 1 FROM retcon_waves w WHERE w.run_id = r.id AND w.model = :model)"
    found = ask(
        connection,
        f"""SELECT * FROM retcon_runs r WHERE {"1 = 1" if model is None else of_model}
            ORDER BY created DESC, id DESC{"" if limit is None else " LIMIT :limit"}""",
        **({} if model is None else {"model": model}),
        **({} if limit is None else {"limit": limit}),
    )
    return [_run_of(row) for row in found]


def unfinished_runs(connection: Transaction) -> list[Run]:
    """Runs for which something is left to be done, newest first."""
    newest = "SELECT * FROM retcon_runs WHERE state NOT IN :over ORDER BY created DESC, id DESC"
    return [_run_of(row) for row in ask(connection, newest, over=OVER)]


def waves(connection: Transaction, run_id: str) -> list[RecordedWave]:
    """The waves of a run, by model."""
    query = "SELECT * FROM retcon_waves WHERE run_id = :run_id ORDER BY model, wave"
    return [
        RecordedWave(
            model=row.model,
            wave=row.wave,
            slices=row.slices,
            state=WaveState(row.state),
            attempts=row.attempts,
            snapshot_id=row.snapshot_id,
            seconds=row.seconds,
            scans=tuple(ScanEvidence(**scan) for scan in document_in(row.scans)),
            error=row.error,
        )
        for row in ask(connection, query, run_id=run_id)
    ]


def slices(connection: Transaction, run_id: str, model: str | None) -> list[RecordedSlice]:
    """The slices of a run, by model."""
    of_model, words = ("", {}) if model is None else (" AND model = :model", {"model": model})
    query = f"SELECT * FROM retcon_slices WHERE run_id = :run_id{of_model} ORDER BY model, slice"
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
            metrics=_metrics(document_in(row.metrics)),
        )
        for row in ask(connection, query, run_id=run_id, **words)
    ]


def tallies(connection: Transaction, run_ids: Sequence[str]) -> dict[str, Tally]:
    """How far each of these runs is, counted by the database."""
    counted = ask(
        connection,
        """SELECT run_id, state, count(*) AS slices, sum(rows) AS rows_in_all FROM retcon_slices
           WHERE run_id IN :run_ids GROUP BY run_id, state""",
        run_ids=run_ids,
    )
    found = {run_id: Tally() for run_id in run_ids}
    for row in counted:
        if row.state == SliceState.PENDING.value:
            continue
        so_far = found[row.run_id]
        found[row.run_id] = Tally(
            staged=so_far.staged + row.slices,
            empty=so_far.empty + (row.slices if row.state == SliceState.EMPTY.value else 0),
            rows=so_far.rows + int(row.rows_in_all or 0),
        )
    return found


def verdicts(connection: Transaction, run_id: str) -> list[RecordedVerdict]:
    """The verdicts on a run, as they were judged."""
    query = "SELECT * FROM retcon_verdicts WHERE run_id = :run_id ORDER BY number"
    return [
        RecordedVerdict(
            verdict=Verdict(
                model=row.model,
                gate=row.gate,
                kind=row.kind,
                summary=row.summary,
                findings=tuple(Finding(**finding) for finding in document_in(row.findings)),
                warns=bool(row.warns),
            ),
            override=row.override,
        )
        for row in ask(connection, query, run_id=run_id)
    ]


def profiles(connection: Transaction, run_id: str) -> list[ProfileEntry]:
    """The profiles that a run's proof left, as far as they are of all its slices together."""
    found = ask(
        connection,
        """SELECT profile FROM retcon_profiles WHERE run_id = :run_id AND slice = ''
           ORDER BY model, column_name, side""",
        run_id=run_id,
    )
    return [entry_from(document_in(row.profile)) for row in found]


def slice_profiles(connection: Transaction, model: str) -> dict[str, dict[str, ColumnProfile]]:
    """Per slice, the profile of each column that the newest publish that stands left of it."""
    rows = ask(
        connection,
        f"""SELECT p.slice, p.profile FROM retcon_profiles p
            JOIN ({_newest_slices()}) n ON p.run_id = n.run_id AND p.slice = n.slice
            WHERE p.model = :model AND p.side = :side""",
        **_words(model),
        side=Side.STAGED.value,
    )
    found: dict[str, dict[str, ColumnProfile]] = {}
    for row in rows:
        profile = entry_from(document_in(row.profile)).profile
        found.setdefault(row.slice, {})[profile.column] = profile
    return found


def events(connection: Transaction, run_id: str, kind: type[Event] | None = None) -> list[RecordedEvent]:
    """The chain of a run; or of it, the events of one kind."""
    of_kind, words = ("", {}) if kind is None else (" AND kind = :kind", {"kind": kind.__name__})
    query = f"SELECT * FROM retcon_events WHERE run_id = :run_id{of_kind} ORDER BY number"
    return [
        RecordedEvent(
            run=row.run_id,
            number=row.number,
            at=row.at,
            who=row.who,
            kind=row.kind,
            body=document_in(row.body),
            previous=row.previous,
            hash=row.hash,
        )
        for row in ask(connection, query, run_id=run_id, **words)
    ]


def code(connection: Transaction, run_id: str) -> Mapping[str, str]:
    """The code of a run's models, from the event that opened it."""
    opened = ask_one(connection, "SELECT body FROM retcon_events WHERE run_id = :run_id AND number = 1", run_id=run_id)
    # A run that was rebuilt from the tables began otherwise.
    return {} if opened is None else document_in(opened.body).get("code", {})


def consumption(connection: Transaction, run_id: str) -> list[Consumed]:
    """What a run's published slices were computed from."""
    query = "SELECT * FROM retcon_consumption WHERE run_id = :run_id ORDER BY model, slice, input"
    return [_consumed(row) for row in ask(connection, query, run_id=run_id)]


def published_slices(
    connection: Transaction, model: str, slices: Collection[str] | None = None
) -> dict[str, PublishedSlice]:
    """Per slice (of these, where they are given), the newest publish that stands, where it was measured."""
    return {
        row.slice: PublishedSlice(
            slice=row.slice,
            run=row.run_id,
            rows=row.rows,
            checksum=row.checksum,
            metrics={name: new for name, (_, new) in _metrics(document_in(row.metrics)).items()},
            keys=document_in(row.key_checksums) or {},
        )
        for row in ask(connection, _newest_slices(is_narrowed=_is_few(slices)), **_words(model, slices=slices))
        if row.checksum is not None
    }


def bare_slices(connection: Transaction, model: str) -> Sequence[Any]:
    """Slices whose newest publish that stands has no rows, or is known from the tables alone: then it wasn't
    measured, and has no checksum.
    """
    query = f"SELECT slice, checksum FROM ({_newest_slices()}) n WHERE rows = 0 OR checksum IS NULL ORDER BY slice"
    return ask(connection, query, **_words(model))


def _newest_slices(*, written: bool = True, is_bounded: bool = False, is_narrowed: bool = False) -> str:
    """Per slice, the newest publish that stands: that wrote it, or that found it to be as it came out. What `_words`
    gives is bound to it.
    """
    return f"""
        SELECT * FROM (
          SELECT s.slice, s.run_id, s.rows, s.checksum, s.metrics, s.key_checksums,
                 row_number() OVER (PARTITION BY s.slice ORDER BY r.publish_order DESC) AS newness
          FROM retcon_slices s JOIN retcon_runs r ON r.id = s.run_id
          WHERE s.model = :model AND r.state = :published AND s.state <> :lapsed
            {"AND s.state <> :same" if written else ""}
            {"AND r.publish_order < :before" if is_bounded else ""}
            {"AND s.slice IN :slices" if is_narrowed else ""}
        ) standing WHERE newness = 1 ORDER BY slice"""


def _words(model: str, *, before: int | None = None, slices: Collection[str] | None = None) -> dict[str, Any]:
    """What is bound to a query for newest slices."""
    words: dict[str, Any] = {
        "model": model,
        "published": RunState.PUBLISHED.value,
        "lapsed": SliceState.LAPSED.value,
        "same": SliceState.SAME.value,
    }
    bounds = {} if before is None else {"before": before}
    return words | bounds | ({"slices": list(slices)} if slices is not None and _is_few(slices) else {})


def _is_few(slices: Collection[str] | None) -> bool:
    return slices is not None and len(slices) <= _MOST_NAMED


def standing_consumption(
    connection: Transaction, model: str, slices: Collection[str] | None = None
) -> dict[str, dict[str, Consumed]]:
    """Per slice of a model (of these, where they are given), what its newest publish that stands was computed from, by
    input.
    """
    query = _consumption_of(is_narrowed=_is_few(slices))
    return _by_slice(ask(connection, query, **_words(model, slices=slices)))


def consumption_before(connection: Transaction, run_id: str, model: str) -> dict[str, dict[str, Consumed]]:
    """The same as it was when this run was published; as it is, where that wasn't."""
    before = _publish_order(connection, run_id)
    return _by_slice(ask(connection, _consumption_of(is_bounded=before is not None), **_words(model, before=before)))


def runs_before(connection: Transaction, run_id: str, model: str) -> dict[str, str]:
    """Per slice of a model, the run of its newest publish that stood when this run was published; as it is, where that
    wasn't.
    """
    before = _publish_order(connection, run_id)
    query = _newest_slices(written=False, is_bounded=before is not None)
    return {row.slice: row.run_id for row in ask(connection, query, **_words(model, before=before))}


def _publish_order(connection: Transaction, run_id: str) -> int | None:
    row = ask_one(connection, "SELECT publish_order FROM retcon_runs WHERE id = :run_id", run_id=run_id)
    return None if row is None else row.publish_order


def _consumption_of(*, is_bounded: bool = False, is_narrowed: bool = False) -> str:
    newest = _newest_slices(written=False, is_bounded=is_bounded, is_narrowed=is_narrowed)
    return f"""SELECT c.* FROM retcon_consumption c
               JOIN ({newest}) n ON c.run_id = n.run_id AND c.slice = n.slice
               WHERE c.model = :model"""


def _by_slice(rows: Iterable[Any]) -> dict[str, dict[str, Consumed]]:
    found: dict[str, dict[str, Consumed]] = {}
    for row in rows:
        found.setdefault(row.slice, {})[row.input] = _consumed(row)
    return found


def standing_runs(connection: Transaction, model: str) -> dict[str, str]:
    """Per slice of a model, the run of its newest publish that stands."""
    query = f"SELECT slice, run_id FROM ({_newest_slices(written=False)}) n ORDER BY slice"
    return {row.slice: row.run_id for row in ask(connection, query, **_words(model))}


def standing_code(connection: Transaction, model: str) -> dict[str, str]:
    """Per slice of a model, the fingerprints of code and settings by which its newest publish that stands made it."""
    made = standing_runs(connection, model)
    codes: dict[str, str] = {}
    for ids in _batches(sorted(set(made.values()))):
        # Of many plans no more than their codes: those of a year of loads aren't worth being made.
        plans = ask(connection, "SELECT id, plan FROM retcon_runs WHERE id IN :ids", ids=ids)
        codes |= {row.id: codes_in(document_in(row.plan)).get(model, "") for row in plans}
    return {slice: codes[run_id] for slice, run_id in made.items()}


def _batches(items: list[str]) -> Iterator[list[str]]:
    return (items[start : start + _MOST_NAMED] for start in range(0, len(items), _MOST_NAMED))


def published_snapshots(connection: Transaction, model: str) -> dict[str, int]:
    """The snapshot that each publish of a model that stands made, oldest first."""
    rows = ask(
        connection,
        """SELECT id, tables FROM retcon_runs r WHERE state = :published
             AND EXISTS (SELECT 1 FROM retcon_waves w WHERE w.run_id = r.id AND w.model = :model)
           ORDER BY publish_order""",
        published=RunState.PUBLISHED.value,
        model=model,
    )
    made = {row.id: document_in(row.tables).get(model, {}).get("published_snapshot") for row in rows}
    return {run_id: snapshot for run_id, snapshot in made.items() if snapshot is not None}


def held_slices(connection: Transaction, model: str) -> frozenset[str]:
    """Slices whose newest publish was undone: left alone until a new plan."""
    rows = ask(
        connection,
        """SELECT slice FROM (
             SELECT s.slice, r.state, row_number() OVER (PARTITION BY s.slice ORDER BY r.publish_order DESC) AS newness
             FROM retcon_slices s JOIN retcon_runs r ON r.id = s.run_id
             WHERE s.model = :model AND r.publish_order IS NOT NULL AND s.state <> :lapsed
               AND (s.state <> :same OR r.state = :published)
           ) ever WHERE newness = 1 AND state = :rolled_back""",
        model=model,
        lapsed=SliceState.LAPSED.value,
        same=SliceState.SAME.value,
        published=RunState.PUBLISHED.value,
        rolled_back=RunState.ROLLED_BACK.value,
    )
    return frozenset(row.slice for row in rows)


def last_published(connection: Transaction, models: Sequence[str]) -> dict[str, Run]:
    """Per model, the run of its newest publish that stands."""
    newest = ask(
        connection,
        """SELECT w.model, max(r.publish_order) AS publish_order
           FROM retcon_waves w JOIN retcon_runs r ON r.id = w.run_id
           WHERE w.model IN :models AND r.state = :published GROUP BY w.model ORDER BY w.model""",
        models=models,
        published=RunState.PUBLISHED.value,
    )
    orders = sorted({row.publish_order for row in newest})
    found = ask(connection, "SELECT * FROM retcon_runs WHERE publish_order IN :orders", orders=orders)
    by_order = {row.publish_order: _run_of(row) for row in found}
    return {row.model: by_order[row.publish_order] for row in newest}


def adoptions(connection: Transaction) -> dict[str, Adoption]:
    """Per model, the newest adoption of a table."""
    return {
        row.model: Adoption(
            model=row.model,
            uuid=row.uuid,
            snapshot_id=row.snapshot_id,
            slices=SliceSet.parse(cut_of(row.grain), row.slices),
            who=row.who,
            at=moment_in(row.at),
            reason=row.reason,
        )
        for row in ask(connection, "SELECT * FROM retcon_adoptions ORDER BY at")
    }


def _consumed(row: Any) -> Consumed:
    return Consumed(
        model=row.model,
        slice=row.slice,
        input=row.input,
        table=row.input_table,
        snapshot_id=row.snapshot_id,
        content=row.content,
    )


def _run_of(row: Any) -> Run:
    return Run(
        id=row.id,
        kind=row.kind,
        state=RunState(row.state),
        plan=plan_in(row.plan),
        by=row.who,
        created=moment_in(row.created),
        updated=moment_in(row.updated),
        tables={model: _table_of(opened) for model, opened in document_in(row.tables).items()},
        pins=document_in(row.pins),
        run_ts=row.run_ts,
        totals={model: _metrics(totals) for model, totals in document_in(row.totals).items()},
        published=moment_if_any(row.published),
        rolled_back=moment_if_any(row.rolled_back),
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
