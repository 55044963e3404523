"""The one builder of slice predicates."""

from __future__ import annotations

from collections.abc import Sequence

from retcon.core.queries import quoted
from retcon.core.slices import Grain, SliceSet

MOST_IN_A_LIST = 200
"""Above this, Iceberg stops pruning manifests and files by an IN list."""


def slice_predicate(column: str, type: str, slices: SliceSet) -> str:
    """SQL that holds for exactly the rows of these slices: ranges for neighbours, lists for the rest."""
    name = quoted(column)
    singles: list[str] = []
    terms: list[str] = []
    for first, last in slices.ranges():
        if first == last and type == "date":
            singles.append(_literal(slices.grain, first, type))
        else:
            start, end = (_literal(slices.grain, ordinal, type) for ordinal in (first, last + 1))
            terms.append(f"({name} >= {start} AND {name} < {end})")
    for at in range(0, len(singles), MOST_IN_A_LIST):
        terms.append(f"{name} IN ({', '.join(singles[at : at + MOST_IN_A_LIST])})")
    return balanced("OR", terms) if terms else "false"


def balanced(operator: str, terms: Sequence[str]) -> str:
    """The terms joined as a balanced tree: a long chain would overflow the parser's stack."""
    if len(terms) == 1:
        return terms[0]
    middle = len(terms) // 2
    return f"({balanced(operator, terms[:middle])} {operator} {balanced(operator, terms[middle:])})"


def _literal(grain: Grain, ordinal: int, type: str) -> str:
    # isoformat, since strftime writes years before 1000 with fewer digits, and Spark refuses those.
    start = grain.start(ordinal).replace(tzinfo=None)
    match type:
        case "date":
            return f"DATE '{start.date().isoformat()}'"
        case "timestamp":
            return f"TIMESTAMP '{start.isoformat(sep=' ')} UTC'"
        case "timestamp_ntz":
            return f"TIMESTAMP_NTZ '{start.isoformat(sep=' ')}'"
        case _:
            raise ValueError(f"a time column is a date or a timestamp, not {type}")
