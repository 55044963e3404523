"""What went wrong in the database, said so that somebody can act on it."""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from retcon.errors import Fault
from retcon.values import dataclass


@dataclass(frozen=True, kw_only=True)
class Diagnosis:
    """What a database's error means to the person who sees it."""

    what: str
    next: str
    retryable: bool = False


_LOCKED = Diagnosis(
    what="the ledger's database is locked by another process",
    next="wait until the other retcon or Spark job has written, then try again",
    retryable=True,
)
_UNKNOWN = Diagnosis(
    what="the ledger's database failed", next="look at the database's own log; `retcon show` tells where a run stands"
)

_BY_SQLITE_NAME = {
    "SQLITE_BUSY": _LOCKED,
    "SQLITE_LOCKED": _LOCKED,
    "SQLITE_CANTOPEN": Diagnosis(
        what="the ledger's database can't be opened",
        next="check catalog.uri (or ledger.uri) in retcon.yaml, and that this user may write its folder",
    ),
    "SQLITE_READONLY": Diagnosis(
        what="the ledger's database can't be written", next="give this user the right to write the file and its folder"
    ),
    "SQLITE_FULL": Diagnosis(what="the disk of the ledger's database is full", next="make room, then try again"),
    "SQLITE_IOERR": Diagnosis(
        what="the disk of the ledger's database doesn't answer", next="check the disk, then try again", retryable=True
    ),
    "SQLITE_NOTADB": Diagnosis(
        what="the ledger's file is not a SQLite database", next="check catalog.uri (or ledger.uri) in retcon.yaml"
    ),
    "SQLITE_CORRUPT": Diagnosis(what="the ledger's database is damaged", next="restore it from a backup"),
}

_UNREACHABLE = Diagnosis(
    what="PostgreSQL doesn't answer", next="check that the server runs, then try again", retryable=True
)
_NO_ENTRY = Diagnosis(
    what="PostgreSQL lets nobody in by this address", next="check user, password and database in retcon.yaml"
)
_OVERTAKEN = Diagnosis(what="PostgreSQL ended this transaction for another", next="try again", retryable=True)

_BY_SQLSTATE = {
    "55P03": _LOCKED,
    "40": _OVERTAKEN,
    "08": _UNREACHABLE,
    "57P": _UNREACHABLE,
    "25P03": _UNREACHABLE,
    "28": _NO_ENTRY,
    "3D": _NO_ENTRY,
    "42501": Diagnosis(
        what="PostgreSQL's user may not do this",
        next="grant it CREATE on the schema, and all rights on iceberg_tables and the retcon_ tables",
    ),
    "53": Diagnosis(what="PostgreSQL is out of room or connections", next="make room, then try again", retryable=True),
}


@contextmanager
def faults(state: str) -> Iterator[None]:
    """Whatever breaks in the database inside comes out as a Fault, with the state things are in."""
    try:
        yield
    except what_breaks() as broken:
        raise fault_of(broken, state) from broken


def what_breaks() -> tuple[type[Exception], ...]:
    """What connections raise. SQLAlchemy raises nothing where it isn't loaded."""
    alchemy = sys.modules.get("sqlalchemy.exc")
    own = sqlite3.Error, OSError
    return own if alchemy is None else (*own, alchemy.DBAPIError)


def fault_of(broken: Exception, state: str) -> Fault:
    """The Fault that says what a broken statement or connection means."""
    # SQLAlchemy's own text shows the statement with its values; the driver's doesn't.
    driver = getattr(broken, "orig", None) or broken
    diagnosis = _diagnose(driver)
    return Fault(
        f"{diagnosis.what}: {str(driver).strip()}", state=state, next=diagnosis.next, retryable=diagnosis.retryable
    )


def _diagnose(driver: BaseException) -> Diagnosis:
    if isinstance(driver, OSError):
        return _BY_SQLITE_NAME["SQLITE_CANTOPEN"]
    if isinstance(driver, sqlite3.Error):
        return _matching(_BY_SQLITE_NAME, getattr(driver, "sqlite_errorname", ""))
    sqlstate = getattr(driver, "sqlstate", None)
    if sqlstate is not None:
        return _matching(_BY_SQLSTATE, sqlstate)
    # Before there is a connection the driver gives no code: only words.
    refused_entry = any(words in str(driver) for words in ("authentication", "does not exist", "pg_hba", "no password"))
    return _NO_ENTRY if refused_entry else _UNREACHABLE


def _matching(diagnoses: dict[str, Diagnosis], code: str) -> Diagnosis:
    return next((found for prefix, found in diagnoses.items() if code.startswith(prefix)), _UNKNOWN)
