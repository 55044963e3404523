"""SQL text: names replaced where they stand, whatever they look like, and nothing else touched."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
import sqlglot
from hypothesis import given
from hypothesis import strategies as st
from sqlglot import exp

from retcon.core.queries import Batching, Query, TableReference, patched, quoted, quoted_name, text_literal

HOSTILE = [
    "`",
    "``",
    "a`b",
    "'; DROP TABLE x; --",
    '"',
    "order",
    "ünïcode",
    "東京",
    "🙂",
    "a b",
    "{{ x }}",
    "${env:HOME}",
]
IDENTIFIERS = st.sampled_from(HOSTILE) | st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12)
PARTS = IDENTIFIERS.filter(lambda text: "." not in text)
# What an author may write around names: anything at all, names of other tables and quotes included.
TEXTS = st.text(st.sampled_from("ab`'\" \n.,()東🙂-/*"), max_size=15)


def read_quoted(text: str, at: int = 0) -> tuple[str, int]:
    """One backquoted identifier as Spark's lexer reads it, and where it ends."""
    assert text[at] == "`"
    found = ""
    at += 1
    while True:
        if text[at] != "`":
            found += text[at]
            at += 1
        elif text[at : at + 2] == "``":
            found += "`"
            at += 2
        else:
            return found, at + 1


@given(IDENTIFIERS)
def test_a_quoted_identifier_reads_back_as_itself_and_ends_where_it_should(name: str) -> None:
    text = quoted(name)
    assert read_quoted(text) == (name, len(text))
    # What follows can't be taken for a part of it.
    assert read_quoted(text + "x`") == (name, len(text))


@given(st.lists(PARTS, min_size=1, max_size=4))
def test_a_quoted_name_reads_back_part_by_part(parts: list[str]) -> None:
    text, at, found = quoted_name(".".join(parts)), 0, []
    while at < len(text):
        part, at = read_quoted(text, at)
        found.append(part)
        assert text[at : at + 1] in ("", ".")
        at += 1
    assert found == parts


@pytest.mark.parametrize("name", HOSTILE)
def test_a_parser_takes_a_quoted_name_for_one_table_and_nothing_more(name: str) -> None:
    tree = sqlglot.parse_one(f"SELECT 1 FROM {quoted_name('raw.' + name)}", dialect="spark")
    assert [(t.db, t.name) for t in tree.find_all(exp.Table)] == [("raw", name)]


ODD_TEXTS = ["\\", "'", "\\'", "a\\", "''", "${env:HOME}", "$\\{", "\\${x}"]


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=20) | st.sampled_from(ODD_TEXTS))
def test_a_text_literal_reads_back_as_the_text(value: str) -> None:
    literal = text_literal(value)
    assert (literal[0], literal[-1]) == ("'", "'")
    at, found = 1, ""
    while at < len(literal) - 1:
        assert literal[at] != "'", "the literal ends too early"
        at += literal[at] == "\\"
        found += literal[at]
        at += 1
    assert (at, found) == (len(literal) - 1, value)
    assert "${" not in literal, "Spark would fill it in"


@dataclass(frozen=True)
class Piece:
    """One stretch of an author's text: what stands before a name, the name, what stands before its alias."""

    before: str
    name: str
    between: str
    input: str
    alias: str | None


PIECES = st.builds(
    Piece,
    before=TEXTS,
    name=st.sampled_from(["raw.orders", "`raw`.`ord``ers`", "raw . orders", "r", "raw.東京"]),
    between=TEXTS,
    input=st.sampled_from(["a", "b"]),
    alias=st.none() | PARTS,
)


@given(
    st.lists(PIECES, max_size=5), TEXTS, st.fixed_dictionaries({"a": PARTS, "b": PARTS}), st.booleans(), st.randoms()
)
def test_patching_replaces_the_names_adds_the_aliases_and_leaves_every_other_character(
    pieces: list[Piece], rest: str, names: dict[str, str], apart: bool, order: object
) -> None:
    text = expected = ""
    references = []
    for piece in pieces:
        text += piece.before
        start, end = len(text), len(text) + len(piece.name)
        text += piece.name + piece.between
        references.append(
            TableReference(
                input=piece.input, start=start, end=end, alias=piece.alias, alias_at=len(text) if apart else None
            )
        )
        alias = "" if piece.alias is None else f" AS {quoted(piece.alias)}"
        expected += piece.before + quoted(names[piece.input])
        expected += piece.between + alias if apart else alias + piece.between
    order.shuffle(references)  # type: ignore[attr-defined]
    query = Query(text=text + rest, references=tuple(references))
    assert patched(query, names) == expected + rest


def test_a_query_without_inputs_stays_as_it_is() -> None:
    assert patched(Query(text="SELECT 'raw.orders'", references=()), {}) == "SELECT 'raw.orders'"


def test_the_word_of_the_author_stands_against_the_reasons() -> None:
    assert Batching().is_sliceable
    assert not Batching(reasons=("LIMIT",)).is_sliceable
    assert Batching(reasons=("LIMIT",), vouched=True).is_sliceable
