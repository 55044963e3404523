"""Task metrics: what Spark's status store knows of a job that is over."""

from __future__ import annotations

from time import sleep
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from retcon.core.tasks import Tasks

_LOOKS, _BETWEEN = 40, 0.05
"""Spark's listeners are told in their own time, seconds after others where much is going on."""


def tasks_of(spark: SparkSession, name: str) -> Tasks | None:
    """What the tasks of the last job of this name did; None where Spark doesn't know yet, or any more."""
    session: Any = spark._jsparkSession
    try:
        for _ in range(_LOOKS):
            execution = _execution(session.sharedState().statusStore(), name)
            if execution is not None:
                # The end of a job is told after those of its stages.
                return _told(execution, session.sparkContext().statusStore())
            sleep(_BETWEEN)
    except Py4JJavaError:
        pass  # others have pushed it out: no reason to fail what is done
    return None


def executor_cores(spark: SparkSession) -> int | None:
    """The cores of the executors that there are now."""
    executors = spark._jsparkSession.sparkContext().statusStore().executorList(True)
    cores = [executors.apply(at).totalCores() for at in range(executors.size())]
    return sum(cores) or None


def _execution(store: Any, name: str) -> Any | None:
    executions = store.executionsList()
    for at in range(executions.size() - 1, -1, -1):
        execution = executions.apply(at)
        if execution.description() == name:
            return execution if execution.completionTime().isDefined() else None
    return None


def _told(execution: Any, store: Any) -> Tasks | None:
    """All moments are those of Spark's own clock, in milliseconds."""
    began, ended = execution.submissionTime(), execution.completionTime().get().getTime()
    numbers = execution.stages().mkString(",")
    stages = [store.lastStageAttempt(int(number)) for number in numbers.split(",") if number]
    ran = [each for each in stages if each.submissionTime().isDefined() and each.completionTime().isDefined()]
    if not ran:
        # All of it was found in memory, or nothing had to be read.
        first = last = ended
    else:
        first = min(each.submissionTime().get().getTime() for each in ran)
        last = max(each.completionTime().get().getTime() for each in ran)
    return Tasks(
        count=sum(each.numCompleteTasks() for each in ran),
        planning_seconds=_seconds(first - began),
        seconds=_seconds(last - first),
        commit_seconds=_seconds(ended - last),
        run_seconds=_seconds(sum(each.executorRunTime() for each in ran)),
        cpu_seconds=_seconds(sum(each.executorCpuTime() for each in ran) / 1_000_000),
        read_bytes=sum(each.inputBytes() for each in ran),
        written_bytes=sum(each.outputBytes() for each in ran),
        shuffled_bytes=sum(each.shuffleWriteBytes() for each in ran),
        spilled_bytes=sum(each.diskBytesSpilled() for each in ran),
    )


def _seconds(milliseconds: float) -> float:
    return round(max(0.0, milliseconds / 1000), 3)
