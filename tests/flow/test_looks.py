"""What gates look at beside the model's own table: there before anything is staged, and the same in any environment."""

from __future__ import annotations

from pathlib import Path

import pytest

from retcon.core.environments import bound
from retcon.core.gates import tables_of
from retcon.errors import Refused
from retcon.flow.looks import seen_now
from tests.flow.workshops import Workshop

GATES = """\
gates:
  - foreign_key: {cols: [d], to: %s}
  - no_rows: SELECT b.d FROM mart.b b JOIN mart.a a ON a.d = b.d JOIN raw.s s ON s.d = b.d
  - reconcile: {source: mart.a, by: d, metric: sum(n), mart: sum(n)}"""


def shop(folder: Path, to: str) -> Workshop:
    workshop = Workshop(folder).shop()
    workshop.model("mart.b", "mart.a: {time: d}", "SELECT d, n FROM mart.a", keys=GATES % to)
    return workshop


def test_a_table_that_isnt_there_is_refused_before_anything_is_staged(tmp_path: Path) -> None:
    with pytest.raises(
        Refused, match=r"mart\.b: the gate foreign_key looks at raw\.ss, and there is no such"
    ) as refused:
        shop(tmp_path, "raw.ss").plan("mart.*")
    assert (refused.value.state, refused.value.next) == ("no plan was written", "did you mean raw.s?")


def test_a_model_may_be_looked_at_that_is_planned_too_or_published(tmp_path: Path) -> None:
    workshop = shop(tmp_path, "raw.s")
    workshop.plan("mart.*")
    workshop.model(
        "mart.c",
        sql="SELECT d, count(*) AS n FROM raw.s GROUP BY d",
        keys="gates: [foreign_key: {cols: [d], to: mart.a}]",
    )
    with pytest.raises(Refused, match=r"mart\.c: the gate foreign_key looks at mart\.a"):
        workshop.plan("mart.c")
    workshop.publish_by_hand("mart.a", "2026-01-01..2026-01-20")
    workshop.plan("mart.c")
    seen = seen_now(workshop.workspace.tables)("mart.a")
    facts = workshop.workspace.tables.facts("mart.a")
    assert facts is not None
    assert seen.told == (f"mart.a at snapshot {facts.snapshot_id}",)
    with pytest.raises(Refused, match=r"a gate looks at mart\.aa, and there is no such table"):
        seen_now(workshop.workspace.tables)("mart.aa")


def test_in_an_environment_gates_look_at_the_models_of_that_environment(tmp_path: Path) -> None:
    workshop = shop(tmp_path, "mart.a")
    workshop.settings("environments: {staging: {prefix: st_}}")
    staging = bound(workshop.workspace.project, "staging").graph.models["st_mart.b"]
    assert [tables_of(gate) for gate in staging.gates] == [
        ("st_mart.a",),
        ("st_mart.b", "st_mart.a", "raw.s"),
        ("st_mart.a",),
    ]
