"""Column types as Spark spells them: `struct<a:int,b:array<decimal(10,2)>>`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import field

from retcon.values import dataclass

_ALIASES = {
    "integer": "int",
    "long": "bigint",
    "short": "smallint",
    "byte": "tinyint",
    "real": "float",
    "dec": "decimal",
    "numeric": "decimal",
    "timestamp_ltz": "timestamp",
}
_TYPE_NAME = re.compile(r"\b[a-z_]+\b(?!:)")
"""A word of a type that isn't the name of a struct's field."""


@dataclass(frozen=True, kw_only=True)
class Kind:
    """A type taken apart."""

    name: str
    text: str
    fields: Mapping[str, Kind] = field(default_factory=dict)
    """What is nested in it: a struct's fields, an array's `element`, a map's `key` and `value`, as Iceberg has them."""


def is_same_type(declared: str, found: str) -> bool:
    """Are these two spellings of one type?"""
    return plain_type(declared) == plain_type(found)


def plain_type(kind: str) -> str:
    """A type without spaces and other names for the same."""
    text = _TYPE_NAME.sub(lambda word: _ALIASES.get(word[0], word[0]), re.sub(r"\s+", "", kind.lower()))
    text = re.sub(r"\bdecimal\b(?![(:])", "decimal(10)", text)
    return re.sub(r"\bdecimal\((\d+)\)", r"decimal(\1,0)", text)


def kind_of(text: str) -> Kind | None:
    """The type taken apart; None where it can't be told, as with a field whose name holds a comma."""
    plain = plain_type(text)
    opening = re.fullmatch(r"(struct|array|map)<(.*)>", plain)
    if opening is None:
        return Kind(name=plain, text=plain) if re.fullmatch(r"\w+(\([\d,]+\))?", plain) else None
    name, parts = opening[1], _parts(opening[2])
    if name == "struct":
        named = [part.partition(":") for part in parts]
        labels, kinds = [label for label, _, _ in named], [kind for _, _, kind in named]
    else:
        labels, kinds = (["element"] if name == "array" else ["key", "value"]), parts
    inner = [kind_of(kind) for kind in kinds]
    if len(labels) != len(inner) or len(set(labels)) != len(labels):
        return None
    fields = {label: kind for label, kind in zip(labels, inner, strict=True) if kind is not None and label}
    return Kind(name=name, text=plain, fields=fields) if len(fields) == len(labels) else None


def _parts(text: str) -> list[str]:
    """The parts between commas that stand in no bracket."""
    parts, depth, start = [], 0, 0
    for at, sign in enumerate(text):
        depth += (sign in "<(") - (sign in ">)")
        if sign == "," and depth == 0:
            parts.append(text[start:at])
            start = at + 1
    return [*parts, text[start:]] if text else []
