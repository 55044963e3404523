"""What the waves of a run share: read once, kept in memory (on disk where that is full), and let go."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from threading import Lock
from uuid import uuid4

from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession

from retcon.core.reads import Read
from retcon.lakehouse.recent import Recent


class KeptReads:
    """Frames by what they read. A session's own: another one, with another catalog, wouldn't find them."""

    def __init__(self) -> None:
        self.mark = f"kept_{uuid4().hex}"
        """Of scoped reads that are kept for several jobs; nobody's code can know it."""
        self.mark_of_opened = f"opened_{uuid4().hex}"
        """Of those of tables that were opened for several. Another one: Spark would take a part of a table that is kept
        whole from there, where it is neither pruned nor by partition.
        """
        self._frames: dict[tuple[SparkSession, Read], DataFrame] = {}
        self._opened: Recent[tuple[SparkSession, str, int | None], DataFrame] = Recent()
        self._lock = Lock()

    def frame(self, spark: SparkSession, read: Read, make: Callable[[], DataFrame]) -> DataFrame:
        """The rows of this read: as they are kept, or kept from now on. A frame of its own each time, which Spark knows
        to be the kept one: a table joined with itself must be told apart by its frames.
        """
        with self._lock:
            key = (spark, read)
            if key not in self._frames:
                self._frames[key] = make().persist(StorageLevel.MEMORY_AND_DISK)
        return make()

    def opened(self, spark: SparkSession, read: Read, open_table: Callable[[], DataFrame]) -> DataFrame:
        """A table at a snapshot, all of it: to have the catalog find it, and to read its metadata, takes longer than to
        analyse most queries. The same frame each time: for SQL alone, which tells a table that is joined with itself
        apart by aliases.
        """
        return self._opened.get((spark, read.table, read.snapshot_id), open_table)

    def forget(self) -> None:
        """Which tables were opened."""
        self._opened.forget()

    def let_go(self) -> None:
        """Free what is kept."""
        with self._lock:
            for frame in self._frames.values():
                # A Spark that is gone has nothing to free, and why it is gone is what has to be told.
                with suppress(Exception):
                    frame.unpersist()
            self._frames.clear()
