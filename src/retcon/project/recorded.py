"""Models as a run's record has them: their files once more, in a folder of their own.

Beside them stands the project's other Python as it is today. Whether that is what the run had, and whether the record
was read rightly, the fingerprint in the plan tells.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from retcon.core.models import Model
from retcon.core.plans import Plan, PlannedModel
from retcon.errors import ProjectInvalid
from retcon.project import queries
from retcon.project.model_files import MODELS_FOLDER, KnownNames, read_model
from retcon.project.python.declarations import read_declaration
from retcon.project.python.functions import Functions, read_functions
from retcon.project.python.modules import read_module
from retcon.project.yaml_text import read_yaml
from retcon.values import dataclass

_UTC = ("UTC", "ETC/UTC", "GMT", "Z")


@dataclass(frozen=True, kw_only=True)
class Recorded:
    """What the event that opened a run has of its code."""

    code: Mapping[str, str]
    keys: Mapping[str, str] | None
    """Of SQL models, as written; None: the run was opened before they were recorded."""
    params: Mapping[str, object]


def recorded_models(
    plan: Plan, recorded: Recorded, today: Mapping[str, Model], prefix: str, root: Path, folder: Path
) -> tuple[dict[str, Model], dict[str, str]]:
    """The models of a plan from its run's record, read in this folder; and of the others, why they can't be had."""
    _copy_python(root, folder)
    models: dict[str, Model] = {}
    lacking: dict[str, str] = {}
    for planned in plan.models:
        code, now = recorded.code.get(planned.name), today.get(planned.name)
        if code is None:
            lacking[planned.name] = "its code isn't on record: the run was rebuilt from its tables"
            continue
        if recorded.keys is None and now is None:
            lacking[planned.name] = "its keys aren't on record, and the project doesn't have it any more"
            continue
        keys = _keys_of(planned.name, recorded, now)
        path = _written(planned.name.removeprefix(prefix), code, keys, folder)
        try:
            model = read_model(path, folder, _known(path, folder, keys, plan, recorded), queries)
        except ProjectInvalid as error:
            lacking[planned.name] = f"its code on record can't be read: {error.message}"
            continue
        if model.fingerprint != planned.fingerprint:
            lacking[planned.name] = _why_other(model, is_recorded=recorded.keys is not None)
            continue
        models[planned.name] = _named(model, planned)
    return models, lacking


def _keys_of(name: str, recorded: Recorded, now: Model | None) -> str | None:
    """The keys of a SQL model, on record or else as they are today; None for Python, whose keys stand in its code."""
    if recorded.keys is not None:
        return recorded.keys.get(name)
    return None if now is None or now.is_python else now.keys_text


def _copy_python(root: Path, folder: Path) -> None:
    """What models may import; their own files come from the record."""
    for at, folders, names in os.walk(root):
        here = Path(at)
        is_top = here == root
        folders[:] = [
            each
            for each in folders
            if not each.startswith((".", "__")) and not (is_top and each == MODELS_FOLDER) and not _is_venv(here / each)
        ]
        for name in (name for name in names if name.endswith(".py")):
            copy = folder / here.relative_to(root) / name
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(here / name, copy)


def _is_venv(folder: Path) -> bool:
    return (folder / "pyvenv.cfg").exists()


def _written(name: str, code: str, keys: str | None, folder: Path) -> Path:
    namespace, _, table = name.partition(".")
    suffix, text = (".py", code) if keys is None else (".sql", f"/* retcon\n{keys}*/\n{code}")
    path = folder / MODELS_FOLDER / namespace / f"{table}{suffix}"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def _known(path: Path, folder: Path, keys: str | None, plan: Plan, recorded: Recorded) -> KnownNames:
    """Whatever the model names was there when the run was opened."""
    if keys is None:
        name = f"{path.parent.name}.{path.stem}"
        document = read_declaration(read_module(path, folder), name).document
    else:
        document = read_yaml(keys, path=path.name, first_line=1)
    value = document.value if isinstance(document.value, dict) else {}
    return KnownNames(
        models=value.get("after") or (),
        params=frozenset(recorded.params),
        consumers=value.get("consumers") or (),
        functions=_functions(folder),
        in_utc=plan.timezone.upper() in _UTC,
    )


def _functions(folder: Path) -> Functions:
    return read_functions(folder, queries.is_built_in)


def _why_other(model: Model, *, is_recorded: bool) -> str:
    if model.is_python:
        return "it is Python, and project files that it imports aren't what they were: only its own file is on record"
    if model.udfs:
        return f"it calls {', '.join(model.udfs)}, and functions.py isn't what it was: that isn't on record"
    if not is_recorded:
        return "its keys aren't on record, and the project's aren't what they were"
    return "its code on record isn't what the plan has the fingerprint of"


def _named(model: Model, planned: PlannedModel) -> Model:
    """With the names of the environment in which the run was."""
    tables = {i.name: planned.input(i.name).table for i in model.inputs}
    inputs = (
        i if tables[i.name] == i.table else replace(i, table=tables[i.name], written=i.table) for i in model.inputs
    )
    return replace(model, name=planned.name, inputs=tuple(inputs))
