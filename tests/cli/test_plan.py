"""`retcon plan` and `retcon render`: from what was typed to what is written, and every way to be refused."""

from __future__ import annotations

import re
import shlex
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest
import yaml

from retcon.cli.json_output import plan_result
from retcon.cli.plan import with_command
from retcon.core.keys import Keys
from retcon.core.plans import Version
from retcon.wiring import Workspace, write_project
from tests.cli.conftest import Records, Retcon
from tests.cli.shops import FIRST, LAST, ORDERS, REVENUE, days, make_sources
from tests.core.test_plans import a_plan

RANGE = ("--start", str(FIRST), "--end", str(LAST))
WHY = ("--reason", "wrong rates")


def files(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def written(root: Path) -> list[Path]:
    return sorted((root / "backfills").glob("*.yaml"))


def test_a_plan_is_printed_and_written(retcon: Retcon, shop: Path) -> None:
    answer = retcon("plan", "mart.*", *RANGE, "--reason", "it's 50% off [bold]", "--wave", "4")
    assert answer.code == 0, answer.err
    (path,) = written(shop)
    for told in (
        f"Plan  {path.stem}",
        "it's 50% off [bold]",
        "2026-01-01 to 2026-01-10, both included (10 days)",
        "[2026-01-01T00:00:00Z, 2026-01-11T00:00:00Z) UTC",
        "exec_dashboard (dashboard of exec-ops)",
        "20 of at most 5,000 slices; 6 waves",
        "both tables in one transaction of the catalog's database",
        f"backfills/{path.name}",
        f"retcon apply {path.stem}",
    ):
        assert told in answer.out
    assert not any(line != line.rstrip() for line in answer.out.splitlines())


def test_the_file_and_the_json_hold_the_same_plan(retcon: Retcon, shop: Path) -> None:
    result = retcon("plan", "mart.*", *RANGE, *WHY, "--json").result
    (path,) = written(shop)
    assert result["file"] == str(path)
    document = yaml.safe_load(path.read_text())
    for model in document["models"]:
        for each in model["inputs"]:
            each["snapshot"] = None if each["snapshot"] is None else str(each["snapshot"])
    assert result["plan"] == document
    assert document["request"]["models"] == [ORDERS, REVENUE]


def test_the_command_asks_for_the_same_plan_again(retcon: Retcon, shop: Path) -> None:
    first = retcon("plan", "+*daily*", "--reason", "it's", "--wave", "3", "--no-downstream", "--json").result["plan"]
    command = shlex.split(first["request"]["command"])
    assert command[:4] == ["retcon", "plan", ORDERS, REVENUE]
    again = retcon(*command[1:], "--json").result["plan"]
    assert again["request"] == first["request"]
    assert again["models"] == first["models"]
    assert again["id"] != first["id"]


def test_a_dry_run_leaves_no_trace(retcon: Retcon, shop: Path) -> None:
    before = files(shop)
    answer = retcon("plan", "mart.*", *RANGE, *WHY, "--dry-run")
    assert answer.code == 0
    assert "nothing: this was a dry run" in answer.out
    assert retcon("plan", "mart.*", *RANGE, *WHY, "--dry-run", "--json").result["file"] is None
    assert files(shop) == before


def test_where_nothing_was_made_yet_a_plan_makes_no_database(retcon: Retcon, bare: Path) -> None:
    answer = retcon("plan", ORDERS, *RANGE, *WHY)
    assert answer.code == 1
    assert f"{ORDERS} reads raw.orders, and the catalog has no such table" in answer.err
    assert not (bare / ".retcon").exists()


def test_selectors_come_as_arguments_or_options(retcon: Retcon, shop: Path) -> None:
    by_option = retcon("plan", "--select", "mart.*", "--exclude", REVENUE, *RANGE, *WHY, "--json").result["plan"]
    assert by_option["request"]["models"] == [ORDERS]
    assert by_option["outside"] == [{"model": REVENUE, "why": "never published; select it to include it"}]
    assert retcon("plan", "mart.*", "--exclude", "mart.*", *RANGE, *WHY).code == 1


def test_without_dates_the_inputs_decide(retcon: Retcon, shop: Path) -> None:
    request = retcon("plan", "mart.*", *WHY, "--json").result["plan"]["request"]
    assert (request["start"], request["end"]) == (str(FIRST), str(LAST))


@pytest.mark.parametrize(
    ("argv", "code", "message", "advice"),
    [
        ([ORDERS, "-s", "2026-01-10", "-e", "2026-01-01", *WHY], 2, "--end 2026-01-01 is before --start", "swap them"),
        ([ORDERS, "-s", "2026-01-01", "-e", "2999-01-01", *WHY], 2, "--end 2999-01-01 is in the future", "--end 20"),
        ([ORDERS, "-s", "2026-02-30", *WHY], 2, "--start: there is no 2026-02-30", "is 2026-02-28"),
        ([ORDERS, "-e", "tomorrow", *WHY], 2, "--end: 'tomorrow' is not a date", "YYYY-MM-DD"),
        (["mart.fct_order_usd", *RANGE, *WHY], 1, "no model matches 'mart.fct_order_usd'", f"did you mean {ORDERS}?"),
        (["tag:finance", *RANGE, *WHY], 1, "no model matches 'tag:finance'", "`retcon check` lists"),
        ([ORDERS, *RANGE], 2, "a plan needs a reason", "--reason"),
        ([ORDERS, *RANGE, "--reason", "  "], 2, "a plan needs a reason", "--reason"),
        ([REVENUE, *RANGE, *WHY], 1, f"{REVENUE} reads {ORDERS}, which was never published", f"+{REVENUE}"),
        ([ORDERS, *RANGE, *WHY, "--wave", "0"], 2, "invalid value for `--wave`", "retcon plan --help"),
        (["--refresh", "nope"], 1, "there is no plan nope", "retcon plan"),
        ([ORDERS, "--refresh", "nope"], 2, "--refresh asks for what the earlier plan asked for", "leave out"),
    ],
)
def test_what_cant_be_planned_is_refused_with_advice(
    retcon: Retcon, shop: Path, argv: list[str], code: int, message: str, advice: str
) -> None:
    answer = retcon("plan", *argv)
    assert answer.code == code
    assert answer.out == ""
    assert f"error: {message}" in answer.err
    assert advice in answer.err.partition("next: ")[2]
    assert written(shop) == []
    assert message in retcon("plan", *argv, "--json").error["message"]


def test_holes_in_a_source_are_listed_and_refused_unless_allowed(
    retcon: Retcon, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "holes"
    write_project(root, "shop")
    make_sources(root, orders=[day for day in days() if day.day not in (3, 4, 7)])
    monkeypatch.chdir(root)
    answer = retcon("plan", ORDERS, *RANGE, *WHY)
    assert answer.code == 1
    assert "raw.orders has no data for 2026-01-03..2026-01-04, 2026-01-07 (3 slices)" in answer.err
    assert "state: no plan was written" in answer.err
    allowed = retcon("plan", ORDERS, *RANGE, *WHY, "--allow-missing-source")
    assert allowed.code == 0
    assert "2026-01-03..2026-01-04, 2026-01-07" in allowed.out
    (path,) = written(root)
    assert "--allow-missing-source" in yaml.safe_load(path.read_text())["request"]["command"]


def test_a_table_thats_nearly_named_right_is_suggested(retcon: Retcon, shop: Path) -> None:
    model = shop / "models" / "mart" / "fct_orders_usd.sql"
    model.write_text(model.read_text().replace("raw.orders", "raw.order"))
    answer = retcon("plan", ORDERS, *RANGE, *WHY)
    assert answer.code == 1
    assert "reads raw.order, and the catalog has no such table" in answer.err
    assert "did you mean raw.orders?" in answer.err


def test_an_unknown_column_is_told_with_the_file(retcon: Retcon, shop: Path) -> None:
    model = shop / "models" / "mart" / "fct_orders_usd.sql"
    model.write_text(model.read_text().replace("o.customer_id", "o.custommer_id"))
    answer = retcon("plan", ORDERS, *RANGE, *WHY)
    assert answer.code == 1
    assert "models/mart/fct_orders_usd.sql" in answer.err
    assert "custommer_id" in answer.err
    assert retcon("plan", ORDERS, *RANGE, *WHY, "--json").error["code"] == "project"


def test_a_plan_over_the_limits_is_refused(retcon: Retcon, shop: Path) -> None:
    settings = shop / "retcon.yaml"
    settings.write_text(settings.read_text().replace("slices: 5000", "slices: 9"))
    answer = retcon("plan", ORDERS, *RANGE, *WHY)
    assert answer.code == 1
    assert "10 slices, at most 9 allowed" in answer.err


def test_a_slice_that_isnt_over_is_marked_open(retcon: Retcon, shop: Path) -> None:
    today = datetime.now(UTC).date()
    answer = retcon("plan", ORDERS, "-s", str(today), "-e", str(today), *WHY, "--allow-missing-source", "--dry-run")
    assert answer.code == 0, answer.err
    assert f"open: {today}" in answer.out


def test_refreshing_asks_again_under_a_new_id(retcon: Retcon, shop: Path) -> None:
    assert retcon("plan", "mart.*", *RANGE, *WHY).code == 0
    (first,) = written(shop)
    again = retcon("plan", "--refresh", f"backfills/{first.name}", "--json").result["plan"]
    assert again["id"] != first.stem
    assert again["reason"] == "wrong rates"
    assert again["request"]["refreshes"] == first.stem
    assert again["request"]["models"] == [ORDERS, REVENUE]
    renamed = retcon("plan", "--refresh", first.stem, "--reason", "mended")
    assert f"renews  {first.stem}" in renamed.out
    assert "mended" in renamed.out


def test_refreshing_works_from_the_ledger_where_the_file_is_gone(retcon: Retcon, shop: Path, recorded: Records) -> None:
    run = recorded().stage().prove().publish().roll_back().run
    again = retcon("plan", "--refresh", f"backfills/{run.id}.yaml", "--json").result["plan"]
    assert again["request"]["refreshes"] == run.id
    assert again["reason"] == run.plan.reason


@pytest.mark.slow
def test_ten_thousand_slices_are_planned(retcon: Retcon, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = tmp_path / "long"
    write_project(root, "shop")
    settings = root / "retcon.yaml"
    without_retention = re.sub(r"keeps: [^}]*", "", settings.read_text())
    settings.write_text(without_retention.replace("slices: 5000", "slices: 20000"))
    first, last = date(1998, 1, 1), date(1998, 1, 1) + timedelta(days=9_999)
    make_sources(root, orders=days(first, last), by_day=False)
    monkeypatch.chdir(root)
    answer = retcon("plan", ORDERS, "-s", str(first), "-e", str(last), *WHY, "--wave", "1")
    assert answer.code == 0, answer.err
    assert "10,000 of at most 20,000 slices; 10,000 waves" in answer.out
    (path,) = written(root)
    assert len(Workspace(root).read_plan(path.stem).models[0].waves) == 10_000


def test_render_shows_views_and_the_text_over_them(retcon: Retcon, shop: Path) -> None:
    answer = retcon("render", ORDERS, "--start", "2026-01-02", "--end", "2026-01-04")
    assert answer.code == 0
    snapshot = Workspace(shop).tables.facts("raw.orders")
    assert snapshot is not None
    assert answer.out.startswith(f"-- {ORDERS}: 2026-01-02..2026-01-04 (3 slices)\n")
    assert f"SELECT * FROM `lake`.`raw`.`orders` VERSION AS OF {snapshot.snapshot_id}\n" in answer.out
    assert "WHERE (`order_date` >= DATE '2026-01-02' AND `order_date` < DATE '2026-01-05');" in answer.out
    assert "FROM `retcon_raw_orders` o\nJOIN `retcon_raw_fx_rates` r" in answer.out
    assert answer.out.endswith("AND r.currency = o.currency\n")


def test_render_without_dates_shows_yesterday(retcon: Retcon, shop: Path) -> None:
    yesterday = (datetime.now(UTC) - timedelta(days=1)).date()
    assert retcon("render", ORDERS, "--json").result["slices"] == str(yesterday)
    assert retcon("render", ORDERS, "--start", "2026-01-03", "--json").result["slices"] == "2026-01-03"
    assert retcon("render", ORDERS, "--end", "2026-01-03", "--json").result["slices"] == "2026-01-03"


def test_render_shows_bound_values_lookback_and_slice_by_slice(retcon: Retcon, shop: Path) -> None:
    (shop / "models" / "mart" / "moving.sql").write_text(
        "/* retcon\nslices: {by: order_date, every: day}\n"
        "inputs: {raw.orders: {time: order_date, lookback: 6}}\n*/\n"
        "SELECT max(order_date) AS order_date, sum(amount) AS amount, :start_date AS since, :run_ts AS at "
        "FROM raw.orders\n"
    )
    answer = retcon("render", "mart.moving", "-s", "2026-01-08", "-e", "2026-01-10")
    assert answer.code == 0, answer.err
    assert "-- the first of 3 jobs, slice by slice: " in answer.out
    assert "`order_date` >= DATE '2026-01-02' AND `order_date` < DATE '2026-01-09'" in answer.out
    assert "-- bound: :start_date = DATE '2026-01-08'" in answer.out
    assert "the moment when staging begins" in answer.out
    assert "of the result, `order_date` IN (DATE '2026-01-08') is kept" in answer.out
    result = retcon("render", "mart.moving", "-s", "2026-01-08", "-e", "2026-01-10", "--json").result
    assert result["jobs"] == 3
    assert result["parameters"]["start_date"] == "2026-01-08"
    assert result["parameters"]["run_ts"].endswith("Z")


def test_render_shows_all_slices_of_rows_that_may_move_in_one_job(retcon: Retcon, shop: Path) -> None:
    (shop / "models" / "mart" / "merged.sql").write_text(
        "/* retcon\nslices: {by: order_date, every: day}\nstrategy: merge\nkey: [order_id]\nreplay: {wave: 2}\n"
        "inputs: {raw.orders: {time: order_date}}\n*/\nSELECT order_id, order_date FROM raw.orders\n"
    )
    answer = retcon("render", "mart.merged", "-s", "2026-01-02", "-e", "2026-01-05")
    assert answer.out.startswith("-- mart.merged: 2026-01-02..2026-01-05 (4 slices)\n")
    assert "the first of" not in answer.out


def test_render_works_before_any_table_is_there(retcon: Retcon, bare: Path) -> None:
    answer = retcon("render", REVENUE, "--start", "2026-01-02")
    assert answer.code == 0
    assert f"-- {ORDERS} isn't in the catalog yet; planned together, it is read from the run's own branch" in answer.out
    assert retcon("render", "mart.nope").code == 1
    assert retcon("render", REVENUE, "--start", "2999-01-01").code == 2


def test_keys_are_echoed_in_the_plan_its_command_and_its_page(retcon: Retcon, shop: Path) -> None:
    answer = retcon("plan", ORDERS, *RANGE, "--keys", "customer_id=17,42", *WHY)
    assert answer.code == 0, answer.err
    assert "2 of customer_id: 17, 42" in answer.out
    assert "whole slices are recomputed: none of its inputs says which column carries the entity" in answer.out
    (path,) = written(shop)
    document = yaml.safe_load(path.read_text())
    assert document["keys"] == {"column": "customer_id", "count": 2, "values": ["17", "42"]}
    assert "--keys customer_id=17,42" in document["request"]["command"]
    again = retcon("plan", "--refresh", path.stem, "--json").result["plan"]
    assert again["keys"] == document["keys"]
    both = retcon("plan", ORDERS, "--keys", "customer_id=17", "--keys-from", "x.csv", *WHY)
    assert both.code == 2
    assert "--keys and --keys-from were both given" in both.err


def test_many_keys_that_were_typed_are_typed_again(retcon: Retcon, shop: Path) -> None:
    typed = "customer_id=" + ",".join(map(str, range(300)))
    answer = retcon("plan", ORDERS, *RANGE, "--keys", typed, *WHY, "--json")
    assert answer.code == 0, answer.err
    assert f"--keys {typed} " in answer.result["plan"]["request"]["command"]


def test_a_reader_that_was_excluded_stays_out_when_the_plan_is_renewed(retcon: Retcon, recorded: Records) -> None:
    recorded().stage().prove().publish()
    made = retcon("plan", ORDERS, *RANGE, "--exclude", REVENUE, *WHY, "--json").result["plan"]
    assert f"--exclude {REVENUE} " in made["request"]["command"]
    again = retcon("plan", "--refresh", made["id"], "--json").result["plan"]
    assert again["request"]["exclude"] == [REVENUE]


@pytest.mark.parametrize(
    "keys",
    [Keys(column="id", count=300, digest="x"), *(Keys(column="id", count=1, values=(v,)) for v in ("a,b", "a "))],
)
def test_the_command_of_keys_that_can_not_be_typed_renews_the_plan_that_has_them(keys: Keys) -> None:
    plan = a_plan()
    made = with_command(replace(plan, keys=keys, request=replace(plan.request, refreshes="20260122_m_k3f9")))
    assert made.request.command.startswith("retcon plan --refresh backfills/20260122_m_k3f9.yaml --reason ")


def test_every_snapshot_in_the_json_is_text_since_many_readers_know_numbers_of_53_bits_only() -> None:
    plan = a_plan()
    model, big = plan.models[0], 2**62 + 1
    past = replace(model.inputs[0], versions=(Version(slices=model.slices, snapshot_id=big),))
    document = plan_result(replace(plan, models=(replace(model, inputs=(past,)),)), None)["plan"]
    read = document["models"][0]["inputs"][0]
    assert isinstance(read["snapshot"], str)
    assert read["as_of"][0]["snapshot"] == str(big)


# ── runs in the way ───────────────────────────────────────────────────────────────────────────────────────────────


def test_a_run_in_the_way_refuses_a_plan_and_is_shown_by_a_dry_run(
    retcon: Retcon, shop: Path, recorded: Records
) -> None:
    first = recorded().stage(waves=1).run.id
    asked = ("plan", ORDERS, "--start", "2026-01-09", "--end", "2026-01-10", "--reason", "x")
    answer = retcon(*asked, "--json")
    assert answer.code == 1
    assert answer.error["code"] == "conflict"
    assert f"run {first} is under way over the same slices, {ORDERS} 2026-01-09..2026-01-10" in answer.error["message"]
    assert answer.error["message"].endswith("staging, 8 of 20 slices staged, nobody runs it now")
    for way_out in (f"retcon apply {first}", f"retcon cancel {first}", "--force"):
        assert way_out in answer.error["next"]
    assert not list((shop / "backfills").glob("*.yaml"))
    shown = retcon(*asked, "--dry-run")
    assert shown.code == 0
    assert f"run {first} (staging, 8 of 20 slices staged" in " ".join(shown.out.split())


def test_a_forced_plan_is_written_with_its_flag_and_its_note(retcon: Retcon, shop: Path, recorded: Records) -> None:
    first = recorded().stage(waves=1).run.id
    answer = retcon("plan", ORDERS, "--start", str(FIRST), "--end", str(FIRST), "--force", "--reason", "x", "--json")
    assert answer.code == 0, answer.err
    plan = answer.result["plan"]
    assert plan["request"]["force"] is True
    assert " --force " in plan["request"]["command"]
    assert first in plan["notes"][0]
    # It was about the runs of then: a renewed plan is asked again.
    renewed = retcon("plan", "--refresh", plan["id"])
    assert renewed.code == 1
    assert f"run {first} is under way" in renewed.err


def test_a_plan_of_another_environment_is_in_nobodys_way(retcon: Retcon, shop: Path, recorded: Records) -> None:
    with (shop / "retcon.yaml").open("a") as settings:
        settings.write("environments: {staging: {prefix: staging_}}\n")
    recorded().stage(waves=1)
    assert retcon("plan", "mart.*", "--env", "staging", "--reason", "x").code == 0


EXPECT = "{metric: sum(amount_usd), change: {from: -3%, to: 1%}, where: currency <> 'USD', unchanged: currency = 'USD'}"


def test_what_is_expected_is_written_shown_and_kept_by_a_refresh(retcon: Retcon, shop: Path) -> None:
    answer = retcon("plan", ORDERS, *RANGE, *WHY, "--expect", EXPECT)
    assert answer.code == 0, answer.err
    told = " ".join(answer.out.split())
    assert f"expected {ORDERS}: sum(amount_usd) -3.00% to +1.00% where currency <> 'USD'" in told
    (path,) = written(shop)
    document = yaml.safe_load(path.read_text())
    assert document["expect"] == [{"model": ORDERS, **yaml.safe_load(EXPECT)}]
    # The command asks for the same again.
    words = shlex.split(document["request"]["command"])
    assert yaml.safe_load(words[words.index("--expect") + 1]) == document["expect"][0]
    renewed = retcon("plan", "--refresh", path.stem, "--json").result["plan"]
    assert {**renewed["expect"][0], "additive": None} == {**document["expect"][0], "additive": None}
    other = retcon("plan", "--refresh", path.stem, "--expect", "{unchanged: currency = 'EUR'}", "--json").result["plan"]
    assert other["expect"] == [{"model": ORDERS, "unchanged": "currency = 'EUR'"}]


def test_what_cant_be_expected_is_refused_before_anything_is_written(retcon: Retcon, shop: Path) -> None:
    answer = retcon("plan", ORDERS, *RANGE, *WHY, "--expect", "{unchanged: curency = 'USD'}")
    assert answer.code == 1
    assert "`expect.unchanged` is about curency" in answer.err
    assert "did you mean currency?" in answer.err
    answer = retcon("plan", ORDERS, *RANGE, *WHY, "--expect", "{unchanged: rand() < 1}")
    assert answer.code == 1
    assert "varies" in answer.err
    assert written(shop) == []


def test_a_job_reads_more_where_the_settings_tell_of_many_cores(tmp_path: Path) -> None:
    for master, read in (("local[2]", 4), ("local[8]", 8), ("spark://host:7077", 4)):
        root = tmp_path / master.replace("/", "")
        write_project(root, "shop", master=master)
        assert Workspace(root).planner._wave_bytes == read * 2**30
