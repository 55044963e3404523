"""Which names may stand for tables, columns, parameters and the rest. Each function returns the name or objects."""

from __future__ import annotations

import re
import unicodedata

_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_WORD = re.compile(r"\w+")
_LABEL = re.compile(r"\w[\w.-]*")
BOUND_BY_RETCON = frozenset({"start_date", "end_date", "start_ts", "end_ts", "run_ts"})


def plain_text(text: str) -> str:
    """Text of one line that isn't blank."""
    if not text.strip():
        raise ValueError("can't be empty")
    if any(unicodedata.category(character) in ("Cc", "Cs", "Zl", "Zp") for character in text):
        raise ValueError("must be one line without control characters")
    return text


def identifier(text: str) -> str:
    """What every engine takes unquoted."""
    if not _IDENTIFIER.fullmatch(text):
        raise ValueError("must be letters a–z, digits and `_`, and not start with a digit")
    return text


def parameter(text: str) -> str:
    """A name to be bound as `:name`."""
    if identifier(text) in BOUND_BY_RETCON:
        raise ValueError("is bound by retcon itself, so it can't be declared")
    return text


def label(text: str) -> str:
    """The name of a gate or an environment, as it is typed on a command line."""
    if not _LABEL.fullmatch(text):
        raise ValueError("must be letters, digits, `_`, `-` and `.`")
    return text


def word(text: str) -> str:
    """A part of a model's name, or what stands before one: letters of any alphabet, digits and `_`."""
    if not _WORD.fullmatch(text):
        raise ValueError("must be letters, digits and `_`")
    return text


def table(text: str) -> str:
    """A table with its namespace: `raw.orders`. Quotes are left to whoever writes SQL with it."""
    parts = plain_text(text).split(".")
    if any(character in text for character in "/\\`") or not all(part.strip() for part in parts):
        raise ValueError("must be a table such as `raw.orders`, without paths and quotes")
    if len(parts) < 2:
        raise ValueError("must name a table with its namespace, such as `raw.orders`")
    return text
