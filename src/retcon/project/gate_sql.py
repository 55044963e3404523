"""SQL of gates beside metrics and conditions: queries that must find nothing.

Errors read on from the key's name.
"""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp

from retcon.core.queries import Query
from retcon.project.lints import hidden_names, variations
from retcon.project.shapes import Objection
from retcon.project.sql.columns import nothing_known, output_names
from retcon.project.sql.references import read_any_references
from retcon.project.sql.statements import SqlProblem, Statement, read_statement


def read_gate_query(text: str) -> Query:
    """The one query in this text, with every table that it names under that name."""
    statement = read_statement(text)
    if isinstance(statement, SqlProblem):
        raise Objection(f"can't be read: {statement.message}", remedy=statement.remedy)
    readings = read_any_references(statement)
    for problem in (*readings.problems, *_varying(statement)):
        raise Objection(f"can't be judged: {problem.message}", remedy=problem.remedy)
    if statement.tree.find(exp.Placeholder):
        raise Objection("holds a parameter, and nothing is bound in it", remedy="write the value itself")
    if not readings.found:
        raise Objection("reads no table", remedy="name the model's own table in FROM")
    return Query(
        text=statement.text,
        references=tuple(reading.reference for reading in readings.found),
        columns=output_names(statement.tree, nothing_known),
    )


def _varying(statement: Statement) -> Iterator[SqlProblem]:
    yield from hidden_names(statement)
    for problem in variations(statement):
        # A model may say that it varies; a verdict may not.
        yield SqlProblem(message=problem.message, line=problem.line, remedy=problem.remedy.partition("; or say why")[0])
