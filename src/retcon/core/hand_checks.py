"""Hand checks: some rows that differ, with the input rows that they came from, for a person to look at."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence

from retcon.core.models import Input, Model
from retcon.core.reads import Read
from retcon.core.row_diffs import RowDiff, RowPair
from retcon.core.slices import Buckets, Grain
from retcon.values import dataclass

MOST_INPUT_ROWS = 5
"""Of each input, for each row."""

Values = Mapping[str, str | None]


@dataclass(frozen=True, kw_only=True)
class Links:
    """By which columns of an input the rows are found that a model's row came from."""

    columns: Mapping[str, str]
    """The input's column, by the model's."""
    by_slice: bool
    """And only in the slice that the row is in."""

    @property
    def text(self) -> str:
        """`order_id, its slice`."""
        named = [a if a.lower() == b.lower() else f"{b} = {a}" for a, b in self.columns.items()]
        return ", ".join([*named, *(["its slice"] if self.by_slice else [])])


def links_of(model: Model, i: Input, columns: Sequence[str]) -> Links | str:
    """How rows of an input with these columns are found; else why they can't be."""
    if i.is_own:
        return "these are its own earlier slices"
    if not model.key:
        return "the model declares no `key`"
    there = {name.lower(): name for name in columns}
    by = _time_of(model)
    found = {name: there[name.lower()] for name in model.key if name.lower() in there}
    if i.key is not None and i.key.lower() not in {column.lower() for column in found.values()}:
        carried = _entity(model, i.key, tuple(found))
        found |= {carried: i.key} if carried is not None else {}
    others = [name for name in model.key if name.lower() != by]
    if others and not any(name.lower() != by for name in found):
        return f"it has no column {' or '.join(others)}, and declares no `key` that carries it"
    is_timed = isinstance(model.grain, Grain) and i.time is not None and not i.lookback and not i.lookahead
    if not found and not is_timed:
        return f"it has no column {' or '.join(model.key)}"
    return Links(columns=found, by_slice=is_timed and by not in {name.lower() for name in found})


def _time_of(model: Model) -> str:
    """The column that only says when: alone, it identifies no row."""
    return (model.slicing.by or "").lower() if isinstance(model.grain, Grain) else ""


def _entity(model: Model, key: str, found: Sequence[str]) -> str | None:
    """The model's column whose values an input carries in its declared `key`."""
    if isinstance(model.grain, Buckets) and model.slicing.by is not None:
        return model.slicing.by
    left = [name for name in model.key if name not in found and name.lower() != _time_of(model)]
    return left[0] if len(left) == 1 else key if key.lower() in {name.lower() for name in model.key} else None


@dataclass(frozen=True, kw_only=True)
class TraceRequest:
    """Rows of a model whose input rows are looked for."""

    read: Read
    links: Links
    time: str | None
    """The input's column that tells the slice, where it counts."""
    grain: Grain | None
    rows: tuple[RowPair, ...]
    most: int = MOST_INPUT_ROWS


@dataclass(frozen=True, kw_only=True)
class InputRows:
    """The rows of an input that one row came from."""

    total: int
    rows: tuple[Values, ...]
    """The first few of them."""


@dataclass(frozen=True, kw_only=True)
class TracedInput:
    """One input of the model, and its rows for each row of the sample, in their order."""

    name: str
    table: str
    snapshot_id: int | None
    found_by: str
    why_not: str = ""
    """Why its rows can't be found; empty where they can."""
    rows: tuple[InputRows, ...] = ()


@dataclass(frozen=True, kw_only=True)
class HandCheck:
    """What a person is shown of a model: rows drawn by a seed, old beside new, with what they came from."""

    diff: RowDiff
    seed: str
    inputs: tuple[TracedInput, ...]
    snapshots: tuple[int | None, int | None]
    """Of the model's table: old and new."""

    @property
    def rows(self) -> tuple[RowPair, ...]:
        return self.diff.sample

    @property
    def key_hashes(self) -> tuple[str, ...]:
        return tuple(key_hash(pair) for pair in self.rows)


def key_hash(pair: RowPair) -> str:
    """By which it can be told later that this row was looked at, without keeping its values."""
    told: Mapping[str, object] = pair.key or {"old": _plain(pair.old), "new": _plain(pair.new)}
    text = json.dumps([pair.slice, pair.kind.value, dict(told)], sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _plain(values: Values | None) -> dict[str, str | None] | None:
    return None if values is None else dict(values)
