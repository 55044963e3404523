"""Python models are read without running them; importing them stays inside the project."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from retcon import models as authoring
from retcon.core.models import Model
from retcon.errors import Problem, ProjectInvalid
from retcon.models import Buckets, Day, Hour, Input, Month, Udf, Week, Year
from retcon.project import queries
from retcon.project.load import load_project
from retcon.project.python.importing import ProjectCode, import_all

SETTINGS = """\
name: shop
catalog: {name: lake, uri: 'sqlite:///.retcon/lake.db', warehouse: .retcon/warehouse}
params: {floor: 1}
consumers: {board: {}}
"""

MODEL = """\
from lib.fx import convert
from retcon.models import Day, Input, model


@model(
    "mart.a",
    slices=Day("order_date", start="2026-01-01"),
    key=["order_date", "order_id"],
    inputs={"orders": Input("raw.orders", time="order_date"), "rates": Input("raw.rates", time="rate_date")},
    replay={"wave": 3},
    gates=[{"rows": {"min": 1}}, {"unique": "key"}],
    consumers=["board"],
)
def orders_usd(orders, rates):
    return convert(orders, rates)
"""
FX = "RATE = 2\n\n\ndef convert(orders, rates):\n    return orders\n"
SQL = """\
/* retcon
slices: {by: d, every: day}
inputs: {raw.orders: {time: d}}
*/
SELECT d, %s AS x FROM raw.orders
"""
FUNCTIONS = """\
from retcon.models import udf
from lib.fx import RATE


@udf("DECIMAL(14,2)")
def to_usd(amount):
    return amount * RATE
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    put(tmp_path, "retcon.yaml", SETTINGS)
    put(tmp_path, "models/mart/a.py", MODEL)
    put(tmp_path, "lib/fx.py", FX)
    return tmp_path


def put(root: Path, path: str, text: str) -> None:
    file = root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")


def edit(root: Path, path: str, old: str, new: str) -> None:
    text = (root / path).read_text()
    assert old in text
    put(root, path, text.replace(old, new))


def loaded(root: Path) -> dict[str, Model]:
    return dict(load_project(root, {}, queries).graph.models)


def fingerprint(root: Path, model: str = "mart.a") -> str:
    return loaded(root)[model].fingerprint


def problem(root: Path) -> Problem:
    with pytest.raises(ProjectInvalid) as caught:
        loaded(root)
    (only,) = caught.value.problems
    return only


def import_problem(root: Path) -> Problem:
    models = loaded(root)
    with pytest.raises(ProjectInvalid) as caught:
        import_all(ProjectCode(root), models.values())
    (only,) = caught.value.problems
    return only


# ── what the decorator says ───────────────────────────────────────────────────────────────────────────────────────


def test_a_python_model_is_the_same_as_its_sql_twin_but_for_the_code(root: Path) -> None:
    keys = """\
/* retcon
slices: {by: order_date, every: day, start: 2026-01-01}
key: [order_date, order_id]
inputs:
  orders: {table: raw.orders, time: order_date}
  rates: {table: raw.rates, time: rate_date}
replay: {wave: 3}
gates: [{rows: {min: 1}}, {unique: key}]
consumers: [board]
*/
SELECT orders.order_date, orders.order_id FROM raw.orders orders JOIN raw.rates rates ON rate_date = order_date
"""
    put(root, "models/mart/b.sql", keys)
    models = loaded(root)
    a, b = models["mart.a"], models["mart.b"]
    for name in ("slicing", "inputs", "key", "replay", "gates", "consumers", "retention_days"):
        assert getattr(a, name) == getattr(b, name), name
    assert (a.function, b.function) == ("orders_usd", None)
    assert a.query.text == MODEL
    assert not a.batching.is_sliceable
    assert "only its author can say" in a.batching.reasons[0]


def test_a_vouched_model_runs_in_waves(root: Path) -> None:
    edit(root, "models/mart/a.py", 'replay={"wave": 3}', "sliceable=True")
    assert loaded(root)["mart.a"].batching.is_sliceable


def test_parts_are_the_keys_of_a_sql_model() -> None:
    grains = {grain: part("d") for grain, part in (("hour", Hour), ("day", Day), ("week", Week), ("month", Month))}
    assert grains == {grain: {"by": "d", "every": grain} for grain in grains}
    assert Year("d", start="2026-01-01") == {"by": "d", "every": "year", "start": "2026-01-01"}
    assert Buckets("customer", 16) == {"by": "customer", "buckets": 16}
    assert Input("raw.x", lookback=2) == {"table": "raw.x", "lookback": 2}


def test_the_public_names_are_these() -> None:
    assert authoring.__all__ == [
        "Buckets", "Day", "Hour", "Input", "Month", "Run", "Udf", "Week", "Year", "model", "udf",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("old", "new", "line", "message"),
    [
        ("consumers=", "consumer=", 12, "unknown key `consumer` — did you mean consumers?"),
        ('time="rate_date"', 'tiem="x"', 9, "unknown key `inputs.rates.tiem` — did you mean time?"),
        ('["board"]', '["bored"]', 12, "retcon.yaml has no consumer `bored`"),
        ('["board"]', "[BOARD]", 12, "`consumers.0` isn't written out: the decorator is read, not run"),
        ('Day("order_date", start="2026-01-01")', "Day()", 7, "Day() missing 1 required positional argument: 'by'"),
        ('"mart.a"', '"mart.b"', 5, "`@model` must be given the name that the file has"),
        ("(orders, rates):", "(orders, rate):", 14, "has no argument for the input `rates`"),
        ('"rates": Input("raw.rates"', '"raw.rates": Input("raw.rates"', 9, "must be an alias without a dot"),
        ("(orders, rates):", "(orders, rates, *more):", 14, "`*`, `**` and `/` can't stand here"),
        ("return convert(orders, rates)", "return (", 15, "this isn't Python: '(' was never closed"),
        ("from lib.fx", "from lib.fxx", 1, "the project has no module `lib.fxx`"),
        ("from lib.fx import convert", "from lib import fy", 1, "the project has no module `lib.fy`"),
        ("    return convert", "    from lib import fx\n    return convert", 15, "isn't imported at the top"),
        ("    return convert", "    orders.sparkSession.table('x')\n    return convert", 15, "reaches past"),
        ("    return convert", "    exec('x')\n    return convert", 15, "`exec` runs code that retcon can't see"),
        ("from lib.fx import convert", "import importlib\nfrom lib.fx import convert", 1, "`importlib` runs code"),
        ('    replay={"wave": 3},', '    replay={"sliceable": True}, sliceable=True,', 10, "`sliceable` stands twice"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_told_with_its_line(root: Path, old: str, new: str, line: int, message: str) -> None:
    edit(root, "models/mart/a.py", old, new)
    with pytest.raises(ProjectInvalid) as caught:
        loaded(root)
    first = caught.value.problems[0]
    assert message in first.message
    assert (first.path, first.line) == ("models/mart/a.py", line)


def test_a_file_without_a_model_is_an_error_unless_its_name_begins_with_an_underscore(root: Path) -> None:
    put(root, "models/mart/_shared.py", "X = 1\n")
    put(root, "models/mart/__init__.py", "")
    assert list(loaded(root)) == ["mart.a"]
    put(root, "models/mart/b.py", "X = 1\n")
    assert problem(root).path == "models/mart/b.py"
    assert "begin the name of another file with `_`" in problem(root).remedy


def test_a_file_holds_one_model_and_a_model_has_one_file(root: Path) -> None:
    put(root, "models/mart/a.py", MODEL + '\n\n@model("mart.a")\ndef other():\n    pass\n')
    assert problem(root).message == "a file holds one model"
    put(root, "models/mart/a.py", MODEL)
    put(root, "models/mart/a.sql", SQL % "1")
    assert "has the same name as models/mart/a.py" in problem(root).message


@pytest.mark.parametrize(
    ("head", "expression", "message"),
    [
        ("from pyspark.sql import functions as F", "F.rand()", "rand() gives another result each time"),
        ("from pyspark.sql.functions import current_date", "current_date()", "current_date() reads the clock"),
        ("from pyspark.sql.functions import *", "uuid()", "uuid() gives another result each time"),
        ("import pyspark.sql.functions as F", 'F.expr("amount * RAND()")', "rand() gives another result each time"),
        ("from datetime import datetime", "datetime.now()", "now() reads the clock"),
        ("import datetime as dt", "dt.date.today()", "today() reads the clock"),
        ("import random", "random.random()", "random() gives another result each time"),
        ("import uuid", "uuid.uuid4()", "uuid4() gives another result each time"),
        ("import os", 'os.environ["X"]', "os.environ depends on where and by whom it is run"),
    ],
)
def test_results_that_vary_are_refused_unless_said(root: Path, head: str, expression: str, message: str) -> None:
    put(root, "lib/fx.py", f"{head}\n\n\ndef convert(orders, rates):\n    return {expression}\n")
    found = problem(root)
    assert (found.path, found.line, found.message) == ("lib/fx.py", 5, message)
    edit(root, "models/mart/a.py", "    key=", '    deterministic={"value": False, "reason": "a draw"},\n    key=')
    assert loaded(root)["mart.a"].nondeterministic == "a draw"


def test_what_is_seeded_or_only_looks_alike_is_fine(root: Path) -> None:
    put(
        root,
        "lib/fx.py",
        "import random\nimport uuid\nnow = 1\n\n\ndef convert(orders, rates):\n"
        "    '''Not rand() at all.'''\n    random.Random(1)\n    uuid.uuid5(uuid.NAMESPACE_DNS, 'x')\n    return now\n",
    )
    assert loaded(root)["mart.a"]


@pytest.mark.parametrize(
    ("body", "parameters", "contiguous"),
    [
        ("run.run_ts", {"run_ts"}, False),
        ("run.params['floor']", {"floor"}, False),
        ("run.start_date, run.end_ts", {"start_date", "end_ts"}, True),
        ("convert(run, 1)", {"start_date", "end_date", "start_ts", "end_ts", "run_ts", "floor"}, True),
    ],
)
def test_the_argument_run_says_what_is_bound(root: Path, body: str, parameters: set[str], contiguous: bool) -> None:
    edit(
        root,
        "models/mart/a.py",
        "(orders, rates):\n    return convert(orders, rates)",
        f"(orders, rates, run):\n    return {body}",
    )
    found = loaded(root)["mart.a"]
    assert found.query.parameters == parameters
    assert found.needs_contiguous_waves is contiguous


def test_a_model_that_is_not_cut_by_time_has_no_bounds_and_its_rows_are_not_told_apart(root: Path) -> None:
    path = "models/mart/a.py"
    edit(root, path, "import Day,", "import Buckets,")
    edit(root, path, 'Day("order_date", start="2026-01-01")', 'Buckets("order_date", 4)')
    edit(root, path, 'time="order_date"', 'key="order_date"')
    edit(root, path, ', time="rate_date"', "")
    assert loaded(root)["mart.a"].entity.reasons
    edit(root, path, "(orders, rates):\n", "(orders, rates, run):\n    run.run_ts\n")
    assert loaded(root)["mart.a"]
    edit(root, path, "run.run_ts", "run.start_ts")
    assert problem(root).message == "start_ts of `run` mean a slice, and the model isn't cut by time"


def test_run_has_no_other_fields(root: Path) -> None:
    edit(root, "models/mart/a.py", "(orders, rates):\n", "(orders, rates, run):\n    run.start_dat\n")
    assert (problem(root).message, problem(root).remedy) == ("`run` has no `start_dat`", "did you mean start_date?")


# ── fingerprints ──────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("path", "old", "new"),
    [
        ("models/mart/a.py", "    return convert", "    # why\n\n    return  convert"),
        ("models/mart/a.py", "def orders_usd(orders, rates):", "def orders_usd(\n    orders, rates,\n):\n    'Doc.'"),
        ("models/mart/a.py", 'gates=[{"rows": {"min": 1}}, {"unique": "key"}]', "description='new'"),
        ("lib/fx.py", "RATE = 2\n", '"""Rates."""\n\nRATE = (2)  # of the day\n'),
    ],
)  # fmt: skip
def test_comments_layout_docstrings_and_gates_are_not_in_the_fingerprint(
    root: Path, path: str, old: str, new: str
) -> None:
    before = fingerprint(root)
    edit(root, path, old, new)
    assert fingerprint(root) == before


@pytest.mark.parametrize(
    ("path", "old", "new"),
    [
        ("models/mart/a.py", "convert(orders, rates)", "convert(rates, orders)"),
        ("models/mart/a.py", 'time="rate_date"', 'time="rate_date", lookback=1'),
        ("lib/fx.py", "RATE = 2", "RATE = 3"),
        ("lib/fx.py", "RATE = 2", "RATE = 2.0"),
        ("lib/fx.py", "RATE = 2", "RATE = '2'"),
    ],
)
def test_code_keys_and_imported_modules_are_in_the_fingerprint(root: Path, path: str, old: str, new: str) -> None:
    before = fingerprint(root)
    edit(root, path, old, new)
    assert fingerprint(root) != before


def test_modules_are_followed_through_packages_and_relative_imports(root: Path) -> None:
    put(root, "lib/__init__.py", "from .deep import FACTOR\n")
    put(root, "lib/deep.py", "FACTOR = 1\n")
    put(root, "unused.py", "X = 1\n")
    before = fingerprint(root)
    put(root, "unused.py", "X = 2\n")
    assert fingerprint(root) == before
    put(root, "lib/deep.py", "FACTOR = 2\n")
    assert fingerprint(root) != before
    import_all(ProjectCode(root), loaded(root).values())


def test_functions_count_only_for_the_models_that_call_them(root: Path) -> None:
    put(root, "functions.py", FUNCTIONS)
    put(root, "models/mart/b.sql", SQL % "TO_USD(amount)")
    put(root, "models/mart/c.sql", SQL % "amount")
    put(root, "models/mart/d.py", MODEL.replace("mart.a", "mart.d"))
    edit(root, "models/mart/d.py", "lib.fx import convert", "functions import to_usd as convert")
    put(root, "models/mart/e.py", MODEL.replace("mart.a", "mart.e"))
    edit(root, "models/mart/e.py", "convert(orders, rates)", "orders.selectExpr('to_usd(x)')")
    before = loaded(root)
    assert [name for name, model in before.items() if model.udfs] == ["mart.b", "mart.e"]
    edit(root, "functions.py", "amount * RATE", "amount / RATE")
    after = loaded(root)
    changed = {name for name in before if before[name].fingerprint != after[name].fingerprint}
    assert changed == {"mart.b", "mart.d", "mart.e"}


def test_a_project_without_functions_has_the_fingerprints_it_had(root: Path) -> None:
    put(root, "models/mart/c.sql", SQL % "amount")
    before = fingerprint(root, "mart.c")
    put(root, "functions.py", FUNCTIONS)
    assert fingerprint(root, "mart.c") == before


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('@udf("DECIMAL(14,2)")', "@udf", "`@udf` on to_usd needs the Spark type that it returns"),
        ("to_usd", "round", "`round` is already a function of Spark SQL"),
        ("amount * RATE", "eval('amount')", "`eval` runs code that retcon can't see"),
    ],
)
def test_functions_are_checked(root: Path, old: str, new: str, message: str) -> None:
    put(root, "functions.py", FUNCTIONS)
    edit(root, "functions.py", old, new)
    found = problem(root)
    assert (found.path, found.message) == ("functions.py", message)


def test_a_function_that_varies_is_refused_where_it_is_called(root: Path) -> None:
    put(root, "functions.py", FUNCTIONS.replace("amount * RATE", "random.random()") + "import random\n")
    assert loaded(root)
    put(root, "models/mart/b.sql", SQL % "to_usd(amount)")
    assert problem(root).message == "random() gives another result each time"


# ── importing ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_neither_outline_nor_project_run_any_code(root: Path) -> None:
    edit(root, "models/mart/a.py", "from lib.fx", "raise SystemExit('run!')\nfrom lib.fx")
    outline = load_project(root, {}, None).graph.models["mart.a"]
    assert (outline.slicing.by, [i.table for i in outline.inputs]) == ("order_date", ["raw.orders", "raw.rates"])
    assert loaded(root)["mart.a"].fingerprint
    found = import_problem(root)
    assert (found.path, found.line) == ("models/mart/a.py", 1)
    assert "SystemExit: run!" in found.message


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("import nowhere_to_be_found", "ModuleNotFoundError: No module named 'nowhere_to_be_found'"),
        ("from lib.fx import RATES", "ImportError: cannot import name 'RATES'"),
        ("1 / 0", "ZeroDivisionError: division by zero"),
    ],
)
def test_what_breaks_while_importing_is_told_with_file_and_line(root: Path, line: str, message: str) -> None:
    put(root, "lib/more.py", f"X = 1\n{line}\n")
    edit(root, "models/mart/a.py", "from lib.fx", "import lib.more as more\nfrom lib.fx")
    found = import_problem(root)
    assert (found.path, found.line) == ("lib/more.py", 2)
    assert message in found.message


def test_two_projects_in_one_process_do_not_meet(root: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    other = tmp_path_factory.mktemp("other")
    put(other, "retcon.yaml", SETTINGS)
    put(other, "models/mart/a.py", MODEL)
    put(other, "lib/fx.py", FX.replace("return orders", "return rates"))
    before = (list(sys.path), list(sys.meta_path), "lib" in sys.modules, "models" in sys.modules)
    mine, theirs = ProjectCode(root), ProjectCode(other)
    assert mine.function(loaded(root)["mart.a"])(1, 2) == 1
    assert theirs.function(loaded(other)["mart.a"])(1, 2) == 2
    assert mine.function(loaded(root)["mart.a"])(1, 2) == 1
    assert (list(sys.path), list(sys.meta_path), "lib" in sys.modules, "models" in sys.modules) == before


def test_another_look_at_a_folder_sees_what_was_edited(root: Path) -> None:
    model = loaded(root)["mart.a"]
    assert ProjectCode(root).function(model)(1, 2) == 1
    edit(root, "lib/fx.py", "return orders", "return rates")
    assert ProjectCode(root).function(model)(1, 2) == 2


def test_every_way_of_importing_works(root: Path) -> None:
    edit(
        root,
        "models/mart/a.py",
        "from lib.fx import convert\n",
        "from __future__ import annotations\n\nimport dataclasses\nimport lib.fx\nimport lib.fx as fx, json\n"
        "from lib import fx as third\nfrom ._near import NEAR\nfrom lib.fx import *\n\n"
        "@dataclasses.dataclass\nclass Pair:\n    a: int\n\n",
    )
    edit(
        root,
        "models/mart/a.py",
        "return convert(orders, rates)",
        "return [lib.fx.RATE, fx.RATE, third.RATE, NEAR, RATE, Pair(1).a]",
    )
    put(root, "models/mart/_near.py", "NEAR = 4\n")
    assert ProjectCode(root).function(loaded(root)["mart.a"])(1, 2) == [2, 2, 2, 4, 2, 1]


@pytest.mark.parametrize(("name", "owner"), [("json", "Python itself"), ("yaml", "an installed package")])
def test_a_module_that_would_hide_anothers_is_refused(root: Path, name: str, owner: str) -> None:
    put(root, f"{name}.py", "X = 1\n")
    edit(root, "models/mart/a.py", "from lib.fx", f"import {name}\nfrom lib.fx")
    assert problem(root).message == f"`{name}` is a module of this project and of {owner}"


def test_code_outside_the_project_is_not_imported(root: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    outside = tmp_path_factory.mktemp("outside")
    put(outside, "fx.py", FX)
    (root / "lib/fx.py").unlink()
    (root / "lib/fx.py").symlink_to(outside / "fx.py")
    assert problem(root).message == "the file lies outside the project"


def test_functions_are_plain_functions_to_python(root: Path) -> None:
    put(root, "functions.py", FUNCTIONS)
    udfs = ProjectCode(root).udfs()
    assert list(udfs) == ["to_usd"]
    assert isinstance(udfs["to_usd"], Udf)
    assert udfs["to_usd"](3) == 6
