"""FROM and WHERE of one SELECT: which rows come together, and for which days they are complete."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from math import inf

from sqlglot import exp

from retcon.project.sql.columns import is_parenthesised, source_alias
from retcon.project.sql.comparisons import Calendar, Stated, equated, stated_bounds
from retcon.project.sql.relations import JoinKind, Objection, Relation, Rows, Scope, Source, folded, joined
from retcon.project.sql.spans import Bound, Field, Gaps, SliceBound, Span


@dataclass(frozen=True, kw_only=True)
class Merge:
    """A column that USING makes of two; after a FULL JOIN it is the one that isn't NULL."""

    column: Field
    left: Field
    right: Field


@dataclass(frozen=True, kw_only=True)
class Pair:
    """Two sides of a join."""

    left: Tree
    right: Tree
    join: exp.Join
    kind: JoinKind
    stated: tuple[Stated, ...]
    merges: tuple[Merge, ...]
    is_unclear: bool = False
    """NATURAL, and it can't be seen which columns it merges."""

    @property
    def bounds(self) -> tuple[Bound, ...]:
        return _bounds(self.stated)


Tree = Source | Pair


@dataclass(frozen=True, kw_only=True)
class Clash:
    """A join whose sides can't be held to the same slices."""

    join: exp.Join
    kind: JoinKind
    objection: Objection
    left: Rows
    right: Rows


@dataclass(frozen=True, kw_only=True)
class Body:
    """What FROM and WHERE make of the inputs, before anything is grouped or projected."""

    scope: Scope
    rows: Rows
    filters: tuple[Bound, ...] = ()
    """What holds for every row."""
    clashes: tuple[Clash, ...] = ()
    laterals: tuple[exp.Lateral, ...] = ()
    settled: tuple[exp.Placeholder, ...] = ()
    """Slice parameters that only bound a time column, which many slices together do as well."""
    unclear: tuple[exp.Join, ...] = ()


@dataclass(kw_only=True)
class BodyReader:
    """Reads FROM and WHERE; what a source holds it asks."""

    scope: Scope
    relation_of: Callable[[exp.Expr], Relation]
    new_id: Callable[[], int]
    calendar: Calendar
    laterals: list[exp.Lateral] = field(default_factory=list)
    clashes: list[Clash] = field(default_factory=list)

    def read(self, select: exp.Select) -> Body:
        tree = self._tree(select)
        for view in select.args.get("laterals") or ():
            self._source(view)
        pairs = list(_pairs(tree)) if tree else []
        where = tuple(stated_bounds(select.args.get("where"), self.scope.field_of, self.calendar))
        # after a RIGHT or FULL JOIN, WHERE no longer speaks about what the joins before it have read
        turns = any(pair.kind.preserves_right for pair in pairs)
        filters = () if turns or tree is None else (*_inner_bounds(tree), *_bounds(where))
        stated = (*where, *chain.from_iterable(pair.stated for pair in pairs))
        edges = [s for s in stated if isinstance(s.condition, SliceBound)]
        rows = self._folded(tree, filters, edges) if tree else Rows()
        unclear = [pair.join for pair in pairs if pair.is_unclear]
        if turns:  # a comma binds less than JOIN, which sqlglot's tree doesn't show
            unclear += [pair.join for pair in pairs if pair.join.kind == "CROSS"]
        return Body(
            scope=self.scope,
            rows=rows,
            filters=filters,
            clashes=tuple(self.clashes),
            laterals=tuple(self.laterals),
            settled=tuple(p for edge in edges if self._is_harmless(edge) for p in edge.parameters),
            unclear=tuple(unclear),
        )

    def _tree(self, select: exp.Select) -> Tree | None:
        if not select.args.get("from_"):
            return None
        tree = self._item(select.args["from_"].this)
        for join in select.args.get("joins") or ():
            tree = self._pair(tree, join)
        return tree

    def _item(self, node: exp.Expr) -> Tree:
        tree: Tree = self._item(node.this) if is_parenthesised(node) else self._source(node)
        for join in node.args.get("joins") or ():
            tree = self._pair(tree, join)
        return tree

    def _source(self, node: exp.Expr) -> Source:
        if isinstance(node, exp.Lateral) and isinstance(node.this, exp.Subquery):
            self.laterals.append(node)
        source = Source(id=self.new_id(), alias=source_alias(node), relation=self.relation_of(node))
        self.scope.sources.append(source)
        return source

    def _pair(self, left: Tree, join: exp.Join) -> Pair:
        right = self._item(join.this)
        kind = JoinKind.of(join)
        ours, theirs = list(_sources(left)), list(_sources(right))
        names = [column.name.casefold() for column in join.args.get("using") or ()]
        is_unclear = False
        if join.method == "NATURAL":
            names = _common_names(ours, theirs)
            is_unclear = not kind.is_inner and any(s.relation.names is None for s in (*ours, *theirs))
        merges = tuple(self._merged(name, ours, theirs, kind) for name in names)
        pairs = [(merge.left, merge.right) for merge in merges]
        stated = (*stated_bounds(join.args.get("on"), self.scope.field_of, self.calendar), *equated(pairs))
        return Pair(left=left, right=right, join=join, kind=kind, stated=stated, merges=merges, is_unclear=is_unclear)

    def _merged(self, name: str, left: Sequence[Source], right: Sequence[Source], kind: JoinKind) -> Merge:
        nowhere = Field(source=self.new_id(), name=name)
        ours = self.scope.merged.get(name) or self.scope.among(name, left, is_there=True) or nowhere
        theirs = self.scope.among(name, right, is_there=True) or nowhere
        column = theirs if kind.preserves_right else ours
        if kind.preserves_left and kind.preserves_right:
            column = Field(source=self.new_id(), name=name)
        self.scope.merged[name] = column
        return Merge(column=column, left=ours, right=theirs)

    def _folded(self, tree: Tree, filters: tuple[Bound, ...], edges: Sequence[Stated]) -> Rows:
        if isinstance(tree, Source):
            return _rows_of(tree, [e.condition for e in edges if isinstance(e.condition, SliceBound)])
        left = self._folded(tree.left, filters, edges)
        inside = filters if tree.kind.is_inner else (*filters, *_inner_bounds(tree.right))
        right = self._folded(tree.right, inside, edges)
        own = right.holding_where(left.holding_where(tree.bounds))
        rows, objection = joined(left, right, tree.kind, tree.bounds, Gaps((*filters, *own)))
        if objection:
            self.clashes.append(Clash(join=tree.join, kind=tree.kind, objection=objection, left=left, right=right))
            return rows.explained()
        spans = dict(rows.spans)
        for merge in tree.merges:
            if merge.column not in spans and merge.left in spans and merge.right in spans:
                spans[merge.column] = spans[merge.left].within(spans[merge.right])
        return replace(rows, spans=spans)

    def _is_harmless(self, edge: Stated) -> bool:
        condition = edge.condition
        if not isinstance(condition, SliceBound):
            return False
        source = next((s for s in self.scope.sources if s.id == condition.field.source), None)
        span = source.relation.days.get(condition.field.name) if source else None
        return span is not None and not condition.clip(span).is_empty


def _rows_of(source: Source, edges: Iterable[SliceBound]) -> Rows:
    relation = source.relation
    spans = {Field(source=source.id, name=name): span for name, span in relation.days.items()}
    own = [edge for edge in edges if edge.field.source == source.id]
    for edge in own:
        spans = _clipped(spans, edge)
    is_held = any(edge.gap.low > -inf for edge in own) and any(edge.gap.high < inf for edge in own)
    return Rows(
        sources=frozenset({source.id}),
        spans=spans,
        is_scoped=relation.is_scoped,
        is_explained=relation.is_explained,
        is_tied=relation.is_tied or is_held,
        inputs=relation.inputs,
    )


def _clipped(spans: dict[Field, Span], edge: SliceBound) -> dict[Field, Span]:
    """Only the column that the condition speaks of: for others, it can't be said which rows it leaves."""
    clipped = {column: edge.clip(span) for column, span in spans.items() if column == edge.field}
    return {column: span for column, span in clipped.items() if not span.is_empty}


def _bounds(stated: Iterable[Stated]) -> tuple[Bound, ...]:
    return tuple(s.condition for s in stated if isinstance(s.condition, Bound))


def _sources(tree: Tree) -> Iterator[Source]:
    if isinstance(tree, Source):
        yield tree
    else:
        yield from _sources(tree.left)
        yield from _sources(tree.right)


def _pairs(tree: Tree) -> Iterator[Pair]:
    if isinstance(tree, Pair):
        yield from _pairs(tree.left)
        yield from _pairs(tree.right)
        yield tree


def _inner_bounds(tree: Tree) -> tuple[Bound, ...]:
    """What the inner joins ask of every row; a side that an outer join may leave empty can't ask for anything."""
    if isinstance(tree, Source):
        return ()
    if tree.kind.is_inner:
        return (*_inner_bounds(tree.left), *_inner_bounds(tree.right), *tree.bounds)
    return _inner_bounds(tree.left)


def _common_names(left: Sequence[Source], right: Sequence[Source]) -> list[str]:
    ours, theirs = _certain_names(left), _certain_names(right)
    return [name for name in ours if name in theirs]


def _certain_names(sources: Sequence[Source]) -> list[str]:
    names = (chain(folded(s.relation.names), s.relation.days, s.relation.certain) for s in sources)
    return list(dict.fromkeys(chain.from_iterable(names)))
