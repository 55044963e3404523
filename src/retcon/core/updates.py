"""Inputs that are known by an `updated` column: what a look at their rows tells, and the mark that is made of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta

from retcon.core.slices import Cut, SliceSet
from retcon.core.tables import Changed, TableFile
from retcon.values import dataclass


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """Which rows of a source to look at, and in which slices of which column."""

    time: str | None
    cut: Cut
    within: SliceSet | None = None
    """Only these slices; None: all of them."""
    since: datetime | None = None
    """Only rows that were updated then or later, or nobody knows when; None: all of them."""
    until: datetime | None = None
    """What is updated after this moment is ahead of its time; None: nothing is."""


@dataclass(frozen=True, kw_only=True)
class SliceRows:
    """The rows of one slice that were looked at."""

    first: int | None
    last: int | None
    """As of a file: None where the slice isn't told, the last before the first where rows have none."""
    rows: int
    checksum: str
    """Of their keys and of when they were updated, in whatever order."""
    newest: datetime | None
    """The newest update that isn't ahead of its time."""
    nulls: int = 0
    """Rows of which nobody knows when they were updated."""
    ahead: int = 0
    """Rows that are updated in the future."""

    @property
    def file(self) -> TableFile:
        """As if a file held them."""
        path = f"rows {self.first}..{self.last}"
        return TableFile(
            path=path, rows=self.rows, bytes=0, first=self.first, last=self.last, version=self.checksum
        )  # fmt: skip

    def is_since(self, moment: datetime | None) -> bool:
        """Was some row updated then or later, as far as that can be told?"""
        return moment is None or bool(self.nulls or self.ahead) or (self.newest is not None and self.newest >= moment)


@dataclass(frozen=True, kw_only=True)
class Updates:
    """What the rows of a source say about when they were updated."""

    changed: Changed
    """The slices with rows that were updated since the moment that was asked for."""
    newest: datetime | None
    nulls: int
    ahead: int


def updates_of(rows: Iterable[SliceRows], cut: Cut, since: datetime | None) -> Updates:
    """All slices together."""
    held = list(rows)
    recent = [each for each in held if each.is_since(since)]
    return Updates(
        changed=Changed(
            slices=SliceSet.of(cut, (ordinal for each in recent for ordinal in each.file.slices)),
            everything=any(each.first is None or each.last is None for each in recent),
        ),
        newest=max((each.newest for each in held if each.newest is not None), default=None),
        nulls=sum(each.nulls for each in held),
        ahead=sum(each.ahead for each in held),
    )


def mark_value(column: str, newest: datetime | None) -> str | None:
    """How far a column was read, as a watermark holds it."""
    return None if newest is None else f"{column}={newest.isoformat()}"


def marked_moment(value: str | None, column: str) -> datetime | None:
    """How far this column was read; None where the mark is of something else."""
    name, _, text = (value or "").partition("=")
    return datetime.fromisoformat(text) if text and name == column else None


def looked_from(known: datetime | None, reprocess_days: int) -> datetime | None:
    """From when on rows are looked at again: what commits late is behind the mark by then. None: from the beginning."""
    return None if known is None else known - timedelta(days=reprocess_days)


def update_notes(table: str, column: str, seen: Updates) -> Iterator[str]:
    """What is to be said of rows that no mark can follow."""
    if seen.nulls:
        yield f"{table}: {_rows(seen.nulls)} without {column}: looked at by every load"
    if seen.ahead:
        stays = "" if seen.newest is None else f", the watermark goes no further than {seen.newest:%Y-%m-%d %H:%M:%S}"
        yield f"{table}: {_rows(seen.ahead)} with {column} in the future: loaded{stays}"


def set_back(table: str, column: str, known: datetime | None, newest: datetime | None) -> str:
    """Why a source looks as if it was restored from a backup; empty where it doesn't."""
    if known is None or (newest is not None and newest >= known):
        return ""
    now = "no row is as new any more" if newest is None else f"its newest row is of {newest:%Y-%m-%d %H:%M:%S} now"
    return f"{table} was read up to {column} {known:%Y-%m-%d %H:%M:%S}, and {now}: it went back"


def _rows(number: int) -> str:
    return f"{number:,} {'row' if number == 1 else 'rows'}"
