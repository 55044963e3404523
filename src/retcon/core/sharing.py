"""Sharing: inputs that many waves of a run read whole, and what it is worth to keep them in memory meanwhile."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from retcon.core.jobs import Job
from retcon.core.plans import Origin, PlannedModel
from retcon.core.projects import Source
from retcon.values import dataclass


@dataclass(frozen=True, kw_only=True)
class _Weight:
    """Of one kind of files, against a byte of them read (measured: docs/decisions)."""

    saved: float
    """What is left out where memory is read instead."""
    stored: float
    """What it takes in memory."""


_TEXT = _Weight(saved=0.85, stored=0.2)
"""Numbers and dates are parsed once, and take less room than their digits."""
_COLUMNS = _Weight(saved=0.2, stored=2.7)
"""Read almost as fast from files, which are packed far better."""
_WEIGHTS = {"csv": _TEXT, "json": _TEXT}


@dataclass(frozen=True, kw_only=True)
class Shared:
    """An input that is read whole more often than once."""

    table: str
    reads: int
    bytes: int
    format: str | None
    """None: an Iceberg table."""

    @property
    def saved(self) -> int:
        """Bytes that needn't be read again, less what it takes to read them from memory."""
        return round(self.bytes * (self.reads - 1) * self._weight.saved)

    @property
    def stored(self) -> int:
        return round(self.bytes * self._weight.stored)

    @property
    def _weight(self) -> _Weight:
        return _WEIGHTS.get(self.format or "", _COLUMNS)


def kept_inputs(models: Iterable[PlannedModel], sources: Mapping[str, Source]) -> Mapping[str, Shared]:
    """By table: what is worth keeping, since that saves more bytes than it stores. With all of its columns, so not
    where other rows would come than with those that are needed.
    """
    found: dict[str, Shared] = {}
    for planned in models:
        for each in _read_whole(planned):
            before = found.get(each.table)
            found[each.table] = each if before is None else replace(before, reads=before.reads + each.reads)
    unlike = {table for table, source in sources.items() if source.may_drop_rows}
    return {table: each for table, each in found.items() if each.saved > each.stored and table not in unlike}


def _read_whole(planned: PlannedModel) -> Iterator[Shared]:
    for i in planned.inputs:
        # What the run itself makes has no size yet, and what is read as of a slice's end is another table each time.
        if i.slices is None and i.bytes is not None and i.origin is not Origin.RUN and not i.versions:
            yield Shared(table=i.table, reads=len(planned.waves), bytes=i.bytes, format=i.format)


def with_kept(job: Job, planned: PlannedModel, kept: Mapping[str, Shared]) -> Job:
    """The same job, reading what is kept from where it is."""
    of_slices = {i.name for i in planned.inputs if i.versions}
    reads = {
        name: replace(read, is_kept=True)
        if read.table in kept and read.slices is None and name not in of_slices
        else read
        for name, read in job.reads.items()
    }
    return replace(job, reads=reads)
