"""`status`, `history`, `show` and `diff`, over an empty ledger and a filled one."""

from __future__ import annotations

import re
import sqlite3
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path

from pyiceberg.types import LongType

from retcon.core.events import ApplyBegan, Cancelled, GateOverridden, Judged, ProvingBegan, Rebased, WaveFailed
from retcon.core.gates import Finding, Verdict
from retcon.core.runs import RunState
from tests.cli.conftest import Records, Retcon
from tests.cli.shops import NOON, ORDERS, REVENUE
from tests.lakehouse.lakes import Lake

RUN = "20260122_fct_orders_usd_k3f9"


def test_an_empty_ledger_is_no_error_and_isnt_made(retcon: Retcon, bare: Path) -> None:
    status = retcon("status")
    assert status.code == 0
    assert status.out.count("never published") == 2
    assert "no runs yet" in retcon("history").out
    assert retcon("history", "--json").result == {"runs": []}
    shown = retcon("show", REVENUE)
    assert shown.code == 0
    assert "none yet" in shown.out
    refused = retcon("diff", REVENUE)
    assert refused.code == 1
    assert "has no run yet" in refused.err
    assert not (bare / ".retcon").exists()


def test_show_schema_tells_how_the_columns_of_a_models_table_changed(retcon: Retcon, shop: Path) -> None:
    refused = retcon("show", ORDERS, "--schema")
    assert refused.code == 1
    assert f"{ORDERS} has no table yet" in refused.err
    lake = Lake(shop / ".retcon")
    lake.by_day(ORDERS)
    snapshot = lake.append(ORDERS, "2026-01-01", retcon__run="r1")
    with lake.table(ORDERS).update_schema() as change:
        change.add_column("tax", LongType())
    answer = retcon("show", ORDERS, "--schema")
    assert answer.code == 0
    assert re.search(rf"^{snapshot} +\S+ \S+ +x +bigint +r1$", answer.out, re.MULTILINE)
    assert re.search(r"no snapshot yet +tax +bigint, added", answer.out)
    told = retcon("show", ORDERS, "--schema", "--json").result
    assert told["model"] == ORDERS
    assert [(c["column"], c["step"], c["snapshot"]) for c in told["columns"]] == [
        ("d", "made", str(snapshot)),
        ("x", "made", str(snapshot)),
        ("tax", "added", None),
    ]
    assert retcon("show", "mart.nope", "--schema").code == 1
    lake.close()


def test_status_tells_what_is_published_and_what_is_under_way(retcon: Retcon, recorded: Records) -> None:
    recorded("k3f9").stage().prove().publish()
    recorded("next", at=NOON + timedelta(hours=1)).stage(waves=1)
    answer = retcon("status")
    assert answer.code == 0
    assert f"{ORDERS}     10 slices: 2026-01-01..2026-01-10  1,000  " in answer.out
    assert f"{ORDERS}     2026-01-22 12:00  {RUN}" in answer.out
    assert "8/20 slices" in answer.out
    by_model = {model["model"]: model for model in retcon("status", "--json").result["models"]}
    assert by_model[REVENUE]["published"]["run"] == RUN
    assert by_model[REVENUE]["slice_count"] == 10
    (flying,) = by_model[REVENUE]["in_flight"]
    assert flying["staged"] == {"slices": 20, "done": 8, "empty": 0, "rows": 800}
    assert REVENUE not in retcon("status", ORDERS).out.partition("Under way")[0]


def test_history_lists_runs_newest_first(retcon: Retcon, recorded: Records) -> None:
    recorded("k3f9").stage().prove().publish().roll_back()
    recorded("next", at=NOON + timedelta(hours=1)).stage().prove(f"{ORDERS}:drift")
    answer = retcon("history")
    first, second = (line for line in answer.out.splitlines() if line.startswith("2026"))
    assert "failed" in first
    assert "rolled back" in second
    runs = retcon("history", REVENUE, "--limit", "1", "--json").result["runs"]
    assert [(run["run"], run["state"]) for run in runs] == [("20260122_fct_orders_usd_next", "failed")]
    assert runs[0]["created"] == "2026-01-22T13:00:00Z"
    assert retcon("history", "mart.nope").code == 1


def test_show_tells_everything_about_a_run(retcon: Retcon, recorded: Records) -> None:
    recorded().stage().prove().publish()
    answer = retcon("show", RUN)
    assert answer.code == 0
    for told in (
        f"Run  {RUN}  published",
        "why          wrong rates",
        "by           ann, 2026-01-22 12:00 UTC",
        "20 of 20 slices",
        f"retcon rollback {RUN} --reason …  until 2026-02-05 12:00 UTC",
        f"SELECT … FROM {ORDERS} VERSION AS OF 'retcon_before_{RUN}'",
        "events, chain sound",
        "✓ holds",
        "2026-01-01..2026-01-04  done          1  1.2 s",
        str(2**62),
        str(2**62 + 9),
    ):
        assert told in answer.out
    assert "checksum" not in answer.out


def test_show_as_json_has_the_whole_record(retcon: Retcon, recorded: Records) -> None:
    recorded().stage().prove().publish()
    result = retcon("show", RUN, "--json", "--slices", "--code").result
    assert result["state"] == "published"
    assert result["rollback_until"] == "2026-02-05T12:00:12Z"
    assert result["old_version"] == f"retcon_before_{RUN}"
    assert result["record"]["sound"]
    assert [event["kind"] for event in result["record"]["events"]][:2] == ["RunOpened", "TablesOpened"]
    assert result["tables"][0]["published_snapshot"] == str(2**62 + 9)
    assert len(result["slices"]) == 20
    assert result["slices"][0]["metrics"]["sum(amount_usd)"].keys() == {"old", "new"}
    assert result["code"][ORDERS] == f"SELECT 1 -- {ORDERS}"
    assert {wave["state"] for wave in result["waves"]} == {"done"}
    lean = retcon("show", RUN, "--json").result
    assert "slices" not in lean
    assert "code" not in lean


def test_show_lists_slices_and_prints_code_where_asked(retcon: Retcon, recorded: Records) -> None:
    recorded().stage().prove()
    listed = retcon("show", RUN, "--slices").out
    assert "checksum" in listed
    assert listed.count("4.2 kB") == 20
    code = retcon("show", RUN, "--code").out
    assert f"SELECT 1 -- {ORDERS}\n" in code
    assert "Verdicts" not in code


def test_show_refuses_options_that_have_no_meaning_for_what_is_shown(retcon: Retcon, recorded: Records) -> None:
    recorded().stage().prove()
    for option in ("--code", "--slices"):
        answer = retcon("show", ORDERS, option)
        assert answer.code == 2
        assert f"{option} is about a run, and {ORDERS} is a model" in answer.err
        assert f"`retcon history {ORDERS}` lists them" in answer.err
        answer = retcon("show", ORDERS, "--schema", option)
        assert answer.code == 2
        assert f"{option} is about a run, and --schema about a model" in answer.err
    answer = retcon("show", RUN, "--code", "--slices")
    assert answer.code == 2
    assert "--code prints the code alone" in answer.err


def test_show_finds_a_broken_record(retcon: Retcon, shop: Path, recorded: Records) -> None:
    recorded().stage()
    with sqlite3.connect(shop / ".retcon" / "lake.db") as database:
        database.execute("UPDATE retcon_events SET who = 'mallory' WHERE number = 3")
    database.close()
    assert "broken at event 3" in retcon("show", RUN).out
    record = retcon("show", RUN, "--json").result["record"]
    assert (record["sound"], record["broken_at"]) == (False, 3)


def test_a_wave_that_failed_and_an_override_are_told_with_their_reasons(retcon: Retcon, recorded: Records) -> None:
    failing = recorded("bad")
    failing.stage(waves=1).tell(WaveFailed(model=ORDERS, wave=2, error="executor lost [42]"))
    out = retcon("show", failing.run.id).out
    assert "executor lost [42]" in out
    assert "failed" in out
    failing.tell(Cancelled(reason="planned anew"))
    answered = recorded("ok").stage().prove(f"{ORDERS}:drift")
    answered.tell(GateOverridden(model=ORDERS, gate="drift", reason="the rates are right now"))
    out = retcon("show", answered.run.id).out
    assert "⊘ overridden" in out
    assert "answered for: the rates are right now" in out


def test_what_others_wrote_meanwhile_and_what_was_staged_anew_is_told(retcon: Retcon, recorded: Records) -> None:
    recorder = recorded().stage().prove()
    run = recorder.run
    labels = tuple(slice.label for slice in run.plan.models[0].slices)[:2]
    rebased = Rebased(
        round=1,
        tables=tuple(run.tables.values()),
        pins=run.pins,
        slices={ORDERS: labels, REVENUE: labels[:1]},
        commits={ORDERS: tuple(f"snapshot {number} (append)" for number in range(5))},
        replaced={ORDERS: labels[:1]},
    )
    recorder.tell(rebased)
    out = retcon("show", RUN).out
    assert "Others wrote meanwhile" in out
    assert f"{ORDERS}: snapshot 0 (append), snapshot 1 (append), snapshot 2 (append) and 2 more" in out
    assert f"{ORDERS}: {labels[0]}..{labels[1]} staged anew" in out
    assert f"in {labels[0]}, rows of others are replaced that come from none of its inputs" in out
    (told,) = retcon("show", RUN, "--json").result["rebases"]
    assert told["slices"] == {ORDERS: f"{labels[0]}..{labels[1]}", REVENUE: labels[0]}
    assert told["replaced"] == {ORDERS: labels[0]}
    assert len(told["commits"][ORDERS]) == 5
    assert retcon("show", RUN, "--json").result["state"] == "staging"


def test_show_tells_about_a_model(retcon: Retcon, recorded: Records) -> None:
    recorded().stage().prove().publish()
    answer = retcon("show", ORDERS)
    assert answer.code == 0
    for told in ("raw.fx_rates by rate_date", f"readers      {REVENUE}", "data-platform", RUN, "10 slices, 1,000 rows"):
        assert told in answer.out
    result = retcon("show", REVENUE, "--json").result
    assert result["readers"] == []
    assert result["consumers"] == ["exec_dashboard"]
    assert [run["run"] for run in result["runs"]] == [RUN]


def test_a_misspelt_run_or_model_is_suggested(retcon: Retcon, recorded: Records) -> None:
    recorded()
    for name, meant in ((RUN[:-1], RUN), ("mart.fct_order_usd", ORDERS)):
        answer = retcon("show", name)
        assert answer.code == 1
        assert f"did you mean {meant}?" in answer.err


def test_diff_shows_totals_a_chart_and_every_slice(retcon: Retcon, recorded: Records) -> None:
    recorded().stage().prove()
    answer = retcon("diff", RUN)
    assert answer.code == 0
    assert f"Diff  {RUN}  proven  production → staged" in answer.out
    assert "rows  1,000 → 1,000  0%  in every slice" in answer.out
    assert "change  " in answer.out
    assert answer.out.count("2026-01-05") == 2
    assert "│" in answer.out
    only = retcon("diff", REVENUE).out
    assert f"{REVENUE}: 10 slices changed" in only
    assert f"{ORDERS}:" not in only


def test_diff_as_json_is_exact(retcon: Retcon, recorded: Records) -> None:
    recorded().stage().prove().publish()
    result = retcon("diff", RUN, "--json").result
    assert result["compared"] == "before and published"
    (orders, _) = result["diff"]
    total = orders["totals"]["sum(amount_usd)"]
    assert Decimal(total["new"]) == sum(Decimal(s["metrics"]["sum(amount_usd)"]["new"]) for s in orders["slices"])
    assert orders["rows"] == {"old": 1000, "new": 1000, "relative": "0"}
    assert [model["model"] for model in retcon("diff", REVENUE, "--json").result["diff"]] == [REVENUE]


def test_diff_of_a_first_build_says_that_all_is_new(retcon: Retcon, recorded: Records) -> None:
    recorded().stage(base=None).prove(base=False).publish()
    out = retcon("diff", RUN).out
    assert "rows  0 → 1,000  new" in out
    assert "2026-01-03" in out


def test_diff_before_anything_was_measured_is_refused(retcon: Retcon, recorded: Records) -> None:
    recorded().stage()
    answer = retcon("diff", RUN)
    assert answer.code == 1
    assert f"retcon apply {RUN} --until proven" in answer.err


def test_times_are_shown_in_the_projects_zone_with_its_name(retcon: Retcon, shop: Path, recorded: Records) -> None:
    recorded(at=datetime(2026, 1, 22, 23, 30, tzinfo=UTC)).stage()
    settings = shop / "retcon.yaml"
    settings.write_text(settings.read_text().replace("timezone: UTC", "timezone: Asia/Tokyo"))
    assert "2026-01-23 08:30 Asia/Tokyo" in retcon("show", RUN).out
    assert "begun (Asia/Tokyo)" in retcon("history").out
    assert retcon("show", RUN, "--json").result["created"] == "2026-01-22T23:30:00Z"


def test_show_tells_how_a_run_was_applied_and_with_which_values(retcon: Retcon, recorded: Records) -> None:
    began = ApplyBegan(
        until="proven",
        max_active=3,
        overrides=(f"{ORDERS}:drift",),
        versions={"retcon": "0.1.0", "spark": "4.1.1", "iceberg": "1.12.0"},
        conf={"spark.driver.memory": "4g"},
    )
    recorder = recorded().tell(began)
    assert recorder.run.state is RunState.PLANNED
    recorder.stage().tell(began).prove()
    out = retcon("show", RUN).out
    assert f"until proven, 3 waves at once, override {ORDERS}:drift" in out
    assert "ann, 2026-01-22 12:00 UTC, with iceberg 1.12.0, retcon 0.1.0, spark 4.1.1" in out
    assert "spark.driver.memory = '4g'" in out
    result = retcon("show", RUN, "--json").result
    assert [each["max_active"] for each in result["applied"]] == [3, 3]
    assert result["applied"][0]["conf"] == {"spark.driver.memory": "4g"}
    assert result["parameters"] == {}
    assert result["record"]["sound"]


def test_reason_expectation_and_verdict_stand_side_by_side(retcon: Retcon, recorded: Records) -> None:
    expect = ({"model": ORDERS, "unchanged": "currency = 'USD'"},)
    began = ApplyBegan(until="proven", max_active=2, overrides=(), versions={}, conf={}, expect=expect)
    recorder = recorded().tell(began).stage()
    told = " ".join(retcon("show", RUN).out.split())
    assert f"expected {ORDERS}: unchanged where currency = 'USD' not judged yet" in told
    assert "until proven, 2 waves at once, expects something else" in told
    assert retcon("show", RUN, "--json").result["expectations"] == [{**expect[0], "verdict": None}]

    finding = Finding(slice="2026-01-03", text="7 → 8 rows where currency = 'USD', unchanged expected")
    verdict = Verdict(
        model=ORDERS,
        gate="expect",
        kind="expect",
        summary="1 slice changed where currency = 'USD'",
        findings=(finding,),
    )
    recorder.tell(ProvingBegan(), Judged(heads={}, slices=(), verdicts=(verdict,), totals={}))
    assert recorder.run.state is RunState.FAILED
    why, *lines = [" ".join(line.split()) for line in retcon("show", RUN).out.splitlines() if line.strip()][1:5]
    assert why == "why wrong rates"
    assert lines == [
        f"expected {ORDERS}: unchanged where currency = 'USD'",
        "✗ failed 1 slice changed where currency = 'USD'",
        "2026-01-03: 7 → 8 rows where currency = 'USD', unchanged expected",
    ]
    result = retcon("show", RUN, "--json").result
    assert result["reason"] == "wrong rates"
    assert result["expectations"][0]["verdict"]["holds"] is False
    recorder.tell(GateOverridden(model=ORDERS, gate="expect", reason="known"))
    assert "⊘ overridden" in retcon("show", RUN).out
