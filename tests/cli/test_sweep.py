"""`sweep`: what it tells, as text and as JSON; it starts no Spark."""

from __future__ import annotations

from pathlib import Path

import pytest

from retcon.core.plans import branch_of, tag_before
from retcon.wiring import Workspace
from tests.cli.conftest import Retcon
from tests.flow.test_sweep import published, refs, staged
from tests.flow.workshops import Workshop


def _spark_is_an_error(_: Workspace) -> object:
    raise AssertionError("Spark was started")


@pytest.fixture
def workshop(tmp_path: Path) -> Workshop:
    workshop = Workshop(tmp_path).shop()
    workshop.publish_by_hand("mart.a", "2026-01-01..2026-01-20")
    return workshop


def test_a_sweep_tells_what_goes_and_what_stays(
    retcon: Retcon, workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Workspace, "spark", property(_spark_is_an_error))
    project = ("--project", str(workshop.root))
    nothing = retcon("sweep", *project)
    assert (nothing.code, nothing.out.strip()) == (0, "nothing to sweep: no run left a branch, a tag or an old table")
    over, still_open = published(workshop), staged(workshop)
    names = {branch_of(over.id), tag_before(over.id)}
    dry = retcon("sweep", "--dry-run", *project)
    assert dry.code == 0, dry.err
    assert "Would be dropped" in dry.out
    assert "2 things would go; nothing was changed" in dry.out
    assert names <= refs(workshop)
    result = retcon("sweep", "--json", *project).result
    assert not result["dry_run"]
    assert {each["name"] for each in result["dropped"]} == names
    assert result["kept"] == [
        {
            "table": "mart.a",
            "name": branch_of(still_open.id),
            "kind": "branch",
            "run": still_open.id,
            "why": "its run is proven",
            "until": None,
        }
    ]
    assert refs(workshop) == {"main", branch_of(still_open.id)}
    again = retcon("sweep", *project)
    assert "Kept" in again.out
    assert "nothing is old enough to go" in again.out
