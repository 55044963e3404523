"""`show --timing`, and what `plan` and `apply` say of time, cost and budgets, from runs that were recorded."""

from __future__ import annotations

import re
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from retcon.cli.apply import _require_budget
from retcon.cli.views.timings import span_text
from retcon.core.estimates import Estimate
from retcon.core.events import ApplyBegan
from retcon.core.runs import RunState
from retcon.errors import Refused
from retcon.wiring import Workspace
from tests.cli.conftest import Plans, Records, Retcon
from tests.cli.shops import FIRST, LAST, NOON, ORDERS, REVENUE, Recorder

RUN = "20260122_fct_orders_usd_k3f9"
RANGE = ("--start", str(FIRST), "--end", str(LAST))
WHY = ("--reason", "wrong rates")


@pytest.fixture(autouse=True)
def _no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    def start(_: Workspace) -> object:
        raise AssertionError("Spark was started")

    monkeypatch.setattr(Workspace, "warehouse", property(start))
    monkeypatch.setattr(Workspace, "cores", 2)


def began(**more: Any) -> ApplyBegan:
    given: dict[str, Any] = {"preparing": 1.5, "starting": 5.0, "cores": 2, **more}
    return ApplyBegan(until="published", max_active=2, overrides=(), versions={}, conf={}, **given)


def published(recorder: Recorder, **more: Any) -> Recorder:
    return recorder.tell(began(**more)).stage().prove().publish()


def priced(shop: Path) -> None:
    with (shop / "retcon.yaml").open("a") as file:
        file.write("\ncost: {core_hour: 36, currency: USD}\n")


def test_show_timing_tells_steps_and_waves(retcon: Retcon, shop: Path, recorded: Records) -> None:
    published(recorded())
    answer = retcon("show", RUN, "--timing")
    assert answer.code == 0
    for step, took in {"getting ready": "1.5 s", "starting Spark": "5.0 s", "opening tables": "1.0 s"}.items():
        assert re.search(rf"^ +{step} +{re.escape(took)} +\d+%$", answer.out, re.MULTILINE), step
    # A second passes with every event: six waves, and the end of staging.
    assert re.search(r"^ +staging +7\.0 s", answer.out, re.MULTILINE)
    assert re.search(rf"^ +{ORDERS} +3 +3\.8 s", answer.out, re.MULTILINE)
    assert "Spark doesn't tell these apart" in answer.out
    told = retcon("show", RUN, "--timing", "--json").result
    assert told["run"] == RUN
    assert told["timing"]["steps"]["proving"] == 2.0
    assert told["timing"]["turns"][0]["cores"] == 2
    assert len(told["timing"]["waves"]) == 6
    assert told["taken"]["cost"] is None


def test_a_run_that_wasnt_driven_has_no_timing_and_a_model_never_has(retcon: Retcon, recorded: Records) -> None:
    recorded()
    refused = retcon("show", RUN, "--timing")
    assert refused.code == 1
    assert "nothing of it was run yet" in refused.err
    assert retcon("show", ORDERS, "--timing").code == 2
    assert retcon("show", RUN, "--timing", "--code").code == 2
    assert retcon("show", RUN, "--timing", "--certificate").code == 2


def test_show_sets_what_was_taken_beside_what_was_estimated(
    retcon: Retcon, shop: Path, planned: Plans, recorded: Records
) -> None:
    priced(shop)
    published(recorded("aaaa", at=NOON - timedelta(days=1)))
    path = Path(retcon("plan", "mart.*", *RANGE, *WHY, "--json").result["file"])
    workspace = Workspace(shop)
    plan = workspace.read_plan(str(path))
    assert plan.estimate is not None
    assert plan.estimate.seconds is not None
    assert plan.planned_in is not None
    published(Recorder(workspace, plan, at=NOON))
    shown = retcon("show", plan.id)
    low, high = plan.estimate.seconds.low, plan.estimate.seconds.high
    assert re.search(rf"took +\d+ s, {re.escape(span_text(plan.estimate.seconds))} estimated", shown.out)
    assert re.search(r"cost +0\.00\d+ core hours, 0\.\d+ USD, 0\.\d+ USD to 0\.\d+ USD estimated", shown.out)
    told = retcon("show", plan.id, "--json").result["taken"]
    assert told["estimated"]["seconds"] == {"low": low, "high": high}
    assert told["cost"] == pytest.approx(told["core_hours"] * 36, rel=1e-3)
    assert told["currency"] == "USD"


def test_a_plan_tells_its_time_from_earlier_runs_and_its_file_has_it(
    retcon: Retcon, shop: Path, recorded: Records
) -> None:
    unknown = retcon("plan", "mart.*", *RANGE, *WHY)
    assert unknown.code == 0
    assert f"not known yet: {ORDERS}, {REVENUE} were never run" in unknown.out
    assert "--canary 2" in unknown.out
    published(recorded())
    priced(shop)
    answer = retcon("plan", "mart.*", *RANGE, *WHY)
    assert re.search(r"^time +[\d.]+ s to [\d.]+ s, 0\.\d{4} to 0\.\d{4} core hours on 2 cores", answer.out, re.M)
    assert re.search(r"^at once +up to 2 waves ", answer.out, re.M)
    assert "from 6 waves of one earlier run" in answer.out
    assert re.search(r"^cost +0\.\d+ USD to 0\.\d+ USD +at 36\.00 USD a core hour$", answer.out, re.M)
    newest = max((shop / "backfills").glob("*.yaml"), key=lambda path: path.stat().st_mtime_ns)
    document = yaml.safe_load(newest.read_text())
    estimate = document["estimate"]
    assert estimate["seconds"]["low"] < estimate["seconds"]["high"]
    assert estimate["cost"]["high"] == pytest.approx(estimate["core_hours"]["high"] * 36, rel=0.05)
    assert set(estimate["staging"]) == {ORDERS, REVENUE}
    assert document["planned_in"] > 0


def test_a_plan_over_its_budget_is_refused_and_isnt_written(retcon: Retcon, shop: Path, recorded: Records) -> None:
    published(recorded())
    priced(shop)
    refused = retcon("plan", "mart.*", *RANGE, *WHY, "--budget", "0.001")
    assert refused.code == 1
    assert re.search(r"over its budget of 0\.001 USD: it will take 0\.\d+ USD to 0\.\d+ USD", refused.err)
    assert "no plan was written" in refused.err
    assert not (shop / "backfills").exists() or not list((shop / "backfills").glob("*.yaml"))
    kept = retcon("plan", "mart.*", *RANGE, *WHY, "--budget", "2 h", "--json").result["plan"]
    assert kept["budget"] == {"seconds": 7200.0}
    assert "--budget '7200 s'" in kept["request"]["command"]
    again = retcon("plan", "--refresh", kept["id"], "--json").result["plan"]
    assert again["budget"] == {"seconds": 7200.0}
    shown = retcon("plan", "mart.*", *RANGE, *WHY, "--budget", "2 h", "--dry-run")
    assert re.search(r"^budget +2 h +the run pauses where it is passed$", shown.out, re.M)


def test_an_amount_without_a_price_is_an_error_that_says_what_to_write(retcon: Retcon, shop: Path) -> None:
    for answer in (
        retcon("plan", "mart.*", *RANGE, *WHY, "--budget", "5"),
        retcon("plan", "mart.*", *RANGE, *WHY, "--budget", "lots"),
    ):
        assert answer.code == 2
    answer = retcon("plan", "mart.*", *RANGE, *WHY, "--budget", "5")
    assert "the project has no `cost`" in answer.err
    assert "cost: {core_hour: 0.12}" in answer.err


def test_apply_refuses_a_plan_over_the_budget_given_then_and_a_run_that_has_taken_it(
    retcon: Retcon, shop: Path, recorded: Records
) -> None:
    published(recorded("aaaa", at=NOON - timedelta(days=1)))
    plan = retcon("plan", "mart.*", *RANGE, *WHY, "--json").result["plan"]
    refused = retcon("apply", plan["id"], "--budget", "2 s")
    assert refused.code == 1
    assert "over its budget of 2.0 s: it will take" in refused.err
    assert Workspace(shop).ledger.run(plan["id"]) is None, "it wasn't opened"
    paused = Recorder(Workspace(shop), Workspace(shop).read_plan(plan["id"]), at=NOON)
    paused.tell(began(budget={"seconds": 6.0})).stage(waves=1)
    over = retcon("apply", plan["id"])
    assert over.code == 1
    assert re.search(r"has taken 8\.0 s of its budget of 6\.0 s", over.err)
    assert f"`retcon apply {plan['id']} --budget …` with a higher one goes on" in over.err
    assert paused.run.state is RunState.STAGING
    assert "budget 6.0 s" in retcon("show", plan["id"]).out


def test_what_is_proven_may_be_published_though_its_budget_is_passed(
    retcon: Retcon, shop: Path, recorded: Records
) -> None:
    plan = retcon("plan", "mart.*", *RANGE, *WHY, "--json").result["plan"]
    run = Recorder(Workspace(shop), Workspace(shop).read_plan(plan["id"]), at=NOON)
    run.tell(began(budget={"seconds": 6.0})).stage()
    with pytest.raises(Refused, match="of its budget"):
        _require_budget(run.plan, None, Workspace(shop))
    run.prove()
    assert run.run.state is RunState.PROVEN
    _require_budget(run.plan, None, Workspace(shop))


def test_a_canary_is_asked_of_spark_and_its_estimate_is_the_plans(
    retcon: Retcon, shop: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []

    def tried(_: Workspace, plan: Any, slices: int, watch: Any) -> Estimate:
        asked.append(slices)
        return Estimate(seconds=None, unknown=(REVENUE,), canary=slices)

    monkeypatch.setattr(Workspace, "try_slices", tried)
    answer = retcon("plan", "mart.*", *RANGE, *WHY, "--canary", "3")
    assert (answer.code, asked) == (0, [3])
    assert f"not known yet: {REVENUE} reads what this plan makes first" in answer.out
    assert retcon("plan", "mart.*", *RANGE, *WHY, "--canary", "0").code == 2
