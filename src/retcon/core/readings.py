"""Readings: in which slices a model reads an input, by the cuts of both and the type of the time column."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from retcon.core.graphs import Graph
from retcon.core.models import Input, Model
from retcon.core.plans import PlannedModel
from retcon.core.slices import Buckets, Cut, Grain
from retcon.core.tables import TableFacts
from retcon.errors import Refused
from retcon.values import dataclass


@dataclass(frozen=True, kw_only=True)
class Reading:
    """In which slices a model reads an input."""

    resolution: Grain | Buckets
    """Of what is read, and compared when something changes: divides the model's slices and the input's own."""
    natural: Grain | Buckets
    """As the input itself is cut: what isn't there is missing by whole slices of these."""


def reading_of(i: Input, reader: Cut, graph: Graph, facts: TableFacts | None) -> Reading | None:
    """None: the input is read whole."""
    if isinstance(reader, Buckets) and i.key is not None:
        return Reading(resolution=reader, natural=reader)
    if i.time is None or not isinstance(reader, Grain):
        return None
    upstream = graph.models.get(i.table)
    # A date tells no hours: whoever reads by the hour reads the whole day.
    is_date = _is_date(i.time, upstream, facts)
    finest = Grain.DAY if is_date and reader is Grain.HOUR else reader
    if upstream is not None and isinstance(upstream.grain, Grain):
        natural = upstream.grain
    else:
        natural = (facts.grain_of(i.time) if facts is not None else None) or finest
    resolution = natural.common(reader)
    return Reading(resolution=Grain.DAY if is_date and resolution is Grain.HOUR else resolution, natural=natural)


def _is_date(time: str, upstream: Model | None, facts: TableFacts | None) -> bool:
    """Is a time column a DATE? Of a model whose table isn't made yet, its `columns` tell; else all but hours may be."""
    column = facts.column(time) if facts is not None else None
    if column is not None or upstream is None:
        return column is not None and column.type == "date"
    declared = _declared(upstream, time)
    return upstream.grain is not Grain.HOUR if declared is None else declared.lower() == "date"


def _declared(model: Model, column: str) -> str | None:
    return next((kind for name, kind in model.columns if name.lower() == column.lower()), None)


def require_hours_told(model: Model, graph: Graph, known: Collection[str]) -> None:
    """An hour that is computed alone reads its own rows of a TIMESTAMP, its day's of a DATE: it must be known which.

    `known` are the tables that are there, and those that will be cut by a DATE.
    """
    if model.grain is not Grain.HOUR or not model.one_by_one:
        return
    for i in model.inputs:
        upstream = graph.models.get(i.table)
        is_told = i.is_own or i.time is None or upstream is None or upstream.grain is Grain.HOUR or i.table in known
        if not is_told and upstream is not None and i.time is not None and _declared(upstream, i.time) is None:
            raise Refused(
                f"{model.name} computes each hour by itself, and nothing says whether {i.time} of {i.table}, which "
                "isn't made yet, is a DATE or a TIMESTAMP",
                state="no plan was written",
                next=f"say it in {upstream.path}, `columns: {{{i.time}: timestamp, …}}`, or plan {i.table} first",
            )


def require_hours_as_planned(plan: str, model: Model, planned: PlannedModel, facts: Mapping[str, TableFacts]) -> None:
    """What was taken for a DATE is one, where it matters: an hour computed alone must see no other hour's rows."""
    if model.grain is not Grain.HOUR or not model.one_by_one:
        return
    for i in model.inputs:
        read = planned.input(i.name).slices
        is_by_day = read is not None and read.grain is Grain.DAY
        if is_by_day and i.time is not None and not _is_date(i.time, None, facts.get(i.table)):
            raise Refused(
                f"{model.name} reads {i.table} by {i.time}, which the plan took for a DATE, and it is a timestamp",
                state="nothing was staged; production is untouched",
                next=f"`retcon plan --refresh backfills/{plan}.yaml` plans it by the hour",
            )
