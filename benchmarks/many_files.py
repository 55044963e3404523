"""Many files without their rows: one small file is linked and registered over and over.

What is measured with them is what the number of things costs, not what rows do.
"""

from __future__ import annotations

import errno
import os
import shutil
import sys
from datetime import date, timedelta
from pathlib import Path
from urllib.parse import urlsplit

from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.table import Table
from pyiceberg.typedef import Record
from pyspark.sql import SparkSession

FIRST = date(1970, 1, 1)
TABLE = "raw.events"


def make_table(spark: SparkSession) -> None:
    """A table with one file of ten rows, nine of them of one customer."""
    spark.sql("CREATE NAMESPACE IF NOT EXISTS raw")
    spark.sql(
        f"CREATE TABLE {TABLE} (day DATE, customer STRING, amount DECIMAL(12,2)) USING iceberg PARTITIONED BY (day)"
    )
    spark.sql(
        f"INSERT INTO {TABLE} SELECT /*+ COALESCE(1) */ DATE '{FIRST}', if(id = 0, 'one of many', 'the largest'), "
        "CAST(id AS DECIMAL(12,2)) FROM range(10)"
    )


def register(uri: str, days: int, files: int) -> None:
    """As many files as asked for, of each day, in one commit."""
    table = SqlCatalog("lake", uri=uri, warehouse="unused").load_table(TABLE)
    with table.transaction() as transaction, transaction.update_snapshot().fast_append() as append:
        for file in linked(table, days, files):
            append.append_data_file(file)


def linked(table: Table, days: int, files: int) -> list[DataFile]:
    """The one file under many names, in a partition of its own for each day: readers take the day from there."""
    [task] = table.scan().plan_files()
    one = Path(urlsplit(task.file.file_path).path)
    data = one.parent.parent
    places: list[DataFile] = []
    for day in range(days):
        folder = data / f"day={FIRST + timedelta(days=day)}"
        folder.mkdir(exist_ok=True)
        for number in range(files if day else files - 1):
            place = folder / f"linked-{number}.parquet"
            one = link(one, place)
            file = DataFile.from_args(
                content=DataFileContent.DATA,
                file_path=str(place),
                file_format=FileFormat.PARQUET,
                partition=Record(day),
                record_count=task.file.record_count,
                file_size_in_bytes=task.file.file_size_in_bytes,
            )
            file.spec_id = table.spec().spec_id
            places.append(file)
    return places


def link(one: Path, place: Path) -> Path:
    """The file under one more name; file systems take some ten thousand, then a copy is the next to be linked."""
    try:
        os.link(one, place)
    except OSError as error:
        if error.errno != errno.EMLINK:
            raise
        return shutil.copyfile(one, place)
    return one


if __name__ == "__main__":
    # In a process of its own: what registering takes isn't counted as retcon's memory.
    register(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
