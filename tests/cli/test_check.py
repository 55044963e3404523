"""`retcon check`, and `retcon init` before it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Retcon

MODEL = """\
/* retcon
slices: {by: order_date, every: day}
inputs: {raw.orders: {time: order_date}}
*/
SELECT order_date, amount FROM raw.orders
"""


def put(root: Path, path: str, text: str) -> None:
    file = root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")


def test_models_are_listed_in_running_order(retcon: Retcon, bare: Path) -> None:
    answer = retcon("check")
    assert answer.code == 0
    assert answer.err == ""
    assert answer.out.startswith("bare  2 models, no problems")
    assert answer.out.index("1. mart.fct_orders_usd") < answer.out.index("2. mart.fct_daily_revenue")
    for told in ("raw.fx_rates by rate_date", "a slice per day of order_date, in waves", "unique", "exec_dashboard"):
        assert told in answer.out


def test_a_selector_narrows_the_list(retcon: Retcon, bare: Path) -> None:
    assert [m["name"] for m in retcon("check", "*daily*", "--json").result["models"]] == ["mart.fct_daily_revenue"]
    answer = retcon("check", "mart.fct_daily_revenu")
    assert answer.code == 1
    assert "did you mean mart.fct_daily_revenue?" in answer.err


def test_a_model_that_runs_slice_by_slice_says_why(retcon: Retcon, bare: Path) -> None:
    text = MODEL.replace("SELECT order_date, amount", "SELECT max(order_date) AS order_date, sum(amount) AS amount")
    put(bare, "models/mart/total.sql", text)
    answer = retcon("check", "mart.total")
    assert answer.code == 0
    assert "slice by slice: " in answer.out
    (model,) = retcon("check", "mart.total", "--json").result["models"]
    assert not model["in_waves"]
    assert model["slice_by_slice"]


def test_what_is_read_of_itself_and_of_the_past_is_shown(retcon: Retcon, bare: Path) -> None:
    (bare / "models" / "mart" / "total.sql").write_text(
        "/* retcon\nslices: {by: d}\ncolumns: {d: date, n: bigint}\nreplay: {order: sequential}\n"
        "inputs: {raw.s: {as_of: slice}, mart.total: {time: d, lookback: 1}}\n*/\n"
        "SELECT :start_date AS d, s.n + t.n AS n FROM raw.s s CROSS JOIN mart.total t\n"
    )
    shown = retcon("check", "mart.total")
    assert shown.code == 0, shown.err
    assert "slice by slice: it reads its previous slice" in shown.out
    assert "raw.s whole, as of the slice's end" in shown.out
    (model,) = retcon("check", "mart.total", "--json").result["models"]
    assert (model["order"], model["in_waves"]) == ("sequential", False)
    assert [i["as_of"] for i in model["inputs"]] == ["slice", None]


def test_keys_that_mean_nothing_are_told(retcon: Retcon, bare: Path) -> None:
    put(bare, "models/mart/idle.sql", MODEL.replace("*/", "replay: {reprocess: 3 days}\n*/"))
    answer = retcon("check", "--json")
    assert answer.code == 0, answer.err
    assert any("mart.idle: `replay.reprocess`: no input of it" in note for note in answer.result["notes"])


def test_schedules_are_shown_with_the_model_and_a_wrong_one_is_refused_with_its_line(
    retcon: Retcon, bare: Path
) -> None:
    keys = "schedule: '*/5 * * * *'\nreplay: {deep: '@monthly'}\n*/"
    put(bare, "models/mart/nightly.sql", MODEL.replace("*/", keys))
    answer = retcon("check", "mart.nightly")
    assert answer.code == 0, answer.err
    assert "loaded  */5 * * * *, compared as a whole @monthly" in answer.out
    (model,) = retcon("check", "mart.nightly", "--json").result["models"]
    assert (model["schedule"], model["deep"]) == ("*/5 * * * *", "@monthly")
    put(bare, "models/mart/nightly.sql", MODEL.replace("*/", keys.replace("*/5 *", "*/5 25")))
    answer = retcon("check")
    assert answer.code == 1
    assert "nightly.sql:4: `schedule` must be a cron, and the hour in `*/5 25 * * *` isn't one" in answer.err


def test_all_problems_are_listed_with_their_lines(retcon: Retcon, bare: Path) -> None:
    put(bare, "models/mart/one.sql", MODEL.replace("slices:", "slice:"))
    put(bare, "models/mart/two.sql", MODEL.replace("SELECT", "SELEC"))
    answer = retcon("check")
    assert answer.code == 1
    assert answer.out == ""
    assert answer.err.startswith("error: ")
    assert "models/mart/one.sql:2: unknown key `slice`" in answer.err
    assert "models/mart/two.sql:5: " in answer.err
    told = retcon("check", "--json").error
    assert told["code"] == "project"
    assert {(problem["path"], problem["line"]) for problem in told["problems"]} >= {
        ("models/mart/one.sql", 2),
        ("models/mart/two.sql", 5),
    }


def test_malformed_yaml_is_told_with_its_line(retcon: Retcon, bare: Path) -> None:
    (bare / "retcon.yaml").write_text("name: shop\ncatalog: {name: lake\nspark: ]\n")
    answer = retcon("check")
    assert answer.code == 1
    assert "retcon.yaml:3: " in answer.err
    assert "Traceback" not in answer.err


def test_a_project_without_models_is_fine(retcon: Retcon, bare: Path) -> None:
    for file in (bare / "models" / "mart").glob("*.sql"):
        file.unlink()
    answer = retcon("check")
    assert answer.code == 0
    assert "no models yet" in answer.out
    refused = retcon("plan", "--reason", "x")
    assert refused.code == 1
    assert "the project has no models" in refused.err


def test_names_and_values_may_be_quoted_or_foreign(retcon: Retcon, bare: Path) -> None:
    put(bare, "models/märt/umsätze_東京.sql", MODEL.replace("*/", 'description: "it\'s [bold]50%[/] :smile:"\n*/'))
    answer = retcon("check", "märt.*")
    assert answer.code == 0, answer.err
    assert "märt.umsätze_東京" in answer.out
    shown = retcon("show", "märt.umsätze_東京")
    assert "it's [bold]50%[/] :smile:" in shown.out


def test_init_writes_a_project_that_can_be_planned(
    retcon: Retcon, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    answer = retcon("init", "new shop")
    assert answer.code == 0, answer.err
    assert "models/mart/fct_daily_revenue.sql" in answer.out
    assert "cd 'new shop' && retcon check" in answer.out
    (command,) = [line.strip() for line in answer.out.splitlines() if line.strip().startswith("retcon plan")]
    assert command == "retcon plan 'mart.*' --start 2025-12-24 --end 2026-01-22 --reason 'first build'"
    monkeypatch.chdir(tmp_path / "new shop")
    planned = retcon("plan", "mart.*", "--start", "2025-12-24", "--end", "2026-01-22", "--reason", "first build")
    assert planned.code == 0, planned.err
    assert retcon("init", ".").code == 1


def test_init_leaves_a_folder_with_files_alone(retcon: Retcon, bare: Path) -> None:
    before = sorted(bare.rglob("*"))
    answer = retcon("init", str(bare), "--json")
    assert answer.code == 1
    assert answer.error["state"] == "nothing was written or overwritten"
    assert sorted(bare.rglob("*")) == before
