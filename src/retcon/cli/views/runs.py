"""One run: what it did, how it was judged, what became of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime

from rich.console import RenderableType
from rich.text import Text

from retcon.cli.figures import NONE, Zone, amount, change, count, counted, duration, size
from retcon.cli.views.certificates import followed_up_section
from retcon.cli.views.hand_checks import checked_facts
from retcon.cli.views.parts import (
    BAD,
    GOOD,
    QUIET,
    STRONG,
    WARN,
    Cell,
    bullets,
    command,
    consumer,
    facts,
    more,
    name,
    number,
    parameters_text,
    prose,
    section,
    stack,
    table,
    title,
)
from retcon.cli.views.reproductions import reproduced_text
from retcon.cli.views.states import state_text
from retcon.cli.views.timings import took_facts
from retcon.cli.views.verdicts import objections_of, sign_of, verdicts_table
from retcon.core.budgets import budget_from
from retcon.core.projects import Consumer
from retcon.core.runs import (
    RecordedSlice,
    RecordedVerdict,
    RecordedWave,
    Run,
    RunState,
    RunTable,
    ScanEvidence,
    WaveState,
)
from retcon.flow.tell import Change, DiffReport, RunReport

_WAVES = 20
_APPLIED = 3
_COMMITS = 3

Consumers = Mapping[str, Consumer]


def applied_view(report: RunReport, diff: DiffReport | None, consumers: Consumers, zone: Zone) -> RenderableType:
    """What `apply` has to say when it comes to rest."""
    run = report.run
    return stack(
        [
            title("Run", Text(run.id, style=STRONG), state_text(run.state)),
            _rebases(report, zone),
            section("Verdicts", verdicts_table(report.verdicts)) if report.verdicts else None,
            _pruning(in_plan_order(report)),
            section("Change", totals_table(diff)) if diff is not None else None,
            same_view(run),
            _tables(run) if run.published is not None else None,
            followed_up_section(report),
            Text(),
            facts(_next_steps(report, consumers, zone)),
        ]
    )


def same_view(run: Run) -> RenderableType | None:
    """What the publish left alone."""
    told = [
        f"{each.table}: {counted(len(each.same), 'slice')} came out as production has "
        f"{'it' if len(each.same) == 1 else 'them'}: not published"
        for each in _run_tables(run)
        if each.same
    ]
    return bullets(told) if told else None


def failed_view(verdicts: Sequence[RecordedVerdict]) -> RenderableType:
    """The verdicts of a run that may not be published."""
    return section("Verdicts", verdicts_table(verdicts))


def run_view(report: RunReport, zone: Zone, *, all_slices: bool = False) -> RenderableType:
    """Everything that the ledger knows about a run."""
    run = report.run
    return stack(
        [
            title("Run", Text(run.id, style=STRONG), state_text(run.state)),
            facts(_header(report, zone)),
            _tables(run) if run.tables else None,
            same_view(run),
            followed_up_section(report),
            _rebases(report, zone),
            section("Verdicts", verdicts_table(report.verdicts)) if report.verdicts else None,
            _waves(in_plan_order(report)),
            _pruning(in_plan_order(report)),
            _slices(report.slices) if all_slices else None,
        ]
    )


def in_plan_order(report: RunReport) -> list[RecordedWave]:
    """The waves as they were run: model after model."""
    order = {planned.name: position for position, planned in enumerate(report.run.plan.models)}
    return sorted(report.waves, key=lambda wave: (order.get(wave.model, len(order)), wave.wave))


def code_text(report: RunReport) -> Text:
    """The code that the run was opened with, model after model."""
    return Text("\n\n").join(
        Text("\n").join([Text(f"-- {model}", style=QUIET), Text(text.strip())]) for model, text in report.code.items()
    )


def _header(report: RunReport, zone: Zone) -> Iterator[tuple[str, RenderableType]]:
    run, plan = report.run, report.run.plan
    yield "why", plan.reason
    yield from _expected(report)
    if plan.environment is not None:
        yield "environment", f"{plan.environment}, beside production"
    asked = plan.request
    yield "range", f"{asked.start} to {asked.end}, both included" if asked.start is not None else "all"
    if report.parameters:
        yield "params", parameters_text(report.parameters)
    yield "by", f"{run.by}, {zone.named(run.created)}"
    yield from _applied(report, zone)
    done, empty = report.progress.done, report.progress.empty
    without = f", {count(empty)} of them empty" if empty else ""
    yield "staged", f"{count(done)} of {counted(report.progress.slices, 'slice')}{without}"
    yield from took_facts(report)
    if run.published is not None:
        yield "published", zone.named(run.published)
    if run.rolled_back is not None:
        yield "rolled back", f"{zone.named(run.rolled_back)}: {run.why_ended or NONE}"
    elif run.why_ended:
        yield "ended", run.why_ended
    for event in report.rebuilt:
        when = f"{event.who}, {zone.named(datetime.fromisoformat(event.at))}, from {event.body['source']}"
        unknown = Text("what was proven and consumed is unknown", style=QUIET)
        yield "rebuilt", stack([Text(f"by {when}"), unknown])
    for event in report.reproduced[-_APPLIED:]:
        when = zone.named(datetime.fromisoformat(event.at))
        yield "reproduced", f"{reproduced_text(event.body)}; by {event.who}, {when}"
    yield from checked_facts(report, zone)
    yield from _ways_back(report, zone)
    yield "record", _record(report)
    yield "command", Text(plan.request.command, style=QUIET)


def _expected(report: RunReport) -> Iterator[tuple[str, RenderableType]]:
    """What the correction was expected to do, beside what it did."""
    for position, (each, recorded) in enumerate(report.expectations):
        lines = [Text(f"{each.model}: {each.text}")]
        if recorded is None:
            lines.append(Text("not judged yet", style=QUIET))
        else:
            lines.append(Text.assemble(sign_of(recorded), f"  {recorded.verdict.summary}"))
            lines += objections_of(recorded)
        yield "expected" if position == 0 else "", stack(lines)


def _applied(report: RunReport, zone: Zone) -> Iterator[tuple[str, RenderableType]]:
    """The last calls of `apply`: as far as, with what."""
    for position, event in enumerate(report.applied[-_APPLIED:]):
        options = [f"until {event.body['until']}", f"{counted(event.body['max_active'], 'wave')} at once"]
        options += [f"override {gate}" for gate in event.body["overrides"]]
        # Runs of before there was this choice say nothing of it.
        options += [] if event.body.get("rebase", True) else ["no rebase"]
        options += ["expects something else"] if event.body.get("expect") is not None else []
        budget = budget_from(event.body.get("budget"))
        options += [] if budget is None else [f"budget {budget.text(report.price)}"]
        versions = ", ".join(f"{part} {version}" for part, version in event.body["versions"].items())
        by = f"{event.who}, {zone.named(datetime.fromisoformat(event.at))}, with {versions}"
        yield "applied" if position == 0 else "", stack([Text(", ".join(options)), Text(by, style=QUIET)])
    conf = report.applied[-1].body["conf"] if report.applied else {}
    if conf:
        yield "spark.conf", Text(parameters_text(conf), style=QUIET)


def _rebases(report: RunReport, zone: Zone) -> RenderableType | None:
    """What others wrote while the run was under way, and what was staged anew for it."""
    lines: list[Text] = []
    for each in report.rebases:
        lines.append(Text(zone.named(datetime.fromisoformat(each.at)), style=QUIET))
        for written, commits in each.commits.items():
            told = ", ".join(commits[:_COMMITS]) + (f" and {len(commits) - _COMMITS} more" * (len(commits) > _COMMITS))
            lines.append(Text(f"{written}: {told}"))
        lines += [Text(f"{model}: {slices.text} staged anew") for model, slices in each.slices.items()]
        for model, slices in each.replaced.items():
            text = f"{model}: in {slices.text}, rows of others are replaced that come from none of its inputs"
            lines.append(Text(text, style=WARN))
    return section("Others wrote meanwhile", stack(lines)) if lines else None


def _ways_back(report: RunReport, zone: Zone) -> Iterator[tuple[str, RenderableType]]:
    if report.rollback_until is not None:
        back = command("retcon rollback", report.run.id, "--reason …")
        yield "undo", Text.assemble(back, (f"  until {zone.named(report.rollback_until)}", QUIET))
    if report.old_versions:
        yield "old version", stack([Text(f"SELECT … FROM {each}") for each in report.old_versions])


def _record(report: RunReport) -> Text:
    if report.broken_link is not None:
        return Text(f"{counted(len(report.events), 'event')}, broken at event {report.broken_link}", style=BAD)
    return Text.assemble(f"{counted(len(report.events), 'event')}, ", ("chain sound", GOOD))


def _pruning(waves: Sequence[RecordedWave]) -> RenderableType | None:
    """What Spark read, against what was in scope and what there is."""
    sums: dict[tuple[str, str], ScanEvidence] = {}
    for wave in waves:
        for scan in wave.scans:
            before = sums.get((wave.model, scan.input))
            sums[wave.model, scan.input] = ScanEvidence(
                input=scan.input,
                scanned_files=scan.scanned_files + (before.scanned_files if before else 0),
                scope_files=scan.scope_files + (before.scope_files if before else 0),
                table_files=max(scan.table_files, before.table_files if before else 0),
                scanned_bytes=_added(scan.scanned_bytes, before.scanned_bytes if before else 0),
                scope_bytes=_added(scan.scope_bytes, before.scope_bytes if before else 0),
            )
    if not sums:
        return None
    rows = [
        (
            model,
            table_name,
            Text(count(scan.scanned_files), style=GOOD if scan.scanned_files <= scan.scope_files else WARN),
            count(scan.scope_files),
            count(scan.table_files),
            NONE if scan.scanned_bytes is None else size(scan.scanned_bytes),
            NONE if scan.scope_bytes is None else size(scan.scope_bytes),
        )
        for (model, table_name), scan in sums.items()
    ]
    files = (number("scanned"), number("in scope"), number("in the table"))
    heads = (name("model"), name("table"), *files, number("bytes scanned"), number("bytes in scope"))
    return section("Files read", table(heads, rows))


def _added(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else one + other


def totals_table(diff: DiffReport) -> RenderableType:
    """Old, new and change of rows and of every metric, over all slices together."""
    rows: list[tuple[Cell, ...]] = []
    for model in diff.models:
        measures: dict[str, Change] = {"rows": model.rows, **model.totals}
        for position, (measure, pair) in enumerate(measures.items()):
            shown = (amount(pair.old), amount(pair.new), change(pair))
            rows.append((model.model if position == 0 else "", measure, *shown))
    return table((name("model"), name("measure"), number("old"), number("new"), number("change")), rows)


def _run_tables(run: Run) -> list[RunTable]:
    return [run.tables[planned.name] for planned in run.plan.models if planned.name in run.tables]


def _tables(run: Run) -> RenderableType:
    rows = [
        (
            each.table,
            _before(each),
            str(each.published_snapshot) if each.published_snapshot is not None else "as it was" if each.same else NONE,
        )
        for each in _run_tables(run)
    ]
    return section("Tables", table((name("table"), name("snapshot before"), name("snapshot published")), rows))


def _before(table: RunTable) -> str:
    if table.snapshot_before is None:
        return "made by this run" if table.made and table.replaces is None else NONE
    return str(table.snapshot_before)


def _next_steps(report: RunReport, consumers: Consumers, zone: Zone) -> Iterator[tuple[str, RenderableType]]:
    run = report.run
    if report.asked is not None:
        again = command("retcon apply" if run.state is RunState.PUBLISHING else "retcon rollback", run.id)
        yield "catalog", Text(f"was asked to {report.asked}; its answer isn't recorded yet", style=WARN)
        yield "next", Text.assemble(again, ("  looks at the tables and finishes it", QUIET))
        return
    match run.state:
        case RunState.PUBLISHED:
            yield from _ways_back(report, zone)
            told = [consumer(consumers, each) for each in run.plan.consumers]
            if told:
                yield "tell", ", ".join(told)
            if run.plan.outside:
                yield "stale", bullets(f"{each.model}: {each.why}" for each in run.plan.outside)
            yield "look", command("retcon diff", run.id)
        case RunState.PROVEN:
            yield "look", command("retcon diff", run.id)
            yield "next", Text.assemble(command("retcon apply", run.id), ("  publishes it", QUIET))
        case _:
            yield "next", Text.assemble(command("retcon apply", run.id), ("  goes on from here", QUIET))


def _waves(waves: Sequence[RecordedWave]) -> RenderableType | None:
    if not waves:
        return None
    first = sorted(waves, key=lambda wave: (wave.state is not WaveState.FAILED, wave.attempts < 2))[:_WAVES]
    rows: list[tuple[Cell, ...]] = [
        (
            wave.model,
            count(wave.wave),
            wave.slices,
            Text(wave.state.value, style={WaveState.DONE: GOOD, WaveState.FAILED: BAD}.get(wave.state, QUIET)),
            count(wave.attempts),
            NONE if wave.seconds is None else duration(wave.seconds),
            Text(wave.error or "", style=BAD),
        )
        for wave in first
    ]
    heads = (
        name("model"),
        number("wave"),
        prose("slices"),
        name("state"),
        number("attempts"),
        number("took"),
        prose(),
    )
    return section("Waves", table(heads, rows), *more(len(waves) - _WAVES, "wave", "--json has them all"))


def _slices(slices: Sequence[RecordedSlice]) -> RenderableType:
    rows: list[tuple[Cell, ...]] = [
        (
            each.model,
            each.slice,
            count(each.wave),
            each.state.value,
            count(each.rows),
            NONE if each.bytes is None else size(each.bytes),
            count(each.files),
            Text((each.checksum or NONE)[:12], style=QUIET),
        )
        for each in slices
    ]
    heads = (
        name("model"),
        name("slice"),
        number("wave"),
        name("state"),
        number("rows"),
        number("bytes"),
        number("files"),
        name("checksum"),
    )
    return section("Slices", table(heads, rows))
