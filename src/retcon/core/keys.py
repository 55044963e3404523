"""Key scopes: some entities of a table, by the values of one column."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from retcon.core.models import Model, Strategy
from retcon.errors import BadArguments
from retcon.values import dataclass

MOST_INLINE = 200
"""Keys that a plan lists itself, and a query may hold as a list; more of them are joined, from a file."""


@dataclass(frozen=True, kw_only=True)
class Keys:
    """Entities as text; their type is that of the column in each table."""

    column: str
    count: int
    values: tuple[str, ...] = ()
    digest: str = ""
    """Of the file beside the plan that holds them, where they are many."""

    def document(self) -> dict[str, Any]:
        """As plain data, for the plan."""
        held = {"digest": self.digest} if self.digest else {"values": list(self.values)}
        return {"column": self.column, "count": self.count, **held}


def keys_from(document: Mapping[str, Any]) -> Keys:
    """The inverse of `document`."""
    return Keys(
        column=document["column"],
        count=document["count"],
        values=tuple(document.get("values", ())),
        digest=document.get("digest", ""),
    )


def keys_file(plan: str) -> str:
    """Where the many keys of a plan are, in the project's folder: one JSON document a line."""
    return f"backfills/{plan}.keys.jsonl"


def parse_keys(text: str) -> tuple[str, tuple[str, ...]]:
    """`customer_id=1,2,3` as a column and its values."""
    column, equals, listed = text.partition("=")
    values = tuple(dict.fromkeys(value.strip() for value in listed.split(",") if value.strip()))
    if not column.strip() or not equals or not values:
        raise BadArguments(f"--keys {text!r} names no keys", next="write --keys customer_id=1,2,3")
    return column.strip(), values


_WHOLE_NUMBERS = ("bigint", "int", "smallint", "tinyint")
_WHOLE_NUMBER = re.compile(r"[+-]?[0-9]+")


def is_value_of(text: str, kind: str) -> bool:
    """Could a column of this type hold it? Told for numbers; other texts are for Spark to read."""
    return kind not in _WHOLE_NUMBERS or _WHOLE_NUMBER.fullmatch(text) is not None


def is_told_by(kind: str, own: str) -> bool:
    """Does a key of one type, cast to another, equal exactly the keys that a join of both would find equal?"""
    is_whole = kind in _WHOLE_NUMBERS or re.fullmatch(r"decimal\(\d+,\s*0\)", kind) is not None
    return kind == own or (own in _WHOLE_NUMBERS and (is_whole or kind == "string"))


@dataclass(frozen=True, kw_only=True)
class Neighbours:
    """What else a plan holds: models of which only keys are recomputed, and those of which whole slices are."""

    keyed: frozenset[str] = frozenset()
    whole: frozenset[str] = frozenset()


def why_widened(model: Model, column: str, around: Neighbours) -> str:
    """Why the rows of some keys can't be recomputed by themselves; empty if they can."""
    if model.reads_itself:
        return "it reads its previous slice"
    if model.strategy is Strategy.FULL:
        return "its strategy is full, which replaces every slice"
    if model.strategy is Strategy.MERGE:
        return "its strategy is merge, which leaves keys that aren't computed alone"
    if all(i.key is None for i in model.inputs):
        return "none of its inputs says which column carries the entity (`key`)"
    if not model.entity.is_kept_apart:
        return "; ".join(model.entity.reasons)
    if column.casefold() not in model.entity.columns:
        return f"its output doesn't carry {column} as its inputs' `key` has it"
    for i in model.inputs:
        if i.table in around.whole:
            return f"whole slices of {i.table} are recomputed, which it reads"
        if i.table in around.keyed and (i.key is None or i.key.casefold() != column.casefold()):
            # Of that table, rows of these keys change; whoever knows them by another column can't tell which.
            return f"it reads {i.table} without `key: {column}`"
    return ""
