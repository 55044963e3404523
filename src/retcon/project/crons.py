"""Crons: the times that their fields stand for."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

from cronsim import CronSim

from retcon.core.schedules import Cron
from retcon.project.cron_texts import fields_of


def cron_of(text: str, timezone: str) -> Cron:
    """The times of a cron, by the clocks of a time zone."""
    fields = fields_of(text)

    def walls(at: datetime, before: bool) -> Iterator[datetime]:
        return CronSim(fields, at, reverse=before)

    zone = UTC if timezone == "UTC" else ZoneInfo(timezone)
    return Cron(text=text, walls=walls, zone=zone, is_hourly=fields.split()[1].startswith("*"))
