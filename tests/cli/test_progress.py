"""Progress, on a terminal and elsewhere."""

from __future__ import annotations

import io
import re

import pytest
from rich.console import Console

from retcon.cli.progress import StepState, closing_line, followed, line, watching
from retcon.flow.ports import Progress


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def staging(done: int, *, rows: int = 0, model: str = "mart.x") -> Progress:
    return Progress(step="stage", model=model, done=done, total=90, rows=rows)


def state(done: int, *, before: int = 0, rows: int = 0) -> StepState:
    return StepState(progress=staging(done, rows=rows), began=100.0, done_before=before)


def test_a_line_tells_done_speed_and_time_left() -> None:
    text = line(state(30, rows=600_000), 120.0, bar=False).plain
    assert text == "staging  30/90 slices  30,000 rows/s  about 40 s left  mart.x"


def test_the_bar_fills_from_the_left() -> None:
    assert "█" * 8 + "─" * 16 in line(state(30), 120.0, bar=True).plain


def test_time_left_counts_only_what_this_call_did() -> None:
    assert "about 40 s left" in line(state(60, before=45), 120.0, bar=False).plain
    assert "left" not in line(state(45, before=45), 120.0, bar=False).plain


def test_a_step_that_is_over_leaves_one_line() -> None:
    closing = closing_line(state(90, rows=1_800_000), 145.0)
    assert closing is not None
    assert closing.plain == "✓ staged 90 slices, 1,800,000 rows in 45 s (40,000 rows/s)"
    assert closing_line(state(89), 145.0) is None


def test_a_new_step_starts_its_own_clock() -> None:
    before = followed(None, staging(15), 100.0)
    assert followed(before, staging(30), 130.0).began == 100.0
    proving = followed(before, Progress(step="prove", done=0, total=2), 140.0)
    assert (proving.began, proving.done_before) == (140.0, 0)


def test_without_a_terminal_lines_come_now_and_then() -> None:
    clock, stream = Clock(), io.StringIO()
    with watching(Console(file=stream, width=120), clock) as watch:
        watch(Progress(step="open", model="mart.x"))
        for done in range(90):
            clock.now += 1
            watch(staging(done, rows=done * 10))
        clock.now += 1
        watch(staging(90, rows=900))
        watch(Progress(step="publish", done=0, total=2))
        watch(Progress(step="publish", done=2, total=2))
    lines = stream.getvalue().splitlines()
    assert lines[0] == "opening  mart.x"
    assert lines[1] == "staging  0/90 slices  mart.x"
    assert lines[2] == "staging  5/90 slices  10 rows/s  about 1 min 25 s left  mart.x"
    assert len([told for told in lines if told.startswith("staging")]) == 18
    assert lines[-3] == "✓ staged 90 slices, 900 rows in 1 min 30 s (10 rows/s)"
    assert lines[-2:] == ["publishing  0/2 tables", "✓ published 2 tables in 0.0 s"]


def test_on_a_terminal_one_line_is_drawn_again_and_steps_leave_theirs() -> None:
    clock, stream = Clock(), io.StringIO()
    console = Console(file=stream, force_terminal=True, width=100, color_system=None, legacy_windows=False)
    with watching(console, clock) as watch:
        watch(staging(0))
        clock.now += 9
        watch(staging(90, rows=900))
        watch(Progress(step="prove", model="mart.x", done=0, total=1))
    shown = stream.getvalue()
    assert "✓ staged 90 slices, 900 rows in 9.0 s (100 rows/s)" in shown
    assert "proven" not in shown


@pytest.mark.parametrize("environ", [{"TERM": "dumb"}, {"TERM": "xterm", "NO_COLOR": "1"}])
def test_a_dumb_or_colourless_terminal_gets_plain_lines(environ: dict[str, str]) -> None:
    stream = io.StringIO()
    console = Console(file=stream, force_terminal=True, width=100, _environ=environ)
    with watching(console, Clock()) as watch:
        watch(staging(0))
    # dim isn't a colour; what must not come is the cursor's to and fro
    assert re.sub("\x1b\\[[02]m", "", stream.getvalue()) == "staging  0/90 slices  mart.x\n"
