"""Detect: what inputs hold that slices weren't computed from, though watermarks have passed it. Starts no JVM."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from retcon.core.comparisons import Compared, ComparedInput
from retcon.core.conflicts import Commit
from retcon.core.drifts import Arrival, Hit, InputDrift, ModelDrift, arrivals_of
from retcon.core.runs import Consumed
from retcon.core.slices import Cut, SliceSet
from retcon.flow.find import Finder
from retcon.flow.ports import Ledger, Tables

_Consumption = Mapping[str, Mapping[str, Consumed]]


class Detective:
    """Compares what was consumed with what there is, and finds out how differences came to be."""

    def __init__(self, finder: Finder, tables: Tables, ledger: Ledger) -> None:
        self._finder = finder
        self._tables = tables
        self._ledger = ledger
        self._lines: dict[tuple[str, str | None, Cut, int | None], Sequence[Commit]] = {}
        """By what is read: the longest history so far that was walked, all up to the same snapshot."""

    def look(self, names: Sequence[str], now: datetime) -> list[ModelDrift]:
        """Every followed input of these models, upstream first."""
        return [self._drift(compared) for compared in self._finder.compared(names, now)]

    def brought(
        self, by: ComparedInput, slices: SliceSet, consumed: _Consumption, until: int | None
    ) -> tuple[tuple[Arrival, ...], bool]:
        """The commits after what these slices consumed, up to a snapshot, that brought something into them; and
        whether that is all of them.
        """
        hits: list[Hit] = []
        is_known = True
        for slice in slices:
            known = consumed.get(slice.label, {}).get(by.input.name)
            commits = self._since(by, None if known is None else known.snapshot_id, until)
            is_known &= commits is not None
            hits.append(Hit(slices=SliceSet(slice.grain, (slice.ordinal,)), commits=commits or ()))
        moves = self._ledger.watermark_moves(by.mark.model)
        return arrivals_of(by, hits, [move for move in moves if move.mark.input == by.input.name]), is_known

    def _drift(self, compared: Compared) -> ModelDrift:
        consumed = self._ledger.standing_consumption(compared.model)
        return ModelDrift(
            model=compared.model,
            compared=len(compared.slices | compared.missing),
            inputs=tuple(self._input(compared, by, consumed) for by in compared.inputs),
            held=compared.held,
            late=compared.late,
            unknown=compared.unknown,
            unseen=compared.unseen,
        )

    def _input(self, compared: Compared, by: ComparedInput, consumed: _Consumption) -> InputDrift:
        passed = compared.passed(by)
        arrivals, is_known = self.brought(by, passed, consumed, by.mark.snapshot_id)
        return InputDrift(
            input=by.input.name,
            table=by.input.table,
            slices=passed,
            arrivals=arrivals,
            is_history_known=is_known,
            not_loaded_yet=compared.not_loaded_yet(by),
            untold=by.untold,
        )

    def _since(self, by: ComparedInput, since: int | None, until: int | None) -> Sequence[Commit] | None:
        """None where the history isn't there, or nobody keeps one."""
        if not by.mark.uuid:
            return None
        key = (by.input.table, by.by, by.cut, until)
        longest = self._lines.get(key, ())
        places = [place for place, commit in enumerate(longest) if commit.snapshot_id == since]
        if places:
            return longest[places[0] + 1 :]
        found = self._tables.commits(by.input.table, time=by.by, grain=by.cut, since=since, until=until)
        if found is not None and len(found) >= len(longest):
            self._lines[key] = found
        return found
