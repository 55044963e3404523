"""A model's SQL, read without Spark: its inputs, its columns, whether its slices are independent, what is wrong."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

from sqlglot import exp

from retcon.core.models import Input, Slicing
from retcon.core.queries import Batching, Entity, Query
from retcon.core.slices import Buckets
from retcon.core.suggestions import did_you_mean
from retcon.project.gate_sql import read_gate_query
from retcon.project.lints import hidden_names, output_problems, parameter_problems, variations
from retcon.project.metrics import read_condition, read_metric
from retcon.project.readings import ReadQuery, SqlProblem
from retcon.project.sql.batching import judge_batching, judge_entity
from retcon.project.sql.columns import KnownColumns, nothing_known, output_name, output_names, source_alias, sources
from retcon.project.sql.functions import function_name
from retcon.project.sql.references import common_table, dotted_name, read_references
from retcon.project.sql.statements import Statement, read_statement

__all__ = [
    "ReadQuery",
    "SqlProblem",
    "column_problems",
    "is_built_in",
    "output_columns",
    "passed_on",
    "read_condition",
    "read_gate_query",
    "read_metric",
    "read_query",
]

_NOT_READ = "the SQL couldn't be read"
_METADATA_COLUMNS = frozenset({"_file", "_pos", "_partition", "_spec_id", "_deleted"})


def is_built_in(name: str) -> bool:
    """Is this a function of Spark SQL, as far as sqlglot knows?"""
    statement = read_statement(f"SELECT {name}(1)")
    return isinstance(statement, SqlProblem) or not isinstance(statement.tree.expressions[0], exp.Anonymous)


def read_query(
    text: str,
    *,
    model: str,
    inputs: Sequence[Input],
    slicing: Slicing,
    vouched: bool = False,
    may_vary: bool = False,
    params: Collection[str] = (),
    in_utc: bool = True,
) -> ReadQuery:
    """Read a model's SQL, with everything in it that is refused."""
    statement = read_statement(text)
    if isinstance(statement, SqlProblem):
        return _unread(text, statement, vouched)
    try:
        readings = read_references(statement, model=model, inputs=[_as_scoped(i, slicing) for i in inputs])
        judgement = judge_batching(statement, readings, slicing, in_utc=in_utc)
        by_key = read_references(statement, model=model, inputs=[_by_key(i) for i in inputs])
        entity = judge_entity(statement, by_key)
        columns = output_names(statement.tree, nothing_known)
        problems = [
            *readings.problems,
            *hidden_names(statement),
            *parameter_problems(statement, params, slicing),
            *(() if may_vary else variations(statement)),
            *output_problems(statement, columns, slicing),
            *judgement.problems,
        ]
    except RecursionError:
        problem = SqlProblem(message="the query is nested too deeply to be read", remedy="split it into several models")
        return _unread(text, problem, vouched)
    query = Query(
        text=statement.text,
        references=tuple(reading.reference for reading in readings.found),
        parameters=frozenset(p.name for p in statement.tree.find_all(exp.Placeholder) if p.name),
        columns=columns,
    )
    return ReadQuery(
        query=query,
        batching=Batching(reasons=judgement.reasons, vouched=vouched),
        entity=entity,
        normalised=statement.normalised,
        problems=tuple(sorted(dict.fromkeys(problems), key=lambda problem: (problem.line is None, problem.line or 0))),
        calls=frozenset(function_name(call) for call in statement.tree.find_all(exp.Anonymous)),
    )


def _as_scoped(declared: Input, slicing: Slicing) -> Input:
    """The input with the column by which slices are cut from it in the place of its time."""
    return _by_key(declared) if isinstance(slicing.every, Buckets) else declared


def _by_key(declared: Input) -> Input:
    return replace(declared, time=declared.key, lookback=0, lookahead=0)


def _unread(text: str, problem: SqlProblem, vouched: bool) -> ReadQuery:
    return ReadQuery(
        query=Query(text=text, references=()),
        batching=Batching(reasons=(_NOT_READ,), vouched=vouched),
        entity=Entity(reasons=(_NOT_READ,)),
        normalised=text,
        problems=(problem,),
    )


def column_problems(
    query: Query, inputs: Sequence[Input], columns: Mapping[str, Sequence[str]]
) -> tuple[SqlProblem, ...]:
    """Columns that a query or a declaration takes from a table that doesn't have them."""
    problems = list(_declared_columns(inputs, columns))
    statement = read_statement(query.text) if query.references else None
    if isinstance(statement, Statement):
        problems += _qualified_columns(statement, _known_columns(inputs, columns))
    return tuple(dict.fromkeys(problems))


def _declared_columns(inputs: Sequence[Input], columns: Mapping[str, Sequence[str]]) -> Iterator[SqlProblem]:
    for declared in inputs:
        known = columns.get(declared.table)
        windows = declared.valid.columns if declared.valid is not None else ()
        for key, column in (("time", declared.time), ("key", declared.key), *(("valid", each) for each in windows)):
            if known is not None and column is not None and not _has(known, column):
                yield SqlProblem(
                    message=f"`{key}` of the input `{declared.name}`: {declared.table} has no column `{column}`",
                    remedy=did_you_mean(column, known) or f"it has {', '.join(known)}",
                )


def _qualified_columns(statement: Statement, known_columns: KnownColumns) -> Iterator[SqlProblem]:
    for column in statement.tree.find_all(exp.Column):
        is_simple = column.table and not column.args.get("db") and not column.is_star
        table = _table_behind(column) if is_simple else None
        known = known_columns(table) if table is not None else None
        if (
            table is not None
            and known is not None
            and not _has(known, column.name)
            and column.name.lower() not in _METADATA_COLUMNS
        ):
            yield SqlProblem(
                message=f"`{column.table}.{column.name}`: {dotted_name(table)} has no column `{column.name}`",
                line=statement.line_of(column),
                remedy=did_you_mean(column.name, known) or f"it has {', '.join(known)}",
            )


def _table_behind(column: exp.Column) -> exp.Table | None:
    """The table that the column's qualifier stands for, if it is one as it lies in the catalog."""
    node: exp.Expr | None = column
    while node is not None:
        if isinstance(node, exp.Select):
            named = [s for s in sources(node) if source_alias(s).casefold() == column.table.casefold()]
            if named:
                return _plain_table(named[0]) if len(named) == 1 else None
        is_apart = isinstance(node, exp.CTE) or isinstance(node.parent, exp.From | exp.Join)
        if is_apart and isinstance(node, exp.CTE | exp.Subquery):
            return None  # a query in FROM doesn't see its neighbours
        node = node.parent
    return None


def _plain_table(source: exp.Expr) -> exp.Table | None:
    if not isinstance(source, exp.Table) or common_table(source) is not None or source.args.get("pivots"):
        return None
    alias = source.args.get("alias")
    return None if isinstance(alias, exp.TableAlias) and alias.columns else source


def _has(known: Sequence[str], column: str) -> bool:
    return column.casefold() in {name.casefold() for name in known}


def output_columns(
    query: Query, inputs: Sequence[Input], columns: Mapping[str, Sequence[str]]
) -> tuple[str, ...] | None:
    """The columns that a query returns, a star filled in where the tables behind it are known."""
    if query.columns is not None:
        return query.columns
    statement = read_statement(query.text)
    if isinstance(statement, SqlProblem):
        return None
    return output_names(statement.tree, _known_columns(inputs, columns))


def passed_on(query: Query, inputs: Sequence[Input], column: str) -> tuple[str, str] | None:
    """The table and column that a column of the output is, unchanged; None where the text doesn't show it."""
    statement = read_statement(query.text)
    if isinstance(statement, SqlProblem) or not isinstance(statement.tree, exp.Select):
        return None
    shown = [p.unalias() for p in statement.tree.expressions if (output_name(p) or "").casefold() == column.casefold()]
    if len(shown) != 1 or not isinstance(shown[0], exp.Column):
        return None
    table = _table_behind(shown[0]) if shown[0].table else _only_table(statement.tree)
    tables = {declared.name_in_text: declared.table for declared in inputs}
    found = None if table is None else tables.get(dotted_name(table))
    return None if found is None else (found, str(shown[0].name))


def _only_table(select: exp.Select) -> exp.Table | None:
    """What an unqualified column is of, where a query reads one table and nothing else."""
    read = list(sources(select))
    return _plain_table(read[0]) if len(read) == 1 else None


def _known_columns(inputs: Sequence[Input], columns: Mapping[str, Sequence[str]]) -> KnownColumns:
    tables = {declared.name_in_text: declared.table for declared in inputs}

    def known(table: exp.Table) -> Sequence[str] | None:
        return columns.get(tables.get(dotted_name(table), ""))

    return known
