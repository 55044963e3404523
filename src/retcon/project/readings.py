"""What retcon finds in a model's SQL, and what it refuses."""

from __future__ import annotations

from retcon.core.queries import Batching, Entity, Query
from retcon.values import dataclass


@dataclass(frozen=True, kw_only=True)
class SqlProblem:
    """Something in a query that retcon refuses, with the line of the SQL where it is."""

    message: str
    line: int | None = None
    remedy: str = ""


@dataclass(frozen=True, kw_only=True)
class ReadQuery:
    """What retcon found in a model's SQL."""

    query: Query
    batching: Batching
    entity: Entity
    normalised: str
    """The SQL without comments and layout, for fingerprints."""
    problems: tuple[SqlProblem, ...]
    calls: frozenset[str] = frozenset()
    """Functions that sqlglot doesn't know, in lower case: those of the project are among them."""
