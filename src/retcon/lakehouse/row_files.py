"""Row files: rows that differ, in one Parquet or CSV file, written batch by batch."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    TimestampNTZType,
    TimestampType,
)

from retcon.core.spreadsheets import csv_line, text_cell
from retcon.errors import BadArguments
from retcon.values import dataclass

_BATCH = 10_000
_TYPES: dict[type[DataType], Callable[[], Any]] = {
    BooleanType: pa.bool_,
    ByteType: pa.int8,
    ShortType: pa.int16,
    IntegerType: pa.int32,
    LongType: pa.int64,
    FloatType: pa.float32,
    DoubleType: pa.float64,
    BinaryType: pa.binary,
    DateType: pa.date32,
    TimestampType: lambda: pa.timestamp("us", tz="UTC"),
    TimestampNTZType: lambda: pa.timestamp("us"),
}


@dataclass(frozen=True, kw_only=True)
class FileColumn:
    """A column of the file; what it has no type for is text."""

    name: str
    type: Any
    """Arrow's."""
    is_native: bool
    is_moment: bool = False
    """Handed in as microseconds since 1970."""

    @classmethod
    def of(cls, name: str, kind: DataType) -> FileColumn:
        if isinstance(kind, DecimalType):
            return cls(name=name, type=pa.decimal128(kind.precision, kind.scale), is_native=True)
        made = _TYPES.get(type(kind))
        if made is None:
            return cls(name=name, type=pa.string(), is_native=isinstance(kind, StringType))
        return cls(name=name, type=made(), is_native=True, is_moment=isinstance(kind, TimestampType))


_FIRST = (
    FileColumn(name="slice", type=pa.string(), is_native=True),
    FileColumn(name="kind", type=pa.string(), is_native=True),
    FileColumn(name="times", type=pa.int64(), is_native=True),
)


def write_rows(path: str, columns: Sequence[FileColumn], rows: Iterable[tuple[Any, ...]]) -> int:
    """Slice, kind, times and the columns of every row; how many were written. The file is there when it is whole."""
    target = Path(path)
    part = target.with_name(f".{target.name}.{os.getpid()}.part")
    every = _named_apart((*_FIRST, *columns))
    write = _write_parquet if target.suffix == ".parquet" else _write_csv
    try:
        number = write(part, every, rows)
        part.replace(target)
    except OSError as error:
        raise BadArguments(
            f"--out {path}: {error.strerror or error}", next="name a file that can be written"
        ) from error
    finally:
        with suppress(OSError):
            part.unlink(missing_ok=True)
    return number


def _named_apart(columns: Sequence[FileColumn]) -> list[FileColumn]:
    """Other names for those that are taken: a key may be called `kind`."""
    taken: set[str] = set()
    found: list[FileColumn] = []
    for column in columns:
        name = column.name
        while name.lower() in taken:
            name += "_"
        taken.add(name.lower())
        found.append(replace(column, name=name))
    return found


def _batches(rows: Iterable[tuple[Any, ...]]) -> Iterator[list[tuple[Any, ...]]]:
    ahead = iter(rows)
    while batch := list(islice(ahead, _BATCH)):
        yield batch


def _write_parquet(path: Path, columns: Sequence[FileColumn], rows: Iterable[tuple[Any, ...]]) -> int:
    schema = pa.schema([pa.field(column.name, column.type) for column in columns])
    number = 0
    with pq.ParquetWriter(path, schema) as writer:
        for batch in _batches(rows):
            values = list(zip(*batch, strict=True))
            arrays = [_array(column, list(values[at])) for at, column in enumerate(columns)]
            writer.write_batch(pa.record_batch(arrays, schema=schema))
            number += len(batch)
    return number


def _array(column: FileColumn, values: list[Any]) -> Any:
    if column.is_moment:
        return pa.array(values, type=pa.int64()).cast(column.type)
    return pa.array(values, type=column.type)


def _write_csv(path: Path, columns: Sequence[FileColumn], rows: Iterable[tuple[Any, ...]]) -> int:
    number = 0
    with path.open("w", encoding="utf-8", newline="") as file:
        file.write(csv_line(text_cell(column.name) for column in columns))
        for row in rows:
            file.write(csv_line(_cell(column, value) for column, value in zip(columns, row, strict=True)))
            number += 1
    return number


def _cell(column: FileColumn, value: Any) -> str:
    if value is None or pa.types.is_string(column.type):
        return text_cell(value)
    if column.is_moment:
        return str(pa.scalar(value, type=pa.int64()).cast(column.type))
    if isinstance(value, bytes | bytearray):
        return value.hex().upper()
    return str(value)
