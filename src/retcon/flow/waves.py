"""Waves on their way: which run at once, which are tried again, and what of them is recorded."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import replace
from time import monotonic

from retcon.core.events import WaveFailed, WaveStaged
from retcon.core.jobs import Job, Scanned, StagedWave
from retcon.core.plans import PlannedModel
from retcon.core.retries import TRIES, is_worth_another_try
from retcon.core.runs import Run, ScanEvidence
from retcon.core.slices import SliceSet
from retcon.core.tables import Told
from retcon.core.tasks import Tasks
from retcon.errors import Fault, RetconError
from retcon.flow.brakes import Stopped
from retcon.flow.context import Context, target_of
from retcon.flow.pause import AT_THE_KEYBOARD
from retcon.flow.ports import Progress
from retcon.values import dataclass


@dataclass(frozen=True, kw_only=True)
class Wave:
    """One wave on its way."""

    planned: PlannedModel
    number: int
    slices: SliceSet
    job: Job
    look_first: bool
    """It may be on the branch already."""
    tries: int = 1


@dataclass(frozen=True, kw_only=True)
class Outcome:
    staged: StagedWave
    seconds: float
    scanned: Mapping[str, Scanned] | None
    """None: found on the branch, not computed now."""
    tasks: Tasks | None = None


class Tally:
    """Counts what is done, and tells whoever watches."""

    def __init__(self, run: Run, context: Context, already: int) -> None:
        self._context = context
        self._total = run.plan.slices
        self.slices = already
        self.rows = 0

    def begin(self, model: str) -> None:
        self._tell(model)

    def add(self, model: str, outcome: Outcome) -> None:
        self.slices += len(outcome.staged.slices)
        self.rows += sum(slice.rows for slice in outcome.staged.slices)
        self._tell(model)

    def keep(self, model: str, slices: int) -> None:
        self.slices += slices
        self._tell(model)

    def wait(self, wave: Wave, seconds: float) -> None:
        note = f"wave {wave.number} failed: try {wave.tries} of {TRIES} in {seconds:.0f} s"
        self._tell(wave.planned.name, note)

    def _tell(self, model: str, note: str = "") -> None:
        progress = Progress(step="stage", model=model, done=self.slices, total=self._total, rows=self.rows, note=note)
        self._context.watch(progress)


class Line:
    """The waves of one model: which of them come next, how many at once, and which of them are tried again later."""

    def __init__(self, *, waves: Iterator[Wave], at_once: int) -> None:
        self._waves = waves
        self._at_once = at_once
        self._running = 0
        self._failed: list[tuple[float, Wave]] = []
        self._is_used_up = False

    @property
    def under_way(self) -> int:
        """Waves that run, or wait for another try: until then each keeps its place."""
        return self._running + len(self._failed)

    @property
    def is_done(self) -> bool:
        return self._is_used_up and not self.under_way

    @property
    def next_try(self) -> float | None:
        """The moment of the next one that is due."""
        return min((at for at, _ in self._failed), default=None)

    def due(self, now: float, places: int) -> Iterator[Wave]:
        """Those to start now: what failed and has waited long enough, then new ones while there are places."""
        again = [wave for at, wave in self._failed if at <= now]
        self._failed = [(at, wave) for at, wave in self._failed if at > now]
        self._running += len(again)
        yield from again
        while places > 0 and self.under_way < self._at_once and not self._is_used_up:
            wave = next(self._waves, None)
            if wave is None:
                self._is_used_up = True
            else:
                places -= 1
                self._running += 1
                yield wave

    def settled(self, again: Wave | None, at: float) -> None:
        """One ended; it may be tried again at that moment."""
        self._running -= 1
        if again is not None:
            self._failed.append((at, again))


def run_waves(run: Run, begun: Callable[[PlannedModel], Line], tally: Tally, context: Context) -> None:
    """Every model's waves in their order, some at once, those of a model from when all that it reads is staged. Each is
    recorded as soon as it is on its branch.
    """
    own = {planned.name for planned in run.plan.models}
    waiting = {planned.name: context.project.graph.parents(planned.name) & own for planned in run.plan.models}
    lines: dict[str, Line] = {}
    pool = ThreadPoolExecutor(max_workers=context.max_active, thread_name_prefix="wave")
    running: dict[Future[Outcome], Wave] = {}
    try:
        while True:
            # Before anything is settled: what the brake broke isn't the wave's failure.
            context.brake.check()
            for future in [future for future in running if future.done()]:
                wave = running.pop(future)
                again = _settle(run, context, wave, future, tally)
                seconds = 0.0 if again is None else context.backoff(again.tries - 1)
                lines[wave.planned.name].settled(again, monotonic() + seconds)
                if again is not None:
                    tally.wait(again, seconds)
            has_ended = False
            for planned in run.plan.models:
                # In the plan's order, so that what is read comes before its readers, as a rule: `after` may have
                # been edited since.
                if planned.name not in lines and not waiting[planned.name]:
                    lines[planned.name] = begun(planned)
                line = lines.get(planned.name)
                if line is None:
                    continue
                places = context.max_active - sum(each.under_way for each in lines.values())
                for wave in line.due(monotonic(), places):
                    running[pool.submit(_stage_wave, run, context, wave)] = wave
                if line.is_done:
                    has_ended |= any(planned.name in others for others in waiting.values())
                    for others in waiting.values():
                        others.discard(planned.name)
            if has_ended:
                continue  # with what waited for it
            if len(lines) == len(own) and all(line.is_done for line in lines.values()):
                break
            tries = [at for line in lines.values() if (at := line.next_try) is not None]
            until = max(0.0, min(tries) - monotonic()) if tries else None
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


def _stage_wave(run: Run, context: Context, wave: Wave) -> Outcome:
    target = target_of(run, wave.planned, wave.number)
    by = wave.job.model.slicing.by
    began = monotonic()
    if wave.look_first:
        # Committed before a crash, or a failure, that came before the ledger knew: not computed again.
        found = context.tables.find_wave(target, wave.slices, by)
        if found is not None:
            return Outcome(staged=found, seconds=0.0, scanned=None)
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
    return Outcome(staged=staged, seconds=seconds, scanned=scanned, tasks=context.warehouse.tasks(wave.job.name))


def _settle(run: Run, context: Context, wave: Wave, future: Future[Outcome], tally: Tally) -> Wave | None:
    """Record how a wave ended; the wave again, where another try may help."""
    try:
        outcome = future.result()
    except RetconError as error:
        context.record(run, WaveFailed(model=wave.planned.name, wave=wave.number, error=error.recorded))
        if not is_worth_another_try(error, wave.tries):
            raise
        # Its commit may have got through though its answer didn't.
        return replace(wave, tries=wave.tries + 1, look_first=True)
    except Exception as error:
        what = f"{wave.planned.name}, {wave.slices.text}: {type(error).__name__}"
        context.record(run, WaveFailed(model=wave.planned.name, wave=wave.number, error=what))
        raise Fault(
            f"{what}: {error}"[:500],
            state="this wave was not staged; waves already staged are kept; production is untouched",
            next=f"`retcon apply {run.id}` goes on with what is missing",
            recorded=what,
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


def _let_finish(run: Run, context: Context, running: dict[Future[Outcome], Wave], tally: Tally) -> None:
    """What still got onto its branch is recorded, so that it needn't be computed again."""
    for future, wave in running.items():
        future.cancel()
        if not future.cancelled() and future.exception() is None:
            _settle(run, context, wave, future, tally)


def _evidence(context: Context, wave: Wave, scanned: Mapping[str, Scanned] | None) -> tuple[ScanEvidence, ...]:
    """What Spark read, against what was in scope."""
    if scanned is None:
        return ()
    evidence: dict[str, ScanEvidence] = {}
    for read in wave.job.all_reads:
        held = context.contents_of(read)
        if held.told is not Told.ROWS or read.table not in scanned or read.is_kept:
            continue  # Spark's metrics don't say which of them a scan of files was of, or came too late
        before = evidence.get(read.table)
        scope, seen = held.of(read.slices), scanned[read.table]
        evidence[read.table] = ScanEvidence(
            input=read.table,
            scanned_files=seen.files,
            scope_files=scope.files + (before.scope_files if before else 0),
            table_files=held.of(None).files + (before.table_files if before else 0),
            scanned_bytes=seen.bytes,
            scope_bytes=scope.bytes + ((before.scope_bytes or 0) if before else 0),
        )
    return tuple(evidence.values())
