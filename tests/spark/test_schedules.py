"""Loads on schedule, as a scheduler calls them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from retcon.cli.main import run
from retcon.core.watermarks import Advance, Mark
from tests.shops import Shop
from tests.spark.test_loads import MODELS, require_as_recomputed

pytestmark = pytest.mark.spark


def test_what_is_due_is_loaded_once_and_a_deep_load_finds_what_watermarks_passed(
    shop: Shop, capsys: pytest.CaptureFixture[str]
) -> None:
    shop.open_for_business()
    shop.edit(MODELS[0], "replay: {wave: 3}", 'replay: {wave: 3, deep: "0 0 1 1 *"}\nschedule: "0 0 1 1 *"')

    def retcon(*words: str) -> Any:
        shop.close()
        assert run([*words, "--project", str(shop.root), "--json"]) == 0, capsys.readouterr().err
        return json.loads(capsys.readouterr().out)["result"]

    def covered(result: Any) -> list[list[str]]:
        runs = [shop.workspace.ledger.run(each["run"]) for each in result["runs"]]
        return [[planned.slices.text for planned in each.plan.models] for each in runs if each is not None]

    assert [each["overdue"] for each in retcon("schedule")["schedules"]] == [True, True]
    shop.sql("INSERT INTO raw.orders VALUES (900, DATE '2026-01-03', 'EUR', 'late', 7)")
    first = retcon("load", "--due")
    assert [(each["model"], each["kind"]) for each in first["due"]] == [(MODELS[0], "load"), (MODELS[0], "deep")]
    assert covered(first) == [["2026-01-03", "2026-01-03"]], "and its reader, which has no schedule"
    assert (first["models"][0]["compared"], first["models"][0]["differ"]) == (8, {"raw.orders": "2026-01-03"})
    again = retcon("load", "--due")
    assert (again["due"], again["runs"]) == ([], [])
    assert not any(each["overdue"] for each in retcon("schedule")["schedules"])
    # A change that the watermark has passed by mistake: loads don't see it, a deep one does.
    shop.sql("INSERT INTO raw.orders VALUES (901, DATE '2026-01-06', 'EUR', 'late', 7)")
    ledger, facts = shop.workspace.ledger, shop.workspace.tables.facts("raw.orders")
    assert facts is not None
    key = (MODELS[0], "raw.orders")
    mark = Mark(model=key[0], input=key[1], table=key[1], uuid=facts.uuid, snapshot_id=facts.snapshot_id)
    passed = [Advance(mark=mark, after=ledger.movements()[key])]
    ledger.move_watermarks(passed, is_set=True, why="a mistake", at=shop.now, who="ada")
    assert retcon("load")["runs"] == []
    deep = retcon("load", "--deep")
    assert covered(deep) == [["2026-01-06", "2026-01-06"]]
    assert {each["model"]: each["differ"] for each in deep["models"]} == {
        MODELS[0]: {"raw.orders": "2026-01-06"},
        MODELS[1]: {},
    }
    require_as_recomputed(shop)
    fresh = {each["model"]: each["freshness"] for each in retcon("status")["models"]}
    assert [fresh[model]["complete_up_to"] for model in MODELS] == ["2026-01-08", "2026-01-08"]
