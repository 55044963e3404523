"""YAML as plain values, with the line of every key and item."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import yaml
from yaml.constructor import ConstructorError, SafeConstructor
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode
from yaml.reader import ReaderError

from retcon.errors import Problem, ProjectInvalid

Place = tuple[str | int, ...]
"""Where in a document: keys and positions, from the outside in."""

MOST_NODES = 200_000
MOST_LEVELS = 50

_FASTEST = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""libyaml's, where PyYAML was built with it."""

_TEXT = "tag:yaml.org,2002:str"
_TRUTH = "tag:yaml.org,2002:bool"
_MERGE = "tag:yaml.org,2002:merge"
_STANDARD = "tag:yaml.org,2002:"


@dataclass(frozen=True, kw_only=True)
class YamlDocument:
    """What a YAML text says, and where it says it."""

    value: object
    lines: Mapping[Place, int]

    def line_of(self, place: Place) -> int | None:
        """The line of this place, or of the nearest one around it."""
        for length in range(len(place), -1, -1):
            if place[:length] in self.lines:
                return self.lines[place[:length]]
        return None


def read_yaml(text: str, *, path: str, first_line: int = 1) -> YamlDocument:
    """The document in this text, which starts at `first_line` of the file."""
    try:
        node = _composed(text)
        if node is None:
            return YamlDocument(value=None, lines={(): first_line})
        survey = _Survey(path=path, first_line=first_line)
        survey.visit(node, ())
        if survey.problems:
            raise ProjectInvalid(survey.problems)
        return YamlDocument(value=_PlainValues().construct_document(node), lines=survey.lines)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = first_line + mark.line if mark else None
        message, remedy = _in_words(error)
        raise ProjectInvalid([Problem(path=path, message=message, line=line, remedy=remedy)]) from None
    except ReaderError as error:
        line = first_line + text.count("\n", 0, error.position)
        raise ProjectInvalid(
            [Problem(path=path, message="a control character can't stand in YAML", line=line, remedy="remove it")]
        ) from None
    except RecursionError:
        raise ProjectInvalid([_too_much(path, first_line, "the YAML is nested too deeply")]) from None


def _composed(text: str) -> Node | None:
    """The nodes of a text. libyaml is many times as fast as PyYAML's own reader, which has the better words."""
    node: Node | None
    try:
        node = yaml.compose(text, Loader=_FASTEST)
    except yaml.YAMLError:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
    return node


class _PlainValues(SafeConstructor):
    """Safe values only; whatever can't be one is an error that knows its line."""

    def construct_object(self, node: Node, deep: bool = False) -> object:
        try:
            return super().construct_object(node, deep)
        except (ValueError, ArithmeticError, LookupError, AttributeError):
            # PyYAML takes a value for a date or a number by its form, then trips over it: 2025-02-30, !!bool maybe
            raise ConstructorError(None, None, f"there is no {node.value}", node.start_mark) from None


@dataclass
class _Survey:
    """Walks the nodes before values are built from them, since aliases can make a small text unfold without end."""

    path: str
    first_line: int
    lines: dict[Place, int] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    visited: int = 0

    def visit(self, node: Node, place: Place) -> None:
        self.visited += 1
        if self.visited > MOST_NODES or len(place) > MOST_LEVELS:
            raise ProjectInvalid([_too_much(self.path, self._line(node), "the YAML unfolds to far too many values")])
        self.lines.setdefault(place, self._line(node))
        if isinstance(node, MappingNode):
            self._visit_mapping(node, place)
        elif isinstance(node, SequenceNode):
            for position, item in enumerate(node.value):
                self.visit(item, (*place, position))

    def _visit_mapping(self, node: MappingNode, place: Place) -> None:
        first_lines: dict[str, int] = {}
        merged: list[Node] = []
        for key, value in node.value:
            line = self._line(key)
            if key.tag == _TRUTH and key.value == "on":
                key.tag = _TEXT  # YAML 1.1 takes it for true, which no key could be meant to be
            if key.tag == _MERGE:
                merged += value.value if isinstance(value, SequenceNode) else [value]
            elif not isinstance(key, ScalarNode) or key.tag != _TEXT:
                self._add(line, f"the key {_shown_key(key)} isn't text to YAML", "put it in quotes")
            elif key.value in first_lines:
                self._add(
                    line,
                    f"the key `{key.value}` stands twice, first on line {first_lines[key.value]}",
                    "keep one of them",
                )
            else:
                first_lines[key.value] = line
                self.lines.setdefault((*place, key.value), line)
                self.visit(value, (*place, key.value))
        for other in merged:  # after the mapping's own keys, which win
            self.visit(other, place)

    def _line(self, node: Node) -> int:
        return self.first_line + int(node.start_mark.line)

    def _add(self, line: int, message: str, remedy: str) -> None:
        self.problems.append(Problem(path=self.path, message=message, line=line, remedy=remedy))


def _shown_key(key: Node) -> str:
    return f"`{key.value}`" if isinstance(key, ScalarNode) else "that is a list or a mapping"


def _too_much(path: str, line: int, message: str) -> Problem:
    return Problem(path=path, message=message, line=line, remedy="write it out flat, without anchors and aliases")


def _in_words(error: yaml.MarkedYAMLError) -> tuple[str, str]:
    """PyYAML's error as a message and a remedy."""
    problem = error.problem or error.context or "it can't be read"
    if "could not determine a constructor for the tag" in problem:
        tag = problem.rpartition("tag ")[2].strip("'").replace(_STANDARD, "!!")
        return f"the tag `{tag}` isn't allowed", "write plain text, numbers, lists and mappings"
    if isinstance(error, ConstructorError):
        return problem, "correct it, or put it in quotes if it is meant as text"
    return f"this isn't valid YAML: {problem}", _remedy(error, problem)


def _remedy(error: yaml.MarkedYAMLError, problem: str) -> str:
    if r"'\t'" in problem:
        return "indent with spaces, not tabs"
    if "alias" in f"{error.context} {problem}":
        return "put text that starts with `*` or `&` in quotes"
    if "mapping values are not allowed" in problem:
        return "put text that holds `: ` in quotes, or correct the indentation"
    if "expected a single document" in f"{error.context} {problem}":
        return "keep one document in the file"
    return "check the indentation, the brackets and the quotes here and on the line above"
