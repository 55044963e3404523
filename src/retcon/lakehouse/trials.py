"""Trials: a job computed for the sake of its time. Nothing is written."""

from __future__ import annotations

from time import monotonic

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from retcon.core.jobs import Job, Tried
from retcon.errors import Refused
from retcon.lakehouse.python_models import worker_error
from retcon.lakehouse.scoped_reads import ScopedReads
from retcon.lakehouse.sessions import root_cause
from retcon.lakehouse.staging import computed_by
from retcon.lakehouse.task_metrics import tasks_of


class Trials:
    """Computes jobs, and forgets what comes out."""

    def __init__(self, spark: SparkSession, reads: ScopedReads) -> None:
        self._spark = spark
        self._reads = reads

    def trial(self, job: Job) -> Tried:
        """How long it takes to compute a job's rows, every column of them, into Spark's sink that keeps nothing."""
        context = self._spark.sparkContext
        began = monotonic()
        try:
            rows = computed_by(self._reads, job)
            context.setJobDescription(job.name)
            rows.write.format("noop").mode("overwrite").save()
        except (PySparkException, Py4JJavaError) as error:
            reason = worker_error(self._reads.code, str(error)) or root_cause(error)
            raise Refused(f"{job.model.path}: {job.slices.text} can't be computed: {reason}") from error
        finally:
            context.setLocalProperty("spark.job.description", None)  # type: ignore[arg-type] # None clears it
        return Tried(seconds=monotonic() - began, tasks=tasks_of(self._spark, job.name))
