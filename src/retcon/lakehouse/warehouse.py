"""Spark and Iceberg behind one door."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from pyspark.sql import SparkSession

from retcon.core.projects import Catalog, Source
from retcon.lakehouse.measuring import Measuring
from retcon.lakehouse.moving import Moving
from retcon.lakehouse.publishing import Publishing
from retcon.lakehouse.python_models import ProjectCode
from retcon.lakehouse.scoped_reads import ScopedReads
from retcon.lakehouse.sessions import grouped_session
from retcon.lakehouse.staging import Staging
from retcon.lakehouse.windows import Windows


class SparkWarehouse:
    """Everything that reads or writes rows."""

    def __init__(
        self, spark: SparkSession, settings: Catalog, code: ProjectCode, foreign: Mapping[str, Source]
    ) -> None:
        self._spark = spark
        catalog = settings.name
        reads = ScopedReads(spark, catalog, code, foreign)
        windows = Windows(reads)
        by_partition = cache(lambda: ScopedReads(grouped_session(spark, catalog), catalog, code, foreign))
        staging = Staging(spark, catalog, reads, by_partition)
        measuring = Measuring(reads, by_partition)
        publishing = Publishing(spark, staging, by_catalog=settings.is_rest)
        self.output = staging.output
        self.make_table = staging.make_table
        self.change_columns = staging.change_columns
        self.open_branch = staging.open_branch
        self.stage = staging.stage
        self.windows = windows.windows
        self.homes = Moving(reads).homes
        self.measure = measuring.measure
        self.outcome = measuring.outcome
        self.full_refresh = measuring.full_refresh
        self.differing = measuring.differing
        self.duplicates = measuring.duplicates
        self.others_changed = measuring.others_changed
        self.differs_alone = measuring.differs_alone
        self.carry_over = publishing.carry_over
        self.prepare_publish = publishing.prepare_publish
        self.prepare_rollback = publishing.prepare_rollback
        self.copy = staging.copy
        self.unlike = measuring.unlike

    def interrupt(self) -> None:
        """Stop what Spark is doing; what was committed stays."""
        self._spark.sparkContext.cancelAllJobs()
