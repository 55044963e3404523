"""Looking at a ledger that isn't there finds nothing and makes nothing."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from retcon.core.events import Paused
from retcon.core.runs import Tally
from retcon.errors import Fault, Refused
from retcon.ledger.questions import Questions
from retcon.ledger.store import SqlLedger
from tests.ledger.conftest import CATALOG, Database
from tests.ledger.examples import ANN, FCT, NOON, a_plan, opened

QUESTIONS: dict[str, tuple[Callable[[SqlLedger], object], object]] = {
    "exists": (lambda ledger: ledger.exists(), False),
    "pointer": (lambda ledger: ledger.pointer(FCT), None),
    "run": (lambda ledger: ledger.run("x"), None),
    "runs": (lambda ledger: ledger.runs(model=FCT, limit=3), []),
    "unfinished_runs": (lambda ledger: ledger.unfinished_runs(), []),
    "waves": (lambda ledger: ledger.waves("x"), []),
    "slices": (lambda ledger: ledger.slices("x", FCT), []),
    "tallies": (lambda ledger: ledger.tallies(["x"]), {"x": Tally()}),
    "verdicts": (lambda ledger: ledger.verdicts("x"), []),
    "profiles": (lambda ledger: ledger.profiles("x"), []),
    "slice_profiles": (lambda ledger: ledger.slice_profiles(FCT), {}),
    "events": (lambda ledger: ledger.events("x"), []),
    "consumption": (lambda ledger: ledger.consumption("x"), []),
    "code": (lambda ledger: ledger.code("x"), {}),
    "intent": (lambda ledger: ledger.intent("run_a"), None),
    "lease": (lambda ledger: ledger.lease("run_a"), None),
    "published_slices": (lambda ledger: ledger.published_slices(FCT), {}),
    "empty_slices": (lambda ledger: ledger.empty_slices(FCT), ()),
    "unmeasured_slices": (lambda ledger: ledger.unmeasured_slices(FCT), ()),
    "last_published": (lambda ledger: ledger.last_published([FCT]), {}),
    "standing_consumption": (lambda ledger: ledger.standing_consumption(FCT), {}),
    "standing_runs": (lambda ledger: ledger.standing_runs(FCT), {}),
    "standing_code": (lambda ledger: ledger.standing_code(FCT), {}),
    "published_snapshots": (lambda ledger: ledger.published_snapshots(FCT), {}),
    "exceptions": (lambda ledger: ledger.exceptions(), []),
    "newest_exceptions": (lambda ledger: ledger.newest_exceptions(FCT), {}),
    "held_slices": (lambda ledger: ledger.held_slices(FCT), frozenset()),
    "watermarks": (lambda ledger: ledger.watermarks(), {}),
    "watermark_moves": (lambda ledger: ledger.watermark_moves(FCT), []),
    "consumption_before": (lambda ledger: ledger.consumption_before("x", FCT), {}),
    "runs_before": (lambda ledger: ledger.runs_before("x", FCT), {}),
    "movements": (lambda ledger: ledger.movements(), {}),
    "turns": (lambda ledger: ledger.turns(), {}),
    "undelivered": (lambda ledger: ledger.undelivered(), []),
    "last_delivered": (lambda ledger: ledger.last_delivered(), {}),
    "in_the_way": (lambda ledger: ledger.in_the_way(a_plan()), []),
    "adoption": (lambda ledger: ledger.adoption(FCT), None),
    "adoptions": (lambda ledger: ledger.adoptions(), {}),
}


def test_a_database_without_a_ledger_answers_every_question_with_nothing(
    empty_ledger: SqlLedger, uri: str, tmp_path: Path
) -> None:
    for ask, nothing in QUESTIONS.values():
        assert ask(empty_ledger) == nothing
    assert list(tmp_path.iterdir()) == []
    if uri.startswith("postgresql"):
        assert Database(uri).tables() == set()


def test_a_prepared_ledger_exists_and_answers_every_question_with_nothing(ledger: SqlLedger) -> None:
    assert ledger.exists()
    for ask, nothing in list(QUESTIONS.values())[1:]:
        assert ask(ledger) == nothing
    with ledger.look():
        for ask, nothing in list(QUESTIONS.values())[1:]:
            assert ask(ledger) == ask(ledger) == nothing


def test_a_ledger_that_is_taken_away_while_it_is_read_is_missed_once_and_then_not_there(
    empty_ledger: SqlLedger, uri: str
) -> None:
    empty_ledger.prepare()
    assert empty_ledger.runs() == []
    Database(uri).run("DROP TABLE retcon_alembic_version")
    with pytest.raises(Fault):
        empty_ledger.runs()
    assert empty_ledger.runs() == []
    assert not empty_ledger.exists()


def test_questions_cover_every_way_of_reading() -> None:
    writing = {"prepare", "bring_up_to_date", "adopt", "open_run", "record", "publish", "roll_back", "close", "look",
               "take_lease", "renew_lease", "ask_to_stop", "intend", "withdraw", "rebuild",
               "move_watermarks", "decide", "claim_schedules", "renew_claim", "end_claim",
               "record_delivery"}  # fmt: skip
    known = {name for name in (*vars(Questions), *vars(SqlLedger)) if not name.startswith("_")}
    assert known - writing == set(QUESTIONS)


def test_a_catalog_that_has_no_ledger_yet_is_left_as_it_is(empty_ledger: SqlLedger, uri: str, tmp_path: Path) -> None:
    if uri.startswith("sqlite"):
        (tmp_path / ".retcon").mkdir()
        (tmp_path / ".retcon" / "lake.db").touch()
    database = Database(uri)
    database.run(
        "CREATE TABLE iceberg_tables (catalog_name TEXT, table_namespace TEXT, table_name TEXT, metadata_location TEXT)"
    )
    for ask, nothing in QUESTIONS.values():
        assert ask(empty_ledger) == nothing
    assert database.tables() == {"iceberg_tables"}
    if uri.startswith("sqlite"):
        assert database.run("PRAGMA journal_mode")[0][0] == "delete"
        assert [path.name for path in (tmp_path / ".retcon").iterdir()] == ["lake.db"]


def test_nothing_is_written_into_a_ledger_that_was_not_prepared(
    empty_ledger: SqlLedger, uri: str, tmp_path: Path
) -> None:
    if uri.startswith("sqlite"):
        (tmp_path / ".retcon").mkdir()
        (tmp_path / ".retcon" / "lake.db").touch()
    plan = a_plan()
    with pytest.raises(Refused, match="no ledger"):
        empty_ledger.open_run(plan, opened(plan), at=NOON, who=ANN)
    with pytest.raises(Refused, match="no ledger"):
        empty_ledger.record("x", Paused(why="?"), at=NOON, who=ANN)


def test_reading_loads_neither_alembic_nor_spark(tmp_path: Path) -> None:
    program = f"""
import sys
from retcon.ledger.questions import Questions
from retcon.ledger.store import SqlLedger
def migrate(engine): raise AssertionError
ledger = SqlLedger("sqlite:///{tmp_path}/lake.db", "{CATALOG}", migrate=migrate)
assert ledger.runs() == [] and not ledger.exists()
loaded = {{name.partition(".")[0] for name in sys.modules}}
assert not loaded & {{"alembic", "psycopg", "pyspark", "pyiceberg", "sqlglot"}}, loaded
"""
    subprocess.run([sys.executable, "-c", program], check=True)
