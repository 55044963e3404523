"""The page on environments, typed as it is printed."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from retcon.cli.main import run
from retcon.wiring import Workspace

pytestmark = pytest.mark.spark

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "environments.md"
REVENUE = "mart.fct_daily_revenue"


def blocks() -> Iterator[tuple[str, str]]:
    """The fenced blocks of the page, each with its language."""
    for found in re.finditer(r"^```(\w+)\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL):
        yield found[1], found[2]


class Reader:
    """Somebody who follows the page to the letter."""

    def __init__(self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
        self._capsys = capsys
        self._monkeypatch = monkeypatch
        self.plans: list[str] = []
        self.told = ""

    def type(self, line: str) -> None:
        words = shlex.split(line.replace("<id>", self.plans[-1] if self.plans else ""))
        if words[0] == "cd":
            self._monkeypatch.chdir(words[1])
            return
        self._capsys.readouterr()
        code = run(words[1:])
        self.told, err = self._capsys.readouterr()
        assert code == 0, f"{line}: {err}"
        if words[1] == "plan":
            self.plans.append(Path(re.findall(r"backfills/(\w+)\.yaml", self.told)[0]).name)

    def json(self, *words: str) -> Any:
        self._capsys.readouterr()
        assert run([*words, "--json"]) == 0
        return json.loads(self._capsys.readouterr().out)["result"]


def test_the_page_on_environments_works_as_it_is_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    reader = Reader(capsys, monkeypatch)
    settings = next(text for language, text in blocks() if language == "yaml")
    declared = settings[settings.index("environments:") :]
    for language, text in blocks():
        if language == "sql":
            path = Path("models/mart/fct_orders_usd.sql")
            path.write_text(path.read_text().rstrip() + "\n" + text)
        if language != "sh":
            continue
        for line in text.splitlines():
            if "--env" in line and declared not in Path("retcon.yaml").read_text():
                with Path("retcon.yaml").open("a") as file:
                    file.write(declared)
            reader.type(line)
            if line.startswith("retcon apply") and len(reader.plans) == 2:
                built = reader.json("diff", REVENUE, "--env", "staging")
                assert (built["same"], built["same_code"]) == (True, True)
    _, second, third, _ = reader.plans
    workspace = Workspace(tmp_path / "shop")
    count = "SELECT count(*) FROM {}mart.fct_orders_usd"
    production, staging = (workspace.spark.sql(count.format(p)).collect()[0][0] for p in ("", "staging_"))
    assert staging < production
    moved = reader.json("diff", REVENUE, "--env", "staging")
    assert not moved["same"]
    assert moved["same_code"]  # only what it reads was made by other code
    orders = reader.json("diff", "mart.fct_orders_usd", "--env", "staging")
    assert not orders["same_code"]
    rows = orders["diff"][0]["rows"]
    assert (rows["old"], rows["new"]) == (production, staging)

    run(["rollback", third, "--reason", "a test"])
    assert reader.json("diff", REVENUE, "--env", "staging")["same"]
    assert reader.json("status", "--env", "staging")["models"][0]["published"]["run"] == second
    assert workspace.spark.sql(count.format("")).collect()[0][0] == production
    workspace.close()
