"""From a catalog's URI to SQLAlchemy's connections, whose transactions are real ones."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path

from sqlalchemy import URL, Connection, Engine, NullPool, create_engine, event, make_url
from sqlalchemy.exc import ArgumentError

from retcon.errors import Fault, Refused
from retcon.ledger.sqlite_files import PATIENCE, REMEDY, database_file, open_file

_WRITING = "retcon_writing"
_LOOKING = "retcon_looking"


class Alchemy:
    """A ledger's database by SQLAlchemy, for those who write, or where it is a server."""

    def __init__(self, uri: str) -> None:
        self._uri = uri

    @property
    def file(self) -> Path | None:
        """Where it is; None for a server."""
        return database_file(self._uri)

    @cached_property
    def engine(self) -> Engine:
        """The engine; it is made when it is first used."""
        return engine_for(self._uri)

    def connect(self, *, is_look: bool) -> Connection:
        """A connection for questions."""
        return (looking(self.engine) if is_look else self.engine).connect()

    def close(self) -> None:
        """Let go of the database."""
        if "engine" in self.__dict__:
            self.engine.dispose()
            del self.__dict__["engine"]


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


def _parsed(uri: str) -> URL:
    try:
        return make_url(uri)
    except (ArgumentError, ValueError):
        # Not with the text itself: it may hold a password.
        raise Refused("the ledger's address is not that of a database", next=REMEDY) from None


def _sqlite_engine(file: Path, patience: float) -> Engine:
    # A file is opened in no time, and a closed one can be moved or removed.
    engine = create_engine(
        "sqlite+pysqlite://",
        creator=lambda: open_file(file, patience=patience),
        poolclass=NullPool,
        hide_parameters=True,
    )
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
