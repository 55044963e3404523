"""Plan: what a correction covers, what it reads, what it costs. Writes nothing."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from datetime import datetime
from functools import reduce

from retcon.core.adoption import require_adopted
from retcon.core.evolution import SchemaChange, is_built_beside
from retcon.core.intervals import Edge, Interval, edge_text
from retcon.core.keys import Keys, is_value_of
from retcon.core.models import Model, Strategy
from retcon.core.notes import (
    beside_notes,
    carried_notes,
    kept_notes,
    keys_notes,
    moved_notes,
    notes_of,
    widened_notes,
)
from retcon.core.overlaps import overlap_notes, require_nobody_in_the_way
from retcon.core.planning import LeaveAlone, Scope, World, narrowed_to, plan_id, plan_model, require_inputs, spread
from retcon.core.plans import Beside, Load, Plan, PlannedModel, Request, beside_of
from retcon.core.projects import Project
from retcon.core.ranges import asked_or_default, held_by_inputs, since_start
from retcon.core.readings import require_hours_told
from retcon.core.schemas import (
    planned_changes,
    repartitioned,
    require_carried,
    require_same_hashes,
    require_slice_type,
    require_time_columns,
)
from retcon.core.slices import WHOLE, Buckets, Cut, Grain, SliceSet
from retcon.core.suggestions import nearest
from retcon.core.tables import Column, TableFacts
from retcon.core.types import plain_type
from retcon.core.versions import require_past_alone
from retcon.core.waves import wave_bytes
from retcon.errors import BadArguments, Problem, ProjectInvalid, Refused
from retcon.flow.looks import require_gate_tables
from retcon.flow.moves import Moves
from retcon.flow.ports import Homes, Ledger, Sql, Tables
from retcon.flow.standing import known_tables
from retcon.flow.watermarks import brought_in
from retcon.flow.worlds import with_past, with_planned, world_of
from retcon.values import dataclass


@dataclass(frozen=True, kw_only=True)
class Ask:
    """What a person asks a plan for."""

    select: tuple[str, ...]
    reason: str
    command: str
    by: str
    now: datetime
    suffix: str
    start: Edge | None = None
    end: Edge | None = None
    exclude: tuple[str, ...] = ()
    downstream: bool = True
    allow_missing_source: bool = False
    wave: int | None = None
    refreshes: str | None = None
    keys: Keys | None = None
    force: bool = False
    """Plan though another run is under way over the same slices."""
    dry_run: bool = False
    """Only to be looked at: what is in its way is noted, not refused."""
    found: Mapping[str, SliceSet] | None = None
    """The slices of each model, where they were found; None: dates were asked for, or nothing but the models."""
    leave_alone: LeaveAlone = lambda model, _: SliceSet(model.grain)
    """What readers of the scope aren't restated in."""
    load: Load | None = None
    changed: bool = False
    """What was found is what differs, within the dates that were asked for."""
    notes: tuple[str, ...] = ()
    """What is to be said of how the scope was found."""


class Planner:
    """Makes plans from the project, the ledger and Iceberg's metadata."""

    def __init__(
        self, project: Project, tables: Tables, ledger: Ledger, sql: Sql, homes: Homes, *, cores: int | None = None
    ) -> None:
        """`cores`: those that jobs will have, as far as settings tell."""
        self._project = project
        self._tables = tables
        self._ledger = ledger
        self._sql = sql
        self._homes = homes
        self._wave_bytes = wave_bytes(cores)

    def plan(self, ask: Ask) -> Plan:
        """The plan for what was asked, or an error that says why there can't be one."""
        if ask.found is None:
            self._tables.look_again()
        plan = self._plan(ask)
        others = self._ledger.in_the_way(plan)
        if not ask.force and not ask.dry_run:
            require_nobody_in_the_way(others, state="no plan was written", force="--force")
        return replace(plan, notes=(*overlap_notes(others), *plan.notes))

    def _plan(self, ask: Ask) -> Plan:
        graph = self._project.graph
        if not ask.reason.strip():
            raise BadArguments("a plan needs a reason", next='pass --reason "why history is rewritten"')
        if not graph.models:
            raise Refused("the project has no models", next="write one into models/<namespace>/<table>.sql")
        selected = (
            graph.select(ask.select, ask.exclude)
            if ask.found is None
            else tuple(n for n in graph.order if n in ask.found)
        )
        if not selected:
            raise Refused("no model is left after --exclude", next="`retcon check` lists the models of this project")
        world = world_of(self._project, self._tables, self._ledger, selected)
        self._require_readable(selected, world)
        asked = self._asked(ask, selected, world)
        hulls = [slices.hull() for _, slices in asked.values() if isinstance(slices.grain, Grain)]
        interval = _around(hulls)
        readers = set().union(*(graph.descendants(name) for name in selected)) - set(selected)
        exclude = tuple(name for name in graph.select(ask.exclude) if name in readers) if ask.exclude else ()
        moves = self._moves(ask, world)
        slices_asked = {name: slices for name, (_, slices) in asked.items()}
        scope, left_out = self._scope(ask, slices_asked, exclude, world, moves)
        limits = self._project.settings.limits
        limits.require(slices=sum(len(slices) for slices in scope.slices.values()))
        running = tuple(name for name in graph.order if name in scope.slices)
        require_past_alone(scope.slices, graph)
        changes = self._require_readable(running, world)
        for name in running:
            require_carried(graph.models[name], world.facts.get(name), changes[name], is_keyed=name in scope.keyed)
        first = graph.models[selected[0]]
        id = plan_id(ask.now, first, ask.suffix)
        there = world
        world = _without(world, {name for name in running if is_built_beside(changes[name])})
        world = with_past(world, scope, graph, self._tables, ask.now)
        models = tuple(
            _built(
                plan_model(graph.models[name], scope, graph, world, ask.now, ask.wave, limit=self._wave_bytes),
                changes[name],
                id,
                there,
            )
            for name in running
        )
        limits.require(bytes=sum(model.bytes for model in models))
        require_inputs(models, allow_missing=ask.allow_missing_source)
        ranges = {name: (range, slices) for name, (range, slices) in asked.items() if range is not None}
        start, end = self._edges(ask, [range for range, _ in ranges.values()], interval)
        return Plan(
            id=id,
            reason=_printable(ask.reason),
            created=ask.now,
            by=ask.by,
            request=Request(
                models=tuple(name.removeprefix(graph.prefix) for name in selected),
                start=start,
                end=end,
                command=ask.command,
                exclude=tuple(name.removeprefix(graph.prefix) for name in exclude),
                downstream=ask.downstream,
                allow_missing_source=ask.allow_missing_source,
                wave=ask.wave,
                refreshes=ask.refreshes,
                environment=self._project.environment,
                force=ask.force,
                changed=ask.changed,
                found={}
                if ask.found is None or ask.changed
                else {name.removeprefix(graph.prefix): slices.text for name, slices in ask.found.items()},
            ),
            interval=interval,
            timezone=self._project.settings.timezone,
            models=models,
            outside=scope.outside,
            settings=self._project.settings.fingerprint,
            params=self._project.settings.params,
            limits=asdict(limits),
            notes=(
                *ask.notes,
                *widened_notes(ranges),
                *carried_notes(scope),
                *moved_notes(models, graph, moves.unknown),
                *self._beside_notes(models),
                *kept_notes(models, self._project.settings.foreign),
                *(keys_notes(ask.keys, scope, left_out) if ask.keys is not None else ()),
                *(brought_in(models, self._project, self._tables, self._ledger) if not (ask.load or ask.keys) else ()),
                *notes_of(models, graph, interval, world),
            ),
            keys=ask.keys,
            load=ask.load,
        )

    def _scope(
        self, ask: Ask, asked: Mapping[str, SliceSet], exclude: tuple[str, ...], world: World, moves: Moves
    ) -> tuple[Scope, Mapping[str, SliceSet]]:
        """The asked slices and what reads them; of keys, only what was published, and what that leaves out."""
        graph = self._project.graph

        def held(model: Model, made: Mapping[str, SliceSet]) -> SliceSet:
            seen = reduce(lambda seen, name: with_planned(seen, graph.models[name], made[name]), made, world)
            return held_by_inputs(model, graph, seen, ask.now)

        def spread_from(asked: Mapping[str, SliceSet]) -> Scope:
            return spread(
                graph,
                asked,
                world.published,
                downstream=ask.downstream,
                exclude=exclude,
                held=held,
                leave_alone=ask.leave_alone,
                leave=moves.leave,
            )

        scope = spread_from(asked)
        if ask.keys is None:
            return scope, {}
        self._project.settings.limits.require(keys=ask.keys.count)
        keyed = narrowed_to(ask.keys.column, scope, graph, world.facts).keyed
        there = {name: world.published.get(name, SliceSet(graph.models[name].grain)) for name in asked}
        kept = {name: slices & there[name] if name in keyed else slices for name, slices in asked.items()}
        left_out = {name: asked[name] - kept[name] for name in asked}
        self._require_typed(ask.keys, keyed, world)
        holding = {name: self._holding(ask.keys, name, kept[name]) if name in keyed else kept[name] for name in kept}
        for name in (name for name, slices in holding.items() if not slices):
            raise Refused(
                f"{name}: nothing of {asked[name].text} that could hold these keys was ever published",
                state="no plan was written",
                next="plan it without keys",
            )
        return narrowed_to(ask.keys.column, spread_from(holding), graph, world.facts), left_out

    def _moves(self, ask: Ask, world: World) -> Moves:
        def planned(model: Model, scope: Scope) -> PlannedModel:
            seen = with_past(world, scope, self._project.graph, self._tables, ask.now)
            return plan_model(model, scope, self._project.graph, seen, ask.now, ask.wave, limit=self._wave_bytes)

        return Moves(
            project=self._project,
            tables=self._tables,
            world=world,
            homes=self._homes,
            now=ask.now,
            allow_missing=ask.allow_missing_source,
            planned=planned,
        )

    def _holding(self, keys: Keys, name: str, slices: SliceSet) -> SliceSet:
        """The slices in which the keys can be: of buckets of the same column, their own; else any."""
        by = self._project.graph.models[name].slicing.by
        is_told = by is not None and by.casefold() == keys.column.casefold() and keys.values
        if not is_told or not isinstance(slices.grain, Buckets):
            return slices
        found = self._tables.buckets_of(name, keys.column, slices.grain.number, keys.values)
        return slices if found is None else SliceSet.of(slices.grain, found & set(slices.ordinals))

    def _require_typed(self, keys: Keys, keyed: Collection[str], world: World) -> None:
        """Keys that the table's column can't hold are no keys."""
        for name in sorted(keyed):
            facts = world.facts.get(name)
            column = facts.column(keys.column) if facts is not None else None
            wrong = [value for value in keys.values if column is not None and not is_value_of(value, column.type)]
            if wrong and column is not None:
                raise BadArguments(
                    f"--keys: {wrong[0]!r} is no {column.type}, which {name}.{column.name} is",
                    next="write them as the table has them",
                )

    def _asked(self, ask: Ask, selected: Sequence[str], world: World) -> dict[str, tuple[Interval | None, SliceSet]]:
        """The range and slices of each model; where a date is left out, each model's own history decides."""
        if ask.found is not None:
            return {name: (None, ask.found[name]) for name in selected}
        graph = self._project.graph
        asked: dict[str, tuple[Interval | None, SliceSet]] = {}
        seen = world
        for name in selected:
            model = graph.models[name]
            interval = asked_or_default(model, ask.start, ask.end, graph, seen, ask.now)
            slices = since_start(model, _slices_in(model.grain, interval))
            if model.strategy is Strategy.FULL:
                slices |= held_by_inputs(model, graph, seen, ask.now)
            asked[name] = interval, slices
            seen = with_planned(seen, model, slices)
        return asked

    def _edges(self, ask: Ask, ranges: Sequence[Interval], interval: Interval | None) -> tuple[str | None, str | None]:
        """What was asked for, in words that ask for it again; where nothing was said, what it came to."""
        around = _around(ranges) or (interval if ask.start or ask.end else None)
        if around is None:
            return None, None
        start, end = around.edges
        return edge_text(ask.start or start), edge_text(ask.end or end)

    def _beside_notes(self, models: Sequence[PlannedModel]) -> Iterator[str]:
        """What it costs to build tables beside others, and who is left behind."""
        restated = {model.name for model in models}
        for model in models:
            if model.beside is not None:
                snapshot = model.beside.instead_of
                held = self._tables.contents(model.name, time=None, grain=WHOLE, snapshot_id=snapshot)
                yield from beside_notes(model, model.beside.table, held.of(None), self._project.graph, restated)

    def _require_readable(self, planned: Sequence[str], world: World) -> dict[str, tuple[SchemaChange, ...]]:
        """What these models, in running order, read is there; how the columns of their own tables change."""
        self._require_tables(planned, world)
        return self._changes(planned, world)

    def _require_tables(self, planned: Sequence[str], world: World) -> None:
        """Everything that these models read or follow is there, or planned with them."""
        graph = self._project.graph
        for name in planned:
            require_gate_tables(graph.models[name], planned, self._tables)
            for i in graph.models[name].inputs:
                if i.table in planned:
                    continue
                if i.table in graph.models and not world.published.get(i.table):
                    raise Refused(
                        f"{name} reads {i.table}, which was never published{self._where}",
                        state="no plan was written",
                        next=f"include it: retcon plan +{name}{self._project.env_option} …",
                    )
                if i.table not in world.facts and i.table in world.sources and world.sources[i.table].path:
                    raise Refused(
                        f"{name} reads {i.table}, and there is no {world.sources[i.table].path}",
                        state="no plan was written",
                        next=f"correct `sources.{i.table}.path` in retcon.yaml",
                    )
                if i.table not in world.facts:
                    close = nearest(i.table, self._tables.names())
                    raise Refused(
                        f"{name} reads {i.table}, and the catalog has no such table",
                        state="no plan was written",
                        next=f"did you mean {close}?" if close else "make that table first, or correct the name",
                    )
            for other in graph.models[name].after:
                if other not in planned and not world.published.get(other):
                    raise Refused(
                        f"{name} comes after {other}, which was never published{self._where}",
                        state="no plan was written",
                        next=f"publish it first, or include it: retcon plan {other} {name}{self._project.env_option} …",
                    )

    @property
    def _where(self) -> str:
        return "" if self._project.environment is None else f" in {self._project.environment}"

    def _changes(self, planned: Sequence[str], world: World) -> dict[str, tuple[SchemaChange, ...]]:
        """How tables change; refused: columns that the catalog or an upstream query lacks, tables that don't fit."""
        graph = self._project.graph
        columns = {name: facts.column_names for name, facts in world.facts.items() if facts.columns}
        problems: list[Problem] = []
        changes: dict[str, tuple[SchemaChange, ...]] = {}
        seen = dict(world.facts)
        cut_by: dict[tuple[str, str], Column] = {}
        for name in planned:
            model = graph.models[name]
            if model.reads_itself and (name not in columns or model.strategy is Strategy.FULL):
                columns[name] = tuple(column for column, _ in model.columns)
            problems += self._sql.column_problems(model, columns)
            output = self._sql.output_columns(model, columns)
            require_time_columns(model, seen)
            dates = {table for (table, _), column in cut_by.items() if column.type == "date"}
            require_hours_told(model, graph, {*world.facts, *dates})
            column = self._slice_column(model, world, cut_by)
            if column is not None:
                require_slice_type(model, column)
                cut_by[name, column.name.casefold()] = column
            require_same_hashes(model, seen)
            facts = world.facts.get(name)
            if facts is not None:
                self._require_own(model, facts)
            cut = repartitioned(model, facts) if facts is not None else ()
            changes[name] = (*cut, *planned_changes(model, facts, output))
            if is_built_beside(changes[name]):
                self._require_exchangeable(model)
                seen.pop(name)
            if output is not None:
                columns[name] = output
        if problems:
            raise ProjectInvalid(problems)
        return changes

    def _require_exchangeable(self, model: Model) -> None:
        """Two tables change places in the catalog's database; a REST catalog has no such step."""
        if self._project.settings.catalog.is_rest:
            raise Refused(
                f"{model.name}: its table can't become what the model says, and a REST catalog can't put another one "
                "in its place in the same step as the rest",
                state="nothing was written",
                next="publish it under a new name, or change the columns so that the table can take them",
            )

    def _slice_column(self, model: Model, world: World, planned: Mapping[tuple[str, str], Column]) -> Column | None:
        """The slice column of what the query yields, where `columns` or a column that is passed on tell its type."""
        by = model.slicing.by
        if by is None:
            return None
        declared = next((kind for name, kind in model.columns if name.casefold() == by.casefold()), None)
        if declared is not None:
            return Column(name=by, type=plain_type(declared))
        found = self._sql.passed_on(model, by)
        if found is None:
            return None
        table, column = found
        facts = world.facts.get(table)
        known = planned.get((table, column.casefold())) or (facts.column(column) if facts is not None else None)
        return None if known is None else Column(name=by, type=plain_type(known.type))

    def _require_own(self, model: Model, facts: TableFacts) -> None:
        require_adopted(model, facts, known_tables(self._ledger, model.name), self._project.env_option)


def _slices_in(cut: Cut, interval: Interval | None) -> SliceSet:
    """The slices of a range; without one, all that a table has which isn't cut by time."""
    if isinstance(cut, Grain):
        return SliceSet(cut) if interval is None else SliceSet.covering(cut, interval)
    return SliceSet.every(cut)


def _printable(reason: str) -> str:
    """The reason without signs that no text file brings back as they were."""
    return "".join(sign if sign.isprintable() or sign == "\n" else " " for sign in reason).strip()


def _around(intervals: Sequence[Interval]) -> Interval | None:
    if not intervals:
        return None
    return Interval(min(each.start for each in intervals), max(each.end for each in intervals))


def _without(world: World, names: Collection[str]) -> World:
    """The world as it is for whoever reads tables that are built anew: nothing of those that are there."""
    return replace(
        world,
        facts={name: facts for name, facts in world.facts.items() if name not in names},
        contents={key: held for key, held in world.contents.items() if key[0] not in names},
    )


def _built(planned: PlannedModel, changes: tuple[SchemaChange, ...], plan: str, there: World) -> PlannedModel:
    """The model with how its table gets to take what it yields."""
    if not is_built_beside(changes):
        return replace(planned, changes=changes)
    beside = Beside(table=beside_of(plan, planned.name), instead_of=there.facts[planned.name].snapshot_id)
    return replace(planned, changes=changes, beside=beside, is_new=False)
