"""What a job runs: the author's text, with everything that retcon puts around it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import date, datetime

from rich.text import Text

from retcon.cli.figures import counted, slices
from retcon.cli.views.parts import QUIET, WARN
from retcon.core.models import Input, Model
from retcon.core.projects import Source
from retcon.core.promises import promise_of
from retcon.core.queries import quoted, quoted_name, text_literal
from retcon.core.reads import Read
from retcon.core.slices import SliceSet
from retcon.values import dataclass

_BOUNDS = ("start_date", "end_date", "start_ts", "end_ts", "run_ts")


@dataclass(frozen=True, kw_only=True)
class RenderedInput:
    """One input as a job reads it."""

    input: Input
    read: Read
    view: str
    filter: str | None
    """None: read whole."""
    exists: bool
    is_model: bool
    source: Source | None = None
    """Where it isn't an Iceberg table."""


@dataclass(frozen=True, kw_only=True)
class Rendering:
    """The first job of a range."""

    model: Model
    catalog: str
    jobs: tuple[SliceSet, ...]
    inputs: tuple[RenderedInput, ...]
    text: str
    parameters: Mapping[str, object]
    output_filter: str | None
    """Where more is read than the job's slices, its result is cut down to them."""

    @property
    def slices(self) -> SliceSet:
        return self.jobs[0]


def rendering_text(rendering: Rendering) -> Text:
    """The views, the bound values, then the author's text over the views."""
    lines: list[Text] = [*_head(rendering), Text()]
    for number, each in enumerate(rendering.inputs):
        lines += ([Text()] if number else []) + list(_view(each, rendering.catalog))
    lines.append(Text())
    for key, value in sorted(rendering.parameters.items()):
        note = ", the moment when staging begins" if key == "run_ts" else ""
        lines.append(_comment(f"bound: {_bound_name(rendering.model, key)} = {sql_value(value)}{note}"))
    if rendering.output_filter is not None:
        lines.append(_comment(f"more is read than is written: of the result, {rendering.output_filter} is kept"))
    if rendering.model.is_python:
        frames = ", ".join(f"{each.input.name}={each.view}" for each in rendering.inputs)
        lines.append(_comment(f"{rendering.model.function} of {rendering.model.path} is called with {frames}"))
    lines.append(Text(rendering.text.strip()))
    return Text("\n").join(lines)


def _bound_name(model: Model, key: str) -> str:
    if not model.is_python:
        return f":{key}"
    return f"run.{key}" if key in _BOUNDS else f'run.params["{key}"]'


def _head(rendering: Rendering) -> Iterator[Text]:
    model, first = rendering.model, rendering.slices
    yield _comment(f"{model.name}: {slices(first)} ({counted(len(first), 'slice')})")
    if len(rendering.jobs) > 1:
        why = f", slice by slice: {'; '.join(model.one_by_one)}" if model.one_by_one else ""
        yield _comment(f"the first of {counted(len(rendering.jobs), 'job')}{why}")


def _view(each: RenderedInput, catalog: str) -> Iterator[Text]:
    if each.source is not None:
        yield _comment(f"{each.source.name} ({each.source.format}): {promise_of(each.source)}")
    elif each.read.snapshot_id is None:
        missing = "has no snapshot yet" if each.exists else "isn't in the catalog yet"
        remedy = "; planned together, it is read from the run's own branch" if each.is_model else ""
        yield _comment(f"{each.read.table} {missing}{remedy}", style=WARN)
    elif each.is_model:
        yield _comment(f"{each.read.table} as published; restated by the same plan, from the run's own branch")
    version = "" if each.read.snapshot_id is None else f" VERSION AS OF {each.read.snapshot_id}"
    table = quoted_name(each.read.table if each.source is not None else f"{catalog}.{each.read.table}")
    yield Text(f"CREATE TEMPORARY VIEW {quoted(each.view)} AS")
    yield Text(f"SELECT * FROM {table}{version}" + (";" if each.filter is None else ""))
    if each.filter is not None:
        yield Text(f"WHERE {each.filter};")


def _comment(text: str, style: str = QUIET) -> Text:
    return Text("-- " + " ".join(text.split()), style=style)


def sql_value(value: object) -> str:
    """A bound value as a literal, for reading."""
    match value:
        case bool():
            return "true" if value else "false"
        case datetime():
            return f"TIMESTAMP '{value:%Y-%m-%d %H:%M:%S} UTC'"
        case date():
            return f"DATE '{value}'"
        case str():
            return text_literal(value)
        case _:
            return str(value)
