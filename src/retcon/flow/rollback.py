"""Roll back: take one publish back, for all of its tables in one atomic step."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from retcon.core.projects import Project
from retcon.core.runs import Consumed, RolledBack, Run, RunState
from retcon.core.slices import SliceSet
from retcon.errors import BadArguments, Conflict, Refused
from retcon.flow.commit import roll_back_group, settle
from retcon.flow.context import Context
from retcon.flow.ports import Ledger, Tables
from retcon.flow.publish import publish_request


@dataclass(frozen=True, kw_only=True)
class Undone:
    """What a rollback did, and what stands on what it undid."""

    run: Run
    stale: tuple[tuple[str, str, str], ...]
    """(model, slices, run) of later publishes that read what was undone."""


def roll_back(run: Run, reason: str, context: Context) -> Undone:
    """Every table back to where it was before the publish; later reads of it are listed as stale."""
    settled = settle(run, context)
    if settled.state is not run.state:
        # An earlier try had done it; its record alone was missing.
        return Undone(run=settled, stale=_readers(run, context.ledger))
    require_possible(run, reason, context.project, context.tables, context.clock())
    swaps = [context.warehouse.prepare_rollback(publish_request(run, planned)) for planned in run.plan.models]
    event = RolledBack(reason=reason.strip(), snapshots={swap.table: swap.snapshot_id for swap in swaps})
    undone = roll_back_group(run, event, swaps, context)
    return Undone(run=undone, stale=_readers(run, context.ledger))


def require_reason(reason: str) -> None:
    """Nothing is undone without a word why."""
    if not reason.strip():
        raise BadArguments("a rollback needs a reason", next='pass --reason "why it is undone"')


def require_possible(run: Run, reason: str, project: Project, tables: Tables, now: datetime) -> None:
    """Can this publish be taken back now? Asked before Spark is started, and again when it is."""
    require_reason(reason)
    _require_published(run)
    _require_in_time(run, now, project)
    _require_nothing_later(run, tables)
    _require_kept(run, tables)


def rollback_until(run: Run, retention_days: int) -> datetime | None:
    """Until when a publish can be taken back."""
    return run.published + timedelta(days=retention_days) if run.published is not None else None


def retention_days(run: Run, project: Project) -> int:
    """The shortest retention among the run's models."""
    models = project.graph.models
    return min((models[p.name].retention_days for p in run.plan.models if p.name in models), default=14)


def _require_published(run: Run) -> None:
    """Only a publish that stands can be rolled back."""
    if run.state is not RunState.PUBLISHED:
        raise Refused(
            f"run {run.id} is {run.state.value.replace('_', ' ')}: there is no publish to roll back",
            next=f"`retcon show {run.id}` tells more",
        )


def _require_in_time(run: Run, now: datetime, project: Project) -> None:
    until = rollback_until(run, retention_days(run, project))
    if until is not None and now > until:
        raise Refused(
            f"run {run.id} could be rolled back until {until:%Y-%m-%d %H:%M} UTC",
            next="plan a new correction instead",
        )


def _require_nothing_later(run: Run, tables: Tables) -> None:
    later = {
        table.table: commits
        for table in run.tables.values()
        if (commits := tables.commits_after(table.table, table.published_snapshot))
    }
    if later:
        listed = "; ".join(f"{table}: {', '.join(commits[:5])}" for table, commits in later.items())
        raise Conflict(
            f"something landed after run {run.id} was published: {listed}",
            state="nothing was rolled back",
            next="roll back the later run first, or plan a new correction over the same range",
        )


def _require_kept(run: Run, tables: Tables) -> None:
    """Where a table took the place of another, that one is still there, as it was."""
    for replaced in (table.replaces for table in run.tables.values() if table.replaces is not None):
        facts = tables.facts(replaced.beside)
        kept = (facts.uuid, facts.snapshot_id) if facts is not None else None
        if kept != (replaced.uuid, replaced.snapshot_id):
            raise Refused(
                f"the version from before, {replaced.beside}, {'was changed' if kept else 'is gone'}",
                state="nothing was rolled back",
                next="plan a new correction instead",
            )


def _readers(run: Run, ledger: Ledger) -> tuple[tuple[str, str, str], ...]:
    """Slices that later publishes computed from what this run had published."""
    undone = {table.table: table.published_snapshot for table in run.tables.values()}
    found: list[tuple[str, str, str]] = []
    for later in ledger.runs():
        if later.id == run.id or later.state is not RunState.PUBLISHED:
            continue
        if later.published is None or run.published is None or later.published < run.published:
            continue
        by_model: dict[str, list[str]] = {}
        for entry in ledger.consumption(later.id):
            if entry.table in undone and not _is_past(later, entry):
                by_model.setdefault(entry.model, []).append(entry.slice)
        for model, labels in by_model.items():
            planned = later.plan.model(model)
            if planned is not None:
                grain = planned.slices.grain
                slices = SliceSet.of(grain, (grain.parse(label) for label in labels))
                found.append((model, slices.text, later.id))
    return tuple(found)


def _is_past(run: Run, entry: Consumed) -> bool:
    """Was it read as of a slice's end? What production showed then stays what it was."""
    planned = run.plan.model(entry.model)
    return planned is not None and any(i.name == entry.input and i.versions for i in planned.inputs)
