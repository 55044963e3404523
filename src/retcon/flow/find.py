"""Find: which slices are stale because their inputs changed. From metadata and the ledger, without a JVM; of sources
that are known by an `updated` column, from their rows.

What a slice consumed of each input is on record; a slice is stale where that isn't what there is now. A watermark only
saves looking: everything up to it was looked at before.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from datetime import datetime

from retcon.core.comparisons import Compared, ComparedInput
from retcon.core.exceptions import Decision, LateChange, LateEntry
from retcon.core.loads import (
    NEVER_BUILT,
    Found,
    InputReason,
    Reasons,
    Stale,
    begun,
    is_followed,
    older_than_window,
    over,
)
from retcon.core.models import Input, Model
from retcon.core.planning import World, abridged, readers_of
from retcon.core.plans import code_of
from retcon.core.projects import Project
from retcon.core.ranges import from_start, held_by_inputs, is_untold, tells_history
from retcon.core.runs import Consumed
from retcon.core.slices import Grain, Slice, SliceSet
from retcon.core.tables import Changed
from retcon.flow.contents import is_comparable
from retcon.flow.inputs import Consumption, Inputs
from retcon.flow.look import Look
from retcon.flow.ports import Questions, Tables
from retcon.flow.records import Records
from retcon.flow.worlds import with_planned, world_of


class Finder:
    """Compares what models consumed with what there is."""

    def __init__(self, project: Project, tables: Tables, ledger: Questions) -> None:
        self._records = Records(project=project, tables=tables, ledger=ledger)
        self._graph = project.graph
        self._inputs = Inputs(self._records)
        self._worlds: dict[str, World] = {}

    def look(self) -> AbstractContextManager[None]:
        """At the ledger, of one moment; but where Spark looks at rows meanwhile, which takes too long for that."""
        sources = self._records.project.settings.foreign.values()
        return nullcontext() if any(source.updated is not None for source in sources) else self._records.ledger.look()

    def find(self, names: Sequence[str], now: datetime, *, deep: Collection[str] = ()) -> list[Found]:
        """What of each model a load has to compute, upstream first. Of a deep one the whole history is compared,
        wherever its watermarks are.
        """
        self._inputs.now, wanted = now, set(names)
        self._records.tables.look_again()
        found: dict[str, Found] = {}
        for name in (name for name in self._graph.order if name in wanted):
            made = {upstream: each.stale for upstream, each in found.items() if each.stale}
            found[name] = self._find(self._graph.models[name], made, now, is_deep=name in deep)
        return list(found.values())

    def left_alone(self, names: Collection[str], now: datetime) -> list[Found]:
        """Those of these models that read what was set back, or is gone: a load restates nothing of them."""
        self._inputs.now = now
        models = [self._graph.models[name] for name in self._graph.order if name in names]
        found = (self._left_alone(model, *self._inputs.of_model(model)) for model in models)
        return [each for each in found if each is not None]

    def stale(self, names: Sequence[str], now: datetime) -> list[Stale]:
        """What of each model differs from what would be computed now, by inputs and by code, upstream first."""
        wanted = set(names)
        self._records.tables.look_again()
        with self.look():
            return [self._stale(self._graph.models[name], now) for name in self._graph.order if name in wanted]

    def stale_by_code(self, name: str) -> SliceSet:
        """Published slices of a model that were computed by other code, or with other settings. From the ledger."""
        model = self._graph.models[name]
        now = code_of(model.fingerprint, self._records.project.settings.fingerprint)
        codes = self._records.ledger.standing_code(name)
        return SliceSet.labelled(model.grain, (label for label, code in codes.items() if code != now))

    def why(self, model: Model, slice: Slice) -> Reasons:
        """Whether a slice is stale, and why."""
        self._records.tables.look_again()
        consumed = self._records.ledger.standing_consumption(model.name).get(slice.label, {})
        run = self._records.ledger.standing_runs(model.name).get(slice.label)
        by_code = slice in self.stale_by_code(model.name)
        looks, _ = self._inputs.of_model(model)
        followed = {look.input.name: look for look in looks}
        return Reasons(
            model=model.name,
            slice=slice.label,
            run=run,
            code="as it was then" if not by_code else "the model's code, or a setting, is another one now",
            is_stale_by_code=by_code,
            is_held=slice in self._held(model),
            inputs=tuple(self._reason(i, followed.get(i.name), model, slice, consumed) for i in model.inputs),
        )

    def compared(self, names: Sequence[str], now: datetime) -> list[Compared]:
        """Every followed input of each model with what was consumed of it, wherever the watermarks are."""
        wanted = set(names)
        return [self._compared(self._graph.models[name], now) for name in self._graph.order if name in wanted]

    def _compared(self, model: Model, now: datetime) -> Compared:
        looks, unseen = self._inputs.of_model(model)
        world, consumed = self._world(model), self._records.ledger.standing_consumption(model.name)
        shown = world.published.get(model.name, SliceSet(model.grain))
        possible = begun(shown | self._buildable(model, world, now), now) if shown else shown
        known = self._known(shown, consumed)
        inputs: list[ComparedInput] = []
        for look in looks:
            content = {
                label: read[look.input.name].content for label, read in consumed.items() if look.input.name in read
            }
            told = SliceSet.of(model.grain, (s.ordinal for s in known if is_comparable(content.get(s.label))))
            inputs.append(
                ComparedInput(
                    input=look.input,
                    by=look.by,
                    cut=look.cut,
                    mark=look.mark,
                    watermark=look.watermark,
                    differs=self._inputs.stale_by(look, model, told, consumed),
                    untold=known - told,
                    ahead=self._candidates(look, model, possible, shown, consumed, now),
                )
            )
        missing = possible - shown
        differs = _all(missing, {each.input.name: each.differs for each in inputs})
        held = differs & self._held(model)
        return Compared(
            model=model.name,
            slices=known,
            missing=missing,
            unknown=shown - known,
            held=held,
            late=older_than_window(model, differs - held, now),
            inputs=tuple(inputs),
            unseen=unseen,
        )

    def _reason(
        self, i: Input, look: Look | None, model: Model, slice: Slice, consumed: Mapping[str, Consumed]
    ) -> InputReason:
        known = consumed.get(i.name)
        is_stale = False
        at = "" if known is None or known.snapshot_id is None else f", from snapshot {known.snapshot_id}"
        if look is None:
            text = "its changes can't be seen" if is_followed(i) else "not followed: a change of it restates nothing"
        elif known is None:
            text = "never read for this slice, or nobody knows what of it was"
        elif self._inputs.is_consumed(look, model, slice, consumed):
            text = f"as it was read{at}"
        else:
            is_stale = True
            text = f"changed since it was read{at}: {self._inputs.commits(look, slice, known)}"
        return InputReason(input=i.name, table=i.table, is_stale=is_stale, text=text)

    # ── for loads ─────────────────────────────────────────────────────────────────────────────────────────────────

    def _find(self, model: Model, made: Mapping[str, SliceSet], now: datetime, *, is_deep: bool) -> Found:
        """With what the load makes of models further up: their new slices make new ones here."""
        looks, unseen = self._inputs.of_model(model)
        if is_deep:
            looks = [replace(look, changed=None, recent=look.changed or look.recent) for look in looks]
        left_alone = self._left_alone(model, looks, unseen)
        if left_alone is not None:
            return left_alone
        nothing = SliceSet(model.grain)
        told = _notes(looks)
        is_following = any(i.table in made for i in model.inputs if is_followed(i))
        is_quiet = all(look.is_unchanged and not self._inputs.begun_since(look, model, now) for look in looks)
        if looks and is_quiet and not is_following:
            advances = self._inputs.moved(looks)
            none = Found(model=model.name, stale=nothing, held=nothing, late=nothing, unseen=unseen, notes=told)
            return replace(none, advances=advances)
        for look in looks:
            if look.changed is not None:  # what there is of it is known before it is asked which slices can be built
                readers = readers_of(look.input, model, look.changed.slices, self._graph) if look.changed else None
                early = self._inputs.begun_since(look, model, now)
                self._inputs.look_at(look, begun(readers or nothing, now) | early)
        world = self._world(model)
        looks = [self._inputs.with_ahead(look, now) for look in looks]
        shown = world.published.get(model.name, nothing)
        possible = begun(shown | self._buildable(model, world, now), now)
        consumed = self._consumed_of(model, looks, now)
        why = self._new_by_upstream(model, made, world, now) if is_following else {}
        new = over(possible - shown, now)
        if new and not looks and not is_following:
            why = {NEVER_BUILT: new}  # nothing tells of a change, and a day that is over isn't waited for
        waiting: dict[str, SliceSet] = {}
        for look in looks:
            stale = self._inputs.stale_by(
                look, model, self._candidates(look, model, possible, shown, consumed, now), consumed
            )
            if stale & possible:
                why[look.input.name] = why.get(look.input.name, nothing) | (stale & possible)
            there = self._arrived(look, model, stale - possible, world)
            if there:
                waiting = self._waiting(model, there, world, waiting)
        stale = _all(nothing, why)
        held = stale & self._held(model)
        # What a first load has yet to build isn't late, whatever was published of it already.
        arrived = _all(
            nothing, {look.input.name: why.get(look.input.name, nothing) for look in looks if look.watermark}
        )
        late = older_than_window(model, (stale - held) & (shown | arrived), now)
        blocked = {name for name, slices in why.items() if slices & held}
        untold = tuple(self._untold(model, world, shown, looks, consumed))
        if waiting or (untold and not possible):
            blocked |= {look.input.name for look in looks}
        return Found(
            model=model.name,
            stale=stale - held - late,
            why=why,
            held=held,
            late=late,
            exceptions=self._exceptions(model, looks, late, why),
            waiting=waiting,
            advances=self._inputs.moved([look for look in looks if look.input.name not in blocked]),
            unseen=unseen,
            notes=(*told, *untold),
            compared=self._known(shown, consumed) if is_deep else None,
        )

    def _left_alone(self, model: Model, looks: Sequence[Look], unseen: tuple[str, ...]) -> Found | None:
        back = {look.input.table: look.set_back for look in looks if look.set_back}
        gone = tuple(table for table in unseen if self._inputs.facts_of(table) is None)
        if not back and not gone:
            return None
        nothing = SliceSet(model.grain)
        none = Found(model=model.name, stale=nothing, held=nothing, late=nothing, unseen=unseen, notes=_notes(looks))
        return replace(none, set_back=back, gone=gone)

    def _exceptions(
        self, model: Model, looks: Sequence[Look], late: SliceSet, why: Mapping[str, SliceSet]
    ) -> tuple[LateChange, ...]:
        """What is late and not on record yet."""
        recorded = self._records.ledger.newest_exceptions(model.name) if late else {}
        found = (
            LateChange(
                model=model.name,
                slice=slice.label,
                contents={look.input.name: self._inputs.content(look, model, slice) for look in looks},
                because_of=tuple(name for name, slices in why.items() if slice in slices),
                snapshots={look.input.name: at for look in looks if (at := look.mark.snapshot_id) is not None},
            )
            for slice in late
            if slice.label not in recorded or not self._is_on_record(recorded[slice.label], model, looks, slice)
        )
        return tuple(found)

    def _is_on_record(self, entry: LateEntry, model: Model, looks: Sequence[Look], slice: Slice) -> bool:
        """Is what is late of a slice nothing but what was told of it before? Files that were only rewritten since
        aren't more.
        """
        seen = {
            name: Consumed(
                model=model.name,
                slice=slice.label,
                input=name,
                table=name,
                snapshot_id=entry.late.snapshots.get(name),
                content=content,
            )
            for name, content in entry.late.contents.items()
        }
        is_told = entry.decision is not Decision.RESTATED
        return is_told and all(self._inputs.is_consumed(look, model, slice, seen) for look in looks)

    def _new_by_upstream(
        self, model: Model, made: Mapping[str, SliceSet], world: World, now: datetime
    ) -> dict[str, SliceSet]:
        """By input: slices that were never published, and can be built once the load has made what they read. What is
        published and reads it is in the plan anyway.
        """
        seen = world
        for upstream, slices in made.items():
            seen = with_planned(seen, self._graph.models[upstream], slices)
        shown = world.published.get(model.name, SliceSet(model.grain))
        buildable = begun(self._buildable(model, seen, now), now) - shown
        found: dict[str, SliceSet] = {}
        for i in (i for i in model.inputs if is_followed(i) and i.table in made):
            readers = readers_of(i, model, made[i.table], self._graph)
            found[i.name] = buildable if readers is None else buildable & readers
        return {name: slices for name, slices in found.items() if slices}

    def _candidates(
        self,
        look: Look,
        model: Model,
        possible: SliceSet,
        shown: SliceSet,
        consumed: Consumption,
        now: datetime,
    ) -> SliceSet:
        """The slices that could be stale by this input."""
        if look.changed is None:
            # What was there before retcon knew it was made of nobody knows what: it stays until something changes.
            known = SliceSet.of(model.grain, (s.ordinal for s in possible if s not in shown or s.label in consumed))
            return known if look.recent is None else known | self._readers(look, look.recent, model, possible, now)
        # Also where another input lacks them: they wait, then.
        early = self._inputs.begun_since(look, model, now) - shown
        return early if look.is_unchanged else early | self._readers(look, look.changed, model, possible, now)

    def _readers(self, look: Look, changed: Changed, model: Model, possible: SliceSet, now: datetime) -> SliceSet:
        readers = readers_of(look.input, model, changed.slices, self._graph)
        return from_start(model, begun(possible if readers is None else readers, now))

    def _consumed_of(self, model: Model, looks: Sequence[Look], now: datetime) -> Consumption:
        """What the slices that could be stale were computed from: a long history isn't read for a few changes."""
        touched = SliceSet(model.grain)
        for look in (look for look in looks if not look.is_unchanged):
            changed = look.changed
            readers = None if changed is None else readers_of(look.input, model, changed.slices, self._graph)
            if readers is None:
                return self._records.ledger.standing_consumption(model.name)
            touched |= begun(readers, now)
        return self._records.ledger.standing_consumption(model.name, touched.labels)

    # ── for plans ─────────────────────────────────────────────────────────────────────────────────────────────────

    def _stale(self, model: Model, now: datetime) -> Stale:
        looks, unseen = self._inputs.of_model(model)
        nothing = SliceSet(model.grain)
        world = self._world(model)
        shown = world.published.get(model.name, nothing)
        possible = begun(shown | self._buildable(model, world, now), now)
        consumed = self._records.ledger.standing_consumption(model.name)
        known = self._known(shown, consumed)
        by_input = {look.input.name: self._inputs.stale_by(look, model, known, consumed) for look in looks}
        return Stale(
            model=model.name,
            compared=possible,
            by_input={name: slices for name, slices in by_input.items() if slices},
            by_code=self.stale_by_code(model.name) & known,
            missing=possible - shown,
            unknown=shown - known,
            unseen=unseen,
        )

    def _known(self, shown: SliceSet, consumed: Consumption) -> SliceSet:
        """Published slices of which it is on record what they were computed from."""
        return SliceSet.of(shown.grain, (s.ordinal for s in shown if s.label in consumed))

    # ── the model ─────────────────────────────────────────────────────────────────────────────────────────────────

    def _held(self, model: Model) -> SliceSet:
        return SliceSet.labelled(model.grain, self._records.ledger.held_slices(model.name))

    def _buildable(self, model: Model, world: World, now: datetime) -> SliceSet:
        """What all inputs hold; where they don't tell what they hold, all since the model's start that is over."""
        if not isinstance(model.grain, Grain) or tells_history(model, self._graph, world):
            return from_start(model, held_by_inputs(model, self._graph, world, now))
        start = model.slicing.start
        if start is None or not is_untold(model, self._graph, world):
            return SliceSet(model.grain)
        return SliceSet(model.grain, tuple(range(model.grain.ordinal(start), model.grain.ordinal(now))))

    def _untold(
        self, model: Model, world: World, shown: SliceSet, looks: Sequence[Look], consumed: Consumption
    ) -> Iterator[str]:
        """What a load can't see of the model's slices."""
        if is_untold(model, self._graph, world) and model.slicing.start is None:
            yield f"{model.name}: its inputs don't tell which slices there are: with `slices.start` loads build them"
        for look in looks:
            if look.watermark is not None and look.changed is None and look.recent is None:
                unknown = shown - self._known(shown, consumed)
                if unknown:
                    yield (
                        f"{model.name}: {abridged(unknown)} was there before retcon, and {look.input.table} doesn't "
                        "tell whether it changed there: `retcon plan` restates it"
                    )

    def _arrived(self, look: Look, model: Model, slices: SliceSet, world: World) -> SliceSet:
        """Those whose own time the input holds; the others only read something of it that comes before."""
        held = world.contents.get((look.input.table, look.by, look.cut))
        if held is None or not isinstance(model.grain, Grain) or not isinstance(look.cut, Grain):
            return SliceSet(model.grain)
        return SliceSet.of(
            model.grain, (s.ordinal for s in slices if SliceSet(s.grain, (s.ordinal,)).recut(look.cut) & held.present)
        )

    def _waiting(
        self, model: Model, slices: SliceSet, world: World, so_far: Mapping[str, SliceSet]
    ) -> dict[str, SliceSet]:
        """Which table lacks something, for slices that can't be computed yet."""
        found = dict(so_far)
        for i in (i for i in model.inputs if i.time is not None and not i.is_own):
            reading = self._inputs.reading(model, i)
            held = None if reading is None else world.contents.get((i.table, i.column(model.grain), reading.resolution))
            if reading is None or held is None or not held.tells_slices:
                continue
            lacking = SliceSet.of(
                model.grain,
                (
                    s.ordinal
                    for s in slices
                    if (reads := i.read_by(SliceSet(s.grain, (s.ordinal,)), reading.resolution)) - held.holding(reads)
                ),
            )
            if lacking:
                found[i.table] = found.get(i.table, SliceSet(model.grain)) | lacking
        return found

    def _world(self, model: Model) -> World:
        if model.name not in self._worlds:
            r = self._records
            self._worlds[model.name] = world_of(r.project, r.tables, r.ledger, (model.name,))
        return self._worlds[model.name]


def _notes(looks: Sequence[Look]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(note for look in looks for note in look.notes))


def _all(nothing: SliceSet, parts: Mapping[str, SliceSet]) -> SliceSet:
    found = nothing
    for slices in parts.values():
        found |= slices
    return found
