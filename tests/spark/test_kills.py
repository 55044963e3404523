"""kill -9, for real: a process ended at a step, and whoever comes next goes on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

import pytest

from retcon.core.runs import RunState
from tests.crash_points import COVERS
from tests.crashes import Trial, iceberg, require_sound, rows_of
from tests.shops import Shop

ROOT = Path(__file__).parents[2]
MODELS = ("mart.orders_usd", "mart.revenue")
ROWS = (96, 16)


def call(shop: Shop, step: str, side: str, *command: str) -> subprocess.CompletedProcess[str]:
    """The command in a process of its own, killed at the step if it comes to it."""
    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    return subprocess.run(
        [sys.executable, "-m", "tests.killed", step, side, "--", *command, "--project", str(shop.root)],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "PYTHONPATH": path},
        check=False,
    )


def killed(shop: Shop, step: str, side: str, *command: str) -> None:
    ended = call(shop, step, side, *command)
    assert ended.returncode == -signal.SIGKILL, f"{step}, {side}: {ended.returncode} {ended.stderr}"


def done(shop: Shop, *command: str) -> None:
    ended = call(shop, "none", "before", *command)
    assert ended.returncode == 0, ended.stderr


def shown(shop: Shop) -> tuple[int, ...]:
    """Rows that readers see."""
    shop.close()
    return tuple(rows_of(iceberg(shop, model)).total() for model in MODELS)


def planned(shop: Shop) -> str:
    plan = shop.plan(wave=4)
    shop.workspace.write_plan(plan)
    shop.close()
    return plan.id


def sound(shop: Shop, run: str) -> RunState | None:
    require_sound(Trial(shop=shop, run=run, tables=MODELS, act=lambda: None, check=lambda: None))
    standing = shop.workspace.ledger.run(run)
    return None if standing is None else standing.state


@pytest.mark.spark
def test_killed_while_staging_publishing_and_rolling_back_a_run_is_published_once_and_rolled_back_once(
    shop: Shop,
) -> None:
    shop.open_doors()
    run = planned(shop)
    for step, state in (
        ("ledger migrated", None),
        ("wave committed", RunState.STAGING),
        ("pointers swapped, COMMIT not sent", RunState.PUBLISHING),
    ):
        killed(shop, step, "after", "apply", run)
        assert shown(shop) == (0, 0)
        assert sound(shop, run) is state
    attempts = Counter(wave.attempts for wave in shop.workspace.ledger.waves(run))
    assert attempts == {1: 4}, "what was on its branch is not computed again"
    shop.now = datetime.now(UTC)  # as it is for the other processes
    published = shop.apply(shop.workspace.read_plan(run))
    assert shown(shop) == ROWS
    assert sound(shop, run) is RunState.PUBLISHED
    killed(shop, "pointers swapped, COMMIT not sent", "after", "rollback", run, "--reason", "a test")
    assert shown(shop) == ROWS
    shop.rollback(published)
    assert shown(shop) == (0, 0)
    assert sound(shop, run) is RunState.ROLLED_BACK


@pytest.mark.soak
@pytest.mark.parametrize("side", ["before", "after"])
@pytest.mark.parametrize("step", sorted(COVERS["a backfill"]))
def test_killed_at_each_step_twice_over(shop: Shop, step: str, side: str) -> None:
    """In the first process, and again in the one that recovers, if it comes there once more."""
    shop.open_doors()
    run = planned(shop)
    killed(shop, step, side, "apply", run)
    assert shown(shop) in ((0, 0), ROWS)
    sound(shop, run)
    call(shop, step, side, "apply", run)
    assert shown(shop) in ((0, 0), ROWS)
    sound(shop, run)
    done(shop, "apply", run)
    assert shown(shop) == ROWS
    assert sound(shop, run) is RunState.PUBLISHED
