"""A project from its folder: settings, models, and whether they fit together."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import TypeVar

from retcon.core.environments import clashes
from retcon.core.graphs import Graph
from retcon.core.models import Model
from retcon.core.projects import Project, Settings
from retcon.core.suggestions import did_you_mean
from retcon.errors import Problem, ProjectInvalid, Refused
from retcon.project.model_files import MODELS_FOLDER, KnownNames, SqlReader, model_name, read_model
from retcon.project.python.functions import Functions, read_functions
from retcon.project.settings import SETTINGS_FILE, settings_document, settings_of
from retcon.project.text_files import shown_path
from retcon.project.yaml_text import YamlDocument

T = TypeVar("T")
_UTC = ("UTC", "ETC/UTC", "GMT", "Z")


def find_root(start: Path) -> Path:
    """The nearest folder with a `retcon.yaml`, from here upwards."""
    here = start.absolute()
    for folder in (here, *here.parents):
        if (folder / SETTINGS_FILE).is_file():
            return folder
    raise Refused(
        f"there is no {SETTINGS_FILE} in {here} or in a folder above it",
        next="run `retcon init DIR`, or pass --project with the project's folder",
    )


def load_project(root: Path, environ: Mapping[str, str], reader: SqlReader | None) -> Project:
    """The project in this folder, refused with the problems of all its files at once.

    Without a reader no query or function is looked at: enough to tell which models there are, and fast for any number
    of them. Nothing of the project is run, with or without.
    """
    root = root.absolute()
    document = settings_document(root)
    problems: list[Problem] = []
    paths = _named_paths(root, problems)
    settings = _collected(problems, partial(settings_of, document, root, environ))
    known = KnownNames(
        models=paths,
        params=_declared(document, "params"),
        consumers=_declared(document, "consumers"),
        functions=_functions(root, reader, problems),
        in_utc=settings is not None and settings.timezone.upper() in _UTC,
    )
    read = [_collected(problems, partial(read_model, path, root, known, reader)) for path in paths.values()]
    models = [model for model in read if model is not None]
    problems += _models_as_sources(document, paths)
    if settings is not None:
        problems += _clashing_environments(document, settings, paths, models)
        problems += _past_of_foreign_sources(settings, models)
        problems += _hooks_of_nobody(document, settings, paths)
    if settings is None or problems:
        raise ProjectInvalid(tuple(dict.fromkeys(problems)))  # what two models import is told once
    return Project(settings=settings, graph=Graph.of(models))


def _functions(root: Path, reader: SqlReader | None, problems: list[Problem]) -> Functions:
    """The project's own functions; nobody asks for them where no code is looked at."""
    if reader is None:
        return Functions()
    return _collected(problems, partial(read_functions, root, reader.is_built_in)) or Functions()


def _collected(problems: list[Problem], make: Callable[[], T]) -> T | None:
    try:
        return make()
    except ProjectInvalid as error:
        problems += error.problems
        return None


def _named_paths(root: Path, problems: list[Problem]) -> dict[str, Path]:
    """The model files by the model's name."""
    named: dict[str, Path] = {}
    spelt: dict[str, Path] = {}
    for path in _model_paths(root):
        name = _collected(problems, partial(model_name, path, root))
        if name is None:
            continue
        # on file systems that don't tell case apart, two such tables would share one folder of the warehouse
        twin = spelt.setdefault(name.casefold(), path)
        if twin is not path:
            problems.append(
                Problem(
                    path=shown_path(path, root),
                    message=f"the model `{name}` has the same name as {shown_path(twin, root)}",
                    remedy="rename one of them",
                )
            )
            continue
        named[name] = path
    return named


def _model_paths(root: Path) -> list[Path]:
    """SQL and Python files below `models/`; what is hidden belongs to editors and file systems, and Python files
    whose name begins with `_` to the models that import them.
    """
    folder = root / MODELS_FOLDER
    return sorted(
        path
        for path in folder.rglob("*")
        if path.suffix.lower() in (".sql", ".py")
        and not path.is_dir()
        and not (path.suffix.lower() == ".py" and path.name.startswith("_"))
        and not any(part.startswith(".") for part in path.relative_to(folder).parts)
    )


def _declared(document: YamlDocument, key: str) -> frozenset[str]:
    """The names under a key of `retcon.yaml`, known even where the rest of it has problems."""
    value = document.value.get(key) if isinstance(document.value, dict) else None
    return frozenset(value) if isinstance(value, dict) else frozenset()


def _models_as_sources(document: YamlDocument, models: Iterable[str]) -> list[Problem]:
    return [
        Problem(
            path=SETTINGS_FILE,
            message=f"`{name}` is a model of this project, not a source",
            line=document.line_of(("sources", name)),
            remedy="remove it from `sources`",
        )
        for name in sorted(_declared(document, "sources") & set(models))
    ]


def _past_of_foreign_sources(settings: Settings, models: Iterable[Model]) -> list[Problem]:
    return [
        Problem(
            path=model.path,
            message=f"`inputs.{i.name}` is read as it was at each slice's end, and only Iceberg tables keep their past",
            remedy="leave `as_of` out, or copy the source into an Iceberg table and read that",
        )
        for model in models
        for i in model.inputs
        if i.at_slice_end and i.table in settings.foreign
    ]


def _hooks_of_nobody(document: YamlDocument, settings: Settings, models: Collection[str]) -> list[Problem]:
    return [
        Problem(
            path=SETTINGS_FILE,
            message=f"`watermark_hooks.{hook.name}.models` names `{name}`, which is no model of this project",
            line=document.line_of(("watermark_hooks", hook.name, "models", position)),
            remedy=did_you_mean(name, models) or "`retcon check` lists the models",
        )
        for hook in settings.hooks.values()
        for position, name in enumerate(hook.models)
        if name not in models
    ]


def _clashing_environments(
    document: YamlDocument, settings: Settings, names: Collection[str], models: Iterable[Model]
) -> list[Problem]:
    read = {i.table for model in models for i in model.inputs} | set(settings.sources)
    return [
        Problem(
            path=SETTINGS_FILE,
            message=f"the environment `{environment}` {why}",
            line=document.line_of(("environments", environment)),
            remedy="choose another `prefix`",
        )
        for environment, why in clashes(settings.environments, names, sorted(read - set(names)))
    ]
