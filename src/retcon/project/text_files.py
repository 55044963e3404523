"""Files of the project as text: bounded, UTF-8, one kind of line end."""

from __future__ import annotations

from pathlib import Path

from retcon.errors import Problem, ProjectInvalid

MOST_BYTES = 1_000_000
"""PyYAML and sqlglot need seconds for a megabyte; what people write by hand is far smaller."""


def shown_path(path: Path, root: Path) -> str:
    """The path as messages name it: relative to the project, with forward slashes."""
    return path.relative_to(root).as_posix() if path.is_relative_to(root) else path.as_posix()


def read_text(path: Path, root: Path) -> str:
    """The text of one file, without byte order mark and carriage returns."""
    shown = shown_path(path, root)
    try:
        with path.open("rb") as file:
            data = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise _unreadable(shown, f"can't be read: {error.strerror}", "check that it exists and may be read") from None
    if len(data) > MOST_BYTES:
        raise _unreadable(shown, "is larger than 1 MB", "keep data out of the project's files")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise _unreadable(shown, "isn't UTF-8 text", "save it as UTF-8", line=line) from None
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _unreadable(shown: str, message: str, remedy: str, line: int | None = None) -> ProjectInvalid:
    return ProjectInvalid([Problem(path=shown, message=f"the file {message}", line=line, remedy=remedy)])
