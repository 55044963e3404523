"""Models from a run's record: taken only if the plan has their fingerprint."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from tests.flow.workshops import Workshop

from retcon.core.models import Model
from retcon.core.plans import Plan
from retcon.project.recorded import Recorded, recorded_models

PYTHON = """\
from lib.maths import twice
from retcon.models import Day, Input, model


@model("mart.p", slices=Day("d"), inputs={"s": Input("raw.s", time="d")}, consumers=["gone"])
def p(s):
    return twice(s)
"""


@pytest.fixture
def workshop(tmp_path: Path) -> Workshop:
    (tmp_path / "project").mkdir()
    return Workshop(tmp_path / "project").shop()


def opened(workshop: Workshop) -> tuple[Plan, Recorded]:
    """A plan, and what the ledger holds of its code."""
    plan = workshop.plan("mart.a", "mart.b", start="2026-01-03", end="2026-01-05")
    models = workshop.workspace.project.graph.models
    code = {planned.name: models[planned.name].query.text for planned in plan.models}
    keys = {planned.name: models[planned.name].keys_text for planned in plan.models}
    return plan, Recorded(code=code, keys=keys, params={})


def read(workshop: Workshop, plan: Plan, recorded: Recorded, folder: Path) -> tuple[dict[str, Model], dict[str, str]]:
    folder.mkdir()
    return recorded_models(plan, recorded, workshop.workspace.outline.graph.models, "", workshop.root, folder)


def test_sql_comes_from_the_record_whatever_became_of_its_file(workshop: Workshop, tmp_path: Path) -> None:
    plan, recorded = opened(workshop)
    then = workshop.workspace.project.graph.models
    workshop.remove("mart.b")
    workshop.model("mart.a", "raw.s: {time: d, lookback: 3}", "SELECT d, count(*) * 2 AS n FROM raw.s GROUP BY d")
    models, lacking = read(workshop, plan, recorded, tmp_path / "again")
    assert lacking == {}
    assert {name: model.query.text for name, model in models.items()} == {n: m.query.text for n, m in then.items()}
    assert all(models[name].inputs == then[name].inputs for name in models)


def test_text_that_the_plan_has_another_fingerprint_of_is_not_taken(workshop: Workshop, tmp_path: Path) -> None:
    plan, recorded = opened(workshop)
    changed = {**recorded.code, "mart.a": recorded.code["mart.a"].replace("count(*)", "count(*) + 1")}
    broken = {**changed, "mart.b": "SELECT FROM WHERE"}
    models, lacking = read(workshop, plan, replace(recorded, code=broken), tmp_path / "again")
    assert models == {}
    assert lacking["mart.a"] == "its code on record isn't what the plan has the fingerprint of"
    assert "can't be read" in lacking["mart.b"]


def test_keys_that_are_not_on_record_are_those_of_today_if_they_fit(workshop: Workshop, tmp_path: Path) -> None:
    plan, recorded = opened(workshop)
    old = replace(recorded, keys=None)
    assert read(workshop, plan, old, tmp_path / "same")[1] == {}
    workshop.remove("mart.b")
    workshop.model("mart.a", "raw.s: {time: d, lookback: 3}")
    models, lacking = read(workshop, plan, old, tmp_path / "other")
    assert models == {}
    assert lacking["mart.a"] == "its keys aren't on record, and the project's aren't what they were"
    assert lacking["mart.b"] == "its keys aren't on record, and the project doesn't have it any more"


def test_of_python_the_file_is_on_record_and_what_it_imports_must_be_as_it_was(
    workshop: Workshop, tmp_path: Path
) -> None:
    lib = workshop.root / "lib"
    lib.mkdir()
    (lib / "maths.py").write_text("def twice(s):\n    return s.union(s)\n")
    workshop.settings("consumers: {gone: {owner: x}}")
    file = workshop.root / "models" / "mart" / "p.py"
    file.write_text(PYTHON)
    plan = workshop.plan("mart.p", start="2026-01-03", end="2026-01-05")
    recorded = Recorded(code={"mart.p": PYTHON}, keys={}, params={})
    file.unlink()
    # Nobody knows the consumer any more, either: it isn't what changes results.
    workshop.settings()
    models, lacking = read(workshop, plan, recorded, tmp_path / "again")
    assert lacking == {}
    assert models["mart.p"].function == "p"
    (lib / "maths.py").write_text("def twice(s):\n    return s\n")
    models, lacking = read(workshop, plan, recorded, tmp_path / "other")
    assert models == {}
    assert "project files that it imports aren't what they were" in lacking["mart.p"]
