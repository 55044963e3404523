"""Does a plan still fit? Same code, same settings, and the same content of what it reads."""

from __future__ import annotations

from collections.abc import Mapping

from retcon.core.gates import OTHER_KEYS
from retcon.core.planning import not_made_here
from retcon.core.plans import Origin, Plan, PlannedInput
from retcon.core.projects import Project
from retcon.core.slices import WHOLE
from retcon.errors import Refused
from retcon.flow.ports import Tables


def require_unchanged_code(plan: Plan, project: Project) -> None:
    """The plan run is the plan reviewed: same code, same settings."""
    changed = [
        f"the code of {planned.name}"
        for planned in plan.models
        if planned.name not in project.graph.models
        or project.graph.models[planned.name].fingerprint != planned.fingerprint
    ]
    for planned in plan.models:
        model = project.graph.models.get(planned.name)
        known = (*model.gate_names, OTHER_KEYS) if model is not None else planned.gates
        gone = [name for name in planned.gates if name not in known]
        if gone:
            changed.append(f"the gates of {planned.name} ({', '.join(gone)} left out)")
    if plan.settings != project.settings.fingerprint:
        changed.append("the settings (time zone, params or spark.conf)")
    if changed:
        raise Refused(
            f"{' and '.join(changed)} changed since plan {plan.id} was made",
            state="nothing was run",
            next=f"`retcon plan --refresh backfills/{plan.id}.yaml` renews the plan",
        )


def require_unchanged_inputs(
    plan: Plan, project: Project, tables: Tables, pins: Mapping[str, int | None] | None = None
) -> None:
    """Inputs may have changed elsewhere, not in what the plan reads: as they are now, or as they were pinned."""
    for planned in plan.models:
        model = project.graph.model(planned.name)
        columns = {i.name: i.column(planned.slices.grain) for i in model.inputs}
        for i in planned.inputs:
            changed = _changed_slices(plan, i, columns.get(i.name), tables, pins or {})
            if changed:
                raise Refused(
                    f"{i.table} changed since plan {plan.id} was made: {changed}",
                    state="nothing was run",
                    next=f"`retcon plan --refresh backfills/{plan.id}.yaml` renews the plan",
                )


def _changed_slices(plan: Plan, i: PlannedInput, by: str | None, tables: Tables, pins: Mapping[str, int | None]) -> str:
    """Which of the planned slices of an input differ from the plan; empty if none."""
    facts = tables.facts(i.table)
    if facts is None:
        return "" if i.origin is Origin.RUN else "the table is gone"
    snapshot_id = pins.get(i.table, facts.snapshot_id)
    if snapshot_id == i.snapshot_id:
        return ""
    own = plan.model(i.table)
    reads = None if i.slices is None else not_made_here(i.slices, own.slices if own is not None else None)
    cut = WHOLE if reads is None else reads.grain
    column = None if reads is None else by
    now = tables.contents(i.table, time=column, grain=cut, snapshot_id=snapshot_id)
    if now.of(reads).digest == i.content:
        return ""
    changed = tables.changed(i.table, time=column, grain=cut, since=i.snapshot_id, until=snapshot_id)
    if changed is None:
        return "its history since then is gone"
    if reads is None:
        return "it is read whole" if changed else ""
    return changed.within(reads).text
