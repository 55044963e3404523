"""What manifests list, kept on disk: they never change, and a long history is mostly made of old ones."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any

from retcon.core.slices import Cut
from retcon.core.tables import TableContents, TableFile
from retcon.lakehouse.caches import TextCache

_FORMAT = 1

Looked = tuple[str, int, int | None, Cut]
"""A manifest by its path and length, and how it was looked at: by which field, cut how."""
_Key = tuple[Any, ...]
"""That, or the list of a snapshot's manifests, by its path."""


class ManifestCache:
    """Files beside the jars. A cache: whatever can't be read or written there is looked up in the table."""

    def __init__(self, environ: Mapping[str, str] = os.environ) -> None:
        self._texts = TextCache("manifests", environ)

    def keep(self, looked: Looked, contents: TableContents) -> None:
        files = [[f.path, f.rows, f.bytes, f.first, f.last, f.is_delete] for f in contents.files]
        self._write(looked, {"null_rows": contents.null_rows, "files": files})

    def keep_list(self, manifest_list: str, manifests: Sequence[tuple[str, int]]) -> None:
        """The manifests of a snapshot, by path and length."""
        if not self._texts.has(_name((manifest_list,))):
            self._write((manifest_list,), {"manifests": manifests})

    def listed(self, manifest_list: str, field: int | None, cut: Cut) -> TableContents | None:
        """What a snapshot holds; None where not all of its manifests are kept."""
        body = self._body((manifest_list,))
        try:
            manifests = None if body is None else [(str(path), int(length)) for path, length in body["manifests"]]
        except (ValueError, KeyError, TypeError):
            return None
        held: list[TableContents] = []
        for path, length in manifests or ():
            found = self.get((path, length, field, cut))
            if found is None:
                return None
            held.append(found)
        return None if manifests is None else together(held, cut)

    def get(self, looked: Looked) -> TableContents | None:
        body = self._body(looked)
        try:
            if body is None:
                return None
            files = tuple(
                TableFile(path=path, rows=rows, bytes=size, first=first, last=last, is_delete=is_delete)
                for path, rows, size, first, last, is_delete in body["files"]
            )
            return TableContents(grain=looked[-1], files=files, null_rows=body["null_rows"])
        except (ValueError, KeyError, TypeError):
            return None

    def _write(self, looked: _Key, body: Mapping[str, object]) -> None:
        self._texts.keep(_name(looked), json.dumps({"looked": _text(looked), **body}))

    def _body(self, looked: _Key) -> Mapping[str, Any] | None:
        text = self._texts.get(_name(looked))
        try:
            body: Mapping[str, Any] | None = None if text is None else json.loads(text)
            return body if body is not None and body["looked"] == _text(looked) else None
        except (ValueError, KeyError, TypeError):
            return None


def together(held: Sequence[TableContents], cut: Cut) -> TableContents:
    """What manifests list, as one."""
    return TableContents(
        grain=cut,
        files=tuple(file for each in held for file in each.files),
        null_rows=sum(each.null_rows for each in held),
    )


def _text(looked: _Key) -> str:
    return "\n".join(map(str, (_FORMAT, *looked)))


def _name(looked: _Key) -> str:
    kind = "list" if len(looked) == 1 else "json"
    return f"{sha256(_text(looked).encode()).hexdigest()[:32]}.{kind}"
