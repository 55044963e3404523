"""`doctor --watermarks` and `postmortem`: what they say, and how they end; neither starts Spark."""

from __future__ import annotations

from pathlib import Path

import pytest

from retcon.wiring import Workspace
from tests.cli.conftest import Retcon
from tests.flow.detecting import MODEL, SOURCE, a_load, move_past
from tests.flow.test_detect import DAY, add
from tests.flow.workshops import Workshop

PLAN = f'retcon plan {MODEL} --changed --start {DAY} --end {DAY} --reason "rows that were passed by"'


def _spark_is_an_error(_: Workspace) -> object:
    raise AssertionError("Spark was started")


@pytest.fixture
def workshop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workshop:
    monkeypatch.setattr(Workspace, "spark", property(_spark_is_an_error))
    made = Workshop(tmp_path)
    made.lake.by_day(SOURCE, "2026-01-01..2026-01-20")
    made.model(MODEL)
    made.model("mart.b", f"{MODEL}: {{time: d}}", f"SELECT d, n FROM {MODEL}")
    a_load(made, made.plan(MODEL, start="2026-01-01", end="2026-01-20"))
    made.publish_by_hand(MODEL, "2026-01-01..2026-01-20")
    return made


def test_without_drift_both_say_so_and_end_well(retcon: Retcon, workshop: Workshop) -> None:
    project = ("--project", str(workshop.root))
    told = retcon("doctor", "--watermarks", *project)
    assert (told.code, told.out.splitlines()[0]) == (0, "no drift"), told.err
    out = workshop.root / "postmortem.md"
    told = retcon("postmortem", MODEL, "--out", str(out), *project)
    assert (told.code, told.out.strip()) == (0, f"no drift of {MODEL}: nothing was written")
    assert not out.exists()


def test_drift_is_told_with_its_commit_and_its_remedy_and_ends_with_1(retcon: Retcon, workshop: Workshop) -> None:
    snapshot = add(workshop, DAY, rows=3)
    move_past(workshop)
    add(workshop, "2026-01-07")
    told = retcon("doctor", "--watermarks", MODEL, "--project", str(workshop.root))
    assert told.code == 1
    words = " ".join(told.out.split())
    assert f"✗ {MODEL}: {DAY} not what {SOURCE} holds, and passed by the watermark" in words
    assert f"snapshot {snapshot} (append)" in words
    assert f"3 rows added in {DAY}; passed by ada (somebody knew better)" in words
    assert PLAN in words
    assert f"{MODEL}: 2026-01-07 changed in {SOURCE}, not loaded yet" in words
    result = retcon("doctor", "--watermarks", "--json", "--project", str(workshop.root)).json["result"]
    [commit] = result["models"][0]["inputs"][0]["commits"]
    assert result["drifted"] is True
    assert (commit["snapshot"], commit["rows_added"], commit["passed_by"]["who"]) == (str(snapshot), 3, "ada")


def test_a_post_mortem_says_what_is_known_and_how_the_rest_becomes_known(retcon: Retcon, workshop: Workshop) -> None:
    snapshot = add(workshop, DAY, rows=3)
    move_past(workshop, "a | b")
    out = workshop.root / "postmortem.md"
    told = retcon("postmortem", MODEL, "--out", str(out), "--project", str(workshop.root))
    assert told.code == 0, told.err
    text = out.read_text()
    assert text.startswith(f"# Post-mortem: {MODEL}\n")
    assert f"| {snapshot} (append) |" in text
    assert "ada: a \\| b" in text
    assert "In all: 3 rows added, 0 removed." in text
    assert f"{PLAN}\nretcon apply PLAN --until proven" in text
    assert "- mart.b (model)" in text
    run = a_load(workshop, workshop.plan(MODEL, start=DAY, end=DAY), is_staged_only=True).plan.id
    text = retcon("postmortem", MODEL, "--project", str(workshop.root)).out
    assert f"| {DAY} | 90 | 100 | +11.1% |" in text
    assert "| 90.00 | 100.10 | +11.2% |" in text
    assert f"Run {run}, proven: " in text
    assert "--until proven" not in text


def test_arguments_that_dont_fit_are_refused(retcon: Retcon, workshop: Workshop) -> None:
    project = ("--project", str(workshop.root))
    assert retcon("doctor", MODEL, *project).code == 2
    assert retcon("doctor", "--watermarks", "--repair", *project).code == 2
    assert retcon("postmortem", "mart.aa", *project).code == 1
    assert "did you mean" in retcon("postmortem", "mart.aa", *project).err
    assert retcon("postmortem", MODEL, "--run", MODEL, *project).code == 2
    assert retcon("postmortem", MODEL, "--run", "nobody", *project).code == 1
    lost = workshop.root / "no" / "where.md"
    add(workshop, DAY)
    move_past(workshop)
    assert retcon("postmortem", MODEL, "--out", str(lost), *project).code == 2


def test_hooks_are_told_by_a_reset_and_shown_with_what_waits(retcon: Retcon, workshop: Workshop) -> None:
    workshop.settings('watermark_hooks: {board: {command: ["sh", "-c", "cat >> told; test -f well"]}}')
    project = ("--project", str(workshop.root))
    move_past(workshop)
    assert "1 movement of watermarks waits: not tried yet" in " ".join(retcon("watermarks", *project).out.split())
    said = retcon("doctor", *project)
    assert said.code == 1
    assert "the hook board wasn't told of 1 movements of watermarks, and nobody tried yet" in " ".join(said.out.split())
    (workshop.root / "well").touch()
    said = retcon("watermarks", "reset", MODEL, "--reason", "again", *project)
    assert said.code == 0, said.err
    assert "told board of 2 movements of watermarks" in said.err
    assert (workshop.root / "told").read_text().count('"version": 1') == 2
    [hook] = retcon("watermarks", "--json", *project).json["result"]["hooks"]
    assert (hook["hook"], hook["waiting"], hook["error"]) == ("board", [], None)
