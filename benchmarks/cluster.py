"""The demo on a real Spark cluster: a master and two workers on loopback, executors in processes of their own.

`retcon demo --master spark://…` as a command; each of its steps is timed from its title to the next one. Afterwards, in
a session without the cluster, tables are compared with plain SQL over the sources. Everything is stopped by its process
id.
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
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path

from orders import require_same_rows
from pages import table
from parts import options_of, say
from projects import child_environ, folder_of_its_own
from results import SCALING, Found, tell
from retcon.cli.demo import RECOMPUTED
from retcon.wiring import Workspace

WORKERS = 2
ON_LOOPBACK = {"SPARK_LOCAL_IP": "127.0.0.1"}
"""For Spark's own programs and for the driver: what executors call it back by."""


@dataclass(frozen=True, kw_only=True)
class Step:
    """What the demo did below one of its titles."""

    title: str
    wall: float
    tasks: int
    """That executors finished."""


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
        environ = {**ON_LOOPBACK, "SPARK_NO_DAEMONIZE": "1"}
        master = [start, "org.apache.spark.deploy.master.Master", *here, "--port", str(port)]
        stack.enter_context(running(master, folder / "master.log", answers, environ))
        for number in range(WORKERS):
            log = folder / f"worker-{number}.log"
            worker = [start, "org.apache.spark.deploy.worker.Worker", *here, "--cores", "1", "--memory", "1g", url]
            is_up = lambda log=log: log.exists() and "Successfully registered" in log.read_text()  # noqa: E731
            own = {**environ, "SPARK_WORKER_DIR": str(folder / f"work-{number}")}
            stack.enter_context(running(worker, log, is_up, own))
        yield url


def play(project: Path, orders: int, url: str, servers: Path) -> list[Step]:
    """The demo, as somebody types it."""
    command = [sys.executable, "-m", "retcon", "demo", str(project), "--orders", str(orders), "--master", url]
    environ = {**child_environ(), **ON_LOOPBACK, "PYTHONUNBUFFERED": "1"}
    said: list[str] = []
    begun: list[tuple[str, float, int]] = []
    log = servers / "demo.log"
    with (
        open(log, "w") as errors,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True, env=environ) as demo,
    ):
        for line in demo.stdout or ():
            said.append(line)
            title = re.fullmatch(rf"{len(begun) + 1}\. (.+)\n", line)
            if title is not None:
                begun.append((title[1], time.monotonic(), tasks_on_executors(servers)))
                say(f"  {title[1]} …")
    if demo.returncode != 0 or not begun:
        raise SystemExit(f"retcon demo:\n{''.join(said)[-3000:]}{log.read_text()[-3000:]}")
    begun.append(("", time.monotonic(), tasks_on_executors(servers)))
    return [
        Step(title=title, wall=until - since, tasks=after - before)
        for (title, since, before), (_, until, after) in pairwise(begun)
    ]


def executors(servers: Path) -> int:
    """How many the workers launched: each has a folder of its own."""
    return len(list(servers.glob("work-*/app-*/*/stderr")))


def tasks_on_executors(servers: Path) -> int:
    logs = servers.glob("work-*/app-*/*/stderr")
    return sum(len(re.findall(r"Finished task ", log.read_text(errors="replace"))) for log in logs)


def require_same_without(url: str, project: Path) -> None:
    """What was published is what plain SQL gives, in a session without the cluster."""
    settings = project / "retcon.yaml"
    settings.write_text(settings.read_text().replace(url, "local[*]"))
    workspace = Workspace(project, who="bench")
    for name, query in RECOMPUTED.items():
        columns = ", ".join(workspace.spark.sql(query).columns)
        require_same_rows(workspace.spark, query, f"SELECT {columns} FROM {name}", name)
    workspace.close()
    workspace.spark.stop()


def main() -> None:
    options = options_of(__doc__)
    options.add_argument("--orders", type=int, help="orders a day, about")
    given = options.parse_args()
    orders = given.orders or (200 if given.quick else 5_000)
    began = time.monotonic()
    with folder_of_its_own() as root:
        size = f"the demo, 90 days × about {orders:,} orders; {WORKERS} workers of one core and 1 GiB"
        say(f"cluster: {size}")
        servers = root / "servers"
        servers.mkdir()
        with cluster(servers) as url:
            steps = play(root / "shop-demo", orders, url, servers)
            launched, tasks = executors(servers), tasks_on_executors(servers)
        if not launched or not tasks:
            raise SystemExit("no executor of the cluster ran a task: it was all done elsewhere")
        require_same_without(url, root / "shop-demo")
        say("  the same rows as by plain SQL, none missing, none too many")
    rows = [[step.title, f"{step.wall:.1f}", f"{step.tasks:,}"] for step in steps]
    rows.append(["all of it", f"{sum(step.wall for step in steps):.1f}", f"{tasks:,}"])
    same = " and ".join(f"`{name}`" for name in RECOMPUTED)
    text = table(["step of the demo", "s", "tasks on executors"], rows)
    text += f"\n\n{launched} executors ran them. {same} then had the rows that plain SQL gives over the sources, "
    text += "asked in a session without the cluster."
    tell(Found(part="cluster", size=size, began=began, text=text, page=SCALING), write=not given.quick)


if __name__ == "__main__":
    main()
