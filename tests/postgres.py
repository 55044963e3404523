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


@contextmanager
def running_postgres(folder: Path, binaries: Path | None = None) -> Iterator[str]:
    """A server that keeps its data in `folder` (best one of `tempfile.mkdtemp`), as the URL of an empty database."""
    programs = binaries or next(iter(binary_folders()), None)
    if programs is None:
        raise RuntimeError("there is no PostgreSQL on this machine: `apt install postgresql` or `pip install pgserver`")
    identity = _unprivileged(folder)
    data = folder / "data"
    subprocess.run(
        [programs / "initdb", "-D", data, "-U", "retcon", "-A", "trust", "-E", "UTF8", "--no-locale", "--no-sync"],
        check=True,
        capture_output=True,
        cwd=folder,
        **identity,
    )
    port = free_port()
    with open(folder / "server.log", "wb") as log:
        server = subprocess.Popen(
            [programs / "postgres", "-D", data, "-h", "127.0.0.1", "-p", str(port), "-F", "-k", ""],
            stdout=log,
            stderr=subprocess.STDOUT,
            cwd=folder,
            **identity,
        )
    try:
        _make_database(server, folder / "server.log", port)
        yield f"postgresql://retcon@127.0.0.1:{port}/retcon"
    finally:
        server.send_signal(signal.SIGINT)  # the fast way to shut down: clients are sent away
        server.wait(timeout=30)


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
                connection.execute("CREATE DATABASE retcon")
                return
        except psycopg.OperationalError:
            if server.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"PostgreSQL didn't start:\n{log.read_text()}") from None
            time.sleep(0.05)
