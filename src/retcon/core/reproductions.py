"""Reproductions: a run's slices computed once more, and what that says about its record."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import field
from datetime import timedelta
from enum import StrEnum

from retcon.core.chains import RecordedEvent
from retcon.core.events import Rebased, Reproduced, SlicesKept, WaveStaged
from retcon.core.runs import RecordedSlice
from retcon.core.slices import Cut, SliceSet
from retcon.values import dataclass

_AGE = "history.expire.max-snapshot-age-ms"
_DEFAULT_AGE = timedelta(days=5)


class Outcome(StrEnum):
    """What became of one slice."""

    SAME = "same"
    DIFFERS = "differs"
    IMPOSSIBLE = "impossible"


@dataclass(frozen=True, kw_only=True)
class TriedSlice:
    """One slice, as it is on record and as it came out now."""

    model: str
    slice: str
    outcome: Outcome
    rows: int | None
    """As recorded."""
    rows_now: int | None = None
    note: str = ""
    """Why it couldn't be computed, or how the same was found."""
    recorded: str = ""
    """The same for the record, where the note names values of rows."""


@dataclass(frozen=True, kw_only=True)
class Reproduction:
    """All slices that were tried."""

    run: str
    slices: tuple[TriedSlice, ...]
    notes: tuple[str, ...] = ()
    """What of today isn't as it was then, and may matter."""
    versions: Mapping[str, str] = field(default_factory=dict)

    def of(self, outcome: Outcome) -> list[TriedSlice]:
        return [each for each in self.slices if each.outcome is outcome]

    @property
    def exit_code(self) -> int:
        """4 where one differs; else 1 where one couldn't be computed, or none was tried."""
        if self.of(Outcome.DIFFERS):
            return 4
        return 1 if self.of(Outcome.IMPOSSIBLE) or not self.slices else 0

    def event(self, tried: Mapping[str, SliceSet]) -> Reproduced:
        """As it is recorded: counts and slices, no rows."""
        differing: dict[str, tuple[str, ...]] = {}
        for each in self.of(Outcome.DIFFERS):
            differing[each.model] = (*differing.get(each.model, ()), each.slice)
        impossible = self.of(Outcome.IMPOSSIBLE)
        return Reproduced(
            tried={model: slices.text for model, slices in tried.items()},
            same=len(self.of(Outcome.SAME)),
            differing=differing,
            impossible=len(impossible),
            why=tuple(dict.fromkeys(each.recorded or each.note for each in impossible)),
            versions=self.versions,
        )


def kept_in(events: Iterable[RecordedEvent]) -> dict[str, set[str]]:
    """By model, the slices that a run kept as they were, and didn't stage later."""
    kept: dict[str, set[str]] = {}
    for event in events:
        match event.kind:
            case SlicesKept.__name__:
                kept.setdefault(event.body["model"], set()).update(event.body["slices"])
            case WaveStaged.__name__:
                kept.get(event.body["model"], set()).difference_update(each["slice"] for each in event.body["slices"])
            case Rebased.__name__:
                for model, labels in event.body["slices"].items():
                    kept.get(model, set()).difference_update(labels)
    return kept


def reproducible(cut: Cut, recorded: Iterable[RecordedSlice], kept: Iterable[str]) -> SliceSet:
    """The slices that a run computed and measured: those that it kept as they were aren't its work."""
    left = set(kept)
    return SliceSet.labelled(cut, (s.slice for s in recorded if s.checksum is not None and s.slice not in left))


def drawn(run: str, model: str, slices: SliceSet, most: int) -> SliceSet:
    """Some of the slices, by chance, and the same ones every time."""

    def place(ordinal: int) -> bytes:
        return hashlib.sha256(f"{run}/{model}/{ordinal}".encode()).digest()

    return SliceSet.of(slices.grain, sorted(slices.ordinals, key=place)[:most])


def expired_text(snapshot: int, table: str, properties: Mapping[str, str] | None) -> str:
    """What is gone, and how long its table keeps such a thing."""
    if properties is None:
        return f"{table}, which was read at snapshot {snapshot}, isn't there any more"
    told = properties.get(_AGE)
    age = _DEFAULT_AGE if told is None else timedelta(milliseconds=int(told))
    days = f"{age / timedelta(days=1):g} days"
    kept = f"{days}, as `{_AGE}` says" if told is not None else f"{days}, Iceberg's default: `{_AGE}` isn't set"
    return f"snapshot {snapshot} of {table} has expired (it keeps them for {kept})"
