"""Keys from where Spark or Iceberg have to read them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow.parquet import ParquetFile
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from retcon.errors import BadArguments
from retcon.lakehouse.sessions import first_line

Columns = tuple[tuple[str, ...], Iterator[str | None]]
"""Names of the columns, and the values of the first, as text."""


def parquet_values(path: Path) -> Columns:
    """What a Parquet file holds."""
    try:
        file = ParquetFile(path)
    except (OSError, pa.ArrowException) as error:
        raise BadArguments(f"--keys-from {path}: it can't be read as Parquet: {error}") from error
    return tuple(file.schema_arrow.names), _texts(value for batch in file.iter_batches() for value in batch[0])


def query_values(spark: SparkSession, text: str) -> Columns:
    """What a query yields."""
    try:
        frame = spark.sql(text)
        return tuple(frame.columns), _texts(row[0] for row in frame.toLocalIterator())
    except PySparkException as error:
        raise BadArguments(f"--keys-from {text!r}: {first_line(error)}") from error


def _texts(values: Iterable[Any]) -> Iterator[str | None]:
    for value in values:
        plain = value.as_py() if isinstance(value, pa.Scalar) else value
        if isinstance(plain, bytes | bytearray):
            raise BadArguments("--keys-from: keys can't be binary", next="CAST them to text")
        yield None if plain is None else str(plain)
