"""`retcon render`: what will run."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Annotated

import typer

from retcon.cli.arguments import End, Environment, Json, ProjectFolder, Start
from retcon.cli.json_output import rendering_result
from retcon.cli.terminals import terminal_of
from retcon.cli.views.sql import RenderedInput, Rendering, rendering_text
from retcon.core.intervals import Edge, parse_edge
from retcon.core.models import Input, Model
from retcon.core.queries import patched
from retcon.core.ranges import asked_interval
from retcon.core.readings import reading_of
from retcon.core.reads import Read, read_of
from retcon.core.slices import Buckets, Cut, Grain, SliceSet
from retcon.core.tables import TableFacts
from retcon.core.waves import cut_waves, parts_of
from retcon.flow.context import parameters_of
from retcon.wiring import Workspace, slice_predicate


def render(
    context: typer.Context,
    model: Annotated[str, typer.Argument(metavar="MODEL", hidden=True)],
    start: Start = None,
    end: End = None,
    env: Environment = None,
    project: ProjectFolder = None,
    as_json: Json = False,
) -> None:
    """Show the code that will run for a model.

    That is: each input as a view, pinned and cut to the slices that are read, then the model's text over these views,
    with the values that are bound to it. A Python model is given its views as DataFrames. Without dates, for the slice
    of yesterday. Starts no Spark.

    \b
    Example:
      retcon render mart.fct_daily_revenue --start 2026-01-01 --end 2026-01-07
    """
    terminal = terminal_of(context, as_json=as_json)
    workspace = terminal.workspace(project, env)
    found = workspace.project.graph.model(model)
    rendering = _rendering(workspace, found, _asked(workspace, found, start, end))
    if terminal.as_json:
        terminal.document({"result": rendering_result(rendering)})
    else:
        terminal.out.print(rendering_text(rendering), soft_wrap=True)


def _asked(workspace: Workspace, model: Model, start: str | None, end: str | None) -> SliceSet:
    """The slices asked for; one date alone means that day, none means yesterday."""
    now = workspace.clock()
    first = parse_edge(start, "--start") if start is not None else None
    last = parse_edge(end, "--end") if end is not None else None
    day: Edge = first or last or (now - timedelta(days=1)).date()
    return SliceSet.covering(model.grain, asked_interval(first or day, last or day, now))


def _rendering(workspace: Workspace, model: Model, slices: SliceSet) -> Rendering:
    """The first job of the range, as `apply` would build it."""
    most = 1 if model.one_by_one else model.replay.wave
    waves = (
        parts_of(model, slices)
        if model.moves_rows
        else cut_waves(slices, most=most, contiguous=model.needs_contiguous_waves, files_of=lambda _: {})
    )
    graph = workspace.project.graph
    facts = {i.table: workspace.tables.facts(i.table) for i in model.inputs}
    snapshots = {table: found.snapshot_id if found is not None else None for table, found in facts.items()}
    inputs: list[RenderedInput] = []
    for i in model.inputs:
        reading = reading_of(i, model.grain, graph, facts[i.table])
        resolution = reading.resolution if reading is not None else None
        by, found = i.column(model.grain), facts[i.table]
        snapshot = _then(found, waves[0], workspace.clock()) if i.at_slice_end and found is not None else None
        pinned, hashed = snapshot or snapshots[i.table], _bucketed_as(workspace, model)
        read = read_of(i, waves[0], resolution, pinned, bucketed_as=hashed)
        column = found.column(by) if by is not None and found is not None else None
        inputs.append(
            RenderedInput(
                input=i,
                read=read,
                view=_view_name(i),
                filter=_filter(read, column.type if column is not None else _guessed(model.grain)),
                exists=facts[i.table] is not None,
                is_model=i.table in graph.models,
                source=workspace.project.settings.foreign.get(i.table),
            )
        )
    bound = parameters_of(waves[0], workspace.project.settings.params, run_ts=workspace.clock())
    goes_beyond = any(each.read.goes_beyond(waves[0]) for each in inputs)
    return Rendering(
        model=model,
        catalog=workspace.project.settings.catalog.name,
        jobs=waves,
        inputs=tuple(inputs),
        text=patched(model.query, {i.name: _view_name(i) for i in model.inputs}),
        parameters={key: value for key, value in bound.items() if key in model.query.parameters},
        output_filter=_output_filter(workspace, model, waves[0]) if goes_beyond else None,
    )


def _then(facts: TableFacts, wave: SliceSet, now: datetime) -> int | None:
    """The snapshot from when the wave's only slice ended, if that is over and the snapshot still known."""
    end = wave.hull().end
    return None if end > now else facts.snapshot_before(end)


def _output_filter(workspace: Workspace, model: Model, wave: SliceSet) -> str:
    facts = workspace.tables.facts(model.name)
    column = facts.column(model.slicing.by) if facts is not None and model.slicing.by is not None else None
    return slice_predicate(model.slicing.by, column.type if column is not None else _guessed(model.grain), wave)


def _bucketed_as(workspace: Workspace, model: Model) -> str | None:
    """The type in which a table that is there counts its buckets."""
    facts = workspace.tables.facts(model.name) if isinstance(model.grain, Buckets) else None
    column = facts.column(model.slicing.by) if facts is not None and model.slicing.by is not None else None
    return None if column is None else column.type


def _guessed(cut: Cut) -> str:
    """The type of a column that isn't there yet."""
    return "timestamp" if cut is Grain.HOUR else "date"


def _view_name(i: Input) -> str:
    """Readable here; the real ones also carry the job's name, since several run at once."""
    return "retcon_" + i.name.replace(".", "_")


def _filter(read: Read, type: str) -> str | None:
    if read.by is None or read.slices is None:
        return None
    return slice_predicate(read.by, type, read.slices, bucketed_as=read.bucketed_as)
