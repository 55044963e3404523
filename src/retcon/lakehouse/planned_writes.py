"""Planned writes: what Spark is going to do to write rows, to be looked at before it is done."""

from __future__ import annotations

from typing import Any

from pyspark.sql import Column, DataFrameWriterV2, SparkSession

from retcon.lakehouse.java_classes import java_class

_EXECUTION_MODE = "org.apache.spark.sql.execution.CommandExecutionMode"


class PlannedWrite:
    """Rows in the place of those that meet a condition, planned once: the plan that is looked at is the one that runs.

    Spark's writer plans when it writes; to ask the rows for their plan before it would be to plan them twice.
    """

    def __init__(self, spark: SparkSession, writer: DataFrameWriterV2, condition: Column) -> None:
        """`spark`: the session of the rows. Nothing is written yet."""
        session = spark._jsparkSession
        command = writer._jwriter.overwriteCommand(condition._jc)
        self._spark = spark
        self._execution = session.sessionState().executePlan(command, java_class(spark, _EXECUTION_MODE).SKIP())

    @property
    def rows(self) -> Any:
        """Spark's plan for the rows, as they are handed to the table."""
        return self._execution.executedPlan().child()

    def run(self) -> None:
        """Once: what was planned for a state of the table is planned anew for another."""
        encoder = java_class(self._spark, "org.apache.spark.sql.Encoders").row(self._execution.analyzed().schema())
        java_class(self._spark, "org.apache.spark.sql.classic.Dataset")(self._execution, encoder).collectAsList()
