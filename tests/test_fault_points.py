"""No step without a crash test."""

from __future__ import annotations

import importlib
import pkgutil
from pathlib import Path

import retcon
from retcon.fault_points import Side, every_fault_point, listening
from tests.crash_points import COVERS

PAGE = Path(__file__).parents[1] / "docs" / "reliability.md"


def test_every_step_that_changes_something_is_tried_by_a_crash() -> None:
    for module in pkgutil.walk_packages(retcon.__path__, "retcon."):
        if ".migrations." not in module.name and not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    named = {point.name for point in every_fault_point()}
    tried = frozenset[str]().union(*COVERS.values())
    assert named - tried == set(), "give them a scene in tests/spark/test_crashes.py"
    assert tried - named == set(), "no such step"
    assert f"There are {len(named)} steps" in PAGE.read_text()


def test_a_step_is_told_before_and_after_and_one_that_fails_only_before() -> None:
    heard: list[tuple[str, Side]] = []
    point = every_fault_point()[0]
    with listening(lambda p, side: heard.append((p.name, side))):
        with point:
            pass
        try:
            with point:
                raise OSError
        except OSError:
            pass
    with point:
        pass
    assert [side for _, side in heard] == [Side.BEFORE, Side.AFTER, Side.BEFORE]
