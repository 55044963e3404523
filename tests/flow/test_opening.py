"""Opening a plan's run: the plan run is the plan reviewed, on the inputs it was reviewed for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from retcon.core.chains import first_broken_link
from retcon.core.events import Cancelled
from retcon.core.plans import Plan
from retcon.core.runs import Run, RunState
from retcon.errors import Refused
from retcon.flow.apply import open_run
from tests.flow.workshops import Workshop
from tests.lakehouse.lakes import rows
from tests.ledger.examples import Driver, published_run, tables_opened


@pytest.fixture
def workshop(tmp_path: Path) -> Workshop:
    return Workshop(tmp_path).shop()


def opened(workshop: Workshop, plan: Plan) -> Run:
    w = workshop.workspace
    return open_run(plan, w.project, w.ledger, w.tables, w.clock, w.who)


def refusal(workshop: Workshop, plan: Plan) -> Refused:
    with pytest.raises(Refused) as refused:
        opened(workshop, plan)
    assert workshop.ledger.run(plan.id) is None, "a refused plan leaves no run"
    return refused.value


def a_plan(workshop: Workshop, *select: str, **ask: Any) -> Plan:
    return workshop.plan(*(select or ("mart.a",)), start="2026-01-03", end="2026-01-05", **ask)


def test_a_plan_is_opened_once_with_its_code_and_parameters(workshop: Workshop) -> None:
    workshop.settings("params: {vip: O'Brien}")
    plan = a_plan(workshop)
    run = opened(workshop, plan)
    assert (run.state, run.plan, run.by) == (RunState.PLANNED, plan, "ada")
    assert opened(workshop, plan) == run
    events = workshop.ledger.events(plan.id)
    assert [event.kind for event in events] == ["RunOpened"]
    assert events[0].body["parameters"] == {"vip": "O'Brien"}
    assert "count(*)" in workshop.ledger.code(plan.id)["mart.a"]
    assert first_broken_link(events) is None


def test_changed_code_or_settings_are_refused_with_what_differs(workshop: Workshop) -> None:
    plan = a_plan(workshop)
    workshop.model("mart.a", sql="SELECT d, count(*) + 1 AS n FROM raw.s GROUP BY d")
    workshop.settings("params: {vip: 1}")
    refused = refusal(workshop, plan)
    assert "the code of mart.a and the settings" in refused.message
    assert f"--refresh backfills/{plan.id}.yaml" in refused.next


def test_a_model_that_is_gone_is_changed_code(workshop: Workshop) -> None:
    plan = a_plan(workshop, "+mart.b")
    workshop.remove("mart.b")
    assert "the code of mart.b changed" in refusal(workshop, plan).message


def test_a_comment_a_gate_or_a_description_is_no_change(workshop: Workshop) -> None:
    plan = a_plan(workshop)
    workshop.model(
        "mart.a",
        sql="-- counted\nselect d,\n  count(*) AS n FROM raw.s GROUP BY d",
        keys="description: counts\ngates: [{rows: {min: 1}}]",
    )
    assert opened(workshop, plan).state is RunState.PLANNED


def test_inputs_that_changed_in_scope_are_refused_by_slice(workshop: Workshop) -> None:
    plan = a_plan(workshop)
    workshop.lake.append("raw.s", "2026-01-04", "2026-01-09")
    assert refusal(workshop, plan).message == f"raw.s changed since plan {plan.id} was made: 2026-01-04"


def test_a_row_deleted_in_scope_is_a_change(workshop: Workshop) -> None:
    plan = a_plan(workshop)
    workshop.lake.table("raw.s").delete("d = '2026-01-05'")
    assert refusal(workshop, plan).message.endswith(": 2026-01-05")


def test_inputs_that_changed_elsewhere_are_fine(workshop: Workshop) -> None:
    plan = a_plan(workshop)
    workshop.lake.append("raw.s", "2026-01-02", "2026-01-06", None)
    workshop.lake.table("raw.s").delete("d = '2026-01-09'")
    assert opened(workshop, plan).state is RunState.PLANNED


def test_any_change_of_a_table_that_is_read_whole_is_one(workshop: Workshop) -> None:
    workshop.lake.by_day("raw.whole", "2020-01-01")
    sql = "SELECT s.d, count(*) AS n FROM raw.s s CROSS JOIN raw.whole w GROUP BY s.d"
    workshop.model("mart.a", "raw.s: {time: d}, raw.whole: {}", sql)
    plan = a_plan(workshop)
    workshop.lake.append("raw.whole", "2019-01-01")
    assert refusal(workshop, plan).message.endswith("it is read whole")


def test_an_input_that_is_gone_or_was_made_again_is_refused(workshop: Workshop) -> None:
    plan = a_plan(workshop)
    workshop.lake.catalog.drop_table("raw.s")
    assert refusal(workshop, plan).message.endswith("the table is gone")
    workshop.lake.by_day("raw.s", "2026-01-01..2026-01-20")
    assert refusal(workshop, plan).message.endswith("its history since then is gone")


def test_what_the_run_itself_will_replace_may_change_and_what_it_reads_around_it_may_not(workshop: Workshop) -> None:
    workshop.publish_by_hand("mart.a", "2026-01-01..2026-01-20")
    workshop.model("mart.b", "mart.a: {time: d, lookback: 1}", "SELECT d, n FROM mart.a")
    plan = a_plan(workshop, "+mart.b")
    table = workshop.lake.table("mart.a")
    table.overwrite(rows(table, ["2026-01-04"]), overwrite_filter="d = '2026-01-04'")
    assert opened(workshop, plan).state is RunState.PLANNED
    other = a_plan(workshop, "+mart.b", force=True)
    workshop.lake.append("mart.a", "2026-01-02")
    assert refusal(workshop, other).message.endswith("was made: 2026-01-02")


def test_a_run_that_pinned_its_inputs_goes_on_whatever_becomes_of_them(workshop: Workshop) -> None:
    plan = a_plan(workshop)
    Driver(workshop.ledger, plan).tell(tables_opened(plan))
    workshop.lake.append("raw.s", "2026-01-04")
    assert opened(workshop, plan).state is RunState.STAGING


def test_a_published_run_is_told_as_it_is_though_everything_changed_since(workshop: Workshop) -> None:
    plan = a_plan(workshop)
    published_run(workshop.ledger, plan)
    workshop.model("mart.a", sql="SELECT d, 2 AS n FROM raw.s")
    workshop.lake.append("raw.s", "2026-01-04")
    assert opened(workshop, plan).state is RunState.PUBLISHED


@pytest.mark.parametrize("ending", ["rolled back", "cancelled"])
def test_a_run_that_ended_is_not_run_again(workshop: Workshop, ending: str) -> None:
    plan = a_plan(workshop)
    if ending == "cancelled":
        opened(workshop, plan)
        w = workshop.workspace
        w.ledger.record(plan.id, Cancelled(reason="not needed"), at=w.clock(), who="ada")
    else:
        published_run(workshop.ledger, plan).roll_back()
    with pytest.raises(Refused, match=f"was {ending}: it isn't run again") as refused:
        opened(workshop, plan)
    assert "--refresh" in refused.value.next


def test_a_parameter_that_changed_is_refused_with_both_values(workshop: Workshop) -> None:
    workshop.settings("params: {source: ecb, digits: 2}")
    plan = a_plan(workshop)
    assert plan.params == {"source": "ecb", "digits": 2}
    workshop.settings("params: {source: fed, digits: 2}")
    assert "the settings (:source was 'ecb', is 'fed') changed since" in refusal(workshop, plan).message


def test_a_plan_that_builds_a_table_beside_reads_nothing_of_the_one_there_and_wants_it_as_it_was(
    workshop: Workshop,
) -> None:
    for name in ("mart.a", "mart.b"):
        workshop.publish_by_hand(name, "2026-01-03..2026-01-05")
    workshop.model("mart.a", sql="SELECT d, count(*) AS x FROM raw.s GROUP BY d", keys="strategy: full")
    workshop.model("mart.b", "mart.a: {on_change: restate}", "SELECT d, x AS n FROM mart.a")
    plan = a_plan(workshop)
    assert [model.name for model in plan.models] == ["mart.a", "mart.b"]
    assert opened(workshop, plan).plan == plan
    late = a_plan(workshop, force=True)
    workshop.lake.append("mart.a", "2026-01-06")
    assert f"mart.a was written since plan {late.id} was made" in refusal(workshop, late).message
    workshop.lake.catalog.drop_table("mart.a")
    assert f"mart.a is gone since plan {late.id} was made" in refusal(workshop, late).message
