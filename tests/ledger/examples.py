"""Plans, events and runs for the tests of the ledger."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import asdict, replace
from datetime import UTC, date, datetime, timedelta
from typing import Any

from retcon.core.certificates import TableCertificate
from retcon.core.events import (
    ApplyBegan,
    Cancelled,
    Certified,
    CheckedAfter,
    Event,
    GateOverridden,
    InputsJudged,
    Judged,
    Paused,
    ProvenSlice,
    ProvingBegan,
    PublishBegan,
    Published,
    PublishRefused,
    Rebased,
    Rebuilt,
    Reproduced,
    Resumed,
    RollbackBegan,
    RolledBack,
    RunOpened,
    SampleChecked,
    SlicesKept,
    StagedSlice,
    StagingDone,
    TablesOpened,
    WaveFailed,
    WaveStaged,
)
from retcon.core.gates import Finding, Verdict
from retcon.core.intervals import Interval
from retcon.core.limits import Limits
from retcon.core.plans import Origin, Plan, PlannedInput, PlannedModel, Request, Role, to_document
from retcon.core.pointers import PointerSwap
from retcon.core.runs import Consumed, Rebase, Run, RunState, RunTable, ScanEvidence
from retcon.core.slices import Grain, SliceSet
from retcon.ledger.store import SqlLedger

FCT = "mart.fct_daily_revenue"
AGG = "mart.agg_monthly"
NOON = datetime(2026, 1, 22, 12, 0, 0, 123456, tzinfo=UTC)
ANN = "ann@example.org"
FIRST_DAY = date(2025, 10, 25)


def a_plan(
    run: str = "20260122_fct_k3f9",
    *,
    models: tuple[str, ...] = (FCT,),
    days: int = 4,
    wave: int = 2,
    force: bool = True,
) -> Plan:
    """A plan over some days from 25 October 2025, cut into waves; most tests aren't about runs in each other's way."""
    first = Grain.DAY.ordinal(FIRST_DAY)
    slices = SliceSet.span(Grain.DAY, first, first + days - 1)
    return Plan(
        id=run,
        reason="FX rates were wrong: «café» 'quoted' \"twice\" 東京 🙂; DROP TABLE retcon_runs; --",
        created=NOON,
        by=ANN,
        request=Request(models=models, start="2025-10-25", end="2025-10-28", command="retcon plan …", force=force),
        interval=Interval.of_edges(FIRST_DAY, FIRST_DAY + timedelta(days=days - 1)),
        timezone="UTC",
        models=tuple(_planned(name, slices, wave) for name in models),
        outside=(),
        settings="settings-fingerprint",
        limits=asdict(Limits()),
    )


def _planned(name: str, slices: SliceSet, wave: int) -> PlannedModel:
    cuts = range(0, len(slices), wave)
    read = PlannedInput(
        name="o",
        table="raw.orders",
        origin=Origin.SOURCE,
        slices=slices,
        snapshot_id=11,
        files=4,
        rows=400,
        bytes=4000,
        content="c0ffee",
        missing=SliceSet(slices.grain),
    )
    return PlannedModel(
        name=name,
        role=Role.SELECTED,
        slices=slices,
        waves=tuple(SliceSet(slices.grain, slices.ordinals[at : at + wave]) for at in cuts),
        open=SliceSet(slices.grain),
        is_new=False,
        fingerprint=f"code of {name}",
        inputs=(read,),
        gates=("rows",),
        consumers=("exec_dashboard",),
    )


def opened(plan: Plan) -> RunOpened:
    return RunOpened(
        plan=to_document(plan),
        code={model.name: f"SELECT 1 -- {model.name}" for model in plan.models},
        parameters={"fx_source": "ecb", "n": 3},
    )


def tables_opened(plan: Plan) -> TablesOpened:
    return TablesOpened(
        tables=tuple(
            RunTable(table=m.name, uuid=f"uuid-{m.name}", schema_id=0, spec_id=0, base_snapshot=2**62 + 1, made=False)
            for m in plan.models
        ),
        pins={"raw.orders": 11, "raw.new": None},
        run_ts="2026-01-22T12:00:00Z",
    )


def wave_staged(plan: Plan, wave: int, model: str = FCT, *, rows: int = 100) -> WaveStaged:
    return WaveStaged(
        model=model,
        wave=wave,
        snapshot_id=2**62 + 100 + wave,
        slices=tuple(
            StagedSlice(slice=slice.label, rows=rows, bytes=rows * 10, files=1 if rows else 0)
            for slice in _model(plan, model).waves[wave - 1]
        ),
        seconds=1.25,
        scans=(ScanEvidence(input="o", scanned_files=2, scope_files=2, table_files=90),),
    )


def all_staged(plan: Plan, empty: Collection[str] = ()) -> list[WaveStaged]:
    """Every wave of a plan, with rows in every slice but these."""
    staged = [
        wave_staged(plan, number, model.name) for model in plan.models for number in range(1, len(model.waves) + 1)
    ]
    return [
        replace(wave, slices=tuple(replace(s, rows=0, files=0) if s.slice in empty else s for s in wave.slices))
        for wave in staged
    ]


def verdict(gate: str, *, model: str = FCT, kind: str = "drift", failed: bool = False) -> Verdict:
    findings = (Finding(slice="2025-10-25", text="+31%"), Finding(slice=None, text="+30% in total")) if failed else ()
    return Verdict(model=model, gate=gate, kind=kind, summary=f"about {gate}", findings=findings)


def judged(plan: Plan, *verdicts: Verdict, checksum: str = "sum") -> Judged:
    return Judged(
        heads={model.name: 2**62 + 200 for model in plan.models},
        slices=tuple(
            ProvenSlice(
                model=model.name,
                slice=slice.label,
                rows=100,
                checksum=f"{checksum}-{slice.label}",
                old_rows=90,
                old_checksum=None,
                metrics={"sum(revenue_usd)": ("90.00", "100.10"), "count(*)": (None, "100")},
            )
            for model in plan.models
            for slice in model.slices
        ),
        verdicts=verdicts or (verdict("rows", kind="rows"),),
        totals={model.name: {"sum(revenue_usd)": ("360.00", None)} for model in plan.models},
    )


def rebased(plan: Plan, *labels: str, number: int = 1) -> Rebased:
    """Others wrote to these slices of every model, to the first where none is named."""
    tables = tuple(
        replace(
            opened,
            base_snapshot=2**62 + 50,
            rebase=Rebase(round=number, head=2**62 + 200, restaged=labels or (FIRST_DAY.isoformat(),)),
        )
        for opened in tables_opened(plan).tables
    )
    return Rebased(
        round=number,
        tables=tables,
        pins={"raw.orders": 12, "raw.new": None},
        slices={model.name: labels or (FIRST_DAY.isoformat(),) for model in plan.models},
        commits={model.name: ("snapshot 7 (append)",) for model in plan.models},
        replaced={},
    )


def published(plan: Plan, *, snapshot: int = 301) -> Published:
    return Published(
        snapshots={model.name: snapshot for model in plan.models},
        consumed=tuple(
            Consumed(
                model=model.name,
                slice=slice.label,
                input="o",
                table="raw.orders",
                snapshot_id=11,
                content=f"content of {slice.label}",
            )
            for model in plan.models
            for slice in model.slices
        ),
    )


def rebuilt(plan: Plan, *, undone: bool = False, lost: bool = False) -> Rebuilt:
    """What tables tell of a publish; `lost`: of a run that the ledger doesn't have at all."""
    return Rebuilt(
        tables=tuple(replace(table, published_snapshot=301) for table in tables_opened(plan).tables),
        published=NOON.isoformat(),
        undone=undone,
        source="the snapshots' summaries",
        plan=to_document(plan) if lost else None,
    )


def swap(table: str = FCT, *, old: str = "m0.json", new: str = "m1.json", snapshot: int = 301) -> PointerSwap:
    return PointerSwap(table=table, old_location=old, new_location=new, snapshot_id=snapshot)


def certificate(table: str = FCT, **changes: Any) -> TableCertificate:
    """Of a publish that did what it should."""
    told: dict[str, Any] = {
        "slices": "2025-10-25..2025-10-28",
        "base": 101,
        "published": 301,
        "files_outside": 5,
        "rows_outside": 60,
        "digest_before": "d1",
        "digest_after": "d1",
        "files_replaced": 4,
        "files_inside": 4,
        "rows_inside": 48,
        "manifests_shared": 2,
        "manifests_opened": 3,
        "is_proven_inside": True,
        "is_proven_whole": True,
    }
    return TableCertificate(table=table, **{**told, **changes})


def an_event(kind: type[Event], plan: Plan) -> Event:
    """One event of each kind, that fits the plan."""
    examples: dict[type[Event], Event] = {
        RunOpened: opened(plan),
        ApplyBegan: ApplyBegan(
            until="proven", max_active=2, overrides=("drift",), versions={"retcon": "0.1.0"}, conf={"spark.x": "1"}
        ),
        TablesOpened: tables_opened(plan),
        InputsJudged: InputsJudged(verdicts=(verdict("valid.raw.customers", kind="valid", failed=True),)),
        WaveStaged: wave_staged(plan, 1),
        WaveFailed: WaveFailed(model=FCT, wave=1, error="executor lost"),
        SlicesKept: SlicesKept(model=FCT, slices={FIRST_DAY.isoformat(): 100}),
        StagingDone: StagingDone(),
        ProvingBegan: ProvingBegan(),
        Judged: judged(plan),
        GateOverridden: GateOverridden(model=FCT, gate="drift", reason="known: new prices"),
        SampleChecked: SampleChecked(
            model=FCT, seed=plan.id, rows=2, keys=("0a", "1b"), snapshots=(None, 301), by="ann", note="as expected"
        ),
        PublishBegan: PublishBegan(locations={FCT: "m1.json"}),
        PublishRefused: PublishRefused(why="somebody wrote 2025-10-26"),
        Rebased: rebased(plan),
        Published: published(plan),
        Certified: Certified(tables=(certificate(),)),
        CheckedAfter: CheckedAfter(
            verdicts=(verdict("unique", failed=True),), held={FCT: ("rows",)}, unjudged={f"{FCT}:empty": "gone"}
        ),
        Paused: Paused(why="Ctrl-C"),
        Resumed: Resumed(to=RunState.STAGING),
        Cancelled: Cancelled(reason="not needed"),
        RollbackBegan: RollbackBegan(
            reason="wrong after all", ways={FCT: "moved back"}, locations={FCT: "00003-c.metadata.json"}
        ),
        RolledBack: RolledBack(reason="wrong after all", snapshots={FCT: 302}),
        Reproduced: Reproduced(
            tried={FCT: "2025-10-25..2025-10-28"},
            same=2,
            differing={FCT: ("2025-10-26",)},
            impossible=1,
            why=("snapshot 7 of raw.orders has expired",),
            versions={"spark": "4.1.4"},
        ),
        Rebuilt: rebuilt(plan),
    }
    return examples[kind]


class Driver:
    """Takes one run through its states, a second passing with every step."""

    def __init__(self, ledger: SqlLedger, plan: Plan, *, at: datetime = NOON) -> None:
        self.ledger = ledger
        self.plan = plan
        self.at = at
        self.run: Run = ledger.open_run(plan, opened(plan), at=at, who=ANN)

    def tell(self, *events: Event) -> Run:
        for event in events:
            self.run = self.ledger.record(self.plan.id, event, at=self._tick(), who=ANN)
        return self.run

    def stage(self, *, empty: Collection[str] = ()) -> Run:
        return self.tell(tables_opened(self.plan), *all_staged(self.plan, empty), StagingDone())

    def prove(self, *verdicts: Verdict, checksum: str = "sum") -> Run:
        return self.tell(ProvingBegan(), judged(self.plan, *verdicts, checksum=checksum))

    def begin_publish(self, *, checksum: str = "sum", empty: Collection[str] = ()) -> Run:
        self.stage(empty=empty)
        self.prove(checksum=checksum)
        return self.tell(PublishBegan(locations={}))

    def publish(self, *swaps: PointerSwap, event: Published | None = None) -> Run:
        event = event or published(self.plan)
        self.run = self.ledger.publish(self.plan.id, event, swaps, at=self._tick(), who=ANN)
        return self.run

    def roll_back(self, *swaps: PointerSwap, reason: str = "wrong after all") -> Run:
        event = RolledBack(reason=reason, snapshots={swap.table: swap.snapshot_id for swap in swaps})
        self.run = self.ledger.roll_back(self.plan.id, event, swaps, at=self._tick(), who=ANN)
        return self.run

    def _tick(self) -> datetime:
        self.at += timedelta(seconds=1)
        return self.at


def a_publishing_run(ledger: SqlLedger, run: str = "run_a", *, models: tuple[str, ...] = (FCT,)) -> Driver:
    """A run that only waits for its swap."""
    driver = Driver(ledger, a_plan(run, models=models, days=2))
    driver.begin_publish()
    return driver


def published_run(
    ledger: SqlLedger, plan: Plan, *, at: datetime = NOON, checksum: str = "sum", empty: Collection[str] = ()
) -> Driver:
    """A run that was published without moving a pointer, some slices without rows."""
    driver = Driver(ledger, plan, at=at)
    driver.begin_publish(checksum=checksum, empty=empty)
    driver.publish()
    return driver


def named(plan: Plan, run: str) -> Plan:
    return replace(plan, id=run)


def _model(plan: Plan, name: str) -> PlannedModel:
    model = plan.model(name)
    assert model is not None
    return model
