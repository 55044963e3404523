"""What watermarks have passed by, and how it came in."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import RenderableType
from rich.text import Text

from retcon.cli.figures import Zone, counted, slices
from retcon.cli.views.parts import BAD, GOOD, QUIET, STRONG, WARN, bullets, facts, section, stack
from retcon.core.drifts import Arrival, InputDrift, ModelDrift
from retcon.core.intervals import edge_text
from retcon.core.slices import Grain, SliceSet

_ARRIVALS = 5


def drift_view(found: Sequence[ModelDrift], zone: Zone, env: str) -> RenderableType:
    """Each input that was passed by; then what was told apart from it; last, what was compared."""
    aside = [line for each in found for line in _aside(each)]
    drifted = [each for each in found if each.slices]
    compared = f"compared {counted(sum(each.compared for each in found), 'slice')} of {counted(len(found), 'model')}"
    return stack(
        [
            *(_drift(each, one, zone, env) for each in drifted for one in each.inputs if one.slices),
            section("Told apart", bullets(Text(line, style=WARN) for line in aside)) if aside else None,
            Text() if drifted or aside else None,
            Text(f"{counted(len(drifted), 'model')} drifted", style=BAD) if drifted else Text("no drift", style=GOOD),
            Text(f"{compared} with what their inputs hold", style=QUIET),
        ]
    )


def _drift(model: ModelDrift, drift: InputDrift, zone: Zone, env: str) -> RenderableType:
    came = [Text(arrival_text(each, zone)) for each in drift.arrivals[:_ARRIVALS]]
    left = len(drift.arrivals) - _ARRIVALS
    if left > 0:
        came.append(Text(f"and {counted(left, 'more commit')} (--json has them all)", style=QUIET))
    if not drift.is_history_known:
        came.append(Text("its history since then isn't known any more", style=QUIET))
    elif not drift.arrivals:
        came.append(Text("by no commit of its own", style=QUIET))
    what = f"{model.model}: {slices(drift.slices)} not what {drift.table} holds, and passed by the watermark"
    return stack(
        [
            Text(),
            Text.assemble(("✗ ", BAD), (what, STRONG)),
            facts(
                [
                    *(("  came" if at == 0 else "", line) for at, line in enumerate(came)),
                    ("  next", repair_command(model.model, model.slices, env)),
                    ("  more", f"retcon postmortem {model.model}{env}"),
                ]
            ),
        ]
    )


def arrival_text(arrival: Arrival, zone: Zone) -> str:
    """`snapshot 42 (append), 2026-01-22 12:00 UTC: 3 rows added in 2026-01-02; passed by run …`."""
    when = f", {zone.named(arrival.commit.at)}" if arrival.commit.at is not None else ""
    return (
        f"{arrival.commit.text}{when}: {rows_text(arrival)} in {slices(arrival.slices)}; {passed_text(arrival, zone)}"
    )


def rows_text(arrival: Arrival) -> str:
    """How many rows came and went."""
    if arrival.added is None or arrival.removed is None:
        return "rows not known"
    parts = [f"{counted(n, 'row')} {did}" for n, did in ((arrival.added, "added"), (arrival.removed, "removed")) if n]
    return " and ".join(parts) or "no rows"


def passed_text(arrival: Arrival, zone: Zone) -> str:
    """Which movement of the watermark went past it."""
    move = arrival.passed_by
    if move is None:
        return "by which movement it was passed isn't on record"
    by = f"run {move.run}" if move.run is not None else f"{move.who} ({move.why})"
    return f"passed by {by}, {zone.named(move.at)}"


def repair_command(model: str, slices: SliceSet, env: str) -> str:
    """The plan that brings it in."""
    dates = ""
    if isinstance(slices.grain, Grain) and slices:
        first, last = slices.hull().edges
        dates = f" --start {edge_text(first)} --end {edge_text(last)}"
    return f'retcon plan {model}{env} --changed{dates} --reason "rows that were passed by"'


def _aside(drift: ModelDrift) -> Iterator[str]:
    for each in drift.inputs:
        if each.not_loaded_yet:
            yield f"{drift.model}: {slices(each.not_loaded_yet)} changed in {each.table}, not loaded yet"
        if each.untold:
            yield f"{drift.model}: of {slices(each.untold)} it can't be told what of {each.table} they hold"
    if drift.held:
        yield f"{drift.model}: {slices(drift.held)} held by a rollback"
    if drift.late:
        yield f"{drift.model}: {slices(drift.late)} changed and older than its window"
    if drift.unknown:
        yield f"{drift.model}: {slices(drift.unknown)} there before retcon wrote them: made of nobody knows what"
    for table in drift.unseen:
        yield f"{drift.model}: changes of {table} can't be seen"
