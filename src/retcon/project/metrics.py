"""Metrics, one aggregate over the rows of a slice, and conditions on rows. Errors read on from the key's name."""

from __future__ import annotations

from sqlglot import exp

from retcon.core.gates import Metric
from retcon.project.lints import hidden_names, variations
from retcon.project.sql.functions import is_aggregate
from retcon.project.sql.statements import SqlProblem, Statement, read_statement

_EXAMPLES = "such as `sum(amount)` or `count(*)`"
_CONDITIONS = "such as `currency <> 'USD'`"


def read_metric(expression: str) -> Metric:
    """The metric that this text states, such as `sum(revenue_usd)`."""
    text = expression.strip()
    aggregate = one_expression(text, _EXAMPLES)
    _check_aggregates(aggregate)
    return Metric(expression=text, is_additive=_is_additive(aggregate))


def read_condition(text: str) -> str:
    """The condition on the rows of a slice that this text states, such as `currency <> 'USD'`."""
    condition = one_expression(text.strip(), _CONDITIONS)
    aggregate = next((node for node in condition.walk() if is_aggregate(node)), None)
    if aggregate is not None:
        raise ValueError("holds an aggregate; it is about one row at a time")
    if isinstance(condition, exp.Literal):
        raise ValueError(f"must be a condition {_CONDITIONS}")
    return text.strip()


def columns_in(text: str) -> tuple[str, ...]:
    """The columns that a metric or a condition is about; of a nested one, that which it is nested in."""
    found = one_expression(text.strip(), _EXAMPLES).find_all(exp.Column)
    return tuple(dict.fromkeys(column.parts[0].name for column in found if not isinstance(column.this, exp.Star)))


def one_expression(text: str, examples: str) -> exp.Expr:
    """The one expression in this text, computed from the rows of a slice alone, the same each time."""
    statement, expression = _parsed(text, examples)
    if any(token.comments for token in statement.tokens):
        raise ValueError("holds a comment, which would hide the SQL that follows it")
    if expression.find(exp.Query):
        raise ValueError("holds a subquery; it is computed from the rows of a slice alone")
    if expression.find(exp.Window):
        raise ValueError("holds a window; it is computed from the rows of a slice as they are")
    if expression.find(exp.Placeholder):
        raise ValueError("holds a parameter, and nothing is bound in it")
    for problem in (*hidden_names(statement), *variations(statement)):
        raise ValueError(f"varies: {problem.message}")
    return expression


def _parsed(text: str, examples: str) -> tuple[Statement, exp.Expr]:
    if not text:
        raise ValueError(f"is empty; write one {examples}")
    statement = read_statement(f"SELECT {text}")
    if isinstance(statement, SqlProblem):
        raise ValueError(f"can't be read: {statement.message}")
    tree = statement.tree
    is_bare = isinstance(tree, exp.Select) and set(_filled(tree)) == {"expressions"}
    if not is_bare or len(tree.expressions) != 1 or statement.text != f"SELECT {text}":
        raise ValueError(f"must be one expression {examples}")
    expression = tree.expressions[0]
    if isinstance(expression, exp.Alias | exp.Aliases | exp.Star):
        raise ValueError(f"must be one expression {examples}, without a name")
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
