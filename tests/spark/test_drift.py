"""An unusual day warns, other systems are told, and rows that a watermark passed are found, repaired, written down."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from typing import Any

import pytest

from retcon.cli.main import run
from retcon.core.watermarks import Advance
from tests.shops import Shop

pytestmark = pytest.mark.spark

MODEL, SOURCE = "mart.orders_usd", "raw.orders"


def test_as_a_person_would_live_through_it(shop: Shop, capsys: pytest.CaptureFixture[str]) -> None:
    def retcon(*words: str, code: int = 0) -> Any:
        shop.close()
        assert run([*words, "--project", str(shop.root), "--json"]) == code, capsys.readouterr().err
        return json.loads(capsys.readouterr().out)["result"]

    def told() -> list[dict[str, Any]]:
        return [json.loads(line) for line in (shop.root / "told").read_text().splitlines()]

    shop.open_for_business()
    (shop.root / "tell.py").write_text("import sys; open('told', 'a').write(sys.stdin.read() + '\\n')")
    settings = shop.root / "retcon.yaml"
    hook = f'watermark_hooks: {{board: {{models: [{MODEL}], command: ["{sys.executable}", "tell.py"]}}}}\n'
    settings.write_text(settings.read_text() + hook)
    shop.edit(MODEL, "  - unique: key\n", "  - unique: key\n  - rows: {name: usual, history: 4, warn: true}\n")
    shop.edit(MODEL, "replay: {wave: 3}", "replay: {wave: 40}")
    # Four weeks before the first of January, a Thursday.
    first_day = "date_add(DATE '2025-12-04', CAST(id % 28 AS INT))"
    shop.sql(f"INSERT INTO {SOURCE} SELECT 500 + id, {first_day}, 'USD', 'c', 10 FROM range({28 * 12})")
    shop.sql(f"INSERT INTO raw.rates SELECT {first_day}, 'USD', 1 FROM range(21)")
    result = retcon("load")
    [first], warnings = result["runs"], result["warnings"]
    assert warnings == []
    [usual] = [v for v in retcon("show", first["run"])["verdicts"] if v["gate"] == "usual"]
    assert (usual["passed"], usual["warning"]) == (True, False)
    assert usual["summary"] == "336 rows in 28 slices, 28 with too little history to compare"
    assert {(d["cause"], d["run"], d["input"]) for d in told()} == {
        ("load", first["run"], SOURCE),
        ("load", first["run"], "raw.rates"),
    }

    # Three more orders than any Thursday had: published, and told.
    shop.sql(f"INSERT INTO {SOURCE} SELECT 900 + id, DATE '2026-01-01', 'USD', 'late', 0.01 FROM range(3)")
    result = retcon("load")
    [second], [usual] = result["runs"], result["warnings"]
    assert second["state"] == "published"
    assert (usual["gate"], usual["passed"], usual["warning"]) == ("usual", True, True)
    assert usual["findings"] == [
        {"slice": "2026-01-01", "text": "15 rows, 10 to 14 expected: median 12 of 4 earlier Thursdays"}
    ]
    assert [d["run"] for d in told()][2:] == [second["run"]]

    # A late order, and a watermark that somebody led past it.
    shop.sql(f"INSERT INTO {SOURCE} VALUES (950, DATE '2026-01-05', 'USD', 'later', 7)")
    ledger = shop.workspace.ledger
    facts = shop.workspace.tables.facts(SOURCE)
    assert facts is not None
    mark = ledger.watermarks()[MODEL, SOURCE].mark
    step = Advance(mark=replace(mark, snapshot_id=facts.snapshot_id), after=ledger.movements()[MODEL, SOURCE])
    ledger.move_watermarks([step], is_set=True, why="copied", at=shop.now, who="ada")
    assert retcon("load")["runs"] == []
    assert told()[-1]["why"] == "copied", "what nobody told is told by the next load"
    found = retcon("doctor", "--watermarks", code=1)
    [drift] = [each for each in found["models"][0]["inputs"] if each["slices"]]
    assert (drift["table"], drift["slices"]) == (SOURCE, "2026-01-05")
    assert [(c["rows_added"], c["rows_removed"], c["passed_by"]["why"]) for c in drift["commits"]] == [(1, 0, "copied")]

    plan = retcon("plan", MODEL, "--changed", "--reason", "rows that were passed by")["plan"]["id"]
    retcon("apply", plan)
    assert retcon("doctor", "--watermarks")["drifted"] is False
    text = retcon("postmortem", MODEL, "--run", plan)["markdown"]
    assert f"1 slice of {MODEL} (2026-01-05): corrected by run {plan}" in text
    assert "| 2026-01-05 | 12 | 13 | +8.33% |" in text
    assert "ada: copied" in text
    assert "- board (dashboard of cfo)" in text
