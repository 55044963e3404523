"""Python models: the author's function called on scoped reads, and the author's functions made known to Spark."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Mapping
from inspect import signature
from pathlib import Path
from typing import Any, Protocol

from pyspark import cloudpickle
from pyspark.sql import DataFrame, SparkSession

from retcon.core.jobs import Job
from retcon.core.models import Model
from retcon.errors import Refused, RetconError
from retcon.lakehouse.java_classes import java_class
from retcon.models import Run, Udf

_WORKER_FRAME = re.compile(r'^\s*File "(?P<file>[^"]+)", line (?P<line>\d+)', re.MULTILINE)
_WORKER_ERROR = re.compile(r"[^:]+:\d+: [\w.]+")
_CATALYST = "org.apache.spark.sql.catalyst"
_ORDER_DEPENDENT = frozenset({"First", "Last", "CollectList", "CollectSet", "AnyValue", "ListAgg", "Collect", "Mode"})
"""Spark calls them nondeterministic for the order of rows; an author may have settled that by a sort or a window."""
_NOT_STAGED = "this wave was not staged; waves already staged are kept; production is untouched"
_MEND = (
    "mend it and plan again; if the code is right, `retcon apply` goes on with what is missing; "
    "`retcon render` shows what it is given"
)


class ProjectCode(Protocol):
    """The project's own Python, run when it is first asked for."""

    root: Path
    package: str

    def function(self, model: Model) -> Callable[..., Any]: ...
    def udfs(self) -> Mapping[str, Udf]: ...
    def place_of(self, error: BaseException) -> tuple[str, int] | None: ...


def call_function(code: ProjectCode, job: Job, frames: Mapping[str, DataFrame]) -> DataFrame:
    """What the model's function makes of its scoped inputs."""
    function = code.function(job.model)
    _ship(code)
    arguments: dict[str, object] = dict(frames)
    if "run" in signature(function).parameters:
        arguments["run"] = _run(job)
    try:
        result = function(**arguments)
    except RetconError:
        raise
    except Exception as error:
        where = code.place_of(error)
        place = f"{where[0]}:{where[1]}" if where else job.model.path
        raise Refused(
            f"{place}: {type(error).__name__}: {_shortened(str(error))}", state=_NOT_STAGED, next=_MEND
        ) from error
    if not isinstance(result, DataFrame):
        raise Refused(
            f"{job.model.path}: {job.model.function} returned {type(result).__name__}, not a DataFrame",
            state=_NOT_STAGED,
            next="return the DataFrame of the slices' rows",
        )
    if not job.model.nondeterministic:
        _require_same_each_time(result, job)
    return result


def _run(job: Job) -> Run:
    bounds = {name: job.parameters.get(name) for name in ("start_date", "end_date", "start_ts", "end_ts", "run_ts")}
    params = {name: value for name, value in job.parameters.items() if name not in bounds}
    return Run(**bounds, params=params)  # type: ignore[arg-type] # as `parameters_of` makes them


def register_udfs(spark: SparkSession, code: ProjectCode, names: tuple[str, ...]) -> None:
    """The project's functions of these names, for SQL of this session."""
    if not names:
        return
    udfs = code.udfs()
    _ship(code)
    for name in names:
        _require_new_name(spark, name)
        spark.udf.register(name, udfs[name].spark)


def _require_new_name(spark: SparkSession, name: str) -> None:
    """A temporary function would hide Spark's own of the same name."""
    identifier = java_class(spark, f"{_CATALYST}.FunctionIdentifier")(name)
    if java_class(spark, f"{_CATALYST}.analysis.FunctionRegistry").builtin().functionExists(identifier):
        raise Refused(
            f"functions.py: `{name}` is already a function of Spark SQL",
            state="nothing was staged; production is untouched",
            next="give it a name of its own, then plan again",
        )


def _ship(code: ProjectCode) -> None:
    """The project's code travels to Spark's workers by value: they have neither its files nor retcon."""
    for name in (code.package, Run.__module__):
        cloudpickle.register_pickle_by_value(sys.modules[name])  # type: ignore[no-untyped-call] # vendored


def worker_error(code: ProjectCode, text: str) -> str:
    """An error of the project's own code on a worker, as `file:line: error`; empty if it came from elsewhere."""
    frames = [
        f"{Path(found['file']).relative_to(code.root).as_posix()}:{found['line']}"
        for found in _WORKER_FRAME.finditer(text)
        if Path(found["file"]).is_relative_to(code.root)
    ]
    last = [line for line in text.splitlines() if re.match(r"[\w.]*(Error|Exception|Warning|Exit)\b", line)]
    return f"{frames[-1]}: {_shortened(last[-1])}" if frames and last else ""


def worker_refusal(said: str, job: Job) -> Refused:
    where = f"{job.model.name}, {job.slices.text}"
    recorded = "" if job.model.samples else f"{where}: {unsaid(said)}"
    return Refused(f"{where}: {said}", state=_NOT_STAGED, next=_MEND, recorded=recorded)


def unsaid(said: str) -> str:
    """An error on a worker by its place and kind: what it says may be made of values of rows."""
    found = _WORKER_ERROR.match(said)
    return said if found is None else found[0]


def _shortened(text: str) -> str:
    return " ".join(text.split())[:400]


def _require_same_each_time(frame: DataFrame, job: Job) -> None:
    """What Spark itself knows to vary, however the function came to it."""
    plan = frame._jdf.queryExecution().analyzed()
    if plan.deterministic():
        return
    names = {each.getClass().getSimpleName() for each in _varying(plan)} - _ORDER_DEPENDENT
    if names:
        raise Refused(
            f"{job.model.path}: {', '.join(sorted(names))} gives another result each time",
            state=_NOT_STAGED,
            next="derive it from columns, or say why it may vary: "
            'deterministic={"value": False, "reason": "…"}; then plan again',
        )


def _varying(plan: Any) -> Iterator[Any]:
    """What in a plan isn't deterministic by itself: expressions, or whole nodes such as a sample."""
    ahead = [(plan, True)]
    while ahead:
        at, is_plan = ahead.pop()
        inner = [(child, is_plan) for child in _seq(at.children())]
        inner += [(expression, False) for expression in _seq(at.expressions())] if is_plan else []
        guilty = [each for each in inner if not each[0].deterministic()]
        ahead += guilty
        if not guilty:
            yield at


def _seq(items: Any) -> list[Any]:
    return [items.apply(at) for at in range(items.size())]
