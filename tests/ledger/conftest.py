from __future__ import annotations

import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from sqlalchemy import Row, text

from retcon.ledger.engines import engine_for, writing
from retcon.ledger.migrate import migrate
from retcon.ledger.questions import Questions
from retcon.ledger.schema import METADATA
from retcon.ledger.sqlite_files import SqliteFile
from retcon.ledger.store import SqlLedger

CATALOG = "lake"

ICEBERG_TABLES = """
CREATE TABLE iceberg_tables (
    catalog_name VARCHAR(255) NOT NULL, table_namespace VARCHAR(255) NOT NULL, table_name VARCHAR(255) NOT NULL,
    metadata_location VARCHAR(1000), previous_metadata_location VARCHAR(1000), iceberg_type VARCHAR(5),
    PRIMARY KEY (catalog_name, table_namespace, table_name))
"""


class Database:
    """The catalog's database, past the ledger: as Iceberg sees it, or somebody with a SQL prompt."""

    def __init__(self, uri: str) -> None:
        self.uri = uri
        self.engine = engine_for(uri)
        weakref.finalize(self, self.engine.dispose)

    def run(self, statement: str, **values: Any) -> list[Row[Any]]:
        with writing(self.engine).begin() as connection:
            result = connection.execute(text(statement), values)
            return list(result) if result.returns_rows else []

    def add_table(self, name: str, location: str = "m0.json", *, catalog: str = CATALOG) -> None:
        namespace, _, table = name.rpartition(".")
        self.run(
            "INSERT INTO iceberg_tables VALUES (:catalog, :namespace, :name, :location, NULL, 'TABLE')",
            catalog=catalog,
            namespace=namespace,
            name=table,
            location=location,
        )

    def pointers(self) -> dict[str, tuple[str, str | None]]:
        """Per table: its metadata file, and the one before."""
        rows = self.run("SELECT * FROM iceberg_tables")
        return {
            f"{row.table_namespace}.{row.table_name}": (row.metadata_location, row.previous_metadata_location)
            for row in rows
        }

    def counts(self) -> dict[str, int]:
        """Rows per table of the ledger."""
        return {name: self.run(f"SELECT count(*) AS n FROM {name}")[0].n for name in METADATA.tables}

    def empty(self) -> None:
        """As after `prepare`, in a fraction of the time."""
        with writing(self.engine).begin() as connection:
            for name in ("iceberg_tables", *(table.name for table in reversed(METADATA.sorted_tables))):
                connection.execute(text(f"DELETE FROM {name}"))

    def tables(self) -> set[str]:
        catalog = (
            "SELECT name FROM sqlite_master WHERE type = 'table'"
            if self.uri.startswith("sqlite")
            else "SELECT tablename AS name FROM pg_tables WHERE schemaname = current_schema()"
        )
        return {row.name for row in self.run(catalog)}


@pytest.fixture(scope="session", params=["sqlite", "postgresql"])
def backend(request: pytest.FixtureRequest) -> str:
    """Whatever uses this is tried on every database that a ledger may live in."""
    return str(request.param)


def _new_database(backend: str, folder: Path, request: pytest.FixtureRequest) -> str:
    if backend == "sqlite":
        return f"sqlite:///{folder}/.retcon/lake.db"
    server: str = request.getfixturevalue("postgres_url")
    # A schema is made in a hundredth of the time that a database takes.
    schema = f"test_{uuid4().hex}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {schema}".encode())
    return f"{server}?options=-csearch_path%3D{schema}"


@pytest.fixture
def uri(backend: str, tmp_path: Path, request: pytest.FixtureRequest) -> str:
    """An empty database; SQLite's file isn't there yet."""
    return _new_database(backend, tmp_path, request)


@pytest.fixture
def empty_ledger(uri: str) -> SqlLedger:
    return SqlLedger(uri, CATALOG, migrate=migrate)


@pytest.fixture(scope="session")
def standing(
    backend: str, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> tuple[SqlLedger, Database]:
    """A prepared ledger beside Iceberg's own table, made once."""
    uri = _new_database(backend, tmp_path_factory.mktemp("lake"), request)
    ledger = SqlLedger(uri, CATALOG, migrate=migrate)
    ledger.prepare()
    database = Database(uri)
    database.run(ICEBERG_TABLES)
    return ledger, database


@pytest.fixture
def ledger(standing: tuple[SqlLedger, Database]) -> Iterator[SqlLedger]:
    """A ledger that was just prepared. Whatever a test leaves in it, those who only read find the same."""
    ledger, database = standing
    database.empty()
    yield ledger
    if database.uri.startswith("sqlite"):
        assert everything(Questions(SqliteFile(database.uri), CATALOG)) == everything(ledger)


def everything(ledger: Questions) -> dict[str, object]:
    """What can be asked, with its answer."""
    runs = ledger.runs()
    ids = [run.id for run in runs]
    models = sorted({model.name for run in runs for model in run.plan.models})
    return {
        "exists": ledger.exists(),
        "runs": runs,
        "newest run": ledger.runs(limit=1),
        "unfinished": ledger.unfinished_runs(),
        "tallies": ledger.tallies(ids),
        "last published": ledger.last_published(models),
        "watermarks": ledger.watermarks(),
        "movements": ledger.movements(),
        "adoptions": ledger.adoptions(),
        "exceptions": ledger.exceptions(only_open=False),
        "open": ledger.exceptions(),
        **{f"{ask.__name__} {run}": ask(run) for run in ids for ask in (
            ledger.run, ledger.waves, ledger.slices, ledger.verdicts, ledger.profiles, ledger.events,
            ledger.consumption, ledger.code)},
        **{f"{ask.__name__} {model}": ask(model) for model in models for ask in (
            ledger.pointer, ledger.slice_profiles, ledger.published_slices, ledger.empty_slices,
            ledger.unmeasured_slices, ledger.standing_consumption, ledger.standing_runs, ledger.standing_code,
            ledger.published_snapshots, ledger.held_slices, ledger.watermark_moves, ledger.newest_exceptions,
            lambda model: ledger.runs(model=model))},
        **{f"{ask.__name__} {run} {model}": ask(run, model) for run in ids for model in models for ask in (
            ledger.consumption_before, ledger.runs_before, ledger.slices)},
    }  # fmt: skip


@pytest.fixture
def database(standing: tuple[SqlLedger, Database], ledger: SqlLedger) -> Database:
    """The database of `ledger`."""
    return standing[1]
