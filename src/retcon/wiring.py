"""The one place that puts the parts together. Imports late, so that what isn't needed isn't loaded."""

from __future__ import annotations

import getpass
import os
import secrets
import string
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic
from typing import TYPE_CHECKING, Any, cast

from retcon.errors import BadArguments, Problem, Refused
from retcon.values import dataclass

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from sqlalchemy import Engine

    from retcon.core.estimates import Estimate
    from retcon.core.gates import Metric
    from retcon.core.jobs import Job
    from retcon.core.measures import SliceMeasure
    from retcon.core.models import Model
    from retcon.core.plans import Plan
    from retcon.core.projects import Project, Source
    from retcon.core.reads import Read
    from retcon.core.runs import Run
    from retcon.core.slices import Slice, SliceSet
    from retcon.core.updates import SliceRows, Wanted
    from retcon.flow.adopt import Adopter
    from retcon.flow.context import Context
    from retcon.flow.deliver import Deliverer
    from retcon.flow.detect import Detective
    from retcon.flow.doctor import Doctor
    from retcon.flow.driving import Caller
    from retcon.flow.estimate import Estimator
    from retcon.flow.find import Finder
    from retcon.flow.freshness import Freshener
    from retcon.flow.late import LateChanges
    from retcon.flow.load import Loader
    from retcon.flow.meters import Setup
    from retcon.flow.migrate import Migrator
    from retcon.flow.plan import Planner
    from retcon.flow.ports import Clock, GroupCommits, Warehouse, Watch
    from retcon.flow.postmortem import Coroner
    from retcon.flow.schedule import Schedules
    from retcon.flow.statuses import Statuses
    from retcon.flow.tell import Teller
    from retcon.flow.watermarks import Watermarks
    from retcon.lakehouse.foreign import SourceTables
    from retcon.lakehouse.metadata import IcebergMetadata
    from retcon.lakehouse.samples import Samples
    from retcon.ledger.questions import Questions
    from retcon.ledger.store import SqlLedger
    from retcon.project.key_files import Gathered
    from retcon.project.model_files import SqlReader
    from retcon.project.plan_files import Asked
    from retcon.project.python.importing import ProjectCode


def utc_now() -> datetime:
    """The wall clock."""
    return datetime.now(UTC)


@dataclass(frozen=True, kw_only=True)
class Again:
    """What a run needs to be computed once more."""

    context: Context
    lacking: Mapping[str, str]
    """Models whose code can't be had, and why."""
    start: Callable[[], object]
    """Starts Spark."""


class Workspace:
    """A project folder with everything that commands need, each part made when it is first asked for."""

    def __init__(
        self,
        root: Path,
        environ: Mapping[str, str] | None = None,
        *,
        clock: Clock = utc_now,
        who: str | None = None,
        environment: str | None = None,
    ) -> None:
        self.root = root
        self.environ = dict(os.environ if environ is None else environ)
        self.clock = clock
        self.who = who or _user()
        self.environment = environment
        self.since = monotonic()
        """Since when it prepares what it does next."""
        self._starting: float | None = None
        self._has_little_to_do = False

    @cached_property
    def project(self) -> Project:
        from retcon.core.environments import bound
        from retcon.lakehouse.caches import TextCache
        from retcon.project.kept_sql import KeptSql
        from retcon.project.load import load_project

        sql = KeptSql(self.root, TextCache("sql", self.environ), _sql_reader)
        project = bound(load_project(self.root, self.environ, sql), self.environment)
        sql.save()
        return project

    @cached_property
    def outline(self) -> Project:
        """The project without its SQL: which models there are, and the settings."""
        if "project" in self.__dict__:
            return self.project
        from retcon.core.environments import bound
        from retcon.project.load import load_project

        return bound(load_project(self.root, self.environ, None), self.environment)

    @property
    def env_option(self) -> str:
        """What another command needs to look at the same environment."""
        from retcon.core.projects import env_option

        return env_option(self.environment)

    def enter(self, environment: str | None, of: str) -> None:
        """Go on in the environment that a plan or run was made for; one that was asked for can't be another."""
        if environment == self.environment:
            return
        if self.environment is not None:
            raise BadArguments(
                f"{of} is of {environment or 'production'}, and --env {self.environment} was given",
                next="leave out --env: a plan knows its environment",
            )
        self.environment = environment
        for read in ("project", "outline"):
            self.__dict__.pop(read, None)

    @cached_property
    def code(self) -> ProjectCode:
        """The project's own Python; nothing of it runs until it is asked for."""
        from retcon.project.python.importing import ProjectCode

        return ProjectCode(self.root)

    def import_code(self, models: Iterable[Model]) -> None:
        """Run the Python files of these models and the functions that they call, refused with all that breaks."""
        from retcon.project.python.importing import import_all

        import_all(self.code, models)

    @cached_property
    def ledger(self) -> SqlLedger:
        from retcon.ledger.store import SqlLedger

        settings = self.outline.settings
        graph = self.outline.graph
        # Other systems keep the marks of production: loads of an environment move none of them.
        models = frozenset(name.removeprefix(graph.prefix) for name in graph.models)
        hooks = {hook.name: frozenset(hook.models) or models for hook in settings.hooks.values()}
        uri = settings.ledger_uri or settings.catalog.uri
        return SqlLedger(uri, settings.catalog.name, migrate=_migrate, hooks=hooks)

    @property
    def questions(self) -> Questions:
        """The ledger, for those who only read it: what writes isn't loaded for them."""
        return self.ledger if "ledger" in self.__dict__ else self._questions

    @cached_property
    def _questions(self) -> Questions:
        from retcon.ledger.questions import Questions
        from retcon.ledger.sqlite_files import SqliteFile, database_file

        settings = self.outline.settings
        uri = settings.ledger_uri or settings.catalog.uri
        if database_file(uri) is not None:
            return Questions(SqliteFile(uri), settings.catalog.name)
        from retcon.ledger.engines import Alchemy

        return Questions(Alchemy(uri), settings.catalog.name)

    @cached_property
    def tables(self) -> SourceTables:
        from retcon.lakehouse.foreign import SourceTables
        from retcon.lakehouse.metadata_files import MetadataFiles

        settings = self.outline.settings
        catalog = settings.catalog

        def pyiceberg() -> IcebergMetadata:
            from retcon.lakehouse.metadata import IcebergMetadata

            return IcebergMetadata(catalog)

        # The ledger's database is the catalog's own, which knows where metadata files are.
        tables = (
            pyiceberg() if catalog.is_rest else MetadataFiles(lambda table: self.questions.pointer(table), pyiceberg)
        )
        return SourceTables(cast("IcebergMetadata", tables), settings.foreign, self._look_at_rows)

    def _look_at_rows(self, source: Source, version: int | None, wanted: Wanted) -> tuple[SliceRows, ...]:
        """Starts Spark, for sources that are known by an `updated` column."""
        from retcon.lakehouse.looking import look_at_rows

        return look_at_rows(self.spark, source, version, wanted)

    @cached_property
    def spark(self) -> SparkSession:
        from retcon.lakehouse.sessions import start_session

        began = monotonic()
        session = start_session(self.outline.settings, self.environ, for_little=self._has_little_to_do)
        self._starting = round(monotonic() - began, 3)
        return session

    def expect(self, plan: Plan) -> None:
        """This is what Spark will be started for, if it isn't there yet."""
        from retcon.core.little import is_little

        self._has_little_to_do = is_little(plan, self.project.graph.models)

    @cached_property
    def cores(self) -> int | None:
        """Those that Spark's tasks will run on, as far as settings tell."""
        return self.outline.settings.spark.cores(os.cpu_count())

    def setup(self) -> Setup:
        """What it took to get here; what comes next has Spark already."""
        from retcon.flow.meters import Setup

        cores = self.cores
        if cores is None:
            from retcon.lakehouse.task_metrics import executor_cores

            cores = executor_cores(self.spark)
        took = monotonic() - self.since - (self._starting or 0.0)
        setup = Setup(preparing=round(max(0.0, took), 3), starting=self._starting, cores=cores)
        self._starting = None
        return setup

    @cached_property
    def warehouse(self) -> Warehouse:
        from retcon.lakehouse.warehouse import SparkWarehouse

        settings = self.outline.settings
        return SparkWarehouse(self.spark, settings.catalog, self.code, settings.foreign)

    @cached_property
    def group_commits(self) -> GroupCommits | None:
        """Who moves the tables of a run: a REST catalog, or, where this is None, the ledger's own database."""
        from retcon.lakehouse.group_commits import RestCommits

        catalog = self.outline.settings.catalog
        return RestCommits(self.spark, catalog.name) if catalog.is_rest else None

    @property
    def planner(self) -> Planner:
        from retcon.flow.plan import Planner

        return Planner(self.project, self.tables, self.ledger, _SqlText(), self._homes, cores=self.cores)

    @property
    def estimator(self) -> Estimator:
        """Whoever knows how long things take."""
        from retcon.flow.estimate import Estimator
        from retcon.flow.records import Records

        records = Records(project=self.project, ledger=self.ledger, tables=self.tables)
        return Estimator(records=records, cores=self.cores)

    def try_slices(self, plan: Plan, slices: int, watch: Watch) -> Estimate:
        """How long a plan will take, by some slices of each model: starts Spark, computes them, writes nothing."""
        from retcon.flow.estimate import Canary

        self.import_code(self.project.graph.models[planned.name] for planned in plan.models)
        trial = self.warehouse.trial
        canary = Canary(slices=slices, trial=trial, watch=watch, now=self.clock())
        return self.estimator.tried(plan, canary, self._starting)

    @property
    def finder(self) -> Finder:
        from retcon.flow.find import Finder

        return Finder(self.project, self.tables, self.ledger)

    @property
    def freshener(self) -> Freshener:
        from retcon.flow.freshness import Freshener

        return Freshener(self.project, self.tables, self.questions)

    @property
    def detective(self) -> Detective:
        """Whoever looks for what watermarks have passed by."""
        from retcon.flow.detect import Detective

        return Detective(self.finder, self.tables, self.ledger)

    @property
    def coroner(self) -> Coroner:
        """Whoever writes post-mortems."""
        from retcon.flow.postmortem import Coroner

        return Coroner(self.project, self.ledger, self.finder, self.detective, self.teller)

    @property
    def watermarks(self) -> Watermarks:
        from retcon.flow.watermarks import Watermarks

        return Watermarks(self.outline, self.tables, self.ledger)

    @property
    def schedules(self) -> Schedules:
        from retcon.flow.schedule import Schedules
        from retcon.project.crons import cron_of

        zone = self.outline.settings.timezone
        return Schedules(self.outline, self.ledger, lambda text: cron_of(text, zone))

    @property
    def deliverer(self) -> Deliverer:
        """Whoever tells other systems of watermarks."""
        from retcon.flow.deliver import Deliverer
        from retcon.hook_calls import HookCalls
        from retcon.project.variables import filled_in

        settings = self.outline.settings
        calls = HookCalls(
            folder=settings.root, environ=self.environ, fill_in=lambda text: filled_in(text, self.environ)
        )
        return Deliverer(settings, self.tables, self.ledger, calls, self.clock)

    @property
    def loader(self) -> Loader:
        from retcon.flow.late import Impact
        from retcon.flow.load import Loader

        impact = Impact(
            project=self.project, tables=self.tables, ledger=self.ledger, outcome=self._outcome, clock=self.clock
        )
        return Loader(self.project, self.tables, self.ledger, self.planner, impact)

    @property
    def late_changes(self) -> LateChanges:
        from retcon.flow.late import LateChanges

        return LateChanges(self.ledger, self.planner)

    @property
    def migrator(self) -> Migrator:
        from retcon.flow.migrate import Migrator

        return Migrator(self.project, self.tables, self.ledger, self.planner)

    def _outcome(self, job: Job, metrics: tuple[Metric, ...]) -> Mapping[Slice, SliceMeasure]:
        """Starts Spark, to tell what late changes would change."""
        self.import_code([job.model])
        return self.warehouse.outcome(job, metrics)

    def reread(self, model: Model, text: str) -> Model:
        """A SQL model with another text as its code; refused where that isn't one of the model's as it is declared."""
        from retcon.project.queries import read_query

        project = self.project
        read = read_query(
            text,
            model=model.name.removeprefix(project.graph.prefix),
            inputs=model.inputs,
            slicing=model.slicing,
            vouched=model.batching.vouched,
            may_vary=bool(model.nondeterministic),
            params=project.settings.params,
        )
        if read.problems:
            raise Refused(read.problems[0].message, next=read.problems[0].remedy or "")
        return replace(model, query=read.query, batching=read.batching, entity=read.entity)

    def _homes(self, job: Job, there: Read) -> SliceSet:
        """Starts Spark, for plans that have to look at rows."""
        self.import_code([job.model])
        return self.warehouse.homes(job, there)

    @contextmanager
    def recorded(self, run: Run, watch: Watch) -> Iterator[Again]:
        """What a run needs to be computed once more: code, params, time zone and Spark's SQL settings as its record has
        them.
        """
        from retcon.core.events import ApplyBegan, RunOpened
        from retcon.core.graphs import Graph
        from retcon.core.projects import as_recorded
        from retcon.project.key_files import require_keys
        from retcon.project.python.importing import ProjectCode
        from retcon.project.recorded import Recorded, recorded_models

        require_keys(run.plan, self.root)
        events = self.ledger.events(run.id, kind=RunOpened)
        body = events[0].body if events else {}
        told = Recorded(code=body.get("code", {}), keys=body.get("keys"), params=body.get("parameters", {}))
        applied = self.ledger.events(run.id, kind=ApplyBegan)
        outline = self.outline
        settings = as_recorded(
            outline.settings,
            timezone=run.plan.timezone,
            params=body.get("parameters", {}),
            conf=applied[-1].body["conf"] if applied else {},
        )
        with TemporaryDirectory(prefix="retcon-reproduce-") as name:
            folder = Path(name).resolve()
            prefix = outline.graph.prefix
            models, lacking = recorded_models(run.plan, told, outline.graph.models, prefix, self.root, folder)
            code = ProjectCode(folder)
            project = replace(outline, settings=settings, graph=Graph(models, prefix=prefix))

            def make() -> Warehouse:
                from retcon.lakehouse.sessions import start_session
                from retcon.lakehouse.warehouse import SparkWarehouse

                return SparkWarehouse(start_session(settings, self.environ), settings.catalog, code, settings.foreign)

            context = self.context(watch, project=project, on_start=lambda: None)
            late = _LateWarehouse(make)
            yield Again(context=replace(context, warehouse=cast("Warehouse", late)), lacking=lacking, start=late.start)

    @property
    def adopter(self) -> Adopter:
        from retcon.flow.adopt import Adopter

        return Adopter(self.project, self.tables, self.ledger, _SqlText())

    @property
    def teller(self) -> Teller:
        from retcon.flow.tell import Teller

        return Teller(self.outline, self.ledger)

    @property
    def statuses(self) -> Statuses:
        from retcon.flow.statuses import Statuses

        return Statuses(self.outline, self.questions)

    def doctor(self, say: Callable[[str], None]) -> Doctor:
        """Whoever compares the ledger with the tables."""
        from retcon.flow.doctor import Doctor

        return Doctor(self.outline, self.tables, self.caller(say), self._plan_file)

    def _plan_file(self, run: str) -> Plan | None:
        from retcon.project.plan_files import find_plan, read_plan

        try:
            return read_plan(find_plan(run, self.root), self.root)
        except Refused:
            return None

    def listed_keys(self, text: str) -> Gathered:
        """The keys that `--keys` lists."""
        from retcon.core.keys import parse_keys
        from retcon.project.key_files import gathered

        column, values = parse_keys(text)
        return gathered(column, values, self.project.settings.limits)

    def keys_from(self, source: str) -> Gathered:
        """The keys in a CSV or Parquet file, a table or a query; the last two start Spark."""
        from retcon.project.key_files import gathered, one_column, values_in

        limits = self.project.settings.limits
        if Path(source).suffix == ".csv":
            return gathered(*values_in(Path(source)), limits)
        if Path(source).suffix == ".parquet":
            from retcon.lakehouse.key_sources import parquet_values

            columns, values = parquet_values(Path(source))
        else:
            from retcon.core.queries import quoted_name
            from retcon.lakehouse.key_sources import query_values

            is_query = source.lstrip().lower().startswith(("select ", "select\n", "with "))
            if not is_query and self.tables.facts(source) is None:
                raise BadArguments(
                    f"--keys-from {source}: neither a .csv or .parquet file, nor a table, nor a SELECT",
                    next="name one of them",
                )
            columns, values = query_values(self.spark, source if is_query else f"SELECT * FROM {quoted_name(source)}")
        return gathered(one_column(columns, source), values, limits)

    def keys_again(self, asked: Asked) -> Gathered | None:
        """The keys of an earlier plan."""
        from retcon.project.key_files import gathered, kept_keys

        if asked.keys is None:
            return None
        values = asked.keys.values or kept_keys(asked.id, self.root)
        return gathered(asked.keys.column, values, self.project.settings.limits)

    def read_plan(self, name: str) -> Plan:
        """The plan that a path or an id means: its file, or what the ledger has of it where the file is gone."""
        from retcon.project.key_files import require_keys
        from retcon.project.plan_files import find_plan, read_plan

        try:
            path = find_plan(name, self.root)
        except Refused:
            run = self.ledger.run(Path(name).stem)
            if run is None:
                raise
            found = run.plan
        else:
            found = read_plan(path, self.root)
        require_keys(found, self.root)
        return found

    def require_expectable(self, plan: Plan) -> None:
        """Refuse what can't be expected: of columns that a model won't have."""
        if not plan.expect:
            return
        from retcon.flow.expect import planned_columns
        from retcon.project.expectations import require_known_columns

        require_known_columns(plan, planned_columns(plan, self.project, self.tables, _SqlText()))

    def expecting(self, plan: Plan, texts: Sequence[str], before: object) -> Plan:
        """A plan that is being made, with what is expected of it: as these texts say, else as the plan it renews."""
        from retcon.project.plan_files import with_expectations
        from retcon.project.yaml_text import read_yaml

        given = [read_yaml(text, path="--expect").value for text in texts]
        where = "--expect" if given else f"backfills/{plan.request.refreshes}.yaml"
        expecting = with_expectations(plan, given or before, where)
        self.require_expectable(expecting)
        return expecting

    def read_asked(self, name: str) -> Asked:
        """What the plan of this path or id asked for, even if its file was edited since."""
        from retcon.core.expectations import written
        from retcon.project.plan_files import Asked, find_plan, read_asked

        try:
            path = find_plan(name, self.root)
        except Refused:
            plan = self.read_plan(name)
            return Asked(
                id=plan.id,
                reason=plan.reason,
                request=plan.request,
                keys=plan.keys,
                budget=plan.budget,
                expect=written(plan.expect),
            )
        return read_asked(path, self.root)

    def write_plan(self, plan: Plan, keys: Gathered | None = None) -> Path:
        """The plan's file, written; before it, that of its keys, if they are many."""
        from retcon.project.key_files import keep_keys
        from retcon.project.plan_files import write_plan

        if keys is not None and keys.spool is not None:
            keep_keys(keys.spool, plan, self.root)
        return write_plan(plan, self.root)

    def close(self) -> None:
        """Let go of the databases; Spark goes on, others may use it."""
        for name in ("ledger", "_questions", "tables"):
            part = self.__dict__.pop(name, None)
            if part is not None:
                part.close()

    def caller(self, say: Callable[[str], None]) -> Caller:
        """What a command needs to stop a run that another process may drive."""
        from retcon.flow.driving import Caller
        from retcon.processes import is_gone, this_process

        return Caller(
            ledger=self.ledger,
            clock=self.clock,
            who=self.who,
            driver=this_process(self.who),
            is_gone=is_gone,
            say=say,
        )

    def _late(self, on_start: Callable[[], None]) -> Warehouse:
        def make() -> Warehouse:
            on_start()
            return self.warehouse

        return cast("Warehouse", _LateWarehouse(make))

    def context(
        self,
        watch: Watch,
        *,
        max_active: int | None = None,
        project: Project | None = None,
        on_start: Callable[[], None] | None = None,
    ) -> Context:
        """What a run needs; starts Spark, or, where somebody wants to be told of it, not before it is needed. A
        rollback needs no model's SQL: it works on the outline.
        """
        from retcon import __version__
        from retcon.core.waves import MAX_ACTIVE
        from retcon.flow.context import Context
        from retcon.flow.meters import Setup
        from retcon.lakehouse.jars import versions
        from retcon.processes import is_gone, this_process

        return Context(
            project=project or self.project,
            ledger=self.ledger,
            tables=self.tables,
            warehouse=self.warehouse if on_start is None else self._late(on_start),
            catalog=self.group_commits if on_start is None else None,
            clock=self.clock,
            who=self.who,
            watch=watch,
            driver=this_process(self.who),
            is_gone=is_gone,
            max_active=max_active or MAX_ACTIVE,
            versions={"retcon": __version__, **versions()},
            setup=self.setup() if on_start is None else Setup(),
        )


class _LateWarehouse:
    """A warehouse whose Spark is started when something is first asked of it."""

    def __init__(self, make: Callable[[], Warehouse]) -> None:
        self._make = make
        self._made: Warehouse | None = None

    def start(self) -> Warehouse:
        if self._made is None:
            self._made = self._make()
        return self._made

    def interrupt(self) -> None:
        if self._made is not None:
            self._made.interrupt()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.start(), name)


def _migrate(engine: Engine) -> None:
    """Alembic is loaded only where a ledger has to be made or changed: those who look wouldn't wait for it."""
    from retcon.ledger.migrate import migrate

    migrate(engine)


def _sql_reader() -> SqlReader:
    """sqlglot is loaded only where there is SQL that nobody has read yet."""
    from retcon.project import queries

    return queries


class _SqlText:
    """What sqlglot can tell, for the planner."""

    def column_problems(self, model: Model, columns: Mapping[str, Sequence[str]]) -> list[Problem]:
        from retcon.project.queries import column_problems

        found = column_problems(model.query, model.inputs, columns)
        return [Problem(path=model.path, message=p.message, remedy=p.remedy) for p in found]

    def output_columns(self, model: Model, columns: Mapping[str, Sequence[str]]) -> tuple[str, ...] | None:
        from retcon.project.queries import output_columns

        return None if model.is_python else output_columns(model.query, model.inputs, columns)

    def passed_on(self, model: Model, column: str) -> tuple[str, str] | None:
        from retcon.project.queries import passed_on

        return None if model.is_python else passed_on(model.query, model.inputs, column)


def find_root(start: Path) -> Path:
    """The nearest project folder, from here upwards."""
    from retcon.project.load import find_root

    return find_root(start)


def write_project(target: Path, template: str, *, master: str | None = None) -> list[Path]:
    """A new project's files; of its Spark master, that of the template where none is named."""
    from retcon.project.scaffold import write_project

    return write_project(target, template, master=master)


def template_text(template: str, path: str) -> str:
    """One file of a project template."""
    from retcon.project.scaffold import template_text as text_of

    return text_of(template, path)


def write_samples(root: Path, *, days: int, orders_a_day: int) -> Samples:
    """Source tables for a new project, without a JVM."""
    from retcon.lakehouse.samples import write_samples

    return write_samples(Workspace(root).project.settings.catalog, days=days, orders_a_day=orders_a_day)


def slice_predicate(column: str | None, type: str, slices: SliceSet, *, bucketed_as: str | None = None) -> str:
    """The filter by which a scoped read is cut to its slices."""
    from retcon.lakehouse.predicates import slice_predicate

    return slice_predicate(column, type, slices, bucketed_as=bucketed_as)


def new_suffix() -> str:
    """Four characters that tell apart the plans of one day."""
    alphabet = string.ascii_lowercase + string.digits
    return "".join(secrets.choice(alphabet) for _ in range(4))


def new_claim() -> str:
    """A name for what one process takes upon itself."""
    return secrets.token_hex(8)


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "unknown"
