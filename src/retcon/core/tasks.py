"""Tasks: what Spark's own metrics tell of one job."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from retcon.values import dataclass


@dataclass(frozen=True, kw_only=True)
class Tasks:
    """What the tasks of one job did, and what its driver did before and after them. Tasks read, compute and write in
    one go: Spark doesn't tell these apart.
    """

    count: int
    planning_seconds: float
    """Until the first stage was submitted: Spark's optimizer, and Iceberg's look at manifests."""
    seconds: float
    """From then until the last stage was over."""
    commit_seconds: float
    """From then until the job was over."""
    run_seconds: float
    """Of all tasks together."""
    cpu_seconds: float
    """Of these, on a CPU in the JVM; Python's workers aren't counted."""
    read_bytes: int
    """As far as the storage's library counts them: 0 where it doesn't."""
    written_bytes: int
    shuffled_bytes: int
    spilled_bytes: int


def tasks_from(document: Mapping[str, Any] | None) -> Tasks | None:
    """From the plain data that it was recorded as."""
    return None if document is None else Tasks(**document)
