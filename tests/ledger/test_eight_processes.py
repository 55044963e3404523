"""Eight processes at once, on PostgreSQL: nothing is lost, nothing is published twice, nobody waits for ever."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from multiprocessing.synchronize import Barrier
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest

from retcon.core.chains import first_broken_link
from retcon.core.runs import RunState
from retcon.ledger.migrate import migrate
from retcon.ledger.store import SqlLedger
from tests.lakehouse.lakes import Lake
from tests.ledger.conftest import CATALOG
from tests.ledger.workers import SHARED, TABLES, Told, work

PROCESSES, ROUNDS = 8, 3
_together: list[Barrier] = []


def _join(together: Barrier) -> None:
    _together.append(together)


def _work(uri: str, folder: Path, number: int) -> Told:
    return work(uri, folder, number, ROUNDS, _together[0])


@pytest.fixture
def uri(postgres_url: str) -> str:
    """A database of its own: deadlocks are counted by database."""
    name = f"test_{uuid4().hex}"
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}".encode())
    return postgres_url.rpartition("/")[0] + f"/{name}"


@pytest.mark.slow
def test_of_eight_processes_each_run_is_published_once_or_refused_with_a_reason(uri: str, tmp_path: Path) -> None:
    lake = Lake(tmp_path, uri)
    for table in TABLES:
        lake.by_day(table)
    # What all of them need is imported once; each begins as a copy of a process that has it, and nothing open.
    context = get_context("forkserver")
    context.set_forkserver_preload([__name__])
    with ProcessPoolExecutor(
        PROCESSES, mp_context=context, initializer=_join, initargs=(context.Barrier(PROCESSES),)
    ) as pool:
        futures = [pool.submit(_work, uri, tmp_path, number) for number in range(PROCESSES)]
        told = [future.result(timeout=300) for future in futures]

    published = Counter(run for each in told for run in each.published)
    assert set(published.values()) == {1}, "published twice"
    assert set(SHARED) <= set(published)
    assert sum(run.startswith("own") for run in published) == PROCESSES * ROUNDS
    ledger = SqlLedger(uri, CATALOG, migrate=migrate)
    runs = {run.id: run for run in ledger.runs()}
    assert {id for id, run in runs.items() if run.state is RunState.PUBLISHED} == set(published)
    assert set(runs) == set(published), "whoever is refused leaves nothing"
    for each in told:
        assert all(each.refused.values())
        for refused in set(each.refused) - set(published):
            assert refused.startswith("overlapping")
            assert "is under way" in each.refused[refused]
    for run_id, run in runs.items():
        events = ledger.events(run_id)
        assert first_broken_link(events) is None
        assert Counter(event.kind for event in events)["Published"] == 1
        for planned in run.plan.models:
            assert lake.table(planned.name).properties["published"].split(",").count(run_id) == 1, "lost, or twice"
    for table in TABLES:
        rows = lake.table(table).scan().to_arrow().num_rows
        assert rows == sum(each.loads[table] for each in told), "a load of others was lost"
        named = lake.table(table).properties["published"].split(",")
        assert len(named) == sum(any(p.name == table for p in run.plan.models) for run in runs.values())
    with psycopg.connect(uri) as connection:
        assert connection.execute(
            "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"
        ).fetchone() == (0,)
    ledger.close()
    lake.close()
