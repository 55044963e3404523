"""What Spark's functions are like, where sqlglot doesn't say."""

from __future__ import annotations

from sqlglot import exp

from retcon.values import dataclass

TABLE_FUNCTIONS = frozenset(
    {
        "range", "explode", "explode_outer", "posexplode", "posexplode_outer", "inline", "inline_outer", "stack",
        "json_tuple", "variant_explode", "variant_explode_outer", "sql_keywords", "collations",
    }
)  # fmt: skip
"""Functions in FROM that read no table."""
_MORE_AGGREGATES = frozenset(
    {
        "any", "some", "every", "mean", "std", "try_sum", "try_avg", "bitmap_and_agg", "count_min_sketch",
        "histogram_numeric", "hll_sketch_agg", "hll_union_agg", "schema_of_variant_agg", "theta_sketch_agg",
        "theta_union_agg", "theta_intersection_agg", "kll_sketch_agg_bigint", "kll_sketch_agg_float",
        "kll_sketch_agg_double",
    }
)  # fmt: skip
_BLIND_TO_ORDER = (exp.ArraySort, exp.ArraySize, exp.ArrayMax, exp.ArrayMin, exp.ArrayContains)
_PICKS = (exp.First, exp.Last, exp.FirstValue, exp.LastValue, exp.NthValue, exp.AnyValue)
_GATHERS = (exp.ArrayAgg, exp.ArrayUniqueAgg, exp.GroupConcat)
_RANKS = (
    exp.RowNumber, exp.Rank, exp.DenseRank, exp.PercentRank, exp.Ntile, exp.CumeDist, exp.Lag, exp.Lead,
)  # fmt: skip
_WRAPPERS = (exp.Filter, exp.IgnoreNulls, exp.RespectNulls)


def function_name(node: exp.Expr) -> str:
    """The function's name in lower case; empty for what isn't one."""
    if isinstance(node, exp.Anonymous):
        return node.name.lower()
    if isinstance(node, exp.Any):
        return "any"
    if isinstance(node, exp.GroupConcat):
        return "listagg"
    return node.sql_name().lower() if isinstance(node, exp.Func) else ""


def is_aggregate(node: exp.Expr) -> bool:
    """Does it fold many rows into one? (A window function doesn't.)"""
    is_known = isinstance(node, exp.AggFunc) and not isinstance(node, _RANKS)
    return (is_known or function_name(node) in _MORE_AGGREGATES) and window_of(node) is None


def window_of(node: exp.Expr) -> exp.Window | None:
    """The OVER (…) that this function itself is evaluated in."""
    child, parent = node, node.parent
    while isinstance(parent, _WRAPPERS) and child.arg_key == "this":
        child, parent = parent, parent.parent
    return parent if isinstance(parent, exp.Window) and child.arg_key == "this" else None


def needs_order(node: exp.Expr) -> bool:
    """Does its result depend on the order of the rows?"""
    if isinstance(node, _PICKS + _RANKS):
        return True
    if not isinstance(node, _GATHERS) or node.find(exp.Order):
        return False
    return not node.find_ancestor(*_BLIND_TO_ORDER)


@dataclass(frozen=True, kw_only=True)
class WindowClauses:
    """What stands in OVER (…), a named window filled in."""

    partition_by: tuple[exp.Expr, ...]
    order_by: tuple[exp.Ordered, ...]
    frame: exp.WindowSpec | None


def window_clauses(window: exp.Window) -> WindowClauses:
    """The window's own clauses, and those of the WINDOW it names."""
    select = window.find_ancestor(exp.Select)
    named = (select.args.get("windows") or ()) if select else ()
    base = next((w for w in named if window.alias and w.name.casefold() == window.alias.casefold()), None)
    written = [w for w in (window, base) if w is not None]
    orders = [w.args["order"] for w in written if w.args.get("order")]
    frames = [w.args["spec"] for w in written if w.args.get("spec")]
    return WindowClauses(
        partition_by=tuple(key for w in written for key in w.args.get("partition_by") or ()),
        order_by=tuple(orders[0].expressions) if orders else (),
        frame=frames[0] if frames else None,
    )
