"""The kinds of columns in the ledger: kept, compared and sorted alike on SQLite and PostgreSQL."""

# ruff: noqa: ARG002 (SQLAlchemy gives the dialect to every conversion)

from __future__ import annotations

import json
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

from sqlalchemy import BigInteger, Dialect, Integer, Text, TypeDecorator
from sqlalchemy.types import TypeEngine

from retcon.core.plans import Plan, canonical, from_document

PLAIN_TEXT = Text().with_variant(Text(collation="C"), "postgresql")
"""SQLite compares bytes; PostgreSQL would sort by the locale of its server."""

COUNTER = BigInteger().with_variant(Integer, "sqlite")
"""SQLite counts up only an INTEGER key."""


def storable(text: str) -> str:
    """Text without what a database can't hold: PostgreSQL takes no NUL, neither takes half a surrogate pair."""
    return text.replace("\0", "\N{REPLACEMENT CHARACTER}").encode("utf-8", "replace").decode()


def stamp(moment: datetime) -> str:
    """A moment as text of fixed width in UTC, so that text order is time order."""
    if moment.tzinfo is None:
        raise ValueError(f"the ledger needs to know the time zone of {moment!r}")
    return moment.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


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
        return None if value is None else json.loads(value)


class PlanDocument(Document):
    """The document of a plan, read as the plan that it tells of. The same text gives the same plan, which nobody
    changes.
    """

    cache_ok = True

    def process_result_value(self, value: str | None, dialect: Dialect) -> Plan | None:
        return None if value is None else _plan_of(value)


@lru_cache(maxsize=256)
def _plan_of(text: str) -> Plan:
    return from_document(json.loads(text))


class Moment(TypeDecorator[datetime]):
    """A point in time."""

    impl = Text
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        return dialect.type_descriptor(PLAIN_TEXT)

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> str | None:
        return None if value is None else stamp(value)

    def process_result_value(self, value: str | None, dialect: Dialect) -> datetime | None:
        return None if value is None else datetime.fromisoformat(value).astimezone(UTC)
