"""The columns that a query returns, and those that it takes from its inputs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from sqlglot import exp

from retcon.project.sql.references import common_table

Names = tuple[str, ...]
KnownColumns = Callable[[exp.Table], Sequence[str] | None]
"""The columns of a table, where somebody knows them."""


def nothing_known(_table: exp.Table) -> None:
    """No table's columns are known: the text alone has to show them."""


def output_name(projection: exp.Expr) -> str | None:
    """The name that Spark gives a column of the output; None for a computed one without alias."""
    match projection:
        case exp.Paren():
            return output_name(projection.this)
        case exp.Column():
            return str(projection.name)
        case exp.Dot():
            return str(projection.expression.name)
        case exp.Alias() | exp.Subquery():
            return str(projection.alias) or None
    return None


def projections(query: exp.Expr) -> list[exp.Expr]:
    """The expressions of the SELECT that names the output: the first one of a set operation."""
    node = query
    while isinstance(node, exp.Subquery | exp.SetOperation):
        node = node.this
    return list(node.expressions) if isinstance(node, exp.Select) else []


def output_names(query: exp.Expr, known: KnownColumns) -> Names | None:
    """The names of the columns that the query returns; None where a star hides one."""
    match query:
        case exp.Subquery():
            return output_names(query.this, known)
        case exp.SetOperation():
            return output_names(query.this, known)
        case exp.Values() | exp.Table():
            return source_names(query, known)
        case exp.Select():
            names: list[str] = []
            for projection in query.expressions:
                more = _projected(projection, query, known)
                if more is None:
                    return None
                names += more
            return tuple(names)
    return None


def _projected(projection: exp.Expr, select: exp.Select, known: KnownColumns) -> Names | None:
    if isinstance(projection, exp.Aliases):
        return tuple(name.name for name in projection.expressions)
    if not projection.is_star:
        return (output_name(projection) or projection.sql(comments=False),)
    star = projection if isinstance(projection, exp.Star) else projection.this
    if isinstance(projection, exp.Column):
        source = next((s for s in sources(select) if source_alias(s).casefold() == projection.table.casefold()), None)
        names = source_names(source, known) if source is not None else None
    else:
        names = _joined_names(select, known)
    return None if names is None else _adjusted(names, star)


def _adjusted(names: Names, star: exp.Expr) -> Names | None:
    if star.args.get("rename"):
        return None
    left_out = {column.name.casefold() for column in star.args.get("except_") or ()}
    return tuple(name for name in names if name.casefold() not in left_out)


def sources(select: exp.Select) -> Iterator[exp.Expr]:
    """What stands in FROM, the joins within parentheses taken apart."""
    if select.args.get("from_"):
        yield from _taken_apart(select.args["from_"].this)
    for join in select.args.get("joins") or ():
        yield from _taken_apart(join.this)
    yield from select.args.get("laterals") or ()


def _taken_apart(node: exp.Expr) -> Iterator[exp.Expr]:
    if is_parenthesised(node):
        yield from _taken_apart(node.this)
    else:
        yield node
    for join in node.args.get("joins") or ():
        yield from _taken_apart(join.this)


def is_parenthesised(node: exp.Expr) -> bool:
    """Parentheses around a table or a join in FROM, under no name of their own."""
    return isinstance(node, exp.Subquery) and isinstance(node.this, exp.Table | exp.Subquery) and not node.alias


def wraps_join(node: exp.Expr) -> bool:
    """A join in parentheses under one name, which hides the names within."""
    inner = node.this if isinstance(node, exp.Subquery) else None
    while isinstance(inner, exp.Table | exp.Subquery):
        if inner.args.get("joins"):
            return True
        inner = inner.this
    return False


def source_alias(source: exp.Expr) -> str:
    """The name by which the rest of the query speaks of it."""
    return str(source.alias_or_name)


def source_names(source: exp.Expr, known: KnownColumns) -> Names | None:
    """The columns of one source; None where nobody knows them."""
    alias = source.args.get("alias")
    renamed = tuple(column.name for column in alias.columns) if isinstance(alias, exp.TableAlias) else ()
    if renamed:
        return renamed
    if source.args.get("pivots") or wraps_join(source):
        return None
    match source:
        case exp.Table():
            cte = common_table(source)
            names = known(source) if cte is None else common_table_names(cte, known)
            return None if names is None else tuple(names)
        case exp.Subquery():
            return output_names(source.this, known)
        case exp.Values():
            return tuple(f"col{n}" for n, _ in enumerate(source.expressions[0].expressions, start=1))
    return None


def common_table_names(cte: exp.CTE, known: KnownColumns) -> Names | None:
    """The columns of a common table expression, its own names for them first."""
    alias = cte.args.get("alias")
    if isinstance(alias, exp.TableAlias) and alias.columns:
        return tuple(column.name for column in alias.columns)
    clause = cte.parent
    if isinstance(clause, exp.With) and clause.args.get("recursive"):
        return None
    return output_names(cte.this, known)


def _joined_names(select: exp.Select, known: KnownColumns) -> Names | None:
    """What a bare star stands for: columns that USING or NATURAL merge come once, and first."""
    names: Names = ()
    joins = {id(join.this): join for join in select.args.get("joins") or ()}
    for source in sources(select):
        more = source_names(source, known)
        if more is None:
            return None
        join = joins.get(id(source))
        if join is not None and join.kind in ("SEMI", "ANTI"):
            continue
        merged = _merged_names(join, names, more) if join is not None else ()
        folded = {name.casefold() for name in merged}
        names = (*merged, *(name for name in (*names, *more) if name.casefold() not in folded))
    return names


def _merged_names(join: exp.Join, left: Names, right: Names) -> Names:
    if join.method == "NATURAL":
        theirs = {name.casefold() for name in right}
        return tuple(name for name in left if name.casefold() in theirs)
    return tuple(column.name for column in join.args.get("using") or ())
