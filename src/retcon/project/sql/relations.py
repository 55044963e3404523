"""What a query's sources hold, and what its columns therefore mean."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum

from sqlglot import exp

from retcon.core.models import Input
from retcon.project.sql.columns import Names
from retcon.project.sql.spans import Bound, Field, Gaps, Span


@dataclass(frozen=True, kw_only=True)
class Relation:
    """Rows of a table or a subquery, and the columns that tell to which slice they belong."""

    is_scoped: bool = False
    """Which rows it holds depends on the slices that are computed."""
    days: Mapping[str, Span] = field(default_factory=dict)
    names: Names | None = None
    certain: frozenset[str] = frozenset()
    """Columns that it surely has, where not all names are known."""
    inputs: tuple[Input, ...] = ()
    is_explained: bool = False
    """Why its slices influence one another has been said already."""
    is_tied: bool = False
    """Its SQL names the slices itself, by parameters."""

    def surely_has(self, name: str) -> bool:
        return name in self.days or name in self.certain or name in folded(self.names)

    def explained(self) -> Relation:
        return replace(self, days={}, is_explained=True)

    def renamed(self, columns: Names) -> Relation:
        """The same under other column names, given in order."""
        if self.names is None:
            return replace(self, names=columns, days={}, certain=frozenset())
        pairs = zip(folded(self.names), folded(columns), strict=False)
        days = {new: self.days[old] for old, new in pairs if old in self.days}
        return replace(self, names=columns, days=days, certain=frozenset())


def folded(names: Names | None) -> Names:
    """Names as Spark compares them."""
    return tuple(name.casefold() for name in names or ())


@dataclass(frozen=True, kw_only=True)
class Source:
    """A relation under the name that it has in one FROM."""

    id: int
    alias: str
    relation: Relation


@dataclass(kw_only=True)
class Scope:
    """The sources that a column can come from; those of the query around it come second."""

    parent: Scope | None = None
    sources: list[Source] = field(default_factory=list)
    merged: dict[str, Field] = field(default_factory=dict)

    def field_of(self, column: exp.Column) -> Field | None:
        """Where the column comes from; None where the text doesn't prove it."""
        if column.args.get("db"):
            return None  # a field of a struct
        if not column.table:
            return self.bare(column.name.casefold())
        owners = [source for source in self.sources if source.alias.casefold() == column.table.casefold()]
        if len(owners) == 1:
            return Field(source=owners[0].id, name=column.name.casefold())
        return self.parent.field_of(column) if self.parent and not owners else None

    def bare(self, name: str) -> Field | None:
        """The column of this name without qualifier. Were it ambiguous, Spark would refuse the query."""
        if name in self.merged:
            return self.merged[name]
        found = self.among(name, self.sources, is_there=self.parent is None)
        is_elsewhere = all(source.relation.names is not None for source in self.sources)
        if found is None and is_elsewhere and self.parent:
            return self.parent.bare(name)
        return found

    def among(self, name: str, sources: Iterable[Source], *, is_there: bool) -> Field | None:
        """The column in one of these sources; if it is there, a single one without known names must have it."""
        candidates = list(sources)
        owners = [source for source in candidates if source.relation.surely_has(name)]
        if not owners and len(candidates) == 1 and is_there and candidates[0].relation.names is None:
            owners = candidates
        return Field(source=owners[0].id, name=name) if len(owners) == 1 else None


@dataclass(frozen=True, kw_only=True)
class Rows:
    """What FROM yields, join by join."""

    sources: frozenset[int] = frozenset()
    spans: Mapping[Field, Span] = field(default_factory=dict)
    is_scoped: bool = False
    is_explained: bool = False
    is_tied: bool = False
    inputs: tuple[Input, ...] = ()
    matched: Mapping[int, tuple[Bound, ...]] = field(default_factory=dict)
    """By source of an outer join: what holds wherever it has found a partner."""

    def explained(self) -> Rows:
        return replace(self, spans={}, is_explained=True)

    def holding_where(self, bounds: Iterable[Bound]) -> tuple[Bound, ...]:
        """These bounds, and what they imply: a source that they mention has found its partner."""
        known = list(bounds)
        seen: set[int] = set()
        for bound in known:
            for source in {bound.earlier.source, bound.later.source} - seen:
                seen.add(source)
                known += self.matched.get(source, ())
        return tuple(known)


class Objection(Enum):
    """Why the slices of one side can't be told from those of the other."""

    UNRELATED = "the time columns aren't equated or bounded"
    BEYOND = "it looks further than lookback and lookahead"


@dataclass(frozen=True, kw_only=True)
class JoinKind:
    """Whose rows stay without a partner, and whose columns are seen afterwards."""

    preserves_left: bool
    preserves_right: bool
    hides_right: bool
    is_anti: bool

    @classmethod
    def of(cls, join: exp.Join) -> JoinKind:
        hides = join.kind in ("SEMI", "ANTI")
        return cls(
            preserves_left=join.side in ("LEFT", "FULL") and not hides,
            preserves_right=join.side in ("RIGHT", "FULL") and not hides,
            hides_right=hides,
            is_anti=join.kind == "ANTI",
        )

    @property
    def is_inner(self) -> bool:
        return not (self.preserves_left or self.preserves_right or self.hides_right)

    @property
    def is_left(self) -> bool:
        return self.preserves_left and not self.preserves_right

    def shows_absence(self, left: Rows, right: Rows) -> bool:
        """Does the result say that something isn't there, of rows of which only some slices are read?"""
        return (right.is_scoped and (self.preserves_left or self.is_anti)) or (left.is_scoped and self.preserves_right)


def narrowed(spans: Mapping[Field, Span], gaps: Gaps, other: Mapping[Field, Span]) -> dict[Field, Span]:
    """The days for which both this and everything of the other that belongs to it are complete."""
    both = {column: span.within(gaps.seen_from(column, other)) for column, span in spans.items()}
    return {column: span for column, span in both.items() if not span.is_empty}


def joined(
    left: Rows, right: Rows, kind: JoinKind, own: tuple[Bound, ...], gaps: Gaps
) -> tuple[Rows, Objection | None]:
    """The rows of a join, and what stands against computing many slices of them together."""
    objection = None
    spans: dict[Field, Span] = {}
    is_near = gaps.has_bounded(right.spans, gaps.columns_of(left.sources)) or gaps.has_bounded(
        left.spans, gaps.columns_of(right.sources)
    )
    is_explained = left.is_explained or right.is_explained
    if left.is_scoped and right.is_scoped:
        ours, theirs = narrowed(left.spans, gaps, right.spans), narrowed(right.spans, gaps, left.spans)
        spans = {**ours, **({} if kind.hides_right else theirs)}
        is_lost = (not ours and (kind.preserves_left or kind.is_anti)) or (not theirs and kind.preserves_right)
        if not spans or is_lost:
            is_beyond = gaps.has_bounded(left.spans, right.spans) or (is_near and is_explained)
            objection = Objection.BEYOND if is_beyond else Objection.UNRELATED
    elif right.is_scoped:
        spans = {} if kind.hides_right else dict(right.spans)
        if kind.hides_right:
            objection = Objection.BEYOND if is_near else Objection.UNRELATED
        elif kind.preserves_left and not is_near:
            objection = Objection.UNRELATED
    elif left.is_scoped:
        spans = dict(left.spans)
        objection = Objection.UNRELATED if kind.preserves_right and not is_near else None
    rows = Rows(
        sources=left.sources | right.sources,
        spans={**_derived(left, right, kind, own, gaps, spans), **spans},
        is_scoped=left.is_scoped or right.is_scoped,
        is_explained=is_explained,
        is_tied=(left.is_tied or not left.is_scoped) and (right.is_tied or not right.is_scoped),
        inputs=(*left.inputs, *right.inputs),
        matched={**left.matched, **right.matched, **(dict.fromkeys(right.sources, own) if kind.is_left else {})},
    )
    return rows, objection


def _derived(
    left: Rows, right: Rows, kind: JoinKind, own: tuple[Bound, ...], gaps: Gaps, spans: Mapping[Field, Span]
) -> dict[Field, Span]:
    """Days of columns that the join holds near a day: on a side that is only there with a partner."""
    always_matched: set[int] = set()
    if not kind.preserves_left and not kind.is_anti:
        always_matched |= left.sources
    if not kind.preserves_right and not kind.hides_right:
        always_matched |= right.sources
    columns = {c for bound in own for c in (bound.earlier, bound.later) if c.source in always_matched}
    derived = {column: gaps.seen_from(column, spans) for column in columns - spans.keys()}
    return {column: span for column, span in derived.items() if not span.is_empty}
