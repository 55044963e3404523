"""Does what a query yields fit the table it goes to?"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from retcon.core.models import Model
from retcon.core.slices import Buckets, Grain, Whole
from retcon.core.tables import Column, TableFacts
from retcon.errors import Refused

TIME_TYPES = ("date", "timestamp", "timestamp_ntz")
"""What an input's `time` may be, as Spark spells it."""

_HASHED = ("int", "bigint", "string", "date", "timestamp", "timestamp_ntz", "binary", "decimal")
"""What Iceberg's `bucket` takes, as Spark spells it."""


def require_table_fits(model: Model, facts: TableFacts | None, output: tuple[str, ...] | None) -> None:
    """An existing table must be partitioned by the slice and have the columns that the query yields."""
    if facts is None:
        return
    _require_aligned(model, facts)
    if output is not None:
        require_same_names(model, facts, output)


def _require_aligned(model: Model, facts: TableFacts) -> None:
    """Whole slices are replaced by whole partitions: each partition lies in one slice."""
    by, grain = model.slicing.by, model.grain
    if by is None or isinstance(grain, Whole):
        return
    column = facts.column(by)
    if isinstance(grain, Buckets):
        _require_buckets(model, by, grain, facts)
        return
    if column is not None:
        _require_time_type(model, grain, column)
    cuts = [(field.column.lower(), field.grain(column.type) if column else None) for field in facts.partitioning]
    if len(cuts) == 1 and cuts[0][0] == by.lower() and cuts[0][1] is not None and cuts[0][1].divides(grain):
        return
    raise Refused(
        f"{model.name}: the table is partitioned by {_partitioning(facts)}, the model is sliced by {by}, "
        f"{grain.noun} each",
        state="no plan was written",
        next=f"a table that retcon writes is partitioned by {by} alone, by {grain} or finer; rename the model, "
        "or repartition the table",
    )


def _partitioning(facts: TableFacts) -> str:
    return ", ".join(f"{f.transform}({f.column})" for f in facts.partitioning) or "not at all"


def _require_buckets(model: Model, by: str, cut: Buckets, facts: TableFacts) -> None:
    if len(facts.partitioning) == 1 and facts.buckets_of(by, cut.number):
        return
    raise Refused(
        f"{model.name}: the table is partitioned by {_partitioning(facts)}, the model is sliced by {by} into {cut}",
        state="no plan was written",
        next=f"a table that retcon writes in buckets is partitioned by bucket({cut.number}, {by}) alone; rename the "
        "model, or repartition the table",
    )


def require_same_hashes(model: Model, facts: Mapping[str, TableFacts]) -> None:
    """An input that lies in the model's very buckets has keys of the model's type: 17 and '17' hash differently."""
    table, by = facts.get(model.name), model.slicing.by
    own = table.column(by) if table is not None and by is not None else None
    if own is None or not isinstance(model.grain, Buckets):
        return
    for i in model.inputs:
        read = facts.get(i.table)
        if i.key is None or read is None or not read.buckets_of(i.key, model.grain.number):
            continue
        key = read.column(i.key)
        if key is not None and _hashed_as(key.type) != _hashed_as(own.type):
            raise Refused(
                f"{model.name}: its {own.name} is {own.type}, and {i.table} is in {model.grain} of {key.name}, which "
                f"is {key.type}: the same key isn't in the same bucket of both",
                state="nothing was staged",
                next=f"leave `key` of the input {i.name} out, and it is read whole; or choose another number",
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


def require_same_names(model: Model, facts: TableFacts, output: Iterable[str]) -> None:
    """Query and table name the same columns, in any case and order."""
    table = {name.lower(): name for name in facts.column_names}
    query = {name.lower(): name for name in output}
    extra = [query[name] for name in query.keys() - table.keys()]
    absent = [table[name] for name in table.keys() - query.keys()]
    parts = []
    if extra:
        parts.append(f"the query yields {', '.join(sorted(extra))}, which the table doesn't have")
    if absent:
        parts.append(f"the table has {', '.join(sorted(absent))}, which the query doesn't yield")
    if parts:
        raise Refused(
            f"{model.name}: " + "; ".join(parts),
            next="changing a table's columns isn't supported yet: keep the names, or give the model a new name",
        )


def require_same_types(model: Model, facts: TableFacts | None, output: Iterable[Column]) -> None:
    """The query's types are those of the table and of the model's `columns`; the slice column tells the slice."""
    found = {column.name.lower(): column for column in output}
    _require_slice_column(model, found)
    wanted = {name.lower(): Column(name=name, type=kind) for name, kind in model.columns}
    for origin, columns in (("`columns` says", wanted), ("the table has", _by_name(facts))):
        for name, column in columns.items():
            if name not in found:
                raise Refused(f"{model.name}: {origin} {column.name}, which the query doesn't yield")
            if not _is_same_type(column.type, found[name].type):
                raise Refused(
                    f"{model.name}.{column.name}: the query yields {found[name].type}, {origin} {column.type}",
                    next="changing a column's type isn't supported yet: CAST it in the query",
                )
    if wanted and set(wanted) != set(found):
        extra = ", ".join(sorted(found[name].name for name in found.keys() - wanted.keys()))
        raise Refused(f"{model.name}: the query yields {extra}, which `columns` doesn't list")
    if facts is not None:
        require_same_names(model, facts, [column.name for column in found.values()])


def _require_slice_column(model: Model, found: Mapping[str, Column]) -> None:
    by, grain = model.slicing.by, model.grain
    if by is None or isinstance(grain, Whole):
        return
    column = found.get(by.lower())
    if column is None:
        raise Refused(f"{model.name}: slices go by {by}, which isn't there in the output", next=f"yield it: … AS {by}")
    if isinstance(grain, Buckets):
        _require_hashed_type(model, column)
    else:
        _require_time_type(model, grain, column)


def _by_name(facts: TableFacts | None) -> dict[str, Column]:
    return {column.name.lower(): column for column in facts.columns} if facts is not None else {}


_ALIASES = {
    "integer": "int",
    "long": "bigint",
    "short": "smallint",
    "byte": "tinyint",
    "real": "float",
    "dec": "decimal",
    "numeric": "decimal",
    "timestamp_ltz": "timestamp",
}
_TYPE_NAME = re.compile(r"\b[a-z_]+\b(?!:)")
"""A word of a type that isn't the name of a struct's field."""


def _is_same_type(declared: str, found: str) -> bool:
    def plain(kind: str) -> str:
        text = _TYPE_NAME.sub(lambda word: _ALIASES.get(word[0], word[0]), re.sub(r"\s+", "", kind.lower()))
        text = re.sub(r"\bdecimal\b(?![(:])", "decimal(10)", text)
        return re.sub(r"\bdecimal\((\d+)\)", r"decimal(\1,0)", text)

    return plain(declared) == plain(found)


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
