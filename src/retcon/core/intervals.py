"""Half-open UTC intervals, and the dates that people write for them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta

from retcon.errors import BadArguments

_DATE = re.compile(r"(\d{4})-(\d{2})-(\d{2})")
_HOUR = re.compile(r"(\d{4}-\d{2}-\d{2})T(\d{2})(?::00)?Z?")


Edge = date | datetime
"""Where a range begins or ends, as people say it: a whole day, or (a datetime in UTC) a whole hour."""


@dataclass(frozen=True, order=True)
class Interval:
    """Half-open `[start, end)`, always UTC."""

    start: datetime
    end: datetime

    def __post_init__(self) -> None:
        for moment in (self.start, self.end):
            if moment.tzinfo is not UTC:
                raise ValueError(f"an interval is in UTC, got {moment!r}")
        if self.end <= self.start:
            raise ValueError(f"an interval ends after it starts, got {self}")

    @classmethod
    def of_edges(cls, first: Edge, last: Edge) -> Interval:
        """From the first day or hour to the last, both included."""
        return cls(beginning(first), after(last))

    @property
    def edges(self) -> tuple[Edge, Edge]:
        """The first and the last day, both included; hours where it doesn't begin and end at midnight."""
        is_days = self.start == midnight(self.start.date()) and self.end == midnight(self.end.date())
        last = self.end - timedelta(hours=1)
        return (self.start.date(), last.date()) if is_days else (self.start, last)

    def __str__(self) -> str:
        # isoformat, since strftime writes years before 1000 with fewer digits.
        start, end = (moment.replace(tzinfo=None).isoformat(timespec="seconds") for moment in (self.start, self.end))
        return f"[{start}Z, {end}Z)"


def midnight(day: date) -> datetime:
    """The start of a day, in UTC."""
    return datetime(day.year, day.month, day.day, tzinfo=UTC)


def beginning(edge: Edge) -> datetime:
    """The start of a day or hour."""
    return edge if isinstance(edge, datetime) else midnight(edge)


def after(edge: Edge) -> datetime:
    """The end of a day or hour."""
    return edge + timedelta(hours=1) if isinstance(edge, datetime) else midnight(edge + timedelta(days=1))


def edge_text(edge: Edge) -> str:
    """`2026-01-22` or `2026-01-22T05`."""
    return edge.isoformat()[:13] if isinstance(edge, datetime) else edge.isoformat()


def parse_edge(text: str, option: str) -> Edge:
    """A date, or an hour such as 2026-01-22T05, from the command line."""
    match = _HOUR.fullmatch(text.strip())
    if match is None:
        return parse_date(text, option)
    day, hour = parse_date(match[1], option), int(match[2])
    if hour > 23:
        raise BadArguments(f"{option}: there is no {text.strip()}", next="hours go from 00 to 23, in UTC")
    return midnight(day) + timedelta(hours=hour)


def parse_date(text: str, option: str) -> date:
    """A date from the command line, or an error that says which one is meant."""
    match = _DATE.fullmatch(text.strip())
    if match is None:
        raise BadArguments(
            f"{option}: {text!r} is not a date", next=f"write it as YYYY-MM-DD, e.g. {option} 2026-01-22"
        )
    year, month, day = (int(part) for part in match.groups())
    try:
        return date(year, month, day)
    except ValueError:
        last = _last_day(year, month)
        hint = (
            f"the last day of that month is {last.isoformat()}" if last else "months go from 01 to 12, years from 0001"
        )
        raise BadArguments(f"{option}: there is no {text.strip()}", next=hint) from None


def _last_day(year: int, month: int) -> date | None:
    if not (1 <= month <= 12 and 1 <= year <= 9998):
        return None
    after = date(year + month // 12, month % 12 + 1, 1)
    return after - timedelta(days=1)
