"""Where Iceberg says that files are."""

from __future__ import annotations


def local_path(location: str) -> str | None:
    """The path that Iceberg means; None where it isn't on this machine. Nothing in it is quoted."""
    for prefix in ("file://", "file:"):
        if location.startswith(prefix):
            return location.removeprefix(prefix)
    return None if "://" in location else location
