"""Great Expectations: suites that others wrote, as gates."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from retcon.core.findings import Finding
from retcon.values import dataclass


@dataclass(frozen=True, kw_only=True)
class Expectation:
    """One expectation of a suite, as its file has it."""

    type: str
    arguments: Mapping[str, object] = field(hash=False)


@dataclass(frozen=True, kw_only=True)
class GreatExpectations:
    """The staged slices meet every expectation of a suite."""

    name: str
    suite: str
    """Its file, as the model names it."""
    expectations: tuple[Expectation, ...]
    warns: bool = False
    kind: str = "great_expectations"


@dataclass(frozen=True, kw_only=True)
class Unmet:
    """An expectation that isn't met: how many values, or what instead."""

    type: str
    columns: tuple[str, ...] = ()
    unexpected: int | None = None
    rows: int | None = None
    """Of so many that were looked at."""
    observed: str = ""
    examples: tuple[str, ...] = ()
    """Values of rows, where the model lets them be shown."""

    @property
    def text(self) -> str:
        about = f" of {', '.join(self.columns)}" if self.columns else ""
        parts = [f"{self.type}{about}"]
        if self.unexpected is not None:
            among = f" of {self.rows:,} rows" if self.rows is not None else ""
            parts.append(f"{self.unexpected:,}{among} unexpected")
        if self.observed:
            parts.append(f"observed {self.observed}")
        if self.examples:
            parts.append(f"e.g. {', '.join(self.examples)}")
        return parts[0] if len(parts) == 1 else f"{parts[0]}: {', '.join(parts[1:])}"


def judge_expectations(gate: GreatExpectations, unmet: tuple[Unmet, ...]) -> tuple[list[Finding], str]:
    """Every expectation that isn't met, over all slices together."""
    total = len(gate.expectations)
    texts = sorted(each.text for each in unmet)
    return [Finding(slice=None, text=text) for text in texts], f"{gate.suite}: {total - len(unmet)} of {total} met"
