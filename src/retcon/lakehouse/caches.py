"""Where retcon keeps what it can fetch or find out again."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from tempfile import NamedTemporaryFile

_DAY = 86_400
_KEPT = 30 * _DAY
"""What nobody asked for so long is let go."""


def cache_folder(environ: Mapping[str, str]) -> Path:
    """`RETCON_CACHE`, else a folder of its own among the user's caches."""
    if given := environ.get("RETCON_CACHE"):
        return Path(given)
    return Path(environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "retcon"


class TextCache:
    """Texts by name, in a folder of that. Whatever can't be read or written there is found out again."""

    def __init__(self, kind: str, environ: Mapping[str, str] = os.environ) -> None:
        self._folder = cache_folder(environ) / kind

    def has(self, name: str) -> bool:
        return (self._folder / name).exists()

    def get(self, name: str) -> str | None:
        place = self._folder / name
        try:
            text = place.read_text(encoding="utf-8")
        except (OSError, ValueError):
            return None
        with suppress(OSError):
            if place.stat().st_mtime < time.time() - _DAY:
                place.touch()
        return text

    def keep(self, name: str, text: str) -> None:
        with suppress(OSError):
            self._folder.mkdir(parents=True, exist_ok=True)
            self._let_go_of_old()
            with NamedTemporaryFile("w", dir=self._folder, suffix=".new", delete=False, encoding="utf-8") as file:
                file.write(text)
            Path(file.name).replace(self._folder / name)

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
