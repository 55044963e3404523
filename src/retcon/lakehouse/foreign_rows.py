"""The rows of a source that is known by an `updated` column, looked at no more than is asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import field
from datetime import datetime

from retcon.core.slices import Cut, Grain, SliceSet
from retcon.core.tables import Content, TableContents, TableFile, Told, content_of
from retcon.core.updates import SliceRows, Updates, Wanted, updates_of
from retcon.values import dataclass

Look = Callable[[Wanted], tuple[SliceRows, ...]]
"""One Spark job."""


class SourceRows:
    """What was seen of a source in one turn: what a load needs of it, or everything, each once."""

    def __init__(self, look: Look, time: str | None, cut: Cut) -> None:
        self._look = look
        self._wanted = Wanted(time=time, cut=cut)
        self._files: dict[int, TableFile] = {}
        """By slice."""
        self._looked = SliceSet(cut)
        self._recent = SliceSet(cut)
        """Slices that are known to hold rows, of which nothing else is known yet."""
        self._updates: dict[tuple[datetime, datetime], Updates] = {}
        """By the moments since when, and after which rows are ahead of their time."""
        self._rows: tuple[SliceRows, ...] | None = None
        self._until: datetime | None = None
        """What of all rows was taken for ahead of its time."""
        self._is_narrow = False

    def updates(self, since: datetime | None, until: datetime) -> Updates:
        """What was updated since a moment. From then on a load asks for no more than it needs."""
        cut = self._wanted.cut
        if since is None or (self._rows is not None and self._until == until):
            return updates_of(self._everything(until), cut, since)
        if (since, until) not in self._updates:
            wanted = Wanted(time=self._wanted.time, cut=cut, since=since, until=until)
            seen = self._updates[since, until] = updates_of(self._look(wanted), cut, since)
            self._recent |= seen.changed.slices
            self._is_narrow = True
        return self._updates[since, until]

    def files(self, slices: SliceSet | None) -> list[TableFile]:
        """What these slices hold, or all of them, as if it were in files."""
        if slices is None or not isinstance(self._wanted.cut, Grain) or self._wanted.time is None:
            return [rows.file for rows in self._everything()]
        if not self.knows(slices):
            self._know(slices - self._looked)
        found = {file.path: file for ordinal in slices.ordinals if (file := self._files.get(ordinal)) is not None}
        return list(found.values())

    def files_of_all(self, slices: SliceSet) -> list[TableFile]:
        """The same, once everything was looked at."""
        self._everything()
        return self.files(slices)

    def knows(self, slices: SliceSet) -> bool:
        """Was everything of these slices looked at?"""
        return self._rows is not None or not slices - self._looked

    def present(self) -> SliceSet:
        """The slices that hold rows: of those that were asked for, or, where nobody did, of all."""
        if not self._is_narrow:
            self._everything()
        return SliceSet.of(self._wanted.cut, self._files) | self._recent

    def _know(self, slices: SliceSet) -> None:
        wanted = Wanted(time=self._wanted.time, cut=self._wanted.cut, within=slices)
        self._keep(self._look(wanted))
        self._looked |= slices

    def _everything(self, until: datetime | None = None) -> tuple[SliceRows, ...]:
        if self._rows is None or until not in (None, self._until):
            self._rows = self._look(Wanted(time=self._wanted.time, cut=self._wanted.cut, until=until))
            self._until = until
            self._keep(self._rows)
            self._is_narrow = False
        return self._rows

    def _keep(self, found: Iterable[SliceRows]) -> None:
        self._files |= {ordinal: rows.file for rows in found for ordinal in rows.file.slices}


@dataclass(frozen=True, kw_only=True)
class LookedAt(TableContents):
    """The same as other tables' contents are, looked at when it is asked for."""

    rows: SourceRows = field(compare=False)
    told: Told = Told.UPDATES

    @property
    def present(self) -> SliceSet:
        return self.rows.present()

    @property
    def tells_slices(self) -> bool:
        return isinstance(self.grain, Grain)

    def holding(self, slices: SliceSet) -> SliceSet:
        self.rows.files(slices)
        return slices & self.present

    def overlapping(self, slices: SliceSet) -> list[TableFile]:
        # Asked slice by slice: rather one look at everything than one for each.
        return self.rows.files(slices) if self.rows.knows(slices) else self.rows.files_of_all(slices)

    def of(self, slices: SliceSet | None) -> Content:
        return content_of(self.rows.files(slices))
