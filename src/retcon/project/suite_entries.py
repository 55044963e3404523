"""The gate `great_expectations`: a suite in a JSON file, read without the library."""

from __future__ import annotations

import json
from pathlib import Path

from retcon.core.suites import Expectation, GreatExpectations
from retcon.project.gate_shapes import Entry, GateKeys
from retcon.project.shapes import Objection, Text

_OWN_SQL = "unexpected_rows_expectation"
_FORM = 'export it as JSON: {"name": …, "expectations": [{"type": …, "kwargs": {…}}, …]}'


class _SuiteKeys(GateKeys):
    suite: Text


def read_great_expectations(entry: Entry) -> GreatExpectations | None:
    """`{suite: orders.json}`, beside the model or from the project's folder."""
    keys = entry.keys(_SuiteKeys)
    if keys is None:
        return None
    place = (*entry.place, "suite")
    expectations = entry.problems.taken(place, lambda: _expectations(_document(_found(keys.suite, entry.folders))))
    if expectations is None:
        return None
    return GreatExpectations(name=keys.name or entry.name, suite=keys.suite, expectations=expectations, warns=keys.warn)


def _found(suite: str, folders: tuple[Path, ...]) -> Path:
    paths = [folder / suite for folder in folders]
    found = next((path for path in paths if path.is_file()), None)
    if found is None:
        raise Objection(f"names {suite}, which isn't there", remedy="give its path from the model or from the project")
    return found


def _document(path: Path) -> object:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise Objection(f"names {path.name}, which can't be read: {error}", remedy=_FORM) from None


def _expectations(document: object) -> tuple[Expectation, ...]:
    listed = document.get("expectations") if isinstance(document, dict) else None
    if not isinstance(listed, list) or not listed:
        raise Objection("names a file without expectations", remedy=_FORM)
    return tuple(_expectation(each, position) for position, each in enumerate(listed, start=1))


def _expectation(value: object, position: int) -> Expectation:
    # Suites from before version 1 say `expectation_type`.
    type = (value.get("type") or value.get("expectation_type")) if isinstance(value, dict) else None
    arguments = value.get("kwargs", {}) if isinstance(value, dict) else None
    if not isinstance(type, str) or not isinstance(arguments, dict):
        raise Objection(f"names a suite whose item {position} is no expectation", remedy=_FORM)
    if type == _OWN_SQL:
        raise Objection(f"names a suite with a query of its own ({type})", remedy="write it as the gate `no_rows`")
    return Expectation(type=type, arguments=arguments)
