"""Python files of the project, read without running them: what they import, and what of them counts."""

from __future__ import annotations

import ast
import sys
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path

from retcon.core.suggestions import did_you_mean
from retcon.errors import Problem, ProjectInvalid
from retcon.project.text_files import read_text, shown_path

MODEL_DECORATOR = "retcon.models.model"
UDF_DECORATOR = "retcon.models.udf"


@dataclass(frozen=True, kw_only=True)
class Module:
    """One file, by the name under which the rest of the project imports it."""

    name: str
    path: Path
    shown: str
    text: str
    tree: ast.Module

    @property
    def package(self) -> str:
        """What relative imports start from."""
        return self.name if self.path.name == "__init__.py" else self.name.rpartition(".")[0]

    @cached_property
    def _meanings(self) -> Mapping[str, str]:
        """What imported names stand for."""
        meanings: dict[str, str] = {}
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Import):
                for alias in node.names:
                    top = alias.name.partition(".")[0]
                    meanings[alias.asname or top] = alias.name if alias.asname else top
            elif isinstance(node, ast.ImportFrom):
                meanings |= {a.asname or a.name: f"{_base(self, node)}.{a.name}" for a in node.names if a.name != "*"}
        return meanings

    @cached_property
    def _stars(self) -> tuple[str, ...]:
        imports = (node for node in ast.walk(self.tree) if isinstance(node, ast.ImportFrom))
        return tuple(_base(self, node) for node in imports if node.names[0].name == "*")

    def meaning(self, node: ast.AST) -> str:
        """The full name of what this expression names, such as `pyspark.sql.functions.rand`; empty if it isn't one."""
        if isinstance(node, ast.Attribute):
            inner = self.meaning(node.value)
            return f"{inner}.{node.attr}" if inner else ""
        if not isinstance(node, ast.Name):
            return ""
        guess = f"{self._stars[0]}.{node.id}" if self._stars else ""
        return self._meanings.get(node.id, guess)

    def is_call_of(self, node: ast.AST, name: str) -> bool:
        return isinstance(node, ast.Call) and self.meaning(node.func) == name


def read_module(path: Path, root: Path) -> Module:
    """The module in this file, refused where it isn't Python."""
    shown = shown_path(path, root)
    text = read_text(path, root)
    if not path.resolve().is_relative_to(root.resolve()):
        raise _invalid(shown, None, "the file lies outside the project", "only code of the project folder is imported")
    parts = path.relative_to(root).with_suffix("").parts
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # whoever runs the file hears of them
            tree = ast.parse(text, filename=shown)
    except SyntaxError as error:
        raise _invalid(shown, error.lineno, f"this isn't Python: {error.msg}", "correct it") from None
    except (ValueError, RecursionError, MemoryError):
        raise _invalid(shown, None, "this isn't Python that can be read", "correct or simplify it") from None
    name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
    return Module(name=name, path=path, shown=shown, text=text, tree=tree)


def module_path(name: str, root: Path) -> Path | None:
    """The file of the project's module of this name; None for a folder without one, and for what isn't there."""
    place = root.joinpath(*name.split("."))
    candidates = (place / "__init__.py", place.with_name(f"{place.name}.py"))
    return next((path for path in candidates if path.is_file()), None)


def is_of_project(name: str, root: Path) -> bool:
    """Does the project have a file, or a folder with Python in it, of this top name?"""
    top = name.partition(".")[0]
    return bool(top) and (module_path(top, root) is not None or any((root / top).rglob("*.py")))


def closure(module: Module, root: Path) -> tuple[Module, ...]:
    """The module and every module of the project that it imports, directly or not; in the order of their names."""
    found = {module.name: module}
    ahead = [module]
    while ahead:
        for name in _with_packages(imports(ahead.pop(), root)):
            path = module_path(name, root)
            if path is not None and name not in found:
                found[name] = read_module(path, root)
                ahead.append(found[name])
    return tuple(found[name] for name in sorted(found))


def _with_packages(names: Iterator[str]) -> Iterator[str]:
    """A package's own file runs before its modules."""
    for name in names:
        parts = name.split(".")
        yield from (".".join(parts[: length + 1]) for length in range(len(parts)))


def imports(module: Module, root: Path) -> Iterator[str]:
    """The modules of the project that this one imports; refused where one isn't there or could be another's."""
    top_level = set(map(id, module.tree.body))
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = _base(module, node)
            names = [
                f"{base}.{alias.name}" if _is_there(f"{base}.{alias.name}", root) else base for alias in node.names
            ]
        else:
            continue
        for name in names:
            if is_of_project(name, root):
                _require_importable(module, node, name, root, is_at_top=id(node) in top_level)
                yield name


def _base(module: Module, node: ast.ImportFrom) -> str:
    """The module from which names are imported, spelt in full."""
    if not node.level:
        return node.module or ""
    package = module.package.split(".")
    return ".".join([*package[: len(package) - node.level + 1], *([node.module] if node.module else [])])


def _is_there(name: str, root: Path) -> bool:
    return module_path(name, root) is not None or root.joinpath(*name.split(".")).is_dir()


def _require_importable(
    module: Module, node: ast.Import | ast.ImportFrom, name: str, root: Path, *, is_at_top: bool
) -> None:
    top = name.partition(".")[0]
    if not _is_there(name, root):
        near = [path.stem for path in root.joinpath(*name.split(".")[:-1]).glob("*.py")]
        remedy = did_you_mean(name.rpartition(".")[2], near) or "correct the import"
        raise _invalid(module.shown, node.lineno, f"the project has no module `{name}`", remedy)
    if isinstance(node, ast.ImportFrom) and module_path(name, root) is None and name == _base(module, node):
        missing = node.names[0].name
        raise _invalid(module.shown, node.lineno, f"the project has no module `{name}.{missing}`", "correct the import")
    owner = _other_owner(top, root)
    if owner:
        message = f"`{top}` is a module of this project and of {owner}"
        raise _invalid(module.shown, node.lineno, message, "rename the project's")
    if not is_at_top:
        message = f"`{name}` isn't imported at the top of the file, so Spark's workers wouldn't have it"
        raise _invalid(module.shown, node.lineno, message, "move the import to the top, outside of functions and `if`")


def _other_owner(top: str, root: Path) -> str:
    """Who else has a module of this name: the project never hides it."""
    if top in sys.stdlib_module_names:
        return "Python itself"
    try:
        spec = find_spec(top)
    except (ImportError, ValueError):
        return ""
    if spec is None:
        return ""
    places = [*([spec.origin] if spec.origin else []), *(spec.submodule_search_locations or ())]
    outside = [place for place in places if not Path(place).resolve().is_relative_to(root.resolve())]
    return "an installed package" if outside else ""


def normalised(module: Module) -> str:
    """The module's tree as text: positions, comments, layout, docstrings and what `@model` says don't count.

    Not `ast.dump`: what that leaves out differs from one Python to the next.
    """
    pieces: list[str] = []
    ahead: list[object] = [module.tree]
    while ahead:
        match ahead.pop():
            case _Text(text):
                pieces.append(text)
            case ast.AST() as node:
                pieces.append(f"({type(node).__name__}")
                ahead.append(_Text(")"))
                for name, value in reversed(list(_counting_fields(module, node))):
                    ahead += [value, _Text(f" {name}=")]
            case list() as items:
                pieces.append("[")
                ahead += [_Text("]"), *reversed(items)]
            case value:
                pieces.append(f"{type(value).__name__} {value!r},")
    return "".join(pieces)


@dataclass(frozen=True)
class _Text:
    text: str


def _counting_fields(module: Module, node: ast.AST) -> Iterator[tuple[str, object]]:
    for name, value in ast.iter_fields(node):
        kept = value
        if name == "body" and isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            kept = value[1:] if ast.get_docstring(node, clean=False) is not None else value
        elif name == "decorator_list":
            kept = [each for each in value if not module.is_call_of(each, MODEL_DECORATOR)]
        if kept is not None and kept != [] and not (isinstance(node, ast.Constant) and name == "kind"):
            yield name, kept


def _invalid(shown: str, line: int | None, message: str, remedy: str) -> ProjectInvalid:
    return ProjectInvalid([Problem(path=shown, line=line, message=message, remedy=remedy)])
