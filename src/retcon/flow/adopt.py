"""Adopt: take over a table that others made, as it is. No row and no file is touched."""

from __future__ import annotations

from retcon.core.adoption import Adoption, Survey, adoption_notes, is_foreign, require_adoptable
from retcon.core.evolution import SchemaChange, is_built_beside
from retcon.core.models import Model
from retcon.core.projects import Project
from retcon.core.schemas import planned_changes, repartitioned
from retcon.core.tables import TableFacts
from retcon.errors import BadArguments, Refused
from retcon.flow.ports import Clock, Ledger, Sql, Tables
from retcon.values import dataclass


@dataclass(frozen=True, kw_only=True)
class Adopted:
    """What was taken over, and what is to know about it."""

    adoption: Adoption
    survey: Survey
    notes: tuple[str, ...]


class Adopter:
    """Checks tables, and records that a model took one over."""

    def __init__(self, project: Project, tables: Tables, ledger: Ledger, sql: Sql) -> None:
        self._project = project
        self._tables = tables
        self._ledger = ledger
        self._sql = sql

    def adopt(self, name: str, reason: str, *, clock: Clock, who: str) -> Adopted:
        """The model's table, taken over; refused with the remedy where it doesn't fit."""
        if not reason.strip():
            raise BadArguments("adopting a table needs a reason", next='pass --reason "why retcon takes it over"')
        model = self._project.graph.model(name)
        facts = self._foreign(model)
        survey = self._tables.survey(model.name, by=model.slicing.by, grain=model.grain)
        changes = (*repartitioned(model, facts), *self._changes(model, facts))
        if not is_built_beside(changes):
            require_adoptable(model, survey)
        adoption = Adoption(
            model=model.name,
            uuid=facts.uuid,
            snapshot_id=facts.snapshot_id,
            slices=survey.slices,
            who=who,
            at=clock(),
            reason=reason.strip(),
        )
        notes = tuple(adoption_notes(survey, changes))
        self._ledger.prepare()
        self._ledger.adopt(adoption)
        return Adopted(adoption=adoption, survey=survey, notes=notes)

    def _foreign(self, model: Model) -> TableFacts:
        facts = self._tables.facts(model.name)
        if facts is None or facts.snapshot_id is None:
            raise Refused(
                f"{model.name} has no table with rows that could be adopted",
                next=f"retcon plan {model.name}{self._project.env_option} --reason …",
            )
        known = self._ledger.adoption(model.name)
        last = self._ledger.last_published((model.name,)).get(model.name)
        if not is_foreign(facts) or (last is not None and last.tables[model.name].uuid == facts.uuid):
            raise Refused(
                f"{model.name} is retcon's own already",
                next=f"retcon plan {model.name}{self._project.env_option} --reason …",
            )
        if known is not None and known.uuid == facts.uuid:
            raise Refused(
                f"{model.name} was adopted by {known.who} at {known.at:%Y-%m-%d %H:%M} UTC: {known.reason}",
                next=f"retcon plan {model.name}{self._project.env_option} --reason …",
            )
        return facts

    def _changes(self, model: Model, facts: TableFacts) -> tuple[SchemaChange, ...]:
        found = {i.table: self._tables.facts(i.table) for i in model.inputs}
        columns = {table: each.column_names for table, each in found.items() if each is not None}
        return planned_changes(model, facts, self._sql.output_columns(model, columns))
