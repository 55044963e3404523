"""Questions to the ledger as SQL text that SQLite and PostgreSQL both understand, by whatever connection there is.

What is written goes through the tables of `schema`, whose columns know what they hold. What is only asked needs neither
them nor SQLAlchemy, which takes a short command a third of its time to load.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from functools import lru_cache
from typing import Any, Protocol

from retcon.ledger.texts import storable


class Dialect(Protocol):
    """Which database it is."""

    @property
    def name(self) -> str: ...


class Transaction(Protocol):
    """A connection to a ledger: SQLAlchemy's, or a bare one."""

    @property
    def dialect(self) -> Dialect: ...
    def exec_driver_sql(self, statement: str, parameters: dict[str, Any], /) -> Iterable[Any]: ...
    def close(self) -> None: ...


def ask(connection: Transaction, statement: str, **words: Any) -> list[Any]:
    """The rows that answer a question, as the database has them. `:name` in it stands for a word that is bound, and
    `:names` after IN for a list of words.
    """
    lists = tuple((name, len(word)) for name, word in words.items() if _is_list(word))
    bound: dict[str, Any] = {}
    for name, word in words.items():
        each = {f"{name}_{at}": item for at, item in enumerate(word)} if _is_list(word) else {name: word}
        bound |= {name: storable(item) if isinstance(item, str) else item for name, item in each.items()}
    is_server = connection.dialect.name == "postgresql"
    return list(connection.exec_driver_sql(_spelled(statement, lists, is_server), bound))


def ask_one(connection: Transaction, statement: str, **words: Any) -> Any:
    """The first row that answers a question; None where there is none."""
    return next(iter(ask(connection, statement, **words)), None)


def has_table(connection: Transaction, name: str) -> bool:
    """Is there a table of this name where the ledger's are?"""
    if connection.dialect.name == "postgresql":
        return bool(ask(connection, "SELECT 1 WHERE to_regclass(:name) IS NOT NULL", name=name))
    return bool(ask(connection, "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = :name", name=name))


def _is_list(word: object) -> bool:
    return isinstance(word, Collection) and not isinstance(word, str)


@lru_cache(maxsize=256)
def _spelled(statement: str, lists: tuple[tuple[str, int], ...], is_server: bool) -> str:
    """The statement as a driver wants it."""
    for name, count in lists:
        # In a list of nothing is nothing.
        items = ", ".join(f":{name}_{at}" for at in range(count)) or "NULL"
        statement = re.sub(rf":{name}\b", f"({items})", statement)
    return re.sub(r":(\w+)", r"%(\1)s", statement) if is_server else statement
