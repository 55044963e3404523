"""Find: which slices are stale because their inputs changed. From metadata and the ledger, without a JVM; of sources
that are known by an `updated` column, from their rows.

What a slice consumed of each input is on record; a slice is stale where that isn't what there is now. A watermark only
saves looking: everything up to it was looked at before.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import cached_property

from retcon.core.drifts import Compared, ComparedInput
from retcon.core.exceptions import LateChange
from retcon.core.jobs import Read
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
from retcon.core.readings import Reading, reading_of
from retcon.core.runs import Consumed
from retcon.core.slices import WHOLE, Cut, Grain, Slice, SliceSet
from retcon.core.tables import Changed, TableFacts
from retcon.core.watermarks import Advance, Mark, Watermark, ahead_since, ahead_value
from retcon.flow.consume import UNKNOWN, content_of_read, is_comparable, is_told
from retcon.flow.context import read_of
from retcon.flow.look import Look, Seen, look_at_updates
from retcon.flow.ports import Ledger, Tables
from retcon.flow.records import Records
from retcon.flow.standing import standing_at
from retcon.flow.worlds import with_planned, world_of

_Consumption = Mapping[str, Mapping[str, Consumed]]


class Finder:
    """Compares what models consumed with what there is."""

    def __init__(self, project: Project, tables: Tables, ledger: Ledger) -> None:
        self._records = Records(project=project, tables=tables, ledger=ledger)
        self._graph = project.graph
        self._facts: dict[str, TableFacts | None] = {}
        self._worlds: dict[str, World] = {}
        self._checksums: dict[str, Mapping[Slice, str]] = {}
        self._changes: dict[tuple[str, str | None, Cut, int | None], Changed | None] = {}
        self._now: datetime | None = None
        """When a load looks at rows, and no further than its watermarks say; None: everything is compared."""

    def find(self, names: Sequence[str], now: datetime, *, deep: Collection[str] = ()) -> list[Found]:
        """What of each model a load has to compute, upstream first. Of a deep one the whole history is compared,
        wherever its watermarks are.
        """
        self._now, wanted = now, set(names)
        self._records.tables.look_again()
        found: dict[str, Found] = {}
        for name in (name for name in self._graph.order if name in wanted):
            made = {upstream: each.stale for upstream, each in found.items() if each.stale}
            found[name] = self._find(self._graph.models[name], made, now, is_deep=name in deep)
        return list(found.values())

    def stale(self, names: Sequence[str], now: datetime) -> list[Stale]:
        """What of each model differs from what would be computed now, by inputs and by code, upstream first."""
        wanted = set(names)
        self._records.tables.look_again()
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
        looks, _ = self._looks(model)
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
        looks, unseen = self._looks(model)
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
                    differs=self._stale_by(look, model, told, consumed),
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
        elif self._is_consumed(look, model, slice, consumed):
            text = f"as it was read{at}"
        else:
            is_stale = True
            text = f"changed since it was read{at}: {self._commits(look, slice, known)}"
        return InputReason(input=i.name, table=i.table, is_stale=is_stale, text=text)

    def _commits(self, look: Look, slice: Slice, known: Consumed) -> str:
        """The commits since that touch what the slice reads."""
        commits = (
            self._records.tables.commits(
                look.input.table, time=look.by, grain=look.cut, since=known.snapshot_id, until=look.mark.snapshot_id
            )
            if look.mark.uuid
            else None
        )
        if commits is None:
            return "its history since then isn't known"
        one = SliceSet(slice.grain, (slice.ordinal,))
        reads = look.input.read_by(one, look.cut) if look.by is not None else None
        hits = [c.text for c in commits if not c.is_rewrite and (reads is None or c.touches(reads))]
        more = f" and {len(hits) - 3} more" if len(hits) > 3 else ""
        return ", ".join(hits[:3]) + more or "other rows, by no commit of its own"

    # ── for loads ─────────────────────────────────────────────────────────────────────────────────────────────────

    @cached_property
    def _standing(self) -> tuple[Mapping[tuple[str, str], int], Mapping[tuple[str, str], Watermark]]:
        """Movements first: one that comes in between isn't taken for known, and stays."""
        return self._records.ledger.movements(), self._records.ledger.watermarks()

    @property
    def _watermarks(self) -> Mapping[tuple[str, str], Watermark]:
        return self._standing[1]

    def _find(self, model: Model, made: Mapping[str, SliceSet], now: datetime, *, is_deep: bool) -> Found:
        """With what the load makes of models further up: their new slices make new ones here."""
        looks, unseen = self._looks(model)
        if is_deep:
            looks = [replace(look, changed=None, recent=look.changed or look.recent) for look in looks]
        nothing = SliceSet(model.grain)
        told = tuple(dict.fromkeys(note for look in looks for note in look.notes))
        back = {look.input.table: look.set_back for look in looks if look.set_back}
        gone = tuple(table for table in unseen if self._facts_of(table) is None)
        if back or gone:
            none = Found(model=model.name, stale=nothing, held=nothing, late=nothing, unseen=unseen, notes=told)
            return replace(none, set_back=back, gone=gone)
        is_following = any(i.table in made for i in model.inputs if is_followed(i))
        is_quiet = all(look.is_unchanged and not self._begun_since(look, model, now) for look in looks)
        if looks and is_quiet and not is_following:
            advances = self._moved(looks)
            none = Found(model=model.name, stale=nothing, held=nothing, late=nothing, unseen=unseen, notes=told)
            return replace(none, advances=advances)
        for look in looks:
            if look.changed:  # what there is of it is known before it is asked which slices can be built
                readers = readers_of(look.input, model, look.changed.slices, self._graph)
                self._look_at(look, begun(readers or nothing, now))
        world = self._world(model)
        looks = [self._ahead(look, now) for look in looks]
        shown = world.published.get(model.name, nothing)
        possible = begun(shown | self._buildable(model, world, now), now)
        consumed = self._consumed_of(model, looks, now)
        why = self._new_by_upstream(model, made, world, now) if is_following else {}
        new = over(possible - shown, now)
        if new and not looks and not is_following:
            why = {NEVER_BUILT: new}  # nothing tells of a change, and a day that is over isn't waited for
        waiting: dict[str, SliceSet] = {}
        for look in looks:
            stale = self._stale_by(look, model, self._candidates(look, model, possible, shown, consumed, now), consumed)
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
            advances=self._moved([look for look in looks if look.input.name not in blocked]),
            unseen=unseen,
            notes=(*told, *untold),
            compared=self._known(shown, consumed) if is_deep else None,
        )

    def _exceptions(
        self, model: Model, looks: Sequence[Look], late: SliceSet, why: Mapping[str, SliceSet]
    ) -> tuple[LateChange, ...]:
        """What is late and not on record yet."""
        recorded = self._records.ledger.newest_exceptions(model.name) if late else {}
        found = (
            LateChange(
                model=model.name,
                slice=slice.label,
                contents={look.input.name: self._content(look, model, slice) for look in looks},
                because_of=tuple(name for name, slices in why.items() if slice in slices),
            )
            for slice in late
        )
        return tuple(each for each in found if each.slice not in recorded or not recorded[each.slice].knows(each))

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
        consumed: _Consumption,
        now: datetime,
    ) -> SliceSet:
        """The slices that could be stale by this input."""
        early = self._begun_since(look, model, now) & (possible - shown)
        if look.is_unchanged:
            return early
        if look.changed is None:
            # What was there before retcon knew it was made of nobody knows what: it stays until something changes.
            known = SliceSet.of(model.grain, (s.ordinal for s in possible if s not in shown or s.label in consumed))
            return known if look.recent is None else known | self._readers(look, look.recent, model, possible, now)
        return early | self._readers(look, look.changed, model, possible, now)

    def _readers(self, look: Look, changed: Changed, model: Model, possible: SliceSet, now: datetime) -> SliceSet:
        readers = readers_of(look.input, model, changed.slices, self._graph)
        return from_start(model, begun(possible if readers is None else readers, now))

    def _begun_since(self, look: Look, model: Model, now: datetime) -> SliceSet:
        """Slices that hadn't begun when the watermark moved, of which the input may have held rows by then: no change
        of it will tell of them.
        """
        since, nothing = look.watermark, SliceSet(model.grain)
        if since is None or look.by is None or not isinstance(model.grain, Grain):
            return nothing
        ahead = ahead_since(since.mark)
        if look.mark.uuid and ahead is None:
            return nothing
        first = model.grain.ordinal(since.at) + 1 if ahead is None else model.grain.ordinal(ahead)
        new = SliceSet(model.grain, tuple(range(first, model.grain.ordinal(now) + 1)))
        if not new:
            return nothing
        held = self._records.contents(look.input.table, look.by, look.cut, look.mark.snapshot_id)
        is_held = held.tells_slices and held.holding(look.input.read_by(new, look.cut))
        return from_start(model, new) if is_held else nothing

    def _ahead(self, look: Look, now: datetime) -> Look:
        """With a mark that tells from when on an Iceberg table holds rows of slices that haven't begun."""
        cut = look.cut
        if not look.mark.uuid or look.by is None or not isinstance(cut, Grain):
            return look
        held = self._records.contents(look.input.table, look.by, cut, look.mark.snapshot_id).present
        first = next((ordinal for ordinal in held.ordinals if ordinal > cut.ordinal(now)), None)
        value = ahead_value(None if first is None else cut.start(first))
        return replace(look, mark=replace(look.mark, value=value))

    def _consumed_of(self, model: Model, looks: Sequence[Look], now: datetime) -> _Consumption:
        """What the slices that could be stale were computed from: a long history isn't read for a few changes."""
        touched = SliceSet(model.grain)
        for look in (look for look in looks if not look.is_unchanged):
            changed = look.changed
            readers = None if changed is None else readers_of(look.input, model, changed.slices, self._graph)
            if readers is None:
                return self._records.ledger.standing_consumption(model.name)
            touched |= begun(readers, now)
        return self._records.ledger.standing_consumption(model.name, touched.labels)

    def _moved(self, looks: Sequence[Look]) -> tuple[Advance, ...]:
        """The marks that aren't where the watermarks are."""
        return tuple(
            Advance(mark=look.mark, after=self._standing[0].get((look.mark.model, look.mark.input), 0))
            for look in looks
            if look.watermark is None or look.watermark.mark != look.mark
        )

    # ── for plans ─────────────────────────────────────────────────────────────────────────────────────────────────

    def _stale(self, model: Model, now: datetime) -> Stale:
        looks, unseen = self._looks(model)
        nothing = SliceSet(model.grain)
        world = self._world(model)
        shown = world.published.get(model.name, nothing)
        possible = begun(shown | self._buildable(model, world, now), now)
        consumed = self._records.ledger.standing_consumption(model.name)
        known = self._known(shown, consumed)
        by_input = {look.input.name: self._stale_by(look, model, known, consumed) for look in looks}
        return Stale(
            model=model.name,
            compared=possible,
            by_input={name: slices for name, slices in by_input.items() if slices},
            by_code=self.stale_by_code(model.name) & known,
            missing=possible - shown,
            unknown=shown - known,
            unseen=unseen,
        )

    def _known(self, shown: SliceSet, consumed: _Consumption) -> SliceSet:
        """Published slices of which it is on record what they were computed from."""
        return SliceSet.of(shown.grain, (s.ordinal for s in shown if s.label in consumed))

    # ── one input ─────────────────────────────────────────────────────────────────────────────────────────────────

    def _looks(self, model: Model) -> tuple[list[Look], tuple[str, ...]]:
        """The inputs that are followed, and the tables among them whose changes can't be seen."""
        followed = [i for i in model.inputs if is_followed(i)]
        looks = [look for i in followed if (look := self._look(model, i)) is not None]
        seen = {look.input.name for look in looks}
        # A model that wasn't made yet has no changes; it will be seen when it is.
        return looks, tuple(i.table for i in followed if i.name not in seen and i.table not in self._graph.models)

    def _look(self, model: Model, i: Input) -> Look | None:
        facts = self._facts_of(i.table)
        if facts is None:
            return None
        reading = self._reading(model, i)
        by, cut = (None, WHOLE) if reading is None else (i.column(model.grain), reading.resolution)
        watermark = self._watermarks.get((model.name, i.name))
        value = watermark.mark.value if watermark is not None and facts.uuid else None
        seen: Seen | None = None
        source = self._records.project.settings.foreign.get(i.table)
        if source is not None and source.updated is not None and self._now is not None:
            place = (by, cut, facts.snapshot_id)
            tables, others = self._records.tables, self._watermarks.values()
            seen = look_at_updates(source, model, place, watermark, others, tables, self._now)
            value = seen.value
        elif not facts.uuid:
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
        look = Look(input=i, by=by, cut=cut, mark=mark, watermark=watermark, changed=None)
        if watermark is None:
            return look if seen is None else replace(look, notes=seen.notes)
        if seen is not None:
            is_known = (watermark.mark.table, watermark.mark.uuid) == (mark.table, "")
            if not is_known:
                return replace(look, notes=seen.notes)
            return replace(look, changed=seen.changed, recent=seen.recent, set_back=seen.set_back, notes=seen.notes)
        changed = self._changed_since(watermark.mark, mark, by, cut)
        return replace(look, changed=changed, set_back=self._set_back(watermark.mark, mark) if changed is None else "")

    def _set_back(self, known: Mark, now: Mark) -> str:
        """Why an Iceberg source looks as if it was restored. What models show is moved by retcon's own rollbacks."""
        is_same = known.table == now.table and known.uuid == now.uuid != ""
        if not is_same or now.table in self._graph.models:
            return ""
        if not self._records.tables.was_set_back(now.table, known.snapshot_id):
            return ""
        return f"{now.table} was read at snapshot {known.snapshot_id}, which it went back behind: it was set back"

    def _changed_since(self, known: Mark, now: Mark, by: str | None, cut: Cut) -> Changed | None:
        if (known.table, known.uuid) != (now.table, now.uuid):
            return None
        if known.snapshot_id == now.snapshot_id and (now.uuid or known.value == now.value):
            return Changed(slices=SliceSet(cut))
        return self._changed(now, by, cut, known.snapshot_id) if now.uuid else None

    def _changed(self, now: Mark, by: str | None, cut: Cut, since: int | None) -> Changed | None:
        """What changed of a table since a snapshot; None where that isn't known, or not by slices."""
        key = (now.table, by, cut, since)
        if key not in self._changes:
            changed = self._records.tables.changed(now.table, time=by, grain=cut, since=since, until=now.snapshot_id)
            self._changes[key] = None if changed is not None and changed.everything else changed
        return self._changes[key]

    def _stale_by(self, look: Look, model: Model, slices: SliceSet, consumed: _Consumption) -> SliceSet:
        """Of these slices, those whose share of an input isn't what they were computed from."""
        self._look_at(look, slices)
        return SliceSet.of(
            model.grain,
            (s.ordinal for s in slices if not self._is_consumed(look, model, s, consumed.get(s.label, {}))),
        )

    def _look_at(self, look: Look, slices: SliceSet) -> None:
        """At the rows that these slices read, once and not slice by slice."""
        if slices and look.by is not None and not look.mark.uuid:
            held = self._records.contents(look.input.table, look.by, look.cut, look.mark.snapshot_id)
            held.of(look.input.read_by(slices, look.cut))

    def _is_consumed(self, look: Look, model: Model, slice: Slice, consumed: Mapping[str, Consumed]) -> bool:
        known = consumed.get(look.input.name)
        if known is None or known.content == UNKNOWN:
            return False
        if known.content == self._content(look, model, slice):
            return True
        if self._is_by_rows(look, model) or not look.mark.uuid or known.content.startswith("keys:"):
            return False
        # Other files: the same rows, where they were only rewritten since.
        changed = self._changed(look.mark, look.by, look.cut, known.snapshot_id)
        read = self._read(look, model, slice)
        return changed is not None and not (changed.slices & read.slices if read.slices is not None else changed)

    def _content(self, look: Look, model: Model, slice: Slice) -> str:
        """What an input holds now of what a slice reads."""
        upstream = self._graph.models.get(look.input.table)
        is_by_rows = self._is_by_rows(look, model)
        told = self._checksums_of(look.input.table, look.mark.snapshot_id) if is_by_rows else None
        cut = upstream.grain if upstream is not None else None
        return content_of_read(self._read(look, model, slice), told, self._records, cut)

    def _is_by_rows(self, look: Look, model: Model) -> bool:
        return look.input.table in self._graph.models and is_told(look.input, model.grain, self._graph)

    def _read(self, look: Look, model: Model, slice: Slice) -> Read:
        reading = self._reading(model, look.input)
        one = SliceSet(slice.grain, (slice.ordinal,))
        return read_of(look.input, one, None if reading is None else reading.resolution, look.mark.snapshot_id)

    def _checksums_of(self, model: str, snapshot_id: int | None) -> Mapping[Slice, str]:
        if model not in self._checksums:
            standing = standing_at(self._records, model, snapshot_id)
            self._checksums[model] = {slice: held.checksum for slice, held in standing.items()}
        return self._checksums[model]

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
        self, model: Model, world: World, shown: SliceSet, looks: Sequence[Look], consumed: _Consumption
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
            reading = self._reading(model, i)
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


def _all(nothing: SliceSet, parts: Mapping[str, SliceSet]) -> SliceSet:
    found = nothing
    for slices in parts.values():
        found |= slices
    return found
