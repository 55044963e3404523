"""What the entries of every gate have in common."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Protocol, TypeVar

from pydantic import AfterValidator

from retcon.core import gates
from retcon.core.expectations import EXPECT
from retcon.core.gates import Metric
from retcon.core.queries import Query
from retcon.project import names
from retcon.project.shapes import Objection, Problems, Shape, Text, read_shape
from retcon.project.yaml_text import Place
from retcon.values import dataclass

_ALWAYS_ON = frozenset({gates.SCHEMA, gates.OUTSIDE_SCOPE, gates.PARITY, gates.EMPTY, gates.OTHER_KEYS, gates.ONE_ROW})


class GateSql(Protocol):
    """Reads what is SQL in a gate."""

    def read_metric(self, expression: str) -> Metric: ...
    def read_condition(self, text: str) -> str: ...
    def read_gate_query(self, text: str) -> Query: ...


def _free_name(text: str) -> str:
    if names.label(text) in _ALWAYS_ON:
        raise ValueError("is the name of a gate that is always on")
    if text == EXPECT or text.startswith(f"{EXPECT}-"):
        raise ValueError("is the name of what a plan expects")
    return text


class GateKeys(Shape):
    """The keys that every gate takes."""

    name: Annotated[str, AfterValidator(_free_name)] | None = None
    warn: bool = False


K = TypeVar("K", bound=GateKeys)


@dataclass(frozen=True, kw_only=True)
class Entry:
    """What stands behind one `- kind:`."""

    body: object
    name: str
    """For a gate that gives itself none."""
    key: tuple[str, ...]
    problems: Problems
    place: Place
    sql: GateSql
    is_by_time: bool
    is_whole: bool
    """The model isn't cut at all."""
    folders: tuple[Path, ...] = ()
    """Where a file that the gate names may be: beside the model, or from the project's folder."""

    def keys(self, shape: type[K]) -> K | None:
        return read_shape(shape, self.body, self.problems, self.place)

    def object_to(self, text: str, *, remedy: str = "") -> None:
        self.problems.object_to(self.place, Objection(text, remedy=remedy))

    def metric(self, key: str, expression: Text) -> Metric | None:
        return self.problems.taken((*self.place, key), lambda: self.sql.read_metric(expression))


def by_column(body: object) -> object:
    """The long form of a gate whose keys are columns: `{a: 5%}` is short for `{columns: {a: 5%}}`.

    It is long where `columns` holds a mapping, which is nothing that a column could be given.
    """
    is_long = isinstance(body, dict) and isinstance(body.get("columns"), Mapping)
    return body if is_long or not isinstance(body, dict) else {"columns": body}
