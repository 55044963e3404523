"""Stage: recompute the planned slices on the run's own branches, beside production."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from itertools import islice
from time import monotonic

from retcon.core.adoption import require_adopted
from retcon.core.evolution import SchemaChange, comments_for
from retcon.core.jobs import Job, StagedWave
from retcon.core.models import Order
from retcon.core.plans import Beside, PlannedModel
from retcon.core.readings import require_hours_as_planned
from retcon.core.retries import TRIES, is_worth_another_try
from retcon.core.runs import (
    Replaced,
    Resumed,
    Run,
    RunState,
    RunTable,
    ScanEvidence,
    SlicesKept,
    SliceState,
    StagingDone,
    TablesOpened,
    WaveFailed,
    WaveStaged,
    WaveState,
)
from retcon.core.schemas import carried_properties, opened_changes, require_aligned, require_same_hashes
from retcon.core.slices import SliceSet
from retcon.core.tables import TableFacts, Told
from retcon.core.tasks import Tasks
from retcon.errors import Fault, Refused, RetconError
from retcon.flow.brakes import Stopped
from retcon.flow.branches import require_own_branch
from retcon.flow.cancel import drop_staged
from retcon.flow.context import Context, job_of, target_of
from retcon.flow.cut_off import as_they_are
from retcon.flow.judge_inputs import judge_inputs
from retcon.flow.looks import require_libraries
from retcon.flow.pause import AT_THE_KEYBOARD
from retcon.flow.ports import Progress, Tables
from retcon.flow.rebase import carry_over, content_used
from retcon.flow.standing import known_tables
from retcon.flow.still_fits import require_replaceable, require_unchanged_inputs


@dataclass(frozen=True, kw_only=True)
class _Wave:
    """One wave on its way."""

    planned: PlannedModel
    number: int
    slices: SliceSet
    job: Job
    look_first: bool
    """It may be on the branch already."""
    tries: int = 1


@dataclass(frozen=True, kw_only=True)
class _Outcome:
    staged: StagedWave
    seconds: float
    scanned: Mapping[str, int] | None
    """None: found on the branch, not computed now."""
    tasks: Tasks | None = None


def stage(run: Run, context: Context) -> Run:
    """Bring every wave of the plan onto the run's branches; what is there already is kept."""
    resuming = bool(run.tables)
    if not resuming:
        run = _open_tables(run, context)
    elif run.state is not RunState.STAGING:
        run = context.record(run, Resumed(to=RunState.STAGING))
    for planned in run.plan.models if resuming else ():
        carry_over(run, planned, context)
        require_own_branch(run, planned, context)
    waves_missing = _missing(run, context)
    unstaged = sum(len(slices) for waves in waves_missing.values() for _, slices in waves)
    tally = _Tally(run, context, already=run.plan.slices - unstaged)
    own = {planned.name for planned in run.plan.models}
    # What was pinned anew has to be judged anew.
    judged = own | set(run.pins) if any(table.rebase for table in run.tables.values()) else own
    for planned in run.plan.models:
        run = judge_inputs(run, (planned,), judged, context.snapshots(run), context)
        tally.begin(planned.name)
        missing = _without_kept(run, planned, waves_missing[planned.name], context, tally)
        if missing:
            waves = context.meter.within(_jobs(run, planned, missing, context, look_first=resuming))
            _run_waves(run, context, waves, tally, 1 if planned.order is Order.SEQUENTIAL else context.max_active)
    return context.record(run, StagingDone())


def _without_kept(
    run: Run, planned: PlannedModel, waves: list[tuple[int, SliceSet]], context: Context, tally: _Tally
) -> list[tuple[int, SliceSet]]:
    """What is left to compute of the waves of a model, once all that it reads is staged."""
    pending = SliceSet.of(planned.slices.grain, (slice.ordinal for _, slices in waves for slice in slices))
    kept = as_they_are(run, planned, pending, context)
    if not kept:
        return waves
    context.record(run, SlicesKept(model=planned.name, slices={s.label: held.rows for s, held in kept.items()}))
    tally.keep(planned.name, len(kept))
    rest = pending - SliceSet.of(pending.grain, (slice.ordinal for slice in kept))
    return [(number, slices & rest) for number, slices in waves if slices & rest]


def _jobs(
    run: Run, planned: PlannedModel, waves: Sequence[tuple[int, SliceSet]], context: Context, *, look_first: bool
) -> Iterator[_Wave]:
    """The waves, each made when its turn comes: one that reads its own table sees what is staged by then."""
    snapshots = context.snapshots(run)
    for number, slices in waves:
        if context.model(planned).reads_itself:
            head = context.tables.head(run.plan.place(planned.name), run.plan.branch)
            snapshots = {**snapshots, planned.name: head}
        job = job_of(run, planned, slices, snapshots, context, f"w{number}")
        yield _Wave(planned=planned, number=number, slices=slices, job=_sized(job, context), look_first=look_first)


def _sized(job: Job, context: Context) -> Job:
    total = largest = 0
    kept = (job.carried,) if job.carried is not None and job.carried.snapshot_id is not None else ()
    for read in (*job.all_reads, *kept):
        held = context.contents_of(read)
        if held.told in (Told.NOTHING, Told.UPDATES):
            return job
        total += held.of(read.slices).bytes
        largest += held.largest(read.slices)
    return replace(job, bytes=total, largest=largest)


def _missing(run: Run, context: Context) -> dict[str, list[tuple[int, SliceSet]]]:
    """By model: the waves that aren't done, with those of their slices that aren't staged."""
    done = {(w.model, w.wave) for w in context.ledger.waves(run.id) if w.state is WaveState.DONE}
    staged = {(s.model, s.slice) for s in context.ledger.slices(run.id) if s.state is not SliceState.PENDING}
    return {
        planned.name: [
            (number, SliceSet.of(wave.grain, (s.ordinal for s in wave if (planned.name, s.label) not in staged)))
            for number, wave in enumerate(planned.waves, start=1)
            if (planned.name, number) not in done
        ]
        for planned in run.plan.models
    }


def _open_tables(run: Run, context: Context) -> Run:
    """Pin the inputs, check the schemas, make missing tables, and open a branch on each table of the run."""
    own = {planned.name for planned in run.plan.models}
    read = {i.table for planned in run.plan.models for i in planned.inputs} - own
    pins = {table: facts.snapshot_id for table in sorted(read) if (facts := context.tables.facts(table)) is not None}
    # What was compared when the run was opened may have changed while Spark started; what is pinned is what counts.
    require_unchanged_inputs(run.plan, context.project, context.tables, pins)
    require_libraries((context.model(planned) for planned in run.plan.models), context.warehouse)
    run = judge_inputs(run, run.plan.models, read, pins, context)
    run_ts = context.clock().isoformat()
    tables: list[RunTable] = []
    bases: dict[str, int | None] = {}
    for planned in run.plan.models:
        context.brake.check()
        context.watch(Progress(step="open", model=planned.name))
        table = _open_table(run, planned, {**pins, **bases}, context)
        tables.append(table)
        # Without a snapshot a table is read empty, with the columns that its branch has: enough for the analysis.
        bases[planned.name] = None
    return context.record(run, TablesOpened(tables=tuple(tables), pins=pins, run_ts=run_ts))


def _open_table(run: Run, planned: PlannedModel, snapshots: Mapping[str, int | None], context: Context) -> RunTable:
    model = context.model(planned)
    first = SliceSet(planned.slices.grain, planned.computed.ordinals[:1])
    job = job_of(run, planned, first, snapshots, context, "schema")
    there = context.tables.facts(planned.name)
    if there is not None:
        # As when it was planned: by now it may be another table, or cut otherwise.
        require_adopted(model, there, known_tables(context.ledger, model.name), context.project.env_option)
        if planned.beside is None:
            require_aligned(model, there)
    output = context.warehouse.output(job)
    changes: tuple[SchemaChange, ...] = opened_changes(model, there, output, planned.changes)
    place, facts, properties, replaces = planned.name, there, dict[str, str](), None
    if planned.beside is not None:
        there = require_replaceable(run.id, model.name, planned.beside, there)
        place, facts = planned.beside.table, None
        properties = carried_properties(there, (column.name for column in output))
        replaces = _replaced(run, model.name, planned.beside, there, context.tables)
    if facts is None:
        context.warehouse.make_table(job, place, run.id, properties)
        facts = context.tables.facts(place)
        changes = () if facts is None else comments_for(model, facts)
    if facts is not None and changes:
        # Once more after a crash, the table has them already and nothing is left to change.
        context.warehouse.change_columns(job, place, changes)
        facts = context.tables.facts(place)
    if facts is None:
        raise Fault(f"{place} was made, but the catalog doesn't show it", state="nothing was staged")
    tables = ((i.table, context.tables.facts(run.plan.place(i.table))) for i in model.inputs)
    read = {table: found for table, found in tables if found is not None}
    require_same_hashes(model, {**read, model.name: facts})
    require_hours_as_planned(run.id, model, planned, read)
    # A branch from before a crash holds nothing yet, and main may have moved since: begin it anew.
    context.tables.drop_branch(place, run.plan.branch)
    context.warehouse.open_branch(place, run.plan.branch, facts.snapshot_id)
    return RunTable(
        table=planned.name,
        uuid=facts.uuid,
        schema_id=facts.schema_id,
        spec_id=facts.spec_id,
        base_snapshot=facts.snapshot_id,
        made=facts.properties.get("retcon.made_by") == run.id,
        replaces=replaces,
        content=content_used(run.plan, planned, facts.snapshot_id, context) if planned.beside is None else "",
    )


def _replaced(run: Run, model: str, beside: Beside, there: TableFacts, tables: Tables) -> Replaced:
    """The table that another will take the place of; what a crash left of that one is gone."""
    # Nothing is staged in it yet, and its inputs may have other columns by now.
    drop_staged(beside.table, run, tables)
    if tables.facts(beside.table) is not None:
        raise Refused(
            f"{model} can't be built beside: there is a table {beside.table} already",
            state="nothing was staged; production is untouched",
            next=f"`retcon plan --refresh {run.id}` plans it under another name",
        )
    return Replaced(
        beside=beside.table,
        uuid=there.uuid,
        schema_id=there.schema_id,
        spec_id=there.spec_id,
        snapshot_id=there.snapshot_id,
    )


class _Tally:
    """Counts what is done, and tells whoever watches."""

    def __init__(self, run: Run, context: Context, already: int) -> None:
        self._context = context
        self._total = run.plan.slices
        self.slices = already
        self.rows = 0

    def begin(self, model: str) -> None:
        self._tell(model)

    def add(self, model: str, outcome: _Outcome) -> None:
        self.slices += len(outcome.staged.slices)
        self.rows += sum(slice.rows for slice in outcome.staged.slices)
        self._tell(model)

    def keep(self, model: str, slices: int) -> None:
        self.slices += slices
        self._tell(model)

    def wait(self, wave: _Wave, seconds: float) -> None:
        note = f"wave {wave.number} failed: try {wave.tries} of {TRIES} in {seconds:.0f} s"
        self._tell(wave.planned.name, note)

    def _tell(self, model: str, note: str = "") -> None:
        progress = Progress(step="stage", model=model, done=self.slices, total=self._total, rows=self.rows, note=note)
        self._context.watch(progress)


def _run_waves(run: Run, context: Context, waves: Iterator[_Wave], tally: _Tally, at_once: int) -> None:
    """In their order, some at once; each is recorded as soon as it is on the branch."""
    pool = ThreadPoolExecutor(max_workers=at_once, thread_name_prefix="wave")
    running: dict[Future[_Outcome], _Wave] = {}
    failed: list[tuple[float, _Wave]] = []
    """With the moment of their next try; until then each keeps its place."""
    try:
        while True:
            # Before anything is settled: what the brake broke isn't the wave's failure.
            context.brake.check()
            for future in [future for future in running if future.done()]:
                again = _settle(run, context, running.pop(future), future, tally)
                if again is not None:
                    seconds = context.backoff(again.tries - 1)
                    failed.append((monotonic() + seconds, again))
                    tally.wait(again, seconds)
            now = monotonic()
            due = [wave for at, wave in failed if at <= now]
            failed = [(at, wave) for at, wave in failed if at > now]
            for wave in (*due, *islice(waves, at_once - len(running) - len(failed) - len(due))):
                running[pool.submit(_stage_wave, run, context, wave)] = wave
            if not running and not failed:
                break
            until = max(0.0, min(at for at, _ in failed) - monotonic()) if failed else None
            wait([*running, context.brake.pulled], timeout=until, return_when=FIRST_COMPLETED)
    except (KeyboardInterrupt, Stopped):
        context.brake.pull(AT_THE_KEYBOARD, context.warehouse.interrupt)
        _let_finish(run, context, running, tally)
        raise
    except Exception:
        _let_finish(run, context, running, tally)
        raise
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _stage_wave(run: Run, context: Context, wave: _Wave) -> _Outcome:
    target = target_of(run, wave.planned, wave.number)
    by = wave.job.model.slicing.by
    began = monotonic()
    if wave.look_first:
        # Committed before a crash, or a failure, that came before the ledger knew: not computed again.
        found = context.tables.find_wave(target, wave.slices, by)
        if found is not None:
            return _Outcome(staged=found, seconds=0.0, scanned=None)
    scanned = context.warehouse.stage(wave.job, target)
    staged = context.tables.find_wave(target, wave.slices, by)
    if staged is None:
        raise Fault(
            f"{wave.planned.name}, {wave.slices.text}: written, but its commit isn't on the branch",
            state="production is untouched",
            next=f"`retcon apply {run.id}` stages it again",
            retryable=True,
        )
    seconds = monotonic() - began
    return _Outcome(staged=staged, seconds=seconds, scanned=scanned, tasks=context.warehouse.tasks(wave.job.name))


def _settle(run: Run, context: Context, wave: _Wave, future: Future[_Outcome], tally: _Tally) -> _Wave | None:
    """Record how a wave ended; the wave again, where another try may help."""
    try:
        outcome = future.result()
    except RetconError as error:
        context.record(run, WaveFailed(model=wave.planned.name, wave=wave.number, error=error.message))
        if not is_worth_another_try(error, wave.tries):
            raise
        # Its commit may have got through though its answer didn't.
        return replace(wave, tries=wave.tries + 1, look_first=True)
    except Exception as error:
        message = f"{wave.planned.name}, {wave.slices.text}: {type(error).__name__}: {error}"[:500]
        context.record(run, WaveFailed(model=wave.planned.name, wave=wave.number, error=message))
        raise Fault(
            message,
            state="this wave was not staged; waves already staged are kept; production is untouched",
            next=f"`retcon apply {run.id}` goes on with what is missing",
        ) from error
    context.record(
        run,
        WaveStaged(
            model=wave.planned.name,
            wave=wave.number,
            snapshot_id=outcome.staged.snapshot_id,
            slices=outcome.staged.slices,
            seconds=round(outcome.seconds, 3),
            scans=_evidence(context, wave, outcome.scanned),
            adopted=outcome.scanned is None,
            bytes=wave.job.bytes,
            tasks=outcome.tasks,
        ),
    )
    tally.add(wave.planned.name, outcome)
    return None


def _let_finish(run: Run, context: Context, running: dict[Future[_Outcome], _Wave], tally: _Tally) -> None:
    """What still got onto its branch is recorded, so that it needn't be computed again."""
    for future, wave in running.items():
        future.cancel()
        if not future.cancelled() and future.exception() is None:
            _settle(run, context, wave, future, tally)


def _evidence(context: Context, wave: _Wave, scanned: Mapping[str, int] | None) -> tuple[ScanEvidence, ...]:
    """What Spark read, against what was in scope."""
    if scanned is None:
        return ()
    evidence: dict[str, ScanEvidence] = {}
    for read in wave.job.all_reads:
        held = context.contents_of(read)
        if held.told is not Told.ROWS or read.table not in scanned:
            continue  # Spark's metrics don't say which of them a scan of files was of, or came too late
        before = evidence.get(read.table)
        evidence[read.table] = ScanEvidence(
            input=read.table,
            scanned_files=scanned[read.table],
            scope_files=held.of(read.slices).files + (before.scope_files if before else 0),
            table_files=held.of(None).files + (before.table_files if before else 0),
        )
    return tuple(evidence.values())
