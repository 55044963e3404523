"""Which snapshots a run reads: each looked up once, and only where it is asked for."""

from __future__ import annotations

from typing import Any, cast

import pytest

from retcon.core.runs import Run, RunState
from retcon.flow.context import _Snapshots
from retcon.flow.ports import Tables
from tests.ledger.examples import AGG, ANN, FCT, NOON, a_plan, tables_opened


class Heads:
    """Tables that note what is asked of them."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str]] = []

    def head(self, name: str, branch: str) -> int:
        self.asked.append((name, branch))
        return len(self.asked)


def test_a_branch_is_looked_up_when_its_table_is_asked_for_and_once() -> None:
    plan = a_plan("run_a", models=(FCT, AGG))
    opened = tables_opened(plan)
    run = Run(
        id=plan.id, kind="backfill", state=RunState.STAGING, plan=plan, by=ANN, created=NOON, updated=NOON,
        tables={table.table: table for table in opened.tables}, pins={**opened.pins, FCT: 7},
    )  # fmt: skip
    heads = Heads()
    snapshots = _Snapshots(run, cast("Tables", cast("Any", heads)))
    assert snapshots["raw.orders"] == 11
    assert snapshots["raw.new"] is None
    assert FCT in snapshots
    assert "raw.nowhere" not in snapshots
    with pytest.raises(KeyError):
        snapshots["raw.nowhere"]
    assert heads.asked == []
    assert snapshots[FCT] == snapshots[FCT] == 1, "its branch, whatever was pinned of it"
    assert heads.asked == [(FCT, "retcon_run_a")]
    assert dict(snapshots) == {"raw.orders": 11, "raw.new": None, FCT: 1, AGG: 2}
    assert len(snapshots) == 4
