"""What Python code of a project may not hold: results that vary, reads that retcon can't see."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from retcon.errors import Problem
from retcon.project.python.modules import Module
from retcon.project.spark_functions import CLOCKS, DICE, SURROUNDINGS

_SPARK = "pyspark.sql.functions"
_CLOCKS = frozenset(
    {
        "datetime.datetime.now", "datetime.datetime.utcnow", "datetime.datetime.today", "datetime.date.today",
        "time.time", "time.time_ns", "time.monotonic", "time.perf_counter", "time.localtime", "time.gmtime",
        "pandas.Timestamp.now", "pandas.Timestamp.today", "pandas.Timestamp.utcnow",
    }
)  # fmt: skip
_DICE = frozenset({"uuid.uuid1", "uuid.uuid4", "os.urandom"})
_DICE_BOXES = frozenset({"secrets", "random", "numpy.random"})
_SEEDED = frozenset({"random.Random", "numpy.random.default_rng", "numpy.random.RandomState", "numpy.random.Generator"})
_SURROUNDINGS = frozenset({"os.environ", "os.getenv", "getpass.getuser", "socket.gethostname", "platform.node"})
_HIDDEN_CODE = frozenset({"importlib", "runpy", "__import__", "exec", "eval"})
_SESSION = frozenset({"sparkSession", "sparkContext", "SparkSession", "SparkContext", "sql_ctx", "_jdf", "_jvm"})
_PAST_THE_ARGUMENTS = (
    (
        _SESSION,
        "reaches past the function's arguments",
        "declare every table under `inputs`; put small mappings into an expression or a @udf",
    ),
    (_HIDDEN_CODE, "runs code that retcon can't see", "import it by name at the top of the file"),
)
_TAKES_SQL = frozenset({"expr", "selectExpr", "filter", "where", "sql"})
_CALL = re.compile(r"\b(\w+)\s*\(")

_CLOCK_REMEDY = "take `run.run_ts`, the same for the whole run, or `run.start_date` and `run.end_date`"
_VARIES = '; or say why it may vary: deterministic={"value": False, "reason": "…"}'


def variations(module: Module) -> Iterator[Problem]:
    """Whatever can give another result when the same slice is computed again."""
    for node in ast.walk(module.tree):
        for name in _named(module, node):
            said = _varying(name)
            if said is not None:
                message, remedy = said
                yield Problem(
                    path=module.shown, line=getattr(node, "lineno", None), message=message, remedy=remedy + _VARIES
                )


def _named(module: Module, node: ast.AST) -> Iterator[str]:
    """Full names of what the node names, or of what the SQL in it calls."""
    if isinstance(node, ast.Attribute | ast.Name):
        yield module.meaning(node)
    elif isinstance(node, ast.Call):
        called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        for text in _texts(node) if called in _TAKES_SQL else ():
            yield from (f"{_SPARK}.{name.lower()}" for name in _CALL.findall(text))


def _texts(call: ast.Call) -> Iterator[str]:
    for argument in call.args:
        if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
            yield argument.value


def _varying(name: str) -> tuple[str, str] | None:
    module, _, function = name.rpartition(".")
    in_spark = module == _SPARK
    if name in _CLOCKS or (in_spark and function in CLOCKS):
        return f"{function}() reads the clock", _CLOCK_REMEDY
    if (in_spark and function in DICE) or name in _DICE or (module in _DICE_BOXES and name not in _SEEDED):
        return f"{function}() gives another result each time", "derive it from columns"
    if name in _SURROUNDINGS or (in_spark and function in SURROUNDINGS):
        return f"{name} depends on where and by whom it is run", "take one of `run.params` instead"
    return None


def hidden_reads(module: Module) -> Iterator[Problem]:
    """Ways past the arguments: the Spark session reads any table, and code that is made up can't be fingerprinted."""
    for node in ast.walk(module.tree):
        names = _own_names(node)
        for forbidden, does, remedy in _PAST_THE_ARGUMENTS:
            found = sorted(names & forbidden)
            if found:
                yield Problem(
                    path=module.shown, line=getattr(node, "lineno", None), message=f"`{found[0]}` {does}", remedy=remedy
                )


def _own_names(node: ast.AST) -> set[str]:
    match node:
        case ast.Attribute():
            return {node.attr} & _SESSION
        case ast.Name():
            return {node.id}
        case ast.ImportFrom(level=0) | ast.Import():
            tops = {(node.module or "") if isinstance(node, ast.ImportFrom) else alias.name for alias in node.names}
            return {top.partition(".")[0] for top in tops} & _HIDDEN_CODE
        case _:
            return set()


def called_in_texts(module: Module) -> frozenset[str]:
    """What texts of the module look as if they called, in lower case: `F.expr("to_usd(amount)")`."""
    texts = (n.value for n in ast.walk(module.tree) if isinstance(n, ast.Constant) and isinstance(n.value, str))
    return frozenset(name.lower() for text in texts for name in _CALL.findall(text))
