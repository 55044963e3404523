"""A ledger opens as the old one or as the new one, never as half of each."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Engine, event

from retcon.errors import Refused
from retcon.ledger import revisions, schema
from retcon.ledger.engines import writing
from retcon.ledger.migrate import MIGRATIONS, migrate
from retcon.ledger.store import SqlLedger
from tests.ledger.conftest import CATALOG, Database
from tests.ledger.crowds import at_once
from tests.ledger.examples import ANN, NOON, a_plan, opened

TABLES = {*schema.METADATA.tables, revisions.VERSION_TABLE}


@pytest.fixture
def fresh(uri: str, empty_ledger: SqlLedger) -> Database:
    """The database of `empty_ledger`, made by Iceberg before."""
    if uri.startswith("sqlite"):
        file = Path(uri.removeprefix("sqlite:///"))
        file.parent.mkdir()
        file.touch()
    database = Database(uri)
    database.run("CREATE TABLE iceberg_tables (x INTEGER)")
    return database


def test_preparing_makes_the_ledgers_tables_and_no_others(empty_ledger: SqlLedger, fresh: Database) -> None:
    empty_ledger.prepare()
    assert fresh.tables() == {*TABLES, "iceberg_tables"}
    assert all(name.startswith("retcon_") for name in TABLES)
    empty_ledger.prepare()
    assert fresh.tables() == {*TABLES, "iceberg_tables"}


def test_a_ledger_that_is_up_to_date_is_not_migrated(ledger: SqlLedger, database: Database) -> None:
    def never(engine: Engine) -> None:
        raise AssertionError("migrated")

    SqlLedger(database.uri, CATALOG, migrate=never).prepare()


def test_the_migrations_make_exactly_the_tables_that_the_code_knows(ledger: SqlLedger, database: Database) -> None:
    def ours(name: str | None, kind: str, _: object) -> bool:
        return kind != "table" or str(name) in schema.METADATA.tables

    with database.engine.connect() as connection:
        options = {"compare_type": True, "version_table": revisions.VERSION_TABLE, "include_name": ours}
        assert compare_metadata(MigrationContext.configure(connection, opts=options), schema.METADATA) == []


def test_the_code_knows_every_migration_that_is_shipped() -> None:
    config = Config()
    config.set_main_option("script_location", MIGRATIONS)
    shipped = [script.revision for script in ScriptDirectory.from_config(config).walk_revisions()]
    assert tuple(reversed(shipped)) == revisions.REVISIONS


@contextmanager
def breaking_at(statement: int) -> Iterator[None]:
    """The database breaks when so many statements have changed it."""
    seen = count(1)

    def listen(connection: object, cursor: object, text: str, *_: Any) -> None:
        if text.lstrip().startswith(("CREATE", "ALTER", "INSERT", "UPDATE")) and next(seen) == statement:
            raise RuntimeError("pulled the plug")

    event.listen(Engine, "before_cursor_execute", listen)
    try:
        yield
    finally:
        event.remove(Engine, "before_cursor_execute", listen)


def test_a_migration_that_breaks_at_any_statement_leaves_no_ledger(empty_ledger: SqlLedger, fresh: Database) -> None:
    for statement in range(1, 100):
        try:
            with breaking_at(statement):
                empty_ledger.prepare()
        except RuntimeError:
            assert fresh.tables() == {"iceberg_tables"}
            assert not empty_ledger.exists()
        else:
            break
    assert statement > len(TABLES)
    assert empty_ledger.runs() == []


NEXT = f"""
import sqlalchemy as sa
from alembic import op

revision, down_revision = "next", "{revisions.REVISIONS[-1]}"

def upgrade():
    op.add_column("retcon_runs", sa.Column("mood", sa.Text()))
    op.execute("UPDATE retcon_runs SET mood = 'fine'")
    op.create_table("retcon_moods", sa.Column("x", sa.Integer()))
"""


def test_an_update_that_breaks_at_any_statement_leaves_the_old_ledger(
    ledger: SqlLedger, uri: str, tmp_path: Path
) -> None:
    old = SqlLedger(uri, CATALOG, migrate=migrate)
    old.prepare()
    run = old.open_run(a_plan(), opened(a_plan()), at=NOON, who=ANN)
    newer = tmp_path / "migrations"
    shutil.copytree(Path(schema.__file__).parent / "migrations", newer)
    (newer / "versions" / "r_next_mood.py").write_text(NEXT)
    database = Database(uri)
    for statement in range(1, 100):
        try:
            with breaking_at(statement):
                migrate(database.engine, str(newer))
        except RuntimeError:
            assert old.run(run.id) == run
            assert "retcon_moods" not in database.tables()
        else:
            break
    assert statement > 3
    assert database.run("SELECT mood FROM retcon_runs")[0].mood == "fine"
    with pytest.raises(Refused, match="newer retcon"):
        old.run(run.id)


KILLED = """
import os, signal, sys
from sqlalchemy import Engine, event
from retcon.ledger.migrate import migrate
from retcon.ledger.store import SqlLedger

@event.listens_for(Engine, "after_cursor_execute")
def kill(connection, cursor, text, *_):
    if "retcon_verdicts" in text and "CREATE TABLE" in text:
        os.kill(os.getpid(), signal.SIGKILL)

SqlLedger(sys.argv[1], "lake", migrate=migrate).prepare()
"""


@pytest.mark.slow
def test_a_driver_killed_while_it_migrates_leaves_no_ledger_and_the_next_one_makes_it(
    empty_ledger: SqlLedger, fresh: Database
) -> None:
    killed = subprocess.run([sys.executable, "-c", KILLED, fresh.uri], check=False)
    assert killed.returncode == -9
    assert fresh.tables() == {"iceberg_tables"}
    empty_ledger.prepare()
    assert fresh.tables() == {*TABLES, "iceberg_tables"}


def test_an_older_ledger_is_brought_up_to_date_and_none_is_made_where_there_is_none(
    empty_ledger: SqlLedger, fresh: Database
) -> None:
    empty_ledger.bring_up_to_date()
    assert fresh.tables() == {"iceberg_tables"}
    config = Config()
    config.set_main_option("script_location", MIGRATIONS)
    with writing(fresh.engine).begin() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, revisions.REVISIONS[0])
    with pytest.raises(Refused, match="made by an older retcon"):
        empty_ledger.runs()
    empty_ledger.bring_up_to_date()
    assert empty_ledger.runs() == []


def test_drivers_that_prepare_one_ledger_at_once_make_it_once(uri: str, empty_ledger: SqlLedger) -> None:
    assert at_once([SqlLedger(uri, CATALOG, migrate=migrate).prepare for _ in range(4)]) == [None] * 4
    assert empty_ledger.exists()


def test_a_ledger_made_by_a_newer_retcon_is_refused_by_all(empty_ledger: SqlLedger, fresh: Database) -> None:
    empty_ledger.prepare()
    assert empty_ledger.runs() == []  # a process that had read it is told, too
    fresh.run("UPDATE retcon_alembic_version SET version_num = '9999'")
    plan = a_plan()
    for act in (
        empty_ledger.prepare,
        empty_ledger.runs,
        lambda: empty_ledger.open_run(plan, opened(plan), at=NOON, who=ANN),
        lambda: migrate(fresh.engine),
    ):
        with pytest.raises(Refused, match="made by a newer retcon") as refused:
            act()
        assert "upgrade" in refused.value.next
    assert empty_ledger.exists()


def test_a_ledger_made_by_an_older_retcon_is_not_read_half(ledger: SqlLedger, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(revisions, "REVISIONS", (*revisions.REVISIONS, "next"))
    with pytest.raises(Refused, match="made by an older retcon"):
        ledger.runs()
