"""Does a plan still fit? Same code, same settings, and the same content of what it reads."""

from __future__ import annotations

from collections.abc import Mapping

from retcon.core.gates import OTHER_KEYS
from retcon.core.models import Input
from retcon.core.planning import not_made_here
from retcon.core.plans import Beside, Origin, Plan, PlannedInput
from retcon.core.projects import Project, Settings
from retcon.core.slices import WHOLE, Grain, SliceSet
from retcon.core.tables import TableFacts, Told
from retcon.errors import Conflict, Refused
from retcon.flow.ports import Tables


def require_unchanged_code(plan: Plan, project: Project) -> None:
    """The plan run is the plan reviewed: same code, same settings."""
    changed = changed_code(plan, project)
    if changed:
        raise Refused(
            f"{changed} changed since plan {plan.id} was made",
            state="nothing was run",
            next=again(plan, "renews the plan"),
        )


def changed_code(plan: Plan, project: Project) -> str:
    """What of the code, the gates and the settings isn't as it was planned; empty: all is."""
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
        changed.append(f"the settings ({_changed_settings(plan, project.settings)})")
    return " and ".join(changed)


def _changed_settings(plan: Plan, settings: Settings) -> str:
    """Parameters by name, with both values; the rest is known by its fingerprint only."""
    names = sorted(set(plan.params) | set(settings.params))
    moved = [name for name in names if plan.params.get(name) != settings.params.get(name)]
    told = (f":{name} was {plan.params.get(name)!r}, is {settings.params.get(name)!r}" for name in moved)
    return ", ".join(told) or "time zone, params, spark.conf or sources that aren't Iceberg"


def require_unchanged_inputs(
    plan: Plan, project: Project, tables: Tables, pins: Mapping[str, int | None] | None = None
) -> None:
    """Inputs may have changed elsewhere, not in what the plan reads: as they are now, or as they were pinned."""
    for planned in plan.models:
        if planned.beside is not None:
            require_replaceable(plan.id, planned.name, planned.beside, tables.facts(planned.name))
        model = project.graph.model(planned.name)
        declared = {i.name: i for i in model.inputs}
        for i in planned.inputs:
            if i.versions:
                changed = _changed_past(i, declared[i.name], tables)
            else:
                by = declared[i.name].column(planned.slices.grain)
                changed = _changed_slices(plan, i, by, tables, pins or {})
            if changed:
                raise Refused(
                    f"{i.table} changed since plan {plan.id} was made: {changed}",
                    state="nothing was run",
                    next=again(plan, "renews the plan"),
                )


def again(plan: Plan, what: str) -> str:
    """What to do where a plan doesn't fit any more: a load isn't planned anew, but found."""
    if plan.load is not None:
        return f"`retcon cancel {plan.id} --reason …`, then `retcon load`: what changed is found anew"
    return f"`retcon plan --refresh backfills/{plan.id}.yaml` {what}"


def require_replaceable(plan: str, model: str, beside: Beside, there: TableFacts | None) -> TableFacts:
    """The table that another is to take the place of is the one that the plan saw: all of it goes."""
    if there is not None and there.snapshot_id == beside.instead_of:
        return there
    raise Conflict(
        f"{model} {'is gone' if there is None else 'was written'} since plan {plan} was made, which builds a table "
        "in its place",
        state="nothing was staged; production is untouched",
        next=f"`retcon plan --refresh backfills/{plan}.yaml` renews the plan",
    )


def require_same_files(plan: Plan, project: Project, tables: Tables) -> None:
    """What couldn't be pinned still is what it was when the plan was made, as far as its files tell."""
    for planned in plan.models:
        columns = {i.name: i.column(planned.slices.grain) for i in project.graph.model(planned.name).inputs}
        for i in planned.inputs:
            changed = "" if i.is_pinned else _changed_files(plan, i, columns.get(i.name), tables)
            if changed:
                raise Refused(
                    f"{i.table} ({i.format}) changed since plan {plan.id} was made: {changed}",
                    state="nothing was published; what is staged may be from before the change and from after it",
                    next=again(plan, "stages it again from what is there now"),
                )


def _changed_files(plan: Plan, i: PlannedInput, by: str | None, tables: Tables) -> str:
    """How the files of a source that can't be pinned differ from the plan's; empty if they don't, or can't be seen."""
    if tables.facts(i.table) is None:
        return "it is gone"
    if not i.content:
        return ""
    grain = i.slices.grain if i.slices is not None else plan.models[0].slices.grain
    held = tables.contents(i.table, time=by, grain=grain, snapshot_id=None)
    if held.of(i.slices).digest == i.content:
        return ""
    is_by_rows = held.told is Told.UPDATES
    return f"{'rows' if is_by_rows else 'files'} that it reads were added, removed or rewritten"


def _changed_past(planned: PlannedInput, i: Input, tables: Tables) -> str:
    """For which slices the input isn't any more what the plan says it was when they ended; empty if for none."""
    facts = tables.facts(i.table)
    if facts is None:
        return "the table is gone"
    changed: list[str] = []
    for version in planned.versions:
        for slice in version.slices:
            then = facts.snapshot_before(slice.interval.end)
            if then is None:
                return f"what it was at the end of {slice.label} has expired"
            if then != version.snapshot_id:
                # The slice wasn't over when it was planned, and something landed since: in what it reads?
                one = SliceSet(slice.grain, (slice.ordinal,))
                if _held(planned, i, one, version.snapshot_id, tables) != _held(planned, i, one, then, tables):
                    changed.append(slice.label)
    return ", ".join(changed)


def _held(planned: PlannedInput, i: Input, slices: SliceSet, snapshot_id: int, tables: Tables) -> str:
    grain = planned.slices.grain if planned.slices is not None else None
    reads = i.read_by(slices, grain) if isinstance(grain, Grain) else None
    cut, time = (WHOLE, None) if reads is None else (reads.grain, i.time)
    return tables.contents(i.table, time=time, grain=cut, snapshot_id=snapshot_id).of(reads).digest


def _changed_slices(plan: Plan, i: PlannedInput, by: str | None, tables: Tables, pins: Mapping[str, int | None]) -> str:
    """Which of the planned slices of an input differ from the plan; empty if none."""
    if not i.is_pinned:
        return _changed_files(plan, i, by, tables)
    facts = tables.facts(i.table)
    if facts is None:
        return "" if i.origin is Origin.RUN else "the table is gone"
    snapshot_id = pins.get(i.table, facts.snapshot_id)
    if snapshot_id == i.snapshot_id:
        return ""
    own = plan.model(i.table)
    if own is not None and own.beside is not None:
        return ""  # nothing of the table that is there now is read
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
