"""A small project with real tables, driven as a person would drive it."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

from retcon.core.intervals import parse_edge
from retcon.core.plans import Plan
from retcon.core.runs import Run
from retcon.flow.apply import Override, Until, apply, open_run
from retcon.flow.cancel import cancel
from retcon.flow.context import Context
from retcon.flow.load import Due
from retcon.flow.plan import Ask
from retcon.flow.rollback import Undone, roll_back
from retcon.wiring import Workspace, new_suffix

NOW = datetime(2026, 1, 22, 12, tzinfo=UTC)
FIRST = date(2026, 1, 1)
DAYS = 8

JDBC = 'catalog: {{name: lake, type: jdbc, uri: "{uri}", warehouse: .retcon/warehouse}}'
REST = """\
catalog: {{name: lake, type: rest, uri: "{uri}", warehouse: anywhere}}
ledger: {{uri: "sqlite:///.retcon/ledger.db"}}"""

# For a hundred rows, compiling the plan costs more than running it. C1 alone has a small cache for its code: once that
# is full, all is compiled over and over.
SPARK_FOR_LITTLE = {
    "spark.driver.memory": "1g",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=256m -XX:+UseSerialGC -Xms1g "
    "-Xmn400m -XX:MetaspaceSize=400m",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.ui.explainMode": "simple",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}

SETTINGS = """\
name: shop
{catalog}
spark:
  master: "local[2]"
  conf:
{spark}
params: {{vip: "O'Brien \\"ü\\""}}
consumers:
  board: {{owner: cfo, kind: dashboard}}
"""

ORDERS = """\
/* retcon
slices: {by: order_date, every: day}
key: [order_date, order_id]
inputs:
  raw.orders: {time: order_date}
  raw.rates: {time: rate_date}
replay: {wave: 3}
gates:
  - rows: {min: 1}
  - unique: key
  - not_null: [amount_usd]
  - drift: {metric: sum(amount_usd), within: 50%}
*/
SELECT o.order_id, o.order_date, o.currency, o.customer, CAST(o.amount * r.rate AS DECIMAL(18, 4)) AS amount_usd
FROM raw.orders o
JOIN raw.rates r ON r.rate_date = o.order_date AND r.currency = o.currency
"""

REVENUE = """\
/* retcon
slices: {by: order_date, every: day}
key: [order_date, currency]
inputs:
  mart.orders_usd: {time: order_date}
gates:
  - drift: {metric: sum(revenue_usd), within: 50%}
consumers: [board]
*/
SELECT order_date, currency, count(*) AS orders, sum(amount_usd) AS revenue_usd
FROM mart.orders_usd
GROUP BY order_date, currency
"""


class Shop:
    """Orders in two currencies over eight days, their rates, and two models on top."""

    def __init__(self, root: Path, uri: str, catalog: str = JDBC, keep: Path | None = None) -> None:
        """`keep`: where tables are kept for the next shop in this very place; Iceberg's metadata holds whole paths."""
        self.root = root
        self._keep = keep
        root.mkdir(parents=True)
        spark = "\n".join(f"    {key}: {value}" for key, value in SPARK_FOR_LITTLE.items())
        (root / "retcon.yaml").write_text(SETTINGS.format(catalog=catalog.format(uri=uri), spark=spark))
        self.now = NOW
        self.max_active = 2
        self.environment: str | None = None
        self._workspace: Workspace | None = None
        self.write("mart.orders_usd", ORDERS)
        self.write("mart.revenue", REVENUE)

    # ── the project ───────────────────────────────────────────────────────────────────────────────────────────────

    def write(self, model: str, text: str) -> None:
        """Write or replace a model's file."""
        namespace, _, name = model.partition(".")
        path = self.root / "models" / namespace / f"{name}.sql"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        self.close()

    def remove(self, *models: str) -> None:
        """Take models out of the project."""
        for model in models:
            (self.root / "models" / f"{model.replace('.', '/')}.sql").unlink()
        self.close()

    def edit(self, model: str, old: str, new: str) -> None:
        """Change a model's text."""
        namespace, _, name = model.partition(".")
        path = self.root / "models" / namespace / f"{name}.sql"
        text = path.read_text()
        assert old in text
        self.write(model, text.replace(old, new))

    @property
    def workspace(self) -> Workspace:
        """Everything anew, as in a new process; Spark goes on."""
        if self._workspace is None:
            self._workspace = Workspace(self.root, clock=lambda: self.now, who="ada", environment=self.environment)
        return self._workspace

    def context(self, **changes: Any) -> Context:
        context = self.workspace.context(lambda _: None, max_active=self.max_active)
        context.backoff = lambda _: 0.0
        for name, value in changes.items():
            setattr(context, name, value)
        return context

    def close(self) -> None:
        """End the process, so to speak."""
        if self._workspace is not None:
            self._workspace.close()
        self._workspace = None

    # ── its tables ────────────────────────────────────────────────────────────────────────────────────────────────

    def sql(self, text: str) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in self.workspace.spark.sql(text).collect()]

    def rows(self, query: str) -> Counter[tuple[Any, ...]]:
        """The rows of a query as a multiset."""
        return Counter(self.sql(query))

    def open_doors(self) -> Shop:
        """Make the sources: a dozen orders a day, rates from a week before."""
        self.once("doors", self._make_sources)
        return self

    def open_for_business(self) -> Run:
        """The sources, and both models published as they are written above; gives the run."""

        def build() -> None:
            self.open_doors().backfill()

        self.once("business", build)
        return self.workspace.ledger.runs()[0]

    def once(self, name: str, make: Callable[[], object]) -> None:
        """Make tables and runs, or take those that were made before under this name; models' files aren't kept."""
        made = self.root / ".retcon"
        if self._keep is None:
            make()
        elif (self._keep / name).exists():
            self.close()
            shutil.copytree(self._keep / name, made, dirs_exist_ok=True)
        else:
            make()
            self.close()
            shutil.copytree(made, self._keep / name)

    def _make_sources(self) -> None:
        self.sql("CREATE NAMESPACE IF NOT EXISTS raw")
        self.sql(
            "CREATE TABLE raw.orders (order_id BIGINT, order_date DATE, currency STRING, customer STRING, "
            "amount DECIMAL(12,2)) USING iceberg PARTITIONED BY (order_date)"
        )
        self.sql("CREATE TABLE raw.rates (rate_date DATE, currency STRING, rate DECIMAL(12,6)) USING iceberg "
                 "PARTITIONED BY (rate_date)")  # fmt: skip
        self.sql(
            f"INSERT INTO raw.orders SELECT id, date_add(DATE '{FIRST}', CAST(id % {DAYS} AS INT)), "
            "if(id % 3 = 0, 'EUR', 'USD'), concat('c', id % 5), CAST(id * 1.25 + 10 AS DECIMAL(12,2)) "
            f"FROM range({DAYS * 12})"
        )
        self.sql(
            f"INSERT INTO raw.rates SELECT date_add(DATE '{FIRST}', CAST(id AS INT) - 7), c, "
            f"if(c = 'USD', 1, 1 + id / 100) FROM range({DAYS + 7}) LATERAL VIEW explode(array('USD', 'EUR')) AS c"
        )

    def production(self, model: str) -> Counter[tuple[Any, ...]]:
        return self.rows(f"SELECT * FROM {model}")

    def files(self, model: str) -> set[str]:
        """The data files that production shows."""
        return {path for (path,) in self.sql(f"SELECT file_path FROM {model}.files")}

    # ── the flow ──────────────────────────────────────────────────────────────────────────────────────────────────

    def plan(
        self, *select: str, start: str | None = None, end: str | None = None, dates: bool = True, **ask: Any
    ) -> Plan:
        """The days of the shop, where neither dates are given nor left out on purpose; runs left open don't matter."""
        workspace = self.workspace
        return workspace.planner.plan(
            Ask(
                select=select or ("+mart.revenue",),
                reason=ask.pop("reason", "a test"),
                force=ask.pop("force", True),
                command="retcon plan …",
                by="ada",
                now=self.now,
                suffix=new_suffix(),
                start=parse_edge(start, "start") if start else FIRST if dates else None,
                end=parse_edge(end, "end") if end else FIRST + timedelta(days=DAYS - 1) if dates else None,
                **ask,
            )
        )

    def open(self, plan: Plan) -> Run:
        w = self.workspace
        return open_run(plan, w.project, w.ledger, w.tables, w.clock, w.who)

    def apply(
        self,
        plan: Plan,
        until: Until = Until.PUBLISHED,
        override: Override | None = None,
        *,
        rebase: bool = True,
        **context: Any,
    ) -> Run:
        return apply(self.open(plan), self.context(**context), until=until, override=override, rebase=rebase)

    def backfill(self, *select: str, **ask: Any) -> Run:
        """Plan and apply in one go."""
        return self.apply(self.plan(*select, **ask))

    def due(self, *select: str) -> Due:
        """What `retcon load` would find."""
        w = self.workspace
        ask = Ask(
            select=(), reason="a load", command="retcon load", by="ada", now=self.now, suffix=new_suffix()
        )  # fmt: skip
        return w.loader.due(w.project.graph.select(select), ask)

    def load(self, *select: str, **context: Any) -> Run | None:
        """Load what changed, in one publish; None where nothing had to be."""
        due = self.due(*select)
        if due.plan is not None:
            return self.apply(due.plan, **context)
        self.workspace.loader.advance(due, self.now, "ada")
        return None

    def rollback(self, run: Run, reason: str = "a test", **context: Any) -> Undone:
        return roll_back(self.workspace.ledger.run(run.id) or run, reason, self.context(**context))

    def cancel(self, run: Run) -> Run:
        w = self.workspace
        return cancel(w.ledger.run(run.id) or run, "a test", w.ledger, w.tables, clock=w.clock, who=w.who)


class Meddling:
    """A part whose one method does something else first (or instead); all others are as they are."""

    def __init__(self, inner: Any, method: str, act: Callable[..., Any]) -> None:
        self._inner = inner
        self._method = method
        self._act = act

    def __getattr__(self, name: str) -> Any:
        real = getattr(self._inner, name)
        if name != self._method:
            return real
        return lambda *args, **kwargs: self._act(real, *args, **kwargs)
