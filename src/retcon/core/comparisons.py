"""Comparisons of models with what there is: what their slices were computed from, and what inputs hold now."""

from __future__ import annotations

from retcon.core.models import Input
from retcon.core.slices import WHOLE, Cut, SliceSet
from retcon.core.watermarks import Mark, Watermark
from retcon.values import dataclass


@dataclass(frozen=True, kw_only=True)
class ComparedInput:
    """One input of a model that loads follow, compared slice by slice with what was consumed of it."""

    input: Input
    by: str | None
    cut: Cut
    mark: Mark
    """Where it is now."""
    watermark: Watermark | None
    differs: SliceSet
    """Computed from other content than it has now."""
    untold: SliceSet
    """Published slices of which it isn't known what they were computed from: some keys only, or it expired."""
    ahead: SliceSet
    """The next load looks at them: something came after the watermark, or there is none."""

    def reads(self, slices: SliceSet) -> SliceSet:
        """What these slices read of it."""
        return SliceSet(WHOLE, (0,)) if self.by is None else self.input.read_by(slices, self.cut)


@dataclass(frozen=True, kw_only=True)
class Compared:
    """A model, compared with what there is, whatever its watermarks say."""

    model: str
    slices: SliceSet
    """That are published, and known what they were computed from."""
    missing: SliceSet
    """That the inputs hold and nobody built."""
    unknown: SliceSet
    """There before retcon wrote them."""
    held: SliceSet
    late: SliceSet
    """Older than the model's window, of those that differ or are missing."""
    inputs: tuple[ComparedInput, ...]
    unseen: tuple[str, ...]
    """Tables whose changes can't be seen."""

    def passed(self, by: ComparedInput) -> SliceSet:
        """What differs by an input, or was never built, and no load will take up."""
        return (by.differs | self.missing) - self._ahead(by) - self.held - self.late

    def not_loaded_yet(self, by: ComparedInput) -> SliceSet:
        return ((by.differs | self.missing) & self._ahead(by)) - self.held - self.late

    def _ahead(self, by: ComparedInput) -> SliceSet:
        """A slice that was never built is ahead as soon as one of its inputs is."""
        found = by.ahead
        for each in self.inputs:
            found |= each.ahead & self.missing
        return found
