"""Bringing a ledger to this version's revision; apart from the rest, so that reading loads no Alembic."""

from __future__ import annotations

from alembic import command
from alembic.config import Config
from sqlalchemy import Connection, Engine, text

from retcon.ledger.engines import writing
from retcon.ledger.revisions import require_known, revision_of

MIGRATIONS = "retcon.ledger:migrations"

_LOCK = 0x726574636F6E
"""The advisory lock that migrating drivers queue for: "retcon" in ASCII."""


def migrate(engine: Engine, migrations: str = MIGRATIONS) -> None:
    """Make the ledger, or bring it up to date, in one transaction: it is the old one or the new one, never half."""
    with writing(engine).begin() as connection:
        _queue(connection)
        require_known(revision_of(connection))
        config = Config()
        config.set_main_option("script_location", migrations)
        config.attributes["connection"] = connection
        command.upgrade(config, "head")


def _queue(connection: Connection) -> None:
    # SQLite's writing transactions queue by themselves.
    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _LOCK})
