"""Plan and apply on a real Spark cluster: a master and two workers on loopback, executors in processes of their own.

The benchmark's project, built and then restated by the command line with `spark.master: spark://…`; the rows are
compared with plain SQL over the sources, in a session without the cluster. Everything is stopped by its process id.
"""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec
from pathlib import Path

from orders import FIRST, hand_written, last_of, require_same, write_sources
from pages import table
from parts import options_of, say
from projects import SHOP, child_environ, folder_of_its_own, write_project
from results import SCALING, Found, tell
from retcon.wiring import Workspace

WORKERS = 2
EXECUTOR = "spark.driver.host: 127.0.0.1, spark.executor.memory: 1g, spark.executor.cores: 1"


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


@contextmanager
def running(command: list[str], log: Path, is_up: Callable[[], bool], environ: dict[str, str]) -> Iterator[None]:
    """A server while the block runs; up when it answers, then stopped by its process id."""
    with open(log, "wb") as file:
        server = subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT, env={**os.environ, **environ})
    try:
        deadline = time.monotonic() + 120
        while not is_up():
            if server.poll() is not None or time.monotonic() > deadline:
                raise SystemExit(f"{command[1]} didn't start:\n{log.read_text()[-4000:]}")
            time.sleep(0.2)
        yield
    finally:
        server.terminate()
        server.wait(timeout=60)


@contextmanager
def cluster(folder: Path) -> Iterator[str]:
    """A master and two workers of one core and 1 GiB each; its address."""
    spec = find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise SystemExit("pyspark isn't installed: call this with the Python of .venv")
    start = str(Path(spec.origin).parent / "bin" / "spark-class")
    port = free_port()
    url = f"spark://127.0.0.1:{port}"
    here = ["--host", "127.0.0.1", "--webui-port", "0"]

    def answers() -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", port)) == 0

    with ExitStack() as stack:
        environ = {"SPARK_LOCAL_IP": "127.0.0.1", "SPARK_NO_DAEMONIZE": "1"}
        master = [start, "org.apache.spark.deploy.master.Master", *here, "--port", str(port)]
        stack.enter_context(running(master, folder / "master.log", answers, environ))
        for number in range(WORKERS):
            log = folder / f"worker-{number}.log"
            worker = [start, "org.apache.spark.deploy.worker.Worker", *here, "--cores", "1", "--memory", "1g", url]
            is_up = lambda log=log: log.exists() and "Successfully registered" in log.read_text()  # noqa: E731
            own = {**environ, "SPARK_WORKER_DIR": str(folder / f"work-{number}")}
            stack.enter_context(running(worker, log, is_up, own))
        yield url


def retcon(root: Path, *words: str) -> str:
    command = [sys.executable, "-m", "retcon", *words, "--project", str(root)]
    answer = subprocess.run(command, capture_output=True, text=True, check=False, env=child_environ())
    if answer.returncode != 0:
        raise SystemExit(f"retcon {' '.join(words)}:\n{answer.stdout[-3000:]}{answer.stderr[-3000:]}")
    return answer.stdout


def build(root: Path, days: int, reason: str) -> tuple[str, dict[str, float]]:
    """Plan and apply by the command line; the run, and the seconds of both."""
    began = time.monotonic()
    span = ("--start", str(FIRST), "--end", str(last_of(days)))
    retcon(root, "plan", "+mart.fct_revenue", *span, "--wave", str(-(-days // 3)), "--reason", reason)
    planned = time.monotonic()
    plan = max((root / "backfills").glob("*.yaml"), key=lambda path: path.stat().st_mtime).stem
    retcon(root, "apply", plan)
    return plan, {"plan": planned - began, "apply": time.monotonic() - planned}


def executors(folder: Path) -> int:
    """How many the workers launched: each has a folder of its own."""
    return len(list(folder.glob("work-*/app-*/*/stderr")))


def tasks_on_executors(folder: Path) -> int:
    logs = folder.glob("work-*/app-*/*/stderr")
    return sum(len(re.findall(r"Finished task ", log.read_text(errors="replace"))) for log in logs)


def main() -> None:
    options = options_of(__doc__)
    options.add_argument("--days", type=int)
    options.add_argument("--orders", type=int, help="orders a day")
    given = options.parse_args()
    days, a_day = given.days or (6 if given.quick else 30), given.orders or (500 if given.quick else 20_000)
    began = time.monotonic()
    with folder_of_its_own() as root:
        size = f"{days} days × {a_day:,} orders, two tables; {WORKERS} workers of one core and 1 GiB"
        say(f"cluster: {size}; making sources …")
        write_project(root, SHOP, conf="spark.driver.memory: 2g")
        workspace = Workspace(root, who="bench")
        write_sources(workspace.spark, days, a_day)
        workspace.close()
        workspace.spark.stop()
        rows: list[list[str]] = []
        servers = root / "servers"
        servers.mkdir()
        with cluster(servers) as url:
            write_project(root, SHOP, master=url, conf=EXECUTOR)
            for reason in ("first build", "restated"):
                run, seconds = build(root, days, reason)
                row = [reason, f"{seconds['plan']:.1f}", f"{seconds['apply']:.1f}"]
                row += [str(executors(servers)), str(tasks_on_executors(servers))]
                rows.append(row)
                say(f"  {reason}, {run}: plan {row[1]} s, apply {row[2]} s, {row[3]} executors, {row[4]} tasks so far")
            tasks = tasks_on_executors(servers)
        if not executors(servers) or not tasks:
            raise SystemExit("no executor of the cluster ran a task: it was all done elsewhere")
        write_project(root, SHOP, conf="spark.driver.memory: 2g")
        workspace = Workspace(root, who="bench")
        hand_written(workspace.spark)
        require_same(workspace.spark)
        say("  the same rows as by plain SQL, none missing, none too many")
        workspace.close()
        workspace.spark.stop()
    head = ["on the cluster", "plan, s", "apply, s (start of Spark included)", "executors so far", "their tasks so far"]
    text = table(head, rows) + "\n\nBoth tables then had the rows that plain SQL gives over the sources."
    tell(Found(part="cluster", size=size, began=began, text=text, page=SCALING), write=not given.quick)


if __name__ == "__main__":
    main()
