"""What variables hold in `catalog` and `spark.conf` stays out of everything that is written or printed."""

from __future__ import annotations

from pathlib import Path

import pytest

from retcon.wiring import Workspace
from tests.cli.conftest import Retcon
from tests.cli.shops import FIRST, LAST, ORDERS

SECRET = "s3cr3t-planted-here"


def test_a_planted_secret_is_found_nowhere(retcon: Retcon, shop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Without a warehouse the run breaks right after it began, and leaves a traceback.
    monkeypatch.setattr(Workspace, "warehouse", property(lambda _: object()))
    monkeypatch.setenv("PLANTED", SECRET)
    monkeypatch.setenv("FX_SOURCE", "ecb")
    path = shop / "retcon.yaml"
    text = path.read_text().replace("catalog:\n", 'catalog:\n  s3.session: "${PLANTED}"\n')
    text = text.replace("conf: {}", 'conf: {spark.shop.door: "${PLANTED}"}')
    path.write_text(text + 'params: {source: "${FX_SOURCE}"}\n')
    made = retcon("plan", ORDERS, "-s", str(FIRST), "-e", str(LAST), "--reason", "x", "--json")
    run = made.result["plan"]["id"]
    broken = retcon("apply", run)
    assert broken.code == 3
    shown = retcon("show", run)
    result = retcon("show", run, "--json").result
    assert result["applied"][0]["conf"] == {"spark.shop.door": "${PLANTED}"}
    assert result["parameters"] == made.result["plan"]["params"] == {"source": "ecb"}
    assert "source = 'ecb'" in shown.out
    said = "".join(part for answer in (made, broken, shown) for part in (answer.out, answer.err))
    assert SECRET not in said
    left = [file for file in shop.rglob("*") if file.is_file()]
    assert {"backfills", "logs", ".retcon"} <= {file.parent.name for file in left}
    assert [file for file in left if SECRET.encode() in file.read_bytes()] == []
