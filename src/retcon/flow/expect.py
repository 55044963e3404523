"""Expect: what the plan says a correction will do, held against what was staged."""

from __future__ import annotations

from retcon.core.evolution import AddColumn, DropColumn
from retcon.core.expectations import (
    Expected,
    judge_expectation,
    judge_uncompared,
    judge_untouched,
    named,
)
from retcon.core.gates import Verdict
from retcon.core.plans import Plan, PlannedModel
from retcon.core.projects import Project
from retcon.core.runs import Run
from retcon.flow.context import Context
from retcon.flow.measure import Measured
from retcon.flow.ports import Sql, Tables


def expected(run: Run, planned: PlannedModel, found: Measured, context: Context) -> list[Verdict]:
    """The verdicts on what is expected of one model. Rows are read only where measures of whole slices don't tell."""
    own = named(run.plan.expect, planned.name)
    if not own:
        return []
    if not found.request.slices:
        return [judge_untouched(name, each) for name, each in own.items()]
    table = run.tables[planned.name]
    if found.request.production is None and table.snapshot_before is not None:
        return [judge_uncompared(name, each) for name, each in own.items()]
    by_rows = [each for each in own.values() if each.needs_rows]
    looked_at = context.warehouse.expected(found.request, by_rows) if by_rows else ()
    told = dict(zip(by_rows, looked_at, strict=True))
    whole = Expected(staged=found.staged, production=found.production)
    return [judge_expectation(name, each, told.get(each, whole), whole) for name, each in own.items()]


def planned_columns(plan: Plan, project: Project, tables: Tables, sql: Sql) -> dict[str, tuple[str, ...]]:
    """By model that something is expected of: the columns it will have, where that can be told without Spark."""
    wanted = {each.model for each in plan.expect}
    found = {each.name: _columns_of(each, project, tables, sql) for each in plan.models if each.name in wanted}
    return {name: columns for name, columns in found.items() if columns is not None}


def _columns_of(planned: PlannedModel, project: Project, tables: Tables, sql: Sql) -> tuple[str, ...] | None:
    facts = tables.facts(planned.name)
    if facts is not None and facts.columns:
        added = [change.column.partition(".")[0] for change in planned.changes if isinstance(change, AddColumn)]
        dropped = {change.column for change in planned.changes if isinstance(change, DropColumn)}
        kept = [name for name in facts.column_names if name not in dropped]
        return tuple(dict.fromkeys([*kept, *added]))
    model = project.graph.model(planned.name)
    inputs = {i.table: tables.facts(i.table) for i in model.inputs}
    return sql.output_columns(model, {name: each.column_names for name, each in inputs.items() if each is not None})
