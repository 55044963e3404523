"""Estimates: how long a plan will take, and what that costs, from what was measured before.

A wave takes a part that is there however little it reads, and a part that grows with what it reads. Both are medians
over the waves of earlier runs; how far these runs were from what that comes to makes the range.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, field
from itertools import combinations
from math import sqrt
from typing import Any

from retcon.values import dataclass

_FEW = 0.5
"""So much is a single measurement in doubt, both ways; of n, the square root of n less."""
_OUTER = 0.1
"""The share of measurements at either end that don't count."""
UNWRITTEN = 1.5
"""What writing may add, at most, to what a canary computes: it isn't measured there."""
_UNKNOWN_REST = (0.3, 2.0)
"""Proving and publishing against staging, where no run was ever seen."""


@dataclass(frozen=True, kw_only=True)
class Span:
    """From, to."""

    low: float
    high: float

    def __add__(self, other: Span) -> Span:
        return Span(low=self.low + other.low, high=self.high + other.high)

    def __mul__(self, by: float) -> Span:
        return Span(low=self.low * by, high=self.high * by)

    def rounded(self, digits: int = 1) -> Span:
        return Span(low=round(self.low, digits), high=round(self.high, digits))

    def document(self, digits: int = 1) -> dict[str, float]:
        return asdict(self.rounded(digits))


@dataclass(frozen=True, kw_only=True)
class Price:
    """What a core costs for an hour: `cost` in retcon.yaml."""

    core_hour: float
    currency: str = ""

    def text(self, amount: float) -> str:
        """`0.0042 USD`, `12.50 USD`."""
        whole, _, digits = f"{amount:,.{2 if amount >= 1 else 4}f}".partition(".")
        return f"{whole}.{digits.rstrip('0'):0<2} {self.currency}".strip()


@dataclass(frozen=True, kw_only=True)
class WaveSample:
    """One wave that was measured, by the share that it has of the time of all that ran at once."""

    seconds: float
    fixed: float
    """Of these, around the tasks: there however little is read."""
    slices: int
    bytes: int | None
    cores: int | None
    run: str = ""
    """Waves of one run are judged together: its first ones take longer, and the others make up for it."""

    def work(self, *, by_bytes: bool) -> float:
        return float(self.bytes or 0) if by_bytes else float(self.slices)


@dataclass(frozen=True, kw_only=True)
class RunSample:
    """One run that was measured as a whole."""

    starting: float | None
    staging: float
    rest: float
    """Opening, proving, publishing and looking at production."""


@dataclass(frozen=True, kw_only=True)
class Share:
    """One model of a plan, by what makes it long."""

    model: str
    waves: int
    slices: int
    bytes: int | None
    """What its waves read, a file as often as it is read; None where that can't be told."""


@dataclass(frozen=True, kw_only=True)
class Learned:
    """What is known from before."""

    waves: Mapping[str, Sequence[WaveSample]] = field(default_factory=dict)
    """By model."""
    runs: Sequence[RunSample] = ()
    cores: int | None = None
    """That the next run will have, as far as it is known."""
    canary: int | None = None
    """Slices of each model that were computed for this, and not written."""


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """How long a plan will take, and what that costs."""

    seconds: Span | None
    """For which Spark will be there; None where a model was never measured."""
    models: Mapping[str, Span] = field(default_factory=dict)
    """Of these, staging each."""
    unknown: tuple[str, ...] = ()
    """Models that were never measured."""
    waves: int = 0
    """Measured waves that it rests on."""
    runs: int = 0
    cores: int | None = None
    price: Price | None = None
    canary: int | None = None

    @property
    def core_hours(self) -> Span | None:
        return None if self.seconds is None or self.cores is None else self.seconds * (self.cores / 3600)

    @property
    def cost(self) -> Span | None:
        hours = self.core_hours
        return None if hours is None or self.price is None else hours * self.price.core_hour

    @property
    def basis(self) -> str:
        """What it rests on, in words."""
        if self.canary is not None:
            what = "1 slice" if self.canary == 1 else f"{self.canary} slices"
            rest = "" if self.runs else "; proving and publishing are a guess"
            return f"{what} of each model computed now, not written: writing is a guess{rest}"
        waves = f"{self.waves} {'wave' if self.waves == 1 else 'waves'}"
        if not self.runs:
            return f"{waves} of runs that weren't published: proving and publishing are a guess"
        return f"{waves} of {self.runs} earlier runs" if self.runs > 1 else f"{waves} of one earlier run"

    def document(self) -> dict[str, Any]:
        """As it stands in the plan's file."""
        hours, cost = self.core_hours, self.cost
        return {
            "seconds": None if self.seconds is None else self.seconds.document(),
            **({} if hours is None else {"core_hours": hours.document(4)}),
            **({} if cost is None else {"cost": cost.document(4)}),
            **({} if self.price is None else {"core_hour": self.price.core_hour, "currency": self.price.currency}),
            **({} if self.cores is None else {"cores": self.cores}),
            **({"staging": {name: span.document() for name, span in self.models.items()}} if self.models else {}),
            **({"unknown": list(self.unknown)} if self.unknown else {}),
            "waves_measured": self.waves,
            "runs_measured": self.runs,
            **({} if self.canary is None else {"canary": self.canary}),
        }


def estimate_from(document: Mapping[str, Any]) -> Estimate | None:
    """Of a plan's document; None where it is older than estimates of time."""
    if "seconds" not in document:
        return None
    price = document.get("core_hour")
    return Estimate(
        seconds=_span_from(document["seconds"]),
        models={name: Span(**span) for name, span in document.get("staging", {}).items()},
        unknown=tuple(document.get("unknown", ())),
        waves=document["waves_measured"],
        runs=document["runs_measured"],
        cores=document.get("cores"),
        price=None if price is None else Price(core_hour=price, currency=document["currency"]),
        canary=document.get("canary"),
    )


def _span_from(document: Mapping[str, float] | None) -> Span | None:
    return None if document is None else Span(**document)


def estimated(shares: Sequence[Share], learned: Learned, price: Price | None) -> Estimate:
    """How long these models will take together, one after the other."""
    spans: dict[str, Span] = {}
    for share in shares:
        found = staging_of(share, learned.waves.get(share.model, ()), learned.cores)
        if found is not None:
            is_unwritten = learned.canary is not None
            spans[share.model] = Span(low=found.low, high=found.high * UNWRITTEN) if is_unwritten else found
    unknown = tuple(share.model for share in shares if share.model not in spans)
    total: Span | None = None
    if not unknown and spans:
        staging = sum(spans.values(), Span(low=0.0, high=0.0))
        starts = [sample.starting for sample in learned.runs if sample.starting is not None]
        start = _around(starts) if starts else Span(low=0.0, high=0.0)
        total = start + staging + rest_of(staging, [s for s in learned.runs if s.staging > 0])
    return Estimate(
        # As the plan's file has it: who reads it there comes to the same hours and costs.
        seconds=None if total is None else total.rounded(),
        models={name: span.rounded() for name, span in spans.items()},
        unknown=unknown,
        waves=sum(len(learned.waves[name]) for name in spans),
        runs=sum(sample.staging > 0 for sample in learned.runs),
        cores=learned.cores,
        price=price,
        canary=learned.canary,
    )


def staging_of(share: Share, samples: Sequence[WaveSample], cores: int | None) -> Span | None:
    """How long staging a model takes; None where it was never measured."""
    by_bytes = bool(share.bytes) and any(sample.bytes for sample in samples)
    known = [sample for sample in samples if sample.work(by_bytes=by_bytes) > 0]
    if not known:
        return None

    def on(sample_cores: int | None) -> float:
        # Where cores aren't known on both sides, they are taken to be the same.
        return float(sample_cores) if sample_cores and cores else 1.0

    fixed = median_of(sample.fixed for sample in known)
    rate = median_of((s.seconds - s.fixed) * on(s.cores) / s.work(by_bytes=by_bytes) for s in known)

    def taking(waves: int, work: float, sample_cores: int | None) -> float:
        return fixed * waves + rate * work / on(sample_cores)

    measured: dict[str | int, list[tuple[float, float]]] = {}
    for number, sample in enumerate(known):
        told = taking(1, sample.work(by_bytes=by_bytes), sample.cores)
        measured.setdefault(sample.run or number, []).append((sample.seconds, told))
    sums = [(sum(seconds for seconds, _ in each), sum(told for _, told in each)) for each in measured.values()]
    spread = _spread([seconds / told for seconds, told in sums if told > 0])
    work = float(share.bytes or 0) if by_bytes else float(share.slices)
    return spread * taking(share.waves, work, cores if all(s.cores for s in known) else None)


def rest_of(staging: Span, runs: Sequence[RunSample]) -> Span:
    """What comes around staging, from how it was in earlier runs: partly the same each time, partly with the work."""
    if not runs:
        low, high = _UNKNOWN_REST
        return Span(low=staging.low * low, high=staging.high * high)
    typical = median_of(run.rest for run in runs)
    shortest, longest = (edge(run.staging for run in runs) for edge in (min, max))
    if longest >= 2 * shortest and len(runs) > 2:
        slope, base = _line([(run.staging, run.rest) for run in runs])
        spread = _spread([run.rest / told for run in runs if (told := base + slope * run.staging) > 0])
        low, high = (base + slope * edge for edge in (staging.low, staging.high))
        return Span(low=low * spread.low, high=high * spread.high)
    # From runs of one size nobody can tell: between always the same, and as much more as there is more to stage.
    ratio = median_of(run.rest / run.staging for run in runs)
    doubt = 1 + _FEW / sqrt(len(runs))
    low = min(typical, ratio * staging.low) / doubt
    return Span(low=low, high=max(typical, ratio * staging.high) * doubt)


def _line(points: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """The line through the middle of these points, rising: outliers don't turn it (Theil and Sen)."""
    slopes = [(y2 - y1) / (x2 - x1) for (x1, y1), (x2, y2) in combinations(points, 2) if x1 != x2]
    slope = max(0.0, median_of(slopes)) if slopes else 0.0
    return slope, max(0.0, median_of(y - slope * x for x, y in points))


def _around(values: Sequence[float]) -> Span:
    """From how low to how high something is."""
    middle = median_of(values)
    return _spread([value / middle for value in values if middle > 0]) * middle


def _spread(factors: Sequence[float]) -> Span:
    """How far measurements lie around what they were told to be: wider, the fewer there are."""
    if not factors:
        return Span(low=1.0, high=1.0)
    doubt = 1 + _FEW / sqrt(len(factors))
    return Span(low=_quantile(factors, _OUTER) / doubt, high=_quantile(factors, 1 - _OUTER) * doubt)


def median_of(values: Iterable[float]) -> float:
    """The one in the middle."""
    return _quantile(values, 0.5)


def _quantile(values: Iterable[float], share: float) -> float:
    held = sorted(values)
    place = share * (len(held) - 1)
    below = int(place)
    above = min(below + 1, len(held) - 1)
    return held[below] + (held[above] - held[below]) * (place - below)
