"""Where retcon keeps what it can fetch or find out again."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path


def cache_folder(environ: Mapping[str, str]) -> Path:
    """`RETCON_CACHE`, else a folder of its own among the user's caches."""
    if given := environ.get("RETCON_CACHE"):
        return Path(given)
    return Path(environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "retcon"
