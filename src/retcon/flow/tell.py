"""Tell: what was done, to which slices, and what moved. Reads the ledger; starts nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any

from retcon.core.certificates import TableCertificate
from retcon.core.chains import RecordedEvent, first_broken_link
from retcon.core.estimates import Price
from retcon.core.events import ApplyBegan, Certified, CheckedAfter, Rebased, Rebuilt, Reproduced, SampleChecked
from retcon.core.expectations import EXPECT, Expectation, named
from retcon.core.gates import Drift, Verdict, relative_change
from retcon.core.models import Model
from retcon.core.plans import tag_before
from retcon.core.projects import Project
from retcon.core.runs import PublishedSlice, RecordedSlice, RecordedVerdict, RecordedWave, Run, RunState, RunTable
from retcon.core.slices import SliceSet
from retcon.core.suggestions import did_you_mean
from retcon.core.sums import sum_of
from retcon.core.timings import Timing, timing_of
from retcon.errors import Refused
from retcon.flow.follow_up import certificates_in, verdicts_in
from retcon.flow.ports import Ledger
from retcon.flow.rollback import retention_days, rollback_until
from retcon.flow.statuses import ModelStatus, RunProgress, Statuses
from retcon.values import dataclass


@dataclass(frozen=True, kw_only=True)
class Change:
    """One number before and after."""

    old: Decimal | None
    new: Decimal | None

    @property
    def relative(self) -> Decimal | None:
        """None where there is no old value to compare with: it is new."""
        return relative_change(self.old, self.new)


@dataclass(frozen=True, kw_only=True)
class SliceDiff:
    slice: str
    rows: Change
    metrics: Mapping[str, Change]
    same_content: bool


@dataclass(frozen=True, kw_only=True)
class ModelDiff:
    model: str
    rows: Change
    totals: Mapping[str, Change]
    slices: tuple[SliceDiff, ...]

    @property
    def changed(self) -> int:
        return sum(not slice.same_content for slice in self.slices)


@dataclass(frozen=True, kw_only=True)
class DiffReport:
    """Old against new, from the measures that were recorded when the run was proven."""

    run: Run
    models: tuple[ModelDiff, ...]

    @property
    def is_published(self) -> bool:
        return self.run.state in (RunState.PUBLISHED, RunState.ROLLED_BACK)


@dataclass(frozen=True, kw_only=True)
class EnvironmentDiff:
    """Production against an environment, from the measures that were recorded when each slice was published."""

    environment: str
    model: ModelDiff
    """In the slices that both have: production is old, the environment is new."""
    only_production: SliceSet
    only_environment: SliceSet
    same_code: bool
    """The newest publish of both was of the same code of this model and the same settings."""

    @property
    def is_same(self) -> bool:
        return not (self.model.changed or self.only_production or self.only_environment)


@dataclass(frozen=True, kw_only=True)
class RebaseReport:
    """One round in which others had written to what a run uses."""

    round: int
    at: str
    slices: Mapping[str, SliceSet]
    """By model: staged anew."""
    commits: Mapping[str, tuple[str, ...]]
    replaced: Mapping[str, SliceSet]
    """By model: slices with rows of others that come from none of its inputs."""


@dataclass(frozen=True, kw_only=True)
class AfterReport:
    """The gates on what production shows after a publish."""

    at: str
    verdicts: tuple[Verdict, ...]
    """Judged again."""
    held: int
    """Verdicts that stand, since the very files that they were passed on are published."""
    unjudged: Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class RunReport:
    """Everything about one run."""

    run: Run
    progress: RunProgress
    waves: tuple[RecordedWave, ...]
    slices: tuple[RecordedSlice, ...]
    verdicts: tuple[RecordedVerdict, ...]
    events: tuple[RecordedEvent, ...]
    broken_link: int | None
    """The first event whose hash doesn't fit; None for a sound record."""
    rollback_until: datetime | None
    old_version: str | None
    """The tag under which the version from before is readable."""
    code: Mapping[str, str]
    asked: str | None = None
    """What a REST catalog was asked for, where its answer isn't recorded yet."""
    price: Price | None = None
    """What a core hour cost when it was planned, else what it costs now."""

    @property
    def timing(self) -> Timing:
        """Where its time went."""
        return timing_of(self.events, self.run.plan.planned_in)

    @property
    def old_versions(self) -> tuple[str, ...]:
        """From where the version from before is selected, table by table."""
        changed = self.run.as_published.plan.models
        tables = [self.run.tables[p.name] for p in changed if p.name in self.run.tables]
        return tuple(place for table in tables if (place := self._old_version(table)) is not None)

    def _old_version(self, table: RunTable) -> str | None:
        if table.replaces is not None:
            # After a rollback the two have changed places again.
            return table.replaces.beside if self.run.state is RunState.PUBLISHED else None
        is_tagged = self.old_version is not None and table.base_snapshot is not None
        return f"{table.table} VERSION AS OF '{self.old_version}'" if is_tagged else None

    @property
    def parameters(self) -> Mapping[str, Any]:
        """The project's `params` as they were when the run was opened."""
        return self.events[0].body.get("parameters", {}) if self.events else {}

    @property
    def certificates(self) -> tuple[TableCertificate, ...]:
        """What the publish did to each table that it wrote; none where that wasn't told."""
        made = [event for event in self.events if event.kind == Certified.__name__]
        return certificates_in(made[-1].body) if made else ()

    @property
    def after(self) -> AfterReport | None:
        """The gates on production; None where they weren't judged there."""
        made = [event for event in self.events if event.kind == CheckedAfter.__name__]
        if not made:
            return None
        body = made[-1].body
        return AfterReport(
            at=made[-1].at,
            verdicts=verdicts_in(body),
            held=sum(len(gates) for gates in body["held"].values()),
            unjudged=body["unjudged"],
        )

    @property
    def expectations(self) -> tuple[tuple[Expectation, RecordedVerdict | None], ...]:
        """What the plan expects, each with the verdict on it, where there is one."""
        verdicts = {(v.verdict.model, v.verdict.gate): v for v in self.verdicts if v.verdict.kind == EXPECT}
        plan = self.run.plan
        by_name = ((name, each) for model in plan.models for name, each in named(plan.expect, model.name).items())
        return tuple((each, verdicts.get((each.model, name))) for name, each in by_name)

    @property
    def applied(self) -> tuple[RecordedEvent, ...]:
        """How each call of `apply` ran it."""
        return tuple(event for event in self.events if event.kind == ApplyBegan.__name__)

    @property
    def reproduced(self) -> tuple[RecordedEvent, ...]:
        """When its slices were computed once more."""
        return tuple(event for event in self.events if event.kind == Reproduced.__name__)

    @property
    def checked(self) -> tuple[RecordedEvent, ...]:
        """When somebody looked at rows by hand."""
        return tuple(event for event in self.events if event.kind == SampleChecked.__name__)

    @property
    def rebuilt(self) -> tuple[RecordedEvent, ...]:
        """When `doctor` recorded what the tables knew of it."""
        return tuple(event for event in self.events if event.kind == Rebuilt.__name__)

    @property
    def rebases(self) -> tuple[RebaseReport, ...]:
        """When and why slices were staged anew."""
        grains = {planned.name: planned.slices.grain for planned in self.run.plan.models}
        return tuple(
            RebaseReport(
                round=event.body["round"],
                at=event.at,
                slices={m: SliceSet.labelled(grains[m], labels) for m, labels in event.body["slices"].items()},
                commits={table: tuple(texts) for table, texts in event.body["commits"].items()},
                replaced={m: SliceSet.labelled(grains[m], labels) for m, labels in event.body["replaced"].items()},
            )
            for event in self.events
            if event.kind == Rebased.__name__
        )


@dataclass(frozen=True, kw_only=True)
class ModelReport:
    """A model, and what became of it."""

    model: Model
    status: ModelStatus
    runs: tuple[Run, ...]
    readers: tuple[str, ...]


class Teller:
    """Answers questions about runs and models."""

    def __init__(self, project: Project, ledger: Ledger) -> None:
        self._project = project
        self._ledger = ledger
        self._statuses = Statuses(project, ledger)

    def run(self, name: str) -> Run:
        """A run by its id, or a model's newest run; anything else is an error that suggests."""
        model = self._project.graph.find(name)
        if model is not None:
            runs = self._ledger.runs(model=model.name, limit=1)
            if not runs:
                advice = f"retcon plan {model.name}{self._project.env_option} --start … --end … --reason …"
                raise Refused(f"{model.name} has no run yet", next=advice)
            return runs[0]
        found = self._ledger.run(name)
        if found is None:
            known = [run.id for run in self._ledger.runs(limit=200)] + list(self._project.graph.models)
            advice = did_you_mean(name, known) or f"`retcon history{self._project.env_option}` lists the runs"
            raise Refused(f"there is no run or model {name}", next=advice)
        return found

    def show_run(self, run: Run) -> RunReport:
        events = self._ledger.events(run.id)
        has_old = any(table.base_snapshot is not None for table in run.tables.values())
        is_published = run.state is RunState.PUBLISHED and bool(run.as_published.plan.models)
        return RunReport(
            run=run,
            progress=self._statuses.progress([run])[0],
            waves=tuple(self._ledger.waves(run.id)),
            slices=tuple(self._ledger.slices(run.id)),
            verdicts=tuple(self._ledger.verdicts(run.id)),
            events=tuple(events),
            broken_link=first_broken_link(events),
            rollback_until=rollback_until(run, retention_days(run, self._project)) if is_published else None,
            old_version=tag_before(run.id) if has_old and run.published is not None else None,
            code=self._ledger.code(run.id),
            asked=self._asked(run),
            price=(run.plan.estimate.price if run.plan.estimate is not None else None) or self._project.settings.cost,
        )

    def _asked(self, run: Run) -> str | None:
        intent = self._ledger.intent(run.id)
        return None if intent is None else "publish it" if intent.is_publish else "roll it back"

    def show_model(self, name: str) -> ModelReport:
        model = self._project.graph.model(name)
        readers = tuple(dict.fromkeys(child.name for child, _ in self._project.graph.children(model.name)))
        return ModelReport(
            model=model,
            status=self._statuses.status((model.name,))[0],
            runs=tuple(self._ledger.runs(model=model.name, limit=10)),
            readers=readers,
        )

    def diff(self, run: Run) -> DiffReport:
        """Old and new per slice; refused where nothing was measured yet."""
        measured = [s for s in self._ledger.slices(run.id) if s.checksum is not None]
        if not measured and run.published is not None:
            raise Refused(
                f"what was measured of run {run.id} is lost: its record was rebuilt from the tables",
                next=f"`retcon show {run.id}` tells what is known",
            )
        if not measured:
            raise Refused(
                f"run {run.id} is {run.state.value}: nothing was measured yet",
                next=f"`retcon apply {run.id} --until proven` measures it without publishing",
            )
        models = (planned.name for planned in run.plan.models)
        return DiffReport(
            run=run, models=tuple(_model_diff(run, name, [s for s in measured if s.model == name]) for name in models)
        )

    def compare(self, name: str) -> EnvironmentDiff:
        """What the environment shows of a model against what production shows; refused where one never did."""
        graph, environment = self._project.graph, self._project.environment
        if environment is None:
            raise ValueError("production isn't compared with itself")
        model = graph.model(name)
        names = (model.name.removeprefix(graph.prefix), model.name)
        last = self._ledger.last_published(names)
        for each, option in zip(names, ("", self._project.env_option), strict=True):
            if each not in last:
                raise Refused(
                    f"{each} was never published: there is nothing to compare", next=f"retcon plan +{each}{option} …"
                )
        old, new = (self._ledger.published_slices(each) for each in names)
        there, here = (SliceSet.labelled(model.grain, found) for found in (old, new))
        codes = {
            (run.plan.settings, planned.fingerprint) for each, run in last.items() if (planned := run.plan.model(each))
        }
        return EnvironmentDiff(
            environment=environment,
            model=_environment_diff(model, [(old[s.label], new[s.label]) for s in there & here]),
            only_production=there - here,
            only_environment=here - there,
            same_code=len(codes) == 1,
        )


def _model_diff(run: Run, model: str, slices: list[RecordedSlice]) -> ModelDiff:
    return ModelDiff(
        model=model,
        rows=Change(
            old=sum((Decimal(s.old_rows) for s in slices if s.old_rows is not None), Decimal(0)),
            new=sum((Decimal(s.rows or 0) for s in slices), Decimal(0)),
        ),
        totals=_changes(run.totals.get(model, {})),
        slices=tuple(
            SliceDiff(
                slice=s.slice,
                rows=Change(old=_decimal(s.old_rows), new=_decimal(s.rows)),
                metrics=_changes(s.metrics),
                same_content=s.checksum == s.old_checksum,
            )
            for s in slices
        ),
    )


def _environment_diff(model: Model, pairs: Sequence[tuple[PublishedSlice, PublishedSlice]]) -> ModelDiff:
    slices = tuple(
        SliceDiff(
            slice=new.slice,
            rows=Change(old=Decimal(old.rows), new=Decimal(new.rows)),
            metrics=_changes({m: (old.metrics.get(m), new.metrics.get(m)) for m in {**old.metrics, **new.metrics}}),
            same_content=old.checksum == new.checksum,
        )
        for old, new in pairs
    )
    additive = {gate.metric.expression for gate in model.gates if isinstance(gate, Drift) and gate.metric.is_additive}
    measured = dict.fromkeys(metric for each in slices for metric in each.metrics if metric in additive)
    return ModelDiff(
        model=model.name,
        rows=_sum([each.rows for each in slices]),
        totals={metric: _sum([e.metrics[metric] for e in slices if metric in e.metrics]) for metric in measured},
        slices=slices,
    )


def _sum(changes: Sequence[Change]) -> Change:
    """Of what both have: a value that one lacks isn't a change of the whole."""
    both = [(each.old, each.new) for each in changes if each.old is not None and each.new is not None]
    return Change(old=sum_of(old for old, _ in both), new=sum_of(new for _, new in both))


def _changes(pairs: Mapping[str, tuple[str | None, str | None]]) -> dict[str, Change]:
    return {name: Change(old=_decimal(old), new=_decimal(new)) for name, (old, new) in pairs.items()}


def _decimal(value: str | int | None) -> Decimal | None:
    return None if value is None else Decimal(value)
