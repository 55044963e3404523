"""Compare rows: where the rows of a run's tables before and after are, and how they differ."""

from __future__ import annotations

from dataclasses import replace

from retcon.core.models import Model
from retcon.core.plans import PlannedModel, tag_before
from retcon.core.reads import Read
from retcon.core.row_diffs import TOLERANCE, RowDiff, RowDiffRequest, Sides, nothing_differs
from retcon.core.runs import Run, RunState, RunTable, SliceState
from retcon.core.schemas import is_comparable
from retcon.core.slices import SliceSet
from retcon.errors import Refused
from retcon.flow.context import Context
from retcon.flow.ports import Progress
from retcon.flow.records import Records
from retcon.flow.rollback import retention_days
from retcon.values import dataclass

_UNTOUCHED = "nothing was compared; nothing was changed"


@dataclass(frozen=True, kw_only=True)
class Asking:
    """How rows are compared, and how many of them are drawn by which seed."""

    limit: int
    seed: str | None = None
    """None: the run's id, so that everybody who looks at the run sees the same rows."""
    tolerance: float = TOLERANCE
    out: str | None = None


@dataclass(frozen=True, kw_only=True)
class _Place:
    """A table at a snapshot, as one side of a comparison."""

    table: str
    snapshot_id: int | None


def compared_models(run: Run, name: str | None, records: Records) -> list[tuple[Model, PlannedModel]]:
    """The run's models that are meant: one of them, or all."""
    meant = [planned for planned in run.plan.models if name in (None, planned.name)]
    if not meant:
        listed = ", ".join(planned.name for planned in run.plan.models)
        raise Refused(f"run {run.id} has no model {name}", state=_UNTOUCHED, next=f"it has {listed}")
    models = [(records.project.graph.model(planned.name), planned) for planned in meant]
    for model, planned in models:
        if model.grain != planned.slices.grain:
            raise Refused(
                f"{model.name} was cut by {planned.slices.grain} when run {run.id} was planned, and is by "
                f"{model.grain} now",
                state=_UNTOUCHED,
                next="check out the model as it was then",
            )
    return models


def sides_of(run: Run, model: Model, planned: PlannedModel, records: Records) -> Sides | None:
    """Where its rows before and after are: staged and its base before the publish, else before and published.

    None where nothing of it was written. Refused where a side isn't there yet, or not any more. Starts no Spark.
    """
    table = run.tables.get(planned.name)
    if run.published is None:
        return _before_publish(run, model, planned, table, records)
    written = planned.without(table.same if table is not None else ()).slices
    if table is None or table.published_snapshot is None or not written:
        return None
    old, new = _published_places(run, table, records)
    _require_told(model, old, new, records)
    return _sides(model, written, old, new)


def compare_rows(
    run: Run, model: Model, planned: PlannedModel, sides: Sides | None, context: Context, asking: Asking
) -> RowDiff:
    """Which rows of a model differ: counted by slice and column, and some of them shown."""
    if sides is None:
        return nothing_differs(model, SliceSet(planned.slices.grain), asking.tolerance)
    progress = Progress(step="compare rows", model=model.name, total=len(sides.slices))
    context.watch(progress)
    request = RowDiffRequest(
        model=model,
        sides=sides,
        seed=f"{asking.seed or run.id} {model.name}",
        limit=asking.limit,
        tolerance=asking.tolerance,
        out=asking.out,
    )
    try:
        found = context.warehouse.row_diff(request)
    except KeyboardInterrupt:
        context.warehouse.interrupt()
        raise
    context.watch(replace(progress, done=progress.total))
    return found


def made_by(run: Run, name: str, records: Records) -> tuple[str, int | None]:
    """Where one of the run's own tables is as the run made it: its name now, and the snapshot."""
    table = run.tables[name]
    if run.published is None:
        return table.written, records.tables.head(table.written, run.plan.branch)
    if table.published_snapshot is None:
        return table.table, table.snapshot_before
    place = _published_places(run, table, records)[1]
    return place.table, place.snapshot_id


def _before_publish(
    run: Run, model: Model, planned: PlannedModel, table: RunTable | None, records: Records
) -> Sides | None:
    recorded = records.ledger.slices(run.id, planned.name)
    missing = [each for each in recorded if each.state is SliceState.PENDING]
    if run.state is RunState.CANCELLED:
        raise Refused(f"run {run.id} was cancelled: nothing is kept of it", state=_UNTOUCHED)
    if table is None or missing:
        raise Refused(
            f"run {run.id} is {run.state.value}: {len(missing or recorded):,} slices of {planned.name} aren't staged",
            state=_UNTOUCHED,
            next=f"`retcon apply {run.id} --until proven` stages them",
        )
    kept = (each.slice for each in recorded if each.state is SliceState.SAME)
    slices = planned.without(kept).slices
    if not slices:
        return None
    head = records.tables.head(table.written, run.plan.branch)
    if head is None or (table.head is not None and head != table.head):
        raise Refused(
            f"branch {run.plan.branch} of {table.written} is {'gone' if head is None else 'not what was proven'}",
            state=_UNTOUCHED,
            next=f"`retcon apply {run.id}` says what can be done",
        )
    old = _Place(table=table.table, snapshot_id=table.snapshot_before)
    new = _Place(table=table.written, snapshot_id=head)
    _require_told(model, old, new, records)
    return _sides(model, slices, old, new)


def _published_places(run: Run, table: RunTable, records: Records) -> tuple[_Place, _Place]:
    """What was there before the publish, and what it made, wherever these are now."""
    if table.replaces is not None:
        # The two changed places with the publish, and again with its rollback.
        names = (table.replaces.beside, table.table)
        old, new = names if run.rolled_back is None else names[::-1]
        before = _Place(table=old, snapshot_id=_readable(old, (table.replaces.snapshot_id,), run, records))
        return before, _Place(table=new, snapshot_id=_readable(new, (table.published_snapshot,), run, records))
    refs = records.tables.refs(table.table)
    tags = {ref.name: ref.snapshot_id for ref in refs.refs} if refs is not None else {}
    before_it = (tags.get(tag_before(run.id)), table.base_snapshot)
    is_first = before_it == (None, None)
    return (
        _Place(table=table.table, snapshot_id=None if is_first else _readable(table.table, before_it, run, records)),
        # What was proven on the branch is what was published, slice by slice.
        _Place(
            table=table.table,
            snapshot_id=_readable(table.table, (table.published_snapshot, table.head), run, records),
        ),
    )


def _readable(table: str, snapshots: tuple[int | None, ...], run: Run, records: Records) -> int | None:
    """The first of these snapshots that is still there; refused where all have expired."""
    refs = records.tables.refs(table)
    held = refs.parents if refs is not None else {}
    wanted = [snapshot for snapshot in snapshots if snapshot is not None]
    found = next((snapshot for snapshot in wanted if snapshot in held), None)
    if found is None and wanted:
        days = retention_days(run, records.project)
        gone = f"snapshot {wanted[0]} of {table} has expired" if refs is not None else f"{table} is gone"
        raise Refused(
            f"the rows of run {run.id} can't be compared any more: {gone}",
            state=f"its models' `retention` keeps old versions for {days} days; nothing was changed",
            next=f"`retcon diff {run.id}` still shows what was measured by slice",
        )
    return found


def _require_told(model: Model, old: _Place, new: _Place, records: Records) -> None:
    """Refuse tables that took one another's place and whose slices can't be told by the same column."""
    if old.table == new.table:
        return
    before, now = (records.tables.facts(name) for name in (old.table, new.table))
    if before is None or now is None or not is_comparable(model, before, now):
        raise Refused(
            f"{model.name} was built anew: {model.slicing.by} isn't the same column in both tables, so slices can't "
            "be compared",
            state=_UNTOUCHED,
            next=f"the old table is {old.table}: compare them by a query",
        )


def _sides(model: Model, slices: SliceSet, old: _Place, new: _Place) -> Sides:
    by = model.slicing.by

    def read(place: _Place) -> Read:
        return Read(table=place.table, snapshot_id=place.snapshot_id, by=by, slices=None if by is None else slices)

    return Sides(old=read(old), new=read(new), slices=slices)
