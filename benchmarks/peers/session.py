"""A peer's process: the session that it is given, what it is measured against, and what it tells."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from contextlib import redirect_stdout
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from measuring import Cost, measured
from orders import HAND_WRITTEN, hand_written, require_same

FEW_DAYS = 12
"""For warming up what goes day by day, and so does the same over and over in a single run."""


@dataclass(frozen=True, kw_only=True)
class Peer:
    """One session on the benchmark's tables."""

    spark: SparkSession
    root: Path
    days: int
    conf: dict[str, str]
    warm_ups: int
    """Rounds, as many as retcon had."""
    rounds: int
    """How often is measured what isn't done day by day."""
    runs: list[tuple[str, Cost]] = field(default_factory=list)

    @property
    def few(self) -> int:
        return min(FEW_DAYS, self.days)

    def warm_up(self, work: Callable[[int], object]) -> None:
        """The hand-written job and what it is compared with, in turn; the work is told which round it is."""
        for number in range(self.warm_ups):
            hand_written(self.spark)
            work(number)

    def run(self, name: str, work: Callable[[], object]) -> None:
        self.runs.append((name, measured(work)))
        print(f"  {name}: {self.runs[-1][1].cpu:.1f} CPU s, {self.runs[-1][1].wall:.1f} s", file=sys.stderr, flush=True)

    def by_hand(self) -> None:
        self.run(HAND_WRITTEN, partial(hand_written, self.spark))

    def require_same(self, schema: str) -> None:
        require_same(self.spark, other=schema)


def played(work: Callable[[Peer], None]) -> None:
    """Read what is asked for, do it, tell the costs."""
    asked: dict[str, Any] = json.load(sys.stdin)
    builder = SparkSession.builder.appName("peer")
    for key, value in asked["conf"].items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    peer = Peer(
        spark=spark, root=Path(asked["root"]), days=asked["days"], conf=asked["conf"], warm_ups=asked["warm_ups"],
        rounds=asked["rounds"],
    )  # fmt: skip
    with redirect_stdout(sys.stderr):  # what the tools print
        work(peer)
    print(json.dumps([[name, cost.cpu, cost.wall] for name, cost in peer.runs]))
    spark.stop()
