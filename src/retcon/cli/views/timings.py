"""Where the time of a run went, and how that compares with what was estimated."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import RenderableType
from rich.text import Text

from retcon.cli.figures import NONE, count, counted, duration, size
from retcon.cli.views.parts import (
    QUIET,
    STRONG,
    WARN,
    Cell,
    bullets,
    facts,
    more,
    name,
    number,
    section,
    stack,
    table,
    title,
)
from retcon.cli.views.states import state_text
from retcon.core.budgets import Budget
from retcon.core.estimates import Estimate, Price, Span
from retcon.core.plans import Plan
from retcon.core.timings import TimedWave, Timing
from retcon.core.waves import MAX_ACTIVE
from retcon.flow.tell import RunReport

_WAVES = 20
_TASKS = "tasks read, compute and write in one go: Spark doesn't tell these apart; their bytes tell how much"


def span_text(span: Span) -> str:
    """`40 s to 1 min 20 s`."""
    return f"{duration(span.low)} to {duration(span.high)}"


def estimate_facts(plan: Plan) -> Iterator[tuple[str, RenderableType]]:
    """How long a plan will take, what that costs, and what it may."""
    estimate = plan.estimate
    if estimate is not None:
        yield "time", _time(estimate)
        waves = sum(len(model.waves) for model in plan.models)
        told = f"up to {counted(MAX_ACTIVE, 'wave')}" if waves > 1 else "1 wave"
        yield "at once", Text.assemble(told, ("  `apply --max-active` says how many", QUIET))
        if estimate.cost is not None and estimate.price is not None:
            yield "cost", _cost(estimate.cost, estimate.price)
    if plan.budget is not None:
        yield "budget", _budget(plan.budget, estimate)


def _time(estimate: Estimate) -> RenderableType:
    if estimate.seconds is None:
        return _unknown(estimate)
    text = Text(span_text(estimate.seconds))
    hours = estimate.core_hours
    if hours is not None:
        text.append(f", {hours.low:.4f} to {hours.high:.4f} core hours on {counted(estimate.cores or 0, 'core')}")
    return Text.assemble(text, (f"  from {estimate.basis}", QUIET))


def _unknown(estimate: Estimate) -> Text:
    named = ", ".join(estimate.unknown[:3]) + (", …" if len(estimate.unknown) > 3 else "")
    is_one = len(estimate.unknown) == 1
    told = Text(f"not known yet: {named} ", style=WARN)
    if estimate.canary is None:
        told.append(f"{'was' if is_one else 'were'} never run")
        return Text.assemble(told, ("  --canary 2 tries two slices of each model", QUIET))
    told.append(f"{'reads' if is_one else 'read'} what this plan makes first")
    known = (f"{model} is staged in {span_text(span)}" for model, span in estimate.models.items())
    return Text("; ").join([told, *(Text(each) for each in known)])


def _cost(cost: Span, price: Price) -> Text:
    at = f"  at {price.text(price.core_hour)} a core hour"
    return Text.assemble(f"{price.text(cost.low)} to {price.text(cost.high)}", (at, QUIET))


def _budget(budget: Budget, estimate: Estimate | None) -> RenderableType:
    price = None if estimate is None else estimate.price
    is_known = estimate is not None and estimate.seconds is not None
    told = "the run pauses where it is passed" if is_known else "nothing to compare with yet; the run pauses there"
    return Text.assemble(budget.text(price), (f"  {told}", QUIET))


def took_facts(report: RunReport) -> Iterator[tuple[str, RenderableType]]:
    """What a run took, beside what was estimated."""
    timing, estimate = report.timing, report.run.plan.estimate
    if not timing.turns:
        return
    seconds = Text(duration(timing.in_spark))
    if estimate is not None and estimate.seconds is not None:
        seconds.append(f", {span_text(estimate.seconds)} estimated", style=QUIET)
    yield "took", Text.assemble(seconds, ("  --timing tells where it went", QUIET))
    hours, price = timing.core_hours, report.price
    if hours is None:
        return
    text = Text(f"{hours:.4f} core hours")
    if price is not None:
        text.append(f", {price.text(hours * price.core_hour)}")
        cost = None if estimate is None else estimate.cost
        if cost is not None:
            text.append(f", {price.text(cost.low)} to {price.text(cost.high)} estimated", style=QUIET)
    yield "cost", text


def timing_view(report: RunReport) -> RenderableType:
    """Steps, then waves."""
    run, timing = report.run, report.timing
    return stack(
        [
            title("Run", Text(run.id, style=STRONG), state_text(run.state)),
            facts(took_facts(report)),
            section("Steps", _steps(timing)),
            _models(timing.waves),
            _waves(timing.waves),
            bullets([Text(_TASKS, style=QUIET)]) if timing.waves else None,
        ]
    )


def _steps(timing: Timing) -> RenderableType:
    steps = timing.steps
    whole = sum(steps.values()) or 1.0
    rows: list[tuple[Cell, ...]] = [
        (step.value, duration(seconds), f"{100 * seconds / whole:.0f}%") for step, seconds in steps.items()
    ]
    if len(timing.turns) > 1:
        rows.append((Text(f"in {len(timing.turns)} calls of apply", style=QUIET), "", ""))
    return table((name("step"), number("took"), number("share")), rows)


_HEADS = (
    number("around"),
    number("planning"),
    number("tasks"),
    number("commit"),
    number("task time"),
    number("CPU"),
    number("read"),
    number("written"),
)


def _models(waves: Sequence[TimedWave]) -> RenderableType | None:
    if len({wave.model for wave in waves}) == len(waves):
        return None  # a wave each: these are told below
    by_model: dict[str, list[TimedWave]] = {}
    for wave in waves:
        by_model.setdefault(wave.model, []).append(wave)
    rows = [
        (model, count(len(own)), duration(sum(each.seconds for each in own)), *_amounts(own))
        for model, own in by_model.items()
    ]
    return section("Models", table((name("model"), number("waves"), number("took"), *_HEADS), rows))


def _waves(waves: Sequence[TimedWave]) -> RenderableType | None:
    if not waves:
        return None
    longest = sorted(waves, key=lambda wave: -wave.seconds)[:_WAVES]
    rows = [(wave.model, count(wave.wave), duration(wave.seconds), *_amounts([wave])) for wave in longest]
    shown = table((name("model"), number("wave"), number("took"), *_HEADS), rows)
    return section("Waves, longest first", shown, *more(len(waves) - _WAVES, "wave", "--json has them all"))


def _amounts(waves: Sequence[TimedWave]) -> tuple[str, ...]:
    told = [wave.tasks for wave in waves if wave.tasks is not None]
    around = sum(wave.around or 0.0 for wave in waves)
    sums = (
        around,
        sum(each.planning_seconds for each in told),
        sum(each.seconds for each in told),
        sum(each.commit_seconds for each in told),
        sum(each.run_seconds for each in told),
        sum(each.cpu_seconds for each in told),
    )
    read = sum(each.read_bytes for each in told)
    return (
        *(duration(each) if told else NONE for each in sums),
        size(read) if read else NONE,
        size(sum(wave.written_bytes for wave in waves)),
    )
