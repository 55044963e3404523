"""Numbers, amounts, moments and ranges as people read them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from decimal import Decimal
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from retcon.core.durations import seconds_text
from retcon.core.findings import percent

if TYPE_CHECKING:
    from retcon.core.slices import SliceSet
    from retcon.flow.tell import Change

NONE = "–"
_MOST_DECIMALS = 4


def count(number: int | None) -> str:
    """`1,800,000`."""
    return NONE if number is None else f"{number:,}"


def counted(number: int, noun: str, plural: str | None = None) -> str:
    """`1 slice`, `90 slices`."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def size(number: int) -> str:
    """`4.2 GB`, in the decimal units of `limits`."""
    amount = float(number)
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if amount < 999.95 or unit == "TB":
            break
        amount /= 1000
    return f"{number:,} B" if unit == "B" else f"{amount:,.1f} {unit}"


def amount(value: Decimal | None) -> str:
    """A metric's value: exact, but for digits that nobody reads."""
    if value is None:
        return NONE
    if not value.is_finite():
        return str(value)
    decimals = -int(value.as_tuple().exponent)
    return f"{value:,.{min(max(decimals, 0), _MOST_DECIMALS)}f}"


def change(pair: Change) -> str:
    """`+1.25%`; `new` where there is nothing to compare with, `0%` where nothing moved."""
    if pair.old == pair.new:
        return NONE if pair.old is None else "0%"
    relative = pair.relative
    return "new" if relative is None else percent(relative)


def duration(seconds: float) -> str:
    """`0.8 s`, `42 s`, `3 min 20 s`, `2 h 5 min`."""
    return seconds_text(seconds)


def slices(held: SliceSet, most: int = 3) -> str:
    """Ranges of slices, abridged."""
    parts = held.text.split(", ")
    left = len(parts) - most
    return ", ".join(parts[:most]) + (f" and {counted(left, 'more range')}" if left > 0 else "") or NONE


@dataclass(frozen=True)
class Zone:
    """The time zone in which moments are shown."""

    name: str = "UTC"

    @property
    def _info(self) -> tzinfo:
        # UTC is known without a time zone database, too.
        return UTC if self.name == "UTC" else ZoneInfo(self.name)

    def moment(self, at: datetime | None) -> str:
        """`2026-01-22 13:05`: for tables that name the zone in their head."""
        return NONE if at is None else f"{at.astimezone(self._info):%Y-%m-%d %H:%M}"

    def named(self, at: datetime | None) -> str:
        """`2026-01-22 13:05 Europe/Berlin`."""
        return NONE if at is None else f"{self.moment(at)} {self.name}"


def moment(at: datetime | None) -> str | None:
    """For machines: ISO in UTC, with `Z`."""
    return None if at is None else at.astimezone(UTC).isoformat().replace("+00:00", "Z")
