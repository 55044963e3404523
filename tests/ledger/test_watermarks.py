"""Watermarks and what is undone: they never stand behind something that was taken back."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from retcon.core.plans import Load, from_document, to_document
from retcon.core.watermarks import NOTHING_LOADED, Advance, Mark
from retcon.ledger.store import SqlLedger
from tests.ledger.examples import ANN, FCT, NOON, Driver, a_plan, rebuilt

PLAN = a_plan("load", days=1)


def mark(snapshot: int) -> Mark:
    return Mark(model=FCT, input="o", table="raw.orders", uuid="u", snapshot_id=snapshot)


def newest(ledger: SqlLedger) -> int:
    return ledger.movements().get((FCT, "o"), 0)


def load(ledger: SqlLedger, run: str, to: int) -> Driver:
    """A load that was published, and moved the watermark to this snapshot."""
    plan = replace(PLAN, id=run, load=Load(advances=(Advance(mark=mark(to), after=newest(ledger)),)))
    driver = Driver(ledger, plan)
    driver.begin_publish()
    driver.publish()
    return driver


def move(ledger: SqlLedger, to: int, why: str, *, is_set: bool = True) -> None:
    step = Advance(mark=mark(to), after=newest(ledger))
    ledger.move_watermarks([step], is_set=is_set, why=why, at=NOON, who=ANN)


def standing(ledger: SqlLedger) -> int | None:
    held = ledger.watermarks().get((FCT, "o"))
    return None if held is None else held.mark.snapshot_id


@pytest.fixture(autouse=True)
def _made(ledger: SqlLedger) -> None:
    ledger.prepare()
    move(ledger, 10, NOTHING_LOADED)


def test_two_loads_are_undone_in_either_order(ledger: SqlLedger) -> None:
    older, newer = load(ledger, "a", 11), load(ledger, "b", 12)
    older.roll_back()
    assert standing(ledger) == 10
    newer.roll_back()
    assert standing(ledger) == 10, "what the older one had consumed was undone as well"
    older, newer = load(ledger, "c", 11), load(ledger, "d", 12)
    newer.roll_back()
    assert standing(ledger) == 11
    older.roll_back()
    assert standing(ledger) == 10


def test_what_moved_on_without_a_publish_goes_back_with_the_load(ledger: SqlLedger) -> None:
    undone = load(ledger, "a", 11)
    move(ledger, 12, NOTHING_LOADED)
    undone.roll_back()
    assert standing(ledger) == 10


def test_what_moved_on_between_two_loads_rests_on_the_first(ledger: SqlLedger) -> None:
    older = load(ledger, "a", 11)
    move(ledger, 12, NOTHING_LOADED)
    newer = load(ledger, "b", 13)
    older.roll_back()
    newer.roll_back()
    assert standing(ledger) == 10, "12 was past what was undone"
    load(ledger, "c", 14)
    load(ledger, "d", 15).roll_back()
    assert standing(ledger) == 14, "what was loaded since stands"


@pytest.mark.parametrize("is_set", [False, True])
def test_what_somebody_reset_since_is_compared_from_the_beginning(ledger: SqlLedger, is_set: bool) -> None:
    load(ledger, "a", 11)
    undone = load(ledger, "b", 12)
    move(ledger, 9, "restored", is_set=is_set)
    undone.roll_back()
    assert standing(ledger) is None


def test_a_load_that_tables_say_was_undone_counts_as_undone(ledger: SqlLedger) -> None:
    known = load(ledger, "a", 11)
    assert standing(ledger) == 11
    ledger.rebuild(known.plan, rebuilt(known.plan, undone=True), at=NOON, who=ANN)
    assert standing(ledger) == 10
    lost = replace(PLAN, id="b", load=Load(advances=(Advance(mark=mark(12), after=newest(ledger)),)))
    ledger.rebuild(lost, rebuilt(lost, undone=True, lost=True), at=NOON, who=ANN)
    assert standing(ledger) == 10, "it was published, and taken back"


def test_when_an_input_was_looked_at_goes_with_its_mark(ledger: SqlLedger) -> None:
    looked = NOON - timedelta(hours=3)
    step = Advance(mark=replace(mark(11), looked=looked), after=newest(ledger))
    plan = replace(PLAN, id="a", load=Load(advances=(step,)))
    assert from_document(to_document(plan)) == plan
    first = Driver(ledger, plan)
    first.begin_publish()
    first.publish()
    assert ledger.watermarks()[FCT, "o"].mark.looked == looked
    load(ledger, "b", 12).roll_back()
    assert ledger.watermarks()[FCT, "o"].mark.looked == looked, "put back as it was"
