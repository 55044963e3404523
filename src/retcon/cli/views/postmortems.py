"""A post-mortem as Markdown."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from retcon.cli.figures import NONE, Zone, amount, change, count, counted
from retcon.cli.views.drifts import repair_command
from retcon.cli.views.parts import consumer
from retcon.core.drifts import Arrival, InputDrift
from retcon.core.projects import Consumer
from retcon.core.runs import RunState
from retcon.flow.postmortem import PostMortem
from retcon.flow.tell import Change, ModelDiff

_MOST = 60
"""Slices that are listed one by one."""


def postmortem_text(found: PostMortem, consumers: Mapping[str, Consumer], zone: Zone, env: str) -> str:
    """The whole document."""
    return "\n".join(
        [
            f"# Post-mortem: {found.model}",
            "",
            f"Written {zone.named(found.written)}, from retcon's ledger and Iceberg's metadata.",
            "",
            *_summary(found, zone),
            "",
            "## How it came in",
            "",
            *_arrivals(found, zone),
            "",
            "## Impact",
            "",
            *_impact(found, env),
            "",
            "## Repair",
            "",
            *_repair(found, zone, env),
            "",
            "## Who reads it",
            "",
            *_readers(found, consumers),
            "",
        ]
    )


def _summary(found: PostMortem, zone: Zone) -> Iterator[str]:
    number = counted(len(found.slices), "slice")
    if not found.is_corrected:
        yield f"{number} of {found.model} ({found.slices.text}): not computed from what the inputs hold now."
        yield "The watermarks have passed these changes, so no load takes them up by itself."
        return
    run = found.run
    if run is not None and run.state is RunState.PUBLISHED:
        when = zone.named(run.published)
        yield f"{number} of {found.model} ({found.slices.text}): corrected by run {run.id}, {when}."
    elif run is not None:
        state = run.state.value.replace("_", " ")
        yield f"{number} of {found.model} ({found.slices.text}): other content in run {run.id}, which is {state}."


def _arrivals(found: PostMortem, zone: Zone) -> Iterator[str]:
    if not found.inputs and not found.slices:
        yield "Nothing differs."
    elif not found.inputs:
        yield (
            "By no commit to an input that loads follow, as far as the history goes: the code, the settings, or an "
            "input that isn't followed changed, or others wrote to the table."
        )
    for position, each in enumerate(found.inputs):
        yield from ("",) if position else ()
        yield f"### {each.table}"
        yield ""
        yield from _arrival_table(each, zone)


def _arrival_table(drift: InputDrift, zone: Zone) -> Iterator[str]:
    if drift.arrivals:
        heads = ("snapshot", f"made ({zone.name})", "slices", "rows added", "rows removed", "passed by")
        yield from _table(heads, [_arrival(each, zone) for each in drift.arrivals])
        added, removed = _total([a.added for a in drift.arrivals]), _total([a.removed for a in drift.arrivals])
        yield ""
        yield f"In all: {added} rows added, {removed} removed."
    if not drift.is_history_known:
        yield "The table's history doesn't go back to what was computed from: some commits may be missing here."
    elif not drift.arrivals:
        yield "By no commit of its own."


def _arrival(arrival: Arrival, zone: Zone) -> tuple[str, ...]:
    commit, move = arrival.commit, arrival.passed_by
    by = f" by run {commit.run}" if commit.run else ""
    passed = NONE
    if move is not None:
        who = f"run {move.run}" if move.run is not None else f"{move.who}: {move.why}"
        passed = f"{who}, {zone.moment(move.at)}"
    return (
        f"{commit.snapshot_id} ({commit.operation}{by})",
        zone.moment(commit.at),
        arrival.slices.text,
        _rows(arrival.added),
        _rows(arrival.removed),
        passed,
    )


def _rows(number: int | None) -> str:
    return "not known" if number is None else count(number)


def _total(numbers: Sequence[int | None]) -> str:
    known = [number for number in numbers if number is not None]
    least = "at least " if len(known) < len(numbers) else ""
    return f"{least}{sum(known):,}" if known or not numbers else "an unknown number of"


def _impact(found: PostMortem, env: str) -> Iterator[str]:
    diff = found.diff
    if diff is None or not diff.slices:
        yield "Known once the repairing plan is staged and measured:"
        yield ""
        yield "```sh"
        yield from _measuring(found, env)
        yield "```"
        return
    metrics = list(dict.fromkeys(metric for each in diff.slices for metric in each.metrics))
    rows = [
        (each.slice, *_cells(each.rows), *(cell for m in metrics for cell in _cells(each.metrics.get(m))))
        for each in diff.slices[:_MOST]
    ]
    totals = {metric: diff.totals.get(metric) for metric in metrics}
    heads = ("slice", *(head for measure in ("rows", *metrics) for head in (f"{measure}: old", "new", "change")))
    yield from _table(heads, rows)
    left = len(diff.slices) - _MOST
    if left > 0:
        yield ""
        yield f"And {counted(left, 'more slice')}: `retcon diff {found.run.id if found.run else found.model} --json`."
    told = [f"{metric} {_moved(pair)}" for metric, pair in totals.items() if pair is not None]
    if told:
        yield ""
        yield f"Over all slices of the run: {'; '.join(told)}."
    if not metrics:
        yield ""
        yield "No `drift` gate of the model names a metric: rows are all that was measured."
    for other in found.others:
        yield ""
        yield f"{other.model}: {_other(other)}."


def _measuring(found: PostMortem, env: str) -> Iterator[str]:
    if found.run is None:
        yield repair_command(found.model, found.slices, env)
    yield f"retcon apply {found.run.id if found.run is not None else 'PLAN'} --until proven"


def _cells(pair: Change | None) -> tuple[str, str, str]:
    return (NONE, NONE, NONE) if pair is None else (amount(pair.old), amount(pair.new), change(pair))


def _moved(pair: Change) -> str:
    return f"{amount(pair.old)} → {amount(pair.new)} ({change(pair)})"


def _other(diff: ModelDiff) -> str:
    measures = {"rows": diff.rows, **diff.totals}
    told = "; ".join(f"{measure} {_moved(pair)}" for measure, pair in measures.items())
    return f"{counted(diff.changed, 'slice')} changed; {told}"


def _repair(found: PostMortem, zone: Zone, env: str) -> Iterator[str]:
    run = found.run
    if run is None:
        yield "No run repairs it yet. The plan that does:"
        yield ""
        yield "```sh"
        yield repair_command(found.model, found.slices, env)
        yield "```"
        return
    yield f"Run {run.id}, {run.state.value.replace('_', ' ')}: {run.plan.reason}"
    if run.published is not None:
        undone = f", rolled back {zone.named(run.rolled_back)}" if run.rolled_back is not None else ""
        yield f"Published {zone.named(run.published)}{undone}."
    elif not run.state.is_final:
        yield f"`retcon apply {run.id}` goes on with it and publishes it."


def _readers(found: PostMortem, known: Mapping[str, Consumer]) -> Iterator[str]:
    lines = [f"- {name} (model)" for name in found.readers]
    lines += [f"- {consumer(known, name)}" for name in found.consumers]
    yield from lines or ["Nobody that the project knows of."]


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(_cell(head) for head in heads)} |"
    yield f"|{'---|' * len(heads)}"
    for row in rows:
        yield f"| {' | '.join(_cell(cell) for cell in row)} |"


def _cell(text: str) -> str:
    """What people wrote stays in its cell."""
    return " ".join(text.replace("|", "\\|").split())
