"""Freshness: asked of the ledger and of metadata, as a load would ask, and answered as far as they answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from retcon.core.exceptions import Decision
from retcon.core.freshness import Freshness, freshness_of
from retcon.core.loads import Found
from retcon.core.projects import Project
from retcon.core.slices import SliceSet
from retcon.errors import Fault, RetconError
from retcon.flow.find import Finder
from retcon.flow.ports import Questions, Tables


class Freshener:
    """Tells how fresh models are."""

    def __init__(self, project: Project, tables: Tables, ledger: Questions) -> None:
        self._graph = project.graph
        self._foreign = project.settings.foreign
        self._ledger = ledger
        self._finder = Finder(project, tables, ledger)

    def freshness(self, published: Mapping[str, SliceSet], now: datetime) -> dict[str, Freshness]:
        """Of these models, by what is published of each. What can't be told of one doesn't keep back the others."""
        found: dict[str, Freshness] = {}
        away = ""
        for name, slices in published.items():
            try:
                found[name] = Freshness(model=name, unknown=away) if away else self._freshness(name, slices, now)
            except Fault as error:
                # A catalog that doesn't answer won't for the next table either, and each time is waited for.
                away = error.message
                found[name] = Freshness(model=name, unknown=away)
            except RetconError as error:
                found[name] = Freshness(model=name, unknown=error.message)
        return found

    def _freshness(self, name: str, published: SliceSet, now: datetime) -> Freshness:
        rows = [i.table for i in self._graph.models[name].inputs if self._is_known_by_rows(i.table)]
        if rows:
            # Looking at them takes Spark, and nobody waits for that here.
            why = f"{', '.join(rows)} is known by its rows: `retcon load --dry-run` looks at them"
            return Freshness(model=name, unknown=why)
        [looked] = self._finder.find((name,), now)
        found = replace(looked, why=self._with_exceptions(looked, published))
        held = SliceSet.labelled(published.grain, self._ledger.held_slices(name))
        return freshness_of(found, published, self._finder.stale_by_code(name), held, now)

    def _is_known_by_rows(self, table: str) -> bool:
        source = self._foreign.get(table)
        return source is not None and source.updated is not None

    def _with_exceptions(self, found: Found, published: SliceSet) -> Mapping[str, SliceSet]:
        """Watermarks pass what is on record as an exception; until it is restated or rejected it is stale all the
        same.
        """
        why = dict(found.why)
        for label, entry in self._ledger.newest_exceptions(found.model).items():
            if entry.decision in (Decision.OPEN, Decision.APPROVED):
                one = SliceSet.labelled(published.grain, (label,))
                why |= {name: why.get(name, SliceSet(published.grain)) | one for name in entry.late.because_of}
        return why


def not_known(names: Sequence[str], why: str) -> dict[str, Freshness]:
    """The same of models of which nothing can be told."""
    return {name: Freshness(model=name, unknown=why) for name in names}
