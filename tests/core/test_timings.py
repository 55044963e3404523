"""Where the time of a run went, told by the moments of its events."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retcon.core.chains import RecordedEvent
from retcon.core.tasks import Tasks
from retcon.core.timings import Step, Timing, run_sample, timing_of, wave_sample

NOON = datetime(2026, 1, 22, 12, tzinfo=UTC)
TASKS = Tasks(
    count=4, planning_seconds=1.0, seconds=6.0, commit_seconds=0.5, run_seconds=11.0, cpu_seconds=8.0,
    read_bytes=1000, written_bytes=500, shuffled_bytes=0, spilled_bytes=0,
)  # fmt: skip


def began(**more: Any) -> dict[str, Any]:
    return {"until": "published", "max_active": 2, "overrides": [], "versions": {}, "conf": {}, **more}


def staged(wave: int, seconds: float = 8.0, **more: Any) -> dict[str, Any]:
    slices = [{"slice": f"2026-01-0{wave}", "rows": 1, "bytes": 500, "files": 1}]
    return {"model": "mart.a", "wave": wave, "slices": slices, "seconds": seconds, **more}


def told(*events: tuple[float, str, dict[str, Any]]) -> Timing:
    """The timing of events, each with its second."""
    recorded = [
        RecordedEvent(
            run="r", number=number, at=(NOON + timedelta(seconds=second)).isoformat(), who="ada", kind=kind, body=body,
            previous="", hash="",
        )
        for number, (second, kind, body) in enumerate(events, start=1)
    ]  # fmt: skip
    return timing_of(recorded, planning=0.7)


WHOLE: list[tuple[float, str, dict[str, Any]]] = [
    (0, "RunOpened", {}),
    (20, "ApplyBegan", began(cores=4, preparing=1.5, starting=5.0)),
    (22, "TablesOpened", {}),
    (30, "WaveStaged", staged(1, tasks=asdict(TASKS), bytes=1000)),
    (33, "WaveStaged", staged(2, tasks=None)),
    (34, "StagingDone", {}),
    (34, "ProvingBegan", {}),
    (40, "Judged", {}),
    (41, "PublishBegan", {}),
    (42, "Published", {"settled": False}),
    (43, "Certified", {}),
    (45, "CheckedAfter", {"seconds": 2.5}),
]


def test_the_time_up_to_an_event_belongs_to_the_step_that_it_ends() -> None:
    timing = told(*WHOLE)
    assert timing.steps == {
        Step.PLANNING: 0.7,
        Step.PREPARING: 1.5,
        Step.STARTING: 5.0,
        Step.OPENING: 2.0,
        Step.STAGING: 12.0,
        Step.PROVING: 6.0,
        Step.PUBLISHING: 2.0,
        Step.CHECKING: 2.5,
    }
    assert timing.in_spark == 29.5
    assert timing.core_hours == 29.5 * 4 / 3600


def test_what_a_process_that_died_did_after_its_last_event_isnt_counted() -> None:
    day = 86_400
    timing = told(
        *WHOLE[:4],
        (day, "ApplyBegan", began(cores=4)),
        (day + 3, "WaveStaged", staged(2)),
        (day + 4, "StagingDone", {}),
    )
    assert timing.steps[Step.STAGING] == 8.0 + 4.0
    assert len(timing.turns) == 2


def test_a_pause_ends_the_turn_of_whoever_drove_and_of_nobody_else() -> None:
    paused = told(*WHOLE[:4], (37, "Paused", {"why": "", "driven": True}))
    assert paused.steps[Step.STAGING] == 8.0 + 7.0
    found = told(*WHOLE[:4], (86_400, "Paused", {"why": "asked by ben"}))
    assert found.steps[Step.STAGING] == 8.0


def test_a_publish_that_a_later_process_found_out_about_has_no_length() -> None:
    timing = told(*WHOLE[:9], (86_400, "Published", {"settled": True}), (86_500, "CheckedAfter", {"seconds": 3.0}))
    assert timing.steps[Step.PUBLISHING] == 1.0
    assert timing.steps[Step.CHECKING] == 3.0


def test_what_others_do_to_a_run_isnt_its_time() -> None:
    later = told(*WHOLE, (9_000, "SampleChecked", {}), (9_500, "Reproduced", {}), (9_900, "RollbackBegan", {}))
    assert later.steps == told(*WHOLE).steps


def test_records_of_before_time_was_measured_tell_what_their_moments_tell() -> None:
    bare = [(second, kind, began() if kind == "ApplyBegan" else body) for second, kind, body in WHOLE[:-1]]
    timing = told(*bare, (45, "CheckedAfter", {}))
    assert timing.core_hours is None
    assert timing.steps[Step.STAGING] == 12.0
    assert Step.STARTING not in timing.steps


def test_a_run_that_was_never_driven_took_nothing() -> None:
    timing = told((0, "RunOpened", {}))
    assert (timing.turns, timing.in_spark, timing.core_hours) == ((), 0, None)


def test_a_wave_has_a_part_around_its_job_and_a_share_of_what_ran_at_once() -> None:
    first, second = told(*WHOLE).waves
    assert (first.around, first.written_bytes) == (0.5, 500)
    assert first.at_once == pytest.approx(8 / 5.5), "of its 8 seconds another shared 5"
    assert second.around is None
    sample = wave_sample(first)
    assert (sample.seconds, sample.fixed) == (pytest.approx(5.5), pytest.approx(2 * 5.5 / 8))
    assert (sample.bytes, sample.cores) == (1000, 4)
    assert wave_sample(second).fixed == 0.0
    (alone,) = told(*WHOLE[:4]).waves
    assert alone.at_once == 1


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(1, 20), st.sampled_from("ab")), min_size=1, max_size=12))
def test_the_shares_of_waves_of_all_models_make_up_the_time_in_which_any_ran(
    spans: list[tuple[int, int, str]],
) -> None:
    waves = [
        (100 + begin + length, "WaveStaged", {**staged(1, float(length)), "model": model})
        for begin, length, model in spans
    ]
    timing = told((0, "RunOpened", {}), (1, "ApplyBegan", began(cores=4)), *sorted(waves, key=lambda each: each[0]))
    in_use = {second for begin, length, _ in spans for second in range(begin, begin + length)}
    assert sum(wave_sample(wave).seconds for wave in timing.waves) == pytest.approx(len(in_use), rel=1e-4)
    assert all(wave.at_once >= 1 for wave in timing.waves)


def test_a_wave_that_was_found_on_its_branch_tells_nothing_of_time() -> None:
    assert told(*WHOLE[:3], (25, "WaveStaged", staged(1, 0.0, adopted=True))).waves == ()


def test_only_a_run_that_came_to_its_end_tells_what_comes_around_staging() -> None:
    assert run_sample(told(*WHOLE[:6])) is None
    sample = run_sample(told(*WHOLE))
    assert sample is not None
    assert (sample.starting, sample.staging, sample.rest) == (5.0, 12.0, 12.5)
