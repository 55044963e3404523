"""What work costs: processor time of a process and all below it, wall time, memory, and what many measurements say.

The standard library only: peers measure themselves with it, in environments of their own.
"""

from __future__ import annotations

import math
import os
import statistics
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")
WARM_UPS = 4
"""Rounds of all ways before anything is measured: a fifth of what six waves cost in the first is Java's compilers, and
they are still at work in the fourth.
"""


@dataclass(frozen=True, kw_only=True)
class Cost:
    cpu: float
    wall: float


@dataclass(frozen=True, kw_only=True)
class Spread:
    """What several measurements of one thing say."""

    median: float
    low: float
    high: float
    count: int = 1

    def shown(self, digits: int = 2) -> str:
        if self.count == 1:
            return f"{self.median:,.{digits}f}"
        return f"{self.median:,.{digits}f} ({self.low:,.{digits}f}–{self.high:,.{digits}f})"


@dataclass(frozen=True, kw_only=True)
class Peak:
    """The most memory while something was done, in MiB; None where the machine doesn't tell."""

    python: float | None
    heap: float | None


def spread(values: Iterable[float]) -> Spread:
    listed = sorted(values)
    return Spread(median=statistics.median(listed), low=listed[0], high=listed[-1], count=len(listed))


# ── processor time ────────────────────────────────────────────────────────────────────────────────────────────────


def cpu_seconds(root: int | None = None) -> float:
    """Processor time so far of a process and all below it (of PySpark: Python, the JVM, its Python workers)."""
    used = _used_by_process()
    root = os.getpid() if root is None else root
    return sum(used[pid][1] for pid in _tree({pid: parent for pid, (parent, _) in used.items()}, root))


def _tree(parents: Mapping[int, int], root: int) -> set[int]:
    below: dict[int, list[int]] = {}
    for pid, parent in parents.items():
        below.setdefault(parent, []).append(pid)
    found: set[int] = set()
    ahead = [root] if root in parents else []
    while ahead:
        pid = ahead.pop()
        found.add(pid)
        ahead += below.get(pid, ())
    return found


def _used_by_process() -> dict[int, tuple[int, float]]:
    """Of every process its parent and its processor seconds, with those of children that have ended."""
    used: dict[int, tuple[int, float]] = {}
    if not Path("/proc/self/stat").exists():
        shown = subprocess.run(["ps", "-axo", "pid=,ppid=,cputime="], capture_output=True, text=True, check=True).stdout
        for line in shown.splitlines():
            pid, parent, clock = line.split()
            parts = [float(part) for part in clock.replace("-", ":").split(":")]
            used[int(pid)] = int(parent), sum(part * 60**power for power, part in enumerate(reversed(parts)))
        return used
    tick = os.sysconf("SC_CLK_TCK")
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except (FileNotFoundError, ProcessLookupError):
                continue
            used[int(entry.name)] = int(fields[1]), sum(int(field) for field in fields[11:15]) / tick
    return used


def measured(work: Callable[[], object]) -> Cost:
    """What it costs to do this once."""
    return told(work)[1]


def told(work: Callable[[], T]) -> tuple[T, Cost]:
    """The same, with what came out."""
    cpu, wall = cpu_seconds(), time.monotonic()
    result = work()
    return result, Cost(cpu=cpu_seconds() - cpu, wall=time.monotonic() - wall)


# ── several runs ──────────────────────────────────────────────────────────────────────────────────────────────────

Runs = Sequence[tuple[str, Cost]]
"""What was run, in its order."""


def costs_of(runs: Runs, name: str) -> list[Cost]:
    return [cost for each, cost in runs if each == name]


def against(runs: Runs, name: str, reference: str, what: str = "cpu") -> Spread:
    """Each run against the mean of the reference before and after it: the JIT warms up, machines have moods."""
    value = {index: getattr(cost, what) for index, (_, cost) in enumerate(runs)}
    anchors = [index for index, (each, _) in enumerate(runs) if each == reference]
    if not anchors:
        raise ValueError(f"{reference} was never run")
    ratios: list[float] = []
    for index, (each, _) in enumerate(runs):
        if each == name:
            before = [at for at in anchors if at < index]
            after = [at for at in anchors if at > index]
            near = [value[at] for at in (*before[-1:], *after[:1])] or [value[index]]
            ratios.append(value[index] / statistics.mean(near))
    return spread(ratios)


def exponent(sizes: Sequence[float], costs: Sequence[float]) -> float:
    """How a cost grows with a size: 0 not at all, 1 in proportion, 2 with its square; least squares on logarithms."""
    if len(sizes) != len(costs) or len(set(sizes)) < 2:
        raise ValueError("an exponent needs at least two different sizes, and a cost for each")
    if min(*sizes, *costs) <= 0:
        raise ValueError("sizes and costs must be above 0")
    return statistics.linear_regression([math.log(size) for size in sizes], [math.log(cost) for cost in costs]).slope


# ── memory ────────────────────────────────────────────────────────────────────────────────────────────────────────


def with_peak(spark: Any, work: Callable[[], T]) -> tuple[T, Cost, Peak]:
    """Cost and peak of memory; of the JVM its heap, of which what has died counts until it is collected."""
    pools = list(spark._jvm.java.lang.management.ManagementFactory.getMemoryPoolMXBeans())
    heap = [pool for pool in pools if pool.getType().toString() == "Heap memory"]
    spark._jvm.java.lang.System.gc()
    for pool in heap:
        pool.resetPeakUsage()
    _forget_peak()
    result, cost = told(work)
    used = sum(pool.getPeakUsage().getUsed() for pool in heap) / 2**20
    return result, cost, Peak(python=_peak(), heap=used)


def _forget_peak() -> None:
    forget = Path("/proc/self/clear_refs")
    if forget.exists():
        forget.write_text("5")


def _peak() -> float | None:
    status = Path("/proc/self/status")
    lines = status.read_text().splitlines() if status.exists() else []
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM")), None)
