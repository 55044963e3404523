"""Metrics of gates: one aggregate over the rows of a slice. Errors read on from the word `metric`."""

from __future__ import annotations

from sqlglot import exp

from retcon.core.gates import Metric
from retcon.project.lints import hidden_names, variations
from retcon.project.sql.functions import is_aggregate
from retcon.project.sql.statements import SqlProblem, Statement, read_statement

_EXAMPLES = "such as `sum(amount)` or `count(*)`"


def read_metric(expression: str) -> Metric:
    """The metric that this text states, such as `sum(revenue_usd)`."""
    text = expression.strip()
    statement, aggregate = _parsed(text)
    if any(token.comments for token in statement.tokens):
        raise ValueError("holds a comment, which would hide the SQL that follows it")
    if aggregate.find(exp.Query):
        raise ValueError("holds a subquery; it is computed from the rows of a slice alone")
    if aggregate.find(exp.Window):
        raise ValueError("holds a window; it is one number for each slice")
    if aggregate.find(exp.Placeholder):
        raise ValueError("holds a parameter, and nothing is bound in it")
    for problem in (*hidden_names(statement), *variations(statement)):
        raise ValueError(f"varies: {problem.message}")
    _check_aggregates(aggregate)
    return Metric(expression=text, is_additive=_is_additive(aggregate))


def _parsed(text: str) -> tuple[Statement, exp.Expr]:
    if not text:
        raise ValueError(f"is empty; write an aggregate {_EXAMPLES}")
    statement = read_statement(f"SELECT {text}")
    if isinstance(statement, SqlProblem):
        raise ValueError(f"can't be read: {statement.message}")
    tree = statement.tree
    is_bare = isinstance(tree, exp.Select) and set(_filled(tree)) == {"expressions"}
    if not is_bare or len(tree.expressions) != 1 or statement.text != f"SELECT {text}":
        raise ValueError(f"must be one expression {_EXAMPLES}")
    expression = tree.expressions[0]
    if isinstance(expression, exp.Alias | exp.Aliases | exp.Star):
        raise ValueError(f"must be one expression {_EXAMPLES}, without a name")
    return statement, expression


def _filled(node: exp.Expr) -> list[str]:
    return [key for key, value in node.args.items() if value]


def _check_aggregates(expression: exp.Expr) -> None:
    aggregates = [node for node in expression.walk() if is_aggregate(node)]
    if not aggregates:
        raise ValueError(f"isn't an aggregate {_EXAMPLES}")
    inside = {id(node) for aggregate in aggregates for node in _with_filter(aggregate).walk() if node is not aggregate}
    if any(id(aggregate) in inside for aggregate in aggregates):
        raise ValueError("holds an aggregate of an aggregate")
    outside = next((column for column in expression.find_all(exp.Column) if id(column) not in inside), None)
    if outside is not None:
        raise ValueError(f"takes `{outside.sql()}` outside of an aggregate")


def _with_filter(aggregate: exp.Expr) -> exp.Expr:
    """The aggregate with the FILTER (WHERE …) that belongs to it."""
    return aggregate.parent if isinstance(aggregate.parent, exp.Filter) else aggregate


def _is_additive(expression: exp.Expr) -> bool:
    """Is the whole the sum of its slices?"""
    while isinstance(expression, exp.Paren):
        expression = expression.this
    return isinstance(expression, exp.Sum | exp.Count) and not isinstance(expression.this, exp.Distinct)
