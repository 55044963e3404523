"""Statuses: what is published of each model, and how far runs are. From the ledger alone."""

from __future__ import annotations

from collections.abc import Sequence

from retcon.core.projects import Project
from retcon.core.runs import Run
from retcon.core.slices import SliceSet
from retcon.flow.ports import Questions
from retcon.values import dataclass


@dataclass(frozen=True, kw_only=True)
class RunProgress:
    """How much of a run is staged."""

    run: Run
    slices: int
    done: int
    empty: int
    rows: int


@dataclass(frozen=True, kw_only=True)
class ModelStatus:
    """What readers of a table want to know."""

    model: str
    published: Run | None
    """The newest publish that stands."""
    slices: SliceSet
    """Every slice that is published."""
    unknown: SliceSet
    """Those that were there when the table was adopted, and weren't restated since."""
    rows: int
    in_flight: tuple[RunProgress, ...]


class Statuses:
    """Tells where models and runs stand."""

    def __init__(self, project: Project, ledger: Questions) -> None:
        self._project = project
        self._ledger = ledger

    def status(self, select: tuple[str, ...] = ()) -> list[ModelStatus]:
        """Per model: what is published, and what is under way."""
        names = self._project.graph.select(select)
        last = self._ledger.last_published(names)
        flying = self.progress(self._ledger.unfinished_runs())
        return [self._status(name, last.get(name), flying) for name in names]

    def history(self, model: str | None, limit: int | None) -> list[RunProgress]:
        """Runs, newest first."""
        if model is not None:
            return self.progress(self._ledger.runs(model=self._project.graph.model(model).name, limit=limit))
        own = [run for run in self._ledger.runs() if run.plan.environment == self._project.environment]
        return self.progress(own[:limit])

    def progress(self, runs: Sequence[Run]) -> list[RunProgress]:
        tallies = self._ledger.tallies([run.id for run in runs])
        return [
            RunProgress(
                run=run,
                slices=run.plan.slices,
                done=tallies[run.id].staged,
                empty=tallies[run.id].empty,
                rows=tallies[run.id].rows,
            )
            for run in runs
        ]

    def _status(self, name: str, last: Run | None, flying: list[RunProgress]) -> ModelStatus:
        grain = self._project.graph.models[name].grain
        adoption = self._ledger.adoption(name)
        slices = SliceSet.labelled(grain, published := self._ledger.published_slices(name))
        unknown = SliceSet.labelled(grain, self._ledger.unmeasured_slices(name))
        if adoption is not None and adoption.slices.grain == grain:
            unknown |= adoption.slices - slices
        return ModelStatus(
            model=name,
            published=last,
            slices=slices,
            unknown=unknown,
            rows=sum(published[slice.label].rows for slice in slices),
            in_flight=tuple(progress for progress in flying if progress.run.plan.model(name) is not None),
        )
