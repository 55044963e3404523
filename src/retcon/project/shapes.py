"""Shapes of documents: pydantic checks them, and what it objects to becomes problems in words."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import date
from types import NoneType, UnionType
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, ValidationError, model_validator
from pydantic_core import ErrorDetails

from retcon.core.suggestions import did_you_mean
from retcon.errors import Problem, ProjectInvalid
from retcon.project import names
from retcon.project.yaml_text import Place, YamlDocument

S = TypeVar("S", bound="Shape")
T = TypeVar("T")


class Objection(ValueError):
    """What is wrong with the value of a key. The text goes on from the key's name: "must be …"."""

    def __init__(self, text: str, *, remedy: str = "") -> None:
        super().__init__(text)
        self.remedy = remedy


class NotYet(ValueError):
    """A key, or this value of it, that the design knows and this version doesn't."""

    def __init__(self, value: str = "", *, remedy: str = "") -> None:
        super().__init__(value)
        self.value = value
        self.remedy = remedy


class Shape(BaseModel):
    """A mapping with known keys. A key without a value (`gates:` and nothing below) counts as absent."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, defer_build=True)

    @model_validator(mode="before")
    @classmethod
    def _nothing_is_absent(cls, value: object) -> object:
        return {key: item for key, item in value.items() if item is not None} if isinstance(value, dict) else value


def later(remedy: str = "") -> BeforeValidator:
    """Marks a key that is refused by name until it is built."""

    def refuse(_: object) -> object:
        raise NotYet(remedy=remedy)

    return BeforeValidator(refuse)


def one_of(*allowed: str, later: Mapping[str, str] | None = None) -> BeforeValidator:
    """Marks a key with a choice of words; `later` holds those that aren't built yet, with a remedy for each."""
    not_yet = later or {}

    def check(value: object) -> object:
        if value in allowed:
            return value
        if isinstance(value, str) and value in not_yet:
            raise NotYet(value, remedy=not_yet[value])
        choice = " or ".join(f"`{word}`" for word in allowed)
        hint = did_you_mean(value, (*allowed, *not_yet)) if isinstance(value, str) else ""
        raise Objection(f"must be {choice}", remedy=hint)

    return BeforeValidator(check)


def as_option(value: object) -> object:
    """An option of Iceberg or Spark, which take everything as text."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return str(value)
    if not isinstance(value, str):
        raise Objection("must be text, a number, or true or false")
    return value


Option = Annotated[str, BeforeValidator(as_option)]


def or_empty(value: object) -> object:
    """A name with nothing behind it (`raw.orders:`) declares it with every default."""
    return {} if value is None else value


def no_items() -> list[Any]:
    """A default. Of Python's own `list` pydantic would have to parse a text to know how it is called, for which Python
    compiles its tokenizer.
    """
    return []


def _each_once(items: list[str]) -> list[str]:
    twice = next((item for position, item in enumerate(items) if item in items[:position]), None)
    if twice is not None:
        raise ValueError(f"names `{twice}` twice")
    return items


Text = Annotated[str, AfterValidator(names.plain_text)]
TableName = Annotated[str, AfterValidator(names.table)]
Texts = Annotated[list[Text], AfterValidator(_each_once)]


@dataclass
class Problems:
    """The problems of one file, at most one for each place: what follows from it needn't be told."""

    path: str
    document: YamlDocument
    found: list[Problem] = field(default_factory=list)
    _places: set[Place] = field(default_factory=set)

    def add(self, at: Place, message: str, *, remedy: str = "") -> None:
        """A problem at a place of the document."""
        if at not in self._places:
            self._places.add(at)
            self.add_at_line(self.document.line_of(at), message, remedy=remedy)

    def add_at_line(self, line: int | None, message: str, *, remedy: str = "") -> None:
        """A problem outside the document, by its line in the file."""
        self.found.append(Problem(path=self.path, message=message, line=line, remedy=remedy))

    def object_to(self, at: Place, error: ValueError) -> None:
        """A value that a reader objected to."""
        remedy = error.remedy if isinstance(error, Objection | NotYet) else ""
        if isinstance(error, NotYet):
            shown = f"{_dotted(at)}: {error.value}" if error.value else _dotted(at)
            self.add(at, f"`{shown}` isn't supported yet", remedy=remedy)
        else:
            self.add(at, f"{_named(at)} {error}", remedy=remedy)

    def taken(self, at: Place, make: Callable[[], T]) -> T | None:
        """What `make` makes of the value at this place, or None and a problem."""
        try:
            return make()
        except ValueError as error:
            self.object_to(at, error)
            return None

    def error(self) -> ProjectInvalid:
        """All of them, in the order of the file."""
        return ProjectInvalid(sorted(self.found, key=lambda problem: problem.line or 0))


def read_shape(shape: type[S], value: object, problems: Problems, at: Place = ()) -> S | None:
    """The value in this shape, or None and a problem for everything that doesn't fit."""
    try:
        return shape.model_validate(value)
    except ValidationError as error:
        for details in error.errors(include_url=False):
            _explain(shape, details, problems, at)
        return None


_NOUNS = {
    "string_type": "text",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "bool_type": "true or false",
    "list_type": "a list",
    "dict_type": "a mapping of `key: value`",
    "model_type": "a mapping of `key: value`",
}


def _explain(shape: type[Shape], details: ErrorDetails, problems: Problems, at: Place) -> None:
    inner = tuple(step for step in details["loc"] if step != "[key]")
    place = (*at, *inner)
    context = details.get("ctx", {})
    match details["type"]:
        case "value_error":
            problems.object_to(place, context["error"])
        case "extra_forbidden":
            known = _known_keys(shape, inner[:-1])
            hint = did_you_mean(str(inner[-1]), known)
            remedy = "" if hint else f"the keys here are: {', '.join(known)}"
            problems.add(place, f"unknown key `{_dotted(place)}`" + (f" — {hint}" if hint else ""), remedy=remedy)
        case "missing":
            problems.add(place, f"the key `{_dotted(place)}` is missing")
        case "greater_than_equal":
            problems.add(place, f"{_named(place)} must be at least {context['ge']}")
        case kind:
            _explain_type(_NOUNS.get(kind, "something else"), details["input"], problems, place)


def _explain_type(noun: str, value: object, problems: Problems, place: Place) -> None:
    remedy = ""
    if noun == "text" and isinstance(value, bool | int | float | date):
        remedy = "put it in quotes"
    elif noun == "a list" and isinstance(value, str):
        remedy = "write it in brackets: [a, b]"
    problems.add(place, f"{_named(place)} must be {noun}, not {_kind(value)}", remedy=remedy)


def _kind(value: object) -> str:
    kinds: list[tuple[type | UnionType, str]] = [
        (NoneType, "nothing"),
        (bool, "true or false"),
        (int | float, "a number"),
        (str, "text"),
        (date, "a date"),
        (list, "a list"),
        (dict, "a mapping"),
    ]
    return next((word for kind, word in kinds if isinstance(value, kind)), "something else")


def _dotted(place: Place) -> str:
    return ".".join(step for step in place if isinstance(step, str))


def _named(place: Place) -> str:
    if not place:
        return "the document"
    if isinstance(place[-1], int):
        return f"item {place[-1] + 1} of `{_dotted(place)}`"
    return f"`{_dotted(place)}`"


def _known_keys(shape: type[Shape], inner: Place) -> list[str]:
    """The keys that may stand at this place of the shape."""
    kind: Any = shape
    for step in inner:
        kind = _inside(kind, step)
    known: type[Shape] = _unwrapped(kind)
    return [f.alias or name for name, f in known.model_fields.items()]


def _inside(kind: Any, step: str | int) -> Any:
    kind = _unwrapped(kind)
    if isinstance(kind, type) and issubclass(kind, Shape):
        return next(f.annotation for name, f in kind.model_fields.items() if (f.alias or name) == step)
    return get_args(kind)[-1]


def _unwrapped(kind: Any) -> Any:
    """`Annotated[X, …]` and `X | None` as X."""
    while get_origin(kind) in (Annotated, Union, UnionType):
        kind = get_args(kind)[0]
    return kind
