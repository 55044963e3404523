"""Find: which slices are stale because their inputs changed. From metadata and the ledger, without a JVM."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property

from retcon.core.loads import Found, begun, is_followed, older_than_window, readers_of
from retcon.core.models import Input, Model
from retcon.core.planning import World
from retcon.core.projects import Project
from retcon.core.ranges import held_by_inputs, tells_history
from retcon.core.readings import Reading, reading_of
from retcon.core.slices import WHOLE, Grain, Slice, SliceSet
from retcon.core.tables import Changed, TableFacts
from retcon.core.watermarks import Advance, Mark, Watermark
from retcon.flow.consume import UNKNOWN, content_of_read, is_told
from retcon.flow.context import read_of
from retcon.flow.ports import Ledger, Tables
from retcon.flow.records import Records
from retcon.flow.standing import standing_at
from retcon.flow.worlds import world_of


@dataclass(frozen=True, kw_only=True)
class _Look:
    """One input of a model, as it is now."""

    input: Input
    mark: Mark
    watermark: Watermark | None
    changed: Changed | None
    """Since the watermark; None: that can't be told, so that all has to be compared with what was consumed."""

    @property
    def is_unchanged(self) -> bool:
        return self.changed is not None and not self.changed


class Finder:
    """Compares what models consumed with what there is."""

    def __init__(self, project: Project, tables: Tables, ledger: Ledger) -> None:
        self._records = Records(project=project, tables=tables, ledger=ledger)
        self._graph = project.graph
        self._facts: dict[str, TableFacts | None] = {}
        self._worlds: dict[str, World] = {}
        self._standing: dict[str, Mapping[Slice, str]] = {}

    def find(self, names: Sequence[str], now: datetime) -> list[Found]:
        """What of each model is stale, upstream first."""
        return [self._find(self._graph.models[name], now) for name in self._graph.order if name in set(names)]

    @cached_property
    def _watermarks(self) -> Mapping[tuple[str, str], Watermark]:
        return self._records.ledger.watermarks()

    @cached_property
    def _movements(self) -> Mapping[tuple[str, str], int]:
        return self._records.ledger.movements()

    def _find(self, model: Model, now: datetime) -> Found:
        followed = [i for i in model.inputs if is_followed(i)]
        looks = [look for i in followed if (look := self._look(model, i)) is not None]
        unseen = tuple(i.table for i in followed if i.name not in {look.input.name for look in looks})
        nothing = SliceSet(model.grain)
        if all(look.is_unchanged for look in looks):
            return Found(
                model=model.name, stale=nothing, held=nothing, late=nothing, unseen=unseen, advances=self._moved(looks)
            )
        world = self._world(model)
        shown = world.published.get(model.name, nothing)
        possible = begun(shown | self._buildable(model, world, now), now)
        consumed = self._records.ledger.standing_consumption(model.name)
        why: dict[str, SliceSet] = {}
        waiting: dict[str, SliceSet] = {}
        for look in looks:
            stale = self._stale_by(look, model, possible, shown, consumed, now)
            if stale & possible:
                why[look.input.name] = stale & possible
            arrived = self._arrived(look.input, model, stale - possible, world)
            if arrived:
                waiting = self._waiting(model, arrived, world, waiting)
        stale = nothing
        for slices in why.values():
            stale |= slices
        held = stale & SliceSet.labelled(model.grain, self._records.ledger.held_slices(model.name))
        late = older_than_window(model, stale - held, now) if shown else nothing
        blocked = {name for name, slices in why.items() if slices & (held | late)}
        if waiting:
            blocked |= {look.input.name for look in looks}
        return Found(
            model=model.name,
            stale=stale - held - late,
            why=why,
            held=held,
            late=late,
            waiting=waiting,
            advances=self._moved([look for look in looks if look.input.name not in blocked]),
            unseen=unseen,
        )

    # ── one input ─────────────────────────────────────────────────────────────────────────────────────────────────

    def _look(self, model: Model, i: Input) -> _Look | None:
        """None where its changes can't be seen."""
        facts = self._facts_of(i.table)
        if facts is None:
            return None
        reading = self._reading(model, i)
        by, cut = (None, WHOLE) if reading is None else (i.column(model.grain), reading.resolution)
        watermark = self._watermarks.get((model.name, i.name))
        value: str | None = None
        if not facts.uuid:
            held = self._records.contents(i.table, by, cut, facts.snapshot_id)
            if not held.tells_changes:
                return None
            value = held.of(None).digest
        mark = Mark(
            model=model.name,
            input=i.name,
            table=i.table,
            uuid=facts.uuid,
            snapshot_id=facts.snapshot_id,
            value=value,
        )
        known = None if watermark is None or watermark.mark.table != i.table else watermark.mark
        if known is None or known.uuid != mark.uuid:
            changed = None
        elif (known.snapshot_id, known.value) == (mark.snapshot_id, mark.value):
            changed = Changed(slices=SliceSet(cut))
        elif not facts.uuid:
            changed = None
        else:
            changed = self._records.tables.changed(
                i.table, time=by, grain=cut, since=known.snapshot_id, until=mark.snapshot_id
            )
        return _Look(
            input=i,
            mark=mark,
            watermark=watermark,
            changed=None if changed is not None and changed.everything else changed,
        )

    def _stale_by(
        self,
        look: _Look,
        model: Model,
        possible: SliceSet,
        shown: SliceSet,
        consumed: Mapping[str, Mapping[str, str]],
        now: datetime,
    ) -> SliceSet:
        """The slices whose share of this input isn't what they were computed from."""
        if look.is_unchanged:
            return SliceSet(model.grain)
        if look.changed is None:
            # What was there before retcon knew it was made of nobody knows what: it stays until something changes.
            candidates = SliceSet.of(
                model.grain, (s.ordinal for s in possible if s not in shown or s.label in consumed)
            )
        else:
            readers = readers_of(look.input, model, look.changed.slices, self._graph)
            candidates = begun(possible if readers is None else readers, now)
            candidates = _since_start(model, candidates)
        return SliceSet.of(
            model.grain,
            (s.ordinal for s in candidates if not self._is_consumed(look, model, s, consumed.get(s.label, {}))),
        )

    def _is_consumed(self, look: _Look, model: Model, slice: Slice, consumed: Mapping[str, str]) -> bool:
        content = consumed.get(look.input.name)
        return content is not None and content != UNKNOWN and content == self._content(look, model, slice)

    def _content(self, look: _Look, model: Model, slice: Slice) -> str:
        """What would be recorded as consumed, were the slice computed now."""
        i, reading = look.input, self._reading(model, look.input)
        resolution = None if reading is None else reading.resolution
        one = SliceSet(slice.grain, (slice.ordinal,))
        read = read_of(i, one, resolution, look.mark.snapshot_id)
        upstream = self._graph.models.get(i.table)
        if upstream is None:
            return content_of_read(read, None, self._records)
        told = self._checksums(i.table, look.mark.snapshot_id) if is_told(i, model.grain, self._graph) else None
        return content_of_read(read, told, self._records, upstream.grain)

    def _checksums(self, model: str, snapshot_id: int | None) -> Mapping[Slice, str]:
        if model not in self._standing:
            standing = standing_at(self._records, model, snapshot_id)
            self._standing[model] = {slice: held.checksum for slice, held in standing.items()}
        return self._standing[model]

    # ── the model ─────────────────────────────────────────────────────────────────────────────────────────────────

    def _buildable(self, model: Model, world: World, now: datetime) -> SliceSet:
        """What all inputs hold."""
        if isinstance(model.grain, Grain) and not tells_history(model, self._graph, world):
            return SliceSet(model.grain)
        return _since_start(model, held_by_inputs(model, self._graph, world, now))

    def _arrived(self, i: Input, model: Model, slices: SliceSet, world: World) -> SliceSet:
        """Those whose own time the input holds; the others only read something of it that comes before."""
        reading = self._reading(model, i)
        held = None if reading is None else world.contents.get((i.table, i.column(model.grain), reading.resolution))
        if reading is None or held is None or not isinstance(model.grain, Grain):
            return SliceSet(model.grain)
        resolution = reading.resolution
        return SliceSet.of(
            model.grain, (s.ordinal for s in slices if SliceSet(s.grain, (s.ordinal,)).recut(resolution) & held.present)
        )

    def _waiting(
        self, model: Model, slices: SliceSet, world: World, so_far: Mapping[str, SliceSet]
    ) -> dict[str, SliceSet]:
        """Which table lacks something, for slices that can't be computed yet."""
        found = dict(so_far)
        for i in (i for i in model.inputs if i.time is not None and not i.is_own):
            reading = self._reading(model, i)
            held = None if reading is None else world.contents.get((i.table, i.column(model.grain), reading.resolution))
            if reading is None or held is None or not held.tells_slices:
                continue
            lacking = SliceSet.of(
                model.grain,
                (
                    s.ordinal
                    for s in slices
                    if i.read_by(SliceSet(s.grain, (s.ordinal,)), reading.resolution) - held.present
                ),
            )
            if lacking:
                found[i.table] = found.get(i.table, SliceSet(model.grain)) | lacking
        return found

    def _moved(self, looks: Sequence[_Look]) -> tuple[Advance, ...]:
        """The marks that aren't where the watermarks are."""
        return tuple(
            Advance(mark=look.mark, after=self._movements.get((look.mark.model, look.mark.input), 0))
            for look in looks
            if look.watermark is None or look.watermark.mark != look.mark
        )

    def _reading(self, model: Model, i: Input) -> Reading | None:
        return reading_of(i, model.grain, self._graph, self._facts_of(i.table))

    def _facts_of(self, table: str) -> TableFacts | None:
        if table not in self._facts:
            self._facts[table] = self._records.tables.facts(table)
        return self._facts[table]

    def _world(self, model: Model) -> World:
        if model.name not in self._worlds:
            r = self._records
            self._worlds[model.name] = world_of(r.project, r.tables, r.ledger, (model.name,))
        return self._worlds[model.name]


def _since_start(model: Model, slices: SliceSet) -> SliceSet:
    if model.slicing.start is None or not isinstance(model.grain, Grain):
        return slices
    first = model.grain.ordinal(model.slicing.start)
    return SliceSet(slices.grain, tuple(o for o in slices.ordinals if o >= first))
