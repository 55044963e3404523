"""The process dies before and after every step, and again while it recovers: nothing is lost, doubled or half shown."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from retcon.core.events import Reproduced
from retcon.core.exceptions import Decision, LateChange
from retcon.core.hand_checks import HandCheck
from retcon.core.plans import Plan
from retcon.core.row_diffs import RowKind, RowPair, nothing_differs
from retcon.core.runs import RunState
from retcon.core.schedules import Standing
from retcon.core.slices import Grain, SliceSet
from retcon.core.watermarks import Advance, Mark
from retcon.errors import Conflict, GatesFailed, Interrupted, Refused
from retcon.flow.apply import Override, Until
from retcon.flow.doctor import Checkup
from retcon.flow.follow_up import is_followed_up
from retcon.flow.hand_check import confirm
from retcon.flow.ports import Progress
from retcon.flow.reproduce import Wanted
from retcon.flow.schedule import taking
from retcon.flow.sweep import sweep
from retcon.wiring import new_claim
from tests.backups import saved_ledger
from tests.conftest import SQLITE
from tests.crash_points import COVERS
from tests.crashes import Trial, iceberg, try_every_crash
from tests.shops import ORDERS, Meddling, Shop
from tests.spark.test_reproducing import reproduced

BOTH = ("mart.orders_usd", "mart.revenue")
DAY = "2026-01-02"
FRESH = ORDERS.replace("replay: {wave: 3}\n", "")
WINDOWED = FRESH.replace(
    "raw.rates: {time: rate_date}", "raw.rates: {valid: {from: rate_date, to: until, key: [currency]}}"
)
FULL = """\
/* retcon
strategy: full
inputs: {raw.orders: {}}
columns: {order_date: date, size: "decimal(22,2)"}
*/
SELECT order_date, sum(amount) AS size FROM raw.orders GROUP BY order_date
"""


class Scenes:
    """Situations, each anew whenever it is asked for, and something to do in it."""

    def __init__(self, shop: Shop, folder: Path) -> None:
        self._folder = folder
        self._numbers = count(1000)
        self._later = timedelta()
        self._large = 100_000
        self.shop = shop
        self.shop.open_for_business()

    def a_backfill(self) -> Trial:
        plan = self._restating()
        return self._trial(plan, lambda: self.shop.apply(plan))

    def a_first_backfill(self) -> Trial:
        shop = self._new_shop().open_doors()
        shop.sql("ALTER TABLE raw.rates ADD COLUMN until DATE")
        shop.sql("UPDATE raw.rates SET until = rate_date + INTERVAL 1 DAY")
        shop.write(BOTH[0], WINDOWED)
        plan = shop.plan(wave=8)
        return self._trial(plan, lambda: shop.apply(plan), shop=shop)

    def a_new_column(self) -> Trial:
        model = self._fresh_model()
        self.shop.backfill(model, start=DAY, end=DAY)
        self.shop.edit(model, "o.customer,", "o.customer, upper(o.customer) AS loud,")
        plan = self.shop.plan(model, start=DAY, end=DAY)
        return self._trial(plan, lambda: self.shop.apply(plan), tables=(model,))

    def an_override(self) -> Trial:
        # Much more than all that is there: the one before may have been published.
        self._large *= 4
        plan = self._restating(amount=self._large)
        answer = Override(gates=("mart.orders_usd:drift", "mart.revenue:drift"), reason="a large order")
        return self._trial(plan, lambda: self.shop.apply(plan, override=answer))

    def a_wave_that_fails_and_a_pause(self) -> Trial:
        plan = self._restating()

        def fail(*_: Any) -> None:
            raise GatesFailed("a row is outside its wave")

        def interrupt(progress: Progress) -> None:
            if progress.step == "stage" and progress.done:
                raise KeyboardInterrupt

        def act() -> None:
            run = self.shop.workspace.ledger.run(plan.id)
            if run is None or run.state is not RunState.PUBLISHED:
                with suppress(GatesFailed):
                    self.shop.apply(plan, warehouse=Meddling(self.shop.context().warehouse, "stage", fail))
                with suppress(Interrupted):
                    self.shop.apply(plan, watch=interrupt)
            self.shop.apply(plan)

        return self._trial(plan, act)

    def a_reproduction(self) -> Trial:
        run = self.shop.workspace.ledger.runs()[-1]

        def check() -> None:
            events = self.shop.workspace.ledger.events(run.id, kind=Reproduced)
            assert all(event.body["same"] == 2 for event in events)

        some = Wanted(most=1)
        return Trial(shop=self.shop, run=run.id, tables=BOTH, act=lambda: reproduced(self.shop, run, some), check=check)

    def a_refused_publish(self) -> Trial:
        forgotten = next(self._numbers)
        self.shop.sql(f"INSERT INTO mart.orders_usd VALUES ({forgotten}, DATE '{DAY}', 'USD', 'by hand', 0)")
        plan = self._restating(amount=0)
        self.shop.apply(plan, until=Until.PROVEN)
        self.shop.sql(f"DELETE FROM mart.orders_usd WHERE order_date = DATE '{DAY}' AND order_id = {forgotten}")

        def act() -> None:
            with pytest.raises(Refused, match=DAY):
                self.shop.apply(plan)

        def check() -> None:
            run = self.shop.workspace.ledger.run(plan.id)
            assert run is not None
            assert run.state is RunState.PROVEN
            self.shop.cancel(run)

        return Trial(shop=self.shop, run=plan.id, tables=BOTH, act=act, check=check)

    def others_that_add_rows(self) -> Trial:
        plan = self._restating()
        self.shop.apply(plan, until=Until.PROVEN)
        # The nightly load: a late order, in raw and in the mart.
        late = next(self._numbers)
        self.shop.sql(f"INSERT INTO raw.orders VALUES ({late}, DATE '{DAY}', 'USD', 'night', 3)")
        self.shop.sql(f"INSERT INTO mart.orders_usd VALUES ({late}, DATE '{DAY}', 'USD', 'night', 3)")
        return self._trial(plan, lambda: self.shop.apply(plan))

    def a_cancellation(self) -> Trial:
        model = self._fresh_model()
        plan = self.shop.plan(model, start=DAY, end=DAY)
        run = self.shop.apply(plan, until=Until.STAGED)

        def check() -> None:
            assert iceberg(self.shop, model) is None, "it was made for this run alone"
            self.shop.remove(model)

        return Trial(shop=self.shop, run=plan.id, tables=(model,), act=lambda: self.shop.cancel(run), check=check)

    def a_rollback(self) -> Trial:
        return self._rolling_back(around=0)

    def a_rollback_around_others(self) -> Trial:
        return self._rolling_back(around=next(self._numbers))

    def a_sweep(self) -> Trial:
        model, shop = self._fresh_model(FULL), self.shop
        shop.backfill(model, dates=False)
        shop.edit(model, '"decimal(22,2)"', "string")
        shop.edit(model, "sum(amount) AS size", "CAST(sum(amount) AS STRING) AS size")
        run = shop.backfill(model, dates=False)
        old = run.tables[model].written
        self._later += timedelta(days=30)

        def act() -> None:
            w = shop.workspace
            sweep(w.outline, w.ledger, w.tables, shop.now + self._later, dry=False)

        def check() -> None:
            found = iceberg(shop, model)
            assert found is not None
            assert set(found.metadata.refs) == {"main"}
            assert iceberg(shop, old) is None

        return Trial(shop=shop, run=run.id, tables=(model,), act=act, check=check)

    def _rolling_back(self, around: int) -> Trial:
        """With a row of somebody else's, of another day, that stays."""
        run = self.shop.apply(self._restating())
        if around:
            self.shop.sql(f"INSERT INTO mart.orders_usd VALUES ({around}, DATE '2026-01-07', 'USD', 'other', 1)")
        before = [self.shop.rows(f"SELECT * FROM {table}.tag_retcon_before_{run.id}") for table in BOTH]
        if around:
            before[0] += self.shop.rows(f"SELECT * FROM mart.orders_usd WHERE order_id = {around}")

        def act() -> None:
            standing = self.shop.workspace.ledger.run(run.id)
            assert standing is not None
            if standing.state is not RunState.ROLLED_BACK:
                self.shop.rollback(run)

        def check() -> None:
            assert [self.shop.production(table) for table in BOTH] == before

        return Trial(shop=self.shop, run=run.id, tables=BOTH, act=act, check=check)

    def a_REST_catalog(self) -> Trial:
        return self.a_backfill()

    def a_REST_catalog_that_says_no(self) -> Trial:
        plan = self._restating()

        def write_first(real: Callable[..., None], requests: Sequence[str]) -> None:
            other = next(self._numbers)
            self.shop.sql(f"INSERT INTO mart.orders_usd VALUES ({other}, DATE '2026-01-07', 'USD', 'other', 1)")
            real(requests)

        def act() -> None:
            with suppress(Conflict):
                self.shop.apply(plan, catalog=Meddling(self.shop.workspace.group_commits, "commit", write_first))
            self.shop.apply(plan)

        def check() -> None:
            run = self.shop.workspace.ledger.run(plan.id)
            assert run is not None
            assert run.state is RunState.PUBLISHED

        return Trial(shop=self.shop, run=plan.id, tables=BOTH[1:], act=act, check=check)

    def a_decision(self) -> Trial:
        ledger, late = self.shop.workspace.ledger, LateChange(model=BOTH[0], slice=DAY, contents={}, because_of=())
        late = replace(late, contents={"raw.orders": f"files:{next(self._numbers)}"})
        ledger.move_watermarks((), (late,), is_set=True, why="a test", at=self.shop.now, who="ada")

        def act() -> None:
            entries = self.shop.workspace.ledger.exceptions()
            if entries:
                self.shop.workspace.late_changes.reject(entries, at=self.shop.now, by="cfo", reason="audited")

        def check() -> None:
            newest = self.shop.workspace.ledger.newest_exceptions(BOTH[0])[DAY]
            assert (newest.late.contents, newest.decision) == (late.contents, Decision.REJECTED)

        return Trial(shop=self.shop, run="none", tables=BOTH, act=act, check=check)

    def a_check_by_hand(self) -> Trial:
        run, note = self.shop.workspace.ledger.runs()[-1], f"looked at {next(self._numbers)}"
        pair = RowPair(slice=DAY, kind=RowKind.ADDED, times=1, key={"order_id": "7"}, old=None, new={}, differs=())
        diff = nothing_differs(self.shop.workspace.project.graph.model(BOTH[0]), SliceSet(Grain.DAY), 0)
        check = HandCheck(diff=replace(diff, sample=(pair,)), seed=run.id, inputs=(), snapshots=(1, 2))

        def act() -> None:
            ledger = self.shop.workspace.ledger
            confirm(run, [check], ledger, by="cfo", note=note, at=self.shop.now, who="ada")

        def is_recorded_once() -> None:
            events = self.shop.workspace.ledger.events(run.id)
            assert [event.kind for event in events if event.body.get("note") == note] == ["SampleChecked"]

        return Trial(shop=self.shop, run="none", tables=BOTH, act=act, check=is_recorded_once)

    def an_adoption(self) -> Trial:
        model = self._fresh_model()
        self.shop.sql(
            f"CREATE TABLE {model} USING iceberg PARTITIONED BY (order_date) AS SELECT * FROM mart.orders_usd"
        )

        def act() -> None:
            w = self.shop.workspace
            if w.ledger.adoption(model) is None:
                w.adopter.adopt(model, "the nightly job's", clock=w.clock, who=w.who)

        def check() -> None:
            run = self.shop.backfill(model, start=DAY, end=DAY)
            assert run.state is RunState.PUBLISHED

        return Trial(shop=self.shop, run="none", tables=(model,), act=act, check=check)

    def a_restored_ledger(self) -> Trial:
        shop, plan = self.shop, self._restating()
        shop.apply(plan, until=Until.PROVEN)
        restore = saved_ledger(shop.root / ".retcon" / "lake.db", self._folder / f"backup {next(self._numbers)}.db")
        published = shop.apply(plan)
        shop.close()
        restore()

        def examine(*, repair: bool) -> Checkup:
            return shop.workspace.doctor(print).examine(repair=repair, all_files=True, watch=lambda _: None)

        def act() -> None:
            standing = shop.workspace.ledger.run(plan.id)
            assert standing is not None
            if standing.state is RunState.PROVEN:
                for refused in (shop.apply, shop.open):
                    with pytest.raises(Refused, match="the tables know more than the ledger"):
                        refused(plan)
                with pytest.raises(Refused, match="the tables know more than the ledger"):
                    shop.cancel(standing)
            examine(repair=True)

        def check() -> None:
            assert examine(repair=False).troubles == ()
            run = shop.workspace.ledger.run(plan.id)
            assert run is not None
            assert (run.state, shop.apply(plan)) == (RunState.PUBLISHED, run)
            for table in BOTH:
                assert run.tables[table].published_snapshot == published.tables[table].published_snapshot
            before = [shop.rows(f"SELECT * FROM {table}.tag_retcon_before_{run.id}") for table in BOTH]
            assert shop.rollback(run).run.state is RunState.ROLLED_BACK
            assert [shop.production(table) for table in BOTH] == before

        # While the record is behind, it tells another story than the tables: that is what it is about.
        return Trial(shop=shop, run="none", tables=BOTH, act=act, check=check)

    def a_load(self) -> Trial:
        self.shop.load()
        before = self._marks()
        self.shop.sql(f"INSERT INTO raw.orders VALUES ({next(self._numbers)}, DATE '{DAY}', 'EUR', 'late', 7)")
        # Makes no difference: nobody buys in pounds.
        self.shop.sql("INSERT INTO raw.rates VALUES (DATE '2026-01-04', 'GBP', 1.2)")
        plan = self.shop.due().plan
        assert plan is not None

        def check() -> None:
            moved = {(step.mark.model, step.mark.input): step.mark for step in plan.load.advances}
            assert self._marks() == {**before, **moved}
            assert len({self._marks()[key] for key in before} - set(before.values())) == len(moved)
            assert self.shop.due().plan is None

        def act() -> None:
            self.shop.apply(plan)

        return Trial(shop=self.shop, run=plan.id, tables=BOTH, act=act, check=check)

    def a_load_of_nothing(self) -> Trial:
        steps = self._unset()

        def check() -> None:
            assert self._marks() == {(step.mark.model, step.mark.input): step.mark for step in steps}

        return Trial(shop=self.shop, run="none", tables=BOTH, act=self.shop.load, check=check)

    def a_load_on_schedule(self) -> Trial:
        """A day later it is due again; who dies at it leaves it to the next process."""
        if not self.shop.workspace.schedules.standing(BOTH, self.shop.now):
            self.shop.edit(BOTH[1], "consumers: [board]\n", "consumers: [board]\nschedule: '0 4 * * *'\n")
        self.shop.load()
        self.shop.now += timedelta(days=1)

        def standing() -> list[Standing]:
            return self.shop.workspace.schedules.standing(BOTH, self.shop.now)

        def act() -> None:
            caller = replace(self.shop.workspace.caller(lambda _: None), is_gone=lambda _: True)
            with taking([each for each in standing() if each.is_due], caller, claim=new_claim()) as taken:
                if taken.turns:
                    self.shop.load()

        def check() -> None:
            [each] = standing()
            assert (each.is_due, each.turn.claim, each.turn.done) == (False, None, each.due)

        return Trial(shop=self.shop, run="none", tables=BOTH, act=act, check=check)

    def a_hook(self) -> Trial:
        settings = self.shop.root / "retcon.yaml"
        without = settings.read_text().partition("watermark_hooks")[0]
        settings.write_text(without)
        self.shop.close()
        steps = self._unset()
        told, script = self.shop.root / f"told {next(self._numbers)}", self.shop.root / "told.py"
        script.write_text("import sys; open(sys.argv[1], 'a').write(sys.stdin.read() + '\\n')")
        with_hook = f'watermark_hooks: {{board: {{command: ["{sys.executable}", "told.py", "{told.name}"]}}}}\n'
        settings.write_text(without + with_hook)
        self.shop.close()

        def act() -> None:
            self.shop.load()
            self.shop.workspace.deliverer.deliver(lambda _: None)

        def check() -> None:
            documents = [json.loads(line) for line in told.read_text().splitlines()]
            assert {(d["model"], d["input"]) for d in documents} == {(s.mark.model, s.mark.input) for s in steps}
            assert len({d["id"] for d in documents}) == len(steps), "the same movement has the same id"
            movements = [d["movement"] for d in documents]
            assert movements == sorted(movements)
            assert self.shop.workspace.ledger.undelivered() == []

        return Trial(shop=self.shop, run="none", tables=BOTH, act=act, check=check)

    def _unset(self) -> list[Advance]:
        """The watermarks as they would be without any: the next load moves them all, and publishes nothing."""
        self.shop.load()
        ledger, movements = self.shop.workspace.ledger, self.shop.workspace.ledger.movements()
        steps = [Advance(mark=mark, after=movements[key]) for key, mark in self._marks().items()]
        ledger.move_watermarks(steps, is_set=False, why="a test", at=self.shop.now, who="ada")
        assert self._marks() == {}
        return steps

    def _marks(self) -> dict[tuple[str, str], Mark]:
        return {key: watermark.mark for key, watermark in self.shop.workspace.ledger.watermarks().items()}

    def _new_shop(self) -> Shop:
        """In the place of the one before, whose doors it has."""
        root = self._folder / "a new shop"
        shutil.rmtree(root, ignore_errors=True)
        return Shop(root, SQLITE, keep=self._folder / "kept")

    def _fresh_model(self, text: str = FRESH) -> str:
        model = f"mart.fresh_{next(self._numbers)}"
        self.shop.write(model, text)
        return model

    def _restating(self, amount: int = 7) -> Plan:
        """A source that has one more order, and the plan that brings it in."""
        self.shop.sql(f"INSERT INTO raw.orders VALUES ({next(self._numbers)}, DATE '{DAY}', 'EUR', 'late', {amount})")
        return self.shop.plan(start=DAY, end=DAY)

    def _trial(
        self, plan: Plan, act: Callable[[], object], *, shop: Shop | None = None, tables: tuple[str, ...] = BOTH
    ) -> Trial:
        """One that ends with the run published, and production just what the queries give over all of raw."""
        of = shop or self.shop

        def check() -> None:
            run = of.workspace.ledger.run(plan.id)
            assert run is not None
            assert run.state is RunState.PUBLISHED
            assert is_followed_up(run, of.workspace.ledger)
            for planned in plan.models:
                days = f"order_date IN ({', '.join(f'DATE {slice.label!r}' for slice in planned.slices)})"
                query = of.workspace.project.graph.model(planned.name).query.text
                columns = ", ".join(of.workspace.spark.table(planned.name).columns)
                found = of.rows(f"SELECT {columns} FROM {planned.name} WHERE {days}")
                assert found == of.rows(f"SELECT {columns} FROM ({query}) WHERE {days}"), planned.name

        return Trial(shop=of, run=plan.id, tables=tables, act=act, check=check)


@pytest.fixture
def scenes(scene: str, request: pytest.FixtureRequest, tmp_path: Path) -> Scenes:
    return Scenes(request.getfixturevalue("rest_shop" if "REST" in scene else "shop"), tmp_path)


@pytest.mark.spark
@pytest.mark.parametrize("scene", COVERS)
def test_whatever_step_a_process_dies_at_the_next_one_goes_on(scene: str, scenes: Scenes) -> None:
    _die(scene, scenes)


@pytest.mark.soak
@pytest.mark.parametrize("scene", COVERS)
def test_a_first_process_and_the_one_that_recovers_die_at_each_step(scene: str, scenes: Scenes) -> None:
    _die(scene, scenes, apart=True)


def _die(scene: str, scenes: Scenes, *, apart: bool = False) -> None:
    begin = getattr(scenes, scene.replace(",", "").replace(" ", "_"))
    died = try_every_crash(begin, COVERS[scene], apart=apart)
    assert {(name, side) for name, side in died if name in COVERS[scene]} == {
        (name, side) for name in COVERS[scene] for side in ("before", "after")
    }
