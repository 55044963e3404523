"""`${VAR}` in settings: filled in from the environment, so that secrets stay out of the files."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from retcon.project.yaml_text import Place

_VARIABLE = re.compile(r"\$(?P<escaped>\$\{)|\$\{(?P<name>[^}]*)(?P<closed>\}?)")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def filled_in(text: str, environ: Mapping[str, str]) -> str:
    """The text with every `${VAR}` replaced; `$${` stands for `${` itself."""

    def value_of(match: re.Match[str]) -> str:
        if match["escaped"]:
            return "${"
        name = match["name"]
        if not match["closed"] or not _NAME.fullmatch(name):
            raise ValueError("holds a `${` that isn't a variable such as `${NAME}`; write `$${` for the characters")
        if name not in environ:
            raise ValueError(f"needs the environment variable {name}, which isn't set")
        return environ[name]

    return _VARIABLE.sub(value_of, text)


def places_with_variables(value: object, at: Place = ()) -> Iterator[Place]:
    """Where keys or texts hold a `${`."""
    if isinstance(value, str) and "${" in value:
        yield at
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for step, item in items:
        if isinstance(step, str) and "${" in step:
            yield (*at, step)
        yield from places_with_variables(item, (*at, step))
