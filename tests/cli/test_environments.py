"""`--env`: the same models, planned and told beside production."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from pathlib import Path

import pytest
import yaml

from retcon.core.plans import digest
from retcon.flow.plan import Ask
from retcon.wiring import Workspace
from tests.cli.conftest import Plans, Records, Retcon
from tests.cli.shops import FIRST, LAST, NOON, ORDERS, REVENUE, Recorder, days
from tests.lakehouse.lakes import Lake

RANGE = ("--start", str(FIRST), "--end", str(LAST))


@pytest.fixture
def staging(shop: Path) -> Path:
    """The shop with an environment."""
    with (shop / "retcon.yaml").open("a") as settings:
        settings.write("environments: {staging: {prefix: staging_}, dev: {prefix: dev_}}\n")
    return shop


def record(shop: Path, environment: str | None, suffix: str, *, start: date = FIRST, end: date = LAST) -> Recorder:
    """A run in an environment, opened in the shop's ledger."""
    workspace = Workspace(shop, environment=environment)
    ask = Ask(
        select=("mart.*",), reason="a try", command="", by="ann", now=NOON, suffix=suffix, start=start, end=end, wave=4
    )
    return Recorder(workspace, workspace.planner.plan(ask))


def test_a_plan_for_an_environment_names_its_tables_and_reads_sources_where_they_are(
    retcon: Retcon, staging: Path
) -> None:
    answer = retcon("plan", "mart.*", *RANGE, "--env", "staging", "--reason", "a try", "--json")
    assert answer.code == 0, answer.err
    plan = answer.result["plan"]
    assert [model["name"] for model in plan["models"]] == [f"staging_{ORDERS}", f"staging_{REVENUE}"]
    orders, revenue = plan["models"]
    assert [i["table"] for i in orders["inputs"]] == ["raw.orders", "raw.fx_rates"]
    assert [(i["name"], i["table"], i["origin"]) for i in revenue["inputs"]] == [(ORDERS, f"staging_{ORDERS}", "run")]
    assert plan["consumers"] == []
    assert plan["request"]["environment"] == "staging"
    assert plan["request"]["models"] == [ORDERS, REVENUE]
    assert f"retcon plan {ORDERS} {REVENUE}" in plan["request"]["command"]
    assert "--env staging" in plan["request"]["command"]
    shown = retcon("plan", "mart.*", *RANGE, "--env", "staging", "--reason", "a try", "--dry-run")
    assert "environment  staging, beside production" in shown.out


def test_the_code_of_a_model_is_the_same_in_every_environment(retcon: Retcon, staging: Path) -> None:
    def codes(*options: str) -> list[str]:
        return [model["code"] for model in retcon("check", *options, "--json").result["models"]]

    assert codes() == codes("--env", "staging")


def test_an_upstream_model_has_to_be_in_the_environment(retcon: Retcon, staging: Path) -> None:
    answer = retcon("plan", REVENUE, *RANGE, "--env", "staging", "--reason", "a try")
    assert answer.code == 1
    assert f"staging_{REVENUE} reads staging_{ORDERS}, which was never published in staging" in answer.err
    assert f"retcon plan +staging_{REVENUE} --env staging …" in answer.err


def test_the_history_of_columns_is_that_of_the_environments_table(retcon: Retcon, staging: Path) -> None:
    refused = retcon("show", ORDERS, "--schema", "--env", "staging")
    assert f"staging_{ORDERS} has no table yet" in refused.err
    assert f"retcon plan staging_{ORDERS} --env staging --reason …" in refused.err
    lake = Lake(staging / ".retcon")
    lake.by_day(f"staging_{ORDERS}", "2026-01-01")
    assert retcon("show", ORDERS, "--schema", "--env", "staging", "--json").result["model"] == f"staging_{ORDERS}"
    assert f"Columns  staging_{ORDERS}" in retcon("show", ORDERS, "--schema", "--env", "staging").out
    lake.close()


def test_where_things_stand_is_asked_in_the_same_environment(
    retcon: Retcon, staging: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("retcon.wiring.Workspace.planner", property(broken))
    answer = retcon("plan", ORDERS, "--env", "staging", "--reason", "a try")
    assert answer.code == 130
    assert "`retcon status --env staging` tells where things stand" in answer.err


def test_columns_are_checked_against_the_environments_tables(retcon: Retcon, staging: Path) -> None:
    path = staging / "models" / "mart" / "fct_daily_revenue.sql"
    path.write_text(path.read_text().replace(f"FROM {ORDERS}", f"FROM {ORDERS} f WHERE f.nope = 1"))
    answer = retcon("plan", "mart.*", *RANGE, "--env", "staging", "--reason", "a try")
    assert answer.code == 1
    assert "has no column `nope`" in answer.err


def test_a_plan_is_renewed_where_it_was_made(retcon: Retcon, staging: Path) -> None:
    first = retcon("plan", "mart.*", *RANGE, "--env", "staging", "--reason", "a try", "--json").result
    again = retcon("plan", "--refresh", first["file"], "--json").result["plan"]
    assert again["request"]["environment"] == "staging"
    assert [model["name"] for model in again["models"]] == [f"staging_{ORDERS}", f"staging_{REVENUE}"]
    settings = staging / "retcon.yaml"
    settings.write_text(settings.read_text().replace("prefix: staging_", "prefix: stg_"))
    moved = retcon("plan", "--refresh", first["file"], "--json").result["plan"]
    assert [model["name"] for model in moved["models"]] == [f"stg_{ORDERS}", f"stg_{REVENUE}"]
    other = retcon("plan", "--refresh", first["file"], "--env", "dev")
    assert other.code == 2
    assert "is of staging, and --env dev was given" in other.err


def test_apply_finds_the_environment_in_the_plan(
    retcon: Retcon, staging: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def start(_: Workspace) -> object:
        raise RuntimeError("as far as Spark")

    monkeypatch.setattr(Workspace, "warehouse", property(start))
    made = retcon("plan", "mart.*", *RANGE, "--env", "staging", "--reason", "a try", "--json").result
    plan_id = made["plan"]["id"]
    other = retcon("apply", plan_id, "--env", "dev")
    assert other.code == 2
    assert f"plan {plan_id} is of staging, and --env dev was given" in other.err
    assert "as far as Spark" in retcon("apply", plan_id).err
    assert "as far as Spark" in retcon("apply", plan_id, "--env", "staging").err
    run = Workspace(staging).ledger.run(plan_id)
    assert run is not None
    assert run.plan.environment == "staging"


def test_a_plan_of_production_isnt_applied_elsewhere(retcon: Retcon, staging: Path) -> None:
    made = retcon("plan", "mart.*", *RANGE, "--reason", "a try", "--json").result
    answer = retcon("apply", made["plan"]["id"], "--env", "staging")
    assert answer.code == 2
    assert "is of production, and --env staging was given" in answer.err


def test_plans_of_before_there_were_environments_are_of_production(staging: Path, planned: Plans) -> None:
    workspace = Workspace(staging)
    path = workspace.write_plan(planned())
    document = yaml.safe_load(path.read_text())
    del document["request"]["environment"]
    path.write_text(yaml.safe_dump({**document, "digest": digest(document)}))
    assert workspace.read_plan(path.stem).environment is None


def test_each_environment_tells_of_its_own_runs(retcon: Retcon, staging: Path) -> None:
    mine = record(staging, "staging", "stag").stage(base=None).prove(base=False).publish().plan.id
    real = record(staging, None, "prod").stage().prove().publish().plan.id

    def runs(*options: str) -> list[str]:
        return [run["run"] for run in retcon("history", *options, "--json").result["runs"]]

    assert runs() == [real]
    assert runs("--env", "staging") == [mine]
    assert runs("--env", "dev") == []
    assert runs(REVENUE, "--env", "staging") == [mine]
    by_model = {m["model"]: m for m in retcon("status", "--env", "staging", "--json").result["models"]}
    assert by_model[f"staging_{REVENUE}"]["published"]["run"] == mine
    assert {m["model"] for m in retcon("status", REVENUE, "--json").result["models"]} == {REVENUE}
    shown = retcon("show", REVENUE, "--env", "staging", "--json").result
    assert (shown["name"], [run["run"] for run in shown["runs"]]) == (f"staging_{REVENUE}", [mine])


def test_a_run_is_told_of_by_its_id_alone(retcon: Retcon, staging: Path) -> None:
    mine = record(staging, "staging", "stag").stage(base=None).prove(base=False).publish().plan.id
    answer = retcon("show", mine)
    assert answer.code == 0, answer.err
    assert "staging, beside production" in answer.out
    assert retcon("show", mine, "--env", "staging", "--json").result["environment"] == "staging"
    assert retcon("show", mine, "--env", "dev").code == 2
    assert retcon("diff", mine).code == 0
    assert retcon("diff", mine, "--env", "dev").code == 2


def test_a_run_is_given_up_by_its_id_alone(retcon: Retcon, staging: Path) -> None:
    mine = record(staging, "staging", "stag").plan.id
    assert retcon("cancel", mine, "--env", "dev").code == 2
    assert retcon("cancel", mine, "--json").result["state"] == "cancelled"


def test_render_reads_what_the_environment_has(retcon: Retcon, staging: Path) -> None:
    answer = retcon("render", REVENUE, "--env", "staging", "--start", str(FIRST), "--json")
    assert answer.code == 0, answer.err
    assert answer.result["model"] == f"staging_{REVENUE}"
    assert [i["table"] for i in answer.result["inputs"]] == [f"staging_{ORDERS}"]


def test_an_unknown_environment_is_refused_by_every_command_that_takes_one(retcon: Retcon, staging: Path) -> None:
    for words in (["check"], ["status"], ["history"], ["show", REVENUE], ["diff", REVENUE], ["render", REVENUE]):
        answer = retcon(*words, "--env", "stagin")
        assert answer.code == 1
        assert "did you mean staging?" in answer.err


def test_environments_that_would_write_to_each_other_are_refused_at_check(retcon: Retcon, staging: Path) -> None:
    path = staging / "retcon.yaml"
    path.write_text(path.read_text().replace("prefix: dev_", "prefix: staging_"))
    answer = retcon("check")
    assert answer.code == 1
    assert "the environment `dev` has the prefix of `staging`" in answer.err
    assert "retcon.yaml" in answer.err


def test_check_lists_the_environments(retcon: Retcon, staging: Path) -> None:
    assert "environments: staging, dev" in retcon("check").out
    assert "in staging" in retcon("check", "--env", "staging").out
    assert retcon("check", "--json").result["environments"] == {"staging": "staging_", "dev": "dev_"}


def test_a_first_publish_of_production_is_not_expected_of_an_environment(staging: Path, recorded: Records) -> None:
    recorded().stage().prove().publish()
    workspace = Workspace(staging, environment="staging")
    assert all(status.published is None for status in workspace.statuses.status())


# ── diff between environments ─────────────────────────────────────────────────────────────────────────────────────


def test_diff_compares_an_environment_with_production_from_what_was_recorded(retcon: Retcon, staging: Path) -> None:
    record(staging, None, "prod").stage().prove().publish()
    record(staging, "staging", "stag").stage(base=None).prove(base=False).publish()
    result = retcon("diff", REVENUE, "--env", "staging", "--json").result
    assert (result["environment"], result["compared"]) == ("staging", "production and staging")
    assert result["same"]
    assert result["same_code"]
    (diff,) = result["diff"]
    assert (diff["model"], diff["slices_changed"], len(diff["slices"])) == (f"staging_{REVENUE}", 0, 10)
    assert diff["rows"] == {"old": 1000, "new": 1000, "relative": "0"}
    shown = retcon("diff", f"staging_{REVENUE}", "--env", "staging")
    assert shown.code == 0, shown.err
    assert "production → staging" in shown.out
    assert "0 slices changed, 10 the same" in shown.out


def test_diff_between_environments_tells_slices_that_differ_and_those_that_only_one_has(
    retcon: Retcon, staging: Path
) -> None:
    record(staging, None, "prod", end=days()[7]).stage().prove().publish()
    path = staging / "models" / "mart" / "fct_daily_revenue.sql"
    path.write_text(path.read_text().replace(f"FROM {ORDERS}", f"FROM {ORDERS} WHERE order_date IS NOT NULL"))
    new = record(staging, "staging", "stag", start=days()[2]).stage(base=None)
    new.prove(base=False, shift=Decimal(10)).publish()
    result = retcon("diff", REVENUE, "--env", "staging", "--json").result
    assert not result["same"]
    assert not result["same_code"]
    assert result["only_in_production"] == "2026-01-01..2026-01-02"
    assert result["only_in_environment"] == "2026-01-09..2026-01-10"
    (diff,) = result["diff"]
    assert diff["slices_changed"] == 6
    assert [each["slice"] for each in diff["slices"]] == [str(day) for day in days()[2:8]]
    for each in diff["slices"]:
        pair = each["metrics"]["sum(amount_usd)"]
        assert Decimal(pair["new"]) - Decimal(pair["old"]) == 10
        assert not each["same_content"]
    out = retcon("diff", REVENUE, "--env", "staging").out
    assert "2 slices in production: 2026-01-01..2026-01-02" in out
    assert "2 slices in staging: 2026-01-09..2026-01-10" in out
    assert "not the same in both" in out
    assert "sum(amount_usd)" in out


def test_only_metrics_that_may_be_summed_have_a_total_between_environments(retcon: Retcon, staging: Path) -> None:
    record(staging, None, "prod").stage().prove().publish()
    record(staging, "staging", "stag").stage(base=None).prove(base=False, shift=Decimal(10)).publish()
    assert "sum(amount_usd)" in retcon("diff", ORDERS, "--env", "staging", "--json").result["diff"][0]["totals"]
    path = staging / "models" / "mart" / "fct_orders_usd.sql"
    path.write_text(path.read_text().replace("sum(amount_usd)", "avg(amount_usd)"))
    answer = retcon("diff", ORDERS, "--env", "staging", "--json")
    assert answer.result["diff"][0]["totals"] == {}


def test_diff_with_what_was_never_published_is_refused(retcon: Retcon, staging: Path) -> None:
    record(staging, "staging", "stag").stage(base=None).prove(base=False).publish()
    answer = retcon("diff", REVENUE, "--env", "staging")
    assert answer.code == 1
    assert f"{REVENUE} was never published: there is nothing to compare" in answer.err
    record(staging, None, "prod").stage().prove().publish()
    other = retcon("diff", REVENUE, "--env", "dev")
    assert f"dev_{REVENUE} was never published" in other.err
    assert f"retcon plan +dev_{REVENUE} --env dev …" in other.err
