"""Deliver: tell other systems where watermarks are. What they don't take waits; nothing is undone by it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from retcon.core.hooks import TRIES, Delivery, WatermarkHook, hook_document, seconds_before_next
from retcon.core.projects import Settings
from retcon.flow.ports import Clock, Ledger, Tables
from retcon.values import dataclass

Call = Callable[[WatermarkHook, Mapping[str, Any]], str | None]
"""None where it was taken, else why not."""


@dataclass(frozen=True, kw_only=True)
class HookStanding:
    """What a hook was told, and what it wasn't yet."""

    hook: str
    told: int = 0
    """Just now."""
    last: datetime | None
    """When it was told last; None: never."""
    waiting: tuple[Delivery, ...]

    @property
    def error(self) -> str | None:
        return self.waiting[0].error if self.waiting else None


class Deliverer:
    """Tells hooks what they weren't told yet, movement after movement."""

    def __init__(self, settings: Settings, tables: Tables, ledger: Ledger, call: Call, clock: Clock) -> None:
        self._settings = settings
        self._tables = tables
        self._ledger = ledger
        self._call = call
        self._clock = clock

    def standing(self) -> list[HookStanding]:
        """Every hook of the project."""
        if not self._settings.hooks:
            return []
        waiting, last = self._ledger.undelivered(), self._ledger.last_delivered()
        return [
            HookStanding(hook=name, last=last.get(name), waiting=tuple(each for each in waiting if each.hook == name))
            for name in self._settings.hooks
        ]

    def deliver(self, sleep: Callable[[float], object]) -> list[HookStanding]:
        """What waits, in order: after one that isn't taken, the later ones of that hook wait too. Those hooks for
        which something waited.
        """
        return [self._told(each, sleep) for each in self.standing() if each.waiting]

    def _told(self, standing: HookStanding, sleep: Callable[[float], object]) -> HookStanding:
        for done, delivery in enumerate(standing.waiting):
            error = self._tried(delivery, sleep)
            if error is not None:
                failed = replace(delivery, error=error)
                return replace(standing, told=done, waiting=(failed, *standing.waiting[done + 1 :]))
        return replace(standing, told=len(standing.waiting), last=self._clock(), waiting=())

    def _tried(self, delivery: Delivery, sleep: Callable[[float], object]) -> str | None:
        hook = self._settings.hooks[delivery.hook]
        document = hook_document(delivery, self._settings.name, self._committed(delivery))
        error: str | None = None
        for tries in range(1, TRIES + 1):
            error = self._call(hook, document)
            self._ledger.record_delivery(delivery, at=self._clock(), error=error)
            if error is None:
                break
            if tries < TRIES:
                sleep(seconds_before_next(tries))
        return error

    def _committed(self, delivery: Delivery) -> datetime | None:
        """When the snapshot was made up to which all is consumed, as far as the table still knows it."""
        if not delivery.is_set or not delivery.mark.uuid:
            return None
        facts = self._tables.facts(delivery.mark.table)
        if facts is None or facts.uuid != delivery.mark.uuid:
            return None
        return next((at for at, snapshot in facts.history if snapshot == delivery.mark.snapshot_id), None)
