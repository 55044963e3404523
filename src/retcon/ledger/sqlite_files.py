"""A ledger in a SQLite file, opened by Python's own driver."""

from __future__ import annotations

import sqlite3
import time
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import quote

from retcon.errors import Refused

PATIENCE = 30.0
"""Seconds that a transaction waits for another one's locks."""
REMEDY = (
    "write catalog.uri (with a REST catalog ledger.uri) as sqlite:///folder/lake.db or postgresql://user@host/database"
)


class SqliteFile:
    """A ledger's database, for those who only read it."""

    def __init__(self, uri: str) -> None:
        self._uri = uri

    @property
    def file(self) -> Path | None:
        """Where it is."""
        return database_file(self._uri)

    def connect(self, *, is_look: bool) -> Reading:  # noqa: ARG002 (every transaction of SQLite's sees one moment)
        """A transaction that reads."""
        file = self.file
        assert file is not None
        return Reading(open_file(file))

    def close(self) -> None:
        """Nothing is kept open."""


class Reading:
    """One transaction: all that is read in it is of the moment of its first question."""

    dialect = SimpleNamespace(name="sqlite")

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        connection.execute("BEGIN")

    def exec_driver_sql(self, statement: str, parameters: dict[str, Any], /) -> list[SimpleNamespace]:
        """The rows that answer a statement."""
        found = self._connection.execute(statement, parameters)
        names = [column[0] for column in found.description]
        return [SimpleNamespace(**dict(zip(names, row, strict=True))) for row in found]

    def close(self) -> None:
        """Let go of it."""
        self._connection.close()


def database_file(uri: str) -> Path | None:
    """The file of a SQLite database; None for a server."""
    backend, is_address, rest = uri.partition("://")
    backend = backend.partition("+")[0]
    if not is_address:
        # Not with the text itself: it may hold a password.
        raise Refused("the ledger's address is not that of a database", next=REMEDY)
    if backend == "postgresql":
        return None
    if backend != "sqlite":
        raise Refused(f"retcon keeps no ledger in {backend}", next=REMEDY)
    path = rest.removeprefix("/")
    if path in ("", ":memory:"):
        raise Refused("a ledger in memory would be lost", next=REMEDY)
    return Path(path).absolute()


def open_file(file: Path, *, patience: float = PATIENCE) -> sqlite3.Connection:
    """A connection whose transactions are real ones: the driver begins and commits nothing by itself, DDL included."""
    # mode=rw never makes a file, so that looking at a ledger leaves no trace.
    address = f"file:{quote(str(file))}?mode=rw"
    connection = sqlite3.connect(address, uri=True, timeout=patience, isolation_level=None, check_same_thread=False)
    connection.execute("PRAGMA foreign_keys = ON")
    connection.execute("PRAGMA synchronous = FULL")
    return connection


def make_file(file: Path, *, patience: float = PATIENCE) -> None:
    """A SQLite database in WAL mode: readers don't wait for the writer. One that is there is kept."""
    file.parent.mkdir(parents=True, exist_ok=True)
    deadline = time.monotonic() + patience
    with closing(sqlite3.connect(file, timeout=patience, isolation_level=None)) as connection:
        while not _switched_to_wal(connection, or_raise=time.monotonic() > deadline):
            time.sleep(0.01)


def _switched_to_wal(connection: sqlite3.Connection, *, or_raise: bool) -> bool:
    try:
        connection.execute("PRAGMA journal_mode = WAL")
    except sqlite3.OperationalError as busy:
        # When two switch at once SQLite turns one away on the spot, whatever the timeout says.
        if or_raise or not busy.sqlite_errorname.startswith("SQLITE_BUSY"):
            raise
        return False
    return True
