"""Which version of retcon a ledger is of."""

from __future__ import annotations

from retcon.errors import Refused
from retcon.ledger.statements import Transaction, ask_one, has_table

REVISIONS = ("0001", "0002", "0003", "0004", "0005", "0006", "0007", "0008", "0009", "0010", "0011", "0012")
"""Every revision that this version can bring up to date, oldest first; `migrations/` holds one file for each."""

VERSION_TABLE = "retcon_alembic_version"


def has_ledger(connection: Transaction) -> bool:
    """Was a ledger ever made in this database?"""
    return has_table(connection, VERSION_TABLE)


def revision_of(connection: Transaction) -> str | None:
    """The revision of the ledger in this database; None where there is none."""
    return _revision(connection) if has_ledger(connection) else None


def require_known(revision: str | None) -> None:
    """Refuse a ledger that this version can't understand."""
    if revision is not None and revision not in REVISIONS:
        raise Refused(
            f"the ledger was made by a newer retcon (revision {revision}, this one knows up to {REVISIONS[-1]})",
            state="nothing was read or written",
            next="install the newer retcon: pip install --upgrade retcon",
        )


def is_ready(connection: Transaction) -> bool:
    """Is there a ledger? One of another revision is refused."""
    return has_ledger(connection) and is_current(connection)


def is_current(connection: Transaction) -> bool:
    """The same where one was made: it may be without a revision yet."""
    revision = _revision(connection)
    require_known(revision)
    if revision is not None and revision != REVISIONS[-1]:
        raise Refused(
            f"the ledger was made by an older retcon (revision {revision}, this one needs {REVISIONS[-1]})",
            state="nothing was read or written",
            next="any command that writes brings it up to date, such as `retcon plan`, `retcon load` or `retcon sweep`",
        )
    return revision is not None


def _revision(connection: Transaction) -> str | None:
    row = ask_one(connection, f"SELECT version_num FROM {VERSION_TABLE}")
    return None if row is None else str(row.version_num)
