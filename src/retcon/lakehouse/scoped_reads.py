"""Scoped reads: the one way in which a model's code reaches its inputs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any

from pyspark.errors import AnalysisException, IllegalArgumentException, ParseException
from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructField

from retcon.core.jobs import Job, KeyedRows
from retcon.core.models import Model
from retcon.core.projects import Source
from retcon.core.queries import patched, quoted, quoted_name, text_literal
from retcon.core.reads import Read
from retcon.core.schemas import TIME_TYPES
from retcon.core.slices import Grain
from retcon.errors import Refused
from retcon.lakehouse.foreign_reads import MARK, has_mark, leaves_of, local_uri, read_foreign
from retcon.lakehouse.kept_reads import KeptReads
from retcon.lakehouse.nested_values import cast_by_name
from retcon.lakehouse.predicates import slice_predicate
from retcon.lakehouse.python_models import ProjectCode, call_function, register_udfs
from retcon.lakehouse.sessions import first_line

_KEY = "__retcon_key"
_NO_OPTIONS: Mapping[str, str] = MappingProxyType({})
_HARMLESS = ("OneRowRelation", "LocalRelation", "Range", "CTERelationRef")
_SQL_REMEDY = "declare it under `inputs:` and name it plainly in FROM or JOIN (no views, paths or functions)"
_PYTHON_REMEDY = (
    "declare it under `inputs` and take it as an argument, in each call anew (no session, no RDDs, no checkpoints; "
    "a small mapping goes into an expression or a @udf)"
)


class ScopedReads:
    """Builds the frames that jobs compute on."""

    def __init__(
        self,
        spark: SparkSession,
        catalog: str,
        code: ProjectCode,
        foreign: Mapping[str, Source] | None = None,
        kept: KeptReads | None = None,
    ) -> None:
        self._spark = spark
        self._catalog = catalog
        self._foreign = foreign or {}
        self._kept = kept or KeptReads()
        self.code = code

    @property
    def spark(self) -> SparkSession:
        return self._spark

    def forget(self) -> None:
        """Open tables anew from now on: what a job failed for may be that one isn't what it was any more."""
        self._kept.forget()

    def frame(self, read: Read, mark: str = "1", options: Mapping[str, str] = _NO_OPTIONS) -> DataFrame:
        """The rows of one scoped read, with options of Iceberg's reader."""
        if read.is_kept:
            return self._kept.frame(self._spark, read, lambda: self._read(read, self._kept.mark, options))
        return self._read(read, mark, options)

    def _read(self, read: Read, mark: str, options: Mapping[str, str]) -> DataFrame:
        if read.table in self._foreign:
            return self._cut(read_foreign(self._spark, self._foreign[read.table], read.snapshot_id, mark), read)
        frame = self._open(read, mark, options)
        # A table without a snapshot can't be pinned: whatever lands in it meanwhile isn't read.
        return frame.filter("false") if read.snapshot_id is None else self._cut(frame, read)

    def _open(self, read: Read, mark: str, options: Mapping[str, str] = _NO_OPTIONS) -> DataFrame:
        reader = self._spark.read.options(**options).option(MARK, mark)
        if read.snapshot_id is not None:
            reader = reader.option("versionAsOf", str(read.snapshot_id))
        try:
            return reader.table(quoted_name(f"{self._catalog}.{read.table}"))
        except IllegalArgumentException as error:
            if "Cannot find snapshot" not in str(error):
                raise
            raise _gone(read) from error

    def _cut(self, frame: DataFrame, read: Read) -> DataFrame:
        if read.slices is None or read.by is None:
            return frame
        kind = self._type_of(frame, read)
        return frame.filter(slice_predicate(read.by, kind, read.slices, bucketed_as=read.bucketed_as))

    def of_keys(
        self, frame: DataFrame, column: str, keyed: KeyedRows, *, others: bool = False, mark: str = "1"
    ) -> DataFrame:
        """The rows of the keys, or (with those without a key) of all others: few by a list, many by a join."""
        value = f"CAST({quoted(column)} AS {keyed.type})"
        if keyed.keys.values:
            listed = ", ".join(f"CAST({text_literal(each)} AS {keyed.type})" for each in keyed.keys.values)
            among = f"{value} IN ({listed})"
            return frame.filter(f"NOT coalesce({among}, false)" if others else among)
        reader = self._spark.read.option(MARK, mark).schema("k STRING").option("mode", "FAILFAST")
        keys = reader.json(local_uri(keyed.path)).select(F.expr(f"CAST(k AS {keyed.type})").alias(_KEY))
        return frame.join(keys, F.expr(f"{value} = {_KEY}"), "left_anti" if others else "left_semi")

    def compute(self, job: Job) -> DataFrame:
        """The model's query or function over its scoped inputs, as the author wrote it."""
        try:
            frames = {name: self._input(name, read, job) for name, read in sorted(job.reads.items())}
        except AnalysisException as error:
            raise _refusal(job, first_line(error)) from error
        register_udfs(self._spark, self.code, job.model.udfs)
        frame = call_function(self.code, job, frames) if job.model.is_python else self._query(job, frames)
        kept = [self._kept.mark] if any(read.is_kept for read in job.reads.values()) else []
        opened = [] if job.model.is_python else [self._kept.mark_of_opened]
        _require_marks(frame, job, *kept, *opened)
        return frame

    def _query(self, job: Job, frames: Mapping[str, DataFrame]) -> DataFrame:
        views: dict[str, str] = {}
        try:
            for number, (name, frame) in enumerate(frames.items()):
                views[name] = f"{MARK}_{job.name}_{number}"
                frame.createOrReplaceTempView(f"`{views[name]}`")
            text = patched(job.model.query, views)
            wanted = {key: value for key, value in job.parameters.items() if key in job.model.query.parameters}
            return self._spark.sql(text, args=dict(wanted))
        except (AnalysisException, ParseException) as error:
            raise _refusal(job, _without_view_names(first_line(error), views)) from error
        finally:
            # Not by `spark.catalog`: that lets go of what is kept in memory, where a view shows it.
            catalog = self._spark._jsparkSession.sessionState().catalog()
            for view in views.values():
                catalog.dropTempView(view)

    def _input(self, name: str, read: Read, job: Job) -> DataFrame:
        declared = next(i for i in job.model.inputs if i.name == name)
        if declared.is_own and read.snapshot_id is None:
            return self._nothing_yet(job.model)
        # Its own table, or one as it was at a slice's end, is another one for each wave.
        is_shared = not (job.model.is_python or declared.is_own or declared.at_slice_end)
        frame = self._for_query(read, job.name) if is_shared else self.frame(read, job.name)
        if job.keyed is None or declared.key is None:
            return frame
        return self.of_keys(frame, declared.key, job.keyed, mark=job.name)

    def _for_query(self, read: Read, mark: str) -> DataFrame:
        """What SQL reads: it can't reach more than it is given, so that jobs share the tables that were opened."""
        if read.is_kept or read.snapshot_id is None or read.table in self._foreign:
            return self.frame(read, mark)
        opened = self._kept.opened(self._spark, read, partial(self._open, read, self._kept.mark_of_opened))
        return self._cut(opened, read)

    def _nothing_yet(self, model: Model) -> DataFrame:
        """What a model reads of itself before it has a table: no rows, of its declared columns."""
        columns = [F.lit(None).cast(kind).alias(name) for name, kind in model.columns]
        return self._spark.range(0).select(*columns)

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


def type_of(frame: DataFrame, column: str | None) -> str | None:
    """The type of a column as Spark spells it; None where there is no such column."""
    field = next((f for f in frame.schema.fields if f.name.lower() == str(column).lower()), None)
    return None if field is None else str(field.dataType.simpleString())


def fitted(frame: DataFrame, like: DataFrame) -> DataFrame:
    """Rows with the columns that others have, by name: those from before columns were added or widened, or of a query
    that yields them in another order.
    """
    have = {field.name.lower(): field for field in frame.schema.fields}
    try:
        return frame.select(
            *(_fitted_column(have.get(field.name.lower()), field) for field in like.schema.toNullable().fields)
        )
    except (AnalysisException, Refused) as error:
        reason = error.message if isinstance(error, Refused) else first_line(error)
        raise Refused(
            f"rows that stay don't fit the table's columns any more: {reason}",
            state="production is untouched",
            next="plan it without keys; with `strategy: merge`, under another name",
        ) from error


def _fitted_column(have: StructField | None, field: StructField) -> SparkColumn:
    if have is None:
        return F.lit(None).cast(field.dataType).alias(field.name)
    return cast_by_name(F.col(quoted(have.name)), have.dataType, field.dataType).alias(field.name)


def _refusal(job: Job, message: str) -> Refused:
    return Refused(
        f"{job.model.path}: {message}",
        state="nothing was staged for this model; production is untouched",
        next="mend the model, then plan again; `retcon render` shows what runs",
    )


def _require_marks(frame: DataFrame, job: Job, *shared: str) -> None:
    """Fail closed: nothing that isn't a scoped read may feed the result."""
    for name in unmarked(frame, job.name, *shared):
        said = "the function" if job.model.is_python else "the query"
        raise Refused(
            f"{job.model.path}: {said} reads {name} past its declared inputs",
            state="nothing was staged for this model; production is untouched",
            next=_PYTHON_REMEDY if job.model.is_python else _SQL_REMEDY,
        )


def unmarked(frame: DataFrame, *marks: str) -> Iterator[str]:
    """What feeds a frame and isn't a scoped read with one of these marks."""
    for leaf in _leaves(frame):
        kind = leaf.getClass().getSimpleName()
        is_scoped = any(has_mark(leaf, each, frame.sparkSession) for each in marks)
        if not is_scoped and kind not in _HARMLESS:
            yield leaf.name() if kind == "DataSourceV2Relation" else leaf.simpleString(80)


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


def _gone(read: Read) -> Refused:
    return Refused(
        f"snapshot {read.snapshot_id} of {read.table} is gone",
        state="what it held can't be read any more; production is untouched",
        next="it was expired while the run was under way: `retcon plan --refresh` plans on what is there now",
    )
