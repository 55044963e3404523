"""A run that was computed once more, for people and for programs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from itertools import groupby
from typing import Any

from rich.console import RenderableType
from rich.text import Text

from retcon.cli.figures import count, counted
from retcon.cli.views.parts import (
    BAD,
    GOOD,
    STRONG,
    WARN,
    Cell,
    bullets,
    more,
    name,
    number,
    prose,
    section,
    stack,
    table,
    title,
)
from retcon.core.reproductions import Outcome, Reproduction, TriedSlice

_MOST = 30
_SIGNS = {
    Outcome.SAME: Text("✓ same", style=GOOD),
    Outcome.DIFFERS: Text("✗ differs", style=BAD),
    Outcome.IMPOSSIBLE: Text("? can't", style=WARN),
}


def reproduction_view(made: Reproduction) -> RenderableType:
    """Slice by slice, what differs first."""
    counts = [f"{count(len(made.of(each)))} {_words(each)}" for each in Outcome if made.of(each)]
    parts: list[RenderableType | None] = [title("Reproduction of run", Text(made.run, style=STRONG), ", ".join(counts))]
    for model, slices in groupby(made.slices, key=lambda each: each.model):
        parts.append(_model(model, list(slices)))
    parts += [section("Not as it was then", bullets(made.notes)) if made.notes else None]
    parts.append(Text())
    parts.append(Text("Nothing was written but an entry in the run's record."))
    return stack(parts)


def _words(outcome: Outcome) -> str:
    return {Outcome.SAME: "the same", Outcome.DIFFERS: "differ", Outcome.IMPOSSIBLE: "can't be computed"}[outcome]


def _model(model: str, slices: Sequence[TriedSlice]) -> RenderableType:
    first = sorted(slices, key=lambda each: [Outcome.DIFFERS, Outcome.IMPOSSIBLE, Outcome.SAME].index(each.outcome))
    rows: list[tuple[Cell, ...]] = [
        (each.slice, _SIGNS[each.outcome], count(each.rows), count(each.rows_now), each.note) for each in first[:_MOST]
    ]
    heads = (name("slice"), name("outcome"), number("rows on record"), number("now"), prose("why"))
    heading = f"{model}: {counted(len(slices), 'slice')}"
    return section(heading, table(heads, rows), *more(len(slices) - _MOST, "slice", "--json has them all"))


def reproduced_text(body: Mapping[str, Any]) -> str:
    """What is on record of one reproduction, in a line."""
    differing = sum(len(slices) for slices in body["differing"].values())
    parts = [f"{counted(body['same'], 'slice')} the same"]
    parts += [f"{count(differing)} differ"] if differing else []
    parts += [f"{count(body['impossible'])} couldn't be computed"] if body["impossible"] else []
    return ", ".join(parts)


def reproduction_result(made: Reproduction) -> dict[str, Any]:
    """For programs: every slice."""
    return {
        "run": made.run,
        "same": len(made.of(Outcome.SAME)),
        "differs": len(made.of(Outcome.DIFFERS)),
        "impossible": len(made.of(Outcome.IMPOSSIBLE)),
        "slices": [{**asdict(each), "outcome": each.outcome.value} for each in made.slices],
        "notes": list(made.notes),
        "versions": dict(made.versions),
    }
