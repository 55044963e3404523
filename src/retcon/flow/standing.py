"""What the ledger knows of a table, as far as it is still true at a snapshot."""

from __future__ import annotations

from retcon.core.runs import PublishedSlice
from retcon.core.slices import Slice, SliceSet
from retcon.flow.ports import Ledger
from retcon.flow.records import Records


def known_tables(ledger: Ledger, model: str) -> frozenset[str]:
    """The uuids of the tables that this model adopted, or last published."""
    adoption, last = ledger.adoption(model), ledger.last_published((model,)).get(model)
    adopted = {adoption.uuid} if adoption is not None else set()
    return frozenset(adopted | ({last.tables[model].uuid} if last is not None else set()))


def standing_at(
    records: Records, model: str, snapshot_id: int | None, wanted: SliceSet | None = None
) -> dict[Slice, PublishedSlice]:
    """The published slices of a model that nobody wrote to between their publish and this snapshot: all of them, or
    of those that are wanted.
    """
    if snapshot_id is None:
        return {}
    by, grain = records.project.graph.models[model].slicing.by, records.project.graph.models[model].grain
    labels = None if wanted is None else {slice.label for slice in wanted}
    all_published = records.ledger.published_slices(model)
    published = {label: held for label, held in all_published.items() if labels is None or label in labels}
    found: dict[Slice, PublishedSlice] = {}
    for name in {held.run for held in published.values()}:
        run = records.ledger.run(name)
        since = run.tables[model].published_snapshot if run is not None and model in run.tables else None
        changed = records.tables.changed(model, time=by, grain=grain, since=since, until=snapshot_id)
        if since is None or changed is None or changed.everything:
            continue
        for label, held in published.items():
            slice = next(iter(SliceSet.labelled(grain, (label,))), None)
            if slice is not None and held.run == name and slice not in changed.slices:
                found[slice] = held
    return found
