"""What manifests list, kept on disk: they never change, and a long history is mostly made of old ones."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from tempfile import NamedTemporaryFile

from retcon.core.slices import Cut
from retcon.core.tables import TableContents, TableFile
from retcon.lakehouse.caches import cache_folder

_FORMAT = 1
_DAY = 86_400
_KEPT = 30 * _DAY
"""What nobody asked for so long is let go."""

Looked = tuple[str, int, int | None, Cut]
"""A manifest by its path and length, and how it was looked at: by which field, cut how."""


class ManifestCache:
    """Files beside the jars. A cache: whatever can't be read or written there is looked up in the table."""

    def __init__(self, environ: Mapping[str, str] = os.environ) -> None:
        self._folder = cache_folder(environ) / "manifests"

    def keep(self, looked: Looked, contents: TableContents) -> None:
        files = [[f.path, f.rows, f.bytes, f.first, f.last, f.is_delete] for f in contents.files]
        text = json.dumps({"looked": _text(looked), "null_rows": contents.null_rows, "files": files})
        with suppress(OSError):
            self._folder.mkdir(parents=True, exist_ok=True)
            self._let_go_of_old()
            with NamedTemporaryFile("w", dir=self._folder, suffix=".new", delete=False, encoding="utf-8") as file:
                file.write(text)
            Path(file.name).replace(self._place(looked))

    def get(self, looked: Looked) -> TableContents | None:
        place = self._place(looked)
        try:
            body = json.loads(place.read_text(encoding="utf-8"))
            if body["looked"] != _text(looked):
                return None
            files = tuple(
                TableFile(path=path, rows=rows, bytes=size, first=first, last=last, is_delete=is_delete)
                for path, rows, size, first, last, is_delete in body["files"]
            )
            contents = TableContents(grain=looked[-1], files=files, null_rows=body["null_rows"])
        except (OSError, ValueError, KeyError, TypeError):
            return None
        with suppress(OSError):
            if place.stat().st_mtime < time.time() - _DAY:
                place.touch()
        return contents

    def _place(self, looked: Looked) -> Path:
        return self._folder / f"{sha256(_text(looked).encode()).hexdigest()[:32]}.json"

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


def _text(looked: Looked) -> str:
    return "\n".join(map(str, (_FORMAT, *looked)))
