"""The gates `null_rate` and `accepted`, whose keys are columns."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Annotated

from pydantic import BeforeValidator

from retcon.core.measures import Listed, Value, ValueKind
from retcon.core.value_gates import Accepted, NullRate
from retcon.project.gate_shapes import Entry, GateKeys
from retcon.project.quantities import unsigned_share_of
from retcon.project.shapes import Objection, Text


class _NullRateKeys(GateKeys):
    columns: dict[Text, Annotated[Decimal, BeforeValidator(unsigned_share_of)]]


class _AcceptedKeys(GateKeys):
    columns: dict[Text, list[object]]


def read_null_rate(entry: Entry) -> NullRate | None:
    """`{a: 5%}`, or `{columns: {a: 5%}, name: …, warn: …}`."""
    keys = entry.keys(_NullRateKeys)
    if keys is None or not _has_columns(entry, keys.columns):
        return None
    for column, most in keys.columns.items():
        if most > 1:
            entry.object_to(f"can't be more than all of {column}: {most:.0%}", remedy="write a share up to 100%")
    return NullRate(name=keys.name or entry.name, most=tuple(keys.columns.items()), warns=keys.warn)


def read_accepted(entry: Entry) -> Accepted | None:
    """`{a: [x, y]}`, or `{columns: {a: [x, y]}, name: …, warn: …}`."""
    keys = entry.keys(_AcceptedKeys)
    if keys is None or not _has_columns(entry, keys.columns):
        return None
    listed = [_listed(entry, column, values) for column, values in keys.columns.items()]
    if any(each is None for each in listed):
        return None
    return Accepted(
        name=keys.name or entry.name, listed=tuple(each for each in listed if each is not None), warns=keys.warn
    )


def _has_columns(entry: Entry, columns: dict[str, object] | dict[str, Decimal] | dict[str, list[object]]) -> bool:
    if not columns:
        entry.object_to("must name at least one column")
    return bool(columns)


def _listed(entry: Entry, column: str, values: list[object]) -> Listed | None:
    def read() -> Listed:
        found = dict.fromkeys(_value(each) for each in values if each is not None)
        kinds = dict.fromkeys(value.kind for value in found)
        if not found:
            raise Objection("must list at least one value beside null")
        if len(kinds) > 1:
            raise Objection(f"lists {' and '.join(kinds)}", remedy="put text in quotes: yes, no and on are no text")
        return Listed(column=column, values=tuple(found))

    return entry.problems.taken((*entry.place, column), read)


def _value(value: object) -> Value:
    match value:
        case bool():
            return Value(kind=ValueKind.TRUTH, text=str(value).lower())
        case int():
            return Value(kind=ValueKind.NUMBER, text=str(value))
        case float() if math.isfinite(value):
            return Value(kind=ValueKind.NUMBER, text=f"{Decimal(str(value)):f}")
        case str():
            return Value(kind=ValueKind.TEXT, text=value)
        case datetime():
            moment = value if value.tzinfo is None else value.astimezone(UTC).replace(tzinfo=None)
            return Value(kind=ValueKind.TIME, text=moment.isoformat(sep=" "))
        case date():
            return Value(kind=ValueKind.DATE, text=value.isoformat())
        case _:
            raise Objection("lists text, numbers, dates, true or false; nothing else")
