"""What a query may not hold: results that vary, unknown parameters, columns without a name of their own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence

from sqlglot import exp

from retcon.core.models import Slicing
from retcon.core.slices import Buckets, Grain
from retcon.core.suggestions import did_you_mean, nearest
from retcon.project.names import BOUND_BY_RETCON
from retcon.project.spark_functions import CLOCK_WORDS, CLOCKS, DICE, SURROUNDINGS
from retcon.project.sql.columns import output_name, projections, source_alias, sources
from retcon.project.sql.comparisons import SLICE_PARAMETERS
from retcon.project.sql.functions import function_name, needs_order, window_clauses, window_of
from retcon.project.sql.references import dotted_name, named_tables
from retcon.project.sql.statements import SqlProblem, Statement

_CLOCK_REMEDY = "bind `:run_ts`, the same for the whole run, or the slice's `:start_date` and `:end_date`"
_VARIES = "; or say why it may vary: `deterministic: {value: false, reason: …}`"
_ORDER_REMEDY = "take `min_by(value, order)` or `max_by(value, order)`, or sort the array"


def variations(statement: Statement) -> Iterator[SqlProblem]:
    """Whatever can give another result when the same slice is computed again."""
    for node in statement.tree.walk():
        yield from _clock(statement, node)
        yield from _dice(statement, node)
        yield from _disorder(statement, node)


def _clock(statement: Statement, node: exp.Expr) -> Iterator[SqlProblem]:
    # Spark takes a bare `localtimestamp` for the function, unless there is such a column
    is_bare = isinstance(node, exp.Column) and not node.table and node.name.lower() == "localtimestamp"
    name = "localtimestamp" if is_bare else function_name(node)
    if name == "unix_timestamp" and node.args.get("expressions"):
        return
    if name in CLOCKS:
        if isinstance(node.parent, exp.StrToUnix):  # how sqlglot reads `unix_timestamp()`
            name = "unix_timestamp"
        yield _varies(statement, node, f"{name}() reads the clock", _CLOCK_REMEDY)
    is_literal = isinstance(node, exp.Cast) and isinstance(node.this, exp.Literal) and node.this.is_string
    if is_literal and node.name.strip().lower() in CLOCK_WORDS:
        yield _varies(statement, node, f"'{node.name}' reads the clock", _CLOCK_REMEDY)


def _dice(statement: Statement, node: exp.Expr) -> Iterator[SqlProblem]:
    name = function_name(node)
    if name in DICE:
        yield _varies(
            statement, node, f"{name}() gives another result each time", "derive it from columns, say by xxhash64(…)"
        )
    if name in SURROUNDINGS:
        yield _varies(statement, node, f"{name}() depends on where and by whom it is run", "bind a parameter instead")
    if isinstance(node, exp.TableSample) and not node.args.get("seed"):
        yield _varies(statement, node, "TABLESAMPLE draws other rows each time", "add `REPEATABLE (1)`")


def _disorder(statement: Statement, node: exp.Expr) -> Iterator[SqlProblem]:
    window = window_of(node)
    if window is not None and not window_clauses(window).order_by:
        if needs_order(node):
            message = f"{statement.word_of(node)}() OVER (…) without ORDER BY takes rows as they come"
            yield _varies(statement, node, message, "add ORDER BY to the window")
        elif _counts_rows(window):
            yield _varies(statement, node, "a frame of ROWS without ORDER BY takes rows as they come", "add ORDER BY")
    elif window is None and needs_order(node):
        yield _varies(statement, node, f"{statement.word_of(node)}() takes rows as they come", _ORDER_REMEDY)
    limit = (node.args.get("limit") or node.args.get("offset")) if isinstance(node, exp.Query) else None
    if limit is not None and not node.args.get("order") and not _keeps_everything(node, limit):
        yield _varies(statement, limit, "LIMIT without ORDER BY takes rows as they come", "add ORDER BY")


def _counts_rows(window: exp.Window) -> bool:
    frame = window_clauses(window).frame
    if frame is None or frame.args.get("kind") != "ROWS":
        return False
    return not (frame.args.get("start") == "UNBOUNDED" and frame.args.get("end") == "UNBOUNDED")


def _keeps_everything(node: exp.Expr, limit: exp.Expr) -> bool:
    """LIMIT ALL; and within EXISTS, it doesn't matter which rows are left."""
    is_all = isinstance(limit, exp.Limit) and limit.expression.name.upper() == "ALL"
    return is_all or isinstance(node.parent, exp.Exists)


def _varies(statement: Statement, node: exp.Expr, message: str, remedy: str) -> SqlProblem:
    return SqlProblem(message=message, line=statement.line_of(node), remedy=remedy + _VARIES)


def hidden_names(statement: Statement) -> Iterator[SqlProblem]:
    """Names that are made while the query runs, or that stop being true when the inputs are scoped."""
    for node in statement.tree.walk():
        if function_name(node) == "identifier" and not isinstance(node.parent, exp.Table):
            yield SqlProblem(
                message="`IDENTIFIER()` makes a name that retcon can't see",
                line=statement.line_of(node),
                remedy="write the name itself",
            )
        elif isinstance(node, exp.Parameter | exp.SessionParameter):
            yield SqlProblem(
                message=f"`{node.sql()}` isn't Spark SQL",
                line=statement.line_of(node),
                remedy="bind a parameter as `:name`",
            )
    yield from _qualified_by_namespace(statement)


def _qualified_by_namespace(statement: Statement) -> Iterator[SqlProblem]:
    """`raw.orders.x`: the table is read under another name, so only an alias stays true."""
    tables = [tuple(dotted_name(table).casefold().split(".")) for table in named_tables(statement.tree)]
    for column in statement.tree.find_all(exp.Column):
        qualifier = tuple(part.name.casefold() for part in column.parts[:-1])
        if len(qualifier) < 2 or qualifier[0] in _aliases_seen(column):
            continue  # `o.address.city` is a field of a struct
        if any(table[-len(qualifier) :] == qualifier for table in tables):
            name = ".".join(part.name for part in column.parts[:-1])
            alias = column.table
            yield SqlProblem(
                message=f"`{name}.{column.name}` names its table with the namespace",
                line=statement.line_of(column),
                remedy=f"give the table an alias and write `{alias}.{column.name}`",
            )


def _aliases_seen(node: exp.Expr) -> set[str]:
    seen: set[str] = set()
    select = node.find_ancestor(exp.Select)
    while select is not None:
        seen |= {source_alias(source).casefold() for source in sources(select)}
        select = select.find_ancestor(exp.Select)
    return seen


def parameter_problems(statement: Statement, params: Collection[str], slicing: Slicing) -> Iterator[SqlProblem]:
    """Parameters that nobody binds."""
    bound = BOUND_BY_RETCON if isinstance(slicing.every, Grain) else BOUND_BY_RETCON - SLICE_PARAMETERS
    cut = "by time" if isinstance(slicing.every, Buckets) else "into slices"
    known = sorted(bound | set(params))
    for placeholder in statement.tree.find_all(exp.Placeholder):
        if not placeholder.name or placeholder.name == "?":
            yield SqlProblem(
                message="`?` has no name to be bound by",
                line=statement.line_of(placeholder),
                remedy="write `:name`, and declare it under `params` in retcon.yaml",
            )
        elif placeholder.name in BOUND_BY_RETCON - set(known):
            yield SqlProblem(
                message=f"`:{placeholder.name}` means a slice, and the model isn't cut {cut}",
                line=statement.line_of_parameter(placeholder.name),
                remedy="give the model `slices` of time, or leave the condition out",
            )
        elif placeholder.name not in known:
            meant = nearest(placeholder.name, known)
            yield SqlProblem(
                message=f"nothing is bound to `:{placeholder.name}`",
                line=statement.line_of_parameter(placeholder.name),
                remedy=f"did you mean :{meant}?" if meant else "declare it under `params` in retcon.yaml",
            )


def output_problems(statement: Statement, columns: Sequence[str] | None, slicing: Slicing) -> Iterator[SqlProblem]:
    """Columns of the output without a name, with a name twice, and the slice column if it isn't there."""
    shown = [projection for projection in projections(statement.tree) if not projection.is_star]
    for projection in shown:
        if output_name(projection) is None and not isinstance(projection, exp.Aliases):
            yield SqlProblem(
                message=f"a column of the output has no name: `{_excerpt(projection)}`",
                line=statement.line_of(projection),
                remedy="give it a name: `… AS name`",
            )
    names = columns if columns is not None else [name for p in shown if (name := output_name(p)) is not None]
    spelt = {name.casefold(): name for name in reversed(names)}
    for folded, times in Counter(name.casefold() for name in names).items():
        if times > 1:
            yield SqlProblem(
                message=f"the output has {times} columns `{spelt[folded]}`",
                line=_line_of_name(statement, shown, folded),
                remedy="give each a name of its own",
            )
    if columns is not None and slicing.by is not None and slicing.by.casefold() not in spelt:
        yield SqlProblem(
            message=f"the query doesn't return the slice column `{slicing.by}`",
            remedy=did_you_mean(slicing.by, columns) or f"it returns {', '.join(columns)}",
        )


def _excerpt(projection: exp.Expr) -> str:
    text = projection.sql(dialect="spark", comments=False)
    return text if len(text) <= 60 else f"{text[:59]}…"


def _line_of_name(statement: Statement, shown: Sequence[exp.Expr], folded: str) -> int | None:
    places = [p for p in shown if (output_name(p) or "").casefold() == folded]
    return statement.line_of(places[-1]) if places else None
