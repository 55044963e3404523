"""How a table's columns change when a model's output does: what can be done, what is refused, what was done before."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from itertools import pairwise
from typing import Any, assert_never

from retcon.core.models import Model, Strategy
from retcon.core.suggestions import nearest
from retcon.core.tables import Column, SchemaVersion, TableFacts
from retcon.core.types import Kind, is_same_type, kind_of, plain_type
from retcon.errors import Refused
from retcon.values import dataclass


@dataclass(frozen=True, kw_only=True)
class AddColumn:
    """Shows on main at once, as NULL."""

    column: str
    """With the columns it is nested in, from the outside in: `address.zip`."""
    type: str | None
    """None: Spark tells it when staging begins."""


@dataclass(frozen=True, kw_only=True)
class WidenColumn:
    """Rows that are there already stay as they are and read as the wider type."""

    column: str
    type: str
    to: str


@dataclass(frozen=True, kw_only=True)
class CommentColumn:
    column: str
    comment: str


@dataclass(frozen=True, kw_only=True)
class DropColumn:
    """No longer yielded. Like the two below, only for a table that is built anew, beside the one that is there."""

    column: str
    type: str


@dataclass(frozen=True, kw_only=True)
class RetypeColumn:
    """In a way that Iceberg can't: its values are computed anew."""

    column: str
    type: str
    to: str


@dataclass(frozen=True, kw_only=True)
class Repartition:
    """The table is cut otherwise than the model's slices."""

    partitioning: str
    to: str


SchemaChange = AddColumn | WidenColumn | CommentColumn | DropColumn | RetypeColumn | Repartition


def is_built_beside(changes: Iterable[SchemaChange]) -> bool:
    """Can the table not become what the model says, so that another takes its place?"""
    return any(isinstance(change, DropColumn | RetypeColumn | Repartition) for change in changes)


def change_text(change: SchemaChange) -> str:
    """One change as people read it."""
    match change:
        case AddColumn():
            return f"new column {change.column} ({change.type or 'its type is told by Spark when staging begins'})"
        case WidenColumn():
            return f"{change.column} widened from {change.type} to {change.to}"
        case CommentColumn():
            return f"comment of {change.column}: {change.comment}"
        case DropColumn():
            return f"column {change.column} ({change.type}) goes away"
        case RetypeColumn():
            return f"column {change.column}: {change.type} becomes {change.to}"
        case Repartition():
            return f"partitioned: {change.partitioning} becomes {change.to}"
        case _:
            assert_never(change)


def change_document(change: SchemaChange) -> dict[str, Any]:
    """One change as plain data."""
    match change:
        case AddColumn():
            return {"add": change.column, "type": change.type}
        case WidenColumn():
            return {"widen": change.column, "from": change.type, "to": change.to}
        case CommentColumn():
            return {"comment": change.column, "text": change.comment}
        case DropColumn():
            return {"drop": change.column, "type": change.type}
        case RetypeColumn():
            return {"retype": change.column, "from": change.type, "to": change.to}
        case Repartition():
            return {"repartition": change.to, "from": change.partitioning}
        case _:
            assert_never(change)


def change_from(document: Mapping[str, Any]) -> SchemaChange:
    """The change of a document."""
    if "add" in document:
        return AddColumn(column=document["add"], type=document["type"])
    if "widen" in document:
        return WidenColumn(column=document["widen"], type=document["from"], to=document["to"])
    if "drop" in document:
        return DropColumn(column=document["drop"], type=document["type"])
    if "retype" in document:
        return RetypeColumn(column=document["retype"], type=document["from"], to=document["to"])
    if "repartition" in document:
        return Repartition(partitioning=document["from"], to=document["repartition"])
    return CommentColumn(column=document["comment"], comment=document["text"])


BUILD_ANEW = "write `strategy: full`, with which the table is built anew and swapped in"
"""The remedy where a table can't be changed."""


# ── deciding ──────────────────────────────────────────────────────────────────────────────────────────────────────


def changes_for(model: Model, facts: TableFacts, output: Mapping[str, str | None]) -> tuple[SchemaChange, ...]:
    """What the table needs to take this output (types where they are known), or an error that says why it can't.

    With `strategy: full` there is always a way: a table built beside it.
    """
    table = {column.name.lower(): column for column in facts.columns}
    query = {name.lower(): (name, kind) for name, kind in output.items()}
    if model.strategy is not Strategy.FULL:
        _require_nothing_dropped(model, facts, table, query)
    changes: list[SchemaChange] = []
    for folded, column in table.items():
        if folded not in query:
            changes.append(DropColumn(column=column.name, type=column.type))
            continue
        kind = query[folded][1]
        if kind is not None:
            changes += _differences(model, facts, column, kind)
    changes += [AddColumn(column=name, type=kind) for folded, (name, kind) in query.items() if folded not in table]
    return (*changes, *comments_for(model, facts))


def comments_for(model: Model, facts: TableFacts) -> tuple[CommentColumn, ...]:
    """The comments that the model gives its columns and the table doesn't have."""
    told = {column.name.lower(): column.comment for column in facts.columns}
    return tuple(
        CommentColumn(column=name, comment=text) for name, text in model.comments if text != told.get(name.lower(), "")
    )


def require_planned(model: Model, changes: Iterable[SchemaChange], planned: Sequence[SchemaChange]) -> None:
    """What Spark's analysis shows must have been in the plan that was reviewed."""
    known = {_what(change) for change in planned}
    for change in changes:
        if _what(change) not in known:
            raise Refused(
                f"{model.name}: {change_text(change)}: the query's text doesn't show it, so the plan doesn't say so",
                state="nothing was staged; the table is as it was",
                next=f"list the columns with their types under `columns:` in {model.path}, and plan again: "
                "then the plan shows it",
            )


def _what(change: SchemaChange) -> tuple[str, str, str]:
    match change:
        case AddColumn():
            return "add", change.column.lower(), ""
        case WidenColumn():
            return "widen", change.column.lower(), change.to
        case CommentColumn():
            return "comment", change.column.lower(), change.comment
        case DropColumn():
            return "drop", change.column.lower(), ""
        case RetypeColumn():
            return "retype", change.column.lower(), change.to
        case Repartition():
            return "repartition", "", change.to
        case _:
            assert_never(change)


def _require_nothing_dropped(
    model: Model, facts: TableFacts, table: Mapping[str, Column], query: Mapping[str, tuple[str, str | None]]
) -> None:
    absent = sorted(table.keys() - query.keys())
    if not absent:
        return
    column = table[absent[0]]
    told = "; ".join(f"{table[name].name} ({table[name].type}, {since_text(facts, table[name])})" for name in absent)
    renamed = nearest(column.name, [query[name][0] for name in sorted(query.keys() - table.keys())])
    others = f", or name {renamed} {column.name} again if it was renamed" if renamed else ""
    raise Refused(
        f"{model.name}: the table has {told}, which the query doesn't yield",
        state="the table is as it was",
        next=f"go on yielding it (CAST(NULL AS {column.type}) AS {column.name}){others}; to give a column up, "
        f"{BUILD_ANEW}, or ALTER TABLE {model.name} DROP COLUMN {column.name} yourself, then plan again",
    )


def _differences(model: Model, facts: TableFacts, column: Column, to: str) -> Iterator[SchemaChange]:
    """How a column of the table gets to be of this type; where Iceberg can't, by a new table, or refused."""
    if is_same_type(column.type, to):
        return
    is_slice = model.slicing.by is not None and model.slicing.by.lower() == column.name.lower()
    old, new = kind_of(column.type), kind_of(to)
    found = None if is_slice or old is None or new is None else _steps(column.name, old, new)
    if found is None and model.strategy is Strategy.FULL:
        found = [RetypeColumn(column=column.name, type=column.type, to=plain_type(to))]
    if found is None:
        raise Refused(
            f"{model.name}.{column.name}: the query yields {to}, the table has {column.type}, "
            f"{since_text(facts, column)}",
            state="the table is as it was",
            next=f"CAST it to {column.type} in the query, or yield it under a new name, or {BUILD_ANEW}; "
            "a column can be widened only: int to bigint, float to double, decimal to more digits of the same scale",
        )
    yield from found


def _steps(path: str, old: Kind, new: Kind) -> list[SchemaChange] | None:
    """The widenings and new fields that lead from one type to another; None where there is no such way."""
    if not old.fields and not new.fields:
        if old.text == new.text:
            return []
        return [WidenColumn(column=path, type=old.text, to=new.text)] if may_widen(old.text, new.text) else None
    if old.name != new.name or not old.fields.keys() <= new.fields.keys():
        return None
    if old.name == "map" and old.fields["key"].text != new.fields["key"].text:
        return None
    found: list[SchemaChange] = []
    for name, kind in new.fields.items():
        if name not in old.fields:
            found.append(AddColumn(column=f"{path}.{name}", type=kind.text))
            continue
        inner = _steps(f"{path}.{name}", old.fields[name], kind)
        if inner is None:
            return None
        found += inner
    return found


def may_widen(old: str, new: str) -> bool:
    """Can every value of the old type be read as one of the new, without touching it?"""
    if (old, new) in (("int", "bigint"), ("float", "double")):
        return True
    digits = [re.fullmatch(r"decimal\((\d+),(\d+)\)", kind) for kind in (old, new)]
    if not all(digits):
        return False
    (before, scale), (after, other) = ((int(found[1]), int(found[2])) for found in digits if found)
    return scale == other and after > before


# ── what was ──────────────────────────────────────────────────────────────────────────────────────────────────────


class Step(StrEnum):
    """What happened to a column."""

    MADE = "made"
    ADDED = "added"
    CHANGED = "changed"
    RENAMED = "renamed"
    DROPPED = "dropped"


@dataclass(frozen=True, kw_only=True)
class ColumnStep:
    """One step in the history of a column."""

    column: str
    step: Step
    type: str
    before: str | None
    """The type, or for a renamed column the name, that it had."""
    version: SchemaVersion


def column_history(versions: Sequence[SchemaVersion]) -> tuple[ColumnStep, ...]:
    """Which column had which type from which snapshot on, oldest first. Columns are told apart by Iceberg's own ids."""
    steps: list[ColumnStep] = []
    known: dict[int, Column] = {}
    for number, version in enumerate(versions):
        now = {column.id: column for column in version.columns}
        for id, column in now.items():
            steps += _step_of(known.get(id), column, version, first=number == 0)
        for id in known.keys() - now.keys():
            gone = known[id]
            steps.append(
                ColumnStep(column=gone.name, step=Step.DROPPED, type=gone.type, before=gone.type, version=version)
            )
        known = now
    return tuple(steps)


def _step_of(old: Column | None, new: Column, version: SchemaVersion, *, first: bool) -> Iterator[ColumnStep]:
    if old is None:
        step = Step.MADE if first else Step.ADDED
        yield ColumnStep(column=new.name, step=step, type=new.type, before=None, version=version)
        return
    if old.name != new.name:
        yield ColumnStep(column=new.name, step=Step.RENAMED, type=new.type, before=old.name, version=version)
    if old.type != new.type:
        yield ColumnStep(column=new.name, step=Step.CHANGED, type=new.type, before=old.type, version=version)


def since_text(facts: TableFacts, column: Column) -> str:
    """Since which snapshot the table has a column as it is now."""
    steps = [step for step in column_history(facts.versions) if step.column.lower() == column.name.lower()]
    if not steps:
        return "in no snapshot yet"
    version = steps[-1].version
    run = f" of run {version.run}" if version.run else ""
    if version.snapshot_id is None:
        return f"in no snapshot of main yet{run}"
    earlier = " or earlier" if version.is_oldest_kept else ""
    return f"since snapshot {version.snapshot_id}{run}{earlier}"


def changed_columns(old: Sequence[Column], now: Sequence[Column]) -> Iterator[str]:
    """Columns whose old values can't be copied by their name: Iceberg knows them by their id."""
    by_id = {column.id: column for column in now}
    by_name = {column.name.lower(): column for column in now}
    for column in old:
        same, named = by_id.get(column.id), by_name.get(column.name.lower())
        if same is not None and same.name.lower() != column.name.lower():
            yield f"{column.name} is {same.name} now"
        elif named is not None and named.id != column.id:
            yield f"{column.name} was dropped and added anew"
        elif same is not None and same.type != column.type and not may_widen(column.type, same.type):
            yield f"{column.name} was {column.type} and is {same.type}"


def columns_taken_anew(facts: TableFacts) -> SchemaVersion | None:
    """The columns as they are since some of them were last taken anew, so that nothing of what was written there before
    can be read by its name; None where all can.
    """
    for before, version in reversed(list(pairwise(facts.versions))):
        if any(changed_columns(before.columns, facts.columns)):
            return version
    return None
