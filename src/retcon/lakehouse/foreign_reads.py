"""Reading what isn't Iceberg, and the mark by which every scoped read is known."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException, ParseException, PySparkException
from pyspark.sql import DataFrame, SparkSession

from retcon.core.projects import Source
from retcon.core.promises import DELTA, JDBC
from retcon.core.queries import quoted
from retcon.errors import Fault, Refused, RetconError
from retcon.lakehouse.java_classes import java_class
from retcon.lakehouse.sessions import first_line

MARK = "retcon"
"""Every scoped read carries this option, with its job's name or a mark of what several share; after analysis a read
without it is refused.
"""

# Wrong values must fail, not become NULL, and a file whose header isn't as declared must not be read by position.
_STRICT = {"mode": "FAILFAST"}
_DEFAULTS: Mapping[str, Mapping[str, str]] = {
    "csv": {**_STRICT, "header": "true", "enforceSchema": "false"},
    "json": _STRICT,
}


def read_foreign(spark: SparkSession, source: Source, version: int | None, mark: str) -> DataFrame:
    """The rows of a source that isn't in the catalog, as they are now (of a Delta table, at a version)."""
    assert source.format is not None
    columns = ", ".join(f"{quoted(name)} {kind}" for name, kind in source.columns)
    reader = spark.read.format(source.format)
    for key, value in {**_DEFAULTS.get(source.format, {}), **source.options, MARK: mark}.items():
        reader = reader.option(key, value)
    if version is not None:
        reader = reader.option("versionAsOf", str(version))
    try:
        if source.format == JDBC:
            return (reader.option("customSchema", columns) if columns else reader).load()
        reader = reader.schema(columns) if columns else reader
        # Said outright, since a cluster's default file system may be another one.
        frame = reader.load(local_uri(source.local_path) if source.local_path is not None else source.path)
        return _tagged(frame, mark) if source.format == DELTA else frame
    except (PySparkException, Py4JJavaError) as error:
        raise unreadable(error, source) from None


def unreadable(error: PySparkException | Py4JJavaError, source: Source) -> RetconError:
    """Why a source can't be read, without the secrets that Spark's own words may hold."""
    said = f"{source.name} ({source.format}) can't be read: {_without_secrets(error, source)}"
    state = "nothing was staged; production is untouched"
    if isinstance(error, AnalysisException | ParseException):
        return Refused(said, state=state, next=f"correct `sources.{source.name}` in retcon.yaml")
    return Fault(
        said,
        state=state,
        next=f"is it there and does it answer? check `sources.{source.name}` in retcon.yaml, then try again",
        retryable=True,
    )


def local_uri(path: str) -> str:
    """A path of this machine as Spark reads it: not percent-encoded, and without meaning in it."""
    return "file://" + re.sub(r"([*?\[\]{}\\])", r"\\\1", path)


def _without_secrets(error: BaseException, source: Source) -> str:
    if isinstance(error, Py4JJavaError):
        text = first_line(RuntimeError(str(error.java_exception.toString())))
    else:
        text = first_line(error)
    for secret in sorted(source.secrets, key=len, reverse=True):
        text = text.replace(secret, "…") if secret else text
    return text


def leaves_of(plan: Any) -> Iterator[Any]:
    """The leaves of a plan, without those of its subqueries."""
    leaves = plan.collectLeaves()
    return (leaves.apply(i) for i in range(leaves.size()))


def _tagged(frame: DataFrame, mark: str) -> DataFrame:
    """Delta puts its own relation in place of the one that was read, and drops the options; a tag stays on the leaf."""
    for leaf in leaves_of(frame._jdf.queryExecution().analyzed()):
        leaf.setTagValue(_tag(frame.sparkSession), mark)
    return frame


def _tag(spark: SparkSession) -> Any:
    return java_class(spark, "org.apache.spark.sql.catalyst.trees.TreeNodeTag")(MARK)


def has_mark(leaf: Any, mark: str, spark: SparkSession) -> bool:
    """Is this leaf of an analysed plan a scoped read with this mark?"""
    kind = leaf.getClass().getSimpleName()
    if kind == "DataSourceV2Relation":
        return bool(leaf.options().get(MARK) == mark)
    if kind != "LogicalRelation":
        return False
    tagged = leaf.getTagValue(_tag(spark))
    if tagged.isDefined():
        return bool(tagged.get() == mark)
    relation = leaf.relation()
    match relation.getClass().getSimpleName():
        case "HadoopFsRelation":
            found = relation.options().get(MARK)
        case "JDBCRelation":
            found = relation.jdbcOptions().parameters().get(MARK)
        case _:
            return False
    return bool(found.isDefined() and found.get() == mark)
