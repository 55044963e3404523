"""Sources that insert, correct, move, delete and deliver late, by chance; after every load the tables are what a full
recomputation gives, but for slices that a rollback holds, and for exceptions on record.

`RETCON_EXAMPLES` says how many histories are drawn (2), `RETCON_STEPS` how long each is (10), `RETCON_SEED` which (1).
"""

from __future__ import annotations

import os
import shutil
from contextlib import closing
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, note, seed, settings
from hypothesis import strategies as st

from retcon.core.exceptions import Decision
from retcon.core.runs import RunState
from retcon.core.slices import SliceSet
from retcon.core.watermarks import Advance
from retcon.flow.plan import Ask
from retcon.wiring import new_suffix
from tests.conftest import SQLITE
from tests.crashes import dying
from tests.shops import Shop
from tests.spark.test_backfills import RECOMPUTED_ORDERS, RECOMPUTED_REVENUE

pytestmark = pytest.mark.spark

EXAMPLES = int(os.environ.get("RETCON_EXAMPLES", "2"))
STEPS = int(os.environ.get("RETCON_STEPS", "10"))
SEED = int(os.environ.get("RETCON_SEED", "1"))
MODELS = {"mart.orders_usd": RECOMPUTED_ORDERS, "mart.revenue": RECOMPUTED_REVENUE}
WHAT = ("insert", "insert", "correct", "move", "delete", "rate", "pound", "compact", "load", "load", "load_dies",
        "backfill", "roll_back", "reset", "expire", "decide")  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Step:
    what: str
    day: int
    number: int


STEP = st.builds(Step, what=st.sampled_from(WHAT), day=st.integers(1, 8), number=st.integers(0, 40))


class History:
    """A shop whose sources change."""

    def __init__(self, shop: Shop) -> None:
        self.shop = shop
        self._orders = 1000

    def live(self, step: Step) -> None:
        self.shop.now += timedelta(minutes=1)
        getattr(self, step.what)(step)

    # ── what sources do ───────────────────────────────────────────────────────────────────────────────────────────

    def insert(self, step: Step) -> None:
        self._orders += 1
        self.shop.sql(f"INSERT INTO raw.orders VALUES ({self._orders}, {day(step.day)}, 'EUR', 'c', {step.number})")

    def correct(self, step: Step) -> None:
        self.shop.sql(f"UPDATE raw.orders SET amount = amount + 1 WHERE order_id % 41 = {step.number}")

    def move(self, step: Step) -> None:
        self.shop.sql(f"UPDATE raw.orders SET order_date = {day(step.day)} WHERE order_id % 41 = {step.number}")

    def delete(self, step: Step) -> None:
        self.shop.sql(f"DELETE FROM raw.orders WHERE order_id % 41 = {step.number} AND order_id >= 40")

    def rate(self, step: Step) -> None:
        self.shop.sql(f"UPDATE raw.rates SET rate = rate + 0.01 WHERE rate_date = {day(step.day)} AND currency = 'EUR'")

    def pound(self, step: Step) -> None:
        """Makes no difference: nobody buys in pounds."""
        self.shop.sql(f"INSERT INTO raw.rates VALUES ({day(step.day)}, 'GBP', 1.2)")

    def compact(self, step: Step) -> None:
        table = "raw.orders" if step.number % 2 else "mart.orders_usd"
        self.shop.sql(f"CALL lake.system.rewrite_data_files(table => '{table}', options => map('rewrite-all', 'true'))")

    def expire(self, _: Step) -> None:
        self.shop.sql("CALL lake.system.expire_snapshots(table => 'raw.orders', retain_last => 1, "
                      "older_than => TIMESTAMP '2100-01-01 00:00:00')")  # fmt: skip

    # ── what people do ────────────────────────────────────────────────────────────────────────────────────────────

    def load(self, _: Step) -> None:
        self.shop.close()
        unfinished = self.shop.workspace.loader.unfinished(tuple(MODELS))
        if unfinished is not None:
            self.shop.apply(unfinished.plan)
        self.shop.load()
        assert self.shop.due().plan is None, "a load left something behind"
        self.require_kept_up()

    def load_dies(self, step: Step) -> None:
        """Whatever it had in hand, the next one goes on with it."""
        with dying(step.number + 1):
            self.load(step)
        self.shop.close()
        with dying(None):
            self.load(step)

    def backfill(self, step: Step) -> None:
        self.finish()
        last = min(step.day + step.number % 3, 8)
        self.shop.backfill(start=f"2026-01-0{step.day}", end=f"2026-01-0{last}")

    def roll_back(self, _: Step) -> None:
        self.finish()
        newest = next((run for run in self.shop.workspace.ledger.runs() if run.state is RunState.PUBLISHED), None)
        is_first = len(self.shop.workspace.ledger.runs()) == 1
        if newest is not None and newest.as_published.plan.models and not is_first:
            self.shop.rollback(newest)

    def reset(self, _: Step) -> None:
        ledger = self.shop.workspace.ledger
        movements = ledger.movements()
        steps = [Advance(mark=w.mark, after=movements[key]) for key, w in ledger.watermarks().items()]
        ledger.move_watermarks(steps, is_set=False, why="a test", at=self.shop.now, who="ada")

    def decide(self, step: Step) -> None:
        """Of what is too old for the window."""
        self.finish()
        w, entries = self.shop.workspace, self.shop.workspace.ledger.exceptions()
        if not entries:
            return
        if step.number % 2:
            w.late_changes.reject(entries, at=self.shop.now, by="cfo", reason="audited")
            return
        ask = Ask(
            select=(), reason="from the bank", command="-", by="cfo", now=self.shop.now, suffix=new_suffix()
        )  # fmt: skip
        plan = w.late_changes.plan(w.project.graph.models[entries[0].late.model], entries, ask)
        w.late_changes.approve(entries, plan, at=self.shop.now)
        self.shop.apply(plan)

    def finish(self) -> None:
        unfinished = self.shop.workspace.loader.unfinished(tuple(MODELS))
        if unfinished is not None:
            self.shop.apply(unfinished.plan)

    # ── what must hold ────────────────────────────────────────────────────────────────────────────────────────────

    def require_kept_up(self) -> None:
        for model, recomputed in MODELS.items():
            held = self.held(model) | self.late(model)
            where = f"order_date NOT IN ({', '.join(f'DATE {label!r}' for label in held)})" if held else "true"
            found = self.shop.rows(f"SELECT * FROM {model} WHERE {where}")
            assert found == self.shop.rows(f"SELECT * FROM ({recomputed}) WHERE {where}"), model

    def held(self, model: str) -> set[str]:
        """What rollbacks hold, here and in what is read."""
        ledger, graph = self.shop.workspace.ledger, self.shop.workspace.project.graph
        names = [model, *(name for name in MODELS if model in graph.descendants(name))]
        return {slice.label for name in names for slice in SliceSet.labelled(
            graph.models[name].grain, ledger.held_slices(name))}  # fmt: skip

    def late(self, model: str) -> set[str]:
        """What is on record and isn't restated, here and in what is read."""
        ledger, graph = self.shop.workspace.ledger, self.shop.workspace.project.graph
        names = [model, *(name for name in MODELS if model in graph.descendants(name))]
        newest = [each for name in names for each in ledger.newest_exceptions(name).values()]
        return {each.late.slice for each in newest if each.decision is not Decision.RESTATED}


def day(number: int) -> str:
    return f"DATE '2026-01-0{number}'"


@seed(SEED)
@settings(
    max_examples=EXAMPLES,
    deadline=None,
    database=None,
    phases=(Phase.explicit, Phase.generate),
    suppress_health_check=list(HealthCheck),
)
@given(steps=st.lists(STEP, min_size=STEPS, max_size=STEPS), is_windowed=st.booleans())
def test_loads_keep_up_with_whatever_sources_do(
    tmp_path_factory: pytest.TempPathFactory, steps: list[Step], is_windowed: bool
) -> None:
    note(f"RETCON_SEED={SEED} RETCON_EXAMPLES={EXAMPLES} RETCON_STEPS={STEPS}")
    place = tmp_path_factory.getbasetemp()
    root: Path = place / "a shöp"
    with closing(Shop(root, SQLITE, keep=place / "kept")) as shop:
        try:
            history = History(shop)
            shop.open_for_business()
            if is_windowed:
                note("four of the eight days are older than the window")
                shop.edit("mart.orders_usd", "replay: {wave: 3}", "replay: {wave: 3, window: 17 days}")
            for step in (*steps, Step(what="load", day=1, number=0)):
                note(str(step))
                history.live(step)
        finally:
            shop.close()
            shutil.rmtree(root)
