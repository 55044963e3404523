"""Early cut-off: what reads nothing that came out otherwise isn't computed, what came out as it was isn't published."""

from __future__ import annotations

from collections.abc import Mapping

from retcon.core.evolution import changed_columns
from retcon.core.loads import is_followed
from retcon.core.plans import PlannedModel, code_of
from retcon.core.runs import Consumed, PublishedSlice, Run, SliceState
from retcon.core.slices import Slice, SliceSet
from retcon.flow.consume import would_consume
from retcon.flow.contents import is_comparable
from retcon.flow.context import Context
from retcon.flow.standing import standing_at


def as_they_are(run: Run, planned: PlannedModel, pending: SliceSet, context: Context) -> Mapping[Slice, PublishedSlice]:
    """Of slices that aren't staged, those that needn't be, with what production has. They are in the plan only because
    others are; these came out as they were, and nothing else that they would be computed from is another.
    """
    model = context.model(planned)
    is_by_itself = not (planned.is_keyed or planned.beside or model.reads_itself or model.moves_rows)
    dragged_along = pending - run.plan.asked_for(planned, context.project.graph.prefix)
    if not (run.plan.leaves_same_alone and is_by_itself and dragged_along):
        return {}
    standing = standing_at(context, planned.name, run.tables[planned.name].base_snapshot, dragged_along)
    made_by, code = context.ledger.standing_code(planned.name), code_of(planned.fingerprint, run.plan.settings)
    candidates = SliceSet.of(model.grain, (s.ordinal for s in standing if made_by.get(s.label) == code))
    consumed = context.ledger.standing_consumption(planned.name, candidates.labels)
    followed = {i.name for i in model.inputs if is_followed(i)}
    others = {
        entry.slice
        for entry in would_consume(run, planned, candidates, context)
        if entry.input in followed and not _is_as_before(entry, consumed.get(entry.slice, {}))
    }
    kept = SliceSet.of(model.grain, (s.ordinal for s in candidates if s.label not in others))
    if model.needs_contiguous_waves:
        kept = _without_gaps(planned, pending, kept)
    return {slice: standing[slice] for slice in kept}


def same_slices(run: Run, planned: PlannedModel, context: Context) -> tuple[str, ...]:
    """Slices that came out as production has them, or weren't computed because they would."""
    if not run.plan.leaves_same_alone or planned.beside is not None:
        return ()
    facts = context.tables.facts(run.tables[planned.name].table)
    # Production was measured with the columns of its newest snapshot, and is read with those that it has now.
    is_told = facts is None or not any(changed_columns(facts.columns_written, facts.columns))
    recorded = context.ledger.slices(run.id, planned.name)
    return tuple(s.slice for s in recorded if s.state is SliceState.SAME or (s.is_same and is_told))


def _is_as_before(now: Consumed, consumed: Mapping[str, Consumed]) -> bool:
    before = consumed.get(now.input)
    return before is not None and before.content == now.content and is_comparable(now.content)


def _without_gaps(planned: PlannedModel, pending: SliceSet, kept: SliceSet) -> SliceSet:
    """A wave that is told where it starts and ends has no gaps in it: what is kept of one is at its edges."""
    found = SliceSet(kept.grain)
    for wave in planned.waves:
        computed = (wave & pending) - kept
        hull = SliceSet.span(wave.grain, computed.ordinals[0], computed.ordinals[-1]) if computed else computed
        found |= (wave & kept) - hull
    return found
