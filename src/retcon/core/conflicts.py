"""Conflicts: what others did to a run's tables while it was under way, and what of the run that leaves standing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from datetime import datetime

from retcon.core.models import Input, Model
from retcon.core.plans import PlannedModel
from retcon.core.slices import Cut, Grain, SliceSet
from retcon.core.tables import Changed
from retcon.values import dataclass

REWRITE = "replace"
"""Iceberg's word for a commit that writes the same rows into other files, as compaction does."""
MOST_ROUNDS = 3
"""How often one `apply` stages slices anew because others wrote there meanwhile."""


@dataclass(frozen=True, kw_only=True)
class RowsMoved:
    """Rows of one slice that came with data files, and that went with them."""

    added: int = 0
    removed: int = 0
    is_known: bool = True
    """Not where a file has rows of other slices too, or rows went by delete files."""


@dataclass(frozen=True, kw_only=True)
class Commit:
    """One commit on production, by the slices whose rows it changed: none where it only rewrote files."""

    snapshot_id: int
    operation: str
    run: str | None
    """The run whose publish it is, where retcon made it."""
    added: Changed
    removed: Changed
    """Data files that were taken out, and rows that were by delete files."""
    at: datetime | None = None
    """When it was made."""
    rows: Mapping[int, RowsMoved] = field(default_factory=dict)
    """By slice, as the files' own counts tell."""

    @property
    def is_rewrite(self) -> bool:
        return self.operation == REWRITE

    @property
    def text(self) -> str:
        return commit_text(self.snapshot_id, self.operation, self.run)

    def touches(self, slices: SliceSet) -> bool:
        return bool(self.added.within(slices) or self.removed.within(slices))

    def rows_in(self, slices: SliceSet) -> tuple[int | None, int | None]:
        """How many rows came into these slices and went out of them; None where the metadata can't tell."""
        moved = [self.rows[ordinal] for ordinal in slices.ordinals if ordinal in self.rows]
        if self.added.everything or self.removed.everything or not all(each.is_known for each in moved):
            return None, None
        return sum(each.added for each in moved), sum(each.removed for each in moved)


def commit_text(snapshot_id: int, operation: str, run: str | None) -> str:
    """`snapshot 42 (append)`, `snapshot 43 (overwrite by run 20260122_…)`."""
    return f"snapshot {snapshot_id} ({operation}{f' by run {run}' if run else ''})"


def changed_by(commits: Iterable[Commit], cut: Cut) -> Changed:
    """The slices in which these commits changed rows."""
    parts = [part for commit in commits if not commit.is_rewrite for part in (commit.added, commit.removed)]
    return Changed(
        slices=SliceSet.of(cut, (ordinal for part in parts for ordinal in part.slices.ordinals)),
        everything=any(part.everything for part in parts),
    )


def taken_out(commits: Iterable[Commit], scope: SliceSet) -> tuple[Commit, SliceSet] | None:
    """The first commit that took rows out of slices that a run writes: computed again, they could come back.

    The publish of another run isn't one: what it replaced, it computed from inputs, as this run does again.
    """
    for commit in commits:
        hit = commit.removed.within(scope)
        if hit and commit.run is None and not commit.is_rewrite:
            return commit, hit
    return None


@dataclass(frozen=True, kw_only=True)
class Share:
    """One model of a run, and what changed for it since the run began."""

    model: Model
    planned: PlannedModel
    hit: SliceSet
    """Of its own slices: others changed their rows in production."""
    changed: Mapping[str, Changed]
    """By input: what changed of it, told in the slices in which it is read."""


def to_restage(shares: Sequence[Share]) -> dict[str, SliceSet]:
    """The slices of each model that must be computed again, in the order of the run: those that others wrote to, and
    all that read, here or further up, something that changed or is computed again.
    """
    upstream = {share.planned.name: share.model for share in shares}
    found: dict[str, SliceSet] = {}
    for share in shares:
        anew = share.hit | by_inputs(share)
        for i in share.model.inputs:
            if i.table in found and not i.at_slice_end:
                anew |= readers_in(i, share.planned, found[i.table], upstream[i.table])
        if anew and share.model.reads_itself:
            anew = SliceSet(anew.grain, tuple(o for o in share.planned.slices.ordinals if o >= anew.ordinals[0]))
        if anew and share.model.needs_contiguous_waves:
            anew = _without_gaps(share.planned, anew)
        if anew:
            found[share.planned.name] = anew
    return found


def readers_in(i: Input, planned: PlannedModel, slices: SliceSet, upstream: Model) -> SliceSet:
    """The planned slices of a model that read something of these slices of another."""
    return _readers(i, planned, _as_read(i, planned, slices, upstream))


def by_inputs(share: Share) -> SliceSet:
    """The slices of a model whose inputs changed."""
    anew = SliceSet(share.planned.slices.grain)
    for i in share.model.inputs:
        if i.name in share.changed:
            anew |= _readers(i, share.planned, share.changed[i.name])
    return anew


def _readers(i: Input, planned: PlannedModel, changed: Changed) -> SliceSet:
    """The planned slices that read something of this."""
    reads, cut = planned.input(i.name).slices, planned.slices.grain
    if not changed:
        return SliceSet(cut)
    if reads is None or changed.everything:
        return planned.slices
    return SliceSet(
        cut, tuple(o for o in planned.slices.ordinals if i.read_by(SliceSet(cut, (o,)), reads.grain) & changed.slices)
    )


def _as_read(i: Input, planned: PlannedModel, slices: SliceSet, upstream: Model) -> Changed:
    """Slices of a model as another reads them: all of them, where that is by another column or cut."""
    reads, by, column = planned.input(i.name).slices, upstream.slicing.by, i.column(planned.slices.grain)
    if reads is not None and by is not None and column is not None and by.lower() == column.lower():
        if isinstance(reads.grain, Grain) and isinstance(slices.grain, Grain):
            return Changed(slices=slices.recut(reads.grain))
        if reads.grain == slices.grain:
            return Changed(slices=slices)
    return Changed(slices=slices, everything=True)


def _without_gaps(planned: PlannedModel, slices: SliceSet) -> SliceSet:
    """A wave that is told where it starts and ends has no gaps in it."""
    found = SliceSet(slices.grain)
    for wave in planned.waves:
        hit = wave & slices
        if hit:
            found |= wave & SliceSet.span(wave.grain, hit.ordinals[0], hit.ordinals[-1])
    return found
