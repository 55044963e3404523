"""Staging: a wave's rows onto the run's branch, replacing whole slices."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial, reduce
from threading import current_thread
from types import MappingProxyType
from typing import Any, assert_never

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from retcon.core.evolution import (
    AddColumn,
    CommentColumn,
    DropColumn,
    Repartition,
    RetypeColumn,
    SchemaChange,
    WidenColumn,
)
from retcon.core.jobs import Job, Scanned, WaveTarget
from retcon.core.queries import quoted, quoted_name, text_literal
from retcon.core.reads import Read
from retcon.core.slices import Buckets, Grain, SliceSet
from retcon.core.tables import Column
from retcon.errors import Fault, GatesFailed, Refused
from retcon.fault_points import FaultPoint
from retcon.lakehouse.java_classes import java_class
from retcon.lakehouse.placing import are_inside, is_shuffled, partitioned_by, takes_as_it_comes, whole_partitions
from retcon.lakehouse.planned_writes import PlannedWrite
from retcon.lakehouse.predicates import slice_predicate
from retcon.lakehouse.python_models import worker_error, worker_refusal
from retcon.lakehouse.recent import Recent
from retcon.lakehouse.scoped_reads import ScopedReads, fitted, type_of
from retcon.lakehouse.sessions import first_line, without_values

_WRONG_DATA = re.compile(r"SQLSTATE: (2[1-3]|42|P0)")
"""Bad casts, divisions by zero, and what the SQL raises itself: the same rows fail the same way again."""
_OUTSIDE = "retcon-row-outside-its-wave:"
_KEY = "retcon-key-not-one-row:"
_METRIC = "SQLPlanMetric\\({},(\\d+),"
_RESULT_FILES = re.compile(_METRIC.format("number of result data files"))
_RESULT_BYTES = re.compile(_METRIC.format(r"total data file size \(bytes\)"))
_NEW, _COMPUTED = "__retcon_new", "__retcon_computed"
_SMALL_WAVE = 256 * 1024**2
_NOT_STAGED = "this wave was not staged; waves already staged are kept; production is untouched"
_GO_ON = "the whole error is in .retcon/logs/spark.log; `retcon apply` goes on with what is missing"
_FEW_FILES = 200
"""2,200 open files ran out of 4 GB."""
_SMALL_SLICE = 128 * 1024**2
"""What one task may read: a split of Iceberg's."""
_SIDE_BY_SIDE = MappingProxyType({"fanout-enabled": "true"})
"""A file is open for each partition that a task meets."""
_SORTED = MappingProxyType({"fanout-enabled": "false"})
"""Iceberg has rows sorted by partition, where they aren't kept apart in memory."""
_IN_PLACE = MappingProxyType({**_SIDE_BY_SIDE, "distribution-mode": "none"})
"""By the tasks that read them."""
_AS_THEY_COME = MappingProxyType({**_IN_PLACE, **_SORTED, "use-table-distribution-and-ordering": "false"})
"""And one partition after another."""
_MADE, _CHANGED = FaultPoint("table made"), FaultPoint("columns changed")
_OPENED, _COMMITTED = FaultPoint("branch opened"), FaultPoint("wave committed")


class Staging:
    """Makes tables and branches, and writes waves onto them."""

    def __init__(
        self,
        spark: SparkSession,
        catalog: str,
        sized: Callable[[int | None], ScopedReads],
        by_partition: Callable[[], ScopedReads],
        adapting: Callable[[int | None], SparkSession],
    ) -> None:
        """`sized`: for what reads so many bytes; `by_partition`: for waves whose tasks read whole partitions, and run
        as planned; `adapting`: a session for those of them that Spark should plan again as it goes, by their bytes.
        """
        self._spark = spark
        self._catalog = catalog
        self._sized = sized
        self._reads = sized(None)
        self._by_partition = by_partition
        self._adapting = adapting
        self._tables: Recent[tuple[str, str], Any] = Recent()

    def output(self, job: Job) -> tuple[Column, ...]:
        """The columns that the model's query yields, from Spark's analysis."""
        # Where most waves are planned: they find the tables opened.
        schema = self._by_partition().compute(job).schema
        return tuple(Column(name=field.name, type=field.dataType.simpleString()) for field in schema.fields)

    def make_table(self, job: Job, table: str, run: str, properties: Mapping[str, str]) -> None:
        """An empty table for the model's output, partitioned by the slice, with these properties and retcon's."""
        namespace, _, _ = table.rpartition(".")
        # Nullable throughout: whether a column may be NULL is for the gates to say, not for today's query plan.
        frame = self._reads.compute(job)
        columns = frame._jdf.schema().asNullable().toDDL()
        own = {"format-version": "2", "retcon.model": job.model.name, "retcon.made_by": run}
        listed = ", ".join(f"{text_literal(k)} = {text_literal(v)}" for k, v in {**properties, **own}.items())
        comment = f"COMMENT {text_literal(job.model.description)} " if job.model.description else ""
        self._spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {quoted_name(f'{self._catalog}.{namespace}')}")
        with _MADE:
            self._spark.sql(
                f"CREATE TABLE IF NOT EXISTS {self._full(table)} ({columns}) USING iceberg {comment}"
                f"{partitioned_by(job, frame)}TBLPROPERTIES ({listed})"
            )

    def change_columns(self, job: Job, table: str, changes: Sequence[SchemaChange]) -> None:
        """All changes in one commit of the table's metadata; no data file is touched."""
        utility = java_class(self._spark, "org.apache.iceberg.spark.SparkSchemaUtil")
        output = utility.convert(self._reads.compute(job)._jdf.schema().asNullable())
        update = self.iceberg(table).updateSchema().caseSensitive(False)
        for change in changes:
            match change:
                case AddColumn():
                    field = output.caseInsensitiveFindField(change.column)
                    parent, _, _ = change.column.rpartition(".")
                    is_nested = bool(parent) and output.caseInsensitiveFindField(parent) is not None
                    update.addColumn(parent if is_nested else None, field.name(), field.type())
                case WidenColumn():
                    update.updateColumn(change.column, output.caseInsensitiveFindField(change.column).type())
                case CommentColumn():
                    update.updateColumnDoc(change.column, change.comment)
                case DropColumn() | RetypeColumn() | Repartition():
                    raise ValueError(f"{table} is changed in place, which can't be: {change}")
                case _:
                    assert_never(change)
        try:
            with _CHANGED:
                update.commit()
        except Py4JJavaError as error:
            reason = str(error.java_exception.getMessage()).splitlines()[0][:300]
            raise Fault(
                f"{table}: its columns couldn't be changed: {reason}",
                state="nothing was staged; the table is as it was",
                next="if somebody else committed to it at this moment, `retcon apply` again",
                retryable=True,
            ) from error

    def open_branch(self, table: str, branch: str, snapshot_id: int | None) -> None:
        """The run's branch on a table, made at the snapshot the run starts from, unless it is there."""
        iceberg = self.iceberg(table)
        if iceberg.refs().containsKey(branch):
            return
        manage = iceberg.manageSnapshots()
        made = manage.createBranch(branch) if snapshot_id is None else manage.createBranch(branch, snapshot_id)
        with _OPENED:
            made.commit()
        if not self.iceberg(table).refs().containsKey(branch):
            # What is staged there would be in production at once.
            raise Refused(
                f"the catalog {self._catalog} keeps no branches of tables: {table} has none after it was made",
                state="nothing was staged; production is untouched",
                next="use a catalog that keeps them",
            )

    def stage(self, job: Job, target: WaveTarget) -> Mapping[str, Scanned]:
        """Compute a wave and replace its slices on the branch; what was read, by table."""
        with self._telling_errors(job):
            if has_small_slices(job):
                plan, planned = self._placed(job, target)
            else:
                rows = slices_of(self._sized(job.bytes), job)
                plan, planned = partial(self._planned, rows, job, target, _anywhere(job)), None
            with self._described(job.name):
                _carry_out(plan, planned)
        return self._scanned(job.name)

    def _placed(self, job: Job, target: WaveTarget) -> tuple[Callable[[], PlannedWrite], PlannedWrite | None]:
        """How the wave is written from whole partitions of its inputs: each into one of the table by the task that read
        it, if Spark's plan tells that tasks yield such. With that plan, if it is the one to run.
        """
        reads = self._by_partition()
        frame = _untied(reads.compute(job)) if job.is_plain else slices_of(reads, job)
        # While a run stages, nobody should cut its table anew. If somebody does, the write fails, or the publish will.
        table = self._tables.get((target.run, target.table), partial(self.iceberg, target.table))
        options = _AS_THEY_COME if takes_as_it_comes(table, job, frame) else _IN_PLACE
        plan = partial(self._planned, frame, job, target, options)
        planned = plan()
        partitions = whole_partitions(planned.rows, job, frame)
        # Where the partitions that tasks yield are all of the wave, no row needs to be asked.
        is_inside = partitions is not None and not job.filters_output and are_inside(partitions, job)
        # Between stages Spark learns how much there is, and plans anew. Without a shuffle there is nothing to learn.
        is_final = partitions is not None and not is_shuffled(planned.rows)
        rows = frame if is_inside or not job.is_plain else confined(frame, job)
        if rows is frame and is_final:
            return plan, planned
        rows = rows if is_final else _in_session(rows, self._adapting(job.bytes))
        return partial(self._planned, rows, job, target, _anywhere(job) if partitions is None else options), None

    def _planned(self, rows: DataFrame, job: Job, target: WaveTarget, options: Mapping[str, str]) -> PlannedWrite:
        options = {**options, "snapshot-property.retcon.model": job.model.name}
        return self._replacing(rows, wave_of(rows, job), job.slices, target, options)

    def copy(self, read: Read, slices: SliceSet, target: WaveTarget) -> None:
        """The rows that a table had at a snapshot, as new files in their slices of a branch of it."""
        rows = fitted(self._reads.frame(read), self._reads.frame(replace(read, snapshot_id=None)))
        there = slice_predicate(read.by, type_of(rows, read.by) or "date", slices)
        with self._described(f"{target.run}_undo_{target.table}_{target.wave}"):
            try:
                _carry_out(partial(self._replacing, rows, there, slices, target, _SORTED))
            except (PySparkException, Py4JJavaError) as error:
                java = getattr(error, "java_exception", None)
                reason = first_line(error) if java is None else str(java.toString()).splitlines()[0][:300]
                raise Fault(
                    f"{target.table}, {slices.text}: the old rows couldn't be copied: {reason}",
                    state="nothing was rolled back",
                    next=f"`retcon rollback {target.run} --reason …` goes on with what is missing",
                    retryable=True,
                ) from error

    def _replacing(
        self, rows: DataFrame, there: str, slices: SliceSet, target: WaveTarget, options: Mapping[str, str]
    ) -> PlannedWrite:
        """Onto the branch, in the place of what is there, with the marks by which the commit is found again."""
        marks = {"retcon.run": target.run, "retcon.wave": str(target.wave), "retcon.slices": slices.text}
        writer = rows.writeTo(f"{self._full(target.table)}.{quoted(f'branch_{target.branch}')}")
        for key, value in {**options, **{f"snapshot-property.{key}": value for key, value in marks.items()}}.items():
            writer = writer.option(key, value)
        return PlannedWrite(rows.sparkSession, writer, F.expr(there))

    def iceberg(self, table: str) -> Any:
        """Iceberg's own handle of a table, freshly loaded."""
        session = self._spark._jsparkSession
        # A catalog that wasn't asked for yet takes its settings from the session that is active in the thread, and in
        # one that runs waves none is.
        java_class(self._spark, "org.apache.spark.sql.classic.SparkSession").setActiveSession(session)
        util = java_class(self._spark, "org.apache.iceberg.spark.Spark3Util")
        return util.loadIcebergTable(session, self._full(table))

    def _full(self, table: str) -> str:
        return quoted_name(f"{self._catalog}.{table}")

    @contextmanager
    def _telling_errors(self, job: Job) -> Iterator[None]:
        """What goes wrong while a wave is planned or written, as an error that says whether another try may help. That
        one opens its tables anew: one of them may not be what it was any more.
        """
        try:
            yield
        except (PySparkException, Py4JJavaError) as error:
            self._reads.forget()
            self._tables.forget()
            if isinstance(error, Py4JJavaError):
                raise _java_error(error, job) from error
            raise _staging_error(error, job, worker_error(self._reads.code, str(error))) from error

    @contextmanager
    def _described(self, name: str) -> Iterator[None]:
        context = self._spark.sparkContext
        context.setJobDescription(name)
        # Waves that run at once share evenly. A pool is there for good, and all are sorted whenever a task starts: so
        # one for each thread, not for each wave.
        context.setLocalProperty("spark.scheduler.pool", current_thread().name)
        try:
            yield
        finally:
            context.setLocalProperty("spark.job.description", None)  # type: ignore[arg-type] # None clears it
            context.setLocalProperty("spark.scheduler.pool", None)  # type: ignore[arg-type]

    def _scanned(self, name: str) -> dict[str, Scanned]:
        """What Spark's own metrics say the job of this name has read, by table; nothing where they are late."""
        session = self._spark._jsparkSession
        try:
            session.sparkContext().listenerBus().waitUntilEmpty(10_000)
        except Py4JJavaError:
            return {}  # other waves keep it busy: no reason to fail one that is on its branch
        store = session.sharedState().statusStore()
        executions = store.executionsList()
        found: dict[str, Scanned] = {}
        for at in range(executions.size() - 1, -1, -1):
            execution = executions.apply(at)
            if execution.description() != name:
                continue
            values = store.executionMetrics(execution.executionId())
            nodes = store.planGraph(execution.executionId()).allNodes()
            for node in (nodes.apply(i) for i in range(nodes.size())):
                if node.name().startswith("BatchScan "):
                    table = node.name().removeprefix("BatchScan ").removeprefix(f"{self._catalog}.").split(" ")[0]
                    metrics, before = node.metrics().mkString(" "), found.get(table, Scanned(files=0, bytes=0))
                    found[table] = Scanned(
                        files=before.files + _number(_RESULT_FILES.search(metrics), values),
                        bytes=before.bytes + _number(_RESULT_BYTES.search(metrics), values),
                    )
            break
        return found


def _carry_out(plan: Callable[[], PlannedWrite], planned: PlannedWrite | None = None, tries: int = 3) -> None:
    """Waves commit to one table at once: one whose commits all lost, as often as Iceberg tries, has written nothing,
    and is planned anew.
    """
    write = planned or plan()
    try:
        with _COMMITTED:
            write.run()
    except Py4JJavaError as error:
        has_lost = error.java_exception.getClass().getSimpleName() == "CommitFailedException"
        if not has_lost or tries == 1:
            raise
        _carry_out(plan, tries=tries - 1)


def has_small_slices(job: Job) -> bool:
    """May one task read a whole slice?"""
    return job.largest is not None and job.largest <= _SMALL_SLICE


def _anywhere(job: Job) -> Mapping[str, str]:
    """For rows that come to tasks as Spark likes."""
    return _SIDE_BY_SIDE if _fits_in_memory(job) else _SORTED


def _fits_in_memory(job: Job) -> bool:
    """May a file be held open per partition? That saves sorting the rows, and holds what is written in memory."""
    cut = job.slices.grain
    # A table that was there may be cut finer than its slices; by days, as a rule.
    partitions = job.slices.recut(Grain.DAY) if isinstance(cut, Grain) and cut is not Grain.HOUR else job.slices
    return job.bytes is not None and job.bytes <= _SMALL_WAVE and len(partitions) <= _FEW_FILES


def wave_of(frame: DataFrame, job: Job, *, in_code: bool = False) -> str:
    """The predicate of the job's slices on its own result."""
    by = job.model.slicing.by
    return slice_predicate(by, type_of(frame, by) or "date", job.slices, in_code=in_code)


def slices_of(reads: ScopedReads, job: Job) -> DataFrame:
    """The job's slices as they will be: what is computed, and with it the rows that stay."""
    computed = computed_by(reads, job)
    if job.carried is None:
        return computed
    there = fitted(reads.frame(job.carried), computed)
    if job.moved_to is not None:
        there = there.join(reads.frame(job.moved_to).select(*map(quoted, job.model.key)), list(job.model.key), "anti")
    if job.keyed is None:
        return _merged(there, computed, job.model.key)
    column = job.keyed.keys.column
    kept = reads.of_keys(there, column, job.keyed, others=True)
    return kept.unionByName(reads.of_keys(computed, column, job.keyed))


def _untied(frame: DataFrame) -> DataFrame:
    """A writer analyses the text of an untouched query again, when its views are gone."""
    return frame.select("*")


def _in_session(frame: DataFrame, session: SparkSession) -> DataFrame:
    """The same rows, planned and computed by another session."""
    dataset = java_class(session, "org.apache.spark.sql.classic.Dataset")
    return DataFrame(dataset.ofRows(session._jsparkSession, frame._jdf.queryExecution().analyzed()), session)


def computed_by(reads: ScopedReads, job: Job) -> DataFrame:
    """What the job computes, held to its slices."""
    frames = [confined(reads.compute(part), part) for part in job.parts or (job,)]
    return reduce(DataFrame.unionByName, frames)


def _merged(there: DataFrame, computed: DataFrame, key: tuple[str, ...]) -> DataFrame:
    """Each computed row in the place of the one with the same key. In one pass, so that nothing is computed twice."""
    both = there.withColumn(_NEW, F.lit(0)).unionByName(computed.withColumn(_NEW, F.lit(1)))
    same_key = Window.partitionBy(*(F.col(quoted(column)) for column in key))
    both = both.withColumn(_COMPUTED, F.sum(_NEW).over(same_key))
    shown = F.concat_ws(", ", *(F.coalesce(F.col(quoted(c)).cast("string"), F.lit("NULL")) for c in key))
    has_null = reduce(lambda a, b: a | b, (F.col(quoted(column)).isNull() for column in key))
    is_wrong = (F.col(_NEW) == 1) & (has_null | (F.col(_COMPUTED) > 1))
    error = F.raise_error(F.concat(F.lit(_KEY), shown))
    first = both.columns[0]
    kept = both.filter((F.col(_NEW) == 1) | (F.col(_COMPUTED) == 0))
    checked = kept.withColumn(first, F.when(is_wrong, error).otherwise(F.col(quoted(first))))
    return checked.drop(_NEW, _COMPUTED)


def confined(frame: DataFrame, job: Job) -> DataFrame:
    """The result held to its wave: cut down where more was read than the wave, else a row outside is an error."""
    by = job.model.slicing.by
    if by is None:
        return _untied(frame)
    wave = wave_of(frame, job)
    if job.filters_output:
        frame = frame.filter(f"({wave}) OR {quoted(by)} IS NULL")
    error = f"raise_error(concat('{_OUTSIDE}', coalesce(CAST({quoted(by)} AS STRING), 'NULL')))"
    # In a projection, not a filter: a filter may be pushed below joins and meet rows that never come out.
    # On another column, as a rule: Spark must see that the slice's own is as it was read, to write it where it is.
    name = next((column for column in frame.columns if column.lower() != by.lower()), by)
    is_inside = wave_of(frame, job, in_code=True)
    return frame.withColumn(name, F.expr(f"CASE WHEN {is_inside} THEN {quoted(name)} ELSE {error} END"))


def _number(found: re.Match[str] | None, values: Any) -> int:
    """What a metric came to; 0 where the scan has none of this name."""
    value = values.get(int(found[1])) if found is not None else None
    return int(re.sub(r"\D", "", value.get())) if value is not None and value.isDefined() else 0


def _java_error(error: Py4JJavaError, job: Job) -> Fault:
    """What Spark doesn't pass on as an error of its own: Iceberg's, and those of the storage."""
    reason = str(error.java_exception.toString()).splitlines()[0][:300]
    return Fault(f"{job.model.name}, {job.slices.text}: {reason}", state=_NOT_STAGED, next=_GO_ON, retryable=True)


def _staging_error(error: PySparkException, job: Job, on_worker: str) -> Exception:
    text = str(error)
    where = f"{job.model.name}, {job.slices.text}"

    def recorded(what: str) -> str:
        return "" if job.model.samples else f"{where}: {what}"

    if _OUTSIDE in text:
        by, value = job.model.slicing.by, _raised(text, _OUTSIDE)
        outside = "is outside the slices being computed"
        return GatesFailed(
            f"{where}: a row with {by} = {value} {outside}",
            state="this wave was not staged; production is untouched",
            next="every row must fall into the slices its inputs were read for: filter it out in the SQL, "
            "or declare `lookback` / `lookahead` on the input that brings it in",
            # A time is as good as the name of a slice; a key is somebody's.
            recorded=recorded(f"a row {outside}") if isinstance(job.slices.grain, Buckets) else "",
        )
    if _KEY in text:
        value, wrong = _raised(text, _KEY), "the query gives several, or a part of it is NULL"
        return GatesFailed(
            f"{where}: ({value}) isn't the key of one row: {wrong}",
            state="this wave was not staged; production is untouched",
            next=f"rows are merged by {', '.join(job.model.key)}: let the query give one row for each, without NULLs",
            recorded=recorded(f"a key isn't that of one row: {wrong}"),
        )
    if on_worker:
        return worker_refusal(on_worker, job)
    if type(error).__name__ == "AnalysisException":
        return Refused(f"{where}: {first_line(error)}", state="this wave was not staged; production is untouched")
    return Fault(
        f"{where}: {first_line(error)}",
        state=_NOT_STAGED,
        next=_GO_ON,
        recorded=recorded(without_values(first_line(error))),
        retryable=_WRONG_DATA.search(text) is None,
    )


def _raised(text: str, mark: str) -> str:
    """The value that an error of retcon's own in a wave names."""
    return text.split(mark, 1)[1].split(" SQLSTATE")[0].splitlines()[0].strip()
