"""The gates of a model, from the entries of its `gates` list."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Annotated

from pydantic import BeforeValidator, Field

from retcon.core.gates import Drift, Gate, NotNull, Rows, Unique
from retcon.core.row_histories import LEAST, RowHistory
from retcon.core.slices import Cut, Grain, Whole
from retcon.core.suggestions import did_you_mean
from retcon.project.gate_shapes import Entry, GateKeys, GateSql, by_column
from retcon.project.profile_entries import read_profile
from retcon.project.quantities import share_of, unsigned_share_of
from retcon.project.shapes import Problems, Shape, Text, Texts, read_shape
from retcon.project.suite_entries import read_great_expectations
from retcon.project.table_gate_entries import read_foreign_key, read_no_rows, read_reconcile
from retcon.project.value_gate_entries import read_accepted, read_null_rate
from retcon.project.yaml_text import Place

_BY_COLUMN = ("null_rate", "accepted")


def read_gates(
    entries: Sequence[object],
    *,
    key: Sequence[str],
    every: Cut,
    problems: Problems,
    sql: GateSql,
    folders: tuple[Path, ...] = (),
) -> tuple[Gate, ...]:
    """The gates that the entries declare, each under a name of its own."""
    found: dict[str, Gate] = {}
    unnamed: Counter[str] = Counter()
    for position, value in enumerate(entries):
        place = ("gates", position)
        if not isinstance(value, dict) or len(value) != 1:
            problems.add(place, "a gate is one `kind: …`, such as `- rows: {min: 1}`", remedy=_split_remedy(value))
            continue
        kind, body = next(iter(value.items()))
        body = by_column(body) if kind in _BY_COLUMN else body
        if kind not in _READERS:
            _refuse_kind(kind, problems, (*place, kind))
            continue
        if not (isinstance(body, dict) and "name" in body):
            unnamed[kind] += 1
        name = kind if unnamed[kind] < 2 else f"{kind}-{unnamed[kind]}"
        entry = Entry(
            body=body,
            name=name,
            key=tuple(key),
            problems=problems,
            place=(*place, kind),
            sql=sql,
            is_by_time=isinstance(every, Grain),
            is_whole=isinstance(every, Whole),
            folders=folders,
        )
        gate = _READERS[kind](entry)
        if gate is not None and gate.name in found:
            problems.add((*entry.place, "name"), f"two gates are called `{gate.name}`", remedy="rename one of them")
        elif gate is not None:
            found[gate.name] = gate
    return tuple(found.values())


def _split_remedy(value: object) -> str:
    return "start each gate with a `-` of its own" if isinstance(value, dict) and len(value) > 1 else ""


def _refuse_kind(kind: str, problems: Problems, place: Place) -> None:
    hint = did_you_mean(kind, _READERS)
    problems.add(place, f"unknown gate `{kind}`" + (f" — {hint}" if hint else ""))


def _history(value: object) -> object:
    """`history: 8` is short for `history: {slices: 8}`."""
    return {"slices": value} if isinstance(value, int) and not isinstance(value, bool) else value


class _HistoryKeys(Shape):
    slices: Annotated[int, Field(ge=LEAST)] = RowHistory.slices
    deviations: Annotated[float, Field(gt=0, allow_inf_nan=False)] = RowHistory.deviations


class _RowsKeys(GateKeys):
    min: Annotated[int, Field(ge=0)] | None = None
    max: Annotated[int, Field(ge=0)] | None = None
    change: Annotated[Decimal, BeforeValidator(unsigned_share_of)] | None = None
    history: Annotated[_HistoryKeys, BeforeValidator(_history)] | None = None


class _ColumnsKeys(GateKeys):
    columns: Texts


class _DriftKeys(GateKeys):
    metric: Text
    within: Annotated[Decimal, BeforeValidator(unsigned_share_of)] | None = None
    low: Annotated[Decimal, BeforeValidator(share_of)] | None = Field(default=None, alias="from")
    high: Annotated[Decimal, BeforeValidator(share_of)] | None = Field(default=None, alias="to")


def _rows(entry: Entry) -> Rows | None:
    keys = entry.keys(_RowsKeys)
    if keys is None:
        return None
    if keys.min is None and keys.max is None and keys.change is None and keys.history is None:
        entry.object_to("needs `min`, `max`, `change` or `history`")
    if keys.history is not None and not entry.is_by_time:
        entry.object_to("has a `history`, but the model isn't cut by time", remedy="leave it out: use `change`")
    if keys.min is not None and keys.max is not None and keys.min > keys.max:
        entry.object_to(f"can't be met: at least {keys.min} and at most {keys.max} rows")
    return Rows(
        name=keys.name or entry.name,
        min=keys.min,
        max=keys.max,
        change=keys.change,
        history=RowHistory(slices=keys.history.slices, deviations=keys.history.deviations) if keys.history else None,
        warns=keys.warn,
    )


def _unique(entry: Entry) -> Unique | None:
    named = _columns(entry)
    return Unique(name=named.name or entry.name, columns=tuple(named.columns), warns=named.warn) if named else None


def _not_null(entry: Entry) -> NotNull | None:
    named = _columns(entry)
    return NotNull(name=named.name or entry.name, columns=tuple(named.columns), warns=named.warn) if named else None


def _columns(entry: Entry) -> _ColumnsKeys | None:
    """The gate's keys, from `key`, `[a, b]` or `{name: …, columns: key or [a, b]}`."""
    body = entry.body if isinstance(entry.body, dict) else {"columns": entry.body}
    if body.get("columns") == "key":
        if not entry.key:
            entry.object_to("means the model's `key`, but the model has none", remedy="add `key: [a, b]`")
            return None
        body = {**body, "columns": list(entry.key)}
    keys = read_shape(_ColumnsKeys, body, entry.problems, entry.place)
    if keys is None:
        return None
    if not keys.columns:
        entry.object_to("must name at least one column")
        return None
    return keys


def _drift(entry: Entry) -> Drift | None:
    keys = entry.keys(_DriftKeys)
    if keys is None:
        return None
    metric = entry.metric("metric", keys.metric)
    has_bounds = keys.low is not None or keys.high is not None
    if (keys.within is not None) == has_bounds:
        entry.object_to("needs either `within`, or `from` and `to`", remedy="write, say, `within: 20%`")
        return None
    low, high = (-keys.within, keys.within) if keys.within is not None else (keys.low, keys.high)
    if low is not None and high is not None and low > high:
        entry.object_to("can't be met: `from` is above `to`")
    name = keys.name or entry.name
    return Drift(name=name, metric=metric, low=low, high=high, warns=keys.warn) if metric else None


_READERS: dict[str, Callable[[Entry], Gate | None]] = {
    "rows": _rows,
    "unique": _unique,
    "not_null": _not_null,
    "drift": _drift,
    "null_rate": read_null_rate,
    "accepted": read_accepted,
    "foreign_key": read_foreign_key,
    "no_rows": read_no_rows,
    "reconcile": read_reconcile,
    "profile": read_profile,
    "great_expectations": read_great_expectations,
}
