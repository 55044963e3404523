"""The command line as a process: interrupted for real, and the demo as the README promises it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import chdir
from pathlib import Path
from time import monotonic, sleep

import pytest

from retcon.cli.main import run
from retcon.core.plans import Plan
from retcon.errors import Conflict
from tests.shops import Shop

pytestmark = pytest.mark.spark


def start(shop: Shop, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "retcon", *arguments, "--project", str(shop.root)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        bufsize=1,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )


def planned(shop: Shop) -> Plan:
    plan = shop.plan("mart.orders_usd", wave=1)
    shop.workspace.write_plan(plan)
    return plan


def test_control_c_pauses_a_run_that_is_gone_on_with_and_until_then_nobody_else_runs_it(shop: Shop) -> None:
    shop.open_doors()
    plan = planned(shop)
    process = start(shop, "apply", plan.id, "--max-active", "1")
    assert process.stderr is not None
    said: list[str] = []
    for line in process.stderr:
        said.append(line)
        if "staging" in line and "/8 slices" in line and "0/8" not in line:
            break
    with pytest.raises(Conflict, match=rf"is being run by .* \(process {process.pid}\)"):
        shop.apply(plan)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=120)
    told = "".join(said) + err
    assert process.returncode == 130, told
    assert "of 8 slices are staged" in told
    assert "production is untouched" in told
    assert f"retcon apply {plan.id}" in told
    assert "Traceback" not in told + out
    assert not shop.production("mart.orders_usd")

    shop.apply(plan)
    assert len(shop.production("mart.orders_usd")) == 96
    attempts = [wave.attempts for wave in shop.workspace.ledger.waves(plan.id)]
    assert all(attempts)
    assert sum(attempts) <= 9, "only what was under way is computed again"


SLOWLY = """
from time import sleep

from retcon.models import udf


@udf("BIGINT")
def slowly(order_id):
    if order_id % 8 >= 3:
        sleep(600)
    return order_id
"""


def staging_slowly(shop: Shop, plan: Plan) -> subprocess.Popen[str]:
    """An `apply` that staged three slices of eight, with a job for the fourth under way."""
    process = start(shop, "apply", plan.id, "--max-active", "1")
    ledger = shop.workspace.ledger
    deadline = monotonic() + 120
    while not (ledger.lease(plan.id) and ledger.tallies([plan.id])[plan.id].staged == 3):
        assert process.poll() is None, process.communicate()
        assert monotonic() < deadline
        sleep(0.2)
    sleep(2)
    return process


def test_a_run_is_paused_and_then_cancelled_from_another_terminal(shop: Shop) -> None:
    shop.open_doors()
    (shop.root / "functions.py").write_text(SLOWLY)
    shop.edit("mart.orders_usd", "SELECT o.order_id", "SELECT slowly(o.order_id) AS order_id")
    plan = planned(shop)
    driver = staging_slowly(shop, plan)
    began = monotonic()
    pause = start(shop, "pause", plan.id, "--reason", "the cluster is needed", "--json")
    out, err = pause.communicate(timeout=60)
    assert pause.returncode == 0, err
    assert monotonic() - began < 30, "it didn't wait for a job of ten minutes"
    assert (json.loads(out)["result"]["state"], json.loads(out)["result"]["staged"]["done"]) == ("paused", 3)
    assert f"(process {driver.pid}) to stop…" in err
    out, told = driver.communicate(timeout=60)
    assert driver.returncode == 130, told
    for line in ("the cluster is needed): 3 of 8 slices are staged, 5 aren't", "production is untouched"):
        assert line in told
    assert f"`retcon apply {plan.id}` goes on" in told
    assert "Traceback" not in told + out
    waves = shop.workspace.ledger.waves(plan.id)
    assert [wave.attempts for wave in waves] == [1, 1, 1, 0, 0, 0, 0, 0], "what was stopped didn't fail"

    driver = start(shop, "apply", plan.id)
    while shop.workspace.ledger.lease(plan.id) is None:
        assert driver.poll() is None, driver.communicate()
        sleep(0.2)
    cancel = start(shop, "cancel", plan.id, "--reason", "planned anew")
    _, err = cancel.communicate(timeout=90)
    assert cancel.returncode == 0, err
    _, told = driver.communicate(timeout=60)
    assert driver.returncode == 130, told
    assert "to cancel it: planned anew" in told
    assert shop.sql("SHOW TABLES IN mart") == [], "neither a branch nor the table that was made for it is left"


def test_the_demo_repairs_ninety_days_and_leaves_a_working_project(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with chdir(tmp_path):
        assert run(["demo", "--orders", "20", "--master", "local[2]"]) == 0, capsys.readouterr().err
    out = capsys.readouterr().out
    for shown in ("$ retcon plan", "$ retcon apply", "$ retcon diff", "$ retcon rollback", "$ retcon status"):
        assert shown in out
    assert "mart.fct_daily_revenue: the same rows, none missing, none too many." in out
    assert "all 4 tables in one transaction" in out
    project = tmp_path / "shop-demo"
    assert 'spark: {master: "local[2]", conf: {}}' in (project / "retcon.yaml").read_text()
    assert run(["history", "--json", "--project", str(project)]) == 0
    runs = json.loads(capsys.readouterr().out)["result"]
    text = json.dumps(runs)
    assert text.count('"published"') >= 2
    assert '"rolled_back"' in text
    assert run(["check", "--project", str(project)]) == 0


def test_no_setting_of_the_catalog_stands_on_the_command_line_of_the_jvm(shop: Shop) -> None:
    spark = shop.workspace.spark
    java = spark._jvm.java.lang.ProcessHandle.current().pid()  # type: ignore[union-attr] # set on a live session
    shown = subprocess.run(["ps", "-ww", "-o", "args=", "-p", str(java)], capture_output=True, text=True, check=True)
    assert "pyspark-shell" in shown.stdout
    assert "spark.sql.catalog" not in shown.stdout


def test_beside_a_spark_that_runs_already_no_java_is_looked_for(
    shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert shop.workspace.spark
    shop.close()
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nowhere"))
    assert shop.sql("SELECT 1") == [(1,)]
