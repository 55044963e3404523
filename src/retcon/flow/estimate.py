"""Estimate: how long a plan will take, from the waves of earlier runs, or from a few slices that are tried for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from retcon.core.estimates import Estimate, Learned, RunSample, Share, WaveSample, estimated
from retcon.core.jobs import Job
from retcon.core.models import Model, Strategy
from retcon.core.plans import Origin, Plan, PlannedModel
from retcon.core.reads import Read
from retcon.core.runs import Run
from retcon.core.slices import SliceSet
from retcon.core.tables import Told
from retcon.core.timings import TimedWave, run_sample, timing_of, wave_sample
from retcon.flow.context import read_as_planned
from retcon.flow.moves import job_now
from retcon.flow.ports import Progress, Trial, Watch
from retcon.flow.records import Records
from retcon.flow.worlds import world_of

_RUNS = 10
"""Of each model, the newest: what was long ago may have been another machine."""


@dataclass(frozen=True, kw_only=True)
class Canary:
    """A few slices of each model, computed and not written."""

    slices: int
    trial: Trial
    watch: Watch
    now: datetime


@dataclass(kw_only=True)
class Estimator:
    """Knows what earlier runs took."""

    records: Records
    cores: int | None
    """That the next run will have, as far as settings tell."""

    def estimate(self, plan: Plan) -> Estimate:
        """From earlier runs; reads the ledger and metadata alone."""
        return self._estimated(plan, self._learned(plan))

    def tried(self, plan: Plan, canary: Canary, starting: float | None) -> Estimate:
        """From slices that are computed now: this starts Spark."""
        samples = {planned.name: self._try(planned, canary) for planned in plan.models}
        learned = self._learned(plan)
        # Before any run was seen, how long Spark takes to start is known from this very start.
        runs = learned.runs or (RunSample(starting=starting, staging=0.0, rest=0.0),)
        known = {name: found for name, found in samples.items() if found}
        return self._estimated(plan, replace(learned, waves=known, runs=runs, canary=canary.slices))

    def _estimated(self, plan: Plan, learned: Learned) -> Estimate:
        shares = [self._share(planned) for planned in plan.models]
        return estimated(shares, learned, self.records.project.settings.cost)

    def _learned(self, plan: Plan) -> Learned:
        waves: dict[str, list[WaveSample]] = {}
        whole: dict[str, RunSample] = {}
        cores: list[int] = []
        seen: dict[str, Run] = {}
        for planned in plan.models:
            seen |= {run.id: run for run in self.records.ledger.runs(model=planned.name, limit=_RUNS)}
        for run in sorted(seen.values(), key=lambda run: run.created):
            timing = timing_of(self.records.ledger.events(run.id))
            for wave in timing.waves:
                waves.setdefault(wave.model, []).append(wave_sample(wave, run.id))
            sample = run_sample(timing)
            if sample is not None:
                whole[run.id] = sample
            cores += [turn.cores for turn in timing.turns if turn.cores is not None]
        known = self.cores if self.cores is not None else (cores[-1] if cores else None)
        return Learned(waves=waves, runs=tuple(whole.values()), cores=known)

    def _share(self, planned: PlannedModel) -> Share:
        return Share(
            model=planned.name,
            waves=len(planned.waves),
            slices=len(planned.slices),
            bytes=self._bytes(planned, planned.waves),
        )

    def _bytes(self, planned: PlannedModel, waves: Sequence[SliceSet]) -> int | None:
        """What waves read together, as it is counted when they are staged; None where that can't be told yet."""
        if any(i.bytes is None or (i.origin is Origin.RUN and not i.files) for i in planned.inputs):
            return None
        model = self.records.project.graph.model(planned.name)
        sizes = [self._size(read) for wave in waves for read in self._reads(model, planned, wave)]
        return None if None in sizes else sum(size for size in sizes if size is not None)

    def _reads(self, model: Model, planned: PlannedModel, wave: SliceSet) -> list[Read]:
        snapshots = {i.table: i.snapshot_id for i in planned.inputs}
        computed = wave & planned.computed
        reads = (
            [read_as_planned(i, planned.input(i.name), computed, snapshots) for i in model.inputs] if computed else []
        )
        there = (
            self.records.tables.facts(planned.name) if model.strategy is Strategy.MERGE or planned.is_keyed else None
        )
        if there is not None and there.snapshot_id is not None:
            by = model.slicing.by
            kept = Read(table=planned.name, snapshot_id=there.snapshot_id, by=by, slices=None if by is None else wave)
            reads.append(kept)
        return reads

    def _size(self, read: Read) -> int | None:
        held = self.records.contents_of(read)
        return None if held.told in (Told.NOTHING, Told.UPDATES) else held.of(read.slices).bytes

    # ── canaries ──────────────────────────────────────────────────────────────────────────────────────────────────

    def _try(self, planned: PlannedModel, canary: Canary) -> list[WaveSample]:
        """Nothing where what it reads is made by the same plan, and isn't there yet."""
        if any(i.origin is Origin.RUN and not i.files for i in planned.inputs):
            return []
        drawn = spread_out(planned.computed, canary.slices)
        found: list[WaveSample] = []
        for slice in drawn:
            alone = SliceSet(drawn.grain, (slice.ordinal,))
            job = self._job(planned, alone, canary.now)
            canary.watch(Progress(step="canary", model=planned.name, done=len(found), total=len(drawn)))
            if not found:
                # The first time a query is run, it is compiled: that isn't paid by every slice.
                canary.trial(job)
            tried = canary.trial(job)
            wave = TimedWave(
                model=planned.name,
                wave=0,
                slices=1,
                seconds=tried.seconds,
                at_once=1,
                cores=self.cores,
                bytes=self._bytes(planned, (alone,)),
                written_bytes=0,
                tasks=tried.tasks,
            )
            found.append(wave_sample(wave))
        canary.watch(Progress(step="canary", model=planned.name, done=len(found), total=len(drawn)))
        return found

    def _job(self, planned: PlannedModel, slices: SliceSet, now: datetime) -> Job:
        project = self.records.project
        model = project.graph.model(planned.name)
        world = world_of(project, self.records.tables, self.records.ledger, (planned.name,))
        return job_now(model, replace(planned, slices=slices), world, project.settings.params, now)


def spread_out(slices: SliceSet, most: int) -> SliceSet:
    """Some of these slices, as far from one another and from both ends as they can be."""
    held = slices.ordinals
    if len(held) <= most:
        return slices
    return SliceSet(slices.grain, tuple(held[(2 * at + 1) * len(held) // (2 * most)] for at in range(most)))
