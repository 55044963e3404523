"""What `@model(…)` says: read in the text, as the block of a SQL file is, so that nothing has to run for it."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import fields
from datetime import date

from retcon import models as authoring
from retcon.core.models import Input
from retcon.core.suggestions import did_you_mean
from retcon.errors import Problem, ProjectInvalid
from retcon.project.python.modules import MODEL_DECORATOR, Module
from retcon.project.shapes import Problems
from retcon.project.yaml_text import Place, YamlDocument
from retcon.values import dataclass

RUN = "run"
"""The argument that takes no input, but the bounds of what is computed."""

_PARTS = {
    f"retcon.models.{part.__name__}": part
    for part in (
        authoring.Input,
        authoring.Hour,
        authoring.Day,
        authoring.Week,
        authoring.Month,
        authoring.Year,
        authoring.Buckets,
    )
}
_FORM = 'write `@model("NAMESPACE.NAME", slices=Day("…"), inputs={…})` on the function that computes the table'
_RUN_FIELDS = tuple(field.name for field in fields(authoring.Run))


@dataclass(frozen=True, kw_only=True)
class Declaration:
    """The function of a model's file, and the keys that its decorator gives."""

    function: ast.FunctionDef
    document: YamlDocument


def read_declaration(module: Module, name: str) -> Declaration:
    """The one model in the file, which must have the name that the file gives it."""
    found = [(node, call) for node in module.tree.body for call in _decorators(module, node)]
    if not found:
        raise _invalid(
            module, 1, "no function of this file has `@model(…)`", f"{_FORM}; begin the name of another file with `_`"
        )
    if len(found) > 1:
        raise _invalid(module, found[1][1].lineno, "a file holds one model", "move this one to a file of its own")
    [(function, call)] = found
    if not isinstance(function, ast.FunctionDef):
        raise _invalid(module, call.lineno, "`@model` stands on something else than a function", _FORM)
    if not isinstance(call, ast.Call) or not call.args:
        raise _invalid(module, call.lineno, "`@model` needs the model's name", _FORM)
    reader = _Reader(module)
    given = reader.value(call.args[0], ("name",))
    if given != name or len(call.args) > 1:
        raise _invalid(
            module, call.lineno, "`@model` must be given the name that the file has", f'write `@model("{name}", …)`'
        )
    keys = reader.keywords(call, ())
    if "sliceable" in keys:
        _move_sliceable(module, call, keys, reader.lines)
    reader.lines[()] = call.lineno
    return Declaration(function=function, document=YamlDocument(value=keys, lines=reader.lines))


def _decorators(module: Module, node: ast.stmt) -> Iterator[ast.expr]:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        for each in node.decorator_list:
            if module.meaning(each.func if isinstance(each, ast.Call) else each) == MODEL_DECORATOR:
                yield each


def _move_sliceable(module: Module, call: ast.Call, keys: dict[str, object], lines: dict[Place, int]) -> None:
    """`sliceable=True` is `replay={"sliceable": True}`."""
    replay = keys.setdefault("replay", {})
    if not isinstance(replay, dict) or "sliceable" in replay:
        raise _invalid(module, lines[("sliceable",)], "`sliceable` stands twice", "keep one of them")
    replay["sliceable"] = keys.pop("sliceable")
    lines.setdefault(("replay",), call.lineno)
    lines["replay", "sliceable"] = lines.pop(("sliceable",))


class _Reader:
    """Values that are written out, with the line of each."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self.lines: dict[Place, int] = {}

    def value(self, node: ast.expr, place: Place) -> object:
        self.lines.setdefault(place, node.lineno)
        match node:
            case ast.Constant(value=None | bool() | int() | float() | str()):
                return node.value
            case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as number)):
                return -number
            case ast.List() | ast.Tuple():
                return [self.value(item, (*place, position)) for position, item in enumerate(node.elts)]
            case ast.Dict():
                return self._mapping(node, place)
            case ast.Call():
                return self._part(node, place)
        raise self._not_written_out(node, place)

    def keywords(self, call: ast.Call, place: Place) -> dict[str, object]:
        """The call's keywords, of any names: whether they mean something is for the shape of the keys to say."""
        values: dict[str, object] = {}
        for keyword in call.keywords:
            if keyword.arg is None:
                raise self._not_written_out(keyword.value, place)
            self.lines[(*place, keyword.arg)] = keyword.lineno
            values[keyword.arg] = self.value(keyword.value, (*place, keyword.arg))
        return values

    def _mapping(self, node: ast.Dict, place: Place) -> dict[str, object]:
        values: dict[str, object] = {}
        for key, item in zip(node.keys, node.values, strict=True):
            if not isinstance(key, ast.Constant) or not isinstance(key.value, str):
                raise self._not_written_out(key or item, place)
            if key.value in values:
                raise _invalid(self._module, key.lineno, f"the key `{key.value}` stands twice", "keep one of them")
            self.lines[(*place, key.value)] = key.lineno
            values[key.value] = self.value(item, (*place, key.value))
        return values

    def _part(self, node: ast.Call, place: Place) -> object:
        meaning = self._module.meaning(node.func)
        if meaning == "datetime.date":
            return self._called(date, node, place)
        if meaning in _PARTS:
            return self._called(_PARTS[meaning], node, place)
        raise self._not_written_out(node, place)

    def _called(self, part: object, node: ast.Call, place: Place) -> object:
        values = [self.value(argument, place) for argument in node.args]
        keywords = self.keywords(node, place)
        try:
            return part(*values, **keywords)  # type: ignore[operator] # one of _PARTS, or date
        except (TypeError, ValueError) as error:
            raise _invalid(self._module, node.lineno, str(error), "correct the call") from None

    def _not_written_out(self, node: ast.expr, place: Place) -> ProjectInvalid:
        where = f"`{'.'.join(map(str, place))}`" if place else "what `@model` is given"
        return _invalid(
            self._module,
            node.lineno,
            f"{where} isn't written out: the decorator is read, not run",
            "write text, numbers, lists, mappings, and Day(…), Input(…) and their kin",
        )


def check_arguments(declaration: Declaration, inputs: Sequence[Input], problems: Problems) -> None:
    """One argument per input, by its name; and `run`, if it is wanted."""
    given = declaration.function.args
    named = [argument.arg for argument in (*given.args, *given.kwonlyargs)]
    line = declaration.function.lineno
    if given.vararg or given.kwarg or given.posonlyargs:
        problems.add_at_line(line, "`*`, `**` and `/` can't stand here", remedy="name an argument for each input")
    for i in inputs:
        if not i.name.isidentifier() or i.name == RUN:
            remedy = f'give it a name of its own: inputs={{"orders": Input("{i.table}", …)}}'
            problems.add(("inputs", i.name), f"an argument can't be called `{i.name}`", remedy=remedy)
        elif i.name not in named:
            message = f"the function {declaration.function.name} has no argument for the input `{i.name}`"
            problems.add_at_line(line, message, remedy=f"add the argument `{i.name}`, or remove the input")
    known = [i.name for i in inputs]
    for argument in named:
        if argument not in known and argument != RUN:
            remedy = did_you_mean(argument, known) or "declare it under `inputs`, or remove the argument"
            problems.add_at_line(line, f"no input is called `{argument}`", remedy=remedy)


def bound_by(declaration: Declaration, params: Sequence[str], problems: Problems) -> frozenset[str]:
    """Which bounds and parameters the function takes from `run`: all of them, where it hands `run` on."""
    function = declaration.function
    if RUN not in {argument.arg for argument in (*function.args.args, *function.args.kwonlyargs)}:
        return frozenset()
    taken = [n for n in ast.walk(function) if isinstance(n, ast.Attribute) and _is_run(n.value)]
    for node in taken:
        if node.attr not in _RUN_FIELDS:
            remedy = did_you_mean(node.attr, _RUN_FIELDS) or f"it has {', '.join(_RUN_FIELDS)}"
            problems.add_at_line(node.lineno, f"`run` has no `{node.attr}`", remedy=remedy)
    mentions = sum(_is_run(node) for node in ast.walk(function))
    names = {node.attr for node in taken} if mentions == len(taken) else set(_RUN_FIELDS)
    return frozenset((names - {"params"}) | (set(params) if "params" in names else set()))


def _is_run(node: ast.AST) -> bool:
    return isinstance(node, ast.Name) and node.id == RUN


def _invalid(module: Module, line: int, message: str, remedy: str) -> ProjectInvalid:
    return ProjectInvalid([Problem(path=module.shown, line=line, message=message, remedy=remedy)])
