"""Validity windows: rows of a history that hold from one moment up to another, and what is wrong with them."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

from retcon.core.gates import VALID, Finding, Verdict
from retcon.values import dataclass


class Gaps(StrEnum):
    """What a moment means at which no window of a key holds, though there are earlier and later ones."""

    WARN = "warn"
    FAIL = "fail"
    ALLOW = "allow"


@dataclass(frozen=True, kw_only=True)
class Validity:
    """The columns that bound a row's window, `[start, end)` with an open end where it is NULL, and whose it is."""

    start: str
    end: str
    key: tuple[str, ...]
    gaps: Gaps = Gaps.WARN

    @property
    def columns(self) -> tuple[str, ...]:
        return (*self.key, self.start, self.end)


@dataclass(frozen=True, kw_only=True)
class WindowCounts:
    """What was found in all windows of a history."""

    windows: int
    keys: int
    empty: int = 0
    """Windows that end before or where they begin, or have no beginning."""
    overlaps: int = 0
    overlapping_keys: int = 0
    gaps: int = 0
    gap_keys: int = 0
    examples: tuple[str, ...] = ()


def gate_name(input: str) -> str:
    """What the check of an input's windows is called among the gates."""
    return f"{VALID}.{input}"


def judge_windows(model: str, input: str, valid: Validity, found: WindowCounts) -> Verdict:
    """Windows that overlap would let a fact match twice; gaps count as the model says."""
    findings = list(_findings(valid, found))
    if findings:
        findings += [Finding(slice=None, text=f"e.g. {example}") for example in found.examples]
    parts = [f"{found.windows:,} windows of {found.keys:,} keys"]
    if not findings:
        parts.append("none overlap")
    if found.gaps and valid.gaps is not Gaps.ALLOW:
        parts.append(f"{found.gaps:,} gaps in {found.gap_keys:,} keys" + (" (warning)" if not findings else ""))
    return Verdict(model=model, gate=gate_name(input), kind=VALID, summary=", ".join(parts), findings=tuple(findings))


def _findings(valid: Validity, found: WindowCounts) -> Iterable[Finding]:
    if found.overlaps:
        text = f"{found.overlaps:,} windows in {found.overlapping_keys:,} keys begin before an earlier one ends"
        yield Finding(slice=None, text=text)
    if found.empty:
        text = f"{found.empty:,} windows hold at no moment: {valid.start} is NULL, or not before {valid.end}"
        yield Finding(slice=None, text=text)
    if found.gaps and valid.gaps is Gaps.FAIL:
        yield Finding(slice=None, text=f"{found.gaps:,} gaps in {found.gap_keys:,} keys")
