"""The parts of one SELECT that compare or fold rows: groupings, window frames, queries within expressions."""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp

from retcon.project.sql.comparisons import whole_days
from retcon.project.sql.functions import WindowClauses, is_aggregate
from retcon.values import dataclass

_FOLDING = ("expressions", "having", "qualify", "order")
_COMPARING = ("expressions", "where", "group", "having", "qualify", "order")


@dataclass(frozen=True, kw_only=True)
class InnerQuery:
    """A query within an expression: EXISTS, IN, a scalar or a LATERAL one."""

    node: exp.Expr
    query: exp.Expr
    word: str
    shows_absence: bool = False
    """Its answer counts where it finds nothing."""
    compared: tuple[exp.Expr, ...] = ()
    """What IN looks for, in the order of the query's columns."""


def own_nodes(select: exp.Select) -> Iterator[exp.Expr]:
    """What the SELECT computes from its rows, without what queries within it compute."""
    stack = list(reversed(_clauses(select, _FOLDING)))
    while stack:
        node = stack.pop()
        if isinstance(node, exp.Query):
            continue
        yield node
        stack += reversed(list(node.iter_expressions()))


def inner_queries(select: exp.Select) -> Iterator[InnerQuery]:
    """The queries within the SELECT's expressions and conditions."""
    conditions = [join.args["on"] for join in select.args.get("joins") or () if join.args.get("on")]
    stack = [(node, False) for node in (*_clauses(select, _COMPARING), *conditions)]
    while stack:
        node, is_negated = stack.pop()
        match node:
            case exp.Not():
                stack.append((node.this, not is_negated))
            case exp.Exists() if isinstance(node.this, exp.Query):
                word = "NOT EXISTS" if is_negated else "EXISTS"
                yield InnerQuery(node=node, query=node.this, word=word, shows_absence=is_negated)
            case exp.In() if node.args.get("query"):
                compared = node.this.expressions if isinstance(node.this, exp.Tuple) else [node.this]
                yield InnerQuery(
                    node=node,
                    query=node.args["query"],
                    word="NOT IN" if is_negated else "IN",
                    shows_absence=is_negated,
                    compared=tuple(compared),
                )
                stack.append((node.this, is_negated))
            case exp.Query():
                yield InnerQuery(node=node, query=node, word="the subquery")
            case _:
                stack += [(child, is_negated) for child in node.iter_expressions()]


def _clauses(select: exp.Select, keys: tuple[str, ...]) -> list[exp.Expr]:
    found: list[exp.Expr] = []
    for key in keys:
        value = select.args.get(key)
        found += value if isinstance(value, list) else [value] if value is not None else []
    return found


def leaf_selects(query: exp.Expr) -> Iterator[exp.Select]:
    """The SELECTs that a query is put together from by set operations."""
    match query:
        case exp.Select():
            yield query
        case exp.SetOperation():
            yield from leaf_selects(query.this)
            yield from leaf_selects(query.expression)
        case exp.Subquery():
            yield from leaf_selects(query.this)


def grouping_sets(select: exp.Select, group: exp.Group) -> list[list[exp.Expr]]:
    """The sets of keys that rows are grouped by: one for GROUP BY, several for ROLLUP, CUBE and GROUPING SETS."""
    if group.args.get("all"):
        return [[p for p in select.expressions if not any(is_aggregate(node) for node in p.walk())]]
    several = (exp.GroupingSets, exp.Rollup, exp.Cube)
    plain = [key for key in group.expressions if not isinstance(key, several)]
    sets: list[list[exp.Expr]] = []
    for key in group.expressions:
        if isinstance(key, exp.GroupingSets):
            sets += [[*plain, *keys] for keys in _sets_in(key)]
        elif isinstance(key, several):
            sets.append(plain if key.expressions else [])  # the smallest of its sets adds nothing
    for name in ("grouping_sets", "rollup", "cube"):
        for clause in group.args.get(name) or ():
            # after the keys without a comma: they are named before, and grouped by only where a set repeats them
            sets += _sets_in(clause) if isinstance(clause, exp.GroupingSets) else [[]]
    return sets or [plain]


def _sets_in(clause: exp.GroupingSets) -> Iterator[list[exp.Expr]]:
    for keys in clause.expressions:
        match keys:
            case exp.Tuple():
                yield list(keys.expressions)
            case exp.Paren():
                yield [keys.this]
            case exp.Rollup() | exp.Cube() | exp.GroupingSets():
                yield []
            case _:
                yield [keys]


def range_reach(clauses: WindowClauses) -> tuple[int, int] | None:
    """How many days back and ahead a RANGE frame looks, where its text says so."""
    frame = clauses.frame
    if frame is None or frame.args.get("kind") != "RANGE" or len(clauses.order_by) != 1:
        return None
    # days after the current row at which the frame starts and ends, in its own order
    start = _edge(frame.args.get("start"), frame.args.get("start_side"))
    end = _edge(frame.args.get("end") or "CURRENT ROW", frame.args.get("end_side"))
    if start is None or end is None:
        return None
    if clauses.order_by[0].args.get("desc"):
        start, end = -end, -start
    return max(0, -start), max(0, end)


def _edge(value: exp.Expr | str | None, side: str | None) -> int | None:
    if isinstance(value, str) or value is None:
        return 0 if value == "CURRENT ROW" else None
    days = whole_days(value)
    return None if days is None else -days if side == "PRECEDING" else days
