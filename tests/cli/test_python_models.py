"""Python models on the command line: which commands run them, and what is shown of them."""

from __future__ import annotations

from pathlib import Path

from tests.cli.conftest import Retcon

MODEL = """\
from retcon.models import Day, Input, model
{line}


@model("mart.one", slices=Day("order_date"), inputs={{"o": Input("raw.orders", time="order_date")}})
def one(o, run):
    return o.where(o.order_date <= run.end_date)
"""


def put(root: Path, line: str = "") -> None:
    (root / "models/mart/one.py").write_text(MODEL.format(line=line))


def test_check_imports_python_models_and_says_that_they_run_slice_by_slice(retcon: Retcon, shop: Path) -> None:
    put(shop)
    answer = retcon("check", "mart.one")
    assert answer.code == 0, answer.err
    assert "slice by slice: it is a Python function" in answer.out
    put(shop, "import nowhere_at_all")
    answer = retcon("check", "mart.one")
    assert answer.code == 1
    assert "models/mart/one.py:2" in answer.err
    assert "No module named 'nowhere_at_all'" in answer.err


def test_commands_that_need_no_code_run_none(retcon: Retcon, shop: Path) -> None:
    put(shop, "raise SystemExit('run!')")
    for command in (
        ["status"],
        ["history"],
        ["show", "mart.one"],
        ["render", "mart.one", "-s", "2026-01-02"],
        ["plan", "mart.one", "-s", "2026-01-02", "-e", "2026-01-03", "--reason", "r"],
    ):
        answer = retcon(*command)
        assert answer.code == 0, answer.err
    plan = next((shop / "backfills").glob("*one*.yaml")).stem
    answer = retcon("apply", plan)
    assert answer.code == 1
    assert "SystemExit: run!" in answer.err
    assert plan not in retcon("history").out, "refused before the run was opened"


def test_render_shows_scoped_reads_bounds_and_the_source(retcon: Retcon, shop: Path) -> None:
    put(shop)
    shown = retcon("render", "mart.one", "-s", "2026-01-02", "-e", "2026-01-03").out
    assert "CREATE TEMPORARY VIEW `retcon_o` AS" in shown
    assert "DATE '2026-01-02'" in shown.partition("WHERE ")[2].partition(";")[0]
    assert "-- the first of 2 jobs, slice by slice: it is a Python function" in shown
    assert "-- bound: run.end_date = DATE '2026-01-02'" in shown
    assert "-- one of models/mart/one.py is called with o=retcon_o" in shown
    assert "return o.where(o.order_date <= run.end_date)" in shown
    result = retcon("render", "mart.one", "-s", "2026-01-02", "--json").result
    assert "sql" not in result
    assert result["python"] == MODEL.format(line="")
