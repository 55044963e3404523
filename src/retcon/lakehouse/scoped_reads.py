"""Scoped reads: the one way in which a model's SQL reaches its inputs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import DataFrame, SparkSession

from retcon.core.jobs import Job, Read
from retcon.core.projects import Source
from retcon.core.queries import patched, quoted_name
from retcon.core.schemas import TIME_TYPES
from retcon.errors import Refused
from retcon.lakehouse.foreign_reads import MARK, has_mark, leaves_of, read_foreign
from retcon.lakehouse.predicates import slice_predicate
from retcon.lakehouse.sessions import first_line

_HARMLESS = ("OneRowRelation", "LocalRelation", "Range", "CTERelationRef")


class ScopedReads:
    """Builds the frames that jobs compute on."""

    def __init__(self, spark: SparkSession, catalog: str, foreign: Mapping[str, Source] | None = None) -> None:
        self._spark = spark
        self._catalog = catalog
        self._foreign = foreign or {}

    def frame(self, read: Read) -> DataFrame:
        """The rows of one scoped read."""
        if read.table in self._foreign:
            return self._cut(read_foreign(self._spark, self._foreign[read.table], read.snapshot_id), read)
        reader = self._spark.read.option(MARK, "1")
        if read.snapshot_id is not None:
            reader = reader.option("versionAsOf", str(read.snapshot_id))
        frame = reader.table(quoted_name(f"{self._catalog}.{read.table}"))
        if read.snapshot_id is None:
            # A table without a snapshot can't be pinned: whatever lands in it meanwhile isn't read.
            return frame.filter("false")
        return self._cut(frame, read)

    def _cut(self, frame: DataFrame, read: Read) -> DataFrame:
        if read.slices is None or read.time is None:
            return frame
        return frame.filter(slice_predicate(read.time, self._time_type(frame, read), read.slices))

    def compute(self, job: Job) -> DataFrame:
        """The model's query over its scoped inputs, as the author wrote it."""
        views: dict[str, str] = {}
        try:
            for number, (name, read) in enumerate(sorted(job.reads.items())):
                views[name] = f"{MARK}_{job.name}_{number}"
                self.frame(read).createOrReplaceTempView(f"`{views[name]}`")
            text = patched(job.model.query, views)
            wanted = {key: value for key, value in job.parameters.items() if key in job.model.query.parameters}
            frame = self._spark.sql(text, args=dict(wanted))
        except (AnalysisException, ParseException) as error:
            raise Refused(
                f"{job.model.path}: {_without_view_names(first_line(error), views)}",
                state="nothing was staged for this model; production is untouched",
                next=f"mend the SQL, then plan again; `retcon render {job.model.name}` shows what runs",
            ) from error
        finally:
            for view in views.values():
                self._spark.catalog.dropTempView(view)
        _require_marks(frame, job)
        return frame

    def _time_type(self, frame: DataFrame, read: Read) -> str:
        field = next((f for f in frame.schema.fields if f.name.lower() == str(read.time).lower()), None)
        if field is None:
            raise Refused(
                f"{read.table} has no column {read.time}", next="name an existing column as this input's `time`"
            )
        kind = field.dataType.simpleString()
        if kind not in TIME_TYPES:
            raise Refused(
                f"{read.table}.{read.time} is {kind}, and a time column is a date or a timestamp",
                next="name another column as this input's `time`, or leave it out to read the table whole",
            )
        return str(kind)


def _require_marks(frame: DataFrame, job: Job) -> None:
    """Fail closed: nothing that isn't a scoped read may feed the result."""
    for leaf in _leaves(frame):
        kind = leaf.getClass().getSimpleName()
        if not has_mark(leaf, frame.sparkSession) and kind not in _HARMLESS:
            name = leaf.name() if kind == "DataSourceV2Relation" else leaf.simpleString(80)
            raise Refused(
                f"{job.model.path}: the query reads {name} past its declared inputs",
                state="nothing was staged for this model; production is untouched",
                next="declare it under `inputs:` and name it plainly in FROM or JOIN (no views, paths or functions)",
            )


def _leaves(frame: DataFrame) -> Iterator[Any]:
    plan = frame._jdf.queryExecution().analyzed()
    plans = [plan]
    subqueries = plan.subqueriesAll()
    plans += [subqueries.apply(i) for i in range(subqueries.size())]
    for each in plans:
        yield from leaves_of(each)


def _without_view_names(message: str, views: dict[str, str]) -> str:
    for name, view in views.items():
        message = message.replace(view, name)
    return message
