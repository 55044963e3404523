"""Look: what became of an input since its watermark."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from retcon.core.models import Input, Model
from retcon.core.projects import Source
from retcon.core.slices import Cut
from retcon.core.tables import Changed
from retcon.core.updates import looked_from, mark_value, marked_moment, set_back, update_notes
from retcon.core.watermarks import Mark, Watermark
from retcon.flow.ports import Tables
from retcon.values import dataclass


@dataclass(frozen=True, kw_only=True)
class Look:
    """One input of a model, as it is now."""

    input: Input
    by: str | None
    cut: Cut
    mark: Mark
    watermark: Watermark | None
    changed: Changed | None
    """Since the watermark; None: that can't be told, so that all has to be compared with what was consumed."""
    recent: Changed | None = None
    """Where all is compared: what is known to have changed since the watermark all the same; None: that isn't told."""
    set_back: str = ""
    """Why it looks as if it was restored from a backup; empty where it doesn't."""
    notes: tuple[str, ...] = ()
    """What is to be said of its rows."""

    @property
    def is_unchanged(self) -> bool:
        return self.changed is not None and not self.changed


@dataclass(frozen=True, kw_only=True)
class Seen:
    """What the rows of an input tell that is known by an `updated` column."""

    value: str | None
    changed: Changed | None
    recent: Changed | None
    set_back: str
    notes: tuple[str, ...]


def look_at_updates(
    source: Source,
    model: Model,
    place: tuple[str | None, Cut, int | None],
    watermark: Watermark | None,
    others: Iterable[Watermark],
    tables: Tables,
    now: datetime,
) -> Seen:
    """Look at the rows that were updated since the watermark, or, where rows have a `key`, at all of them."""
    assert source.updated is not None
    (by, cut, version), column = place, source.updated
    known = marked_moment(watermark.mark.value, column) if watermark is not None else None
    recently = looked_from(known, model.replay.reprocess_days)
    since = None if source.key else recently
    # What was seen once isn't ahead of its time, whatever the clock says now.
    marks = (marked_moment(w.mark.value, column) for w in others if w.mark.table == source.name)
    until = max([now, *(moment for moment in marks if moment is not None)])
    seen = tables.updates(source.name, time=by, grain=cut, snapshot_id=version, since=since, until=until)
    # Of rows that were looked at just now.
    recent = tables.updates(source.name, time=by, grain=cut, snapshot_id=version, since=recently, until=until)
    is_told = recently is not None and not recent.changed.everything
    return Seen(
        value=mark_value(column, seen.newest),
        changed=seen.changed if is_told and since is not None else None,
        recent=recent.changed if is_told else None,
        set_back=set_back(source.name, column, known, seen.newest),
        notes=tuple(update_notes(source.name, column, seen)),
    )
