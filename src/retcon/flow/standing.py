"""What the ledger knows of a table, as far as it is still true at a snapshot."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

from retcon.core.conflicts import Commit, changed_by
from retcon.core.evolution import columns_taken_anew
from retcon.core.runs import PublishedSlice
from retcon.core.slices import Cut, Slice, SliceSet
from retcon.core.tables import Changed
from retcon.flow.ports import Questions
from retcon.flow.records import Records


def known_tables(ledger: Questions, model: str) -> frozenset[str]:
    """The uuids of the tables that this model adopted, or last published."""
    adoption, last = ledger.adoption(model), ledger.last_published((model,)).get(model)
    adopted = {adoption.uuid} if adoption is not None else set()
    return frozenset(adopted | ({last.tables[model].uuid} if last is not None else set()))


def standing_at(
    records: Records, model: str, snapshot_id: int | None, wanted: SliceSet | None = None
) -> dict[Slice, PublishedSlice]:
    """The published slices of a model that nobody wrote to between their publish and this snapshot, and whose columns
    are still those of the table: all of them, or of those that are wanted.
    """
    facts = None if snapshot_id is None else records.tables.facts(model)
    if snapshot_id is None or facts is None:
        return {}
    anew = columns_taken_anew(facts)
    if anew is not None and anew.snapshot_id is None:
        return {}
    grain = records.project.graph.models[model].grain
    published = _published(records, model, grain, wanted)
    runs = {held.run for held in published.values()}
    # Oldest first.
    made = {run: snapshot for run, snapshot in records.ledger.published_snapshots(model).items() if run in runs}
    if not made:
        return {}
    untouched = _untouched_since(records, model, made, snapshot_id, None if anew is None else anew.snapshot_id)
    return {slice: held for slice, held in published.items() if _holds(untouched.get(held.run), slice)}


def _published(records: Records, model: str, grain: Cut, wanted: SliceSet | None) -> dict[Slice, PublishedSlice]:
    held = records.ledger.published_slices(model, None if wanted is None else wanted.labels)
    slices = SliceSet.labelled(grain, held) if wanted is None else wanted
    return {slice: held[slice.label] for slice in slices if slice.label in held}


def _holds(changed: Changed | None, slice: Slice) -> bool:
    return changed is not None and not changed.everything and slice not in changed.slices


def _untouched_since(
    records: Records, model: str, made: Mapping[str, int], until: int, anew: int | None
) -> Mapping[str, Changed | None]:
    """By run: what changed between its publish and a snapshot; None where that isn't known. In one walk, where the
    history since the oldest of them is there. The commit with which columns were taken anew changed everything.
    """
    slicing = records.project.graph.models[model].slicing
    look = partial(records.tables.commits, model, time=slicing.by, grain=slicing.every, until=until, briefly=True)
    commits = look(since=next(iter(made.values())))
    if commits is None:
        looks = {run: look(since=snapshot) for run, snapshot in made.items()}
        return {run: None if seen is None else _changed(seen, slicing.every, anew) for run, seen in looks.items()}
    by_snapshot = {snapshot: run for run, snapshot in made.items()}
    found: dict[str, Changed | None] = {}
    since = Changed(slices=SliceSet(slicing.every))
    for commit in reversed(commits):
        if commit.snapshot_id in by_snapshot:
            found[by_snapshot[commit.snapshot_id]] = since
        here = _changed((commit,), slicing.every, anew)
        since = Changed(slices=since.slices | here.slices, everything=since.everything or here.everything)
    return {**found, next(iter(made)): since}


def _changed(commits: Sequence[Commit], grain: Cut, anew: int | None) -> Changed:
    found = changed_by(commits, grain)
    return replace(found, everything=found.everything or any(commit.snapshot_id == anew for commit in commits))
