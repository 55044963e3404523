"""retcon on the benchmark's tables: its projects, and what its commands do, in this process."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import date
from pathlib import Path
from tempfile import TemporaryDirectory

from orders import ORDERS_SQL, REVENUE_SQL
from retcon.core.runs import Run
from retcon.flow.apply import Until, apply, open_run
from retcon.flow.plan import Ask
from retcon.flow.rollback import roll_back
from retcon.wiring import Workspace, new_suffix

SETTINGS = """\
name: bench
catalog: {{name: lake, type: jdbc, uri: "sqlite:///.retcon/lake.db", warehouse: .retcon/warehouse}}
spark: {{master: "local[*]", conf: {{{conf}}}}}
limits: {{slices: 100000}}
"""
GATES = """\
gates:
  - rows: {{min: 1}}
  - unique: key
  - not_null: [{metric}]
  - drift: {{metric: sum({metric}), within: 20%}}
"""
SHOP = {
    "mart.fct_orders_usd": (
        "slices: {by: order_date, every: day}\nkey: [order_date, order_id]\ninputs:\n"
        "  raw.orders: {time: order_date}\n  raw.fx_rates: {time: rate_date}\n" + GATES.format(metric="amount_usd"),
        ORDERS_SQL.format(orders="raw.orders", rates="raw.fx_rates"),
    ),
    "mart.fct_revenue": (
        "slices: {by: order_date, every: day}\nkey: [order_date, currency, bucket]\ninputs:\n"
        "  mart.fct_orders_usd: {time: order_date}\n" + GATES.format(metric="revenue_usd"),
        REVENUE_SQL.format(fct="mart.fct_orders_usd"),
    ),
}
"""Of each model its keys and its query."""


def write_project(root: Path, models: Mapping[str, tuple[str, str]], *, conf: str = "spark.driver.memory: 6g") -> None:
    root.mkdir(parents=True, exist_ok=True)
    (root / "retcon.yaml").write_text(SETTINGS.format(conf=conf))
    for name, (keys, query) in models.items():
        file = Path(root, "models", *name.split(".")).with_suffix(".sql")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"/* retcon\n{keys}*/\n{query}\n")


@contextmanager
def folder_of_its_own() -> Iterator[Path]:
    """A folder that is gone afterwards."""
    with TemporaryDirectory(prefix="retcon-bench-") as name:
        yield Path(name)


class Driver:
    """What the commands `plan`, `apply`, `rollback` and `load` do, by the same functions, in this process."""

    def __init__(
        self, root: Path, select: Sequence[str] = (), start: date | None = None, end: date | None = None
    ) -> None:
        self.workspace = Workspace(root, who="bench")
        self._select, self._start, self._end = tuple(select), start, end

    def ask(self, wave: int | None = None) -> Ask:
        return Ask(
            select=self._select, reason="benchmark", command="-", by="bench", now=self.workspace.clock(),
            suffix=new_suffix(), start=self._start, end=self._end, wave=wave,
        )  # fmt: skip

    def ask_everything(self) -> Ask:
        """As a load asks: of all models, no dates."""
        return replace(self.ask(), select=(), start=None, end=None)

    def backfill(self, wave: int | None = None) -> Run:
        return self.go_on(self.opened(wave))

    def opened(self, wave: int | None = None) -> Run:
        w = self.workspace
        return open_run(w.planner.plan(self.ask(wave)), w.project, w.ledger, w.tables, w.clock, w.who)

    def go_on(self, run: Run, until: Until = Until.PUBLISHED) -> Run:
        return apply(run, self.workspace.context(lambda _: None), until=until)

    def changed(self) -> Ask:
        """What `plan --changed` asks for: slices whose inputs or code differ from what they were made of."""
        w = self.workspace
        ask = self.ask()
        found = {each.model: each.slices for each in w.finder.stale(w.project.graph.select(()), ask.now) if each.slices}
        return replace(ask, start=None, end=None, changed=True, found=found)

    def backfill_changed(self) -> Run:
        """`plan --changed` and `apply`."""
        w = self.workspace
        plan = w.planner.plan(self.changed())
        return self.go_on(open_run(plan, w.project, w.ledger, w.tables, w.clock, w.who))

    def roll_back(self, run: Run) -> None:
        roll_back(run, "benchmark", self.workspace.context(lambda _: None))

    def load(self) -> int:
        """`load`; the slices that were loaded."""
        w = self.workspace
        due = w.loader.due(w.project.graph.select(()), self.ask_everything())
        if due.plan is None:
            w.loader.advance(due, w.clock(), w.who)
            return 0
        self.go_on(open_run(due.plan, w.project, w.ledger, w.tables, w.clock, w.who))
        return due.plan.slices


def child_environ() -> dict[str, str]:
    """For processes of our own: these modules and retcon are found, as they are here."""
    here = [str(Path(__file__).parent), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(here)}
