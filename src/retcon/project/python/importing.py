"""Runs the project's Python files: the one place that does. Each project has a package of its own."""

from __future__ import annotations

import ast
import hashlib
import sys
from collections.abc import Callable, Iterable, Mapping
from importlib.machinery import ModuleSpec
from pathlib import Path
from threading import RLock
from types import ModuleType
from typing import Any

from retcon.core.models import Model
from retcon.errors import Problem, ProjectInvalid
from retcon.models import Udf
from retcon.project.python.functions import FUNCTIONS_FILE
from retcon.project.python.modules import Module, imports, is_of_project, module_path, read_module
from retcon.project.text_files import shown_path


class ProjectCode:
    """The functions of a project's Python files.

    Its modules are `retcon_project_….lib.fx` to Python, so that two projects in one process don't meet, and nothing
    else in the process finds them as `lib`.
    """

    def __init__(self, root: Path) -> None:
        self.root = root.absolute()
        self.package = f"retcon_project_{hashlib.sha256(str(self.root).encode()).hexdigest()[:12]}"
        self._lock = RLock()
        self._began = False

    def function(self, model: Model) -> Callable[..., Any]:
        """The function of a Python model."""
        name = ".".join(Path(model.path).with_suffix("").parts)
        found: Callable[..., Any] | None = getattr(self._module(name), str(model.function), None)
        if found is None or not callable(found):
            message = f"`{model.function}` isn't a function once the file has run"
            raise ProjectInvalid([Problem(path=model.path, message=message, remedy="don't assign to its name")])
        return found

    def udfs(self) -> Mapping[str, Udf]:
        """The functions of `functions.py`, by name."""
        declared = vars(self._module(Path(FUNCTIONS_FILE).stem))
        return {name: value for name, value in declared.items() if isinstance(value, Udf)}

    def _module(self, name: str) -> ModuleType:
        with self._lock:
            if not self._began:
                self._begin()
            return self._load(name)

    def _begin(self) -> None:
        """An empty package; what another look at the same folder left there is another version of it."""
        for name in [name for name in sys.modules if f"{name}.".startswith(f"{self.package}.")]:
            del sys.modules[name]
        self._add(self.package, None)
        self._began = True

    def _load(self, name: str) -> ModuleType:
        full = f"{self.package}.{name}"
        if full in sys.modules:
            return sys.modules[full]
        parent, _, last = name.rpartition(".")
        above = self._load(parent) if parent else sys.modules[self.package]
        if full in sys.modules:
            return sys.modules[full]  # the package's own file imported it
        path = module_path(name, self.root)
        made = self._add(full, path)
        try:
            if path is not None:
                module = read_module(path, self.root)
                for other in imports(module, self.root):
                    self._load(other)
                self._run(module, made)
        except BaseException:
            del sys.modules[full]
            raise
        setattr(above, last, made)
        return made

    def _add(self, full: str, path: Path | None) -> ModuleType:
        is_package = path is None or path.name == "__init__.py"
        made = ModuleType(full)
        made.__spec__ = ModuleSpec(full, None, origin=str(path) if path else None, is_package=is_package)
        made.__package__ = full if is_package else full.rpartition(".")[0]
        if is_package:
            made.__path__ = []
        if path is not None:
            made.__file__ = str(path)
        sys.modules[full] = made
        return made

    def _run(self, module: Module, made: ModuleType) -> None:
        tree = ast.fix_missing_locations(_Renamed(self.root, self.package).visit(ast.parse(module.text)))
        try:
            exec(compile(tree, str(module.path), "exec", dont_inherit=True), vars(made))
        except ProjectInvalid:
            raise
        except (Exception, SystemExit) as error:
            shown, line = self.place_of(error) or (module.shown, None)
            raise ProjectInvalid(
                [
                    Problem(
                        path=shown,
                        line=line,
                        message=f"importing it fails: {type(error).__name__}: {_one_line(error)}",
                        remedy="mend it; importing a file must need neither Spark nor data",
                    )
                ]
            ) from error

    def place_of(self, error: BaseException) -> tuple[str, int] | None:
        """Where in the project's own code an error came from: file and line."""
        place = None
        step = error.__traceback__
        while step is not None:
            file = Path(step.tb_frame.f_code.co_filename)
            if file.is_relative_to(self.root):
                place = (shown_path(file, self.root), step.tb_lineno)
            step = step.tb_next
        return place


def import_all(code: ProjectCode, models: Iterable[Model]) -> None:
    """Run every file that these models need, refused with the problems of all of them."""
    problems: list[Problem] = []
    for model in models:
        try:
            if model.is_python:
                code.function(model)
            if model.udfs:
                code.udfs()
        except ProjectInvalid as error:
            problems += error.problems
    if problems:
        raise ProjectInvalid(tuple(dict.fromkeys(problems)))


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split())[:300]


class _Renamed(ast.NodeTransformer):
    """Imports of the project's modules go to the project's package."""

    def __init__(self, root: Path, package: str) -> None:
        self._root = root
        self._package = package

    def visit_ImportFrom(self, node: ast.ImportFrom) -> ast.AST:
        if node.level == 0 and node.module and is_of_project(node.module, self._root):
            renamed = ast.ImportFrom(module=f"{self._package}.{node.module}", names=node.names, level=0)
            return ast.copy_location(renamed, node)
        return node

    def visit_Import(self, node: ast.Import) -> list[ast.AST]:
        return [ast.copy_location(self._one(alias), node) for alias in node.names]

    def _one(self, alias: ast.alias) -> ast.stmt:
        if not is_of_project(alias.name, self._root):
            return ast.Import(names=[alias])
        if alias.asname:
            return ast.Import(names=[ast.alias(name=f"{self._package}.{alias.name}", asname=alias.asname)])
        top = alias.name.partition(".")[0]  # what `import lib.fx` binds; its module is loaded already
        return ast.ImportFrom(module=self._package, names=[ast.alias(name=top)], level=0)
