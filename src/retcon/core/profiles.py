"""Profiles: what the values of columns look like, on both sides, and how far that moved."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, field, replace
from decimal import Decimal
from enum import StrEnum
from fractions import Fraction
from math import fsum, isfinite, log
from typing import Any

from retcon.core.row_histories import RowHistory, usual_number, usual_rows
from retcon.core.slices import Slice
from retcon.values import dataclass

_LEAST_SHARE = 1e-4
"""Of a bin, for the index: an empty one would make it infinite."""
_LEAST_RATE = 0.01
"""Every null rate may be so far from the median of earlier ones, however steady they were."""


class Side(StrEnum):
    STAGED = "staged"
    PRODUCTION = "production"


BY_MICROSECONDS = ":micros"
"""Moments, which older ledgers have hashed as text, in the time zone of the project."""


@dataclass(frozen=True, kw_only=True)
class ProfileBounds:
    """What a profile is held to; None: it is kept, and not judged by that."""

    psi: Decimal | None = None
    """The population stability index of each column, at most."""
    null_rate: Decimal | None = None
    """How far each column's share of NULLs may move."""
    outliers: RowHistory | None = None
    """How far rows, null rates and means of a slice may be from those of earlier slices like it."""


@dataclass(frozen=True, kw_only=True)
class Bins:
    """Values counted by bins: of numbers up to each edge, then above, then NULL; of others by value, then the rest,
    then NULL.
    """

    edges: tuple[str, ...] = ()
    """Numbers, or hashes of values."""
    counts: tuple[int, ...] = ()
    values: tuple[str, ...] = ()
    """What is behind the hashes, where the model's samples may be kept."""


@dataclass(frozen=True, kw_only=True)
class ColumnProfile:
    """What was measured of one column; numbers as text, and None where there is no such number."""

    column: str
    type: str = ""
    """As Spark spells it, and how its values were hashed, where that was otherwise before."""
    rows: int
    nulls: int
    distinct: int | None = None
    """Approximately."""
    low: str | None = None
    high: str | None = None
    mean: str | None = None
    quantiles: tuple[str, ...] = ()
    """At 5, 25, 50, 75 and 95%, approximately."""
    bins: Bins = Bins()
    """By its own deciles, or its own most frequent values."""
    against: tuple[int, ...] = ()
    """Of what is staged: counted by production's bins."""

    @property
    def kind(self) -> str:
        """The type alone."""
        return self.type.removesuffix(BY_MICROSECONDS)

    @property
    def null_rate(self) -> float:
        return self.nulls / self.rows if self.rows else 0.0


@dataclass(frozen=True, kw_only=True)
class SliceProfiles:
    """The columns of a slice, as far as earlier ones are compared with."""

    rows: int
    columns: Mapping[str, ColumnProfile]


@dataclass(frozen=True, kw_only=True)
class Profiled:
    """What was measured of a model's columns, and what there is to compare it with."""

    staged: Mapping[str, ColumnProfile] = field(default_factory=dict)
    production: Mapping[str, ColumnProfile] = field(default_factory=dict)
    """Empty where it has no rows there."""
    slices: Mapping[Slice, SliceProfiles] = field(default_factory=dict)
    """Staged; only where earlier slices are compared with."""
    history: Mapping[int, Mapping[str, ColumnProfile]] = field(default_factory=dict)
    """Of every slice that is published with a profile, by ordinal."""
    scope: str = ""
    """Which slices were profiled together: a hash of their labels."""


@dataclass(frozen=True, kw_only=True)
class ProfileEntry:
    """One profile as it is kept."""

    model: str
    slice: str | None
    """None: of all planned slices together."""
    side: Side
    profile: ColumnProfile
    scope: str = ""
    """Which slices these are, see `scope_of`."""


Objection = tuple[str | None, str]
"""The slice, or None for all together, and what there is to say about it."""


def stability(before: Sequence[int], after: Sequence[int]) -> float | None:
    """The population stability index of two counts by the same bins: 0 for the same shares, and never below. None
    where there is nothing on one side.
    """
    if not sum(before) or not sum(after) or len(before) != len(after):
        return None
    shares = ([max(count / sum(side), _LEAST_SHARE) for count in side] for side in (before, after))
    return fsum((new - old) * log(new / old) for old, new in zip(*shares, strict=True))


def stability_of(column: str, profiled: Profiled) -> float | None:
    """The index of one column, staged against production; None where that can't be told."""
    old, new = profiled.production.get(column), profiled.staged.get(column)
    return None if old is None or new is None else stability(old.bins.counts, new.against)


def objections(
    bounds: ProfileBounds,
    columns: Collection[str],
    profiled: Profiled,
    published_rows: Mapping[int, int],
    open_slices: Collection[Slice],
) -> tuple[list[Objection], str]:
    """What there is to object to, and a summary of what was measured."""
    own = [column for column in profiled.staged if not columns or column.lower() in {c.lower() for c in columns}]
    found = [*_moved(bounds, own, profiled)]
    unjudged = 0
    if bounds.outliers is not None:
        for slice, profiles in sorted(profiled.slices.items()):
            odd = list(_odd(slice, profiles, own, profiled.history, bounds.outliers, published_rows, open_slices))
            unjudged += None in odd
            found += [(slice.label, text) for text in odd if text is not None]
    return found, _summary(own, profiled, unjudged)


def _moved(bounds: ProfileBounds, columns: Sequence[str], profiled: Profiled) -> Iterator[Objection]:
    for column in columns:
        index = stability_of(column, profiled)
        if bounds.psi is not None and index is not None and index > bounds.psi:
            yield None, f"{column}: stability index {index:.2f}, at most {bounds.psi} expected"
        old, new = profiled.production.get(column), profiled.staged[column]
        if bounds.null_rate is None or old is None or not old.rows or not new.rows:
            continue
        if abs(Fraction(new.nulls, new.rows) - Fraction(old.nulls, old.rows)) > Fraction(bounds.null_rate):
            moved = f"{column}: NULL in {old.null_rate:.1%} → {new.null_rate:.1%} of the rows"
            yield None, f"{moved}, at most ±{float(bounds.null_rate) * 100:g} points expected"


def _odd(
    slice: Slice,
    profiles: SliceProfiles,
    columns: Sequence[str],
    history: Mapping[int, Mapping[str, ColumnProfile]],
    far: RowHistory,
    published_rows: Mapping[int, int],
    open_slices: Collection[Slice],
) -> Iterator[str | None]:
    """What is unlike earlier slices; None for each thing with too few of them to compare."""
    usual = usual_rows(slice, published_rows, far)
    if usual is None:
        yield None
    elif profiles.rows > usual.high or (profiles.rows < usual.low and slice not in open_slices):
        yield f"{profiles.rows:,} rows, {usual.low:,} to {usual.high:,} expected: {usual.text}"
    for column in columns:
        now = profiles.columns.get(column)
        if now is None or not now.rows:
            continue
        before = {at: found[column] for at, found in history.items() if column in found and found[column].rows}
        rate = usual_number(slice, {at: p.null_rate for at, p in before.items()}, far, least=_LEAST_RATE)
        if rate is not None and not rate.low <= now.null_rate <= rate.high:
            expected = f"{max(rate.low, 0):.1%} to {min(rate.high, 1):.1%} expected: {rate.text}"
            yield f"{column}: NULL in {now.null_rate:.1%} of the rows, {expected}"
        # One that is NaN or infinite is outside of every bound.
        mean = None if now.mean is None else float(now.mean)
        means = {at: value for at, p in before.items() if (value := _number(p.mean)) is not None}
        usual_mean = usual_number(slice, means, far)
        if mean is not None and usual_mean is not None and not usual_mean.low <= mean <= usual_mean.high:
            expected = f"{usual_mean.low:,.6g} to {usual_mean.high:,.6g} expected: {usual_mean.text}"
            yield f"{column}: mean {mean:,.6g}, {expected}"


def _summary(columns: Sequence[str], profiled: Profiled, unjudged: int) -> str:
    parts = [f"{len(columns):,} {'column' if len(columns) == 1 else 'columns'}"]
    indices = [(index, column) for column in columns if (index := stability_of(column, profiled)) is not None]
    if indices:
        index, column = max(indices)
        parts.append(f"stability index up to {index:.2f} ({column})")
    elif not profiled.production:
        parts.append("nothing in production to compare with")
    if unjudged:
        parts.append(f"{unjudged:,} {'slice' if unjudged == 1 else 'slices'} with too little history to compare")
    return ", ".join(parts)


def _number(text: str | None) -> float | None:
    value = None if text is None else float(text)
    return value if value is not None and isfinite(value) else None


def scope_of(labels: Sequence[str]) -> str:
    """A hash of the slices that a profile is of."""
    return hashlib.sha256("\n".join(sorted(labels)).encode()).hexdigest()[:16]


def entry_document(entry: ProfileEntry) -> dict[str, Any]:
    """An entry as plain data, without what it doesn't have: there may be one for each slice and column."""
    profile = {key: value for key, value in asdict(entry.profile).items() if value not in (None, (), "")}
    if entry.profile.bins == Bins():
        profile.pop("bins")
    document = {"model": entry.model, "slice": entry.slice, "side": entry.side.value, **profile}
    return {**document, "scope": entry.scope} if entry.scope else document


def entry_from(document: Mapping[str, Any]) -> ProfileEntry:
    """The entry of such a document."""
    bins = document.get("bins")
    return ProfileEntry(
        model=document["model"],
        slice=document["slice"],
        side=Side(document["side"]),
        scope=document.get("scope", ""),
        profile=ColumnProfile(
            column=document["column"],
            type=document.get("type", ""),
            rows=document["rows"],
            nulls=document["nulls"],
            distinct=document.get("distinct"),
            low=document.get("low"),
            high=document.get("high"),
            mean=document.get("mean"),
            quantiles=tuple(document.get("quantiles", ())),
            bins=Bins(**{key: tuple(value) for key, value in bins.items()}) if bins else Bins(),
            against=tuple(document.get("against", ())),
        ),
    )


def entries_of(model: str, profiled: Profiled) -> list[ProfileEntry]:
    """What is kept of a model's profiles."""
    whole = [
        ProfileEntry(model=model, slice=None, side=side, profile=profile, scope=profiled.scope)
        for side, profiles in ((Side.STAGED, profiled.staged), (Side.PRODUCTION, profiled.production))
        for profile in profiles.values()
    ]
    per_slice = [
        ProfileEntry(model=model, slice=slice.label, side=Side.STAGED, profile=profile)
        for slice, profiles in sorted(profiled.slices.items())
        for profile in profiles.columns.values()
    ]
    return [*whole, *per_slice]


def as_production(entries: Sequence[ProfileEntry], scope: str, *, samples: bool) -> dict[str, ColumnProfile]:
    """By column: what an earlier run staged in these very slices, and production has since. Values that it kept stay
    out where samples aren't allowed any more.
    """
    staged = (e.profile for e in entries if e.slice is None and e.side is Side.STAGED and e.scope == scope)
    found = {profile.column: replace(profile, against=()) for profile in staged}
    return found if samples else {column: _without_values(profile) for column, profile in found.items()}


def _without_values(profile: ColumnProfile) -> ColumnProfile:
    if not profile.bins.values:
        return profile
    return replace(profile, low=None, high=None, bins=replace(profile.bins, values=()))
