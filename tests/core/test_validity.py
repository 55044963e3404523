"""What comes of validity windows."""

from __future__ import annotations

from dataclasses import replace

import pytest

from retcon.core.gates import Verdict
from retcon.core.validity import Gaps, Validity, WindowCounts, judge_windows

VALID = Validity(start="a", end="b", key=("k",))
SOUND = WindowCounts(windows=9, keys=3)


def judged(found: WindowCounts, gaps: Gaps = Gaps.WARN) -> Verdict:
    return judge_windows("mart.x", "raw.h", replace(VALID, gaps=gaps), found)


def test_sound_windows_hold() -> None:
    verdict = judged(SOUND)
    assert verdict.passed
    assert (verdict.gate, verdict.kind, verdict.summary) == (
        "valid.raw.h",
        "valid",
        "9 windows of 3 keys, none overlap",
    )


@pytest.mark.parametrize("found", [{"overlaps": 2, "overlapping_keys": 1}, {"empty": 1}])
def test_overlaps_and_empty_windows_fail_with_examples_and_cant_be_overridden(found: dict[str, int]) -> None:
    verdict = judged(replace(SOUND, **found, examples=("a window of key #1",)))
    assert not verdict.passed
    assert verdict.findings[-1].text == "e.g. a window of key #1"
    assert not verdict.may_be_overridden


@pytest.mark.parametrize(
    ("gaps", "passed", "told"), [(Gaps.WARN, True, True), (Gaps.FAIL, False, True), (Gaps.ALLOW, True, False)]
)
def test_gaps_count_as_the_model_says(gaps: Gaps, passed: bool, told: bool) -> None:
    verdict = judged(replace(SOUND, gaps=4, gap_keys=2), gaps)
    assert verdict.passed is passed
    assert ("4 gaps in 2 keys" in verdict.summary) is told
