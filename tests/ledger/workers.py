"""A process among many: it opens runs, drives them under a lease and publishes them, on real Iceberg tables."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.synchronize import Barrier
from pathlib import Path
from random import Random
from uuid import uuid4

from pyiceberg.exceptions import CommitFailedException
from pyiceberg.serializers import ToOutputFile
from pyiceberg.table.update import SetPropertiesUpdate, update_table_metadata

from retcon.core.events import Event, ProvingBegan, PublishBegan, StagingDone
from retcon.core.plans import Plan
from retcon.core.pointers import PointerSwap
from retcon.core.runs import Run, RunState
from retcon.errors import Conflict, Refused
from retcon.ledger.migrate import migrate
from retcon.ledger.store import SqlLedger
from retcon.processes import this_process
from tests.lakehouse.lakes import Lake
from tests.ledger.conftest import CATALOG
from tests.ledger.examples import ANN, NOON, a_plan, all_staged, judged, opened, published, tables_opened

TABLES = ("mart.a", "mart.b", "mart.c")
GROUPS = (("mart.a",), ("mart.b", "mart.a"), ("mart.c", "mart.b"), ("mart.a", "mart.b", "mart.c"))
SHARED = tuple(f"shared_{n}" for n in range(3))
"""Runs that every process wants to drive."""


@dataclass(kw_only=True)
class Told:
    """What a process says that it did."""

    published: list[str]
    refused: dict[str, str]
    """Why, by run."""
    loads: dict[str, int]
    """Commits of its own to each table, past retcon."""


def work(uri: str, folder: Path, number: int, rounds: int, together: Barrier) -> Told:
    """All that one process does, begun when all are there."""
    worker = _Worker(uri, folder, number)
    together.wait(timeout=120)
    for turn in range(rounds):
        worker.load()
        worker.run(a_plan(f"own_{number}_{turn}", models=worker.draw(GROUPS), days=2))
        # Of those over the same slices that aren't forced, only one may be under way.
        worker.run(a_plan(f"overlapping_{number}_{turn}", models=worker.draw(GROUPS), days=2, force=False))
        for run in SHARED:
            worker.run(a_plan(run, models=TABLES, days=2))
    return worker.told


class _Worker:
    def __init__(self, uri: str, folder: Path, number: int) -> None:
        self._lake = Lake(folder, uri)
        self._ledger = SqlLedger(uri, CATALOG, migrate=migrate)
        self._random = Random(number)
        self.told = Told(published=[], refused={}, loads=dict.fromkeys(TABLES, 0))

    def draw(self, groups: tuple[tuple[str, ...], ...]) -> tuple[str, ...]:
        return self._random.choice(groups)

    def load(self) -> None:
        """A nightly job's commit: it tries again when others were faster, as Iceberg's writers do."""
        table = self._random.choice(TABLES)
        while True:
            try:
                self._lake.append(table, "2026-01-04")
            except CommitFailedException:
                continue
            self.told.loads[table] += 1
            return

    def run(self, plan: Plan) -> None:
        """Drive a run as far as this process gets."""
        try:
            self._ledger.prepare()
            run = self._ledger.open_run(plan, opened(plan), at=NOON, who=ANN)
            if run.state is RunState.PUBLISHED:
                return
            token = self._ledger.take_lease(plan.id, this_process(ANN), over=None, seconds=60)
            if token is None:
                self.told.refused[plan.id] = "another process drives it"
                return
            try:
                if self._driven(plan, token).state is RunState.PUBLISHED:
                    self.told.published.append(plan.id)
            finally:
                self._ledger.renew_lease(plan.id, token, seconds=0.0)
        except Refused as refusal:
            self.told.refused[plan.id] = refusal.message

    def _driven(self, plan: Plan, token: int) -> Run:
        run = self._ledger.run(plan.id)
        assert run is not None
        if run.state is RunState.PUBLISHED:
            raise Refused("published by another process before this one got its turn")
        steps: list[Event] = [tables_opened(plan), *all_staged(plan), StagingDone(), ProvingBegan(), judged(plan)]
        for step in steps:
            self._ledger.record(plan.id, step, at=NOON, who=ANN, fence=token)
        return self._until_it_fits(lambda: self._published(plan, token))

    def _until_it_fits(self, act: Callable[[], Run]) -> Run:
        """Whoever loses the race for a pointer looks again, and prepares anew."""
        for _ in range(200):
            try:
                return act()
            except Conflict:
                continue
        raise Refused("others were always faster")

    def _published(self, plan: Plan, token: int) -> Run:
        swaps = [self._prepared(plan, model.name) for model in plan.models]
        self._ledger.record(
            plan.id, PublishBegan(locations={swap.table: swap.new_location for swap in swaps}), at=NOON, who=ANN,
            fence=token,
        )  # fmt: skip
        return self._ledger.publish(plan.id, published(plan), swaps, at=NOON, who=ANN, fence=token)

    def _prepared(self, plan: Plan, name: str) -> PointerSwap:
        """The next metadata file of a table, with the run's name added to those that it holds."""
        table = self._lake.table(name)
        names = [*filter(None, table.properties.get("published", "").split(",")), plan.id]
        metadata = update_table_metadata(
            table.metadata, (SetPropertiesUpdate(updates={"published": ",".join(names)}),),
            metadata_location=table.metadata_location,
        )  # fmt: skip
        location = f"{table.location()}/metadata/{uuid4()}.metadata.json"
        ToOutputFile.table_metadata(metadata, table.io.new_output(location))
        return PointerSwap(table=name, old_location=table.metadata_location, new_location=location, snapshot_id=301)
