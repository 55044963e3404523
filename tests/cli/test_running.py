"""`apply`, `rollback` and `cancel` as far as they go without Spark: refusals, reports, and what isn't started."""

from __future__ import annotations

from pathlib import Path

import pytest

from retcon.core.events import WaveFailed
from retcon.core.runs import RunState
from retcon.wiring import Workspace
from tests.cli.conftest import Plans, Records, Retcon
from tests.cli.shops import FIRST, LAST, ORDERS, REVENUE

RUN = "20260122_fct_orders_usd_k3f9"
RANGE = ("--start", str(FIRST), "--end", str(LAST))


@pytest.fixture
def no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    """In these tests no step gets as far as Spark, and a session would take seconds to start."""

    def start(_: Workspace) -> object:
        return object()

    monkeypatch.setattr(Workspace, "warehouse", property(start))


@pytest.fixture
def spark_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def start(_: Workspace) -> object:
        raise AssertionError("Spark was started")

    monkeypatch.setattr(Workspace, "warehouse", property(start))


def state_of(shop: Path, run: str = RUN) -> RunState:
    found = Workspace(shop).ledger.run(run)
    assert found is not None
    return found.state


@pytest.mark.usefixtures("spark_is_an_error")
def test_a_plan_that_isnt_there_cant_be_applied(retcon: Retcon, shop: Path) -> None:
    answer = retcon("apply", "backfills/nope.yaml")
    assert answer.code == 1
    assert "there is no plan backfills/nope.yaml" in answer.err


@pytest.mark.usefixtures("spark_is_an_error")
def test_an_override_needs_a_reason(retcon: Retcon, shop: Path) -> None:
    answer = retcon("apply", "any", "--override", f"{ORDERS}:drift")
    assert answer.code == 2
    assert "an override needs a reason" in answer.err


@pytest.mark.usefixtures("spark_is_an_error")
def test_a_reason_without_an_override_and_an_override_before_the_gates_are_refused(retcon: Retcon, shop: Path) -> None:
    answer = retcon("apply", "any", "--reason", "known")
    assert answer.code == 2
    assert "pass --override model:gate with it" in answer.err
    answer = retcon("apply", "any", "--override", f"{ORDERS}:drift", "--reason", "known", "--until", "staged")
    assert answer.code == 2
    assert "--until staged stops before any gate is judged" in answer.err


def test_a_plan_that_was_edited_by_hand_is_refused(retcon: Retcon, shop: Path) -> None:
    path = Path(retcon("plan", ORDERS, *RANGE, "--reason", "x", "--json").result["file"])
    path.write_text(path.read_text().replace("2026-01-01..2026-01-10", "2026-01-01..2026-01-09"))
    answer = retcon("apply", path.stem)
    assert answer.code == 1
    assert "was changed by hand beyond its reason" in answer.err


@pytest.mark.usefixtures("spark_is_an_error")
def test_code_that_changed_since_the_plan_is_refused(retcon: Retcon, shop: Path) -> None:
    path = Path(retcon("plan", ORDERS, *RANGE, "--reason", "x", "--json").result["file"])
    model = shop / "models" / "mart" / "fct_orders_usd.sql"
    model.write_text(model.read_text().replace("o.amount * r.rate", "o.amount / r.rate"))
    answer = retcon("apply", path.stem)
    assert answer.code == 1
    assert f"the code of {ORDERS} changed since plan {path.stem} was made" in answer.err
    assert "starting Spark" not in answer.err


@pytest.mark.usefixtures("spark_is_an_error")
def test_a_run_that_was_rolled_back_isnt_run_again(retcon: Retcon, recorded: Records) -> None:
    recorded().stage().prove().publish().roll_back()
    answer = retcon("apply", RUN)
    assert answer.code == 1
    assert f"run {RUN} was rolled back: it isn't run again" in answer.err
    assert "plan --refresh" in answer.err


@pytest.mark.usefixtures("spark_is_an_error")
def test_applying_what_is_published_only_reports_it(retcon: Retcon, recorded: Records) -> None:
    recorded().stage().prove().publish()
    answer = retcon("apply", RUN)
    assert answer.code == 0
    assert answer.err == f"run {RUN} is already published; nothing was done\n"
    for told in ("✓ holds", "Files read", "sum(amount_usd)", str(2**62 + 9), "tell", "exec_dashboard", "undo"):
        assert told in answer.out
    result = retcon("apply", RUN, "--json").result
    assert result["state"] == "published"
    assert result["consumers"] == ["exec_dashboard"]
    assert result["diff"][0]["model"] == ORDERS


@pytest.mark.usefixtures("no_spark")
def test_a_failed_gate_ends_with_4_and_shows_its_verdict(retcon: Retcon, shop: Path, recorded: Records) -> None:
    recorded().stage().prove(f"{ORDERS}:drift", f"{REVENUE}:drift")
    answer = retcon("apply", RUN, "--override", f"{ORDERS}:drift", "--reason", "known")
    assert answer.code == 4
    assert "✗ failed" in answer.out
    assert "⊘ overridden" in answer.out
    assert "… and 8 more findings" in answer.out
    assert f"error: 1 gate failed: {REVENUE}:drift" in answer.err
    assert "nothing was published; production is untouched" in answer.err
    assert state_of(shop) is RunState.FAILED


@pytest.mark.usefixtures("no_spark")
def test_a_failed_gate_is_one_json_document_with_the_verdicts(retcon: Retcon, recorded: Records) -> None:
    recorded().stage().prove(f"{ORDERS}:drift", f"{REVENUE}:drift")
    answer = retcon("apply", RUN, "--override", f"{ORDERS}:drift", "--reason", "known", "--json")
    assert answer.code == 4
    assert answer.error["code"] == "gate"
    assert answer.error["run"] == RUN
    failed = [(v["model"], v["gate"]) for v in answer.error["verdicts"] if not v["holds"]]
    assert failed == [(REVENUE, "drift")]


@pytest.mark.usefixtures("no_spark")
def test_stopping_at_proven_says_how_to_go_on(retcon: Retcon, shop: Path, recorded: Records) -> None:
    recorded().stage().prove(f"{ORDERS}:drift")
    argv = ("apply", RUN, "--override", "drift", "--reason", "known", "--until", "proven")
    answer = retcon(*argv)
    assert answer.code == 0, answer.err
    assert answer.err == "starting Spark…\n"
    assert f"retcon diff {RUN}" in answer.out
    assert f"retcon apply {RUN}  publishes it" in answer.out
    assert state_of(shop) is RunState.PROVEN
    unknown = retcon("apply", RUN, "--until", "staged", "--json")
    assert unknown.result["state"] == "proven"


@pytest.mark.usefixtures("no_spark")
def test_the_ledgers_plan_serves_where_the_file_is_gone(
    retcon: Retcon, shop: Path, planned: Plans, recorded: Records
) -> None:
    recorded().stage()
    assert not list((shop / "backfills").glob("*.yaml"))
    answer = retcon("apply", f"backfills/{RUN}.yaml", "--until", "staged")
    assert answer.code == 0, answer.err
    assert f"retcon apply {RUN}  goes on from here" in answer.out


@pytest.mark.usefixtures("spark_is_an_error")
def test_a_rollback_needs_a_reason(retcon: Retcon, shop: Path) -> None:
    assert retcon("rollback", RUN, "--reason", " ").code == 2


@pytest.mark.usefixtures("spark_is_an_error")
def test_a_run_that_isnt_published_cant_be_rolled_back(retcon: Retcon, recorded: Records) -> None:
    recorded().stage()
    answer = retcon("rollback", RUN, "--reason", "x")
    assert answer.code == 1
    assert f"run {RUN} is staged: there is no publish to roll back" in answer.err


@pytest.mark.usefixtures("spark_is_an_error")
def test_a_rollback_wants_a_run_not_a_model(retcon: Retcon, recorded: Records) -> None:
    recorded()
    answer = retcon("rollback", ORDERS, "--reason", "x")
    assert answer.code == 2
    assert f"its newest run is {RUN}" in answer.err


def test_cancel_gives_a_run_up_for_good(retcon: Retcon, shop: Path, recorded: Records) -> None:
    recorded().stage(waves=1)
    answer = retcon("cancel", RUN, "--reason", "planned anew")
    assert answer.code == 0, answer.err
    assert f"Run  {RUN}  cancelled" in answer.out
    assert "production is untouched" in answer.out
    assert f"retcon plan --refresh {RUN}" in answer.out
    assert state_of(shop) is RunState.CANCELLED
    again = retcon("cancel", RUN, "--json").result
    assert (again["state"], again["why_ended"]) == ("cancelled", "planned anew")
    assert "planned anew" in retcon("show", RUN).out


def test_a_run_that_was_rolled_back_cant_be_cancelled_nor_rolled_back(retcon: Retcon, recorded: Records) -> None:
    recorded().stage().prove().publish().roll_back()
    answer = retcon("cancel", RUN)
    assert answer.code == 1
    assert "retcon rollback" not in answer.err
    assert f"`retcon show {RUN}` tells more" in answer.err


def test_a_published_run_cant_be_cancelled(retcon: Retcon, recorded: Records) -> None:
    recorded().stage().prove().publish()
    answer = retcon("cancel", RUN)
    assert answer.code == 1
    assert f"retcon rollback {RUN}" in answer.err


@pytest.mark.usefixtures("spark_is_an_error")
def test_pause_tells_what_is_staged_and_how_to_go_on(retcon: Retcon, shop: Path, recorded: Records) -> None:
    recorded().stage(waves=1)
    answer = retcon("pause", RUN, "--reason", "the cluster is needed")
    assert answer.code == 0, answer.err
    assert f"Run  {RUN}  paused" in answer.out
    assert "8 of 20 slices are staged, and kept; 12 aren't" in answer.out
    assert "production is untouched" in answer.out
    assert f"retcon apply {RUN}" in answer.out
    assert f"retcon cancel {RUN}" in answer.out
    result = retcon("pause", RUN, "--json").result
    assert (result["state"], result["staged"]["done"]) == ("paused", 8)
    assert state_of(shop) is RunState.PAUSED


@pytest.mark.usefixtures("spark_is_an_error")
def test_a_published_run_cant_be_paused(retcon: Retcon, recorded: Records) -> None:
    recorded().stage().prove().publish()
    answer = retcon("pause", RUN)
    assert answer.code == 1
    assert f"run {RUN} is published: it can't be paused any more" in answer.err
    assert f"retcon rollback {RUN}" in answer.err


def test_a_wave_that_was_tried_again_is_shown_first_with_its_attempts(retcon: Retcon, recorded: Records) -> None:
    failing = recorded()
    failing.stage(waves=2)
    failing.tell(WaveFailed(model=REVENUE, wave=3, error="executor lost"))
    waves = retcon("show", RUN, "--json").result["waves"]
    assert [wave["attempts"] for wave in waves if wave["model"] == REVENUE] == [1, 1, 1]
    out = retcon("show", RUN).out
    assert "attempts" in out
    assert out.index("executor lost") < out.index("2026-01-01..2026-01-04")
