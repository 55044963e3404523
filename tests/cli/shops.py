"""Projects with real tables, made without a JVM, and runs that are told to a real ledger."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import DateType, DecimalType, LongType, NestedField, StringType

from retcon.core.events import (
    Certified,
    CheckedAfter,
    Event,
    Judged,
    ProvenSlice,
    ProvingBegan,
    PublishBegan,
    Published,
    RolledBack,
    RunOpened,
    StagedSlice,
    StagingDone,
    TablesOpened,
    WaveStaged,
)
from retcon.core.gates import Finding, Verdict
from retcon.core.plans import Plan, PlannedModel, to_document
from retcon.core.runs import Consumed, Run, RunTable, ScanEvidence
from retcon.core.slices import Slice
from retcon.wiring import Workspace
from tests.ledger.examples import certificate

FIRST = date(2026, 1, 1)
LAST = date(2026, 1, 10)
ORDERS, REVENUE = "mart.fct_orders_usd", "mart.fct_daily_revenue"
NOON = datetime(2026, 1, 22, 12, tzinfo=UTC)

_ORDERS = Schema(
    NestedField(1, "order_id", LongType()),
    NestedField(2, "order_date", DateType()),
    NestedField(3, "customer_id", LongType()),
    NestedField(4, "currency", StringType()),
    NestedField(5, "amount", DecimalType(12, 2)),
)
_RATES = Schema(
    NestedField(1, "rate_date", DateType()),
    NestedField(2, "currency", StringType()),
    NestedField(3, "rate", DecimalType(18, 8)),
)


def days(first: date = FIRST, last: date = LAST) -> list[date]:
    return [first + timedelta(days=number) for number in range((last - first).days + 1)]


def make_sources(root: Path, *, orders: list[date] | None = None, by_day: bool = True) -> None:
    """`raw.orders` with an order a day, and `raw.fx_rates` in one file from a week before."""
    (root / ".retcon").mkdir(exist_ok=True)
    catalog = SqlCatalog("lake", uri=f"sqlite:///{root}/.retcon/lake.db", warehouse=f"{root}/.retcon/warehouse")
    catalog.create_namespace("raw")
    held = days() if orders is None else orders
    spec = PartitionSpec(PartitionField(source_id=2, field_id=1000, transform=IdentityTransform(), name="order_date"))
    table = catalog.create_table("raw.orders", _ORDERS, partition_spec=spec if by_day else PartitionSpec())
    columns = {
        "order_id": pa.array(range(len(held)), pa.int64()),
        "order_date": pa.array(held),
        "customer_id": pa.array([7] * len(held), pa.int64()),
        "currency": pa.array(["EUR"] * len(held)),
        "amount": pa.array([Decimal("10.00")] * len(held), pa.decimal128(12, 2)),
    }
    table.append(pa.table(columns))
    known = days(min(held) - timedelta(days=7), max(held))
    rates = {
        "rate_date": pa.array(known),
        "currency": pa.array(["EUR"] * len(known)),
        "rate": pa.array([Decimal("1.1")] * len(known), pa.decimal128(18, 8)),
    }
    catalog.create_table("raw.fx_rates", _RATES).append(pa.table(rates))


class Recorder:
    """Takes one run through its states in a real ledger, a second passing with every step."""

    def __init__(self, workspace: Workspace, plan: Plan, *, at: datetime = NOON) -> None:
        self.ledger = workspace.ledger
        self.plan = plan
        self.at = at
        self.ledger.prepare()
        code = {model.name: f"SELECT 1 -- {model.name}" for model in plan.models}
        opened = RunOpened(plan=to_document(plan), code=code, parameters={})
        self.run: Run = self.ledger.open_run(plan, opened, at=at, who="ann")

    def tell(self, *events: Event) -> Recorder:
        for event in events:
            self.run = self.ledger.record(self.plan.id, event, at=self._tick(), who="ann")
        return self

    def stage(self, *, waves: int | None = None, base: int | None = 2**62) -> Recorder:
        """All waves of every model, or only the first few."""
        tables = tuple(
            RunTable(table=m.name, uuid=m.name, schema_id=0, spec_id=0, base_snapshot=base, made=base is None)
            for m in self.plan.models
        )
        self.tell(TablesOpened(tables=tables, pins={"raw.orders": 11}, run_ts="2026-01-22T12:00:00Z"))
        for model in self.plan.models:
            for number, wave in enumerate(model.waves[:waves], start=1):
                self.tell(_staged(model, number, list(wave)))
        return self if waves is not None else self.tell(StagingDone())

    def prove(self, *failed: str, base: bool = True, shift: Decimal = Decimal(0)) -> Recorder:
        """Verdicts on every model; the gates named as `model:gate` fail. Every metric is so much higher."""
        slices = tuple(_proven(model, slice, base, shift) for model in self.plan.models for slice in model.slices)
        judged = Judged(
            heads={model.name: 2**62 + 7 for model in self.plan.models},
            slices=slices,
            verdicts=tuple(
                _verdict(m.name, gate, f"{m.name}:{gate}" in failed)
                for m in self.plan.models
                for gate in (*m.gates, "schema")
            ),
            totals={m.name: _totals(m.name, slices) for m in self.plan.models},
        )
        return self.tell(ProvingBegan(), judged)

    def publish(self, *, followed_up: bool = True) -> Recorder:
        """With what follows a publish, unless the process ended then."""
        self.tell(PublishBegan(locations={}))
        consumed = tuple(
            Consumed(model=m.name, slice=s.label, input=i.name, table=i.table, snapshot_id=11, content="c")
            for m in self.plan.models
            for i in m.inputs
            for s in m.slices
        )
        event = Published(snapshots={m.name: 2**62 + 9 for m in self.plan.models}, consumed=consumed)
        self.run = self.ledger.publish(self.plan.id, event, [], at=self._tick(), who="ann")
        if not followed_up:
            return self
        held = {model.name: (*model.gates, "schema") for model in self.plan.models}
        made = tuple(certificate(m.name, slices=m.slices.text, published=2**62 + 9) for m in self.plan.models)
        return self.tell(Certified(tables=made), CheckedAfter(verdicts=(), held=held))

    def roll_back(self, reason: str = "finance disagrees") -> Recorder:
        event = RolledBack(reason=reason, snapshots={})
        self.run = self.ledger.roll_back(self.plan.id, event, [], at=self._tick(), who="ann")
        return self

    def _tick(self) -> datetime:
        self.at += timedelta(seconds=1)
        return self.at


def _staged(model: PlannedModel, number: int, slices: list[Slice]) -> WaveStaged:
    return WaveStaged(
        model=model.name,
        wave=number,
        snapshot_id=2**62 + number,
        slices=tuple(StagedSlice(slice=s.label, rows=100, bytes=4200, files=1) for s in slices),
        seconds=1.25,
        scans=tuple(ScanEvidence(input=i.table, scanned_files=2, scope_files=2, table_files=90) for i in model.inputs),
    )


def _proven(model: PlannedModel, slice: Slice, base: bool, shift: Decimal) -> ProvenSlice:
    """Revenue swings over the weeks, and the correction with it."""
    old = Decimal(100_000 + round(30_000 * math.sin(slice.ordinal / 5)))
    new = old + Decimal(round(2_500 * math.cos(slice.ordinal / 3))) + shift
    return ProvenSlice(
        model=model.name,
        slice=slice.label,
        rows=100,
        checksum=f"{slice.ordinal + int(shift):032x}",
        old_rows=100 if base else None,
        old_checksum="0" * 32 if base else None,
        metrics={"sum(amount_usd)": (str(old) if base else None, str(new))},
    )


def _totals(model: str, slices: tuple[ProvenSlice, ...]) -> Mapping[str, tuple[str | None, str | None]]:
    pairs = [s.metrics["sum(amount_usd)"] for s in slices if s.model == model]
    old = [Decimal(old) for old, _ in pairs if old is not None]
    return {"sum(amount_usd)": (str(sum(old)) if old else None, str(sum(Decimal(new or 0) for _, new in pairs)))}


def _verdict(model: str, gate: str, failed: bool) -> Verdict:
    found = [Finding(slice=None, text="sum(amount_usd) +31.0% in total, at most ±20.0% expected")]
    found += [Finding(slice=day.isoformat(), text="sum(amount_usd) +31.0%") for day in days()]
    return Verdict(model=model, gate=gate, kind=gate, summary=f"about {gate}", findings=tuple(found) if failed else ())
