"""`watermark_hooks` of `retcon.yaml`: other systems that are told when a watermark moved."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field

from retcon.core.hooks import WatermarkHook
from retcon.project.shapes import Objection, Option, Shape, TableName, Text


def _at_least_one(words: list[str]) -> list[str]:
    if not words:
        raise Objection("can't be empty", remedy='write, say, `["python", "set_mark.py"]`')
    return words


class HookKeys(Shape):
    models: Annotated[list[TableName], AfterValidator(_at_least_one)] | None = None
    command: Annotated[list[Text], AfterValidator(_at_least_one)] | None = None
    url: Text | None = None
    headers: dict[Text, Option] = Field(default_factory=dict)
    timeout: Annotated[int, Field(ge=1)] = WatermarkHook.timeout


def hook_of(name: str, keys: HookKeys) -> WatermarkHook:
    """The hook that these keys declare."""
    if (keys.command is None) == (keys.url is None):
        raise Objection("needs either a `command` or a `url`", remedy='write `command: ["python", "set_mark.py"]`')
    if keys.headers and keys.url is None:
        raise Objection("has `headers`, but no `url`", remedy="leave them out: a command has the environment")
    return WatermarkHook(
        name=name,
        models=tuple(keys.models or ()),
        command=tuple(keys.command or ()),
        url=None if keys.url is None else _address(keys.url),
        headers=keys.headers,
        timeout=keys.timeout,
    )


def _address(text: str) -> str:
    try:
        parts = urlsplit(text)
        is_address = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.username is None
    except ValueError:
        is_address = False
    if not is_address:
        raise Objection(
            "has a `url` that isn't an address", remedy="write https://HOST/PATH; what is secret goes into `headers`"
        )
    return text
