"""`doctor`: what it tells, as text and as JSON, and how it ends; it starts no Spark."""

from __future__ import annotations

from pathlib import Path

import pytest

from retcon.wiring import Workspace
from tests.cli.conftest import Retcon
from tests.flow.test_doctor import SLICES, file_of, on_main
from tests.flow.workshops import Workshop

LOST = "20260101_a_x1y2"


def _spark_is_an_error(_: Workspace) -> object:
    raise AssertionError("Spark was started")


@pytest.fixture
def workshop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workshop:
    monkeypatch.setattr(Workspace, "spark", property(_spark_is_an_error))
    workshop = Workshop(tmp_path).shop()
    workshop.publish_by_hand("mart.a", "")
    workshop.lake.append("mart.a", *(f"2026-01-{day:02}" for day in range(1, 21)))
    return workshop


def test_a_sound_project_ends_well(retcon: Retcon, workshop: Workshop) -> None:
    said = retcon("doctor", "--project", str(workshop.root))
    assert said.code == 0, said.err
    assert said.out.splitlines() == ["nothing is wrong", "looked at 0 runs, and for 22 files of 1 table"]


def test_a_lost_publish_is_explained_then_repaired_when_asked(retcon: Retcon, workshop: Workshop) -> None:
    snapshot = on_main(workshop, LOST)
    project = ("--project", str(workshop.root))
    told = retcon("doctor", *project)
    assert told.code == 1
    assert f"✗ run {LOST} was published (snapshot {snapshot} of mart.a); the ledger doesn't know this run" in told.out
    assert "--repair records run" in " ".join(told.out.split())
    assert told.out.count("✗") == 1, "its tag is no trouble of its own"
    assert workshop.workspace.ledger.run(LOST) is None, "only told"
    (trouble,) = retcon("doctor", "--json", *project).result["troubles"]
    assert (trouble["kind"], trouble["table"], trouble["run"]) == ("ledger behind", "mart.a", LOST)

    mended = retcon("doctor", "--repair", *project)
    assert mended.code == 0, mended.out
    assert "Repaired" in mended.out
    assert "nothing is wrong" in mended.out
    shown = retcon("show", LOST, *project)
    assert shown.code == 0, shown.err
    assert "unknown: rebuilt from what the tables' snapshots tell" in shown.out
    assert "chain sound" in shown.out
    assert "from the snapshots' summaries" in shown.out
    (rebuilt,) = retcon("show", LOST, "--json", *project).result["rebuilt"]
    assert (rebuilt["from"], rebuilt["undone"]) == ("the snapshots' summaries", False)
    assert "2026-01-03 to 2026-01-05, both included" in shown.out
    lost = retcon("diff", LOST, *project)
    assert (lost.code, "is lost: its record was rebuilt from the tables" in lost.err) == (1, True)
    assert SLICES.partition("..")[0] in retcon("status", *project).out
    assert LOST in retcon("history", *project).out
    assert retcon("doctor", "--repair", "--json", *project).result["repaired"] == []


def test_missing_files_are_listed_and_left(retcon: Retcon, workshop: Workshop) -> None:
    lost = file_of(workshop, "2026-01-07")
    Path(lost.removeprefix("file://")).unlink()
    project = ("--project", str(workshop.root))
    told = retcon("doctor", "--repair", "--files", *project)
    assert told.code == 1
    assert "1 trouble found" in told.out
    result = retcon("doctor", "--json", *project).result
    assert result["troubles"][0]["files"] == [lost]
    assert result["looked_at"] == {"runs": 0, "tables": 1, "files": 22, "files_left": 0}
