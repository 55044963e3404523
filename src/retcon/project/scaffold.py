"""New projects: the folders that `retcon init` and `retcon demo` start from."""

from __future__ import annotations

import errno
import json
import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

import yaml

from retcon.core.suggestions import did_you_mean
from retcon.errors import BadArguments, Fault, Refused
from retcon.project import names
from retcon.project.settings import SETTINGS_FILE

_LAYERS = {"shop": ("shop",), "demo": ("shop", "demo")}
"""A template's folders; a file of a later one stands in for the same file of an earlier one."""

_NOT_COPIED = "bugs/"
"""Files that the demo puts in place itself, by `template_text`."""

_MASTER = 'master: "local[*]"'


def write_project(target: Path, template: str, *, master: str | None = None) -> list[Path]:
    """The files of a new project, written all or not at all; on another Spark master than this machine's cores."""
    target = Path(os.path.abspath(target))
    texts = _texts(template)
    texts[SETTINGS_FILE] = _renamed(texts[SETTINGS_FILE], _name_for(target, template))
    if master is not None:
        texts[SETTINGS_FILE] = _computed_by(texts[SETTINGS_FILE], master)
    try:
        if target.exists():
            _write_into_empty(target, texts)
        else:
            _write_beside(target, texts)
    except OSError as error:
        raise Fault(
            f"can't write the project to {target}: {error.strerror}",
            state="nothing was written",
            next="choose a folder that you may write to",
        ) from error
    return [target / path for path in sorted(texts)]


def template_text(template: str, path: str) -> str:
    """One file of a template, by its path in the project."""
    found = [folder / path for folder in _folders(template) if (folder / path).is_file()]
    if not found:
        raise LookupError(f"the template {template} has no file {path}")
    return found[-1].read_text(encoding="utf-8")


def _texts(template: str) -> dict[str, str]:
    return {
        path: file.read_text(encoding="utf-8")
        for folder in _folders(template)
        for path, file in _files(folder)
        if not path.startswith(_NOT_COPIED)
    }


def _folders(template: str) -> list[Traversable]:
    if template not in _LAYERS:
        raise BadArguments(
            f"there is no template {template!r}",
            next=did_you_mean(template, _LAYERS) or f"the templates are: {', '.join(_LAYERS)}",
        )
    return [files("retcon.project") / "templates" / layer for layer in _LAYERS[template]]


def _files(folder: Traversable, above: str = "") -> Iterator[tuple[str, Traversable]]:
    for entry in folder.iterdir():
        if entry.is_dir():
            yield from _files(entry, f"{above}{entry.name}/")
        else:
            yield f"{above}{entry.name}", entry


def _name_for(target: Path, template: str) -> str:
    """The folder's name, unless it is one that settings don't take."""
    try:
        return template if "${" in target.name else names.plain_text(target.name)
    except ValueError:
        return template


def _renamed(settings: str, name: str) -> str:
    """The settings under the folder's name, quoted where YAML needs it."""
    first, _, rest = settings.partition("\n")
    if not first.startswith("name:"):
        raise ValueError("a template's settings start with the name")
    line = yaml.safe_dump({"name": name}, allow_unicode=True, width=10_000).strip()
    return f"{line}\n{rest}"


def _computed_by(settings: str, master: str) -> str:
    """The settings with this Spark master, quoted as in JSON, which YAML reads, too."""
    if settings.count(_MASTER) != 1:
        raise ValueError("a template's settings name one Spark master")
    try:
        return settings.replace(_MASTER, f"master: {json.dumps(names.plain_text(master))}")
    except ValueError as error:
        raise BadArguments(
            f"the Spark master {error}", state="nothing was written", next="name one such as spark://host:7077"
        ) from error


def _write_beside(target: Path, texts: Mapping[str, str]) -> None:
    """Written next to the target and moved there in one step."""
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
    except FileExistsError:
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR)) from None
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".retcon-init-") as folder:
        # one level deeper, since the temporary folder itself is closed to everybody else
        draft = Path(folder) / "project"
        _write(draft, texts)
        os.rename(draft, target)


def _write_into_empty(target: Path, texts: Mapping[str, str]) -> None:
    """Written in place: somebody may stand in the folder, so it can't be swapped for another."""
    if not target.is_dir() or any(target.iterdir()):
        kind = "isn't empty" if target.is_dir() else "is a file"
        raise Refused(
            f"{target} {kind}", state="nothing was written or overwritten", next="name a new or an empty folder"
        )
    try:
        _write(target, texts)
    except OSError:
        _remove(target, texts)
        raise


def _write(folder: Path, texts: Mapping[str, str]) -> None:
    for path, text in texts.items():
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8", newline="\n")


def _remove(folder: Path, texts: Mapping[str, str]) -> None:
    """Takes back what was written, and nothing that somebody else put there meanwhile."""
    for path in texts:
        with suppress(OSError):
            (folder / path).unlink()
    below = {parent for path in texts for parent in Path(path).parents if parent != Path()}
    for parent in sorted(below, reverse=True):
        with suppress(OSError):
            (folder / parent).rmdir()
