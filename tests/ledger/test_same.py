"""Slices that a publish left as they are: what stands, what was consumed, what is held."""

from __future__ import annotations

from dataclasses import replace

from retcon.core.events import SlicesKept, TablesOpened
from retcon.core.runs import SliceState, WaveState
from retcon.ledger.store import SqlLedger
from tests.ledger.examples import FCT, Driver, a_plan, all_staged, published, published_run, tables_opened

PLAN = a_plan("wrote", days=2)
LABELS = tuple(slice.label for slice in PLAN.models[0].slices)
FIRST, SECOND = LABELS


def found_same(ledger: SqlLedger, run: str, *labels: str, checksum: str = "sum") -> Driver:
    """A run of the same slices that replaced all but some."""
    driver = Driver(ledger, replace(PLAN, id=run))
    driver.begin_publish(checksum=checksum)
    driver.publish(event=replace(published(driver.plan), same={FCT: labels}))
    return driver


def consumed_by(ledger: SqlLedger) -> dict[str, str]:
    """By slice: the run whose consumption counts."""
    return ledger.standing_runs(FCT)


def test_what_was_found_to_be_the_same_stands_as_it_was_written_and_is_consumed_anew(ledger: SqlLedger) -> None:
    published_run(ledger, PLAN)
    driver = found_same(ledger, "again", FIRST)
    assert {label: held.run for label, held in ledger.published_slices(FCT).items()} == {
        FIRST: "wrote",
        SECOND: "again",
    }
    assert consumed_by(ledger) == dict.fromkeys(LABELS, "again")
    assert ledger.held_slices(FCT) == frozenset()
    assert driver.run.tables[FCT].same == (FIRST,)
    assert [p.slices.text for p in driver.run.as_published.plan.models] == [SECOND]
    # It undid nothing where it had changed nothing.
    driver.roll_back()
    assert consumed_by(ledger) == dict.fromkeys(LABELS, "wrote")
    assert ledger.held_slices(FCT) == {SECOND}


def test_what_was_the_same_as_something_that_is_undone_since_counts_no_more(ledger: SqlLedger) -> None:
    published_run(ledger, replace(PLAN, id="before"))
    wrote = published_run(ledger, PLAN)
    found_same(ledger, "again", *LABELS)
    assert consumed_by(ledger) == dict.fromkeys(LABELS, "again")
    wrote.roll_back()
    assert {s.state for s in ledger.slices("again", FCT)} == {SliceState.LAPSED}
    assert consumed_by(ledger) == dict.fromkeys(LABELS, "before")
    assert ledger.held_slices(FCT) == set(LABELS)
    # Somebody decided: whether it came out the same or not, it isn't held any more.
    found_same(ledger, "anew", *LABELS)
    assert consumed_by(ledger) == dict.fromkeys(LABELS, "anew")
    assert ledger.held_slices(FCT) == frozenset()
    assert {held.run for held in ledger.published_slices(FCT).values()} == {"before"}


def test_a_wave_of_which_nothing_is_left_to_compute_is_done(ledger: SqlLedger) -> None:
    driver = Driver(ledger, a_plan("kept", days=4))
    opened: TablesOpened = tables_opened(driver.plan)
    labels = [slice.label for slice in driver.plan.models[0].slices]
    driver.tell(opened, SlicesKept(model=FCT, slices=dict.fromkeys(labels[:3], 100)))
    assert [wave.state for wave in ledger.waves("kept")] == [WaveState.DONE, WaveState.PENDING]
    states = [(s.state, s.rows) for s in ledger.slices("kept", FCT)]
    assert states == [(SliceState.SAME, 100)] * 3 + [(SliceState.PENDING, None)]
    assert ledger.tallies(["kept"])["kept"].staged == 3
    driver.tell(*all_staged(driver.plan)[1:])
    assert {wave.state for wave in ledger.waves("kept")} == {WaveState.DONE}
