"""Patching: an input's name is replaced in the text, and nothing else changes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import sqlglot
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlglot import exp

from retcon.core.models import Input, Slicing
from retcon.core.queries import Query, patched
from retcon.project.queries import read_query

WORDS = st.sampled_from(["raw", "orders", "日本", "größe", "naïve_1", "x", "Mixed", "a_b"])
ODD_WORDS = st.sampled_from(
    ["two words", "tick`tick", "select", "semi;colon", "dash--dash", "quote'quote", "🎉", "{{x}}"]
)
BLANKS = st.sampled_from([
    " ",
    "\n",
    "  \t ",
    " /* a 🎉 comment; FROM nowhere */ ",
    " -- to the end, FROM nothing 'unclosed\n",
    "\n/* /* in */ out */\n",
])  # fmt: skip
FILLERS = st.sampled_from([
    "'🎉 FROM raw.orders'",
    "'it\\'s'",
    '"double"',
    "`raw`.x",
    "count(*)",
    "CASE WHEN y THEN 'x' END",
    "array(1, 2)[0]",
])  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Text:
    """A query put together from pieces, with the names that stand in it."""

    sql: str
    inputs: tuple[Input, ...]
    written: tuple[str, ...]


@st.composite
def texts(draw: st.DrawFn) -> Text:
    pieces: list[str] = []
    inputs: list[Input] = []
    written: list[str] = []

    def add(*more: str) -> None:
        for piece in more:
            pieces.extend((piece, draw(BLANKS)))

    def part() -> tuple[str, str]:
        is_odd = draw(st.booleans())
        word = draw(ODD_WORDS if is_odd else WORDS)
        is_quoted = is_odd or draw(st.booleans())
        return word, "`" + word.replace("`", "``") + "`" if is_quoted else word

    def table() -> None:
        alias = f"t{len(inputs)}"
        parts = [part() for _ in range(draw(st.integers(1, 2)))]
        aliasing = draw(st.sampled_from([(), (alias,), ("AS", alias), ("AS", f"`{alias}`")]))
        # without an alias, the name's last part is one
        parts.append(part() if aliasing else (alias, alias))
        dot = draw(st.sampled_from([".", " . ", "./* x */"]))
        inputs.append(Input(name=alias, table=".".join(word for word, _ in parts), time="d"))
        written.append(dot.join(piece for _, piece in parts))
        add(written[-1], *aliasing)

    def source(depth: int) -> None:
        if depth and draw(st.booleans()):
            add("(")
            select(depth - 1)
            add(") s")
        else:
            table()

    def select(depth: int) -> None:
        add("SELECT", *draw(st.sampled_from([(), ("/*+ BROADCAST(t0) */",)])), "d,", draw(FILLERS), "AS x", "FROM")
        source(depth)
        if draw(st.booleans()):
            add(draw(st.sampled_from(["JOIN", "LEFT OUTER JOIN", "CROSS JOIN", ","])))
            source(depth)
        if depth and draw(st.booleans()):
            add("WHERE EXISTS (")
            select(depth - 1)
            add(")")

    if draw(st.booleans()):
        add("WITH c AS (")
        select(0)
        add(")")
    select(1)
    if draw(st.booleans()):
        add("UNION ALL")
        select(0)
    return Text(sql="".join(pieces), inputs=tuple(inputs), written=tuple(written))


def read(sql: str, inputs: tuple[Input, ...]) -> Query:
    return read_query(sql, model="mart.m", inputs=inputs, slicing=Slicing(by="d")).query


def tree_of(sql: str, renamed: Mapping[str, str]) -> exp.Expr:
    """The tree of a text, its tables called by other names, and each with an alias."""
    tree = sqlglot.parse_one(sql, dialect="spark")
    for table in list(tree.find_all(exp.Table)):
        name = ".".join(part.name for part in table.parts)
        if table.find_ancestor(exp.Hint) or name not in renamed:
            continue
        if not table.alias:
            table.set("alias", exp.TableAlias(this=exp.to_identifier(table.name, quoted=True)))
        table.set("this", exp.to_identifier(renamed[name], quoted=True))
        table.set("db", None)
        table.set("catalog", None)
    return tree


@settings(max_examples=40, deadline=None)
@given(texts())
def test_every_reference_is_found_where_it_stands(text: Text) -> None:
    query = read(text.sql, text.inputs)
    assert [query.text[r.start : r.end] for r in query.references] == list(text.written)
    assert [r.input for r in query.references] == [i.name for i in text.inputs]


@settings(max_examples=40, deadline=None)
@given(texts())
def test_patching_changes_the_names_and_nothing_else(text: Text) -> None:
    views = {declared.name: f"view {declared.name}" for declared in text.inputs}
    by_table = {declared.table: views[declared.name] for declared in text.inputs}
    sql = patched(read(text.sql, text.inputs), views)
    for view in views.values():
        assert sql.count(f"`{view}`") == 1
    if len(by_table) == len(text.inputs):  # the tree tells tables apart by name only
        assert tree_of(sql, {}) == tree_of(text.sql, by_table)


@settings(max_examples=40, deadline=None)
@given(texts())
def test_the_names_put_back_give_the_text_again(text: Text) -> None:
    views = {declared.name: f"scoped.{declared.name}" for declared in text.inputs}
    there = patched(read(text.sql, text.inputs), views)
    again = read(there, tuple(Input(name=i.name, table=views[i.name], time="d") for i in text.inputs))
    back, position = "", 0
    for reference, written in zip(again.references, text.written, strict=True):
        back += there[position : reference.start] + written
        position = reference.end
        alias = f" AS `{reference.input}`"
        if written.endswith(reference.input) and there.startswith(alias, position):
            position += len(alias)  # patching has added it
    assert back + there[position:] == text.sql


def test_each_name_is_quoted_however_it_was_written() -> None:
    declared = (Input(name="raw.orders", table="raw.orders", time="d"),)
    query = read("SELECT d FROM raw.`orders`, (SELECT 1 AS one)", declared)
    assert patched(query, {"raw.orders": "temp`1"}) == "SELECT d FROM `temp``1` AS `orders`, (SELECT 1 AS one)"
