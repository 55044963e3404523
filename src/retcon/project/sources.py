"""`sources` of `retcon.yaml`: tables that models read and retcon doesn't write, in the catalog or elsewhere."""

from __future__ import annotations

import os.path
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated

from pydantic import BeforeValidator, Field

from retcon.core.projects import Source
from retcon.core.promises import DELTA, JDBC
from retcon.project.quantities import days_of
from retcon.project.shapes import Objection, Option, Shape, Text, Texts, no_items, one_of

_UNTYPED = ("csv", "json")
FORMATS = ("parquet", "orc", *_UNTYPED, DELTA, JDBC)

_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/")
_PATTERN = re.compile(r"[*?\[\]{}]")
_PINS = "retcon itself says which version is read"
_WHICH_FILES = "let `path` be a folder that holds what is meant and nothing else"
_REFUSED_OPTIONS = {
    "retcon": "choose another name",
    "path": "write it beside `format`, as `path`",
    "paths": _WHICH_FILES,
    "basepath": _WHICH_FILES,
    "pathglobfilter": _WHICH_FILES,
    "recursivefilelookup": _WHICH_FILES,
    "modifiedafter": _WHICH_FILES,
    "modifiedbefore": _WHICH_FILES,
    "ignorecorruptfiles": "rows would be lost in silence: remove the broken files",
    "ignoremissingfiles": "rows would be lost in silence",
    "versionasof": _PINS,
    "timestampasof": _PINS,
    "readchangefeed": _PINS,
    "customschema": "write `columns`",
    "inferschema": "write `columns`",
}


class SourceKeys(Shape):
    updated: Text | None = None
    key: Texts = Field(default_factory=no_items)
    keeps: Annotated[int, BeforeValidator(days_of)] | None = None
    format: Annotated[str, one_of(*FORMATS)] | None = None
    path: Text | None = None
    options: dict[str, Option] = Field(default_factory=dict)
    columns: dict[Text, Text] = Field(default_factory=dict)


def source_of(name: str, keys: SourceKeys, root: Path, written: Mapping[str, object]) -> Source:
    """The source that these keys declare; `written`: its options before variables were filled in."""
    if keys.format is not None:
        _check_foreign(keys)
    elif keys.path or keys.options or keys.columns:
        raise Objection("says where it is, but has no `format`", remedy=f"write `format: …`: {', '.join(FORMATS)}")
    return Source(
        name=name,
        updated=keys.updated,
        key=tuple(keys.key),
        keeps_days=keys.keeps,
        format=keys.format,
        path=_path(keys.path, root) if keys.path is not None else None,
        options=keys.options,
        secrets=frozenset(part for key, text in written.items() for part in _secrets(str(text), keys.options[key])),
        columns=tuple(keys.columns.items()),
    )


def _secrets(written: str, filled_in: str) -> Iterator[str]:
    """What a text got from the environment, by itself and with what stands around it."""
    if "${" in written:
        yield filled_in
        around = re.sub(r"\\\$\\\{\w+\\\}", "(.+)", re.escape(written))
        found = re.fullmatch(around, filled_in, re.DOTALL)
        yield from found.groups() if found is not None else ()


def _check_foreign(keys: SourceKeys) -> None:
    options = {key.casefold() for key in keys.options}
    for key in keys.options:
        if key.casefold() in _REFUSED_OPTIONS:
            raise Objection(f"can't have the option `{key}`", remedy=_REFUSED_OPTIONS[key.casefold()])
    if keys.format == JDBC:
        if keys.path is not None:
            raise Objection("is read by JDBC, which has no `path`", remedy="write `options: {url: …, dbtable: …}`")
        if "url" not in options or len(options & {"dbtable", "query"}) != 1:
            raise Objection("needs the options `url`, and `dbtable` or `query`")
    elif keys.path is None:
        raise Objection("needs a `path`", remedy="a file or folder, relative to retcon.yaml, or a URI")
    if keys.format in _UNTYPED and not keys.columns:
        # What Spark infers changes with the files that happen to be there, and results with it.
        raise Objection(
            f"needs `columns`: {keys.format} has no types of its own", remedy="write `columns: {name: type}`"
        )
    if keys.format == DELTA and keys.columns:
        raise Objection("can't have `columns`: a Delta table has its own")


def _path(text: str, root: Path) -> str:
    """An absolute path, or the URI as it is."""
    local = re.sub(r"^file:(//)?(?=/)", "", text)
    if _URI.match(local):
        return local
    path = os.path.normpath(root / local)
    if _PATTERN.search(path):
        raise Objection("can't have any of `*?[]{}` in its path: Spark takes them for patterns", remedy=_WHICH_FILES)
    return path
