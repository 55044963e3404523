"""From a URI to a database, and what is said when that fails."""

from __future__ import annotations

import sqlite3
import sys
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest
from sqlalchemy import Engine, text

from retcon.errors import Fault, Refused
from retcon.ledger.engines import engine_for, writing
from retcon.ledger.faults import faults
from retcon.ledger.migrate import migrate
from retcon.ledger.sqlite_files import database_file, make_file
from retcon.ledger.store import SqlLedger
from tests.ledger.conftest import CATALOG
from tests.ledger.crowds import at_once
from tests.postgres import free_port


def a_ledger(uri: str) -> SqlLedger:
    return SqlLedger(uri, CATALOG, migrate=migrate)


def run_all(engine: Engine, *statements: str, **values: str) -> None:
    """The statements, in one transaction that writes."""
    with faults("as it was"), writing(engine).begin() as connection:
        for statement in statements:
            connection.execute(text(statement), values)


@pytest.mark.usefixtures("waiting_for_disks")
def test_a_sqlite_database_is_durable_and_checks_its_keys(tmp_path: Path) -> None:
    make_file(tmp_path / "lake.db")
    with engine_for(f"sqlite:///{tmp_path}/lake.db").connect() as connection:
        settings = {
            name: connection.execute(text(f"PRAGMA {name}")).scalar()
            for name in ("journal_mode", "busy_timeout", "foreign_keys", "synchronous")
        }
    assert settings == {"journal_mode": "wal", "busy_timeout": 30000, "foreign_keys": 1, "synchronous": 2}


def test_a_path_may_hold_whatever_a_folder_may_be_called(tmp_path: Path) -> None:
    folder = tmp_path / "it's 50% #1 «é» & co"
    ledger = a_ledger(f"sqlite:///{folder}/lake.db")
    ledger.prepare()
    assert ledger.exists()
    assert (folder / "lake.db").exists()


def test_drivers_that_make_one_file_at_once_wait_for_one_another(tmp_path: Path) -> None:
    for number in range(50):
        assert at_once([partial(make_file, tmp_path / f"{number}.db")] * 4) == [None] * 4


def test_connecting_to_a_file_that_is_not_there_makes_none(tmp_path: Path) -> None:
    with pytest.raises(Fault, match="can't be opened"):
        run_all(engine_for(f"sqlite:///{tmp_path}/lake.db"), "SELECT 1")
    assert list(tmp_path.iterdir()) == []


def test_tables_made_in_a_transaction_that_breaks_are_not_there(tmp_path: Path) -> None:
    make_file(tmp_path / "lake.db")
    engine = engine_for(f"sqlite:///{tmp_path}/lake.db")
    with pytest.raises(Fault):
        run_all(
            engine, "CREATE TABLE half (x INTEGER)", "INSERT INTO half VALUES (1)", "INSERT INTO nowhere VALUES (1)"
        )
    with engine.connect() as connection:
        assert connection.execute(text("SELECT count(*) FROM sqlite_master")).scalar() == 0


def test_a_reader_does_not_wait_for_a_writer(tmp_path: Path) -> None:
    make_file(tmp_path / "lake.db")
    engine = engine_for(f"sqlite:///{tmp_path}/lake.db", patience=0.1)
    with writing(engine).begin() as writer:
        writer.execute(text("CREATE TABLE t (x INTEGER)"))
        with engine.connect() as reader:
            assert reader.execute(text("SELECT count(*) FROM sqlite_master")).scalar() == 0


def test_a_second_writer_is_told_that_the_database_is_locked(tmp_path: Path) -> None:
    make_file(tmp_path / "lake.db")
    engine = engine_for(f"sqlite:///{tmp_path}/lake.db", patience=0.05)
    with (
        writing(engine).begin(),
        pytest.raises(Fault, match="locked") as fault,
        faults("nothing was recorded"),
        writing(engine).begin(),
    ):
        pass
    assert fault.value.retryable
    assert fault.value.state == "nothing was recorded"
    assert fault.value.next


def test_a_second_writer_of_a_postgresql_row_is_told_that_it_is_locked(postgres_url: str) -> None:
    engine = engine_for(postgres_url, patience=0.05)
    lock = text("SELECT pg_advisory_xact_lock(7)")
    with writing(engine).begin() as first:
        first.execute(lock)
        with pytest.raises(Fault, match="locked") as fault, faults("as it was"), writing(engine).begin() as second:
            second.execute(lock)
    assert fault.value.retryable
    engine.dispose()


def test_a_folder_that_can_not_be_made_is_a_fault_that_names_it(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(Fault, match="file") as fault:
        a_ledger(f"sqlite:///{tmp_path}/file/lake.db").prepare()
    assert not fault.value.retryable
    assert "catalog.uri" in fault.value.next
    assert fault.value.state


def test_a_database_that_can_not_be_written_is_a_fault(tmp_path: Path) -> None:
    make_file(tmp_path / "lake.db")
    engine = engine_for(f"sqlite:///{tmp_path}/lake.db")
    # Root may write everywhere, so the database itself is told to refuse.
    with pytest.raises(Fault, match="can't be written") as fault:
        run_all(engine, "PRAGMA query_only = ON", "CREATE TABLE t (x INTEGER)")
    assert not fault.value.retryable


def test_a_folder_in_place_of_the_file_is_a_fault(tmp_path: Path) -> None:
    with pytest.raises(Fault, match="can't be opened"):
        a_ledger(f"sqlite:///{tmp_path}").runs()


def test_a_file_that_is_no_database_is_a_fault(tmp_path: Path) -> None:
    (tmp_path / "lake.db").write_text("this is a text, and a long one at that" * 100)
    with pytest.raises(Fault, match="not a SQLite database"):
        a_ledger(f"sqlite:///{tmp_path}/lake.db").runs()
    with pytest.raises(Fault, match="not a SQLite database"):
        a_ledger(f"sqlite:///{tmp_path}/lake.db").prepare()


def test_a_full_disk_is_a_fault_that_says_so(tmp_path: Path) -> None:
    make_file(tmp_path / "lake.db")
    engine = engine_for(f"sqlite:///{tmp_path}/lake.db")
    with pytest.raises(Fault, match="full"):
        run_all(engine, "PRAGMA max_page_count = 1", "CREATE TABLE t (x INTEGER)")


@pytest.mark.parametrize("act", ["runs", "prepare"])
def test_a_server_that_is_down_is_a_fault_worth_another_try(act: str) -> None:
    ledger = a_ledger(f"postgresql://retcon:geheim@127.0.0.1:{free_port()}/retcon")
    with pytest.raises(Fault, match="doesn't answer") as fault:
        getattr(ledger, act)()
    assert fault.value.retryable
    assert fault.value.state
    assert fault.value.next
    assert "geheim" not in str(fault.value)


def test_a_database_that_the_server_does_not_have_is_a_fault_that_stays(postgres_url: str) -> None:
    with pytest.raises(Fault, match="nowhere") as fault:
        a_ledger(postgres_url.rpartition("/")[0] + "/nowhere").runs()
    assert not fault.value.retryable


def test_a_user_without_rights_is_told_which_ones_are_missing(postgres_url: str) -> None:
    engine = engine_for(postgres_url)
    run_all(engine, "CREATE USER reader")
    engine.dispose()
    with pytest.raises(Fault, match="permission denied") as fault:
        a_ledger(postgres_url.replace("retcon@", "reader@")).prepare()
    assert "grant" in fault.value.next
    assert not fault.value.retryable


def test_without_the_driver_postgresql_names_the_extra_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(Fault, match="not installed") as fault:
        a_ledger("postgresql://retcon@127.0.0.1/retcon").runs()
    assert fault.value.next == "pip install 'retcon[postgres]'"


@pytest.mark.parametrize("uri", ["postgresql://u@h/d", "postgresql+psycopg://u@h/d", "postgresql+psycopg2://u@h/d"])
def test_every_postgresql_is_reached_by_psycopg(uri: str) -> None:
    engine = engine_for(uri)
    assert engine.url.drivername == "postgresql+psycopg"
    assert database_file(uri) is None


@pytest.mark.parametrize("uri", ["", "lake.db", "sqlite://", "sqlite:///:memory:", "mysql://u:geheim@h/d", "p://x:y:z"])
def test_a_uri_that_names_no_place_for_a_ledger_is_refused_with_the_right_form(uri: str) -> None:
    with pytest.raises(Refused) as refused:
        a_ledger(uri).runs()
    assert "sqlite:///" in refused.value.next
    assert "geheim" not in str(refused.value)


def test_a_statement_that_fails_does_not_tell_its_values(tmp_path: Path) -> None:
    make_file(tmp_path / "lake.db")
    engine = engine_for(f"sqlite:///{tmp_path}/lake.db")
    with pytest.raises(Fault) as fault:
        run_all(engine, "INSERT INTO nowhere VALUES (:password)", password="geheim")
    assert "geheim" not in f"{fault.value} {fault.value.__cause__}"


def test_making_the_file_of_a_catalog_that_is_there_keeps_what_it_holds(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "lake.db")) as connection:
        connection.execute("CREATE TABLE iceberg_tables (x INTEGER)")
    a_ledger(f"sqlite:///{tmp_path}/lake.db").prepare()
    with closing(sqlite3.connect(tmp_path / "lake.db")) as connection:
        assert connection.execute("SELECT count(*) FROM iceberg_tables").fetchone() == (0,)
