"""Loads: what changed in the inputs is found and brought in, and nothing else."""

from __future__ import annotations

import json
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from retcon.cli.main import run
from retcon.core.runs import RunState
from retcon.flow.apply import Until
from retcon.flow.load import Due
from tests.shops import Shop
from tests.spark.test_backfills import RECOMPUTED_ORDERS, RECOMPUTED_REVENUE

pytestmark = pytest.mark.spark

MODELS = ("mart.orders_usd", "mart.revenue")


def require_as_recomputed(shop: Shop) -> None:
    assert shop.production(MODELS[0]) == shop.rows(RECOMPUTED_ORDERS)
    assert shop.production(MODELS[1]) == shop.rows(RECOMPUTED_REVENUE)


def loaded(shop: Shop) -> dict[str, str]:
    """Load; the slices of each model that it covered."""
    made = shop.load()
    return {} if made is None else {planned.name: planned.slices.text for planned in made.plan.models}


def test_a_load_builds_what_is_new_and_restates_what_changed_and_nothing_else(shop: Shop) -> None:
    shop.open_doors()
    shop.remove(MODELS[1])
    first = shop.load()
    assert first is not None
    assert (first.kind, first.plan.slices) == ("load", 8)
    assert shop.due().plan is None
    shop.sql("INSERT INTO raw.orders VALUES (900, DATE '2026-01-03', 'EUR', 'late', 7)")
    assert loaded(shop) == {MODELS[0]: "2026-01-03"}
    # Rows that go are a change, too, and so is a rate; files that are written anew aren't.
    shop.sql("DELETE FROM raw.orders WHERE order_id = 4")
    shop.sql("UPDATE raw.rates SET rate = rate * 1.05 WHERE rate_date = DATE '2026-01-07'")
    shop.sql("CALL lake.system.rewrite_data_files(table => 'raw.orders', options => map('rewrite-all', 'true'))")
    assert loaded(shop) == {MODELS[0]: "2026-01-05, 2026-01-07"}
    assert shop.production(MODELS[0]) == shop.rows(RECOMPUTED_ORDERS)
    watermarks = shop.workspace.ledger.watermarks()
    now = {
        table: facts.snapshot_id
        for table in ("raw.orders", "raw.rates")
        if (facts := shop.workspace.tables.facts(table))
    }
    assert {key: w.mark.snapshot_id for key, w in watermarks.items()} == {(MODELS[0], t): s for t, s in now.items()}


def test_what_a_backfill_brought_in_is_not_loaded_again_and_readers_follow(shop: Shop) -> None:
    shop.open_for_business()
    assert loaded(shop) == {}
    shop.sql("INSERT INTO raw.orders VALUES (900, DATE '2026-01-03', 'EUR', 'late', 7)")
    shop.sql("INSERT INTO raw.orders VALUES (901, DATE '2026-01-05', 'USD', 'late', 7)")
    plan = shop.plan(start="2026-01-03", end="2026-01-03")
    assert any(
        "raw.orders changed since the last load for 2026-01-03 (1 slice): this plan" in note for note in plan.notes
    )
    shop.apply(plan)
    assert loaded(shop) == dict.fromkeys(MODELS, "2026-01-05")
    require_as_recomputed(shop)
    # A day that is there for orders and not for rates waits.
    shop.sql("INSERT INTO raw.orders VALUES (902, DATE '2026-01-09', 'USD', 'new', 7)")
    due = shop.due()
    assert (due.plan, due.found[0].waiting["raw.rates"].text, due.found[0].advances) == (None, "2026-01-09", ())
    shop.sql("INSERT INTO raw.rates VALUES (DATE '2026-01-09', 'USD', 1), (DATE '2026-01-09', 'EUR', 2)")
    assert loaded(shop) == dict.fromkeys(MODELS, "2026-01-09")
    require_as_recomputed(shop)
    assert loaded(shop) == {}


def test_a_rollback_puts_watermarks_back_and_holds_its_slices(shop: Shop) -> None:
    shop.open_for_business()
    shop.load()
    before = shop.workspace.ledger.watermarks()
    shop.sql("INSERT INTO raw.orders VALUES (900, DATE '2026-01-03', 'EUR', 'late', 7)")
    undone = shop.load()
    assert undone is not None
    assert shop.workspace.ledger.watermarks() != before
    shop.rollback(undone)
    assert {k: w.mark for k, w in shop.workspace.ledger.watermarks().items()} == {k: w.mark for k, w in before.items()}
    due = shop.due()
    assert due.plan is None
    assert due.found[0].held.text == "2026-01-03"
    assert due.found[0].advances == ()
    # Whatever else comes is loaded; what is held isn't forgotten.
    shop.sql("INSERT INTO raw.orders VALUES (901, DATE '2026-01-05', 'USD', 'late', 7)")
    assert loaded(shop) == dict.fromkeys(MODELS, "2026-01-05")
    assert shop.due().found[0].held.text == "2026-01-03"
    shop.backfill(start="2026-01-03", end="2026-01-03")
    require_as_recomputed(shop)
    assert loaded(shop) == {}


def test_a_load_that_broke_off_is_gone_on_with_and_its_watermarks_move_once(shop: Shop) -> None:
    shop.open_for_business()
    shop.load()
    shop.sql("INSERT INTO raw.orders VALUES (900, DATE '2026-01-03', 'EUR', 'late', 7)")
    due = shop.due()
    assert due.plan is not None
    shop.apply(due.plan, until=Until.STAGED)
    before = shop.workspace.ledger.watermarks()
    shop.close()
    loader = shop.workspace.loader
    unfinished = loader.unfinished(MODELS)
    assert unfinished is not None
    assert unfinished.id == due.plan.id
    assert shop.apply(unfinished.plan).state is RunState.PUBLISHED
    assert shop.workspace.ledger.watermarks() != before
    assert loader.unfinished(MODELS) is None
    require_as_recomputed(shop)


def test_the_page_about_loads_is_true_of_the_command_line(shop: Shop, capsys: pytest.CaptureFixture[str]) -> None:
    shop.open_for_business()
    shop.close()

    def retcon(*words: str, code: int = 0) -> Any:
        assert run([*words, "--project", str(shop.root), "--json"]) == code, capsys.readouterr().err
        return json.loads(capsys.readouterr().out).get("result")

    def differing() -> dict[str, str]:
        return {each["model"]: each["differ"] for each in retcon("plan", "--changed", "--reason", "x")["models"]}

    assert differing() == dict.fromkeys(MODELS, "")
    assert retcon("load")["runs"] == []
    shop.sql("INSERT INTO raw.orders VALUES (900, DATE '2026-01-03', 'EUR', 'late', 7)")
    shop.sql("INSERT INTO raw.orders VALUES (901, DATE '2026-01-06', 'EUR', 'late', 7)")
    shop.close()
    found = {each["model"]: each["stale"] for each in retcon("load", "--dry-run")["models"]}
    assert found == {MODELS[0]: "2026-01-03, 2026-01-06", MODELS[1]: ""}, "readers are in the plan"
    behind = {each["table"]: each["behind"] for each in retcon("watermarks")["watermarks"]}
    assert behind == {"raw.orders": 2, "raw.rates": 0, MODELS[0]: 0}
    assert retcon("plan", MODELS[0], "--why", "2026-01-03")["stale"]
    assert not retcon("plan", MODELS[0], "--why", "2026-01-04")["stale"]
    plan = retcon("plan", "--changed", "--reason", "x", "--dry-run")["plan"]
    assert [model["slices"] for model in plan["models"]] == ["2026-01-03, 2026-01-06"] * 2
    # A day of both models is all that one publish may hold: the backlog takes two, the oldest first.
    settings = shop.root / "retcon.yaml"
    settings.write_text(settings.read_text() + "limits: {slices: 2}\n")
    made = [shop.workspace.ledger.run(each["run"]) for each in retcon("load")["runs"]]
    covered = [[model.slices.text for model in each.plan.models] for each in made if each is not None]
    assert covered == [["2026-01-03"] * 2, ["2026-01-06"] * 2]
    shop.close()
    require_as_recomputed(shop)
    settings.write_text(settings.read_text().replace("limits: {slices: 2}\n", ""))
    # Set back, everything is compared, and nothing differs.
    retcon("watermarks", "reset", MODELS[0], "--reason", "a test")
    unset = [each["table"] for each in retcon("watermarks", MODELS[0])["watermarks"] if each["snapshot"] is None]
    assert unset == ["raw.orders", "raw.rates"]
    assert retcon("load")["runs"] == []
    assert all(each["behind"] == 0 for each in retcon("watermarks")["watermarks"])
    retcon("watermarks", "reset", MODELS[0], code=2)
    # A comment makes nothing stale, code makes everything so; loads follow inputs.
    shop.edit(MODELS[0], "SELECT o.order_id", "SELECT /* the order */ o.order_id")
    assert differing() == dict.fromkeys(MODELS, "")
    shop.edit(MODELS[0], "o.amount * r.rate", "o.amount * r.rate * 1.01")
    changed = retcon("plan", MODELS[0], "--changed", "--reason", "x", "--dry-run")["plan"]
    assert changed["models"][0]["slices"] == "2026-01-01..2026-01-08"
    assert retcon("load")["runs"] == []


def test_what_is_older_than_the_window_is_an_exception_until_somebody_decides(
    shop: Shop, capsys: pytest.CaptureFixture[str]
) -> None:
    shop.remove(MODELS[1])
    shop.edit(MODELS[0], "replay: {wave: 3}", "replay: {window: 17 days}")
    shop.open_doors()
    shop.load()
    ledger = shop.workspace.ledger
    for number, day in ((900, "2026-01-03"), (901, "2026-01-04"), (902, "2026-01-07")):
        shop.sql(f"INSERT INTO raw.orders VALUES ({number}, DATE '{day}', 'EUR', 'late', 7)")
    assert loaded(shop) == {MODELS[0]: "2026-01-07"}
    # The watermark passes what is published or on record.
    facts = shop.workspace.tables.facts("raw.orders")
    assert facts is not None
    assert ledger.watermarks()[MODELS[0], "raw.orders"].mark.snapshot_id == facts.snapshot_id
    assert shop.due() == Due(found=shop.due().found, plan=None)
    first, second = ledger.exceptions()
    assert (first.late.slice, second.late.slice) == ("2026-01-03", "2026-01-04")
    before, after = first.late.metrics["sum(amount_usd)"]
    assert first.late.rows == (12, 13)
    assert Decimal(before or 0) < Decimal(after or 0)
    assert first.late.because_of == ("raw.orders",)

    # More of it: the same exception, seen again. Nothing new: nothing is recorded, though everything is compared.
    shop.now += timedelta(minutes=5)
    shop.sql("INSERT INTO raw.orders VALUES (903, DATE '2026-01-03', 'EUR', 'later', 7)")
    assert loaded(shop) == {}
    again = ledger.exceptions()[0]
    assert (again.entry, again.first_seen, again.late.rows) == (first.entry, first.first_seen, (12, 14))
    assert again.last_seen > first.last_seen
    shop.close()

    def retcon(*words: str, code: int = 0) -> Any:
        assert run([*words, "--project", str(shop.root), "--json"]) == code
        return json.loads(capsys.readouterr().out).get("result")

    retcon("watermarks", "reset", MODELS[0], "--reason", "a test")
    assert [late["slice"] for late in retcon("exceptions")["exceptions"]] == ["2026-01-03", "2026-01-04"]
    retcon("exceptions", "reject", MODELS[0], "2026-01-04", "--reason", "x", code=2)
    retcon("exceptions", "reject", MODELS[0], "2026-01-05", "--by", "cfo", "--reason", "x", code=1)
    (rejected,) = retcon("exceptions", "reject", MODELS[0], "2026-01-04", "--by", "cfo", "--reason", "audited")[
        "exceptions"
    ]
    assert (rejected["state"], rejected["by"], rejected["reason"]) == ("rejected", "cfo", "audited")
    assert retcon("load")["runs"] == []
    assert len(retcon("exceptions")["exceptions"]) == 1
    never = retcon("exceptions", "approve", MODELS[0], "--by", "cfo", "--reason", "from the bank")["plan"]
    assert retcon("exceptions")["exceptions"] == []
    assert run(["exceptions", "--project", str(shop.root)]) == 0
    assert f"approved, not begun yet (mart.orders_usd 2026-01-03): retcon apply {never['id']}" in " ".join(
        capsys.readouterr().out.split()
    )
    # A plan that nobody applied, or that is lost, is in nobody's way.
    plan = retcon("exceptions", "approve", MODELS[0], "--by", "cfo", "--reason", "by the bank")["plan"]
    assert [m["slices"] for m in plan["models"]] == ["2026-01-03"]
    retcon("apply", plan["id"])
    found = {
        late["slice"]: (late["state"], late["by"], late["plan"]) for late in retcon("exceptions", "--all")["exceptions"]
    }
    assert found == {"2026-01-03": ("restated", "cfo", plan["id"]), "2026-01-04": ("rejected", "cfo", None)}
    retcon("rollback", plan["id"], "--reason", "not yet")
    assert [late["slice"] for late in retcon("exceptions")["exceptions"]] == ["2026-01-03"]
    assert retcon("load")["runs"] == []
