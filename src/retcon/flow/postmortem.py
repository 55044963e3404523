"""Post-mortem: how drift came in, what it did to the figures, and what repairs it. From the ledger and metadata."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime

from retcon.core.drifts import InputDrift
from retcon.core.models import Model
from retcon.core.projects import Project
from retcon.core.runs import Run, RunState
from retcon.core.slices import SliceSet
from retcon.errors import Refused
from retcon.flow.detect import Detective
from retcon.flow.find import Finder
from retcon.flow.ports import Ledger
from retcon.flow.tell import DiffReport, ModelDiff, Teller
from retcon.values import dataclass


@dataclass(frozen=True, kw_only=True)
class PostMortem:
    """What is on record of a drift, or of what a run corrected."""

    model: str
    written: datetime
    slices: SliceSet
    """That weren't, or aren't, what their inputs hold; of a run, those that it changed."""
    inputs: tuple[InputDrift, ...]
    is_corrected: bool
    """It is about what a run corrected, or would; else about what is there now."""
    run: Run | None
    """The one that repairs it."""
    diff: ModelDiff | None
    """What that run measured in these slices; None: nothing yet."""
    others: tuple[ModelDiff, ...]
    """Of models that this run restates along with it."""
    readers: tuple[str, ...]
    """Models that are computed from this one, directly or not."""
    consumers: tuple[str, ...]


class Coroner:
    """Gathers what is known."""

    def __init__(self, project: Project, ledger: Ledger, finder: Finder, detective: Detective, teller: Teller) -> None:
        self._project = project
        self._ledger = ledger
        self._finder = finder
        self._detective = detective
        self._teller = teller

    def of_drift(self, model: Model, now: datetime) -> PostMortem:
        """What watermarks have passed by and is there now; without slices where there is none."""
        [drift] = self._detective.look((model.name,), now)
        run = self._repairing(model, drift.slices) if drift.slices else None
        return self._written(model, now, drift.slices, drift.inputs, run, is_corrected=False)

    def of_run(self, model: Model, run: Run, now: datetime) -> PostMortem:
        """What a run corrected in a model, or would if it were published."""
        planned = run.plan.model(model.name)
        if planned is None:
            raise Refused(
                f"run {run.id} doesn't restate {model.name}", next=f"`retcon show {run.id}` tells what it does"
            )
        diff = _diff_of(self._teller.diff(run), model.name)
        changed = SliceSet.labelled(
            model.grain, (each.slice for each in diff.slices if not each.same_content) if diff is not None else ()
        )
        inputs = self._consumed_anew(model, run, changed, now)
        return self._written(model, now, changed, inputs, run, is_corrected=True)

    def _consumed_anew(self, model: Model, run: Run, slices: SliceSet, now: datetime) -> tuple[InputDrift, ...]:
        """What the run brought in that the publish before it hadn't read."""
        before = self._ledger.consumption_before(run.id, model.name)
        rebuilt = SliceSet.labelled(model.grain, (slice.label for slice in slices if slice.label in before))
        read = {each.table: each.snapshot_id for each in self._ledger.consumption(run.id)} or dict(run.pins)
        nothing = SliceSet(model.grain)
        [compared] = self._finder.compared((model.name,), now)
        found: list[InputDrift] = []
        for by in compared.inputs:
            arrivals, is_known = self._detective.brought(by, rebuilt, before, read.get(by.input.table))
            # A movement of this run, or one that came after it, passed nothing by.
            until = run.published
            mine = tuple(
                replace(each, passed_by=None)
                if each.passed_by is not None
                and (each.passed_by.run == run.id or (until is not None and each.passed_by.at >= until))
                else each
                for each in arrivals
            )
            reached = nothing
            for each in mine:
                reached |= each.slices
            found.append(
                InputDrift(
                    input=by.input.name,
                    table=by.input.table,
                    slices=reached,
                    arrivals=mine,
                    is_history_known=is_known,
                    not_loaded_yet=nothing,
                    untold=nothing,
                )
            )
        return tuple(found)

    def _repairing(self, model: Model, slices: SliceSet) -> Run | None:
        """The newest run under way that restates some of these slices."""
        for run in self._ledger.runs(model=model.name):
            planned = run.plan.model(model.name)
            if not run.state.is_over and planned is not None and planned.slices & slices:
                return run
        return None

    def _written(
        self,
        model: Model,
        now: datetime,
        slices: SliceSet,
        inputs: tuple[InputDrift, ...],
        run: Run | None,
        *,
        is_corrected: bool,
    ) -> PostMortem:
        graph = self._project.graph
        below = graph.descendants(model.name)
        readers = tuple(name for name in graph.order if name in below)
        measured = self._measured(run)
        own = _diff_of(measured, model.name) if measured is not None else None
        labels = {slice.label for slice in slices}
        named: Mapping[str, None] = dict.fromkeys(
            name for each in (model.name, *readers) for name in graph.models[each].consumers
        )
        return PostMortem(
            model=model.name,
            written=now,
            slices=slices,
            inputs=tuple(each for each in inputs if each.slices),
            is_corrected=is_corrected,
            run=run,
            diff=own and replace(own, slices=tuple(each for each in own.slices if each.slice in labels)),
            others=tuple(each for each in measured.models if each.model in below) if measured is not None else (),
            readers=readers,
            consumers=tuple(named),
        )

    def _measured(self, run: Run | None) -> DiffReport | None:
        if run is None or run.state in (RunState.PLANNED, RunState.STAGING):
            return None
        try:
            return self._teller.diff(run)
        except Refused:
            return None  # nothing was measured yet


def _diff_of(report: DiffReport, model: str) -> ModelDiff | None:
    return next((each for each in report.models if each.model == model), None)
