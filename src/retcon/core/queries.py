"""A model's SQL text with the places where its inputs are named."""

from __future__ import annotations

from collections.abc import Mapping

from retcon.values import dataclass


@dataclass(frozen=True, kw_only=True)
class TableReference:
    """Where the text names an input: the characters to replace, and where an alias goes if there is none."""

    input: str
    start: int
    end: int
    alias: str | None = None
    alias_at: int | None = None


@dataclass(frozen=True, kw_only=True)
class Query:
    """Plain Spark SQL and what retcon found in it."""

    text: str
    references: tuple[TableReference, ...]
    parameters: frozenset[str] = frozenset()
    columns: tuple[str, ...] | None = None
    """Names of the output columns; None where a star hides them."""


@dataclass(frozen=True, kw_only=True)
class Batching:
    """May many slices be computed in one job? If not, why."""

    reasons: tuple[str, ...] = ()
    vouched: bool = False
    """The author's word (`replay.sliceable: true`) stands against the reasons."""

    @property
    def is_sliceable(self) -> bool:
        return self.vouched or not self.reasons


@dataclass(frozen=True, kw_only=True)
class Entity:
    """May the rows of some entities be computed without those of others? If not, why."""

    columns: frozenset[str] = frozenset()
    """Output columns, folded, that are the inputs' `key`, unchanged."""
    reasons: tuple[str, ...] = ()

    @property
    def is_kept_apart(self) -> bool:
        return not self.reasons


def quoted(identifier: str) -> str:
    """One part of a SQL name, safe to stand in a text."""
    return "`" + identifier.replace("`", "``") + "`"


def quoted_name(name: str) -> str:
    """A dotted table name, each part quoted."""
    return ".".join(quoted(part) for part in name.split("."))


def text_literal(value: str) -> str:
    """A string as a Spark SQL literal."""
    # The last one, since Spark would fill in ${env:…} even here; an escaped brace is a brace.
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'").replace("${", "$\\{") + "'"


def patched(query: Query, names: Mapping[str, str]) -> str:
    """The text with every input's name replaced, and everything else as the author wrote it."""
    edits: list[tuple[int, int, str]] = []
    for reference in query.references:
        edits.append((reference.start, reference.end, quoted_name(names[reference.input])))
        if reference.alias is not None:
            at = reference.end if reference.alias_at is None else reference.alias_at
            edits.append((at, at, f" AS {quoted(reference.alias)}"))
    pieces: list[str] = []
    position = 0
    for start, end, replacement in sorted(edits):
        pieces += [query.text[position:start], replacement]
        position = end
    return "".join([*pieces, query.text[position:]])
