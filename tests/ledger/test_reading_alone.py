"""A ledger in a file, to those who only read it, by Python's own driver: the same answers, the same faults."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from retcon.core.runs import Tally
from retcon.errors import Fault
from retcon.ledger.migrate import migrate
from retcon.ledger.questions import Questions
from retcon.ledger.sqlite_files import SqliteFile
from retcon.ledger.statements import ask
from retcon.ledger.store import SqlLedger
from tests.ledger.conftest import CATALOG, Database
from tests.ledger.examples import ANN, FCT, NOON, a_plan, opened, published_run


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "lake.db"


@pytest.fixture
def reader(file: Path) -> Questions:
    return Questions(SqliteFile(f"sqlite:///{file}"), CATALOG)


@pytest.fixture
def writer(file: Path) -> SqlLedger:
    ledger = SqlLedger(f"sqlite:///{file}", CATALOG, migrate=migrate)
    ledger.prepare()
    return ledger


def open_run(ledger: SqlLedger, name: str) -> None:
    plan = a_plan(name)
    ledger.open_run(plan, opened(plan), at=NOON, who=ANN)


def test_what_is_written_is_found_and_nothing_of_sqlalchemy_is_loaded(writer: SqlLedger, file: Path) -> None:
    published_run(writer, a_plan("run_a"))
    program = f"""
import sys
from retcon.ledger.questions import Questions
from retcon.ledger.sqlite_files import SqliteFile
reader = Questions(SqliteFile("sqlite:///{file}"), "{CATALOG}")
with reader.look():
    assert [run.id for run in reader.runs()] == ["run_a"] and reader.published_slices("{FCT}")
assert "sqlalchemy" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", program], check=True)


def test_a_look_is_of_one_moment(writer: SqlLedger, reader: Questions) -> None:
    with reader.look():
        assert reader.runs() == []
        open_run(writer, "run_a")
        assert reader.runs(limit=5) == []
    assert [run.id for run in reader.runs()] == ["run_a"]


def test_a_look_whose_connection_is_lost_says_so_and_ends_quietly(writer: SqlLedger, reader: Questions) -> None:
    assert writer.exists()
    with reader.look():
        assert reader.runs() == []
        reader._look._connection.close()  # type: ignore[union-attr] # it was asked something
        with pytest.raises(Fault, match="database"):
            reader.runs(limit=1)
        assert reader.runs() == []  # was told before
    assert reader.runs(limit=1) == []


def test_a_file_that_isnt_there_has_nothing_and_isnt_made(reader: Questions, tmp_path: Path) -> None:
    assert not reader.exists()
    assert reader.runs() == []
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("spoil", "what"),
    [
        (lambda file: file.write_text("this is a text, and a long one at that" * 100), "not a SQLite database"),
        (lambda file: file.mkdir(), "can't be opened"),
    ],
)
def test_a_file_that_cant_be_read_is_a_fault(
    reader: Questions, file: Path, spoil: Callable[[Path], None], what: str
) -> None:
    spoil(file)
    with pytest.raises(Fault, match=what):
        reader.runs()


def test_a_ledger_that_is_taken_away_is_missed_once(writer: SqlLedger, reader: Questions, file: Path) -> None:
    assert writer.runs() == reader.runs() == []
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("DROP TABLE retcon_alembic_version")
        connection.commit()
    with pytest.raises(Fault):
        reader.runs()
    assert reader.runs() == []


@pytest.mark.parametrize("name", ["\0", "a\0b", "\udc80", "'; DROP TABLE retcon_runs; --", "%(run_id)s", ":model"])
def test_a_name_that_no_run_can_have_is_looked_for_all_the_same(ledger: SqlLedger, name: str) -> None:
    open_run(ledger, "run_a")
    assert ledger.run(name) is None
    assert ledger.tallies([name]) == {name: Tally()}
    assert [run.id for run in ledger.runs(model=name)] == []
    assert ledger.run("run_a") is not None


def test_words_are_bound_one_by_one_and_in_lists(database: Database) -> None:
    with database.engine.connect() as connection:
        [row] = ask(connection, "SELECT :a AS a, :aa AS aa", a="1", aa=":a")
        assert (row.a, row.aa) == ("1", ":a")
        for words, found in ((["x"], 1), (["a", "x", "%s"], 1), ([], 0), (("y",), 0)):
            assert len(ask(connection, "SELECT 1 AS one WHERE 'x' IN :words", words=words)) == found
