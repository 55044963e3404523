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


@dataclass(frozen=True, kw_only=True)
class Peer:
    """One session on the benchmark's tables."""

    spark: SparkSession
    root: Path
    days: int
    conf: dict[str, str]
    runs: list[tuple[str, Cost]] = field(default_factory=list)

    def run(self, name: str, work: Callable[[], object]) -> None:
        self.runs.append((name, measured(work)))
        print(f"  {name}: {self.runs[-1][1].cpu:.1f} CPU s, {self.runs[-1][1].wall:.1f} s", file=sys.stderr, flush=True)

    def by_hand(self) -> None:
        self.run(HAND_WRITTEN, partial(hand_written, self.spark))

    def require_same(self, schema: str) -> None:
        require_same(self.spark, other=schema)


def played(work: Callable[[Peer], None]) -> None:
    """Read what is asked for, warm up, do it with the hand-written job before, tell the costs."""
    asked: dict[str, Any] = json.load(sys.stdin)
    builder = SparkSession.builder.appName("peer")
    for key, value in asked["conf"].items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    peer = Peer(spark=spark, root=Path(asked["root"]), days=asked["days"], conf=asked["conf"])
    with redirect_stdout(sys.stderr):  # what the tools print
        for _ in range(2):
            hand_written(spark)
        peer.by_hand()
        work(peer)
    print(json.dumps([[name, cost.cpu, cost.wall] for name, cost in peer.runs]))
    spark.stop()
