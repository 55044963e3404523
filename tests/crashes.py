"""A process that dies at a named step, over and over, and what must hold each time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch
from urllib.parse import unquote, urlsplit

from pyiceberg.manifest import ManifestFile
from pyiceberg.table import Table

from retcon.core.chains import first_broken_link
from retcon.core.runs import RunState
from retcon.fault_points import FaultPoint, Side, listening
from tests.shops import Shop

Hit = tuple[str, Side]
Rows = Counter[tuple[Any, ...]]


class Killed(BaseException):
    """What no handler catches."""


@dataclass
class Reaper:
    """Ends the process at one hit. What is dead stays dead: no thread of it takes any later step."""

    at: Hit | int | None = None
    """A number counts hits, whichever they are."""
    heard: list[Hit] = field(default_factory=list)
    is_dead: bool = False

    def __call__(self, point: FaultPoint, side: Side) -> None:
        if self.is_dead:
            raise Killed
        hit = (point.name, side)
        self.heard.append(hit)
        if self.at in (hit, len(self.heard)):
            self.is_dead = True
            raise Killed(hit)


@contextmanager
def dying(at: Hit | int | None) -> Iterator[Reaper]:
    """Act until the hit, if it comes."""
    reaper = Reaper(at)
    # Whoever held a lease before is the dead process, though it has this one's number.
    with listening(reaper), patch("retcon.processes.is_gone", lambda _: True):
        try:
            yield reaper
        except Killed:
            assert reaper.is_dead


@dataclass(frozen=True, kw_only=True)
class Trial:
    """Something to do, in a situation of its own; doing it again after a crash goes on with it."""

    shop: Shop
    run: str
    """Its id."""
    tables: tuple[str, ...]
    """That change together, or not at all."""
    act: Callable[[], object]
    check: Callable[[], object]
    """What must have come out in the end."""


def try_every_crash(begin: Callable[[], Trial], covers: frozenset[str], *, apart: bool = False) -> set[Hit]:
    """Die before and after each of these steps, and again at the next one, while recovering; at last let it finish,
    twice. Gives where it died.

    Each process dies a step later than the one before, in one situation as long as there is a step left to die at.
    `apart`, there are two deaths to a situation: a first process that nobody died before, and one that recovers.
    """
    whole = begin()
    with dying(None) as undisturbed:
        whole.act()
    require_sound(whole)
    whole.check()
    hits = list(dict.fromkeys(undisturbed.heard))
    covered = {at for at, (name, _) in enumerate(hits) if name in covers}
    assert covers == {hits[at][0] for at in covered}, "a step that isn't taken can't be tried"
    # From each hit on, the one after it is the first to come in the recovery.
    ends = [hits[at] for at in sorted({at for hit in covered for at in (hit - 1, hit) if at >= 0})]
    died: set[Hit] = set()
    while ends:
        met = _try_crashes(begin(), ends[: 2 if apart else None])
        assert met[0] == ends[0], f"{ends[0]} was not come to"
        died.update(met)
        # What the recovery didn't come to any more is left for another first process.
        ends = ends[1:] if apart else [end for end in ends if end not in died]
    return died


def _try_crashes(trial: Trial, ends: list[Hit]) -> list[Hit]:
    """Where it died: what a recovery has behind it already is passed by."""
    before = _shown(trial)
    seen: list[list[Rows]] = []
    died: list[Hit] = []
    for end in ends:
        with dying(end) as reaper:
            trial.act()
        trial.shop.close()
        seen.append(_shown(trial))
        require_sound(trial)
        if not reaper.is_dead:
            break
        died.append(end)
    for _ in range(2):
        with dying(None):
            trial.act()
        seen.append(_shown(trial))
        require_sound(trial)
    after = seen[-1]
    assert seen[-2] == after, f"{ends}: done again, it isn't what it was"
    assert all(state in (before, after) for state in seen), f"{ends}: half of it was to be seen"
    trial.check()
    return died


def iceberg(shop: Shop, name: str) -> Table | None:
    """A table as another engine finds it."""
    return shop.workspace.tables._catalog._load(name)


def rows_of(table: Table | None) -> Rows:
    """What readers see; a new column, in which there is nothing yet, is no difference."""
    if table is None or table.current_snapshot() is None:
        return Counter()
    rows = table.scan().to_arrow().to_pylist()
    return Counter(tuple(sorted((name, value) for name, value in row.items() if value is not None)) for row in rows)


def _shown(trial: Trial) -> list[Rows]:
    return [rows_of(iceberg(trial.shop, name)) for name in trial.tables]


def require_sound(trial: Trial) -> None:
    """What holds at every moment, however it came to it."""
    ledger = trial.shop.workspace.ledger
    run = ledger.run(trial.run)
    assert first_broken_link(ledger.events(trial.run)) is None
    for table in filter(None, (iceberg(trial.shop, name) for name in trial.tables)):
        require_files(table)
        published = [
            snapshot
            for snapshot in table.metadata.snapshots
            if (marks := snapshot.summary) is not None
            and marks.get("retcon.run") == trial.run
            and marks.get("retcon.wave") is None
            and marks.get("retcon.round") is None
        ]
        assert len(published) <= 1, "published twice"
        has_published = run is not None and run.state in (RunState.PUBLISHED, RunState.ROLLED_BACK)
        # With a REST catalog the record follows; until then, the intent says that it has to be found out.
        is_open = ledger.intent(trial.run) is not None
        assert bool(published) == has_published or is_open, "the record and the table tell different stories"
        for name in (name for name in table.metadata.refs if name.startswith("retcon_2")):
            owner = ledger.run(name.removeprefix("retcon_"))
            assert name == f"retcon_{trial.run}" or owner is not None, f"{name} is nobody's"


def require_files(table: Table) -> None:
    """Every file that can be reached from any ref is there."""
    manifests: dict[str, ManifestFile] = {}  # most are reached from several refs
    for ref in table.metadata.refs.values():
        snapshot = table.snapshot_by_id(ref.snapshot_id)
        assert snapshot is not None
        manifests |= {manifest.manifest_path: manifest for manifest in snapshot.manifests(table.io)}
    for manifest in manifests.values():
        for entry in manifest.fetch_manifest_entry(table.io):
            path = entry.data_file.file_path
            assert Path(unquote(urlsplit(path).path)).exists(), f"{path} is gone"
