"""A project folder with real Iceberg metadata and a real ledger, on SQLite: everything but Spark."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

from retcon.core.plans import Plan, PlannedInput, PlannedModel
from retcon.flow.plan import Ask
from retcon.ledger.store import SqlLedger
from retcon.wiring import Workspace
from tests.lakehouse.lakes import Lake

NOW = datetime(2026, 1, 22, 12, tzinfo=UTC)

SETTINGS = """\
name: shop
catalog: {{name: lake, type: jdbc, uri: "sqlite:///.retcon/lake.db", warehouse: .retcon/warehouse}}
{more}
"""


class Workshop:
    """Models that are written, tables that are made, plans that are asked for."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.now = NOW
        self.lake = Lake(root / ".retcon")
        self._plans = 0
        self._workspace: Workspace | None = None
        self.settings()

    def settings(self, more: str = "") -> None:
        (self.root / "retcon.yaml").write_text(SETTINGS.format(more=more))
        self._workspace = None

    def model(
        self, name: str, inputs: str = "raw.s: {time: d}", sql: str = "", *, slices: str = "by: d", keys: str = ""
    ) -> None:
        """A model that counts the rows of its (first) input by day, unless its SQL is given."""
        first = inputs.split(":")[0].strip("{ ")
        path = self.root / "models" / name.replace(".", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        self._workspace = None
        text = sql or f"SELECT d, count(*) AS n FROM {first} GROUP BY d"
        path.with_suffix(".sql").write_text(
            f"/* retcon\nslices: {{{slices}}}\ninputs: {{{inputs}}}\n{keys}\n*/\n{text}\n"
        )

    def remove(self, name: str) -> None:
        """Take a model out of the project."""
        (self.root / "models" / f"{name.replace('.', '/')}.sql").unlink()
        self._workspace = None

    @property
    def workspace(self) -> Workspace:
        """Everything that commands need; anew, as in a new process, when the project's files changed."""
        if self._workspace is None:
            self._workspace = Workspace(self.root, {}, clock=lambda: self.now, who="ada")
        return self._workspace

    @property
    def ledger(self) -> SqlLedger:
        """Made when it is first asked for."""
        ledger = self.workspace.ledger
        if not ledger.exists():
            ledger.prepare()
        return ledger

    def plan(self, *select: str, start: str | None = None, end: str | None = None, **ask: Any) -> Plan:
        self._plans += 1
        ask.setdefault("reason", "a test")
        return self.workspace.planner.plan(
            Ask(
                select=select,
                command="retcon plan …",
                by="ada",
                now=self.now,
                suffix=f"t{self._plans}",
                start=date.fromisoformat(start) if start else None,
                end=date.fromisoformat(end) if end else None,
                **ask,
            )
        )

    def shop(self) -> Workshop:
        """A source, and two models on top of one another; nothing is published."""
        self.lake.by_day("raw.s", "2026-01-01..2026-01-20")
        self.model("mart.a")
        self.model("mart.b", "mart.a: {time: d}", "SELECT d, n FROM mart.a")
        return self

    def publish_by_hand(self, name: str, slices: str) -> None:
        """A model's table as a publish leaves it."""
        self.lake.by_day(name, slices, number="n", properties={"retcon.model": name})


def share(plan: Plan, name: str) -> PlannedModel:
    found = plan.model(name)
    assert found is not None
    return found


def reading(plan: Plan, name: str, table: str) -> PlannedInput:
    return next(i for i in share(plan, name).inputs if i.table == table)


def scope(plan: Plan) -> dict[str, str]:
    return {model.name: model.slices.text for model in plan.models}


def tomorrow(days: int = 1) -> str:
    return (NOW + timedelta(days=days)).date().isoformat()


def chained(folder: Path) -> Workshop:
    """One model over nine published days, computed one after the other."""
    workshop = Workshop(folder)
    workshop.lake.by_day("raw.s", "2026-01-01..2026-01-09")
    workshop.publish_by_hand("mart.a", "2026-01-01..2026-01-09")
    workshop.model("mart.a", keys="replay: {order: sequential}")
    return workshop
