"""Certify: after a publish, that nothing outside its scope changed, and that inside stands what was proven."""

from __future__ import annotations

from dataclasses import replace

from retcon.core.certificates import CertifyRequest, TableCertificate, certificate_from, certificate_of
from retcon.core.events import Certified
from retcon.core.plans import PlannedModel, tag_before
from retcon.core.runs import Run
from retcon.core.slices import SliceSet, Whole
from retcon.flow.context import Context
from retcon.flow.ports import Progress


def certified(run: Run, context: Context) -> tuple[TableCertificate, ...]:
    """The certificate of each table that the publish wrote: recorded before, or made now."""
    recorded = context.ledger.events(run.id, kind=Certified)
    if recorded:
        return tuple(certificate_from(each) for each in recorded[-1].body["tables"])
    written = run.as_published.plan.models
    found: list[TableCertificate] = []
    for planned in written:
        context.watch(Progress(step="certify", model=planned.name, done=len(found), total=len(written)))
        found.append(_certificate(run, planned, context))
    context.record(run, Certified(tables=tuple(found)))
    context.watch(Progress(step="certify", done=len(found), total=len(written)))
    return tuple(found)


def _certificate(run: Run, planned: PlannedModel, context: Context) -> TableCertificate:
    table = run.tables[planned.name]
    assert table.published_snapshot is not None
    assert table.head is not None
    grain = planned.slices.grain
    request = CertifyRequest(
        published=table.published_snapshot,
        proven=table.head,
        base=table.base_snapshot,
        tag=tag_before(run.id),
        by=_slice_column(planned, context),
        grain=grain,
    )
    same = SliceSet.labelled(grain, table.same)
    compared = context.tables.compared(planned.name, request)
    made = certificate_of(planned.name, planned.slices, same, request, compared)
    return made if table.replaces is None else replace(made, took_place_of=table.replaces.beside)


def _slice_column(planned: PlannedModel, context: Context) -> str | None:
    """As the model says; of one that is gone from the project, as its table is cut."""
    model = context.project.graph.models.get(planned.name)
    if model is not None or isinstance(planned.slices.grain, Whole):
        return model.slicing.by if model is not None else None
    facts = context.tables.facts(planned.name)
    return facts.partitioning[0].column if facts is not None and facts.partitioning else None
