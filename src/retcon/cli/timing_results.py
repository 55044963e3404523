"""Where the time of a run went, as plain data."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from retcon.core.timings import TimedWave, Timing
from retcon.flow.tell import RunReport

Json = dict[str, Any]


def taken_result(report: RunReport) -> Json:
    """What a run took and cost, and what was estimated."""
    timing, estimate, price = report.timing, report.run.plan.estimate, report.price
    hours = timing.core_hours
    return {
        "seconds": round(timing.in_spark, 3),
        "core_hours": None if hours is None else round(hours, 6),
        "cost": None if hours is None or price is None else round(hours * price.core_hour, 6),
        "currency": None if price is None else price.currency or None,
        "estimated": None if estimate is None else estimate.document(),
    }


def timing_result(timing: Timing) -> Json:
    """Steps in seconds, over all calls of `apply` and in each, and every wave."""
    return {
        "steps": {step.value: round(seconds, 3) for step, seconds in timing.steps.items()},
        "turns": [
            {
                "at": turn.at,
                "cores": turn.cores,
                "max_active": turn.max_active,
                "steps": {step.value: round(seconds, 3) for step, seconds in turn.seconds.items()},
            }
            for turn in timing.turns
        ],
        "waves": [_wave(wave) for wave in timing.waves],
    }


def _wave(wave: TimedWave) -> Json:
    return {
        "model": wave.model,
        "wave": wave.wave,
        "slices": wave.slices,
        "seconds": wave.seconds,
        "around_seconds": None if wave.around is None else round(wave.around, 3),
        "at_once": round(wave.at_once, 2),
        "bytes_in_scope": wave.bytes,
        "bytes_staged": wave.written_bytes,
        "tasks": None if wave.tasks is None else asdict(wave.tasks),
    }
