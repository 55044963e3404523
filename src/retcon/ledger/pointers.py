"""The pointers of Iceberg's JDBC catalog: which metadata file of each table is current."""

from __future__ import annotations

from retcon.ledger.statements import Transaction, ask_one, has_table

ICEBERG_TABLES = "iceberg_tables"
"""Iceberg's own, schema version V1; its key is (catalog_name, table_namespace, table_name)."""


def pointer_of(connection: Transaction, catalog: str, table_name: str) -> str | None:
    """Where a table's newest metadata file is; None where the catalog has no such table."""
    namespace, _, name = table_name.rpartition(".")
    row = ask_one(
        connection,
        f"""SELECT metadata_location FROM {ICEBERG_TABLES}
            WHERE catalog_name = :catalog AND table_namespace = :namespace AND table_name = :name""",
        catalog=catalog,
        namespace=namespace,
        name=name,
    )
    return None if row is None else row.metadata_location


def is_catalog(connection: Transaction) -> bool:
    """Did anybody write to the catalog yet? Its tables are made then."""
    return has_table(connection, ICEBERG_TABLES)
