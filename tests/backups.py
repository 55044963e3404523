"""A ledger that is put back as it was, while the catalog beside it goes on."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path


def saved_ledger(file: Path, copy: Path) -> Callable[[], None]:
    """Copy the database; what is given puts the ledger's tables back. Iceberg's own stay as they are then."""
    with closing(sqlite3.connect(file)) as now, closing(sqlite3.connect(copy)) as saved:
        now.backup(saved)

    def restore() -> None:
        with closing(sqlite3.connect(file)) as database:
            tables = database.execute("SELECT name FROM sqlite_master WHERE type = 'table' AND name LIKE 'retcon%'")
            names = [name for (name,) in tables]
            database.execute("ATTACH ? AS saved", (str(copy),))
            for name in names:
                database.execute(f"DELETE FROM main.{name}")
                database.execute(f"INSERT INTO main.{name} SELECT * FROM saved.{name}")
            database.commit()

    return restore
