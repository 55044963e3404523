"""Drift: what inputs hold and slices weren't computed from, though the watermark has passed it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from retcon.core.comparisons import ComparedInput
from retcon.core.conflicts import Commit
from retcon.core.slices import SliceSet
from retcon.core.watermarks import Watermark
from retcon.values import dataclass


@dataclass(frozen=True, kw_only=True)
class Arrival:
    """A commit that brought something into slices that had been computed, or were passed by."""

    commit: Commit
    slices: SliceSet
    """Of the model."""
    added: int | None
    removed: int | None
    """Rows of the input in what these slices read; None where the metadata can't tell."""
    passed_by: Watermark | None
    """The first movement of the watermark past it; None: none that is on record."""


@dataclass(frozen=True, kw_only=True)
class InputDrift:
    """What of an input isn't in the slices that read it."""

    input: str
    table: str
    slices: SliceSet
    arrivals: tuple[Arrival, ...]
    is_history_known: bool
    """Else some of the commits that brought it may be missing here."""
    not_loaded_yet: SliceSet
    untold: SliceSet


@dataclass(frozen=True, kw_only=True)
class ModelDrift:
    """What a model was passed by, told apart from what is simply new, held, late, or can't be told."""

    model: str
    compared: int
    inputs: tuple[InputDrift, ...]
    held: SliceSet
    late: SliceSet
    unknown: SliceSet
    unseen: tuple[str, ...]

    @property
    def slices(self) -> SliceSet:
        found = SliceSet(self.held.grain)
        for each in self.inputs:
            found |= each.slices
        return found


@dataclass(frozen=True, kw_only=True)
class Hit:
    """One slice, and the commits since it was computed, oldest first."""

    slices: SliceSet
    commits: Sequence[Commit]


def arrivals_of(by: ComparedInput, hits: Iterable[Hit], moves: Sequence[Watermark]) -> tuple[Arrival, ...]:
    """The commits that brought something into these slices, oldest first; `moves` of this input, oldest first."""
    order: dict[int, Commit] = {}
    reached: dict[int, SliceSet] = {}
    lines: dict[int, Sequence[Commit]] = {}
    for hit in sorted(hits, key=lambda hit: -len(hit.commits)):
        reads = by.reads(hit.slices)
        for commit in hit.commits:
            if commit.is_rewrite or not commit.touches(reads):
                continue
            order[commit.snapshot_id] = commit
            reached[commit.snapshot_id] = reached.get(commit.snapshot_id, SliceSet(hit.slices.grain)) | hit.slices
            lines.setdefault(commit.snapshot_id, hit.commits)
    found: list[Arrival] = []
    for snapshot, commit in order.items():
        added, removed = commit.rows_in(by.reads(reached[snapshot]))
        passed_by = first_past(snapshot, lines[snapshot], moves)
        found.append(
            Arrival(commit=commit, slices=reached[snapshot], added=added, removed=removed, passed_by=passed_by)
        )
    places = _places(lines.values())
    return tuple(sorted(found, key=lambda arrival: places[arrival.commit.snapshot_id]))


def first_past(snapshot: int, line: Sequence[Commit], moves: Sequence[Watermark]) -> Watermark | None:
    """The first movement to a commit, or beyond it, in the order of commits."""
    place = {commit.snapshot_id: position for position, commit in enumerate(line)}
    return next(
        (move for move in moves if move.mark.snapshot_id in place and place[move.mark.snapshot_id] >= place[snapshot]),
        None,
    )


def _places(lines: Iterable[Sequence[Commit]]) -> Mapping[int, int]:
    """By snapshot: how many commits before the newest; all lines end with the same one."""
    return {commit.snapshot_id: -back for line in lines for back, commit in enumerate(reversed(line))}
