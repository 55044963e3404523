"""What a table goes through in its life, in any order, beside a record kept in plain Python of what it must hold."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import date, timedelta
from decimal import ROUND_HALF_UP, Decimal
from typing import Any

import pytest
from pyiceberg.manifest import ManifestEntryStatus
from pyiceberg.table import Table

from retcon.core.chains import first_broken_link
from retcon.core.plans import Plan
from retcon.core.runs import Run, RunState
from retcon.core.slices import Grain, SliceSet
from retcon.errors import GatesFailed, Refused
from retcon.flow.apply import Until
from retcon.flow.sweep import sweep
from tests.crashes import Rows, dying, iceberg, require_files, rows_of
from tests.shops import FIRST, ORDERS, REVENUE, Shop

DAYS = 4
RAW, FINE, COARSE = "raw.orders", "mart.orders_usd", "mart.revenue"
MODELS = (FINE, COARSE)
_DRIFT = "  - drift: {metric: sum(%s), within: 50%%}\n"


@dataclass(frozen=True)
class Step:
    """One thing that happens; the numbers say to what, and how, in its own way."""

    what: str
    day: int = 0
    number: int = 0
    dies_at: int | None = None
    """The how many-th hit of a fault point ends the process, if it comes so far."""


@dataclass(frozen=True, kw_only=True)
class Order:
    day: int
    currency: str
    customer: str
    amount: Decimal

    @property
    def usd(self) -> Decimal:
        rate = Decimal(1) if self.currency == "USD" else 1 + Decimal(self.day + 7) / 100
        return (self.amount * rate).quantize(Decimal("0.0001"), ROUND_HALF_UP)


Orders = Mapping[int, Order]


@dataclass(kw_only=True)
class Known:
    """A run, as its record was last seen, and what is known of it beside that."""

    plan: Plan
    state: RunState = RunState.PLANNED
    before: Mapping[str, Rows] = field(default_factory=dict)
    """Rows of its slices, by table, just before its publish."""
    may_be_refused: bool = False
    """Others did something since that can stand in its way, or in the way of its undoing."""

    @property
    def is_open(self) -> bool:
        return not self.state.is_over


def a_row(**values: Any) -> tuple[Any, ...]:
    return tuple(sorted(values.items()))


def day_of(row: tuple[Any, ...]) -> date:
    found = dict(row)["order_date"]
    assert isinstance(found, date)
    return found


def as_fine(orders: Orders) -> Rows:
    """What the first model makes of the source."""
    return Counter(
        a_row(
            order_id=number,
            order_date=FIRST + timedelta(days=order.day),
            currency=order.currency,
            customer=order.customer,
            amount_usd=order.usd,
        )
        for number, order in orders.items()
    )


def as_coarse(fine: Rows) -> Rows:
    """What the second makes of the first."""
    groups: dict[tuple[date, str], list[Decimal]] = {}
    for row in fine.elements():
        values = dict(row)
        groups.setdefault((values["order_date"], values["currency"]), []).append(values["amount_usd"])
    return Counter(
        a_row(order_date=day, currency=currency, orders=len(amounts), revenue_usd=sum(amounts))
        for (day, currency), amounts in groups.items()
    )


def inside(rows: Rows, days: set[date]) -> Rows:
    return Counter({row: n for row, n in rows.items() if day_of(row) in days})


def orders_in(rows: Rows) -> set[int]:
    return {dict(row)["order_id"] for row in rows}


def days_of(plan: Plan, model: str) -> set[date]:
    planned = plan.model(model)
    return set() if planned is None else {date.fromisoformat(slice.label) for slice in planned.slices}


@dataclass
class History:
    """All that was ever seen in a table's metadata, expired or not."""

    added: dict[str, int] = field(default_factory=dict)
    """By path, the last commit that added it."""
    deleted: dict[str, int] = field(default_factory=dict)
    """By path, the first commit that took it out."""
    publishes: dict[str, set[int]] = field(default_factory=dict)
    """Snapshots by run."""
    _seen: set[int] = field(default_factory=set)

    def look(self, table: Table) -> None:
        for snapshot in table.metadata.snapshots:
            if snapshot.snapshot_id in self._seen:
                continue
            self._seen.add(snapshot.snapshot_id)
            marks = dict(snapshot.summary.additional_properties) if snapshot.summary is not None else {}
            if "retcon.run" in marks and not marks.keys() & {"retcon.wave", "retcon.round"}:
                self.publishes.setdefault(marks["retcon.run"], set()).add(snapshot.snapshot_id)
            number = snapshot.sequence_number or 0
            for manifest in snapshot.manifests(table.io):
                if manifest.added_snapshot_id != snapshot.snapshot_id:
                    continue
                for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=False):
                    path = entry.data_file.file_path
                    if entry.snapshot_id != snapshot.snapshot_id:
                        continue
                    if entry.status is ManifestEntryStatus.ADDED:
                        self.added[path] = max(number, self.added.get(path, number))
                    elif entry.status is ManifestEntryStatus.DELETED:
                        self.deleted[path] = min(number, self.deleted.get(path, number))
        for path, gone in self.deleted.items():
            assert self.added.get(path, 0) <= gone, f"{path} was deleted, and came back"


class Life:
    """A shop of four days, in which anything may happen at any time."""

    def __init__(self, shop: Shop) -> None:
        self.shop = shop
        self.raw: dict[int, Order] = {}
        self.shows: dict[str, Rows] = {FINE: Counter(), COARSE: Counter()}
        """What production must hold."""
        self.pinned: dict[tuple[str, int], Any] = {}
        """The source's orders and the first model's rows, at each of their snapshots."""
        self.runs: dict[str, Known] = {}
        self.forgotten: set[int] = set()
        self.history = {name: History() for name in MODELS}
        self.told: list[str] = []
        self._next_order = 1000

    def begin(self) -> Life:
        """Sources, and a first publish of both models."""
        shop = self.shop
        shop.write(FINE, ORDERS.replace(_DRIFT % "amount_usd", "").replace("replay: {wave: 3}", "replay: {wave: 1}"))
        shop.write(COARSE, REVENUE.replace("gates:\n" + _DRIFT % "revenue_usd", ""))
        shop.sql("CREATE NAMESPACE IF NOT EXISTS raw")
        shop.sql(
            f"CREATE TABLE {RAW} (order_id BIGINT, order_date DATE, currency STRING, customer STRING, "
            "amount DECIMAL(12,2)) USING iceberg PARTITIONED BY (order_date)"
        )
        shop.sql(
            "CREATE TABLE raw.rates USING iceberg PARTITIONED BY (rate_date) AS "
            f"SELECT date_add(DATE '{FIRST}', CAST(id AS INT)) AS rate_date, c AS currency, "
            f"CAST(if(c = 'USD', 1, 1.07 + id / 100) AS DECIMAL(12,6)) AS rate FROM range({DAYS}) "
            "LATERAL VIEW explode(array('USD', 'EUR')) AS c"
        )
        self._load({n: self._an_order(n, n % DAYS) for n in range(3 * DAYS)}, RAW)
        plan = shop.plan(end=self._date(DAYS - 1).isoformat())
        self.runs[plan.id] = Known(plan=plan)
        self._note_pins()
        shop.apply(plan)
        self.settle()
        self.check()
        return self

    def live(self, step: Step) -> None:
        """One step, and all that must hold after it."""
        getattr(self, step.what)(step)
        self.settle()
        self.check()

    # ── what retcon does ──────────────────────────────────────────────────────────────────────────────────────────

    def start(self, step: Step) -> None:
        """Plan some days, and bring the run as far as drawn."""
        select = (f"+{COARSE}", FINE, f"+{COARSE}", COARSE)[step.number % 4]
        last = min(step.day + step.number // 4, DAYS - 1)
        days = [self._date(day) for day in range(step.day, last + 1)]
        if select == COARSE and not all(inside(self.shows[FINE], {day}) for day in days):
            with pytest.raises(Refused, match=f"{FINE} has no data for"):
                self.shop.plan(select, start=days[0].isoformat(), end=days[-1].isoformat())
            return
        plan = self.shop.plan(select, start=days[0].isoformat(), end=days[-1].isoformat())
        self.runs[plan.id] = Known(plan=plan)
        self._apply(plan, (Until.STAGED, Until.PROVEN, Until.PUBLISHED)[step.number % 3], step.dies_at)

    def go_on(self, step: Step) -> None:
        """An open run, to its end or to its proof."""
        known = self._one(step, lambda known: known.is_open)
        if known is None:
            self.start(step)
        else:
            self._apply(known.plan, Until.PROVEN if step.number == 5 else Until.PUBLISHED, step.dies_at)

    def roll_back(self, step: Step) -> None:
        first = next(iter(self.runs.values()))
        known = self._one(
            step, lambda known: known.state is RunState.PUBLISHED and (known is not first or step.day == 3)
        )
        if known is None:
            self.start(step)
            return

        def act() -> None:
            run = self._run(known)
            if run.state is not RunState.ROLLED_BACK:
                self.shop.rollback(run)

        published = self._run(known).published
        is_late = published is not None and self.shop.now > published + timedelta(days=14)
        self._drive(known, act, step.dies_at, may_be_refused=known.may_be_refused or is_late)

    def cancel(self, step: Step) -> None:
        known = self._one(step, lambda known: known.is_open)
        if known is not None and self.shop.workspace.ledger.run(known.plan.id) is not None:
            self._drive(known, lambda: self.shop.cancel(self._run(known)), step.dies_at, may_be_refused=False)

    def sweep(self, step: Step) -> None:
        self.shop.now += timedelta(days=(0, 0, 0, 3, 8, 15)[step.number])
        w = self.shop.workspace
        heads = self._heads()
        with self._maybe_dying(step.dies_at):
            sweep(w.outline, w.ledger, w.tables, w.clock(), dry=False)
        assert self._heads() == heads

    # ── what others do ────────────────────────────────────────────────────────────────────────────────────────────

    def append(self, step: Step) -> None:
        """The nightly load: into the source, and mostly into the first model as well."""
        number = self._next_order
        self._next_order += 1
        new = {number: self._an_order(number, step.day)}
        self._load(new, RAW)
        if step.number:
            self._load(new, FINE)
            self._disturb(step.day, undoing_only=True)

    def correct(self, step: Step) -> None:
        """The source's amounts of a day are other ones from now on."""
        self.shop.sql(f"UPDATE {RAW} SET amount = amount + 1 WHERE order_date = DATE '{self._date(step.day)}'")
        for number, order in self.raw.items():
            if order.day == step.day:
                self.raw[number] = replace(order, amount=order.amount + 1)
        self._note_pins()
        self._disturb_unopened()

    def forget(self, step: Step) -> None:
        """Somebody must be forgotten, in the model and in the source; one order of a day always stays."""
        theirs = sorted(number for number, order in self.raw.items() if order.day == step.day)
        if len(theirs) < 2:
            return
        number = theirs[step.number % len(theirs)]
        is_shown = any(dict(row)["order_id"] == number for row in self.shows[FINE])
        mode = "merge-on-read" if step.number % 2 else "copy-on-write"
        self.shop.sql(f"ALTER TABLE {FINE} SET TBLPROPERTIES ('write.delete.mode' = '{mode}')")
        for table in (FINE, RAW):
            self.shop.sql(f"DELETE FROM {table} WHERE order_id = {number}")
        del self.raw[number]
        self.shows[FINE] = Counter({row: n for row, n in self.shows[FINE].items() if dict(row)["order_id"] != number})
        if is_shown:
            self.forgotten.add(number)
        self._note_pins()
        self._disturb(step.day)
        self._disturb_unopened()

    def compact(self, step: Step) -> None:
        table = (*MODELS, RAW)[step.number % 3]
        self.shop.sql(f"CALL lake.system.rewrite_data_files(table => '{table}', options => map('rewrite-all', 'true'))")
        self._note_pins()

    def expire(self, step: Step) -> None:
        """Only the newest snapshot of each ref stays: by Spark's procedure, or by Iceberg's core."""
        table = (*MODELS, RAW)[step.number % 3]
        if step.number < 3:
            self.shop.sql(
                f"CALL lake.system.expire_snapshots(table => '{table}', retain_last => 1, "
                "older_than => TIMESTAMP '2100-01-01 00:00:00')"
            )
        else:
            later = int(time.time() * 1000) + 60_000
            self._in_java(table).expireSnapshots().expireOlderThan(later).retainLast(1).commit()
        for known in self.runs.values():
            known.may_be_refused = True

    def remove_orphans(self, step: Step) -> None:
        """With no age at all: the action under the procedure, which asks for a day."""
        actions = self.shop.workspace.spark._jvm.org.apache.iceberg.spark.actions.SparkActions  # type: ignore[union-attr] # set on a live session
        table = self._in_java((*MODELS, RAW)[step.number % 3])
        actions.get().deleteOrphanFiles(table).olderThan(int(time.time() * 1000) + 60_000).execute()

    # ── what must hold ────────────────────────────────────────────────────────────────────────────────────────────

    def settle(self) -> None:
        """What became of each run by its record: production must be that, all of it."""
        for known in self.runs.values():
            run = self.shop.workspace.ledger.run(known.plan.id)
            if run is None or run.state is known.state:
                continue
            days = {model.name: days_of(known.plan, model.name) for model in known.plan.models}
            if run.state is RunState.PUBLISHED:
                known.before = {name: inside(self.shows[name], of) for name, of in days.items()}
                computed = self._computed(run)
                there = orders_in(known.before.get(FINE, Counter())) & set(self.raw)
                # In the source and in production: no older pin may take it away.
                assert there <= orders_in(computed.get(FINE, Counter())), "rows of others are lost"
                self._show(computed, days)
                self._require_planned_work(run)
            elif run.state is RunState.ROLLED_BACK:
                self._show(known.before, days)
            self.told.append(f"{known.state.value} -> {run.state.value}")
            if run.state in (RunState.PUBLISHED, RunState.ROLLED_BACK):
                for other in self.runs.values():
                    if other is not known and any(of & days_of(other.plan, name) for name, of in days.items()):
                        other.may_be_refused = True
                known.may_be_refused = False
            known.state = run.state
        self._note_pins()

    def check(self) -> None:
        ledger = self.shop.workspace.ledger
        for name in MODELS:
            table = iceberg(self.shop, name)
            assert table is not None
            found = rows_of(table)
            assert found == self.shows[name], f"{name}: {found - self.shows[name]} but {self.shows[name] - found}"
            require_files(table)
            history = self.history[name]
            history.look(table)
            for run_id, known in self.runs.items():
                is_out = name in {model.name for model in known.plan.models} and known.state in (
                    RunState.PUBLISHED, RunState.ROLLED_BACK,
                )  # fmt: skip
                assert len(history.publishes.get(run_id, ())) == is_out, f"{run_id} in {name}: {history.publishes}"
        assert not self.forgotten & {dict(row)["order_id"] for row in self.shows[FINE]}, "somebody is remembered"
        for run_id in self.runs:
            assert first_broken_link(ledger.events(run_id)) is None

    def _computed(self, run: Run) -> dict[str, Rows]:
        """The run's slices, from the inputs that it pinned."""
        found: dict[str, Rows] = {}
        for planned in run.plan.models:
            days = days_of(run.plan, planned.name)
            if planned.name == FINE:
                found[FINE] = inside(as_fine(self.pinned[RAW, run.pins[RAW] or 0]), days)
            elif FINE in found:
                assert days == days_of(run.plan, FINE)
                found[COARSE] = as_coarse(found[FINE])
            else:
                found[COARSE] = as_coarse(inside(self.pinned[FINE, run.pins[FINE] or 0], days))
        return found

    def _show(self, rows: Mapping[str, Rows], days: Mapping[str, set[date]]) -> None:
        for name, of in days.items():
            self.shows[name] = self.shows[name] - inside(self.shows[name], of) + rows[name]

    def _require_planned_work(self, run: Run) -> None:
        """The plan is what was done: each slice in one wave, and all of them published."""
        for planned in run.plan.models:
            waves = [wave for wave in self.shop.workspace.ledger.waves(run.id) if wave.model == planned.name]
            labels = Counter(s.label for wave in waves for s in SliceSet.parse(Grain.DAY, wave.slices))
            assert labels == Counter(slice.label for slice in planned.slices)
            table = iceberg(self.shop, planned.name)
            assert table is not None
            [summary] = [
                s.summary for s in table.metadata.snapshots
                if s.summary is not None and s.summary.get("retcon.run") == run.id
                and not s.summary.get("retcon.wave") and not s.summary.get("retcon.round")
            ]  # fmt: skip
            assert summary.get("retcon.slices") == planned.slices.text

    # ── parts ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def _apply(self, plan: Plan, until: Until, dies_at: int | None) -> None:
        known = self.runs[plan.id]

        def act() -> None:
            run = self.shop.workspace.ledger.run(plan.id)
            if run is None or not run.state.is_over:
                self.shop.apply(plan, until=until)

        self._drive(known, act, dies_at, may_be_refused=known.may_be_refused)

    def _drive(self, known: Known, act: Callable[[], object], dies_at: int | None, *, may_be_refused: bool) -> None:
        """Act and maybe die of it; then mostly again, and once more, which changes nothing."""
        heads, state = self._heads(), known.state
        try:
            with self._maybe_dying(dies_at) as died:
                act()
            if died() and dies_at is not None and dies_at % 3:
                with dying(None):
                    act()
                self.shop.close()
                recovered = self._heads()
                with dying(None):
                    act()
                assert self._heads() == recovered, "recovered twice"
        except (Refused, GatesFailed) as refusal:
            self.told.append(re.sub(r"\d{4,}\w*", "#", str(refusal)))
            if not may_be_refused:
                raise
        run = self.shop.workspace.ledger.run(known.plan.id)
        if run is None or run.state is state or run.state not in (RunState.PUBLISHED, RunState.ROLLED_BACK):
            assert self._heads() == heads, "nothing was published, and production is another"

    @contextmanager
    def _maybe_dying(self, at: int | None) -> Iterator[Callable[[], bool]]:
        with dying(None if at is None else at + 1) as reaper:
            yield lambda: reaper.is_dead
        if reaper.is_dead:
            self.told.append(f"died at {reaper.heard[-1]}")
            self.shop.close()

    def _one(self, step: Step, which: Callable[[Known], bool]) -> Known | None:
        found = [known for known in self.runs.values() if which(known)]
        return found[-1 - (step.day % len(found))] if found else None

    def _run(self, known: Known) -> Run:
        run = self.shop.workspace.ledger.run(known.plan.id)
        assert run is not None
        return run

    def _heads(self) -> list[Any]:
        tables = [iceberg(self.shop, name) for name in MODELS]
        return [None if table is None else table.metadata.current_snapshot_id for table in tables]

    def _note_pins(self) -> None:
        for name, content in ((RAW, dict(self.raw)), (FINE, Counter(self.shows[FINE]))):
            table = iceberg(self.shop, name)
            if table is not None and table.metadata.current_snapshot_id is not None:
                self.pinned[name, table.metadata.current_snapshot_id] = content

    def _disturb(self, day: int, *, undoing_only: bool = False) -> None:
        """Somebody wrote to this day: what was added is taken along by a publish, and lost by none."""
        for known in self.runs.values():
            touched = any(self._date(day) in days_of(known.plan, model.name) for model in known.plan.models)
            if touched and not (undoing_only and known.is_open):
                known.may_be_refused = True

    def _disturb_unopened(self) -> None:
        """A plan whose inputs changed before it pinned them is refused."""
        for known in self.runs.values():
            run = self.shop.workspace.ledger.run(known.plan.id)
            if run is None or not run.tables:
                known.may_be_refused = True

    def _an_order(self, number: int, day: int) -> Order:
        currency = "EUR" if number % 3 == 0 else "USD"
        return Order(
            day=day, currency=currency, customer=f"c{number % 5}", amount=Decimal(number) * Decimal("1.25") + 10
        )

    def _load(self, orders: Orders, table: str) -> None:
        values = ", ".join(
            f"({n}, DATE '{self._date(o.day)}', '{o.currency}', '{o.customer}', {o.amount if table == RAW else o.usd})"
            for n, o in orders.items()
        )
        self.shop.sql(f"INSERT INTO {table} VALUES {values}")
        if table == RAW:
            self.raw |= orders
        else:
            self.shows[table] = self.shows[table] + as_fine(orders)
        self._note_pins()
        self._disturb_unopened()

    def _in_java(self, table: str) -> Any:
        spark = self.shop.workspace.spark
        util = spark._jvm.org.apache.iceberg.spark.Spark3Util  # type: ignore[union-attr] # set on a live session
        return util.loadIcebergTable(spark._jsparkSession, f"lake.{table}")

    @staticmethod
    def _date(day: int) -> date:
        return FIRST + timedelta(days=day)
