"""Pointers, consumption and the record move together, once, or not at all."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import psycopg
import pytest
from sqlalchemy import Connection, Engine, event
from sqlalchemy.exc import OperationalError

from retcon.core.chains import first_broken_link
from retcon.core.events import Paused, Published, Resumed, RolledBack
from retcon.core.pointers import Pointer, PointerSwap
from retcon.core.runs import Consumed, Run, RunState
from retcon.errors import Conflict, Fault, Refused
from retcon.ledger.store import SqlLedger
from tests.ledger.conftest import Database
from tests.ledger.crowds import at_once
from tests.ledger.examples import (
    AGG,
    ANN,
    FCT,
    NOON,
    Driver,
    a_plan,
    a_publishing_run,
    opened,
    published,
    published_run,
    swap,
    tables_opened,
)

S = RunState


def test_a_publish_moves_every_pointer_and_records_what_was_consumed(ledger: SqlLedger, database: Database) -> None:
    for table in (FCT, AGG, "mart.other"):
        database.add_table(table)
    driver = a_publishing_run(ledger, models=(FCT, AGG))
    run = driver.publish(swap(FCT), swap(AGG))
    assert run.state is S.PUBLISHED
    assert run.published == driver.at
    assert {table.published_snapshot for table in run.tables.values()} == {301}
    assert run == ledger.run(run.id)
    assert database.pointers() == {
        FCT: ("m1.json", "m0.json"),
        AGG: ("m1.json", "m0.json"),
        "mart.other": ("m0.json", None),
    }
    consumed = ledger.consumption(run.id)
    assert len(consumed) == 4
    assert consumed[0] == Consumed(
        model=AGG, slice="2025-10-25", input="o", table="raw.orders", snapshot_id=11, content="content of 2025-10-25"
    )
    assert ledger.events(run.id)[-1].kind == "Published"
    assert first_broken_link(ledger.events(run.id)) is None


def test_a_table_that_moved_is_named_and_no_other_table_moves(ledger: SqlLedger, database: Database) -> None:
    database.add_table(AGG)
    database.add_table(FCT, "theirs.json")
    driver = a_publishing_run(ledger, models=(FCT, AGG))
    before = (database.counts(), database.pointers())
    with pytest.raises(Conflict, match=f"{FCT} was written by somebody else") as refused:
        driver.publish(swap(FCT), swap(AGG))
    assert refused.value.state
    assert refused.value.next
    assert (database.counts(), database.pointers()) == before
    assert ledger.run(driver.plan.id) == driver.run


def exchange(table: str = FCT, *, old: str, new: str, beside: str, snapshot: int) -> PointerSwap:
    """Two tables change places; what goes to the table's name may be newer than what the other's name showed."""
    return PointerSwap(
        table=table,
        old_location=old,
        new_location=new,
        snapshot_id=snapshot,
        beside=Pointer(table=f"{table}__x1", location=beside),
    )


def test_two_tables_change_places_with_the_publish_and_back_with_the_rollback(
    ledger: SqlLedger, database: Database
) -> None:
    database.add_table(AGG)
    database.add_table(FCT, "old.json")
    database.add_table(f"{FCT}__x1", "staged.json")
    driver = a_publishing_run(ledger, models=(FCT, AGG))
    run = driver.publish(exchange(old="old.json", new="proven.json", beside="staged.json", snapshot=301), swap(AGG))
    assert run.tables[FCT].published_snapshot == 301
    assert database.pointers() == {
        FCT: ("proven.json", "old.json"),
        f"{FCT}__x1": ("old.json", "staged.json"),
        AGG: ("m1.json", "m0.json"),
    }
    driver.roll_back(
        exchange(old="proven.json", new="old.json", beside="old.json", snapshot=300),
        swap(AGG, old="m1.json", new="m2.json", snapshot=302),
    )
    assert {name: location for name, (location, _) in database.pointers().items()} == {
        FCT: "old.json",
        f"{FCT}__x1": "proven.json",
        AGG: "m2.json",
    }


@pytest.mark.parametrize("moved", [FCT, f"{FCT}__x1", AGG])
def test_tables_of_which_one_moved_do_not_change_places(ledger: SqlLedger, database: Database, moved: str) -> None:
    for name, held in ((FCT, "old.json"), (f"{FCT}__x1", "staged.json"), (AGG, "m0.json")):
        database.add_table(name, "theirs.json" if name == moved else held)
    driver = a_publishing_run(ledger, models=(FCT, AGG))
    before = (database.counts(), database.pointers())
    with pytest.raises(Conflict, match=f"{moved} was written by somebody else"):
        driver.publish(exchange(old="old.json", new="proven.json", beside="staged.json", snapshot=301), swap(AGG))
    assert (database.counts(), database.pointers()) == before


@pytest.mark.parametrize("catalog", ["lake", "another"])
def test_a_table_that_is_gone_or_in_another_catalog_is_a_conflict(
    ledger: SqlLedger, database: Database, catalog: str
) -> None:
    if catalog == "another":
        database.add_table(FCT, catalog=catalog)
    driver = a_publishing_run(ledger)
    with pytest.raises(Conflict, match=f"{FCT} is no longer in the catalog lake"):
        driver.publish(swap(FCT))
    assert {location for location, _ in database.pointers().values()} <= {"m0.json"}


def test_a_publish_stands_once(ledger: SqlLedger, database: Database) -> None:
    database.add_table(FCT)
    driver = a_publishing_run(ledger)
    driver.publish(swap(FCT))
    before = (database.counts(), database.pointers())
    with pytest.raises(Refused, match="published") as refused:
        driver.publish(swap(FCT, old="m1.json", new="m2.json"))
    assert not isinstance(refused.value, Conflict)
    assert (database.counts(), database.pointers()) == before


@pytest.mark.parametrize("state", [S.PLANNED, S.STAGING, S.PROVEN, S.PAUSED])
def test_only_a_run_that_said_it_would_is_published(ledger: SqlLedger, database: Database, state: RunState) -> None:
    database.add_table(FCT)
    driver = Driver(ledger, a_plan(days=2))
    match state:
        case S.STAGING:
            driver.tell(tables_opened(driver.plan))
        case S.PROVEN:
            driver.stage()
            driver.prove()
        case S.PAUSED:
            driver.tell(Paused(why="lunch"))
    with pytest.raises(Refused, match=state.value):
        driver.publish(swap(FCT))
    assert database.pointers() == {FCT: ("m0.json", None)}


def test_a_run_that_is_not_there_moves_nothing(ledger: SqlLedger, database: Database) -> None:
    database.add_table(FCT)
    with pytest.raises(Refused, match="no run"):
        ledger.publish("nowhere", published(a_plan()), [swap(FCT)], at=NOON, who=ANN)
    assert database.pointers() == {FCT: ("m0.json", None)}


def test_the_record_names_the_snapshots_that_tables_move_to(ledger: SqlLedger, database: Database) -> None:
    database.add_table(FCT)
    driver = a_publishing_run(ledger)
    with pytest.raises(ValueError, match="snapshots"):
        driver.publish(swap(FCT, snapshot=999))
    with pytest.raises(ValueError, match="didn't open"):
        driver.publish(event=Published(snapshots={AGG: 1}, consumed=()))
    assert ledger.run(driver.plan.id) == driver.run


def test_a_publish_without_changes_is_recorded_and_moves_nothing(ledger: SqlLedger, database: Database) -> None:
    database.add_table(FCT)
    driver = a_publishing_run(ledger)
    run = driver.publish(event=Published(snapshots={}, consumed=()))
    assert (run.state, run.tables[FCT].published_snapshot) == (S.PUBLISHED, None)
    assert database.pointers() == {FCT: ("m0.json", None)}


def test_a_rollback_moves_every_pointer_and_keeps_the_record(ledger: SqlLedger, database: Database) -> None:
    for table in (FCT, AGG):
        database.add_table(table)
    driver = a_publishing_run(ledger, models=(FCT, AGG))
    driver.publish(swap(FCT), swap(AGG))
    back = [swap(table, old="m1.json", new="m2.json", snapshot=302) for table in (FCT, AGG)]
    run = driver.roll_back(*back, reason="wrong after all")
    assert (run.state, run.why_ended, run.rolled_back) == (S.ROLLED_BACK, "wrong after all", driver.at)
    assert run.tables[FCT].published_snapshot == 301
    assert database.pointers() == {FCT: ("m2.json", "m1.json"), AGG: ("m2.json", "m1.json")}
    assert len(ledger.consumption(run.id)) == 4
    with pytest.raises(Refused, match="rolled_back"):
        driver.roll_back(*back)


def test_a_rollback_is_refused_as_a_whole_when_one_table_moved(ledger: SqlLedger, database: Database) -> None:
    for table in (FCT, AGG):
        database.add_table(table)
    driver = a_publishing_run(ledger, models=(FCT, AGG))
    driver.publish(swap(FCT), swap(AGG))
    database.run("UPDATE iceberg_tables SET metadata_location = 'later.json' WHERE table_name = 'fct_daily_revenue'")
    before = (database.counts(), database.pointers())
    with pytest.raises(Conflict, match=FCT):
        driver.roll_back(*(swap(table, old="m1.json", new="m2.json", snapshot=302) for table in (FCT, AGG)))
    assert (database.counts(), database.pointers()) == before
    assert ledger.run(driver.plan.id) == driver.run


def test_only_a_published_run_is_rolled_back(ledger: SqlLedger, database: Database) -> None:
    driver = a_publishing_run(ledger)
    with pytest.raises(Refused, match="publishing"):
        driver.roll_back()


def test_of_two_runs_that_publish_one_table_at_once_one_wins_and_the_other_leaves_no_trace(
    ledger: SqlLedger, database: Database
) -> None:
    database.add_table(FCT)
    database.add_table(AGG)
    drivers = [a_publishing_run(ledger, run, models=(FCT, AGG)) for run in ("run_a", "run_b")]
    results = at_once(
        [
            partial(driver.publish, *(swap(table, new=f"{driver.plan.id}.json") for table in tables))
            for driver, tables in zip(drivers, [(FCT, AGG), (AGG, FCT)], strict=True)
        ]
    )
    winner = next(result for result in results if isinstance(result, Run))
    loser = next(driver for driver in drivers if driver.plan.id != winner.id)
    assert [type(result) for result in results if not isinstance(result, Run)] == [Conflict]
    assert set(database.pointers().values()) == {(f"{winner.id}.json", "m0.json")}
    assert len(ledger.consumption(winner.id)) == 4
    assert ledger.consumption(loser.plan.id) == []
    assert ledger.run(loser.plan.id) == loser.run
    assert ledger.events(loser.plan.id)[-1].kind == "PublishBegan"


def test_tables_are_always_swapped_in_the_same_order_so_that_publishes_do_not_deadlock(
    ledger: SqlLedger, database: Database
) -> None:
    tables = ["mart.a", "mart.b", "mart.c"]
    for table in tables:
        database.add_table(table)
    driver = a_publishing_run(ledger, models=tuple(tables))
    swapped: list[str] = []

    def listen(connection: object, cursor: object, statement: str, values: object, *_: object) -> None:
        if statement.startswith("UPDATE iceberg_tables"):
            swapped.extend(table for table in tables if repr(table.rpartition(".")[2]) in repr(values))

    event.listen(Engine, "before_cursor_execute", listen)
    try:
        driver.publish(swap("mart.b"), swap("mart.c"), swap("mart.a"))
    finally:
        event.remove(Engine, "before_cursor_execute", listen)
    assert swapped == tables


def test_of_many_publishes_of_one_run_at_once_one_stands(ledger: SqlLedger, database: Database) -> None:
    database.add_table(FCT)
    driver = a_publishing_run(ledger)
    act = partial(ledger.publish, driver.plan.id, published(driver.plan), [swap(FCT)], at=NOON, who=ANN)
    results = at_once([act] * 5)
    assert sorted(type(result).__name__ for result in results) == ["Refused"] * 4 + ["Run"]
    assert [event.kind for event in ledger.events(driver.plan.id)].count("Published") == 1


# ── COMMIT sent, and no answer ────────────────────────────────────────────────────────────────────────────────────


@contextmanager
def on_first_commit(act: Callable[[Connection], None]) -> Iterator[None]:
    """Something happens when the next transaction is about to be committed."""
    left = [act]

    def listen(connection: Connection) -> None:
        if left:
            left.pop()(connection)

    event.listen(Engine, "commit", listen)
    try:
        yield
    finally:
        event.remove(Engine, "commit", listen)


def lose_the_answer(connection: Connection) -> None:
    connection.connection.commit()
    _hang_up(connection)


def lose_the_commit(connection: Connection) -> None:
    connection.connection.rollback()
    _hang_up(connection)


def _hang_up(connection: Connection) -> None:
    raise OperationalError("COMMIT", {}, psycopg.OperationalError("the network went away"))


def _roll_back(driver: Driver) -> Run:
    return driver.roll_back(swap(FCT, old="m1.json", new="m2.json", snapshot=302))


@pytest.mark.parametrize("step", ["publish", "roll_back", "open_run", "record"])
def test_a_step_whose_answer_is_lost_counts_when_the_record_has_it(
    ledger: SqlLedger, database: Database, step: str
) -> None:
    database.add_table(FCT)
    driver = a_publishing_run(ledger)
    if step == "roll_back":
        driver.publish(swap(FCT))
    new = a_plan("new", days=1)
    acts: dict[str, tuple[Callable[[], Run], RunState]] = {
        "publish": (partial(driver.publish, swap(FCT)), S.PUBLISHED),
        "roll_back": (partial(_roll_back, driver), S.ROLLED_BACK),
        "open_run": (partial(ledger.open_run, new, opened(new), at=NOON, who=ANN), S.PLANNED),
        "record": (partial(driver.tell, Resumed(to=S.STAGING)), S.STAGING),
    }
    act, state = acts[step]
    with on_first_commit(lose_the_answer):
        run = act()
    assert run.state is state
    assert run == ledger.run(run.id)
    assert first_broken_link(ledger.events(run.id)) is None


@pytest.mark.parametrize("step", ["publish", "roll_back"])
def test_a_step_whose_commit_is_lost_is_a_fault_and_changes_nothing(
    ledger: SqlLedger, database: Database, step: str
) -> None:
    database.add_table(FCT)
    driver = a_publishing_run(ledger)
    if step == "roll_back":
        driver.publish(swap(FCT))
    before = (database.counts(), database.pointers())
    with on_first_commit(lose_the_commit), pytest.raises(Fault) as fault:
        driver.publish(swap(FCT)) if step == "publish" else _roll_back(driver)
    assert fault.value.retryable
    assert "nothing was recorded" in fault.value.state
    assert (database.counts(), database.pointers()) == before
    assert ledger.run(driver.plan.id) == driver.run


@pytest.mark.parametrize("backend", ["postgresql"], indirect=True)
def test_a_server_that_ends_the_connection_at_commit_leaves_nothing_behind(
    ledger: SqlLedger, database: Database
) -> None:
    database.add_table(FCT)
    driver = a_publishing_run(ledger)

    def end_the_session(connection: Connection) -> None:
        driver_connection: Any = connection.connection.driver_connection
        with psycopg.connect(database.uri, autocommit=True) as other:
            other.execute("SELECT pg_terminate_backend(%s, 5000)", [driver_connection.info.backend_pid])

    with on_first_commit(end_the_session), pytest.raises(Fault) as fault:
        driver.publish(swap(FCT))
    assert fault.value.retryable
    assert database.pointers() == {FCT: ("m0.json", None)}
    assert driver.publish(swap(FCT)).state is S.PUBLISHED


def test_a_record_that_can_not_be_asked_is_a_fault_that_says_so(
    ledger: SqlLedger, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    database.add_table(FCT)
    driver = a_publishing_run(ledger)

    def gone(*_: object) -> None:
        raise OperationalError("SELECT", {}, psycopg.OperationalError("still away"))

    monkeypatch.setattr("retcon.ledger.chain.stands", gone)
    with on_first_commit(lose_the_answer), pytest.raises(Fault) as fault:
        driver.publish(swap(FCT))
    assert "record decides" in fault.value.state
    assert database.pointers() == {FCT: ("m1.json", "m0.json")}


def test_an_event_that_breaks_halfway_leaves_the_run_as_it_was(ledger: SqlLedger, database: Database) -> None:
    driver = a_publishing_run(ledger)
    before = database.counts()
    twice = published(driver.plan)
    with pytest.raises(Fault):
        driver.publish(event=Published(snapshots=twice.snapshots, consumed=(*twice.consumed, *twice.consumed)))
    assert database.counts() == before
    assert ledger.run(driver.plan.id) == driver.run


def test_a_rollback_of_the_first_publish_is_told_by_the_ledger(ledger: SqlLedger, database: Database) -> None:
    driver = published_run(ledger, a_plan(days=2))
    driver.ledger.roll_back(
        driver.plan.id, RolledBack(reason="first was wrong", snapshots={FCT: 9}), [], at=NOON, who=ANN
    )
    assert ledger.published_slices(FCT) == {}
    assert ledger.last_published([FCT]) == {}
