"""The project's own functions: `functions.py`, read without running it."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from pathlib import Path

from retcon.errors import Problem, ProjectInvalid
from retcon.project.python.lints import hidden_reads, variations
from retcon.project.python.modules import UDF_DECORATOR, Module, closure, normalised, read_module
from retcon.values import dataclass

FUNCTIONS_FILE = "functions.py"


@dataclass(frozen=True, kw_only=True)
class Functions:
    """The functions that SQL may call by name, and the code behind them."""

    names: tuple[str, ...] = ()
    modules: tuple[Module, ...] = ()

    @property
    def code(self) -> dict[str, str]:
        return {module.name: normalised(module) for module in self.modules}

    @property
    def varying(self) -> tuple[Problem, ...]:
        """Problems for those who call a function here and must not vary."""
        return tuple(problem for module in self.modules for problem in variations(module))

    def called(self, names: frozenset[str]) -> tuple[str, ...]:
        """Which of the functions stand among these names; Spark doesn't tell case apart."""
        return tuple(name for name in self.names if name.lower() in names)


def read_functions(root: Path, is_built_in: Callable[[str], bool]) -> Functions:
    """What `functions.py` declares by `@udf(…)`; nothing where there is no such file."""
    path = root / FUNCTIONS_FILE
    if not path.is_file():
        return Functions()
    module = read_module(path, root)
    declared = [node for node in module.tree.body if _udf_call(module, node) is not None]
    names = [getattr(node, "name", "") for node in declared]
    modules = closure(module, root)
    problems = [*_problems(module, declared, is_built_in), *(p for each in modules for p in hidden_reads(each))]
    if problems:
        raise ProjectInvalid(problems)
    return Functions(names=tuple(names), modules=modules)


def _udf_call(module: Module, node: ast.stmt) -> ast.expr | None:
    decorators = node.decorator_list if isinstance(node, ast.FunctionDef) else []
    wanted = (d for d in decorators if module.meaning(d.func if isinstance(d, ast.Call) else d) == UDF_DECORATOR)
    return next(wanted, None)


def _problems(module: Module, declared: list[ast.stmt], is_built_in: Callable[[str], bool]) -> Iterator[Problem]:
    seen: set[str] = set()
    for node in declared:
        name, call = getattr(node, "name", ""), _udf_call(module, node)
        has_type = isinstance(call, ast.Call) and len(call.args) == 1 and isinstance(call.args[0], ast.Constant)
        if not has_type:
            yield Problem(
                path=module.shown,
                line=node.lineno,
                message=f"`@udf` on {name} needs the Spark type that it returns",
                remedy='write `@udf("DECIMAL(14,2)")`, say',
            )
        if is_built_in(name) or name.lower() in seen:
            other = "Spark SQL" if is_built_in(name) else "this file, but for its spelling"
            yield Problem(
                path=module.shown,
                line=node.lineno,
                message=f"`{name}` is already a function of {other}",
                remedy="give it a name of its own",
            )
        seen.add(name.lower())
