"""May many slices be computed in one job? Judged by where each column of the query comes from.

The question is whether a slice comes out the same alone and among others. Every relation in the query is given the days
around a slice for which it is complete (`Span`): an input its lookback and lookahead, a join what both sides have
where its conditions hold them together, a grouping what its keys carry. The query is sliceable when its slice column
has a span that holds the slice itself. Whatever isn't proven becomes a reason, and runs slice by slice.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from datetime import timedelta
from itertools import count

from sqlglot import exp

from retcon.core.models import Input, Reach, Slicing
from retcon.core.queries import Entity
from retcon.core.slices import Buckets, Grain, Whole
from retcon.project.sql.clauses import InnerQuery, grouping_sets, inner_queries, leaf_selects, own_nodes, range_reach
from retcon.project.sql.columns import (
    common_table_names,
    nothing_known,
    output_name,
    output_names,
    source_names,
    wraps_join,
)
from retcon.project.sql.comparisons import KEYS, SLICE_PARAMETERS, Calendar, equated
from retcon.project.sql.findings import Findings, times
from retcon.project.sql.functions import is_aggregate, window_clauses
from retcon.project.sql.joins import Body, BodyReader
from retcon.project.sql.references import Readings, common_table
from retcon.project.sql.relations import Relation, Rows, Scope, folded, narrowed
from retcon.project.sql.spans import NOWHERE, Bound, Field, Gap, Gaps, Span
from retcon.project.sql.statements import SqlProblem, Statement

_SHORTEST = {Grain.HOUR: 1, Grain.DAY: 24, Grain.WEEK: 7 * 24, Grain.MONTH: 28 * 24, Grain.YEAR: 365 * 24}
"""Hours that a slice has at least."""
_THE_SLICE = Span(first=0, last=0)
_NAMED_UNIT = re.compile(r"\bdate_trunc\s*\(\s*[^'\"\s]", re.IGNORECASE)


@dataclass(frozen=True, kw_only=True)
class Judgement:
    """Why slices influence one another, and what no way of computing them makes right."""

    reasons: tuple[str, ...]
    problems: tuple[SqlProblem, ...]


def judge_batching(statement: Statement, readings: Readings, slicing: Slicing, *, in_utc: bool) -> Judgement:
    """Whether many slices may be computed in one job, by the SQL alone."""
    if slicing.by is None or isinstance(slicing.every, Whole):
        return Judgement(reasons=(), problems=())
    findings = Findings(statement=statement)
    # A unit that isn't written out may be anything.
    is_utc = in_utc and not _NAMED_UNIT.search(statement.text)
    calendar = KEYS if isinstance(slicing.every, Buckets) else Calendar(grain=slicing.every, in_utc=is_utc)
    judge = _Judge(readings=readings, findings=findings, calendar=calendar)
    relation = judge.query(statement.tree, None)
    # whatever this module overlooks in a tree must not pass for proven
    overlooked = [r for r in readings.found if _is_scoped(r.input) and id(r.table) not in judge.followed]
    for reading in () if findings.reasons else overlooked:
        findings.because(reading.input.table, reading.table, "stands where it isn't followed")
    for placeholder in statement.tree.find_all(exp.Placeholder):
        if placeholder.name in SLICE_PARAMETERS and id(placeholder) not in judge.settled:
            findings.parameter(placeholder.name)
    span = relation.days.get(slicing.by.casefold(), NOWHERE)
    if not span.holds_slice and not findings.reasons:
        kind = "key" if isinstance(slicing.every, Buckets) else "time column"
        lack = f"isn't, unchanged, the {kind} of a scoped input" if span.is_empty else "lies outside of the slice"
        findings.reasons.append(f"the slice column {slicing.by} {lack}")
    return Judgement(reasons=tuple(dict.fromkeys(findings.reasons)), problems=tuple(findings.problems))


def judge_entity(statement: Statement, readings: Readings) -> Entity:
    """Whether the rows of some entities come out the same without those of others, by the SQL alone."""
    findings = Findings(statement=statement)
    judge = _Judge(readings=readings, findings=findings, calendar=KEYS)
    relation = judge.query(statement.tree, None)
    overlooked = [r for r in readings.found if r.input.time is not None and id(r.table) not in judge.followed]
    for reading in () if findings.reasons else overlooked:
        findings.because(reading.input.table, reading.table, "stands where it isn't followed")
    columns = frozenset(name for name, span in relation.days.items() if span.holds_slice)
    return Entity(columns=columns, reasons=tuple(dict.fromkeys(findings.reasons)))


@dataclass(kw_only=True)
class _Judge:
    """Follows the days from the inputs to the output; each part of the query is looked at once."""

    readings: Readings
    findings: Findings
    calendar: Calendar
    settled: set[int] = field(default_factory=set)
    followed: set[int] = field(default_factory=set)
    _ids: Iterator[int] = field(default_factory=count)
    _common_tables: dict[int, Relation | None] = field(default_factory=dict)
    _bodies: dict[int, Body] = field(default_factory=dict)
    _scoped: dict[int, bool] = field(default_factory=dict)

    # relations

    def query(self, node: exp.Expr, parent: Scope | None) -> Relation:
        """What a query or subquery yields."""
        names = output_names(node, nothing_known)
        if not self._reads_scoped(node):
            return Relation(names=names)
        match node:
            case exp.Select():
                relation = self._select(node, parent)
            case exp.SetOperation():
                relation = self._set_operation(node, parent)
            case exp.Subquery():
                relation = self.query(node.this, parent)
            case _:
                relation = self._source(node)
        if node.args.get("limit") or node.args.get("offset"):
            self.findings.because("LIMIT", node.args.get("limit") or node, "counts the rows of all slices", "LIMIT")
            relation = relation.explained()
        return replace(relation, names=names)

    def _reads_scoped(self, node: exp.Expr) -> bool:
        if id(node) not in self._scoped:
            self._scoped[id(node)] = False  # what a common table expression reads of itself adds nothing
            self._scoped[id(node)] = any(self._is_scoped(table) for table in node.find_all(exp.Table))
        return self._scoped[id(node)]

    def _is_scoped(self, table: exp.Table) -> bool:
        cte = common_table(table)
        declared = self.readings.input_of(table)
        if cte is not None:
            return self._reads_scoped(cte.this)
        return declared is not None and _is_scoped(declared)

    def _source(self, node: exp.Expr) -> Relation:
        """What one item of FROM holds."""
        names = source_names(node, nothing_known)
        if isinstance(node, exp.Lateral) or not self._reads_scoped(node):
            return Relation(names=names)
        alias = node.args.get("alias")
        renamed = tuple(c.name for c in alias.columns) if isinstance(alias, exp.TableAlias) else ()
        if isinstance(node, exp.Table):
            cte = common_table(node)
            relation = self._common_table(cte) if cte else self._input(node)
        elif wraps_join(node):
            self.findings.because("the join", node, "can't be followed behind an alias of its own")
            relation = Relation(is_scoped=True, is_explained=True)
        else:
            relation = self.query(node.this, None)
        if node.args.get("sample"):
            self.findings.because("TABLESAMPLE", node, "draws from all slices together")
            relation = relation.explained()
        if node.args.get("pivots"):
            self.findings.because("PIVOT", node, "doesn't show which columns it groups by")
            relation = relation.explained()
        return relation.renamed(renamed) if renamed else relation

    def _input(self, table: exp.Table) -> Relation:
        self.followed.add(id(table))
        declared = self.readings.input_of(table)
        if declared is None or declared.time is None or declared.is_own:
            return Relation()
        time = declared.time.casefold()
        key = (declared.key.casefold(),) if declared.key else ()
        return Relation(
            is_scoped=True,
            days={time: Span(first=-self._days_in(declared.lookback), last=self._days_in(declared.lookahead))},
            certain=frozenset({time, *key}),
            inputs=(declared,),
        )

    def _days_in(self, reach: Reach) -> int:
        """How many days it holds at least."""
        if isinstance(reach, timedelta):
            return reach.days
        return reach * _SHORTEST[self.calendar.grain] // 24

    def _common_table(self, cte: exp.CTE) -> Relation:
        if id(cte) not in self._common_tables:
            self._common_tables[id(cte)] = None
            relation = self.query(cte.this, None)
            names = common_table_names(cte, nothing_known)
            alias = cte.args.get("alias")
            has_columns = isinstance(alias, exp.TableAlias) and alias.columns
            self._common_tables[id(cte)] = relation.renamed(names) if has_columns and names else relation
        known = self._common_tables[id(cte)]
        if known is None:
            self.findings.because(f"`{cte.alias}`", cte, "reads itself")
            return Relation(is_scoped=True, is_explained=True)
        return known

    # set operations

    def _set_operation(self, node: exp.SetOperation, parent: Scope | None) -> Relation:
        left, right = self.query(node.this, parent), self.query(node.expression, parent)
        days = self._common_days(node, left, right)
        relation = Relation(
            is_scoped=True,
            days=days,
            inputs=(*left.inputs, *right.inputs),
            is_explained=left.is_explained or right.is_explained,
            is_tied=(left.is_tied or not left.is_scoped) and (right.is_tied or not right.is_scoped),
        )
        compares_rows = not isinstance(node, exp.Union) or node.args.get("distinct")
        if compares_rows and not days and not relation.is_explained:
            word = node.key.upper()
            self.findings.because(word, node.expression, f"doesn't carry {times(relation.inputs)}", word, "MINUS")
            return relation.explained()
        return relation

    def _common_days(self, node: exp.SetOperation, left: Relation, right: Relation) -> dict[str, Span]:
        if not isinstance(node, exp.Union):
            # what stands against an unchanging side is decided row by row
            if not right.is_scoped:
                return dict(left.days)
            if not left.is_scoped and isinstance(node, exp.Intersect) and left.names and right.names:
                return dict(right.renamed(left.names).days)
        if node.args.get("by_name"):
            theirs = right
        elif left.names is None or right.names is None:
            return {}  # columns go by their position, which can't be seen
        else:
            theirs = right.renamed(left.names)
        both = {name: span.within(theirs.days.get(name, NOWHERE)) for name, span in left.days.items()}
        return {name: span for name, span in both.items() if not span.is_empty}

    # selects

    def _body(self, select: exp.Select, parent: Scope | None) -> Body:
        """FROM and WHERE, with everything that they compare rows with."""
        if id(select) not in self._bodies:
            self._bodies[id(select)] = self._read_body(select, parent)
        return self._bodies[id(select)]

    def _read_body(self, select: exp.Select, parent: Scope | None) -> Body:
        reader = BodyReader(
            scope=Scope(parent=parent), relation_of=self._source, new_id=lambda: next(self._ids), calendar=self.calendar
        )
        body = reader.read(select)
        self.settled |= {id(placeholder) for placeholder in body.settled}
        rows = body.rows
        for clash in body.clashes:
            self.findings.clash(clash)
        for join in body.unclear:
            if rows.is_scoped:
                self.findings.because("the join", join.this, "can't be followed next to a RIGHT or FULL JOIN")
                rows = rows.explained()
        body = replace(body, rows=rows)
        for lateral in body.laterals:
            is_outer = isinstance(lateral.parent, exp.Join) and lateral.parent.side == "LEFT"
            inner = InnerQuery(node=lateral, query=lateral.this, word="LATERAL", shows_absence=is_outer)
            body = self._narrowed_by(body, inner)
        for inner in inner_queries(select):
            body = self._narrowed_by(body, inner)
        return body

    def _select(self, select: exp.Select, parent: Scope | None) -> Relation:
        body = self._body(select, parent)
        body = replace(body, rows=self._grouped(select, body))
        body = replace(body, rows=self._windowed(select, body))
        rows = body.rows
        relation = Relation(
            is_scoped=rows.is_scoped,
            days=self._projected(select, body),
            inputs=rows.inputs,
            is_explained=rows.is_explained,
            is_tied=rows.is_tied,
        )
        if select.args.get("sample"):
            self.findings.because("TABLESAMPLE", select, "draws from all slices together")
        elif any(isinstance(p.unalias(), exp.QueryTransform) for p in select.expressions):
            self.findings.because("TRANSFORM", select, "runs a script over the rows of all slices")
        elif select.args.get("distinct") and not relation.days and not relation.is_explained:
            lack = f"doesn't carry {times(rows.inputs)}"
            self.findings.because("DISTINCT", select.expressions[0], lack, "DISTINCT")
        else:
            return relation
        return relation.explained()

    def _day(self, node: exp.Expr, body: Body) -> Span:
        """For which days of this expression the rows are complete: a column as it came in, or cut down to a part
        of the slice, whose rows then all lie in that slice."""
        whole = self.calendar.truncated(node)
        if whole is not None:
            return _THE_SLICE if self._day(whole, body).holds_slice else NOWHERE
        match node:
            case exp.Paren() | exp.Alias():
                return self._day(node.this, body)
            case exp.Column():
                column = body.scope.field_of(node)
                if column is None:
                    return NOWHERE
                return body.rows.spans.get(column) or Gaps(body.filters).seen_from(column, body.rows.spans)
            case exp.Coalesce():
                # whichever it takes: the rows of that day are complete by that column
                spans = [self._day(part, body) for part in (node.this, *node.expressions)]
                first, *others = spans
                for span in others:
                    first = first.within(span)
                return first
        return NOWHERE

    def _projected(self, select: exp.Select, body: Body) -> dict[str, Span]:
        days: dict[str, Span] = {}
        seen: set[str] = set()
        for projection in select.expressions:
            if projection.is_star:
                found = self._starred(projection, body)
            else:
                name = output_name(projection)
                found = {name.casefold(): self._day(projection, body)} if name else {}
            for name, span in found.items():
                days[name] = span if name not in seen else NOWHERE
                seen.add(name)
        return {name: span for name, span in days.items() if not span.is_empty}

    def _starred(self, projection: exp.Expr, body: Body) -> dict[str, Span]:
        star = projection if isinstance(projection, exp.Star) else projection.this
        if star.args.get("rename"):
            return {}
        alias = projection.args.get("table")
        sources = [s for s in body.scope.sources if alias is None or s.alias.casefold() == alias.name.casefold()]
        changed = [*(star.args.get("except_") or ()), *(star.args.get("replace") or ())]
        left_out = {item.alias_or_name.casefold() for item in changed}
        days: dict[str, Span] = {}
        for column, span in body.rows.spans.items():
            if column.name not in left_out and any(source.id == column.source for source in sources):
                days[column.name] = NOWHERE if column.name in days else span
        if alias is None:
            merged = {name: body.rows.spans.get(column, NOWHERE) for name, column in body.scope.merged.items()}
            days |= {name: span for name, span in merged.items() if name not in left_out}
        return days

    # grouping and windows

    def _grouped(self, select: exp.Select, body: Body) -> Rows:
        rows = body.rows
        group = select.args.get("group")
        if not rows.is_scoped or rows.is_explained:
            return rows
        if group is None:
            total = next((n for n in own_nodes(select) if is_aggregate(n)), None)
            if total is None and not select.args.get("having"):
                return rows
            name = f"{self.findings.statement.word_of(total)}()" if total is not None else "HAVING"
            self.findings.because(name, total or select.args["having"], "folds the rows of all slices")
            return rows.explained()
        if all(any(self._carries(key, select, body) for key in keys) for keys in grouping_sets(select, group)):
            return rows
        self.findings.because("GROUP BY", group, f"doesn't carry {times(rows.inputs)}", "GROUP")
        return rows.explained()

    def _carries(self, key: exp.Expr, select: exp.Select, body: Body) -> bool:
        if isinstance(key, exp.Literal) and not key.is_string and key.name.isdigit():
            named = select.expressions[: int(key.name)]
            is_visible = len(named) == int(key.name) > 0 and not any(p.is_star for p in named)
            return is_visible and not self._day(named[-1], body).is_empty
        if not self._day(key, body).is_empty:
            return True
        # Spark takes a column of the sources before an alias; were there one, the aliased column wouldn't be grouped
        alias = key.name.casefold() if isinstance(key, exp.Column) and not key.table else None
        meant = (p for p in select.expressions if isinstance(p, exp.Alias) and p.alias.casefold() == alias)
        return any(not self._day(projection, body).is_empty for projection in meant)

    def _windowed(self, select: exp.Select, body: Body) -> Rows:
        rows = body.rows
        gaps = Gaps(body.filters)
        for window in (n for n in own_nodes(select) if isinstance(n, exp.Window)):
            if not rows.is_scoped or rows.is_explained:
                break
            seen = self._seen_by_window(window, replace(body, rows=rows))
            spans = {c: span.within(gaps.seen_from(c, seen)) for c, span in rows.spans.items()}
            rows = replace(rows, spans={c: span for c, span in spans.items() if not span.is_empty})
            if not rows.spans:
                name = self.findings.statement.word_of(window.find(exp.Func) or window.this)
                self.findings.because(f"{name}() OVER (…)", window, f"isn't partitioned by {times(rows.inputs)}")
                rows = rows.explained()
        return rows

    def _seen_by_window(self, window: exp.Window, body: Body) -> dict[Field, Span]:
        """By which columns, and for which days, the window has all rows that it should have."""
        clauses = window_clauses(window)
        seen: dict[Field, Span] = {}
        for key in clauses.partition_by:
            inner = self.calendar.uncut(key)
            column = body.scope.field_of(inner) if isinstance(inner, exp.Column) else None
            if column is not None:
                seen[column] = self._day(key, body)
        reach = range_reach(clauses) if self.calendar.counts_days else None
        ordered = clauses.order_by[0].this if reach else None
        column = body.scope.field_of(ordered) if isinstance(ordered, exp.Column) else None
        if column is not None and ordered is not None and reach is not None:
            frame = Gap(low=-reach[0], high=reach[1])
            seen[column] = self._day(ordered, body).seen_from(frame)
        return {column: span for column, span in seen.items() if not span.is_empty}

    # queries within expressions

    def _narrowed_by(self, body: Body, inner: InnerQuery) -> Body:
        """The rows for which this query's answer is the same alone and among other slices."""
        if not self._reads_scoped(inner.query):
            return body
        bodies = [self._body(s, body.scope) for s in leaf_selects(inner.query) if self._reads_scoped(s)]
        spans = dict(body.rows.spans) if bodies else {}
        for other in bodies:
            # whatever it computes, it computes from rows that the conditions hold near the row outside
            spans = narrowed(spans, _gaps(body, other.filters), other.rows.spans)
        if spans:
            return replace(body, rows=replace(body.rows, spans=spans))
        bounds = [bound for other in bodies for bound in other.filters]
        explained = body.rows.is_explained or any(other.rows.is_explained for other in bodies)
        if inner.compared:
            relation = self.query(inner.query, body.scope)
            explained = explained or relation.is_explained
            days, pairs = self._compared(inner, relation, body.scope)
            bounds += pairs
            # NULL NOT IN (…) asks whether there is any row at all: only what holds for every row counts here
            spans = narrowed(body.rows.spans, Gaps((*body.filters, *pairs)), days)
            if spans:
                return replace(body, rows=replace(body.rows, spans=spans))
            bodies = [replace(other, rows=replace(other.rows, spans={**other.rows.spans, **days})) for other in bodies]
        self.findings.inner_query(inner, body, bodies, _gaps(body, bounds), is_explained=explained)
        return replace(body, rows=replace(body.rows.explained(), is_scoped=True))

    def _compared(self, inner: InnerQuery, relation: Relation, scope: Scope) -> tuple[dict[Field, Span], list[Bound]]:
        """The columns of an IN (SELECT …) as a source of its own, equated with what it is compared to."""
        own = next(self._ids)
        pairs: list[tuple[Field, Field]] = []
        for looked_for, name in zip(inner.compared, folded(relation.names), strict=False):
            column = scope.field_of(looked_for) if isinstance(looked_for, exp.Column) else None
            if column is not None:
                pairs.append((column, Field(source=own, name=name)))
        days = {Field(source=own, name=name): span for name, span in relation.days.items()}
        return days, [stated.condition for stated in equated(pairs) if isinstance(stated.condition, Bound)]


def _is_scoped(declared: Input) -> bool:
    """Is it cut to slices that a wave could have more of? Of itself a model sees the same in every wave: one slice."""
    return declared.time is not None and not declared.is_own


def _gaps(body: Body, bounds: Iterable[Bound]) -> Gaps:
    return Gaps((*body.filters, *body.rows.holding_where(bounds)))
