"""Does what a query yields fit the table it goes to?"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from retcon.core.evolution import (
    BUILD_ANEW,
    AddColumn,
    CommentColumn,
    Repartition,
    SchemaChange,
    change_text,
    changed_columns,
    changes_for,
    require_planned,
)
from retcon.core.keys import is_told_by
from retcon.core.models import Model, Strategy
from retcon.core.slices import Buckets, Grain, Whole
from retcon.core.tables import Column, TableFacts
from retcon.core.types import is_same_type
from retcon.errors import Refused

TIME_TYPES = ("date", "timestamp", "timestamp_ntz")
"""What an input's `time` may be, as Spark spells it."""

_HASHED = ("int", "bigint", "string", "date", "timestamp", "timestamp_ntz", "binary", "decimal")
"""What Iceberg's `bucket` takes, as Spark spells it."""


def repartitioned(model: Model, facts: TableFacts) -> tuple[Repartition, ...]:
    """How the table gets to be cut as the model's slices; refused where it can't be built anew for that."""
    if model.strategy is not Strategy.FULL:
        require_aligned(model, facts)
    if _is_aligned(model, facts):
        return ()
    cut = model.grain
    each = f"bucket({cut.number}, {model.slicing.by})" if isinstance(cut, Buckets) else f"{cut}({model.slicing.by})"
    return (Repartition(partitioning=_partitioning(facts), to=each),)


def require_aligned(model: Model, facts: TableFacts) -> None:
    """Whole slices are replaced by whole partitions: each partition of the table lies in one slice."""
    if _is_aligned(model, facts):
        return
    by, grain = model.slicing.by, model.grain
    column = facts.column(str(by))
    if isinstance(grain, Buckets):
        raise Refused(
            f"{model.name}: the table is partitioned by {_partitioning(facts)}, the model is sliced by {by} into "
            f"{grain}",
            state="nothing was written",
            next=f"a table that retcon writes in buckets is partitioned by bucket({grain.number}, {by}) alone; rename "
            f"the model, or repartition the table, or {BUILD_ANEW}",
        )
    if isinstance(grain, Grain):
        if column is not None:
            _require_time_type(model, grain, column)
        raise Refused(
            f"{model.name}: the table is partitioned by {_partitioning(facts)}, the model is sliced by {by}, "
            f"{grain.noun} each",
            state="nothing was written",
            next=f"a table that retcon writes is partitioned by {by} alone, by {grain} or finer; rename the model, "
            f"or repartition the table, or {BUILD_ANEW}",
        )


def _is_aligned(model: Model, facts: TableFacts) -> bool:
    by, grain = model.slicing.by, model.grain
    if by is None or isinstance(grain, Whole):
        return True
    if len(facts.partitioning) != 1 or facts.partitioning[0].column.lower() != by.lower():
        return False
    if isinstance(grain, Buckets):
        return facts.buckets_of(by, grain.number)
    column = facts.column(by)
    cut = facts.partitioning[0].grain(column.type) if column is not None else None
    return cut is not None and cut.divides(grain)


def _partitioning(facts: TableFacts) -> str:
    return ", ".join(f"{f.transform}({f.column})" for f in facts.partitioning) or "not at all"


def require_same_hashes(model: Model, facts: Mapping[str, TableFacts]) -> None:
    """An input that lies in the model's very buckets has keys of the model's type: 17 and '17' hash differently."""
    table, by = facts.get(model.name), model.slicing.by
    own = table.column(by) if table is not None and by is not None else None
    if own is None or not isinstance(model.grain, Buckets):
        return
    for i in model.inputs:
        read = facts.get(i.table)
        key = read.column(i.key) if read is not None and i.key is not None else None
        if read is None or i.key is None or key is None:
            continue
        is_cut_alike = read.buckets_of(i.key, model.grain.number)
        if is_cut_alike and _hashed_as(key.type) != _hashed_as(own.type):
            raise Refused(
                f"{model.name}: its {own.name} is {own.type}, and {i.table} is in {model.grain} of {key.name}, which "
                f"is {key.type}: the same key isn't in the same bucket of both",
                state="nothing was staged",
                next=f"leave `key` of the input {i.name} out, and it is read whole; or choose another number",
            )
        if not is_told_by(key.type, own.type):
            raise Refused(
                f"{model.name}: its {own.name} is {own.type}, and {i.table}.{key.name} is {key.type}: "
                "values that a join finds equal may be in different buckets",
                state="nothing was staged",
                next=f"leave `key` of the input {i.name} out, and it is read whole; or CAST {own.name} to {key.type}",
            )


def _hashed_as(kind: str) -> str:
    return "bigint" if kind == "int" else kind


def _require_hashed_type(model: Model, column: Column) -> None:
    if column.type.split("(")[0] not in _HASHED:
        raise Refused(
            f"{model.name}: buckets go by {column.name}, which is {column.type}; such values have no bucket",
            next=f"CAST it in the query, e.g. CAST({column.name} AS STRING) AS {column.name}",
        )


def _require_time_type(model: Model, grain: Grain, column: Column) -> None:
    if column.type not in TIME_TYPES:
        raise Refused(
            f"{model.name}: slices go by {column.name}, which is {column.type}; a DATE or a TIMESTAMP is needed",
            next=f"CAST it in the query, e.g. CAST(ts AS DATE) AS {column.name}",
        )
    if grain is Grain.HOUR and column.type == "date":
        raise Refused(
            f"{model.name}: a slice is an hour of {column.name}, which is a DATE and tells no hours",
            next=f"yield a TIMESTAMP as {column.name}, or cut the history by day: `every: day`",
        )


def planned_changes(model: Model, facts: TableFacts | None, names: tuple[str, ...] | None) -> tuple[SchemaChange, ...]:
    """How the table's columns will change, as far as the query's text and the model's `columns` tell."""
    declared = {name.lower(): kind for name, kind in model.columns}
    shown = names or tuple(name for name, _ in model.columns)
    if facts is None or not shown:
        return ()
    return changes_for(model, facts, {name: declared.get(name.lower()) for name in shown})


def is_comparable(model: Model, old: TableFacts, new: TableFacts) -> bool:
    """Can the slices of both be told by the same column?"""
    if model.slicing.by is None:
        return True
    before, now = old.column(model.slicing.by), new.column(model.slicing.by)
    return before is not None and now is not None and is_same_type(before.type, now.type)


_NOT_CARRIED = ("comment", "owner", "location", "provider", "external")
"""What Spark sets itself."""


def carried_properties(facts: TableFacts, columns: Iterable[str]) -> dict[str, str]:
    """The table's properties for the one that takes its place: not where its own files are, nor of columns gone."""
    known = {column.lower() for column in columns}

    def is_carried(key: str) -> bool:
        _, is_of_column, column = key.partition(".column.")
        is_own = key.startswith("retcon.") or key.endswith(".path") or key in _NOT_CARRIED
        return not is_own and (not is_of_column or column.lower() in known)

    return {key: value for key, value in facts.properties.items() if is_carried(key)}


def require_carried(model: Model, facts: TableFacts | None, changes: Iterable[SchemaChange], *, is_keyed: bool) -> None:
    """Rows that are carried over stay as they are: their columns change only in ways that such rows can take."""
    require_carried_by_name(model, facts, is_keyed=is_keyed)
    for change in changes:
        if is_keyed and not isinstance(change, CommentColumn):
            raise Refused(
                f"{model.name}: the plan is about some keys, and the columns of all rows would change: "
                f"{change_text(change)}",
                state="no plan was written",
                next="plan it without keys first",
            )
        is_nested = isinstance(change, AddColumn) and "." in change.column
        if is_nested and model.strategy is Strategy.MERGE:
            raise Refused(
                f"{model.name}: rows that stay when others are merged can't take a new field: {change_text(change)}",
                state="no plan was written",
                next="yield it as a column of its own",
            )


def require_carried_by_name(model: Model, facts: TableFacts | None, *, is_keyed: bool) -> None:
    """Rows that stay are read with the columns that their snapshot has, and found by name."""
    if facts is None or not (is_keyed or model.strategy is Strategy.MERGE):
        return
    unlike = list(changed_columns(facts.columns_written, facts.columns))
    if unlike:
        raise Refused(
            f"{model.name}: rows that stay were written before its columns changed: {', '.join(unlike)}",
            state="nothing was written",
            next="write to the table once with its new columns (deleting one row and adding it again will do), "
            "or plan it without keys; then try again",
        )


def opened_changes(
    model: Model, facts: TableFacts | None, output: Iterable[Column], planned: Sequence[SchemaChange]
) -> tuple[SchemaChange, ...]:
    """How the table's columns change, now that Spark told the types; nothing that the plan didn't say."""
    found = {column.name.lower(): column for column in output}
    _require_slice_column(model, found)
    _require_declared(model, found)
    if facts is None:
        return ()
    changes = changes_for(model, facts, {column.name: column.type for column in found.values()})
    # A comment can't do harm: one that was edited since the plan waits for the next.
    wanted = [change for change in changes if not isinstance(change, CommentColumn) or change in planned]
    require_planned(model, wanted, planned)
    return tuple(wanted)


def _require_declared(model: Model, found: Mapping[str, Column]) -> None:
    """The query's columns are those of the model's `columns`, if it has them."""
    wanted = {name.lower(): Column(name=name, type=kind) for name, kind in model.columns}
    for name, column in wanted.items():
        if name not in found:
            raise Refused(f"{model.name}: `columns` says {column.name}, which the query doesn't yield")
        if not is_same_type(column.type, found[name].type):
            raise Refused(
                f"{model.name}.{column.name}: the query yields {found[name].type}, `columns` says {column.type}",
                next="CAST it in the query, or mend `columns`",
            )
    if wanted and set(wanted) != set(found):
        extra = ", ".join(sorted(found[name].name for name in found.keys() - wanted.keys()))
        raise Refused(f"{model.name}: the query yields {extra}, which `columns` doesn't list")


def _require_slice_column(model: Model, found: Mapping[str, Column]) -> None:
    by = model.slicing.by
    if by is None:
        return
    column = found.get(by.lower())
    if column is None:
        raise Refused(f"{model.name}: slices go by {by}, which isn't there in the output", next=f"yield it: … AS {by}")
    require_slice_type(model, column)


def require_slice_type(model: Model, column: Column) -> None:
    """The slice column has a type by which the history can be cut."""
    if isinstance(model.grain, Buckets):
        _require_hashed_type(model, column)
    elif isinstance(model.grain, Grain):
        _require_time_type(model, model.grain, column)


def require_time_columns(model: Model, facts: Mapping[str, TableFacts]) -> None:
    """Every input's `time` is a date or a timestamp of its table."""
    for i in model.inputs:
        table = facts.get(i.table)
        if i.time is None or table is None:
            continue
        column = table.column(i.time)
        if column is not None and column.type not in TIME_TYPES:
            raise Refused(
                f"{model.path}: {i.table}.{i.time} is {column.type}, and a time column is a date or a timestamp",
                next="name another column as `time`, or leave it out to read the table whole",
            )
