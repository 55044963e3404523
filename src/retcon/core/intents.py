"""Intents: a step that a catalog is asked to take for all tables of a run, kept until its outcome is known."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from enum import StrEnum
from typing import Any

from retcon.core.events import Published, RolledBack
from retcon.core.pointers import TableCommit
from retcon.core.runs import Consumed
from retcon.values import dataclass


@dataclass(frozen=True, kw_only=True)
class MainLine:
    """What readers of a table see, and the commits that it stands on."""

    uuid: str
    schema_id: int
    spec_id: int
    snapshot_id: int | None
    sequence: int
    """Of the newest commit, to whatever branch."""
    line: frozenset[int]
    """Main's snapshot and those before it, as far as they are kept."""


class Standing(StrEnum):
    """What became of one table's commit."""

    DONE = "done"
    OPEN = "open"
    """Not taken, and could be: everything that it requires still holds."""
    LOST = "lost"
    """Not taken, and never will be: what it requires is gone, or another commit took its number."""


@dataclass(frozen=True, kw_only=True)
class Intent:
    """What is about to be recorded, and the commits that make it true."""

    run: str
    event: Published | RolledBack
    commits: tuple[TableCommit, ...]

    @property
    def is_publish(self) -> bool:
        return isinstance(self.event, Published)


def standing_of(commit: TableCommit, main: MainLine | None) -> Standing:
    """What became of a commit, told by the table alone."""
    if main is None or main.uuid != commit.uuid:
        return Standing.LOST
    if commit.snapshot_id in main.line and (commit.is_new or commit.base not in main.line):
        return Standing.DONE
    is_taken = commit.sequence is not None and main.sequence >= commit.sequence
    is_same = (main.snapshot_id, main.schema_id, main.spec_id) == (commit.base, commit.schema_id, commit.spec_id)
    return Standing.OPEN if is_same and not is_taken else Standing.LOST


def tables_by_standing(found: Mapping[str, Standing], *which: Standing) -> Collection[str]:
    """The tables whose commits stand so, in order."""
    return sorted(table for table, standing in found.items() if standing in which)


def event_of(kind: str, body: Mapping[str, Any]) -> Published | RolledBack:
    """An outcome from the plain data that it was kept as."""
    if kind == RolledBack.__name__:
        return RolledBack(**body)
    same = {model: tuple(labels) for model, labels in body.get("same", {}).items()}
    return Published(**{**body, "same": same, "consumed": tuple(Consumed(**entry) for entry in body["consumed"])})
