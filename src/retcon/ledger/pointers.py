"""The pointers of Iceberg's JDBC catalog: which metadata file of each table is current."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sqlalchemy import ColumnElement, Connection, bindparam, column, inspect, select, table, update

from retcon.errors import Conflict

if TYPE_CHECKING:
    from retcon.core.pointers import PointerSwap

# Iceberg's table, schema version V1; its key is (catalog_name, table_namespace, table_name).
_ICEBERG_TABLES = table(
    "iceberg_tables",
    column("catalog_name"),
    column("table_namespace"),
    column("table_name"),
    column("metadata_location"),
    column("previous_metadata_location"),
)


# Asked a hundred times a run: to make such a query takes longer than to ask it.
_WHERE = select(_ICEBERG_TABLES.c.metadata_location).where(
    _ICEBERG_TABLES.c.catalog_name == bindparam("catalog"),
    _ICEBERG_TABLES.c.table_namespace == bindparam("namespace"),
    _ICEBERG_TABLES.c.table_name == bindparam("name"),
)


def swap_pointers(connection: Connection, catalog: str, swaps: Sequence[PointerSwap]) -> None:
    """Move every table to its new metadata file, provided that nobody moved one of them in between."""
    # Always in the same order: two publishes that share tables wait for one another instead of deadlocking.
    for table_name, old, new in sorted(step for swap in swaps for step in swap.steps):
        current, is_table = _ICEBERG_TABLES.c, _is_table(catalog, table_name)
        moved = connection.execute(
            update(_ICEBERG_TABLES)
            .where(*is_table, current.metadata_location == old)
            .values(metadata_location=new, previous_metadata_location=old)
        )
        if moved.rowcount != 1:
            raise _conflict(table_name, catalog, is_there=pointer_of(connection, catalog, table_name) is not None)


def pointer_of(connection: Connection, catalog: str, table_name: str) -> str | None:
    """Where a table's newest metadata file is; None where the catalog has no such table."""
    namespace, _, name = table_name.rpartition(".")
    return connection.scalar(_WHERE, {"catalog": catalog, "namespace": namespace, "name": name})


def is_catalog(connection: Connection) -> bool:
    """Did anybody write to the catalog yet? Its tables are made then."""
    return inspect(connection).has_table(_ICEBERG_TABLES.name)


def _is_table(catalog: str, table_name: str) -> tuple[ColumnElement[bool], ...]:
    namespace, _, name = table_name.rpartition(".")
    current = _ICEBERG_TABLES.c
    return current.catalog_name == catalog, current.table_namespace == namespace, current.table_name == name


def _conflict(table: str, catalog: str, *, is_there: bool) -> Conflict:
    happened = "was written by somebody else meanwhile" if is_there else f"is no longer in the catalog {catalog}"
    return Conflict(
        f"{table} {happened}",
        state="every table is as it was before this step, and nothing was recorded",
        next="run the same command again: it looks at what changed",
    )
