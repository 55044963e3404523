"""What manifests list, kept on disk: they never change, and a long history is mostly made of old ones."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

from retcon.core.slices import Cut
from retcon.core.tables import TableContents, TableFile
from retcon.lakehouse.caches import cache_folder

_FORMAT = 1
_DAY = 86_400
_KEPT = 30 * _DAY
"""What nobody asked for so long is let go."""

Looked = tuple[str, int, int | None, Cut]
"""A manifest by its path and length, and how it was looked at: by which field, cut how."""
_Key = tuple[Any, ...]
"""That, or the list of a snapshot's manifests, by its path."""


class ManifestCache:
    """Files beside the jars. A cache: whatever can't be read or written there is looked up in the table."""

    def __init__(self, environ: Mapping[str, str] = os.environ) -> None:
        self._folder = cache_folder(environ) / "manifests"

    def keep(self, looked: Looked, contents: TableContents) -> None:
        files = [[f.path, f.rows, f.bytes, f.first, f.last, f.is_delete] for f in contents.files]
        self._write(looked, {"null_rows": contents.null_rows, "files": files})

    def keep_list(self, manifest_list: str, manifests: Sequence[tuple[str, int]]) -> None:
        """The manifests of a snapshot, by path and length."""
        if not self._place((manifest_list,)).exists():
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
        text = json.dumps({"looked": _text(looked), **body})
        with suppress(OSError):
            self._folder.mkdir(parents=True, exist_ok=True)
            self._let_go_of_old()
            with NamedTemporaryFile("w", dir=self._folder, suffix=".new", delete=False, encoding="utf-8") as file:
                file.write(text)
            Path(file.name).replace(self._place(looked))

    def _body(self, looked: _Key) -> Mapping[str, Any] | None:
        place = self._place(looked)
        try:
            body = json.loads(place.read_text(encoding="utf-8"))
            if body["looked"] != _text(looked):
                return None
        except (OSError, ValueError, KeyError, TypeError):
            return None
        with suppress(OSError):
            if place.stat().st_mtime < time.time() - _DAY:
                place.touch()
        found: Mapping[str, Any] = body
        return found

    def _place(self, looked: _Key) -> Path:
        kind = "list" if len(looked) == 1 else "json"
        return self._folder / f"{sha256(_text(looked).encode()).hexdigest()[:32]}.{kind}"

    def _let_go_of_old(self) -> None:
        """Once a day."""
        swept, now = self._folder / "swept", time.time()
        if swept.exists() and swept.stat().st_mtime > now - _DAY:
            return
        swept.touch()
        for entry in os.scandir(self._folder):
            with suppress(OSError):  # another process may be at it, too
                if entry.stat().st_mtime < now - _KEPT:
                    Path(entry.path).unlink()


def together(held: Sequence[TableContents], cut: Cut) -> TableContents:
    """What manifests list, as one."""
    return TableContents(
        grain=cut,
        files=tuple(file for each in held for file in each.files),
        null_rows=sum(each.null_rows for each in held),
    )


def _text(looked: _Key) -> str:
    return "\n".join(map(str, (_FORMAT, *looked)))
