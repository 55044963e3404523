"""How far loads have consumed each input, and setting that back."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime

from retcon.core.intervals import Edge, after
from retcon.core.loads import is_followed
from retcon.core.models import Input, Model
from retcon.core.planning import abridged, readers_of
from retcon.core.plans import PlannedModel
from retcon.core.projects import Project
from retcon.core.slices import WHOLE, SliceSet
from retcon.core.tables import TableFacts
from retcon.core.updates import mark_value, marked_moment
from retcon.core.watermarks import Advance, Mark, Watermark
from retcon.errors import BadArguments, Refused
from retcon.flow.ports import Ledger, Tables
from retcon.values import dataclass


@dataclass(frozen=True, kw_only=True)
class Standing:
    """One input of a model that loads follow."""

    model: str
    input: str
    table: str
    watermark: Watermark | None
    """None: no load has consumed all of it yet."""
    behind: int | None
    """Commits since then that changed rows; None where that can't be told."""
    oldest: datetime | None
    """When the first of them was made."""


class Watermarks:
    """Tells how far loads are, and sets them back."""

    def __init__(self, project: Project, tables: Tables, ledger: Ledger) -> None:
        self._project = project
        self._tables = tables
        self._ledger = ledger

    def standing(self, names: Sequence[str]) -> list[Standing]:
        """Every followed input of these models."""
        watermarks = self._ledger.watermarks()
        return [
            self._standing(model, i, watermarks.get((model.name, i.name)))
            for model in (self._project.graph.models[name] for name in names)
            for i in model.inputs
            if is_followed(i)
        ]

    def _standing(self, model: Model, i: Input, watermark: Watermark | None) -> Standing:
        told = Standing(
            model=model.name, input=i.name, table=i.table, watermark=watermark, behind=None, oldest=None
        )  # fmt: skip
        facts = self._tables.facts(i.table)
        if watermark is None or facts is None or not facts.uuid or watermark.mark.uuid != facts.uuid:
            return told
        commits = self._tables.commits(
            i.table, time=None, grain=WHOLE, since=watermark.mark.snapshot_id, until=facts.snapshot_id
        )
        if commits is None:
            return told
        news = [commit.snapshot_id for commit in commits if not commit.is_rewrite]
        made = {snapshot_id: at for at, snapshot_id in facts.history}
        return replace(told, behind=len(news), oldest=made.get(news[0]) if news else None)

    def reset(
        self, model: Model, to: Edge | None, reason: str, *, only: str | None, at: datetime, who: str
    ) -> list[Standing]:
        """Let loads look again at what changed since a moment, or, without one, at everything."""
        if not reason.strip():
            raise BadArguments("a reset needs a reason", next='pass --reason "why it is looked at again"')
        inputs = [i for i in model.inputs if is_followed(i) and (only is None or only in (i.name, i.table))]
        if not inputs:
            named = f"no input {only} that loads follow" if only else "no input that loads follow"
            raise BadArguments(f"{model.name} has {named}", next=f"`retcon watermarks {model.name}` lists them")
        watermarks, movements = self._ledger.watermarks(), self._ledger.movements()
        unset = [i.table for i in inputs if (model.name, i.name) not in watermarks]
        if unset:
            raise Refused(
                f"{model.name}: no watermark is set for {', '.join(unset)}",
                next=f"the next `retcon load {model.name}` looks at everything anyway",
            )
        steps = [
            Advance(mark=self._mark(watermarks[model.name, i.name].mark, to), after=movements[model.name, i.name])
            for i in inputs
        ]
        self._ledger.move_watermarks(steps, is_set=to is not None, why=reason.strip(), at=at, who=who)
        return self.standing((model.name,))

    def _mark(self, mark: Mark, to: Edge | None) -> Mark:
        facts = self._tables.facts(mark.table)
        if to is None or facts is None:
            return mark
        source = self._project.settings.foreign.get(mark.table)
        known = None if source is None else marked_moment(mark.value, source.updated or "")
        if source is not None and source.updated is not None and known is not None:
            if after(to) > known:
                raise _only_forward(mark)
            return replace(mark, value=mark_value(source.updated, after(to)))
        if self._tables.was_set_back(mark.table, mark.snapshot_id):
            raise Refused(
                f"{mark.table} was set back: what changed since a day doesn't tell what was lost",
                next="leave out --to: everything is compared then",
            )
        if not facts.uuid:
            raise Refused(
                f"{mark.table} keeps no history of its changes: it can't be set back to a moment",
                next="leave out --to: everything is compared then",
            )
        return replace(mark, uuid=facts.uuid, snapshot_id=_snapshot_at(facts, mark, to))


def brought_in(models: Sequence[PlannedModel], project: Project, tables: Tables, ledger: Ledger) -> Iterator[str]:
    """What a plan that isn't a load's brings in of changes that loads haven't consumed: they won't find it again."""
    watermarks, graph = ledger.watermarks(), project.graph
    for planned in models:
        model = graph.models[planned.name]
        for i in (i for i in model.inputs if is_followed(i) and planned.input(i.name).slices is not None):
            watermark, facts, reads = watermarks.get((model.name, i.name)), tables.facts(i.table), planned.input(i.name)
            if watermark is None or facts is None or not facts.uuid or watermark.mark.uuid != facts.uuid:
                continue
            assert reads.slices is not None
            changed = tables.changed(
                i.table,
                time=i.column(model.grain),
                grain=reads.slices.grain,
                since=watermark.mark.snapshot_id,
                until=facts.snapshot_id,
            )
            readers = None if not changed else readers_of(i, model, changed.slices, graph)
            hit = planned.slices if changed and readers is None else planned.slices & (readers or SliceSet(model.grain))
            if hit:
                yield (
                    f"{model.name}: {i.table} changed since the last load for {abridged(hit)}: this plan brings it in, "
                    "and loads won't again"
                )


def _snapshot_at(facts: TableFacts, mark: Mark, to: Edge) -> int:
    """What was current when this day, or hour, ended; not later than the watermark is."""
    then = facts.snapshot_before(after(to))
    if then is None:
        raise Refused(
            f"the history of {facts.name} doesn't go back that far",
            next="leave out --to: everything is compared then",
        )
    line = [snapshot_id for _, snapshot_id in facts.history]
    if mark.snapshot_id is not None and mark.snapshot_id not in line:
        raise Refused(
            f"the watermark of {mark.table} is at a snapshot that has expired: whether that moment is before it isn't "
            "known any more",
            next="leave out --to: everything is compared then",
        )
    if mark.snapshot_id is None or line.index(then) > line.index(mark.snapshot_id):
        raise _only_forward(mark)
    return then


def _only_forward(mark: Mark) -> Refused:
    return Refused(
        f"the watermark of {mark.table} is before that: only loads move it forward",
        next=f"`retcon load {mark.model}` consumes what came since",
    )
