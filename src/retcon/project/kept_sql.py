"""What was found in a project's SQL, kept: the same text is read once, and sqlglot loaded where there is a new one."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from retcon import __version__
from retcon.core.measures import Metric
from retcon.core.queries import Batching, Entity, Query, TableReference
from retcon.project.readings import ReadQuery

if TYPE_CHECKING:
    from retcon.project.model_files import SqlReader

T = TypeVar("T")
Json = dict[str, Any]


class Texts(Protocol):
    """Texts by name; one that isn't there any more is found out again."""

    def get(self, name: str) -> str | None: ...
    def keep(self, name: str, text: str) -> None: ...


class KeptSql:
    """Reads the SQL of one project. What it refuses isn't kept: that is read again, and told again."""

    def __init__(self, root: Path, texts: Texts, reader: Callable[[], SqlReader]) -> None:
        self._texts = texts
        self._reader = reader
        self._name = f"{_hash(str(root.absolute()))}.json"
        self._known = self._read()
        self._used: dict[str, Json] = {}

    def read_query(self, text: str, **given: Any) -> ReadQuery:
        key = _hash("query", text, *(f"{name}={_plain(value)}" for name, value in sorted(given.items())))
        known = self._get(key, _read_query)
        if known is not None:
            return known
        found = self._reader().read_query(text, **given)
        return found if found.problems else self._put(key, found, _query_document(found))

    def read_metric(self, expression: str) -> Metric:
        key = _hash("metric", expression)
        known = self._get(key, lambda body: Metric(**body))
        if known is not None:
            return known
        found = self._reader().read_metric(expression)
        return self._put(key, found, {"expression": found.expression, "is_additive": found.is_additive})

    def read_condition(self, text: str) -> str:
        key = _hash("condition", text)
        known = self._get(key, lambda body: str(body["text"]))
        if known is not None:
            return known
        found = self._reader().read_condition(text)
        return self._put(key, found, {"text": found})

    def read_gate_query(self, text: str) -> Query:
        key = _hash("gate", text)
        known = self._get(key, _query)
        if known is not None:
            return known
        found = self._reader().read_gate_query(text)
        return self._put(key, found, _document(found))

    def is_built_in(self, name: str) -> bool:
        key = _hash("function", name)
        known = self._get(key, lambda body: bool(body["is_built_in"]))
        if known is not None:
            return known
        found = self._reader().is_built_in(name)
        return self._put(key, found, {"is_built_in": found})

    def save(self) -> None:
        """Keep what this project says now, and nothing that it doesn't say any more."""
        if self._used.keys() != self._known.keys():
            body = {"reader": _reader_stamp(), "found": self._used}
            self._texts.keep(self._name, json.dumps(body))

    def _get(self, key: str, make: Callable[[Json], T]) -> T | None:
        body = self._known.get(key)
        try:
            found = None if body is None else make(body)
        except (ValueError, LookupError, TypeError):
            return None
        if body is not None:
            self._used[key] = body
        return found

    def _put(self, key: str, found: T, body: Json) -> T:
        self._used[key] = body
        return found

    def _read(self) -> Json:
        try:
            body = json.loads(self._texts.get(self._name) or "{}")
            found = body["found"] if body["reader"] == _reader_stamp() else {}
        except (ValueError, LookupError, TypeError):
            return {}
        return found if isinstance(found, dict) else {}


def _hash(*parts: str) -> str:
    return sha256("\0".join(parts).encode()).hexdigest()[:32]


def _plain(value: object) -> str:
    """The same text for the same value, in every process."""
    if isinstance(value, set | frozenset):
        return repr(sorted(value))
    return repr(value)


def _reader_stamp() -> str:
    """What reads SQL: this version of retcon, as its files are, and sqlglot's."""
    sqlglot = find_spec("sqlglot")
    places = [] if sqlglot is None or sqlglot.origin is None else [Path(sqlglot.origin).with_name("_version.py")]
    here = Path(__file__).parent
    places += sorted([*here.glob("*.py"), *here.glob("sql/*.py")])
    return _hash(__version__, *_stamps(places))


def _stamps(places: list[Path]) -> Iterator[str]:
    for place in places:
        stat = os.stat(place)
        yield f"{place} {stat.st_size} {stat.st_mtime_ns}"


def _query_document(read: ReadQuery) -> Json:
    return {
        "query": _document(read.query),
        "batching": {"reasons": read.batching.reasons, "vouched": read.batching.vouched},
        "entity": {"columns": sorted(read.entity.columns), "reasons": read.entity.reasons},
        "normalised": read.normalised,
        "calls": sorted(read.calls),
    }


def _document(query: Query) -> Json:
    references = [[r.input, r.start, r.end, r.alias, r.alias_at] for r in query.references]
    return {
        "text": query.text,
        "references": references,
        "parameters": sorted(query.parameters),
        "columns": query.columns,
    }


def _read_query(body: Json) -> ReadQuery:
    batching, entity = body["batching"], body["entity"]
    return ReadQuery(
        query=_query(body["query"]),
        batching=Batching(reasons=tuple(batching["reasons"]), vouched=batching["vouched"]),
        entity=Entity(columns=frozenset(entity["columns"]), reasons=tuple(entity["reasons"])),
        normalised=body["normalised"],
        problems=(),
        calls=frozenset(body["calls"]),
    )


def _query(body: Json) -> Query:
    return Query(
        text=body["text"],
        references=tuple(
            TableReference(input=input, start=start, end=end, alias=alias, alias_at=alias_at)
            for input, start, end, alias, alias_at in body["references"]
        ),
        parameters=frozenset(body["parameters"]),
        columns=None if body["columns"] is None else tuple(body["columns"]),
    )
