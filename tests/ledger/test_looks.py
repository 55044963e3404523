"""One look at the ledger: all of it of one moment, each question asked once, nothing written meanwhile."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest
from sqlalchemy import Connection, event

from retcon.errors import Fault, Refused
from retcon.ledger.migrate import migrate
from retcon.ledger.store import SqlLedger
from tests.ledger.conftest import CATALOG, Database
from tests.ledger.examples import ANN, FCT, NOON, a_plan, a_publishing_run, opened, published_run, swap


@pytest.fixture
def another(database: Database) -> SqlLedger:
    """The same ledger, as another process has it."""
    return SqlLedger(database.uri, CATALOG, migrate=migrate)


def open_run(ledger: SqlLedger, name: str) -> None:
    plan = a_plan(name)
    ledger.open_run(plan, opened(plan), at=NOON, who=ANN)


def names(ledger: SqlLedger, limit: int | None = None) -> list[str]:
    return [run.id for run in ledger.runs(limit=limit)]


def test_what_others_write_during_a_look_isnt_seen_in_it(
    ledger: SqlLedger, another: SqlLedger, database: Database
) -> None:
    database.add_table(FCT, "m0.json")
    with ledger.look():
        assert names(ledger) == []
        a_publishing_run(another).publish(swap())
        assert another.pointer(FCT) == "m1.json"
        assert names(ledger) == []
        # Never asked before, and still of the same moment.
        assert names(ledger, limit=5) == []
        assert ledger.run("run_a") is None
        assert ledger.last_published((FCT,)) == {}
        assert ledger.published_slices(FCT) == {}
        assert ledger.pointer(FCT) == "m0.json"
    assert names(ledger) == ["run_a"]
    assert ledger.pointer(FCT) == "m1.json"


def test_the_moment_of_a_look_is_that_of_its_first_question(ledger: SqlLedger, another: SqlLedger) -> None:
    with ledger.look():
        open_run(another, "run_a")
        assert names(ledger) == ["run_a"]


def test_looks_that_follow_one_another_are_of_moments_of_their_own(ledger: SqlLedger, another: SqlLedger) -> None:
    for number in range(3):
        with ledger.look():
            assert len(names(ledger)) == number
        open_run(another, f"run_{number}")


def test_a_look_within_a_look_is_the_same_one(ledger: SqlLedger, another: SqlLedger) -> None:
    with ledger.look():
        assert names(ledger) == []
        with ledger.look():
            open_run(another, "run_a")
            assert names(ledger) == []
        assert names(ledger, limit=5) == []
    assert names(ledger) == ["run_a"]


def test_nothing_is_written_during_a_look(ledger: SqlLedger) -> None:
    with ledger.look():
        with pytest.raises(RuntimeError, match="during a look"):
            open_run(ledger, "run_a")
        with pytest.raises(RuntimeError, match="during a look"):
            ledger.prepare()
        with pytest.raises(RuntimeError, match="during a look"):
            ledger.move_watermarks([], is_set=True, why="late", at=NOON, who=ANN)
        with pytest.raises(RuntimeError, match="during a look"):
            ledger.renew_lease("run_a", 1, seconds=1)
        assert names(ledger) == []
    open_run(ledger, "run_a")
    assert names(ledger) == ["run_a"]


def test_other_threads_are_in_no_look_and_may_write(ledger: SqlLedger) -> None:
    with ledger.look(), ThreadPoolExecutor(1) as thread:
        assert names(ledger) == []
        thread.submit(open_run, ledger, "run_a").result()
        assert thread.submit(names, ledger).result() == ["run_a"]
        assert names(ledger, limit=5) == []


def test_a_look_that_breaks_off_is_over(ledger: SqlLedger) -> None:
    with suppress(Refused), ledger.look():
        assert names(ledger) == []
        raise Refused("no", next="nothing")
    open_run(ledger, "run_a")
    assert names(ledger) == ["run_a"]


def test_a_look_asks_each_question_once_by_one_connection(ledger: SqlLedger, another: SqlLedger) -> None:
    published_run(ledger, a_plan("run_a"))
    said: list[str] = []
    begun: list[Connection] = []

    def hear(_connection: object, _cursor: object, statement: str, *_others: object) -> None:
        said.append(statement)

    def begin(connection: Connection) -> None:
        begun.append(connection)

    def ask() -> tuple[object, ...]:
        some = another.published_slices(FCT, ["2025-10-25"])
        assert len(some) == 1 < len(another.published_slices(FCT))
        return another.published_slices(FCT), some, another.run("run_a"), another.pointer(FCT)

    event.listen(another._engine, "before_cursor_execute", hear)
    event.listen(another._engine, "begin", begin)
    with another.look():
        first, asked = ask(), len(said)
        assert ask() == first
        assert len(said) == asked
    assert len(begun) == 1


def test_a_look_whose_connection_is_lost_says_so_each_time_and_ends_quietly(ledger: SqlLedger) -> None:
    with ledger.look():
        assert names(ledger) == []
        lost: Connection = ledger._look._connection
        lost.connection.dbapi_connection.close()
        for limit in (1, 2):
            with pytest.raises(Fault, match=r"database|PostgreSQL"):
                names(ledger, limit=limit)
        assert names(ledger) == []  # was told before
    assert names(ledger, limit=1) == []


def test_a_look_that_is_cut_off_after_its_last_question_has_its_answers(ledger: SqlLedger) -> None:
    with ledger.look():
        assert names(ledger) == []
        ledger._look._connection.connection.dbapi_connection.close()
    assert names(ledger) == []


def test_a_look_at_a_ledger_that_isnt_there_finds_nothing_and_makes_nothing(tmp_path: Path) -> None:
    ledger = SqlLedger(f"sqlite:///{tmp_path}/lake.db", CATALOG, migrate=migrate)
    with ledger.look():
        assert not ledger.exists()
        assert names(ledger) == []
        assert ledger.pointer(FCT) is None
    assert list(tmp_path.iterdir()) == []
