"""Spark and Iceberg behind one door."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache, partial, wraps
from typing import ParamSpec, TypeVar

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from retcon.core.projects import Catalog, Source
from retcon.errors import Fault
from retcon.lakehouse.expecting import Expecting
from retcon.lakehouse.gate_reads import GateReads
from retcon.lakehouse.kept_reads import KeptReads
from retcon.lakehouse.measuring import Measuring
from retcon.lakehouse.moving import Moving
from retcon.lakehouse.profiling import Profiling
from retcon.lakehouse.publishing import Publishing
from retcon.lakehouse.python_models import ProjectCode
from retcon.lakehouse.row_diffs import RowDiffs
from retcon.lakehouse.scoped_reads import ScopedReads
from retcon.lakehouse.sessions import (
    configured_tasks,
    partition_session,
    root_cause,
    sized_session,
    summing_session,
    tasks_for,
)
from retcon.lakehouse.staging import Staging
from retcon.lakehouse.suites import Expectations
from retcon.lakehouse.task_metrics import tasks_of
from retcon.lakehouse.traces import Traces
from retcon.lakehouse.trials import Trials
from retcon.lakehouse.windows import Windows

P = ParamSpec("P")
T = TypeVar("T")


class SparkWarehouse:
    """Everything that reads or writes rows."""

    def __init__(
        self, spark: SparkSession, settings: Catalog, code: ProjectCode, foreign: Mapping[str, Source]
    ) -> None:
        self._spark = spark
        catalog = settings.name
        kept = KeptReads()
        reads = ScopedReads(spark, catalog, code, foreign, kept)
        windows = Windows(reads)

        def beside(session: SparkSession) -> ScopedReads:
            return reads if session is spark else ScopedReads(session, catalog, code, foreign, kept)

        by_partition = cache(lambda bits: beside(partition_session(spark, catalog, bits)))
        configured = configured_tasks(spark)
        of_tasks = cache(lambda tasks: beside(sized_session(spark, catalog, tasks)))
        by_partition_of_tasks = cache(lambda tasks: sized_session(spark, catalog, tasks, by_partition=True))

        def sized(bytes: int | None) -> ScopedReads:
            return of_tasks(tasks_for(bytes, configured))

        def adapting(bytes: int | None) -> SparkSession:
            return by_partition_of_tasks(tasks_for(bytes, configured))

        staging = Staging(spark, catalog, sized, partial(by_partition, None), adapting)
        measuring = Measuring(sized, cache(lambda: beside(summing_session(spark, catalog))), by_partition)
        gates, expectations = GateReads(reads), Expectations(reads)
        publishing = Publishing(spark, staging, by_catalog=settings.is_rest)
        self.output = _told(staging.output)
        self.make_table = _told(staging.make_table)
        self.change_columns = _told(staging.change_columns)
        self.open_branch = _told(staging.open_branch)
        self.stage = staging.stage  # tells its failures itself: waves are tried again
        self.tasks = partial(tasks_of, spark)
        self.trial = _told(Trials(spark, reads).trial)
        self.windows = _told(windows.windows)
        self.homes = _told(Moving(reads).homes)
        self.measure = _told(measuring.measure)
        self.outcome = _told(measuring.outcome)
        self.recomputed = _told(measuring.recomputed)
        self.full_refresh = _told(measuring.full_refresh)
        self.differing = _told(measuring.differing)
        self.duplicates = _told(measuring.duplicates)
        self.others_changed = _told(measuring.others_changed)
        self.differs_alone = _told(measuring.differs_alone)
        self.unaccepted = _told(gates.unaccepted)
        self.orphans = _told(gates.orphans)
        self.rows_found = _told(gates.rows_found)
        self.source_metrics = _told(gates.source_metrics)
        self.require_expectations = expectations.require_expectations
        self.unmet = _told(expectations.unmet)
        self.expected = _told(Expecting(reads).expected)
        self.profile = _told(Profiling(reads).profile)
        self.carry_over = _told(publishing.carry_over)
        self.prepare_publish = _told(publishing.prepare_publish)
        self.prepare_rollback = _told(publishing.prepare_rollback)
        self.copy = _told(staging.copy)
        self.unlike = _told(measuring.unlike)
        self.row_diff = _told(RowDiffs(reads).row_diff)
        self.trace = _told(Traces(reads).trace)
        self.let_go = _told(kept.let_go)

    def interrupt(self) -> None:
        """Stop what Spark is doing; what was committed stays."""
        self._spark.sparkContext.cancelAllJobs()


def _told(work: Callable[P, T]) -> Callable[P, T]:
    """The same, with failures of Spark, Java and the catalog behind them as faults that say what to do."""

    @wraps(work)
    def guarded(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return work(*args, **kwargs)
        except (PySparkException, Py4JJavaError) as error:
            raise Fault(
                f"Spark failed: {root_cause(error)}",
                state="what was staged is kept; nothing was published or rolled back by this step",
                next="the same command again goes on from there",
                retryable=True,
            ) from error

    return guarded
