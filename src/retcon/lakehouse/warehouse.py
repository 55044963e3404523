"""Spark and Iceberg behind one door."""

from __future__ import annotations

from pyspark.sql import SparkSession

from retcon.lakehouse.measuring import Measuring
from retcon.lakehouse.publishing import Publishing
from retcon.lakehouse.scoped_reads import ScopedReads
from retcon.lakehouse.staging import Staging


class SparkWarehouse:
    """Everything that reads or writes rows."""

    def __init__(self, spark: SparkSession, catalog: str) -> None:
        self._spark = spark
        reads = ScopedReads(spark, catalog)
        staging = Staging(spark, catalog, reads)
        measuring = Measuring(reads)
        publishing = Publishing(spark, staging)
        self.output = staging.output
        self.make_table = staging.make_table
        self.open_branch = staging.open_branch
        self.stage = staging.stage
        self.measure = measuring.measure
        self.duplicates = measuring.duplicates
        self.others_changed = measuring.others_changed
        self.differs_alone = measuring.differs_alone
        self.prepare_publish = publishing.prepare_publish
        self.prepare_rollback = publishing.prepare_rollback

    def interrupt(self) -> None:
        """Stop what Spark is doing; what was committed stays."""
        self._spark.sparkContext.cancelAllJobs()
