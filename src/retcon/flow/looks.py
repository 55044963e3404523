"""Looks: what gates find beyond the measures of a model's own slices."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import replace
from functools import cache

from retcon.core.gates import Looks, tables_of
from retcon.core.jobs import MeasureRequest
from retcon.core.measures import TableMeasures
from retcon.core.models import Model
from retcon.core.reads import Read
from retcon.core.reconciling import Reconcile, SourceMeasures
from retcon.core.runs import Run
from retcon.core.suggestions import nearest
from retcon.core.suites import GreatExpectations, Unmet
from retcon.core.table_gates import Counted, ForeignKey, NoRows
from retcon.core.value_gates import Accepted
from retcon.errors import Refused
from retcon.flow.context import Context
from retcon.flow.ports import Tables, Warehouse
from retcon.values import dataclass


@dataclass(frozen=True, kw_only=True)
class Seen:
    """Another table as gates see it."""

    read: Read
    is_recorded: bool
    """Is the snapshot on record already, as one that the run staged or pinned?"""

    @property
    def told(self) -> tuple[str, ...]:
        """What a verdict has to say of it."""
        if self.is_recorded:
            return ()
        at = self.read.snapshot_id
        return (f"{self.read.table} as it is now" if at is None else f"{self.read.table} at snapshot {at}",)


Sees = Callable[[str], Seen]
"""Which table is meant by a name, and at which snapshot."""


def seen_now(tables: Tables) -> Sees:
    """Every table as it is in production."""

    def seen(name: str) -> Seen:
        facts = tables.facts(name)
        if facts is None:
            close = nearest(name, tables.names())
            raise Refused(
                f"a gate looks at {name}, and there is no such table",
                state="nothing was judged by it",
                next=f"did you mean {close}?" if close else "correct the name under `gates:`, or make that table",
            )
        return Seen(read=Read(table=name, snapshot_id=facts.snapshot_id, by=None, slices=None), is_recorded=False)

    return seen


def seen_by(run: Run, context: Context) -> Sees:
    """Tables of the run as they are staged, what it reads as it pinned it, and all others as they are now."""
    snapshots = cache(lambda: context.snapshots(run))
    now = seen_now(context.tables)

    def seen(name: str) -> Seen:
        if name not in snapshots():
            return now(name)
        place = run.plan.place(name)
        return Seen(read=Read(table=place, snapshot_id=snapshots()[name], by=None, slices=None), is_recorded=True)

    return seen


def seen_after(run: Run, context: Context) -> Sees:
    """What the run read as it pinned it; its own tables, now that it is published, and all others as they are now."""
    now = seen_now(context.tables)

    def seen(name: str) -> Seen:
        if name in run.tables or name not in run.pins:
            return now(name)
        return Seen(read=Read(table=name, snapshot_id=run.pins[name], by=None, slices=None), is_recorded=True)

    return seen


def looks_of(request: MeasureRequest, staged: TableMeasures, sees: Sees, context: Context) -> Looks:
    """What the model's gates find in the request's slices, at its snapshot, beside other tables as they are seen."""
    own = replace(request.staged_read, by=None, slices=None)
    counted: dict[str, Counted] = {}
    sources: dict[str, SourceMeasures] = {}
    examples: dict[str, tuple[str, ...]] = {}
    unmet: dict[str, tuple[Unmet, ...]] = {}

    def other(name: str) -> Seen:
        return Seen(read=own, is_recorded=True) if name == request.model.name else sees(name)

    for gate in request.model.gates:
        match gate:
            case Accepted() if request.model.samples:
                wrong = [each for each in gate.listed if any(m.unlisted.get(each) for m in staged.slices.values())]
                shown = (example for each in wrong for example in context.warehouse.unaccepted(request, each))
                examples[gate.name] = tuple(shown)
            case ForeignKey():
                to = other(gate.to)
                counted[gate.name] = replace(context.warehouse.orphans(request, gate, to.read), seen=to.told)
            case NoRows():
                tables = {text: other(table) for text, table in gate.tables if table != request.model.name}
                reads = {text: seen.read for text, seen in tables.items()}
                reads |= {text: request.staged_read for text, table in gate.tables if table == request.model.name}
                found = context.warehouse.rows_found(request, gate, reads)
                counted[gate.name] = replace(found, seen=tuple(text for seen in tables.values() for text in seen.told))
            case Reconcile():
                source = other(gate.source)
                slices = context.warehouse.source_metrics(request, gate, source.read)
                sources[gate.name] = SourceMeasures(slices=slices, seen=source.told)
            case GreatExpectations():
                unmet[gate.name] = context.warehouse.unmet(request, gate)
            case _:
                pass
    return Looks(counted=counted, sources=sources, examples=examples, unmet=unmet)


def require_gate_tables(model: Model, planned: Collection[str], tables: Tables) -> None:
    """What the model's gates look at is there, or planned with it: else nobody would know before it is staged."""
    for gate in model.gates:
        for table in tables_of(gate):
            if table == model.name or table in planned or tables.facts(table) is not None:
                continue
            close = nearest(table, tables.names())
            raise Refused(
                f"{model.name}: the gate {gate.name} looks at {table}, and there is no such table",
                state="no plan was written",
                next=f"did you mean {close}?" if close else "correct the name under `gates:`, or make that table first",
            )


def require_libraries(models: Iterable[Model], warehouse: Warehouse) -> None:
    """What gates are judged with is installed: else nobody would know before everything is staged."""
    if any(isinstance(gate, GreatExpectations) for model in models for gate in model.gates):
        warehouse.require_expectations()
