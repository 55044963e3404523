"""The one builder of slice predicates."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime

from retcon.core.queries import quoted
from retcon.core.slices import Buckets, Cut, Grain, Slice, SliceSet, Whole

MOST_IN_A_LIST = 200
"""Above this, Iceberg stops pruning manifests and files by an IN list."""


def slice_predicate(
    column: str | None, type: str, slices: SliceSet, *, bucketed_as: str | None = None, in_code: bool = False
) -> str:
    """SQL that holds for exactly the rows of these slices: ranges for neighbours, lists for the rest.

    Buckets are counted in `bucketed_as`, where the column has another type. `in_code`: to be computed, not pushed down,
    by the same generated code for every wave.
    """
    if column is None or isinstance(slices.grain, Whole):
        return "true" if slices else "false"
    if isinstance(slices.grain, Buckets):
        is_cast = bucketed_as is not None and bucketed_as != type
        value = f"CAST({quoted(column)} AS {bucketed_as})" if is_cast else quoted(column)
        return _listed(f"system.bucket({slices.grain.number}, {value})", [str(each) for each in slices.ordinals])
    # A date tells no hours: its day is the least that can be asked for.
    grain = Grain.DAY if type == "date" and slices.grain is Grain.HOUR else slices.grain
    name = quoted(column)
    singles: list[str] = []
    terms: list[str] = []
    for first, last in slices.recut(grain).ranges():
        if first == last and type == "date" and grain is Grain.DAY and not in_code:
            singles.append(_literal(grain, first, type))
        else:
            start, end = (_literal(grain, ordinal, type) for ordinal in (first, last + 1))
            if in_code:
                start, end = _handed_in(start, name), _handed_in(end, name)
            terms.append(f"({name} >= {start} AND {name} < {end})")
    if singles:
        terms.append(_listed(name, singles))
    return balanced("OR", terms) if terms else "false"


def _handed_in(literal: str, column: str) -> str:
    """A value that Spark doesn't write into the code that it generates: 15 days' code had to be compiled, and to become
    fast, anew for each wave. Array literals are handed in; the index is 1, but no rule of Spark's knows.
    """
    return f"element_at(array({literal}), 1 + (hash({column}) & 0))"


def _listed(value: str, among: Sequence[str]) -> str:
    lists = [", ".join(among[at : at + MOST_IN_A_LIST]) for at in range(0, len(among), MOST_IN_A_LIST)]
    return balanced("OR", [f"{value} IN ({each})" for each in lists]) if lists else "false"


def slice_key(column: str | None, type: str, cut: Cut) -> str:
    """SQL that gives the slice of a row: its number, or for days of a date the date itself (see `slice_at`)."""
    if column is None or isinstance(cut, Whole):
        return "0"
    name = quoted(column)
    if isinstance(cut, Buckets):
        return f"system.bucket({cut.number}, {name})"
    if type == "date" and cut is Grain.DAY:
        return name
    match type:
        case "date":
            day, hour = f"unix_date({name})", "NULL"
        case "timestamp_ntz":
            day = f"unix_date(CAST({name} AS DATE))"
            hour = f"({day} * 24 + hour({name}))"
        case _:
            # By microseconds: what the session's time zone calls a day or an hour isn't a slice.
            hour, day = (_floored(f"unix_micros({name})", hours * 3_600_000_000) for hours in (1, 24))
    date = f"date_from_unix_date(CAST({day} AS INT))"
    match cut:
        case Grain.HOUR:
            return hour
        case Grain.DAY:
            return day
        case Grain.WEEK:
            return _floored(f"({day} + 3)", 7)
        case Grain.MONTH:
            return f"((year({date}) - 1970) * 12 + month({date}) - 1)"
        case Grain.YEAR:
            return f"(year({date}) - 1970)"


def slice_at(cut: Cut, key: date | int) -> Slice:
    """The slice that a `slice_key` names."""
    return Slice(cut, Grain.DAY.ordinal(key) if isinstance(key, date) else key)


def _floored(number: str, size: int) -> str:
    # Not by division alone: it rounds times before 1970 up.
    return f"(({number} - pmod({number}, {size}L)) div {size}L)"


def balanced(operator: str, terms: Sequence[str]) -> str:
    """The terms joined as a balanced tree: a long chain would overflow the parser's stack."""
    if len(terms) == 1:
        return terms[0]
    middle = len(terms) // 2
    return f"({balanced(operator, terms[:middle])} {operator} {balanced(operator, terms[middle:])})"


def _literal(grain: Grain, ordinal: int, type: str) -> str:
    return moment_literal(grain.start(ordinal), type)


def moment_literal(moment: datetime, type: str) -> str:
    """A moment as SQL has it, in the type of the column that it is compared with."""
    # isoformat, since strftime writes years before 1000 with fewer digits, and Spark refuses those.
    plain = moment.replace(tzinfo=None)
    match type:
        case "date":
            return f"DATE '{plain.date().isoformat()}'"
        case "timestamp":
            return f"TIMESTAMP '{plain.isoformat(sep=' ')} UTC'"
        case "timestamp_ntz":
            return f"TIMESTAMP_NTZ '{plain.isoformat(sep=' ')}'"
        case _:
            raise ValueError(f"a time column is a date or a timestamp, not {type}")
