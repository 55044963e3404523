"""An executor of a cluster is killed in the middle of a wave: Spark goes on with another, and nothing is lost."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path

import pytest

from retcon.core.runs import RunState
from tests.java_servers import running
from tests.shops import Shop
from tests.spark.test_backfills import RECOMPUTED_ORDERS

WAITS_ONCE = """
import os
from time import sleep

from retcon.models import udf

MARKER = {marker!r}


@udf("BIGINT")
def dawdling(order_id):
    if order_id == 4 and not os.path.exists(MARKER):
        with open(MARKER, "w"):
            pass
        sleep(600)
    return order_id
"""


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port: int = taken.getsockname()[1]
        return port


def children(pid: int) -> Iterator[tuple[int, str]]:
    """Every process below this one, with its command line."""
    for entry in Path("/proc").iterdir():
        try:
            parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1]) if entry.name.isdigit() else 0
            command = (entry / "cmdline").read_text().replace("\0", " ") if parent == pid else ""
        except (FileNotFoundError, ProcessLookupError):
            continue
        if parent == pid:
            yield int(entry.name), command
            yield from children(int(entry.name))


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[str]:
    """A master and a worker of Spark's own cluster, on loopback."""
    spec = find_spec("pyspark")
    assert spec is not None
    assert spec.origin is not None
    start = str(Path(spec.origin).parent / "bin" / "spark-class")
    environ = {"SPARK_LOCAL_IP": "127.0.0.1", "SPARK_WORKER_DIR": str(tmp_path / "work"), "SPARK_NO_DAEMONIZE": "1"}
    port = free_port()
    log = tmp_path / "worker.log"

    def answers() -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", port)) == 0

    here = ["--host", "127.0.0.1", "--webui-port", "0"]
    master = [start, "org.apache.spark.deploy.master.Master", *here, "--port", str(port)]
    worker = [start, "org.apache.spark.deploy.worker.Worker", *here, "--cores", "2", "--memory", "1g"]
    url = f"spark://127.0.0.1:{port}"
    with ExitStack() as stack:
        stack.enter_context(running(master, tmp_path / "master.log", answers, environ=environ))
        is_up = lambda: log.exists() and "Successfully registered" in log.read_text()  # noqa: E731
        stack.enter_context(running([*worker, url], log, is_up, environ=environ))
        yield url


@pytest.mark.soak
def test_an_executor_that_is_killed_in_a_wave_costs_time_and_nothing_else(
    shop: Shop, cluster: str, tmp_path: Path
) -> None:
    shop.open_doors()
    marker = tmp_path / "begun"
    (shop.root / "functions.py").write_text(WAITS_ONCE.format(marker=str(marker)))
    shop.edit("mart.orders_usd", "SELECT o.order_id", "SELECT dawdling(o.order_id) AS order_id")
    settings = shop.root / "retcon.yaml"
    with_cluster = settings.read_text().replace("local[2]", cluster)
    settings.write_text(with_cluster.replace("spark.driver.memory: 1g", "spark.driver.host: 127.0.0.1"))
    plan = shop.plan("mart.orders_usd", wave=8)
    shop.workspace.write_plan(plan)
    shop.close()
    process = subprocess.Popen(
        [sys.executable, "-m", "retcon", "apply", plan.id, "--project", str(shop.root)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        deadline = time.monotonic() + 120
        while not marker.exists():
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < deadline, "no wave began"
            time.sleep(0.2)
        # The worker's child, and so this process's, however deep.
        executors = [pid for pid, command in children(os.getpid()) if "CoarseGrainedExecutorBackend" in command]
        assert executors
        for pid in executors:
            os.kill(pid, signal.SIGKILL)
        out, err = process.communicate(timeout=240)
    finally:
        process.kill()
    assert process.returncode == 0, out + err
    shop.close()
    assert shop.production("mart.orders_usd") == shop.rows(RECOMPUTED_ORDERS)
    run = shop.workspace.ledger.run(plan.id)
    assert run is not None
    assert run.state is RunState.PUBLISHED
    assert [wave.attempts for wave in shop.workspace.ledger.waves(plan.id)] == [1]
