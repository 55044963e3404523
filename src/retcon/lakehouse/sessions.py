"""Spark sessions, set up for the project's catalog."""

from __future__ import annotations

import logging
import os
import re
import shlex
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import unquote, urlsplit

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from retcon.core.projects import Catalog, Settings
from retcon.core.promises import DELTA
from retcon.core.queries import quoted
from retcon.errors import Fault
from retcon.lakehouse.jars import kept_jars
from retcon.lakehouse.java import check_java

_JAVA_OPTIONS = "spark.driver.extraJavaOptions"
_SHORT_LIVED = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=256m -XX:+UseSerialGC"
"""For a process that is over before code compiled with more care, and collectors with threads of their own, pay. What
this compiler makes has a small cache by default: once that is full, all is compiled over and over.
"""
_CHOSEN = re.compile(r"-XX:(?!SharedArchiveFile=|ArchiveClassesAtExit=)")
_CONDITION = re.compile(r"\[([A-Z][A-Z0-9_]*(?:\.[A-Z0-9_]+)*)\] ")
_EXTENSIONS = "spark.sql.extensions"
_JAVA_VARIABLES = ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS", "SPARK_SUBMIT_OPTS")
_DELTA_EXTENSION = "io.delta.sql.DeltaSparkSessionExtension"
# Delta refuses to be read without it; the project's catalog is another one, and stays the default.
_DELTA_CATALOG = {"spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog"}
_LOGGING = """\
rootLogger.level = warn
rootLogger.appenderRef.file.ref = file
appender.file.type = RollingFile
appender.file.name = file
appender.file.fileName = {log}
appender.file.filePattern = {log}.%i
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = %d{{yyyy-MM-dd HH:mm:ss.SSS}} %p %c{{1}}: %m%n%ex
appender.file.policies.type = SizeBasedTriggeringPolicy
appender.file.policies.size = 10MB
appender.file.strategy.type = DefaultRolloverStrategy
appender.file.strategy.max = 2
"""
_BY_PARTITION = {
    "spark.sql.sources.v2.bucketing.enabled": "true",
    "spark.sql.iceberg.planning.preserve-data-grouping": "true",
}
_AS_PLANNED = {"spark.sql.adaptive.enabled": "false"}
"""What is planned again after each stage costs more than such jobs do."""
_TASKS, _FEW_TASKS = "spark.sql.shuffle.partitions", 2
_A_TASK = 32 * 1024**2
"""Bytes of files that one task of a shuffle gets. Unpacked they are several times as many, and have to be sorted."""
_FEWEST_BITS, _MOST_BITS = 16, 20


# Without it, views and other engines' tables in the catalog's database aren't told apart.
_V1 = {"jdbc.schema-version": "V1"}
# Without them Iceberg's client waits for an answer for ever.
_PATIENCE = {"rest.client.connection-timeout-ms": "30000", "rest.client.socket-timeout-ms": "300000"}


def start_session(settings: Settings, environ: Mapping[str, str], *, for_little: bool = False) -> SparkSession:
    """A Spark session whose default catalog is the project's; its log goes to `.retcon/logs`. For little work Java
    starts with settings of its own, unless somebody has chosen some.
    """
    running = SparkSession.getActiveSession()
    if running is None:
        check_java(environ)
    # PySpark writes every error that it raises to stderr as well.
    logging.getLogger("SQLQueryContextLogger").disabled = True
    reads_delta = any(source.format == DELTA for source in settings.foreign.values())
    jars = os.pathsep.join(str(jar) for jar in kept_jars(environ, delta=reads_delta, s3=settings.catalog.is_on_s3))
    logs = Path(settings.root, ".retcon", "logs")
    try:
        logs.mkdir(parents=True, exist_ok=True)
        log_settings = logs / "log4j2.properties"
        log_settings.write_text(_LOGGING.format(log=logs / "spark.log"))
    except OSError as error:
        raise Fault(
            f"{logs} can't be written: {error.strerror}",
            state="Spark was not started; nothing was written",
            next="make the project folder writable for you",
        ) from error
    conf = {**_defaults(settings, jars), **catalog_conf(settings.catalog), **settings.spark.conf}
    if reads_delta:
        conf = {**_DELTA_CATALOG, **conf, _EXTENSIONS: f"{conf[_EXTENSIONS]},{_DELTA_EXTENSION}"}
    chosen = java_options(settings.spark.conf.get(_JAVA_OPTIONS, ""), environ, for_little=for_little)
    conf[_JAVA_OPTIONS] = f"-Dlog4j2.configurationFile={log_settings.as_uri()} {chosen}".strip()
    if running is not None:
        return _beside(running, conf, settings.catalog.name)
    conf |= {"spark.app.name": f"retcon {settings.name}", "spark.master": settings.spark.master}
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    with _java_speaks_to(logs / "java.log"), _handed_over(conf):
        try:
            return SparkSession.builder.getOrCreate()
        except Exception as error:
            raise Fault(
                f"Spark didn't start: {first_line(error)}",
                state="nothing was written",
                next=f"the whole story is in {logs}",
                retryable=True,
            ) from error


def java_options(chosen: str, environ: Mapping[str, str], *, for_little: bool) -> str:
    """What the project chose for Java, and for little work ours: unless somebody chose such settings, which may
    contradict them, and then Java wouldn't start. An archive of classes contradicts nothing.
    """
    others = (chosen, *(environ.get(name, "") for name in _JAVA_VARIABLES))
    is_ours = for_little and not any(_CHOSEN.search(each) for each in others)
    return f"{_SHORT_LIVED if is_ours else ''} {chosen}".strip()


def _beside(running: SparkSession, conf: Mapping[str, str], catalog: str) -> SparkSession:
    """A session of its own in the Spark that already runs here, as in a notebook: with its own catalog and settings."""
    session = running.newSession()
    for key, value in conf.items():
        # Iceberg's aren't registered settings, and so never count as modifiable, though they are.
        if key.startswith(("spark.sql.catalog.", "spark.sql.iceberg.")) or session.conf.isModifiable(key):
            session.conf.set(key, value)
    # A catalog takes its settings from whichever session is active when it is first asked for: let that be this one.
    session.sql(f"USE {quoted(catalog)}")
    return session


def tasks_for(bytes: int | None, configured: int) -> int:
    """Among how many tasks a shuffle of so much is shared out: as many as are configured, or, where these would get too
    much, as much more often by a power of two, so that waves of about one size are planned alike.
    """
    most = -(-(bytes or 0) // _A_TASK)
    return configured if most <= configured else configured << (-(-most // configured) - 1).bit_length()


def configured_tasks(running: SparkSession) -> int:
    """Among how many tasks Spark shares a shuffle out."""
    return int(running.conf.get(_TASKS) or _FEW_TASKS)


def sized_session(running: SparkSession, catalog: str, tasks: int, *, by_partition: bool = False) -> SparkSession:
    """One whose shuffles are shared out among so many tasks: Spark puts small partitions of a shuffle together as it
    goes, but never makes more of them. `by_partition`: tasks read whole partitions of a table, and what is grouped or
    written by these needs no shuffle. Not for large ones, each of which is one task then, nor for many small ones where
    nothing is gained by it.
    """
    return _like(running, {_TASKS: str(tasks)} | (_BY_PARTITION if by_partition else {}), catalog)


def bits_for(groups: int) -> int:
    """Of the size of a map that takes so many groups, within what a task can afford."""
    return min(max((groups - 1).bit_length(), _FEWEST_BITS), _MOST_BITS)


def partition_session(running: SparkSession, catalog: str, bits: int | None) -> SparkSession:
    """One for jobs that read whole partitions and give little. `bits`: rows are grouped in a fast map of this size, and
    what it doesn't take goes through a slower one.
    """
    if bits is None:
        return _like(running, _BY_PARTITION | _AS_PLANNED, catalog)
    fast_map = {
        "spark.sql.codegen.aggregate.fastHashMap.capacityBit": str(bits),
        "spark.sql.codegen.aggregate.map.twolevel.partialOnly": "false",
        "spark.sql.codegen.aggregate.map.vectorized.enable": "true",
    }
    return _like(running, _BY_PARTITION | _AS_PLANNED | fast_map, catalog)


def summing_session(running: SparkSession, catalog: str) -> SparkSession:
    """One for jobs that read much and give nothing but sums, a row for each slice. Two tasks put them together from the
    sums of those that read: most of Spark's 200 would have nothing to do.
    """
    tasks = min(configured_tasks(running), _FEW_TASKS)
    return _like(running, _AS_PLANNED | {_TASKS: str(tasks)}, catalog)


def _like(running: SparkSession, changes: Mapping[str, str], catalog: str) -> SparkSession:
    """A session beside this one with these settings; the same one where it has them."""
    if all(running.conf.get(key, None) == value for key, value in changes.items()):
        return running
    conf = {key: value for key, value in running.conf.getAll.items() if key.startswith("spark.sql.")}
    return _beside(running, {**conf, **changes}, catalog)


def _defaults(settings: Settings, jars: str) -> dict[str, str]:
    conf = {
        "spark.driver.extraClassPath": jars,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        # Of Spark's 100 a run of a few models takes most: the next one would have all compiled again.
        "spark.sql.codegen.cache.maxEntries": "1000",
        "spark.scheduler.mode": "FAIR",
        "spark.sql.session.timeZone": settings.timezone,
        _EXTENSIONS: "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        "spark.sql.defaultCatalog": settings.catalog.name,
        # Results are compared exactly: wrong casts and overflows must fail, not become NULL.
        "spark.sql.ansi.enabled": "true",
        "spark.sql.storeAssignmentPolicy": "ANSI",
    }
    if settings.spark.master.startswith("local"):
        conf |= {
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            _TASKS: str(4 * (os.cpu_count() or 2)),
        }
    else:
        conf["spark.jars"] = jars.replace(os.pathsep, ",")
    return conf


def catalog_conf(catalog: Catalog) -> dict[str, str]:
    """Spark's settings for the Iceberg catalog, credentials included: never printed."""
    prefix = f"spark.sql.catalog.{catalog.name}"
    own = {
        "type": catalog.type,
        "warehouse": catalog.warehouse,
        # Every load asks the catalog: a cached entry could hide a commit for 30 seconds.
        "cache-enabled": "false",
        **({**_PATIENCE, "uri": catalog.uri} if catalog.is_rest else _jdbc(catalog.uri)),
        **({"io-impl": "org.apache.iceberg.aws.s3.S3FileIO"} if catalog.is_on_s3 else {}),
        **catalog.options,
    }
    return {
        prefix: "org.apache.iceberg.spark.SparkCatalog",
        **{f"{prefix}.{key}": value for key, value in own.items() if value},
    }


def _jdbc(uri: str) -> dict[str, str]:
    if uri.startswith("sqlite:///"):
        # Without the timeout a writer that waits fails with SQLITE_BUSY.
        return {**_V1, "uri": f"jdbc:sqlite:{uri.removeprefix('sqlite:///')}?busy_timeout=30000&journal_mode=WAL"}
    parts = urlsplit(uri)
    place = f"{parts.hostname}:{parts.port}" if parts.port else f"{parts.hostname}"
    settings = {**_V1, "uri": f"jdbc:postgresql://{place}{parts.path}" + (f"?{parts.query}" if parts.query else "")}
    if parts.username:
        settings["jdbc.user"] = unquote(parts.username)
    if parts.password:
        settings["jdbc.password"] = unquote(parts.password)
    return settings


@contextmanager
def _handed_over(conf: Mapping[str, str]) -> Iterator[None]:
    """Settings for the JVM in a file that only this user can read: PySpark would put them, passwords included, on the
    JVM's command line, where everybody on the machine sees them.
    """
    handle, path = tempfile.mkstemp(prefix="retcon-", suffix=".properties")
    kept = os.environ.get("PYSPARK_SUBMIT_ARGS")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.writelines(f"{_escaped(key)}={_escaped(value)}\n" for key, value in conf.items())
        os.environ["PYSPARK_SUBMIT_ARGS"] = f"--properties-file {shlex.quote(path)} pyspark-shell"
        yield
    finally:
        os.unlink(path)
        os.environ.pop("PYSPARK_SUBMIT_ARGS", None)
        if kept is not None:
            os.environ["PYSPARK_SUBMIT_ARGS"] = kept


def _escaped(text: str) -> str:
    """As Java's properties files want it."""
    marked = str(text).replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r")
    for sign in "=:#! ":
        marked = marked.replace(sign, "\\" + sign)
    return marked


@contextmanager
def _java_speaks_to(log: Path) -> Iterator[None]:
    """What the JVM itself says, and what code on its workers prints, goes to a file: it inherits the descriptors that
    are open at its start. Ours have the report alone.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    kept = {each: os.dup(each) for each in (1, 2)}
    file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    try:
        for each in kept:
            os.dup2(file, each)
        yield
    finally:
        for each, ours in kept.items():
            os.dup2(ours, each)
            os.close(ours)
        os.close(file)


def first_line(error: BaseException) -> str:
    """What an error of Spark or Java says, without its stack."""
    text = str(error).strip() or type(error).__name__
    return text.splitlines()[0][:400]


def without_values(text: str) -> str:
    """What an error says, by the name that Spark has for it: the text itself names values of rows."""
    found = _CONDITION.search(text)
    return text if found is None else found[1]


def root_cause(error: PySparkException | Py4JJavaError) -> str:
    """What went wrong first: Java wraps it where it ran in a thread, or behind a catalog."""
    if isinstance(error, PySparkException):
        return first_line(error)
    cause = error.java_exception
    while cause.getCause() is not None:
        cause = cause.getCause()
    return f"{cause.getClass().getSimpleName()}: {first_line(RuntimeError(str(cause.getMessage())))}"
