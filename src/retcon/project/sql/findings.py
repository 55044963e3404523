"""What is said about a query whose slices influence one another: reasons, and refusals."""

from __future__ import annotations

from dataclasses import dataclass, field

from sqlglot import exp

from retcon.core.models import Input
from retcon.project.sql.clauses import InnerQuery
from retcon.project.sql.joins import Body, Clash
from retcon.project.sql.relations import Objection
from retcon.project.sql.spans import Gaps
from retcon.project.sql.statements import SqlProblem, Statement

_REMEDIES = {
    Objection.UNRELATED: "equate the time columns, bound them within `lookback` and `lookahead`, "
    "or name the days by `:start_date` and `:end_date`",
    Objection.BEYOND: "raise its `lookback` or `lookahead`, or narrow the condition",
}


@dataclass(kw_only=True)
class Findings:
    """Collects them, in the words of the query."""

    statement: Statement
    reasons: list[str] = field(default_factory=list)
    problems: list[SqlProblem] = field(default_factory=list)

    def because(self, what: str, node: exp.Expr, lack: str, *keywords: str) -> None:
        """A construct by which slices influence one another."""
        self.reasons.append(f"{what}{_at(self.statement.line_of(node, *keywords))} {lack}")

    def parameter(self, name: str) -> None:
        """A slice parameter that means another day in a wave than in a slice."""
        where = _at(self.statement.line_of_parameter(name))
        self.reasons.append(f"`:{name}`{where} does more than bound a time column from its own side")

    def clash(self, clash: Clash) -> None:
        """A join whose sides aren't held to the same slices: refused where it shows what it doesn't find."""
        left, right, kind = clash.left, clash.right, clash.kind
        missed, other = (right, left) if right.is_scoped and not kind.preserves_right else (left, right)
        if not missed.is_scoped:
            missed, other = other, missed
        is_explained = left.is_explained or right.is_explained
        are_both_scoped = left.is_scoped and right.is_scoped
        is_lost = clash.objection is Objection.UNRELATED or (are_both_scoped and not is_explained)
        words = " ".join(word for word in (clash.join.side, clash.join.kind, "JOIN") if word and word != "OUTER")
        what = f"{words} with {_tables(missed.inputs)}"
        if kind.shows_absence(left, right) and is_lost and not missed.is_tied:
            self._refuse(what, clash.join.this, missed.inputs, clash.objection)
        elif not is_explained:
            others = other.inputs if are_both_scoped else ()
            keywords = ("JOIN",) if clash.join.kind != "CROSS" else ()
            self.because(what, clash.join.this, _lack(clash.objection, missed.inputs, others), *keywords)

    def inner_query(
        self, inner: InnerQuery, outside: Body, inside: list[Body], gaps: Gaps, *, is_explained: bool
    ) -> None:
        """A query within an expression that isn't held to the slices outside: refused where its absence counts."""
        inputs = tuple(declared for body in inside for declared in body.rows.inputs)
        what = f"{inner.word} over {_tables(inputs)}"
        columns = gaps.columns_of({source.id for source in outside.scope.sources})
        is_near = any(gaps.has_bounded(body.rows.spans, columns) for body in inside)
        is_beyond = any(gaps.has_bounded(body.rows.spans, outside.rows.spans) for body in inside)
        objection = Objection.BEYOND if is_beyond else Objection.UNRELATED
        is_lost = not is_near or (outside.rows.is_scoped and not is_explained)
        if inner.shows_absence and is_lost and not all(body.rows.is_tied for body in inside):
            self._refuse(what, inner.node, inputs, objection)
        elif not is_explained:
            self.because(what, inner.query, _lack(objection, inputs, outside.rows.inputs))

    def _refuse(self, what: str, node: exp.Expr, inputs: tuple[Input, ...], objection: Objection) -> None:
        if objection is Objection.BEYOND:
            message = f"{what} looks further than its lookback and lookahead, so what it doesn't find may well be there"
        else:
            message = f"{what} isn't held to its {times(inputs)}, so what it doesn't find depends on the slices read"
        line = self.statement.line_of(node)
        self.problems.append(SqlProblem(message=message, line=line, remedy=_REMEDIES[objection]))
        self.reasons.append(message)


def _at(line: int | None) -> str:
    return "" if line is None else f" at line {line} of the query"


def times(inputs: tuple[Input, ...]) -> str:
    """The columns that say to which slice a row of these inputs belongs."""
    return " or ".join(dict.fromkeys(declared.time for declared in inputs if declared.time)) or "the slice column"


def _tables(inputs: tuple[Input, ...]) -> str:
    return " and ".join(dict.fromkeys(declared.table for declared in inputs)) or "a scoped input"


def _lack(objection: Objection, inputs: tuple[Input, ...], others: tuple[Input, ...]) -> str:
    if not others:
        return "decides about rows of an input that is read whole"
    if objection is Objection.BEYOND:
        return "looks further than its lookback and lookahead"
    return f"doesn't equate its {times(inputs)} with {times(others)}"
