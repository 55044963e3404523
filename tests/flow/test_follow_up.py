"""What follows a publish is done once, and made up for by whoever comes next."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from retcon.core.events import Certified, CheckedAfter
from retcon.core.plans import Load, Plan
from retcon.flow.follow_up import failure_of, is_followed_up
from tests.flow.workshops import Workshop
from tests.ledger.examples import Driver, certificate, published_run, verdict


@pytest.fixture
def workshop(tmp_path: Path) -> Workshop:
    workshop = Workshop(tmp_path).shop()
    workshop.publish_by_hand("mart.a", "2026-01-01..2026-01-20")
    return workshop


def a_plan(workshop: Workshop, *, load: bool = True) -> Plan:
    plan = workshop.plan("mart.a", start="2026-01-03", end="2026-01-05")
    return replace(plan, load=Load(advances=()) if load else None)


def checked() -> CheckedAfter:
    return CheckedAfter(verdicts=(), held={"mart.a": ("rows",)})


def test_a_load_that_was_published_and_not_looked_at_is_found_by_the_next_one(workshop: Workshop) -> None:
    driver = published_run(workshop.ledger, a_plan(workshop), at=workshop.now)
    unchecked = workshop.workspace.loader.unchecked
    assert [run.id for run in unchecked(("mart.a", "mart.b"))] == [driver.plan.id]
    assert unchecked(("mart.b",)) == []
    driver.tell(Certified(tables=(certificate("mart.a"),)))
    # The certificate alone isn't all of it.
    assert [run.id for run in unchecked(("mart.a",))] == [driver.plan.id]
    driver.tell(checked())
    assert unchecked(("mart.a",)) == []


def test_a_backfill_waits_for_its_own_apply(workshop: Workshop) -> None:
    driver = published_run(workshop.ledger, a_plan(workshop, load=False), at=workshop.now)
    assert not is_followed_up(driver.run, workshop.ledger)
    assert workshop.workspace.loader.unchecked(("mart.a",)) == []


def test_what_was_left_as_it_is_and_what_was_rebuilt_has_nothing_to_follow_up(workshop: Workshop) -> None:
    driver = published_run(workshop.ledger, a_plan(workshop), at=workshop.now)
    (table,) = driver.run.tables.values()
    labels = tuple(slice.label for slice in driver.plan.models[0].slices)
    assert is_followed_up(replace(driver.run, tables={"mart.a": replace(table, same=labels)}), workshop.ledger)
    assert is_followed_up(replace(driver.run, tables={"mart.a": replace(table, head=None)}), workshop.ledger)


def test_a_failure_is_told_from_the_record(workshop: Workshop) -> None:
    driver: Driver = published_run(workshop.ledger, a_plan(workshop), at=workshop.now)
    driver.tell(Certified(tables=(certificate("mart.a"),)), checked())
    assert failure_of(driver.run, workshop.ledger.events(driver.plan.id)) is None
    wrong = certificate("mart.a", problems=("1 file proven, and not published, e.g. x",))
    driver.tell(Certified(tables=(wrong,)), replace(checked(), verdicts=(verdict("unique", failed=True),)))
    failed = failure_of(driver.run, workshop.ledger.events(driver.plan.id))
    assert failed is not None
    assert "mart.a: 1 file proven, and not published" in failed.message
    assert "unique fails in production" in failed.message
    assert (failed.exit_code, failed.state) == (4, "published; production shows it")
    assert f"retcon rollback {driver.plan.id} --reason" in failed.next
