"""Streams whose encoding can't show every sign that the views use."""

from __future__ import annotations

from typing import TextIO

_PLAIN = str.maketrans(
    {
        "▁": "_",
        "▂": ".",
        "▃": "-",
        "▄": "=",
        "▅": "+",
        "▆": "*",
        "▇": "%",
        "█": "#",
        "▌": "#",
        "▐": "#",
        "─": "-",
        "│": "|",
        "·": "-",
        "…": "~",
        "–": "-",
        "−": "-",
        "×": "x",
        "±": "~",
        "→": ">",
        "✓": "v",
        "✗": "x",
        "⊘": "!",
    }
)
"""One character for one, so that columns stay where they are."""


def can_show_signs(stream: TextIO) -> bool:
    """Does the stream's encoding have the signs of the views?"""
    try:
        "".join(map(chr, _PLAIN)).encode(getattr(stream, "encoding", None) or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def showable(stream: TextIO) -> TextIO:
    """The stream, or one in front of it that writes plainer signs."""
    return stream if can_show_signs(stream) else _PlainStream(stream)  # type: ignore[return-value] # by __getattr__


class _PlainStream:
    """Replaces what the encoding lacks, and hands everything else on."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._encoding = getattr(stream, "encoding", None) or "ascii"

    def write(self, text: str) -> int:
        plain = text.translate(_PLAIN).encode(self._encoding, errors="replace").decode(self._encoding)
        return self._stream.write(plain)

    def __getattr__(self, name: str) -> object:
        return getattr(self._stream, name)
