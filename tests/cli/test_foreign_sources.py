"""How sources that aren't Iceberg are shown."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from retcon.cli.main import run
from tests.flow.workshops import Workshop

SOURCES = """\
sources:
  raw.s: {format: csv, path: data, columns: {d: date, v: int}}
  raw.j: {format: jdbc, options: {url: "jdbc:x?password=hush-hush", dbtable: t}}
"""


@pytest.fixture
def workshop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workshop:
    monkeypatch.setenv("COLUMNS", "200")
    workshop = Workshop(tmp_path)
    workshop.settings(SOURCES)
    workshop.model("mart.a", "raw.s: {time: d}, raw.j: ", "SELECT s.d, j.x FROM raw.s s JOIN raw.j j ON s.v = j.v")
    folder = tmp_path / "data" / "d=2026-01-01"
    folder.mkdir(parents=True)
    (folder / "part.csv").write_text("v\n1\n")
    return workshop


def test_check_plan_and_render_say_what_isnt_pinned_and_nothing_of_the_options(
    workshop: Workshop, capsys: pytest.CaptureFixture[str]
) -> None:
    at = ["--project", str(workshop.root)]
    day = ["--start", "2026-01-01", "--end", "2026-01-01"]
    assert run(["check", *at]) == 0
    checked = capsys.readouterr().out
    assert "raw.j  jdbc  not pinned, and changes can't be seen" in checked
    assert run(["plan", "mart.a", *day, "--reason", "a test", *at]) == 0
    planned = capsys.readouterr().out
    assert "csv, not pinned" in planned
    assert "reads at least 0 rows, 4 B" in planned
    assert "raw.s (csv): not pinned: its files are compared" in planned
    assert run(["render", "mart.a", *day, *at]) == 0
    rendered = capsys.readouterr().out
    assert "SELECT * FROM `raw`.`s`" in rendered
    assert "-- raw.j (jdbc): not pinned" in rendered
    assert run(["check", "--json", *at]) == 0
    told = capsys.readouterr().out
    assert {s["name"]: s["format"] for s in json.loads(told)["result"]["foreign"]} == {"raw.s": "csv", "raw.j": "jdbc"}
    written = "".join(file.read_text() for file in (workshop.root / "backfills").iterdir())
    assert "hush-hush" not in checked + planned + rendered + told + written


def test_check_says_what_loads_see_of_a_source_and_what_they_dont(
    workshop: Workshop, capsys: pytest.CaptureFixture[str]
) -> None:
    def told() -> dict[str, str]:
        assert run(["check", "--json", "--project", str(workshop.root)]) == 0
        return {s["name"]: s["seen"] for s in json.loads(capsys.readouterr().out)["result"]["foreign"]}

    assert "loads can't see its changes" in told()["raw.j"]
    settings = workshop.root / "retcon.yaml"
    settings.write_text(settings.read_text().replace("dbtable: t}}", "dbtable: t}, updated: changed_at}"))
    assert "Not seen: deleted rows, the slice that a moved row left" in told()["raw.j"]
    settings.write_text(settings.read_text().replace("updated: changed_at}", "updated: changed_at, key: [k]}"))
    assert "gone or moved are seen" in told()["raw.j"]
