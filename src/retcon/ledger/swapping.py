"""The swap: every table of a publish moves to its new metadata file, or none does."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import ColumnElement, Connection, column, table, update

from retcon.core.pointers import PointerSwap
from retcon.errors import Conflict
from retcon.ledger.pointers import ICEBERG_TABLES, pointer_of

_ICEBERG_TABLES = table(
    ICEBERG_TABLES,
    column("catalog_name"),
    column("table_namespace"),
    column("table_name"),
    column("metadata_location"),
    column("previous_metadata_location"),
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
