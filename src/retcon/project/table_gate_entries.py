"""The gates that look at other tables: `foreign_key`, `no_rows`, `reconcile`."""

from __future__ import annotations

from decimal import Decimal, InvalidOperation
from typing import Annotated

from pydantic import BeforeValidator

from retcon.core.reconciling import Reconcile, Tolerance
from retcon.core.table_gates import ForeignKey, NoRows
from retcon.project.gate_shapes import Entry, GateKeys
from retcon.project.quantities import unsigned_share_of
from retcon.project.shapes import Objection, TableName, Text, Texts, read_shape


class _ForeignKeyKeys(GateKeys):
    cols: Texts
    to: TableName
    on: Texts | None = None


class _NoRowsKeys(GateKeys):
    sql: str


def _tolerance(value: object) -> object:
    if not isinstance(value, dict):
        return Tolerance(share=unsigned_share_of(value))
    absolute = value.get("absolute")
    if set(value) != {"absolute"} or isinstance(absolute, bool) or not isinstance(absolute, int | float):
        raise Objection("must be a share such as `1%`, or `{absolute: 5}`")
    try:
        number = Decimal(str(absolute))
    except InvalidOperation:
        number = Decimal("NaN")
    if not number.is_finite() or number < 0:
        raise Objection("can't be negative, and must be finite")
    return Tolerance(absolute=number)


class _ReconcileKeys(GateKeys):
    source: TableName
    by: Text | None = None
    metric: Text
    mart: Text
    tolerance: Annotated[object, BeforeValidator(_tolerance)] = Tolerance()
    where: Text | None = None


def read_foreign_key(entry: Entry) -> ForeignKey | None:
    """`{cols: [a], to: raw.customers, on: [id]}`; `columns` is another word for `cols`."""
    body = entry.body
    if isinstance(body, dict) and "columns" in body and "cols" not in body:
        body = {("cols" if key == "columns" else key): value for key, value in body.items()}
    keys = read_shape(_ForeignKeyKeys, body, entry.problems, entry.place)
    if keys is None:
        return None
    on = keys.cols if keys.on is None else keys.on
    if not keys.cols:
        entry.object_to("must name at least one column")
    if len(on) != len(keys.cols):
        entry.object_to(f"compares {len(keys.cols)} columns with {len(on)}", remedy="name as many in `on` as in `cols`")
    return ForeignKey(name=keys.name or entry.name, columns=tuple(keys.cols), to=keys.to, on=tuple(on), warns=keys.warn)


def read_no_rows(entry: Entry) -> NoRows | None:
    """`SELECT …`, or `{sql: SELECT …, name: …, warn: …}`."""
    body = {"sql": entry.body} if isinstance(entry.body, str) else entry.body
    keys = read_shape(_NoRowsKeys, body, entry.problems, entry.place)
    if keys is None:
        return None
    query = entry.problems.taken(entry.place, lambda: entry.sql.read_gate_query(keys.sql))
    if query is None:
        return None
    tables = dict.fromkeys(reference.input for reference in query.references)
    return NoRows(
        name=keys.name or entry.name, query=query, tables=tuple((name, name) for name in tables), warns=keys.warn
    )


def read_reconcile(entry: Entry) -> Reconcile | None:
    """`{source: raw.orders, by: order_date, metric: sum(x), mart: sum(y), tolerance: 1%, where: …}`."""
    keys = entry.keys(_ReconcileKeys)
    if keys is None:
        return None
    if not entry.is_by_time and not entry.is_whole:
        entry.object_to("compares slices of time, and the model is cut by entity", remedy="use `no_rows` instead")
    elif entry.is_by_time and keys.by is None:
        entry.object_to("needs `by`: the source's column that says in which slice a row counts")
    elif entry.is_whole and keys.by is not None:
        entry.object_to("has a `by`, but the model has no slices", remedy="leave it out: totals are compared")
    metric, mart = entry.metric("metric", keys.metric), entry.metric("mart", keys.mart)
    where = keys.where
    if where is not None:
        where = entry.problems.taken((*entry.place, "where"), lambda: entry.sql.read_condition(where or ""))
    if metric is None or mart is None or not isinstance(keys.tolerance, Tolerance):
        return None
    return Reconcile(
        name=keys.name or entry.name,
        source=keys.source,
        by=keys.by,
        metric=metric,
        mart=mart,
        tolerance=keys.tolerance,
        where=where,
        warns=keys.warn,
    )
