"""The kinds of columns in the ledger: kept, compared and sorted alike on SQLite and PostgreSQL."""

# ruff: noqa: ARG002 (SQLAlchemy gives the dialect to every conversion)

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import BigInteger, Dialect, Integer, Text, TypeDecorator
from sqlalchemy.types import TypeEngine

from retcon.core.plans import canonical
from retcon.ledger.texts import document_in, moment_if_any, stamp, storable

PLAIN_TEXT = Text().with_variant(Text(collation="C"), "postgresql")
"""SQLite compares bytes; PostgreSQL would sort by the locale of its server."""

COUNTER = BigInteger().with_variant(Integer, "sqlite")
"""SQLite counts up only an INTEGER key."""


class Words(TypeDecorator[str]):
    """Names, labels and what people wrote."""

    impl = Text
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        return dialect.type_descriptor(PLAIN_TEXT)

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        return None if value is None else storable(value)


class Document(TypeDecorator[Any]):
    """Plain data as canonical JSON text."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: Any, dialect: Dialect) -> str:
        return storable(canonical(value))

    def process_result_value(self, value: str | None, dialect: Dialect) -> Any:
        return document_in(value)


class Moment(TypeDecorator[datetime]):
    """A point in time."""

    impl = Text
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        return dialect.type_descriptor(PLAIN_TEXT)

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> str | None:
        return None if value is None else stamp(value)

    def process_result_value(self, value: str | None, dialect: Dialect) -> datetime | None:
        return moment_if_any(value)
