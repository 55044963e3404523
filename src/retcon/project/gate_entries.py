"""The gates of a model, from the entries of its `gates` list."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Annotated, TypeVar

from pydantic import AfterValidator, BeforeValidator, Field

from retcon.core import gates
from retcon.core.expectations import EXPECT
from retcon.core.gates import Drift, Gate, Metric, NotNull, Profile, Rows, Unique
from retcon.core.profiles import ProfileBounds
from retcon.core.row_histories import LEAST, RowHistory
from retcon.core.slices import Cut, Grain
from retcon.core.suggestions import did_you_mean
from retcon.project import names
from retcon.project.quantities import share_of, unsigned_share_of
from retcon.project.shapes import Objection, Problems, Shape, Text, Texts, read_shape
from retcon.project.yaml_text import Place

_LATER = ("null_rate", "accepted", "foreign_key", "no_rows", "reconcile", "great_expectations")
_ALWAYS_ON = frozenset({gates.SCHEMA, gates.OUTSIDE_SCOPE, gates.PARITY, gates.EMPTY, gates.OTHER_KEYS, gates.ONE_ROW})


def read_gates(
    entries: Sequence[object],
    *,
    key: Sequence[str],
    every: Cut,
    problems: Problems,
    read_metric: Callable[[str], Metric],
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
        if kind not in _READERS:
            _refuse_kind(kind, problems, (*place, kind))
            continue
        if not (isinstance(body, dict) and "name" in body):
            unnamed[kind] += 1
        name = kind if unnamed[kind] < 2 else f"{kind}-{unnamed[kind]}"
        entry = _Entry(
            body=body,
            name=name,
            key=tuple(key),
            problems=problems,
            place=(*place, kind),
            read_metric=read_metric,
            is_by_time=isinstance(every, Grain),
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
    if kind in _LATER:
        problems.add(place, f"the gate `{kind}` isn't supported yet", remedy=f"use one of: {', '.join(_READERS)}")
        return
    hint = did_you_mean(kind, (*_READERS, *_LATER))
    problems.add(place, f"unknown gate `{kind}`" + (f" — {hint}" if hint else ""))


def _free_name(text: str) -> str:
    if names.label(text) in _ALWAYS_ON:
        raise ValueError("is the name of a gate that is always on")
    if text == EXPECT or text.startswith(f"{EXPECT}-"):
        raise ValueError("is the name of what a plan expects")
    return text


class _GateKeys(Shape):
    name: Annotated[str, AfterValidator(_free_name)] | None = None
    warn: bool = False


def _history(value: object) -> object:
    """`history: 8` is short for `history: {slices: 8}`."""
    return {"slices": value} if isinstance(value, int) and not isinstance(value, bool) else value


class _HistoryKeys(Shape):
    slices: Annotated[int, Field(ge=LEAST)] = RowHistory.slices
    deviations: Annotated[float, Field(gt=0, allow_inf_nan=False)] = RowHistory.deviations


class _RowsKeys(_GateKeys):
    min: Annotated[int, Field(ge=0)] | None = None
    max: Annotated[int, Field(ge=0)] | None = None
    change: Annotated[Decimal, BeforeValidator(unsigned_share_of)] | None = None
    history: Annotated[_HistoryKeys, BeforeValidator(_history)] | None = None


class _ColumnsKeys(_GateKeys):
    columns: Texts


class _DriftKeys(_GateKeys):
    metric: Text
    within: Annotated[Decimal, BeforeValidator(unsigned_share_of)] | None = None
    low: Annotated[Decimal, BeforeValidator(share_of)] | None = Field(default=None, alias="from")
    high: Annotated[Decimal, BeforeValidator(share_of)] | None = Field(default=None, alias="to")


def _index(value: object) -> Decimal:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 100:
        raise Objection("must be a number above 0, such as 0.25")
    return Decimal(str(value))


def _outliers(value: object) -> object:
    """`outliers: 8` is short for `outliers: {history: 8}`."""
    return {"history": value} if isinstance(value, int) and not isinstance(value, bool) else value


class _OutlierKeys(Shape):
    history: Annotated[int, Field(ge=LEAST)] = RowHistory.slices
    deviations: Annotated[float, Field(gt=0, allow_inf_nan=False)] = RowHistory.deviations


class _ProfileKeys(_GateKeys):
    columns: Texts
    psi: Annotated[Decimal, BeforeValidator(_index)] | None = None
    null_rate: Annotated[Decimal, BeforeValidator(unsigned_share_of)] | None = None
    outliers: Annotated[_OutlierKeys, BeforeValidator(_outliers)] | None = None


K = TypeVar("K", bound=_GateKeys)


@dataclass(frozen=True, kw_only=True)
class _Entry:
    """What stands behind one `- kind:`."""

    body: object
    name: str
    """For a gate that gives itself none."""
    key: tuple[str, ...]
    problems: Problems
    place: Place
    read_metric: Callable[[str], Metric]
    is_by_time: bool

    def keys(self, shape: type[K]) -> K | None:
        return read_shape(shape, self.body, self.problems, self.place)

    def object_to(self, text: str, *, remedy: str = "") -> None:
        self.problems.object_to(self.place, Objection(text, remedy=remedy))


def _rows(entry: _Entry) -> Rows | None:
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


def _unique(entry: _Entry) -> Unique | None:
    named = _columns(entry)
    return Unique(name=named.name or entry.name, columns=tuple(named.columns), warns=named.warn) if named else None


def _not_null(entry: _Entry) -> NotNull | None:
    named = _columns(entry)
    return NotNull(name=named.name or entry.name, columns=tuple(named.columns), warns=named.warn) if named else None


def _columns(entry: _Entry) -> _ColumnsKeys | None:
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


def _drift(entry: _Entry) -> Drift | None:
    keys = entry.keys(_DriftKeys)
    if keys is None:
        return None
    metric = entry.problems.taken((*entry.place, "metric"), lambda: entry.read_metric(keys.metric))
    has_bounds = keys.low is not None or keys.high is not None
    if (keys.within is not None) == has_bounds:
        entry.object_to("needs either `within`, or `from` and `to`", remedy="write, say, `within: 20%`")
        return None
    low, high = (-keys.within, keys.within) if keys.within is not None else (keys.low, keys.high)
    if low is not None and high is not None and low > high:
        entry.object_to("can't be met: `from` is above `to`")
    name = keys.name or entry.name
    return Drift(name=name, metric=metric, low=low, high=high, warns=keys.warn) if metric else None


def _profile(entry: _Entry) -> Profile | None:
    """From `all`, `[a, b]`, or `{columns: all or [a, b], psi: …}`."""
    body = entry.body if isinstance(entry.body, dict) else {"columns": entry.body}
    if body.get("columns", "all") == "all":
        body = {**body, "columns": []}
    elif body["columns"] == []:
        entry.object_to("must name at least one column", remedy="or write `columns: all`")
        return None
    keys = read_shape(_ProfileKeys, body, entry.problems, entry.place)
    if keys is None:
        return None
    if keys.outliers is not None and not entry.is_by_time:
        entry.object_to("has `outliers`, but the model isn't cut by time", remedy="leave them out")
    far = keys.outliers
    bounds = ProfileBounds(
        psi=keys.psi,
        null_rate=keys.null_rate,
        outliers=RowHistory(slices=far.history, deviations=far.deviations) if far is not None else None,
    )
    return Profile(name=keys.name or entry.name, columns=tuple(keys.columns), bounds=bounds, warns=keys.warn)


_READERS: dict[str, Callable[[_Entry], Gate | None]] = {
    "rows": _rows,
    "unique": _unique,
    "not_null": _not_null,
    "drift": _drift,
    "profile": _profile,
}
