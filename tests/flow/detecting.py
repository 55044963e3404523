"""A model over a source, published as loads would have done it, and watermarks that can be led astray."""

from __future__ import annotations

from dataclasses import replace

from retcon.core.events import Published
from retcon.core.plans import Load, Plan
from retcon.core.reads import read_of
from retcon.core.runs import Consumed
from retcon.core.slices import Slice, SliceSet
from retcon.core.watermarks import Advance, Mark
from retcon.flow.contents import content_of_read
from retcon.flow.records import Records
from tests.flow.workshops import NOW, Workshop
from tests.ledger.examples import Driver

MODEL, SOURCE = "mart.a", "raw.s"


def mark_of(workshop: Workshop) -> Mark:
    facts = workshop.lake.metadata.facts(SOURCE)
    assert facts is not None
    return Mark(model=MODEL, input=SOURCE, table=SOURCE, uuid=facts.uuid, snapshot_id=facts.snapshot_id)


def move_past(workshop: Workshop, why: str = "somebody knew better") -> None:
    """The watermark to where the source is now, whatever was consumed."""
    step = Advance(mark=mark_of(workshop), after=workshop.ledger.movements().get((MODEL, SOURCE), 0))
    workshop.ledger.move_watermarks([step], is_set=True, why=why, at=NOW, who="ada")


def a_load(workshop: Workshop, plan: Plan, *, is_staged_only: bool = False) -> Driver:
    """This plan, run as a load of the source as it is."""
    step = Advance(mark=mark_of(workshop), after=workshop.ledger.movements().get((MODEL, SOURCE), 0))
    driver = Driver(workshop.ledger, _as_load(plan, step), at=NOW)
    if is_staged_only:
        driver.stage()
        driver.prove()
        return driver
    driver.begin_publish()
    consumed = tuple(_consumed(workshop, slice) for planned in plan.models for slice in planned.slices)
    driver.publish(event=Published(snapshots={MODEL: 301}, consumed=consumed))
    return driver


def _as_load(plan: Plan, step: Advance) -> Plan:
    return replace(plan, load=Load(advances=(step,)))


def _consumed(workshop: Workshop, slice: Slice) -> Consumed:
    w = workshop.workspace
    records = Records(project=w.project, ledger=w.ledger, tables=w.tables)
    i = w.project.graph.models[MODEL].inputs[0]
    snapshot = mark_of(workshop).snapshot_id
    read = read_of(i, SliceSet(slice.grain, (slice.ordinal,)), slice.grain, snapshot)
    return Consumed(
        model=MODEL,
        slice=slice.label,
        input=SOURCE,
        table=SOURCE,
        snapshot_id=snapshot,
        content=content_of_read(read, None, records),
    )
