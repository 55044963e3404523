"""From a catalog's URI to connections whose transactions are real ones."""

from __future__ import annotations

import sqlite3
import time
from contextlib import closing
from pathlib import Path
from urllib.parse import quote

from sqlalchemy import URL, Connection, Engine, NullPool, create_engine, event, make_url
from sqlalchemy.exc import ArgumentError

from retcon.errors import Fault, Refused

PATIENCE = 30.0
"""Seconds that a transaction waits for another one's locks."""

_WRITING = "retcon_writing"
_LOOKING = "retcon_looking"


def engine_for(uri: str, *, patience: float = PATIENCE) -> Engine:
    """The engine for a catalog's URI; nothing is connected, no file is made."""
    file = database_file(uri)
    return _postgres_engine(_parsed(uri), patience) if file is None else _sqlite_engine(file, patience)


def writing(engine: Engine) -> Engine:
    """The same engine, for transactions that write."""
    return engine.execution_options(**{_WRITING: True})


def looking(engine: Engine) -> Engine:
    """The same engine, for transactions that read everything of one moment."""
    return engine.execution_options(**{_LOOKING: True})


def database_file(uri: str) -> Path | None:
    """The file of a SQLite database; None for a server."""
    url = _parsed(uri)
    if url.get_backend_name() != "sqlite":
        return None
    if url.database in (None, "", ":memory:"):
        raise Refused("a ledger in memory would be lost", next=_REMEDY)
    return Path(str(url.database)).absolute()


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


_REMEDY = (
    "write catalog.uri (with a REST catalog ledger.uri) as sqlite:///folder/lake.db or postgresql://user@host/database"
)


def _parsed(uri: str) -> URL:
    try:
        url = make_url(uri)
    except (ArgumentError, ValueError):
        # Not with the text itself: it may hold a password.
        raise Refused("the ledger's address is not that of a database", next=_REMEDY) from None
    if url.get_backend_name() not in ("sqlite", "postgresql"):
        raise Refused(f"retcon keeps no ledger in {url.get_backend_name()}", next=_REMEDY)
    return url


def _sqlite_engine(file: Path, patience: float) -> Engine:
    # mode=rw never makes a file, so that looking at a ledger leaves no trace.
    address = f"file:{quote(str(file))}?mode=rw"

    def connect() -> sqlite3.Connection:
        # isolation_level None: the driver begins and commits nothing by itself, DDL included.
        connection = sqlite3.connect(address, uri=True, timeout=patience, isolation_level=None, check_same_thread=False)
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute("PRAGMA synchronous = FULL")
        return connection

    # A file is opened in no time, and a closed one can be moved or removed.
    engine = create_engine("sqlite+pysqlite://", creator=connect, poolclass=NullPool, hide_parameters=True)
    event.listen(engine, "begin", _begin_sqlite)
    return engine


def _begin_sqlite(connection: Connection) -> None:
    # A transaction that reads first and writes later would be refused when two of them do it at once. One that only
    # reads sees one moment throughout, that of its first statement.
    immediate = connection.get_execution_options().get(_WRITING, False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if immediate else "BEGIN")


def _postgres_engine(url: URL, patience: float) -> Engine:
    defaults = {"connect_timeout": 10, "application_name": "retcon"}
    try:
        engine = create_engine(
            url.set(drivername="postgresql+psycopg"),
            # Questions come in bursts, which share a connection; one that lay idle for hours of staging may be dead.
            pool_pre_ping=True,
            pool_recycle=60,
            hide_parameters=True,
            use_native_hstore=False,
            connect_args={key: value for key, value in defaults.items() if key not in url.query},
        )
    except ImportError as missing:
        raise Fault(
            "the driver for PostgreSQL is not installed",
            state="nothing was read or written",
            next="pip install 'retcon[postgres]'",
        ) from missing

    def begin(connection: Connection) -> None:
        options = connection.get_execution_options()
        if options.get(_WRITING, False):
            connection.exec_driver_sql(f"SET LOCAL lock_timeout = {int(patience * 1000)}")
        if options.get(_LOOKING, False):
            # By itself each statement would see what was committed before it.
            connection.exec_driver_sql("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
            # Between two questions files are read, which may take longer than a site lets others idle.
            connection.exec_driver_sql("SET LOCAL idle_in_transaction_session_timeout = 0")

    event.listen(engine, "begin", begin)
    return engine
