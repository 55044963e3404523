"""Views on terminals of all kinds, and reports that need Spark to come about."""

from __future__ import annotations

import io
import re
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console, RenderableType

from retcon.cli.figures import Zone
from retcon.cli.json_output import cancelled_result, undone_result
from retcon.cli.main import run
from retcon.cli.views.diffs import diff_view
from retcon.cli.views.endings import cancelled_view, undone_view
from retcon.cli.views.plans import guarantee, plan_view
from retcon.core.evolution import AddColumn
from retcon.core.plans import Beside, Outside
from retcon.core.projects import Catalog
from retcon.core.runs import Replaced, RunState
from retcon.core.slices import Grain, SliceSet
from retcon.core.tables import Changed, Landing
from retcon.core.undoing import Undo, Way
from retcon.flow.rollback import Undone
from retcon.flow.tell import DiffReport
from retcon.wiring import Workspace
from tests.cli.conftest import Plans, Records, Retcon
from tests.cli.shops import ORDERS, REVENUE

RUN = "20260122_fct_orders_usd_k3f9"


def drawn(view: RenderableType, width: int = 120) -> str:
    console = Console(file=io.StringIO(), width=width, highlight=False, markup=False)
    with console.capture() as captured:
        console.print(view)
    return captured.get()


def test_columns_that_were_added_for_a_run_are_told_to_stay(recorded: Records) -> None:
    run = recorded().stage().run
    first, *rest = run.plan.models
    changed = replace(first, changes=(AddColumn(column="tax", type=None),))
    run = replace(run, plan=replace(run.plan, models=(changed, *rest)))
    for view in (cancelled_view(run), undone_view(Undone(run=run, stale=(), ways=()))):
        assert f"columns that were added for it stay, as NULL: {first.name}.tax" in drawn(view)
    assert cancelled_result(run)["columns_kept"] == [f"{first.name}.tax"]
    assert "stay, as NULL" not in drawn(cancelled_view(replace(run, tables={})))


def test_a_table_that_was_built_beside_is_told_of_by_name(recorded: Records) -> None:
    run = recorded().stage(base=None).prove().publish().run
    first, *rest = run.plan.models
    name = f"{first.name}__20260122_k3f9"
    built = replace(first, changes=(AddColumn(column="tax", type=None),), beside=Beside(table=name, instead_of=7))
    replaced = Replaced(beside=name, uuid="u", schema_id=0, spec_id=0, snapshot_id=7)
    table = replace(run.tables[first.name], replaces=replaced)
    run = replace(
        run,
        plan=replace(run.plan, models=(built, *rest)),
        tables={**run.tables, first.name: table},
        state=RunState.ROLLED_BACK,
    )
    text = drawn(undone_view(Undone(run=run, stale=(), ways=())))
    assert f"{first.name}: what was undone stays as {name}" in text
    assert "stay, as NULL" not in text


def test_a_rollback_lists_who_stands_on_what_was_undone(recorded: Records) -> None:
    undone = recorded().stage().prove().publish().roll_back().run
    stale = (("mart.later", "2026-01-02..2026-01-04", "the_later_run"),)
    text = drawn(undone_view(Undone(run=undone, stale=stale, ways=())))
    assert "rolled back" in text
    assert f"{ORDERS}, {REVENUE}: as before the publish" in text
    assert "mart.later  2026-01-02..2026-01-04  the_later_run" in text
    assert "no later publish" in drawn(undone_view(Undone(run=undone, stale=(), ways=())))


def test_a_rollback_tells_which_way_each_table_went(recorded: Records) -> None:
    undone = recorded().stage(base=None).prove(base=False).publish().roll_back().run
    later = tuple(
        Landing(snapshot_id=n, operation="append", changed=Changed(slices=SliceSet(Grain.DAY))) for n in (8, 9)
    )
    ways = (
        Undo(table=ORDERS, way=Way.EMPTIED, seen=7, before=None),
        Undo(table=REVENUE, way=Way.COPIED, seen=9, before=5, later=later),
    )
    text = drawn(undone_view(Undone(run=undone, stale=(), ways=ways)))
    assert f"{ORDERS}: had no history before: it is there without rows" in text
    assert f"{REVENUE}: old slices copied as new files around 2 later commits, which stay" in " ".join(text.split())
    assert undone_result(Undone(run=undone, stale=(), ways=ways))["ways"] == [
        {"table": ORDERS, "way": "emptied", "later": []},
        {"table": REVENUE, "way": "copied", "later": ["8", "9"]},
    ]


def test_a_plan_tells_what_it_leaves_outside_and_why_slices_run_alone(shop: Path, planned: Plans) -> None:
    plan = planned()
    first = replace(plan.models[0], one_by_one=("LIMIT without a slice",), open=plan.models[0].waves[0])
    plan = replace(plan, models=(first, *plan.models[1:]), outside=(Outside(model="mart.x", why="becomes stale"),))
    text = drawn(plan_view(plan, Workspace(shop).project.settings, Zone("Asia/Tokyo"), "backfills/x.yaml"))
    assert "slice by slice: LIMIT" in " ".join(text.split())
    assert "open: 2026-01-01..2026-01-04" in " ".join(text.split())
    assert "mart.x  becomes stale" in text
    assert "2026-01-22 21:00 Asia/Tokyo" in text


def test_a_plan_tells_which_slices_rows_may_leave(shop: Path, planned: Plans) -> None:
    plan = planned()
    first = replace(plan.models[0], moved_from=plan.models[0].waves[0])
    plan = replace(plan, models=(first, *plan.models[1:]))
    text = drawn(plan_view(plan, Workspace(shop).project.settings, Zone("UTC"), None))
    assert "rows may leave: 2026-01-01..2026-01-04" in " ".join(text.split())


def test_the_guarantee_counts_the_tables() -> None:
    database, server = (Catalog(name="lake", type=kind, uri="x", warehouse="w") for kind in ("jdbc", "rest"))
    assert [guarantee(n, database).split(" in ")[0] for n in (1, 2, 3)] == ["the table", "both tables", "all 3 tables"]
    assert "one transaction of the catalog's database" in guarantee(2, database)
    assert guarantee(2, server).startswith("both tables in one commit of the REST catalog")
    assert "the record follows, reconciled" in guarantee(2, server)


def test_of_many_slices_those_that_moved_most_are_listed(recorded: Records, shop: Path) -> None:
    teller = Workspace(shop).teller
    report = teller.diff(recorded().stage().prove().run)
    (model, _) = report.models
    # four times the same ten days stand for forty
    many = DiffReport(run=report.run, models=(replace(model, slices=model.slices * 4),))
    text = drawn(diff_view(many, model=None, all_slices=False, width=120))
    assert "… and 28 more slices (those that moved less; --all lists them)" in text
    assert drawn(diff_view(many, model=None, all_slices=True, width=120)).count("│") == 40


@pytest.mark.parametrize("width", ["40", "80", "200"])
def test_ids_and_numbers_are_never_cut(
    retcon: Retcon, recorded: Records, monkeypatch: pytest.MonkeyPatch, width: str
) -> None:
    recorded().stage().prove().publish()
    monkeypatch.setenv("COLUMNS", width)
    for argv in (["history"], ["status"], ["show", RUN], ["show", ORDERS], ["apply", RUN]):
        out = retcon(*argv).out
        assert RUN in out, argv
        assert "…" not in re.sub("(SELECT|plan|--reason) …", "", out), argv
    assert str(2**62 + 9) in retcon("show", RUN).out


class Tty(io.StringIO):
    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


def on_a_terminal(monkeypatch: pytest.MonkeyPatch, *argv: str, **environ: str) -> str:
    for name, value in {"TERM": "xterm-256color", **environ}.items():
        monkeypatch.setenv(name, value)
    stream = Tty()
    monkeypatch.setattr(sys, "stdout", stream)
    assert run(argv) == 0
    return stream.getvalue()


def test_a_terminal_gets_colours(recorded: Records, monkeypatch: pytest.MonkeyPatch) -> None:
    recorded().stage().prove()
    assert "\x1b[32m✓ holds" in on_a_terminal(monkeypatch, "show", RUN)


@pytest.mark.parametrize("environ", [{"NO_COLOR": "1"}, {"TERM": "dumb"}])
def test_colours_can_be_declined(recorded: Records, monkeypatch: pytest.MonkeyPatch, environ: dict[str, str]) -> None:
    recorded().stage().prove()
    shown = on_a_terminal(monkeypatch, "show", RUN, **environ)
    assert "✓ holds" in shown
    assert "\x1b[32m" not in shown


def test_text_of_people_is_never_taken_for_markup(
    retcon: Retcon, shop: Path, planned: Plans, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = retcon("plan", "mart.*", "-s", "2026-01-01", "-e", "2026-01-02", "--dry-run", "--reason", "[red]no[/] :x:")
    assert "[red]no[/] :x:" in answer.out
