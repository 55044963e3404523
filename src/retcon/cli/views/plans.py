"""Plans: what a reviewer has to see, on one page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import timedelta

from rich.console import RenderableType
from rich.text import Text

from retcon.cli.figures import NONE, Zone, count, counted, size, slices
from retcon.cli.views.parts import (
    GOOD,
    QUIET,
    STRONG,
    WARN,
    Cell,
    bullets,
    command,
    consumer,
    facts,
    name,
    number,
    parameters_text,
    prose,
    section,
    stack,
    table,
    title,
)
from retcon.cli.views.timings import estimate_facts
from retcon.core.evolution import AddColumn, change_text
from retcon.core.intervals import Interval, edge_text
from retcon.core.plans import Origin, Plan, PlannedInput, PlannedModel
from retcon.core.projects import Catalog, Settings

_ORIGINS = {Origin.SOURCE: "source", Origin.MODEL: "published", Origin.RUN: "this run"}


def plan_view(plan: Plan, settings: Settings, zone: Zone, file: str | None) -> RenderableType:
    """The whole plan; `file` is where it was written, None for a dry run."""
    return stack(
        [
            title("Plan", Text(plan.id, style=STRONG)) if file else title("Plan", Text("dry run", style=WARN)),
            facts(_header(plan, zone)),
            section("Models", _models(plan)),
            _columns(plan),
            _beside(plan),
            section("Reads", _inputs(plan)),
            section("Gates", _gates(plan)),
            _consumers(plan, settings),
            _outside(plan),
            section("Notes", bullets(plan.notes)) if plan.notes else None,
            Text(),
            facts(_footer(plan, settings.catalog, file)),
        ]
    )


def _header(plan: Plan, zone: Zone) -> Iterator[tuple[str, RenderableType]]:
    yield "why", plan.reason
    for position, each in enumerate(plan.expect):
        yield "expected" if position == 0 else "", f"{each.model}: {each.text}"
    if plan.environment is not None:
        yield "environment", f"{plan.environment}, beside production"
    if plan.interval is None:
        yield "range", Text.assemble("all", (f"; times are shown in {plan.timezone}", QUIET))
    else:
        # What was found has no dates that were asked for.
        first, last = (edge_text(edge) for edge in plan.interval.edges)
        start, end = plan.request.start or first, plan.request.end or last
        yield "range", f"{start} to {end}, both included ({_length(plan.interval)})"
        yield "", Text(f"{plan.interval} UTC; times are shown in {plan.timezone}", style=QUIET)
    if plan.params:
        yield "params", parameters_text(plan.params)
    if plan.keys is not None:
        shown = ", ".join(plan.keys.values[:5]) + (", …" if plan.keys.count > 5 else "")
        yield "keys", f"{count(plan.keys.count)} of {plan.keys.column}" + (f": {shown}" if plan.keys.values else "")
    yield "by", f"{plan.by}, {zone.named(plan.created)}"
    if plan.request.refreshes:
        yield "renews", plan.request.refreshes


def _length(interval: Interval) -> str:
    hours = (interval.end - interval.start) // timedelta(hours=1)
    return counted(hours // 24, "day") if hours % 24 == 0 else counted(hours, "hour")


def _models(plan: Plan) -> RenderableType:
    heads = (name("model"), name("role"), number("slices"), name("range"), number("waves"), prose())
    return table(heads, (_model_row(model) for model in plan.models))


def _model_row(model: PlannedModel) -> tuple[Cell, ...]:
    remarks: list[Text] = []
    if model.is_new:
        remarks.append(Text("new", style=GOOD))
    if model.open:
        remarks.append(Text(f"open: {slices(model.open)}", style=WARN))
    if model.is_keyed:
        remarks.append(Text("only the keys", style=GOOD))
    if model.moved_from:
        remarks.append(Text(f"rows may leave: {slices(model.moved_from, 2)}", style=WARN))
    if model.one_by_one:
        remarks.append(Text.assemble(("slice by slice", WARN), (f": {'; '.join(model.one_by_one)}", QUIET)))
    return (
        model.name,
        model.role.value,
        count(len(model.slices)),
        slices(model.slices, 2),
        count(len(model.waves)),
        Text("; ").join(remarks),
    )


def _columns(plan: Plan) -> RenderableType | None:
    """How tables change before the first wave, which is before anything is proven."""
    changed = [model for model in plan.models if model.beside is None and model.changes]
    if not changed:
        return None
    added = any(isinstance(change, AddColumn) for model in changed for change in model.changes)
    told = "changed when staging begins, and kept whatever becomes of the run"
    told += "; readers see new columns from then on, NULL until the publish" if added else ""
    return section("Columns", stack([_changes(changed), Text(told, style=QUIET)]))


def _beside(plan: Plan) -> RenderableType | None:
    """Tables that can't become what their models say: others take their place."""
    built = [model for model in plan.models if model.beside is not None]
    if not built:
        return None
    told = "built anew, swapped in with the publish; nothing of it shows before"
    return section("Built beside", stack([_changes(built), Text(told, style=QUIET)]))


def _changes(models: Sequence[PlannedModel]) -> RenderableType:
    rows: list[tuple[Cell, ...]] = []
    for model in models:
        told = [change_text(change) for change in model.changes]
        told = told if model.beside is None else [f"as {model.beside.table}", *told]
        rows += [(model.name if position == 0 else "", each) for position, each in enumerate(told)]
    return table((name(), prose()), rows)


def _inputs(plan: Plan) -> RenderableType:
    heads = (
        name("model"),
        name("table"),
        name("from"),
        number("slices"),
        number("files"),
        number("rows"),
        number("bytes"),
        prose("missing"),
    )
    return table(heads, (row for model in plan.models for row in _input_rows(model)))


def _input_rows(model: PlannedModel) -> Iterator[tuple[Cell, ...]]:
    for position, each in enumerate(model.inputs):
        yield (
            model.name if position == 0 else "",
            each.table,
            _ORIGINS[each.origin] if each.format is None else _foreign(each),
            "whole" if each.slices is None else count(len(each.slices)),
            *_amounts(each),
            Text(slices(each.missing), style=WARN) if each.missing else Text(NONE, style=QUIET),
        )


def _foreign(each: PlannedInput) -> Text:
    return Text(f"{each.format}, {'pinned' if each.is_pinned else 'not pinned'}", style="" if each.is_pinned else WARN)


def _amounts(each: PlannedInput) -> tuple[str, str, str]:
    """What this run makes itself isn't there to be counted yet, and of some sources it can't be told."""
    if each.origin is Origin.RUN and not each.files:
        return NONE, NONE, NONE
    files, rows = (NONE if n is None else count(n) for n in (each.files, each.rows))
    return files, rows, NONE if each.bytes is None else size(each.bytes)


def _gates(plan: Plan) -> RenderableType:
    return table((name(), prose()), [(model.name, ", ".join(model.gates)) for model in plan.models])


def _consumers(plan: Plan, settings: Settings) -> RenderableType | None:
    if not plan.consumers:
        return None
    rows = [
        (consumer(settings.consumers, each), ", ".join(m.name for m in plan.models if each in m.consumers))
        for each in plan.consumers
    ]
    return section("Consumers", table((name(), prose("", QUIET)), rows))


def _outside(plan: Plan) -> RenderableType | None:
    if not plan.outside:
        return None
    return section("Outside this plan", table((name(), prose()), [(each.model, each.why) for each in plan.outside]))


def _footer(plan: Plan, catalog: Catalog, file: str | None) -> Iterator[tuple[str, RenderableType]]:
    most = plan.limits
    amounts = [f"{count(plan.slices)} of at most {count(most['slices'])} slices" if "slices" in most else ""]
    amounts.append(counted(plan.waves, "wave"))
    is_whole = all(i.rows is not None for model in plan.models for i in model.inputs)
    read = f"reads {'' if is_whole else 'at least '}{count(plan.rows)} rows, {size(plan.bytes)}"
    amounts.append(read + (f" of at most {size(most['bytes'])}" if "bytes" in most else ""))
    yield "estimate", "; ".join(filter(None, amounts))
    yield from estimate_facts(plan)
    yield "publish", guarantee(len(plan.models), catalog)
    if file is None:
        yield "written", Text("nothing: this was a dry run", style=WARN)
        return
    yield "written", file
    yield "next", command("retcon apply", plan.id)


def guarantee(tables: int, catalog: Catalog) -> str:
    """What publishing promises with this kind of catalog."""
    what = {1: "the table", 2: "both tables"}.get(tables, f"all {tables} tables")
    if catalog.is_rest:
        return (
            f"{what} in one commit of the REST catalog, all or nothing as it promises; the record follows, reconciled"
        )
    return f"{what} in one transaction of the catalog's database: visible at once, or not at all"
