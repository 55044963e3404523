"""Scoped reads: the one way in which a model's SQL reaches its inputs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from retcon.core.jobs import Job, KeyedRows, Read
from retcon.core.queries import patched, quoted, quoted_name, text_literal
from retcon.core.schemas import TIME_TYPES
from retcon.core.slices import Grain
from retcon.errors import Refused
from retcon.lakehouse.predicates import slice_predicate
from retcon.lakehouse.sessions import first_line

MARK = "retcon"
"""Every scoped read carries this option; after analysis a read without it is refused."""

_KEY = "__retcon_key"
_HARMLESS = ("OneRowRelation", "LocalRelation", "Range", "CTERelationRef")


class ScopedReads:
    """Builds the frames that jobs compute on."""

    def __init__(self, spark: SparkSession, catalog: str) -> None:
        self._spark = spark
        self._catalog = catalog

    def frame(self, read: Read) -> DataFrame:
        """The rows of one scoped read."""
        reader = self._spark.read.option(MARK, "1")
        if read.snapshot_id is not None:
            reader = reader.option("versionAsOf", str(read.snapshot_id))
        frame = reader.table(quoted_name(f"{self._catalog}.{read.table}"))
        if read.snapshot_id is None:
            # A table without a snapshot can't be pinned: whatever lands in it meanwhile isn't read.
            return frame.filter("false")
        if read.slices is None or read.by is None:
            return frame
        kind = self._type_of(frame, read)
        return frame.filter(slice_predicate(read.by, kind, read.slices, bucketed_as=read.bucketed_as))

    def of_keys(self, frame: DataFrame, column: str, keyed: KeyedRows, *, others: bool = False) -> DataFrame:
        """The rows of the keys, or (with those without a key) of all others: few by a list, many by a join."""
        value = f"CAST({quoted(column)} AS {keyed.type})"
        if keyed.keys.values:
            listed = ", ".join(f"CAST({text_literal(each)} AS {keyed.type})" for each in keyed.keys.values)
            among = f"{value} IN ({listed})"
            return frame.filter(f"NOT coalesce({among}, false)" if others else among)
        reader = self._spark.read.option(MARK, "1").schema("k STRING").option("mode", "FAILFAST")
        keys = reader.json(_local(keyed.path)).select(F.expr(f"CAST(k AS {keyed.type})").alias(_KEY))
        return frame.join(keys, F.expr(f"{value} = {_KEY}"), "left_anti" if others else "left_semi")

    def compute(self, job: Job) -> DataFrame:
        """The model's query over its scoped inputs, as the author wrote it."""
        views: dict[str, str] = {}
        by_key = {i.name: i.key for i in job.model.inputs}
        try:
            for number, (name, read) in enumerate(sorted(job.reads.items())):
                views[name] = f"{MARK}_{job.name}_{number}"
                frame, key = self.frame(read), by_key[name]
                if job.keyed is not None and key is not None:
                    frame = self.of_keys(frame, key, job.keyed)
                frame.createOrReplaceTempView(f"`{views[name]}`")
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

    def _type_of(self, frame: DataFrame, read: Read) -> str:
        kind = type_of(frame, read.by)
        is_timed = isinstance(read.cut, Grain)
        if kind is None:
            what = "time" if is_timed else "key"
            raise Refused(
                f"{read.table} has no column {read.by}", next=f"name an existing column as this input's `{what}`"
            )
        if is_timed and kind not in TIME_TYPES:
            raise Refused(
                f"{read.table}.{read.by} is {kind}, and a time column is a date or a timestamp",
                next="name another column as this input's `time`, or leave it out to read the table whole",
            )
        return kind


def _local(path: str) -> str:
    """A path of this machine as Spark reads it: not percent-encoded, and without meaning in it."""
    return "file://" + re.sub(r"([*?\[\]{}\\])", r"\\\1", path)


def type_of(frame: DataFrame, column: str | None) -> str | None:
    """The type of a column as Spark spells it; None where there is no such column."""
    field = next((f for f in frame.schema.fields if f.name.lower() == str(column).lower()), None)
    return None if field is None else str(field.dataType.simpleString())


def _require_marks(frame: DataFrame, job: Job) -> None:
    """Fail closed: nothing that isn't a scoped read may feed the result."""
    for leaf in _leaves(frame):
        kind = leaf.getClass().getSimpleName()
        is_scoped = kind == "DataSourceV2Relation" and leaf.options().get(MARK) == "1"
        is_scoped = is_scoped or (kind == "LogicalRelation" and _is_marked_file(leaf))
        if not is_scoped and kind not in _HARMLESS:
            name = leaf.name() if kind == "DataSourceV2Relation" else leaf.simpleString(80)
            raise Refused(
                f"{job.model.path}: the query reads {name} past its declared inputs",
                state="nothing was staged for this model; production is untouched",
                next="declare it under `inputs:` and name it plainly in FROM or JOIN (no views, paths or functions)",
            )


def _is_marked_file(leaf: Any) -> bool:
    """Is it a file that retcon reads itself, such as that of a plan's keys?"""
    relation = leaf.relation()
    return bool(relation.getClass().getSimpleName() == "HadoopFsRelation" and relation.options().contains(MARK))


def _leaves(frame: DataFrame) -> Iterator[Any]:
    plan = frame._jdf.queryExecution().analyzed()
    plans = [plan]
    subqueries = plan.subqueriesAll()
    plans += [subqueries.apply(i) for i in range(subqueries.size())]
    for each in plans:
        leaves = each.collectLeaves()
        yield from (leaves.apply(i) for i in range(leaves.size()))


def _without_view_names(message: str, views: dict[str, str]) -> str:
    for name, view in views.items():
        message = message.replace(view, name)
    return message
