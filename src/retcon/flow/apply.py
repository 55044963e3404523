"""Apply: the one place where a run's steps are sequenced. Called again, it goes on from wherever things stand."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from retcon.core.gates import overridden
from retcon.core.plans import Origin, Plan, PlannedInput, to_document
from retcon.core.projects import Project
from retcon.core.runs import GateOverridden, Paused, Run, RunOpened, RunState
from retcon.errors import BadArguments, GatesFailed, Interrupted, Refused
from retcon.flow.context import Context
from retcon.flow.ports import Clock, Ledger, Tables
from retcon.flow.prove import prove
from retcon.flow.publish import publish
from retcon.flow.stage import stage


class Until(StrEnum):
    """Where `apply` stops for review."""

    STAGED = "staged"
    PROVEN = "proven"
    PUBLISHED = "published"


@dataclass(frozen=True, kw_only=True)
class Override:
    """A failed gate that somebody answers for."""

    gates: tuple[str, ...] = ()
    reason: str = ""


def open_run(plan: Plan, project: Project, ledger: Ledger, tables: Tables, clock: Clock, who: str) -> Run:
    """The plan's run: as the ledger has it, else newly opened after checking that the plan still fits."""
    run = ledger.run(plan.id)
    if run is not None and run.state.is_final:
        raise Refused(
            f"run {run.id} was {run.state.value.replace('_', ' ')}: it isn't run again",
            next=f"`retcon plan --refresh backfills/{run.id}.yaml` makes a new plan of it",
        )
    if run is not None and run.state is RunState.PUBLISHED:
        return run
    require_unchanged_code(plan, project)
    if run is None or not run.tables:
        require_unchanged_inputs(plan, project, tables)
    ledger.prepare()
    opened = RunOpened(
        plan=to_document(plan),
        code={m.name: project.graph.model(m.name).query.text for m in plan.models},
        parameters=dict(project.settings.params),
    )
    return ledger.open_run(plan, opened, at=clock(), who=who)


def apply(run: Run, context: Context, *, until: Until = Until.PUBLISHED, override: Override | None = None) -> Run:
    """Stage, prove and publish, as far as `until` says."""
    given = override or Override()
    if given.gates and not given.reason.strip():
        raise BadArguments("an override needs a reason", next='pass --reason "why this is right all the same"')
    try:
        return _go_on(run, context, until, given)
    except KeyboardInterrupt:
        standing = context.ledger.run(run.id) or run
        if standing.state not in (RunState.PUBLISHING, RunState.PUBLISHED):
            context.record(standing, Paused(why="interrupted at the keyboard"))
        raise Interrupted(
            f"interrupted while run {run.id} was {standing.state.value}",
            state="production is untouched" if standing.state is not RunState.PUBLISHED else "the run is published",
            next=f"`retcon apply {run.id}` goes on from there",
        ) from None


def _go_on(run: Run, context: Context, until: Until, override: Override) -> Run:
    while True:
        match run.state:
            case RunState.PLANNED | RunState.STAGING | RunState.PAUSED:
                run = stage(run, context)
            case RunState.STAGED if until is Until.STAGED:
                return run
            case RunState.STAGED | RunState.PROVING:
                run = _proven_or_failed(prove(run, context), context, override)
            case RunState.FAILED if override.gates:
                run = _override(run, context, override)
            case RunState.FAILED:
                # The gates in the project may have been mended since.
                run = _proven_or_failed(prove(run, context), context, override)
            case RunState.PROVEN if until is not Until.PUBLISHED:
                return run
            case RunState.PROVEN | RunState.PUBLISHING:
                run = publish(run, context)
            case _:
                return run


def _proven_or_failed(run: Run, context: Context, override: Override) -> Run:
    if run.state is RunState.FAILED and override.gates:
        return _override(run, context, override)
    if run.state is RunState.FAILED:
        raise gates_failed(run, context.ledger)
    return run


def _override(run: Run, context: Context, override: Override) -> Run:
    """Record who answers for which failed gate; the run is proven when none is left."""
    verdicts = [recorded.verdict for recorded in context.ledger.verdicts(run.id)]
    for name in override.gates:
        hits = overridden(verdicts, name)
        if not hits:
            failed = ", ".join(f"{v.model}:{v.gate}" for v in verdicts if not v.passed) or "none"
            raise BadArguments(f"--override {name}: no failed gate has this name", next=f"failed: {failed}")
        for verdict in hits:
            if not verdict.may_be_overridden:
                raise Refused(
                    f"{verdict.model}:{verdict.gate} can't be overridden",
                    state="nothing was published; production is untouched",
                    next="mend the model, then plan again",
                )
            run = context.record(
                run, GateOverridden(model=verdict.model, gate=verdict.gate, reason=override.reason.strip())
            )
    if run.state is RunState.FAILED:
        raise gates_failed(run, context.ledger)
    return run


def gates_failed(run: Run, ledger: Ledger) -> GatesFailed:
    """What failed, and what can be done."""
    failed = [recorded.verdict for recorded in ledger.verdicts(run.id) if not recorded.holds]
    named = ", ".join(f"{verdict.model}:{verdict.gate}" for verdict in failed)
    can = [verdict for verdict in failed if verdict.may_be_overridden]
    advice = f"`retcon diff {run.id}` shows what moved"
    if len(can) == len(failed):
        flags = " ".join(f"--override {verdict.model}:{verdict.gate}" for verdict in failed)
        advice += f"; if it is right all the same: retcon apply {run.id} {flags} --reason …"
    return GatesFailed(
        f"{len(failed)} {'gate' if len(failed) == 1 else 'gates'} failed: {named}",
        state="nothing was published; production is untouched; what was staged is kept",
        next=advice,
    )


def require_unchanged_code(plan: Plan, project: Project) -> None:
    """The plan run is the plan reviewed: same code, same settings."""
    changed = [
        f"the code of {planned.name}"
        for planned in plan.models
        if planned.name not in project.graph.models
        or project.graph.models[planned.name].fingerprint != planned.fingerprint
    ]
    if plan.settings != project.settings.fingerprint:
        changed.append("the settings (time zone, params or spark.conf)")
    if changed:
        raise Refused(
            f"{' and '.join(changed)} changed since plan {plan.id} was made",
            state="nothing was run",
            next=f"`retcon plan --refresh backfills/{plan.id}.yaml` renews the plan",
        )


def require_unchanged_inputs(plan: Plan, project: Project, tables: Tables) -> None:
    """Inputs may have changed elsewhere, not in what the plan reads."""
    for planned in plan.models:
        model = project.graph.model(planned.name)
        times = {i.name: i.time for i in model.inputs}
        for i in planned.inputs:
            changed = _changed_slices(plan, i, times.get(i.name), tables)
            if changed:
                raise Refused(
                    f"{i.table} changed since plan {plan.id} was made: {changed}",
                    state="nothing was run",
                    next=f"`retcon plan --refresh backfills/{plan.id}.yaml` renews the plan",
                )


def _changed_slices(plan: Plan, i: PlannedInput, time: str | None, tables: Tables) -> str:
    """Which of the planned slices of an input differ now; empty if none."""
    facts = tables.facts(i.table)
    if facts is None:
        return "" if i.origin is Origin.RUN else "the table is gone"
    if facts.snapshot_id == i.snapshot_id:
        return ""
    grain = plan.models[0].slices.grain
    own = plan.model(i.table)
    reads = i.slices - own.slices if i.slices is not None and own is not None else i.slices
    now = tables.contents(i.table, time=time, grain=grain, snapshot_id=facts.snapshot_id)
    if now.of(reads).digest == i.content:
        return ""
    changed = tables.changed(i.table, time=time, grain=grain, since=i.snapshot_id, until=facts.snapshot_id)
    if changed is None:
        return "its history since then is gone"
    if reads is None:
        return "it is read whole" if changed.everything or changed.slices else ""
    return changed.within(reads).text
