"""Projects and models, as their files declare them."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import RenderableType
from rich.text import Text

from retcon.cli.figures import NONE, counted
from retcon.cli.views.parts import (
    QUIET,
    STRONG,
    WARN,
    bullets,
    command,
    facts,
    indented,
    name,
    prose,
    section,
    stack,
    table,
    title,
)
from retcon.core.models import Input, Model, Order, Strategy, reach_text
from retcon.core.projects import Project, Source
from retcon.core.promises import promise_of, seen_of
from retcon.core.schedules import Kind, schedules_of
from retcon.core.slices import Buckets, Cut
from retcon.values import dataclass

if TYPE_CHECKING:
    from retcon.lakehouse.samples import Samples


@dataclass(frozen=True, kw_only=True)
class CheckReport:
    """A project without problems."""

    project: Project
    models: tuple[Model, ...]
    """Those that were asked for, in running order."""
    notes: tuple[str, ...] = ()
    """What is declared and has no effect."""

    @property
    def foreign(self) -> tuple[Source, ...]:
        """The sources that these models read and that aren't Iceberg."""
        read = {i.table for model in self.models for i in model.inputs}
        return tuple(source for name, source in self.project.settings.foreign.items() if name in read)


def check_view(report: CheckReport) -> RenderableType:
    """Every model in running order."""
    settings = report.project.settings
    head = title(
        settings.name,
        f"{counted(len(report.models), 'model')}, no problems",
        Text(f"times in {settings.timezone}", QUIET),
        *_environments(report.project),
    )
    if not report.models:
        hint = Text("no models yet: write one into models/<namespace>/<table>.sql", style=QUIET)
        return stack([head, indented(hint)])
    blocks = (_model_block(number, model) for number, model in enumerate(report.models, start=1))
    return stack([head, *blocks, _foreign_section(report.foreign), _notes(report.notes)])


def _environments(project: Project) -> Iterator[Text]:
    if project.environment is not None:
        yield Text(f"in {project.environment}", STRONG)
    elif project.settings.environments:
        yield Text(f"environments: {', '.join(project.settings.environments)}", QUIET)


def _model_block(number: int, model: Model) -> RenderableType:
    line = Text.assemble(
        (f"{number}. ", QUIET), (model.name, STRONG), f"  {slicing_text(model)}, ", batching_text(model)
    )
    pairs: list[tuple[str, RenderableType]] = [("reads", stack(input_text(i, model.grain) for i in model.inputs))]
    if model.after:
        pairs.append(("after", ", ".join(model.after)))
    pairs.append(("gates", gates_text(gate.name for gate in model.gates)))
    if model.consumers:
        pairs.append(("read by", ", ".join(model.consumers)))
    if schedules_of(model):
        pairs.append(("loaded", schedules_text(model)))
    return stack([Text(), line, indented(facts(pairs), 3)])


def slicing_text(model: Model) -> str:
    """`a slice per day of order_date`, `8 buckets of customer_id, merged by customer_id`."""
    merged = f", merged by {', '.join(model.key)}" if model.strategy is Strategy.MERGE else ""
    if model.slicing.by is None:
        return f"one slice, the whole table{merged}"
    if isinstance(model.grain, Buckets):
        return f"{model.grain} of {model.slicing.by}{merged}"
    since = f" since {model.slicing.start}" if model.slicing.start else ""
    return f"a slice per {model.grain} of {model.slicing.by}{since}{merged}"


def batching_text(model: Model) -> Text:
    """In waves, or slice by slice and why."""
    batching = model.batching
    if model.one_by_one:
        return Text.assemble(("slice by slice", WARN), (f": {'; '.join(model.one_by_one)}", QUIET))
    wave = f", at most {model.replay.wave} a wave" if model.replay.wave else ""
    ordered = ", one after the other" if model.replay.order is Order.SEQUENTIAL else ""
    if batching.vouched and batching.reasons:
        return Text.assemble(f"in waves{wave}{ordered}", (" (by the author's word: `replay.sliceable`)", QUIET))
    return Text(f"in waves{wave}{ordered}")


def input_text(i: Input, reader: Cut) -> Text:
    """`raw.orders by order_date, 7 back`, or `36 hours back`."""
    known_as = f" as {i.name}" if i.name != i.name_in_text else ""
    windows = f", valid from {i.valid.start} to {i.valid.end}" if i.valid is not None else ""
    then = ", as of the slice's end" if i.at_slice_end else ""
    by = i.column(reader)
    if by is None:
        return Text.assemble(i.table + known_as, (f" whole{windows}{then}", QUIET))
    around = "".join(f", {reach_text(n)} {way}" for n, way in ((i.lookback, "back"), (i.lookahead, "ahead")) if n)
    return Text.assemble(i.table + known_as, (f" by {by}{around}{windows}{then}", QUIET))


def schedules_text(model: Model) -> str:
    """`0 4 * * *, compared as a whole 0 5 * * 0`."""
    words = {Kind.LOAD: "", Kind.DEEP: "compared as a whole "}
    return ", ".join(f"{words[each.kind]}{each.cron}" for each in schedules_of(model))


def gates_text(gates: Iterable[str]) -> str:
    return ", ".join(gates) or NONE


def _foreign_section(foreign: tuple[Source, ...]) -> RenderableType | None:
    if not foreign:
        return None
    rows = [
        (source.name, source.format or "", Text(f"{promise_of(source)}\n{seen_of(source)}", style=QUIET))
        for source in foreign
    ]
    return section("Not Iceberg", table((name(), name(), prose()), rows))


def _notes(notes: tuple[str, ...]) -> RenderableType | None:
    return section("Without effect", bullets(Text(note, style=WARN) for note in notes)) if notes else None


def new_project_view(folder: Path, files: list[Path], samples: Samples) -> RenderableType:
    """What was written, and the next three things to type."""
    target = folder.absolute()
    written = [Text(file.relative_to(target).as_posix()) for file in files if not file.name.startswith(".")]
    rows = f"{samples.orders:,} orders from {samples.first} to {samples.last}"
    return stack(
        [
            title(f"New project in {folder}"),
            section("Files", *written),
            section("Sample tables", Text(f"{', '.join(samples.tables)}: {rows}")),
            section("Next", *(command(line) for line in next_commands(folder, samples))),
        ]
    )


def next_commands(folder: Path, samples: Samples) -> tuple[str, str, str]:
    """How to go on with a new project; the dates are those that its tables hold."""
    dates = f"--start {samples.first} --end {samples.last}"
    return (
        f"cd {shlex.quote(str(folder))} && retcon check",
        f"retcon plan 'mart.*' {dates} --reason 'first build'",
        "retcon apply backfills/<id>.yaml",
    )
