"""A PostgreSQL server of one's own: real, local, gone afterwards."""

from __future__ import annotations

import importlib.util
import os
import pwd
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg


def binary_folders() -> list[Path]:
    """The folders that hold PostgreSQL's programs on this machine, the one to take first."""
    debian = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda folder: int(folder.parent.name), reverse=True)
    on_path = shutil.which("initdb")
    packaged = importlib.util.find_spec("pgserver")  # found, not imported: importing it changes the machine
    places = (packaged.submodule_search_locations if packaged else None) or []
    candidates = [
        *debian,
        *([Path(on_path).resolve().parent] if on_path else []),
        *(Path(place) / "pginstall" / "bin" for place in places),
    ]
    return list(dict.fromkeys(folder for folder in candidates if (folder / "initdb").exists()))


class PostgresServer:
    """A server that can be stopped and started: same port, same data."""

    def __init__(self, folder: Path, binaries: Path | None = None) -> None:
        programs = binaries or next(iter(binary_folders()), None)
        if programs is None:
            raise RuntimeError(
                "there is no PostgreSQL on this machine: `apt install postgresql` or `pip install pgserver`"
            )
        self._folder, self._programs, self._port = folder, programs, free_port()
        self._identity = _unprivileged(folder)
        subprocess.run(
            [programs / "initdb", "-D", folder / "data", "-U", "retcon", "-A", "trust", "-E", "UTF8", "--no-locale",
             "--no-sync"],
            check=True,
            capture_output=True,
            cwd=folder,
            **self._identity,
        )  # fmt: skip
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"postgresql://retcon@127.0.0.1:{self._port}/retcon"

    def start(self) -> None:
        with open(self._folder / "server.log", "ab") as log:
            self._process = subprocess.Popen(
                [self._programs / "postgres", "-D", self._folder / "data", "-h", "127.0.0.1", "-p", str(self._port),
                 "-F", "-k", ""],
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self._folder,
                **self._identity,
            )  # fmt: skip
        _make_database(self._process, self._folder / "server.log", self._port)

    def stop(self) -> None:
        """The fast way: clients are sent away."""
        if self._process is not None:
            self._process.send_signal(signal.SIGINT)
            self._process.wait(timeout=30)
        self._process = None


@contextmanager
def running_postgres(folder: Path, binaries: Path | None = None) -> Iterator[str]:
    """A server that keeps its data in `folder` (best one of `tempfile.mkdtemp`), as the URL of an empty database."""
    server = PostgresServer(folder, binaries)
    try:
        server.start()
        yield server.url
    finally:
        server.stop()


def _unprivileged(folder: Path) -> dict[str, Any]:
    """PostgreSQL refuses to run as root: hand the folder to nobody, and run as nobody."""
    if os.geteuid() != 0:
        return {}
    nobody = pwd.getpwnam("nobody")
    os.chown(folder, nobody.pw_uid, nobody.pw_gid)
    return {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _make_database(server: subprocess.Popen[bytes], log: Path, port: int) -> None:
    deadline = time.monotonic() + 30
    while True:
        try:
            with psycopg.connect(f"postgresql://retcon@127.0.0.1:{port}/postgres", autocommit=True) as connection:
                if not connection.execute("SELECT 1 FROM pg_database WHERE datname = 'retcon'").fetchone():
                    connection.execute("CREATE DATABASE retcon")
                return
        except psycopg.OperationalError:
            if server.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"PostgreSQL didn't start:\n{log.read_text()}") from None
            time.sleep(0.05)
