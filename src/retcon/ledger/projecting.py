"""Events written down: into the run's chain, and onto the tables that answer questions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any, assert_never

from sqlalchemy import Connection, Table, bindparam, delete, exists, insert, select, update

from retcon.core.events import (
    ApplyBegan,
    Cancelled,
    Certified,
    CheckedAfter,
    Event,
    GateOverridden,
    InputsJudged,
    Judged,
    Paused,
    ProvingBegan,
    PublishBegan,
    Published,
    PublishRefused,
    Rebased,
    Rebuilt,
    Reproduced,
    Resumed,
    RollbackBegan,
    RolledBack,
    RunOpened,
    SampleChecked,
    SlicesKept,
    StagingDone,
    TablesOpened,
    WaveFailed,
    WaveStaged,
)
from retcon.core.gates import VALID, Verdict
from retcon.core.plans import Plan, to_document
from retcon.core.runs import Run, RunState, SliceState, WaveState
from retcon.errors import Refused
from retcon.ledger import chain, deciding, moving, reading
from retcon.ledger.chain import Link
from retcon.ledger.schema import CONSUMPTION, PROFILES, RUNS, SLICES, VERDICTS, WAVES
from retcon.ledger.steps import overridden_by, proof_lapses, run_after

BACKFILL, LOAD, REBUILT = "backfill", "load", "rebuilt"


def insert_run(connection: Connection, plan: Plan, opened: RunOpened, *, at: datetime, who: str) -> Link:
    """A new run with its waves and slices, none of them computed yet."""
    _insert_planned(connection, plan, BACKFILL if plan.load is None else LOAD, at=at, who=who)
    return chain.append(connection, plan.id, opened, at=at, who=who)


def insert_lost_run(connection: Connection, plan: Plan, *, at: datetime, who: str) -> None:
    """The same for a run that the tables know; its chain begins with what they tell."""
    _insert_planned(connection, plan, REBUILT, at=at, who=who)


def _insert_planned(connection: Connection, plan: Plan, kind: str, *, at: datetime, who: str) -> None:
    connection.execute(
        insert(RUNS).values(
            id=plan.id,
            kind=kind,
            state=RunState.PLANNED,
            plan=to_document(plan),
            who=who,
            created=at,
            updated=at,
            tables={},
            pins={},
            totals={},
        )
    )
    _insert_all(connection, WAVES, _planned_waves(plan))
    _insert_all(connection, SLICES, _planned_slices(plan))


def write_event(connection: Connection, run: Run, event: Event, *, at: datetime, who: str) -> Link:
    """Append an event to the chain of a locked run and carry it through to the tables."""
    verdicts = reading.verdicts(connection, run.id) if isinstance(event, GateOverridden) else []
    after = run_after(run, event, verdicts=verdicts, at=at)
    link = chain.append(connection, run.id, event, at=at, who=who)
    is_publish = run.published is None and after.published is not None
    _update_run(connection, run, after, publish_order=link.entry if is_publish else None)
    if proof_lapses(run.state, event):
        _drop_proof(connection, run.id)
    _project(connection, run.id, event)
    # Rebuilt from tables, a run may be published and undone at once.
    is_undone = run.rolled_back is None and after.rolled_back is not None
    if is_publish and not is_undone:
        deciding.restated(connection, after)
        if run.plan.load is not None:
            moving.advance(connection, run.plan.load.advances, run, at=at, who=who)
            deciding.record(connection, run.plan.load.late, at=at)
    if is_undone and not is_publish:
        moving.put_back(connection, run, at=at, who=who)
    if is_undone or isinstance(event, Cancelled):
        deciding.reopened(connection, run.id)
    return link


def _project(connection: Connection, run: str, event: Event) -> None:
    """What an event says about waves, slices, verdicts and consumption."""
    match event:
        case WaveStaged():
            _project_staged_wave(connection, run, event)
        case WaveFailed():
            _project_failed_wave(connection, run, event)
        case SlicesKept():
            _project_kept(connection, run, event)
        case InputsJudged():
            _project_inputs(connection, run, event)
        case Rebased():
            _project_rebase(connection, run, event)
        case Judged():
            _project_judgement(connection, run, event)
        case GateOverridden():
            _project_override(connection, run, event)
        case Published():
            _project_consumption(connection, run, event)
            _project_same(connection, run, event.same)
        case ApplyBegan():
            if event.expect is not None:
                _project_expectation(connection, run, event.expect)
        case RolledBack():
            _lapse(connection, run)
        case Rebuilt():
            _project_same(connection, run, {table.table: table.same for table in event.tables})
            if event.undone:
                _lapse(connection, run)
        case (
            RunOpened()
            | TablesOpened()
            | StagingDone()
            | ProvingBegan()
            | SampleChecked()
            | PublishBegan()
            | PublishRefused()
            | Certified()
            | CheckedAfter()
            | Reproduced()
            | Paused()
            | Resumed()
            | Cancelled()
            | RollbackBegan()
        ):
            pass
        case _:
            assert_never(event)


def _update_run(connection: Connection, before: Run, after: Run, *, publish_order: int | None) -> None:
    values: dict[str, Any] = {
        "state": after.state,
        "updated": after.updated,
        "tables": {model: asdict(opened) for model, opened in after.tables.items()},
        "pins": dict(after.pins),
        "run_ts": after.run_ts,
        "totals": dict(after.totals),
        "published": after.published,
        "rolled_back": after.rolled_back,
        "why_ended": after.why_ended,
    }
    if publish_order is not None:
        values["publish_order"] = publish_order
    moved = connection.execute(update(RUNS).where(RUNS.c.id == before.id, RUNS.c.state == before.state).values(values))
    # The row is locked, so this can't be; but a publish stands once, whatever a database makes of its locks.
    if moved.rowcount != 1:
        raise Refused(f"run {before.id} is no longer {before.state.value}", next=f"`retcon show {before.id}`")


def _planned_waves(plan: Plan) -> Iterable[dict[str, Any]]:
    for model in plan.models:
        for number, wave in enumerate(model.waves, start=1):
            yield {
                "run_id": plan.id,
                "model": model.name,
                "wave": number,
                "slices": wave.text,
                "state": WaveState.PENDING,
                "attempts": 0,
                "scans": [],
            }


def _planned_slices(plan: Plan) -> Iterable[dict[str, Any]]:
    for model in plan.models:
        for number, wave in enumerate(model.waves, start=1):
            for slice in wave:
                yield {
                    "run_id": plan.id,
                    "model": model.name,
                    "slice": slice.label,
                    "wave": number,
                    "state": SliceState.PENDING,
                    "metrics": {},
                }


def _project_staged_wave(connection: Connection, run: str, event: WaveStaged) -> None:
    _update_wave(
        connection,
        run,
        event,
        state=WaveState.DONE,
        snapshot_id=event.snapshot_id,
        seconds=event.seconds,
        scans=[asdict(scan) for scan in event.scans],
        error=None,
    )
    _update_slices(
        connection,
        run,
        [
            {
                "of_model": event.model,
                "of_slice": staged.slice,
                "state": staged.state,
                "rows": staged.rows,
                "bytes": staged.bytes,
                "files": staged.files,
            }
            for staged in event.slices
        ],
    )


def _project_kept(connection: Connection, run: str, event: SlicesKept) -> None:
    kept = [
        {"of_model": event.model, "of_slice": label, "state": SliceState.SAME, "rows": rows}
        for label, rows in event.slices.items()
    ]
    _update_slices(connection, run, kept)
    of_model = SLICES.c.run_id == run, SLICES.c.model == event.model
    unstaged = select(SLICES.c.wave).where(*of_model, SLICES.c.state == SliceState.PENDING)
    of_wave = WAVES.c.run_id == run, WAVES.c.model == event.model
    connection.execute(update(WAVES).where(*of_wave, WAVES.c.wave.not_in(unstaged)).values(state=WaveState.DONE))


def _project_same(connection: Connection, run: str, same: Mapping[str, Sequence[str]]) -> None:
    for model, labels in same.items():
        states = [{"of_model": model, "of_slice": label, "state": SliceState.SAME} for label in labels]
        _update_slices(connection, run, states)


def _project_failed_wave(connection: Connection, run: str, event: WaveFailed) -> None:
    of_wave = WAVES.c.run_id == run, WAVES.c.model == event.model, WAVES.c.wave == event.wave
    was_done = connection.scalar(select(WAVES.c.state).where(*of_wave)) == WaveState.DONE
    _update_wave(connection, run, event, state=WaveState.FAILED, error=event.error)
    # It was staged before; what failed now has to be staged again. Of one that wasn't, some slices may have been kept.
    if was_done:
        connection.execute(
            update(SLICES)
            .where(SLICES.c.run_id == run, SLICES.c.model == event.model, SLICES.c.wave == event.wave)
            .values(state=SliceState.PENDING, rows=None, bytes=None, files=None)
        )


def _project_rebase(connection: Connection, run: str, event: Rebased) -> None:
    begun_anew = [opened.table for opened in event.tables if opened.rebase and opened.rebase.round == event.round]
    # What is kept of them stands in one commit of the branch, not in those of its waves.
    of_run = WAVES.c.run_id == run
    connection.execute(update(WAVES).where(of_run, WAVES.c.model.in_(begun_anew)).values(snapshot_id=None))
    unstaged = {"state": SliceState.PENDING, "rows": None, "bytes": None, "files": None}
    for model, labels in event.slices.items():
        _update_slices(connection, run, [{"of_model": model, "of_slice": label, **unstaged} for label in labels])
        waves = select(SLICES.c.wave).where(
            SLICES.c.run_id == run, SLICES.c.model == model, SLICES.c.state == SliceState.PENDING
        )
        connection.execute(
            update(WAVES)
            .where(of_run, WAVES.c.model == model, WAVES.c.wave.in_(waves))
            .values(state=WaveState.PENDING, snapshot_id=None)
        )


def _project_inputs(connection: Connection, run: str, event: InputsJudged) -> None:
    judged = {(verdict.model, verdict.gate) for verdict in event.verdicts}
    kept = [v.verdict for v in reading.verdicts(connection, run) if (v.verdict.model, v.verdict.gate) not in judged]
    _replace_verdicts(connection, run, [*kept, *event.verdicts])


def _replace_verdicts(connection: Connection, run: str, verdicts: Sequence[Verdict]) -> None:
    connection.execute(delete(VERDICTS).where(VERDICTS.c.run_id == run))
    rows = (
        {"run_id": run, "number": number, **asdict(verdict), "warns": int(verdict.warns)}
        for number, verdict in enumerate(verdicts)
    )
    _insert_all(connection, VERDICTS, rows)


def _project_judgement(connection: Connection, run: str, event: Judged) -> None:
    _update_slices(
        connection,
        run,
        [
            {
                "of_model": proven.model,
                "of_slice": proven.slice,
                "checksum": proven.checksum,
                "old_rows": proven.old_rows,
                "old_checksum": proven.old_checksum,
                "metrics": dict(proven.metrics),
                "key_checksums": dict(proven.keys),
            }
            for proven in event.slices
        ],
    )
    _replace_verdicts(connection, run, event.verdicts)
    connection.execute(delete(PROFILES).where(PROFILES.c.run_id == run))
    kept = (
        {
            "run_id": run,
            "model": each["model"],
            "slice": each["slice"] or "",
            "column_name": each["column"],
            "side": each["side"],
            "profile": each,
        }
        for each in event.profiles
    )
    _insert_all(connection, PROFILES, kept)


def _project_consumption(connection: Connection, run: str, event: Published) -> None:
    _insert_all(
        connection,
        CONSUMPTION,
        (
            {
                "run_id": run,
                "model": consumed.model,
                "slice": consumed.slice,
                "input": consumed.input,
                "input_table": consumed.table,
                "snapshot_id": consumed.snapshot_id,
                "content": consumed.content,
            }
            for consumed in event.consumed
        ),
    )


def _project_expectation(connection: Connection, run: str, expect: Sequence[Mapping[str, Any]]) -> None:
    plan = connection.scalar(select(RUNS.c.plan).where(RUNS.c.id == run))
    connection.execute(update(RUNS).where(RUNS.c.id == run).values(plan={**(plan or {}), "expect": list(expect)}))


def _lapse(connection: Connection, run: str) -> None:
    """Later runs found some slices as this one had published them: that isn't what production has any more."""
    undone = SLICES.alias()
    order = select(RUNS.c.publish_order).where(RUNS.c.id == run).scalar_subquery()
    later = select(RUNS.c.id).where(RUNS.c.publish_order > order)
    is_undone = exists().where(
        undone.c.run_id == run,
        undone.c.model == SLICES.c.model,
        undone.c.slice == SLICES.c.slice,
        undone.c.state != SliceState.SAME,
    )
    connection.execute(
        update(SLICES)
        .where(SLICES.c.run_id.in_(later), SLICES.c.state == SliceState.SAME, is_undone)
        .values(state=SliceState.LAPSED)
    )


def _update_wave(connection: Connection, run: str, event: WaveStaged | WaveFailed, **values: Any) -> None:
    updated = connection.execute(
        update(WAVES)
        .where(WAVES.c.run_id == run, WAVES.c.model == event.model, WAVES.c.wave == event.wave)
        .values(attempts=WAVES.c.attempts + 1, **values)
    )
    if updated.rowcount != 1:
        raise ValueError(f"run {run} has no wave {event.wave} of {event.model}")


def _update_slices(connection: Connection, run: str, rows: list[dict[str, Any]]) -> None:
    if not rows:
        return
    one_slice = update(SLICES).where(
        SLICES.c.run_id == run, SLICES.c.model == bindparam("of_model"), SLICES.c.slice == bindparam("of_slice")
    )
    if connection.execute(one_slice, rows).rowcount != len(rows):
        raise ValueError(f"run {run} has no slices like these: {', '.join(row['of_slice'] for row in rows)}")


def _project_override(connection: Connection, run: str, event: GateOverridden) -> None:
    meant = overridden_by(event, reading.verdicts(connection, run))
    connection.execute(
        update(VERDICTS).where(VERDICTS.c.run_id == run, VERDICTS.c.number.in_(meant)).values(override=event.reason)
    )


def _drop_proof(connection: Connection, run: str) -> None:
    connection.execute(delete(PROFILES).where(PROFILES.c.run_id == run))
    # What was judged of the inputs stays: they are pinned, or looked at again.
    connection.execute(delete(VERDICTS).where(VERDICTS.c.run_id == run, VERDICTS.c.kind != VALID))
    connection.execute(
        update(SLICES)
        .where(SLICES.c.run_id == run)
        .values(checksum=None, old_rows=None, old_checksum=None, metrics={}, key_checksums=None)
    )


def _insert_all(connection: Connection, table: Table, rows: Iterable[Mapping[str, Any]]) -> None:
    batch = list(rows)
    if batch:
        connection.execute(insert(table), batch)
