"""Apply: the one place where a run's steps are sequenced. Called again, it goes on from wherever things stand."""

from __future__ import annotations

from dataclasses import field
from enum import StrEnum

from retcon.core.budgets import Budget
from retcon.core.conflicts import MOST_ROUNDS
from retcon.core.events import ApplyBegan, GateOverridden, RunOpened
from retcon.core.expectations import Expectation, expectation_document
from retcon.core.gates import EMPTY, overridden
from retcon.core.plans import Plan, to_document
from retcon.core.projects import Project
from retcon.core.runs import Run, RunState
from retcon.errors import BadArguments, GatesFailed, Refused
from retcon.flow.brakes import Stopped
from retcon.flow.cancel import drop_if_cancelled
from retcon.flow.commit import settle
from retcon.flow.context import Context
from retcon.flow.driving import driving
from retcon.flow.follow_up import follow_up, is_followed_up
from retcon.flow.meters import BudgetPassed, meter_of
from retcon.flow.pause import pause_here, was_paused_since
from retcon.flow.ports import Clock, Ledger, Tables
from retcon.flow.prove import prove
from retcon.flow.publish import publish
from retcon.flow.stage import stage
from retcon.flow.still_fits import require_same_files, require_unchanged_code, require_unchanged_inputs
from retcon.flow.unrecorded import require_recorded
from retcon.values import dataclass

_READING = (RunState.STAGING, RunState.PAUSED, RunState.STAGED, RunState.PROVING, RunState.FAILED)
"""What comes next reads inputs again; a publish looks by itself."""


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
    if run is not None and (run.state is RunState.PUBLISHED or ledger.intent(run.id) is not None):
        # What the catalog was asked for is found out, whatever became of the code since.
        return run
    require_unchanged_code(plan, project)
    if run is None or not run.tables:
        require_unchanged_inputs(plan, project, tables)
    require_recorded(plan, ledger, tables)
    ledger.prepare()
    opened = RunOpened(
        plan=to_document(plan),
        code={m.name: project.graph.model(m.name).query.text for m in plan.models},
        parameters=dict(project.settings.params),
        keys={m.name: model.keys_text for m in plan.models if not (model := project.graph.model(m.name)).is_python},
    )
    return ledger.open_run(plan, opened, at=clock(), who=who)


@dataclass(frozen=True, kw_only=True)
class _Way:
    """How a call of `apply` goes: as far as, answering for which gates, and whether on top of what others wrote."""

    until: Until = Until.PUBLISHED
    override: Override = field(default_factory=Override)
    rebase: bool = True
    expect: tuple[Expectation, ...] | None = None
    """What the plan's file expects now; None: as it is on record."""
    budget: Budget | None = None
    """What the run may take in all; None: as it is on record."""


def apply(
    run: Run,
    context: Context,
    *,
    until: Until = Until.PUBLISHED,
    override: Override | None = None,
    rebase: bool = True,
    expect: tuple[Expectation, ...] | None = None,
    budget: Budget | None = None,
) -> Run:
    """Stage, prove and publish, as far as `until` says; slices that others wrote to meanwhile once more. Of a run that
    is published, what has to follow and doesn't stand in the record yet.
    """
    given = override or Override()
    if given.gates and not given.reason.strip():
        raise BadArguments("an override needs a reason", next='pass --reason "why this is right all the same"')
    if run.state.is_final:
        return run
    if run.state is RunState.PUBLISHED and is_followed_up(run, context.ledger):
        return follow_up(run, context)  # raises what is recorded as failed
    try:
        with driving(run, context):
            # Another process may have brought it further before this one got its turn.
            standing = context.ledger.run(run.id) or run
            if was_paused_since(run, standing) or standing.state.is_final:
                raise pause_here(standing, context)  # while Spark started
            way = _Way(until=until, override=given, rebase=rebase, expect=expect, budget=budget)
            done = _drive(standing, context, way)
            return follow_up(done, context) if done.state is RunState.PUBLISHED else done
    except Exception:
        drop_if_cancelled(run, context.ledger, context.tables)
        raise


def _drive(run: Run, context: Context, way: _Way) -> Run:
    settled = settle(run, context)
    if settled.state.is_over:  # published, or a rollback of it that was left open is done
        return settled
    if settled is not run:
        require_unchanged_code(settled.plan, context.project)
    context.meter = meter_of(settled, way.budget, context.ledger, context.project.settings, context.setup)
    run = context.record(settled, _began(settled, context, way))
    try:
        return _go_on(run, context, way)
    except (KeyboardInterrupt, Stopped):
        raise pause_here(run, context) from None
    except BudgetPassed:
        raise pause_here(run, context, passed=context.meter.told) from None
    except GatesFailed:
        raise
    except Exception as error:
        if not context.brake.is_pulled:
            raise
        # Mostly it is the brake by which this step failed.
        raise pause_here(run, context) from error
    finally:
        _let_go(context)


def _let_go(context: Context) -> None:
    """Of what was kept in memory for this run."""
    if context.kept:
        context.warehouse.let_go()
        context.kept = {}


def _began(run: Run, context: Context, way: _Way) -> ApplyBegan:
    is_new = way.expect is not None and way.expect != run.plan.expect
    return ApplyBegan(
        until=way.until.value,
        max_active=context.max_active,
        overrides=way.override.gates,
        versions=context.versions,
        conf=context.project.settings.spark.recordable,
        rebase=way.rebase,
        expect=tuple(expectation_document(each) for each in way.expect or ()) if is_new else None,
        preparing=context.setup.preparing,
        starting=context.setup.starting,
        cores=context.setup.cores,
        budget=None if way.budget is None else way.budget.document(),
    )


def _go_on(run: Run, context: Context, way: _Way) -> Run:
    until, override = way.until, way.override
    rounds = MOST_ROUNDS if way.rebase else 0
    while True:
        context.brake.check()
        if run.tables and run.state in _READING:
            require_same_files(run.plan, context.project, context.tables)
        match run.state:
            case RunState.PLANNED | RunState.STAGING | RunState.PAUSED:
                run = stage(run, context)
            case RunState.STAGED if until is Until.STAGED:
                return run
            case RunState.STAGED | RunState.PROVING:
                context.meter.check()
                run = _proven_or_failed(prove(run, context), context, override)
            case RunState.FAILED if override.gates:
                run = _override(run, context, override)
            case RunState.FAILED:
                # The gates in the project may have been mended since.
                run = _proven_or_failed(prove(run, context), context, override)
            case RunState.PROVEN | RunState.PUBLISHING if until is not Until.PUBLISHED:
                return run
            case RunState.PROVEN | RunState.PUBLISHING:
                with context.brake.held():
                    run = publish(run, context, may_rebase=rounds > 0)
                rounds -= 1
                # Somebody answered for what was proven then; what is proven anew, nobody has seen.
                override = Override()
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
                remedy = (
                    "write `allow_empty: true`, then apply again"
                    if verdict.kind == EMPTY
                    else "mend it, then plan again"
                )
                raise Refused(
                    f"{verdict.model}:{verdict.gate} can't be overridden",
                    state="nothing was published; production is untouched",
                    next=f"in {context.project.graph.model(verdict.model).path}: {remedy}",
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
