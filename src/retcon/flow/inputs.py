"""Inputs: what became of them since their watermarks, and since slices were computed from them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import cached_property

from retcon.core.loads import is_followed
from retcon.core.models import Input, Model
from retcon.core.ranges import from_start
from retcon.core.readings import Reading, reading_of
from retcon.core.reads import Read, read_of
from retcon.core.runs import Consumed
from retcon.core.slices import WHOLE, Cut, Grain, Slice, SliceSet
from retcon.core.tables import Changed, TableFacts
from retcon.core.watermarks import Advance, Mark, Watermark, ahead_since, ahead_value
from retcon.flow.contents import UNKNOWN, content_of_read, is_told
from retcon.flow.look import Look, Seen, look_at_updates
from retcon.flow.records import Records
from retcon.flow.standing import standing_at

Consumption = Mapping[str, Mapping[str, Consumed]]
"""By slice and input."""


class Inputs:
    """Looks at the inputs of models, each once."""

    def __init__(self, records: Records) -> None:
        self._records = records
        self._graph = records.project.graph
        self._facts: dict[str, TableFacts | None] = {}
        self._readings: dict[tuple[str, str], Reading | None] = {}
        self._checksums: dict[str, Mapping[Slice, str]] = {}
        self._changes: dict[tuple[str, str | None, Cut, int | None], Changed | None] = {}
        self.now: datetime | None = None
        """When a load looks at rows, and no further than its watermarks say; None: everything is compared."""

    def of_model(self, model: Model) -> tuple[list[Look], tuple[str, ...]]:
        """The inputs that are followed, and the tables among them whose changes can't be seen."""
        followed = [i for i in model.inputs if is_followed(i)]
        looks = [look for i in followed if (look := self._look(model, i)) is not None]
        seen = {look.input.name for look in looks}
        # A model that wasn't made yet has no changes; it will be seen when it is.
        return looks, tuple(i.table for i in followed if i.name not in seen and i.table not in self._graph.models)

    def _look(self, model: Model, i: Input) -> Look | None:
        facts = self.facts_of(i.table)
        if facts is None:
            return None
        reading = self.reading(model, i)
        by, cut = (None, WHOLE) if reading is None else (i.column(model.grain), reading.resolution)
        watermark = self._watermarks.get((model.name, i.name))
        value = watermark.mark.value if watermark is not None and facts.uuid else None
        seen: Seen | None = None
        source = self._records.project.settings.foreign.get(i.table)
        if source is not None and source.updated is not None and self.now is not None:
            place = (by, cut, facts.snapshot_id)
            tables, others = self._records.tables, self._watermarks.values()
            seen = look_at_updates(source, model, place, watermark, others, tables, self.now)
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
            looked=self.now,
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

    @cached_property
    def _standing(self) -> tuple[Mapping[tuple[str, str], int], Mapping[tuple[str, str], Watermark]]:
        """Movements first: one that comes in between isn't taken for known, and stays."""
        return self._records.ledger.movements(), self._records.ledger.watermarks()

    @property
    def _watermarks(self) -> Mapping[tuple[str, str], Watermark]:
        return self._standing[1]

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

    def commits(self, look: Look, slice: Slice, known: Consumed) -> str:
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

    def moved(self, looks: Sequence[Look]) -> tuple[Advance, ...]:
        """The marks that aren't where the watermarks are."""
        return tuple(
            Advance(mark=look.mark, after=self._standing[0].get((look.mark.model, look.mark.input), 0))
            for look in looks
            if look.watermark is None or look.watermark.mark != look.mark
        )

    def with_ahead(self, look: Look, now: datetime) -> Look:
        """With a mark that tells from when on an Iceberg table holds rows of slices that haven't begun."""
        cut = look.cut
        if not look.mark.uuid or look.by is None or not isinstance(cut, Grain):
            return look
        held = self._records.contents(look.input.table, look.by, cut, look.mark.snapshot_id).present
        first = next((ordinal for ordinal in held.ordinals if ordinal > cut.ordinal(now)), None)
        value = ahead_value(None if first is None else cut.start(first))
        return replace(look, mark=replace(look.mark, value=value))

    def begun_since(self, look: Look, model: Model, now: datetime) -> SliceSet:
        """Slices that hadn't begun when the watermark moved, of which the input may have held rows by then: no change
        of it will tell of them.
        """
        since, nothing = look.watermark, SliceSet(model.grain)
        if since is None or look.by is None or not isinstance(model.grain, Grain):
            return nothing
        ahead = ahead_since(since.mark)
        if look.mark.uuid and ahead is None:
            return nothing
        # A load may have looked at it long before it was published.
        looked = since.mark.looked or since.at
        first = model.grain.ordinal(looked) + 1 if ahead is None else model.grain.ordinal(ahead)
        new = SliceSet(model.grain, tuple(range(first, model.grain.ordinal(now) + 1)))
        if not new:
            return nothing
        held = self._records.contents(look.input.table, look.by, look.cut, look.mark.snapshot_id)
        is_held = held.tells_slices and held.holding(look.input.read_by(new, look.cut))
        return from_start(model, new) if is_held else nothing

    def stale_by(self, look: Look, model: Model, slices: SliceSet, consumed: Consumption) -> SliceSet:
        """Of these slices, those whose share of an input isn't what they were computed from."""
        self.look_at(look, slices)
        return SliceSet.of(
            model.grain,
            (s.ordinal for s in slices if not self.is_consumed(look, model, s, consumed.get(s.label, {}))),
        )

    def look_at(self, look: Look, slices: SliceSet) -> None:
        """At the rows that these slices read, once and not slice by slice."""
        if slices and look.by is not None and not look.mark.uuid:
            held = self._records.contents(look.input.table, look.by, look.cut, look.mark.snapshot_id)
            held.of(look.input.read_by(slices, look.cut))

    def is_consumed(self, look: Look, model: Model, slice: Slice, consumed: Mapping[str, Consumed]) -> bool:
        known = consumed.get(look.input.name)
        if known is None or known.content == UNKNOWN:
            return False
        if known.content == self.content(look, model, slice):
            return True
        if self._is_by_rows(look, model) or not look.mark.uuid or known.content.startswith("keys:"):
            return False
        # Other files: the same rows, where they were only rewritten since.
        changed = self._changed(look.mark, look.by, look.cut, known.snapshot_id)
        read = self._read(look, model, slice)
        return changed is not None and not (changed.slices & read.slices if read.slices is not None else changed)

    def content(self, look: Look, model: Model, slice: Slice) -> str:
        """What an input holds now of what a slice reads."""
        upstream = self._graph.models.get(look.input.table)
        is_by_rows = self._is_by_rows(look, model)
        told = self._checksums_of(look.input.table, look.mark.snapshot_id) if is_by_rows else None
        cut = upstream.grain if upstream is not None else None
        return content_of_read(self._read(look, model, slice), told, self._records, cut)

    def _is_by_rows(self, look: Look, model: Model) -> bool:
        return look.input.table in self._graph.models and is_told(look.input, model.grain, self._graph)

    def _read(self, look: Look, model: Model, slice: Slice) -> Read:
        reading = self.reading(model, look.input)
        one = SliceSet(slice.grain, (slice.ordinal,))
        return read_of(look.input, one, None if reading is None else reading.resolution, look.mark.snapshot_id)

    def _checksums_of(self, model: str, snapshot_id: int | None) -> Mapping[Slice, str]:
        if model not in self._checksums:
            standing = standing_at(self._records, model, snapshot_id)
            self._checksums[model] = {slice: held.checksum for slice, held in standing.items()}
        return self._checksums[model]

    def reading(self, model: Model, i: Input) -> Reading | None:
        """In which slices a model reads an input."""
        key = (model.name, i.name)
        if key not in self._readings:
            self._readings[key] = reading_of(i, model.grain, self._graph, self.facts_of(i.table))
        return self._readings[key]

    def facts_of(self, table: str) -> TableFacts | None:
        if table not in self._facts:
            self._facts[table] = self._records.tables.facts(table)
        return self._facts[table]
